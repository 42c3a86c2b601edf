"""How long until a page is crawled again: sooner after a change or a failure, later without one. Pure."""

FACTOR = 8
"""The interval stays between frequency / 8 and frequency × 8."""
DAY = 86_400
"""The frequency of a page for which none was given, in seconds."""
SOONER = 4
"""A crawl that failed comes back after a quarter of the frequency."""
MOST_CONFIRMED = 9
"""304s in a row after which a page is fetched whole: some sites answer 304 for ever."""


def next_interval(frequency: int, interval: int, *, changed: bool) -> int:
    """Seconds until the next crawl, given the last interval and whether price or availability changed since."""
    return bounded(frequency, interval / 2 if changed else interval * 1.5)


def after_failure(frequency: int, interval: int | None) -> int:
    """Seconds until a page that could not be fetched is tried again."""
    return bounded(frequency, min(interval or frequency, frequency / SOONER))


def bounded(frequency: int, seconds: float) -> int:
    """At least one second, so that the next crawl never lies in the past."""
    return max(1, round(min(max(seconds, frequency / FACTOR), frequency * FACTOR)))
