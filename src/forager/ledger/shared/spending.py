"""What a lane spends is kept by UTC day, as a number that people can read."""

from datetime import UTC, datetime


def day_and_hour(now: int) -> tuple[int, int]:
    """(YYYYMMDD, 0 to 23) of a moment in Unix milliseconds."""
    moment = datetime.fromtimestamp(now / 1000, UTC)
    return int(moment.strftime("%Y%m%d")), moment.hour


def before_month(day: int) -> int:
    """A number below all days of this day's month, and above all of the month before."""
    return day // 100 * 100
