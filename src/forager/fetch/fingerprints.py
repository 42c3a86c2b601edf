"""Browser fingerprints: user agent, client hints, screen, language, location. They are consistent and recent, and two
in a row always differ.

Only browsers of the Chromium family are claimed, in versions near the engine's own: a page could detect any other claim
by the engine's features. Every entry is a released build with its release date; a test fails if one is more than a year
older than the list.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from random import Random
from typing import Any, Literal

from forager.fetch.regions import NEUTRAL, REGIONS, Region

LISTED = date(2026, 11, 16)
"""When the list was last updated. Update it at least once a year."""

Vendor = Literal["Google Chrome", "Microsoft Edge"]
System = Literal["Windows", "macOS", "Linux"]

WIDTHS, HEIGHTS = (1280, 1920), (720, 1080)
DELAY = (0.5, 2.0)
"""Seconds between two actions of a visit, unless the lane's policy sets another range."""


@dataclass(frozen=True, slots=True)
class Release:
    version: str
    """The full version, as in the client hint; the user agent shows only its first part."""
    chromium: str
    released: date

    @property
    def major(self) -> str:
        return self.version.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Agent:
    """One browser of one release on one system."""

    vendor: Vendor
    system: System
    release: Release

    @property
    def user_agent(self) -> str:
        suffix = f" Edg/{self.release.major}.0.0.0" if self.vendor == "Microsoft Edge" else ""
        token = _SYSTEMS[self.system].token
        return (
            f"Mozilla/5.0 ({token}) AppleWebKit/537.36 (KHTML, like Gecko) "
            f"Chrome/{self.release.major}.0.0.0 Safari/537.36{suffix}"
        )

    @property
    def platform(self) -> str:
        """`navigator.platform`."""
        return _SYSTEMS[self.system].platform

    def client_hints(self) -> dict[str, Any]:
        """`navigator.userAgentData` and the Sec-CH-UA headers, as the DevTools protocol takes them."""
        system = _SYSTEMS[self.system]
        return {
            "brands": self._brands(full=False),
            "fullVersionList": self._brands(full=True),
            "platform": self.system,
            "platformVersion": system.version,
            "architecture": system.architecture,
            "bitness": "64",
            "model": "",
            "mobile": False,
            "wow64": False,
        }

    def _brands(self, *, full: bool) -> list[dict[str, str]]:
        """Return the brands: the vendor, the engine, and a meaningless name that keeps servers from relying on the
        list."""
        greased = "99.0.0.0" if full else "99"
        return [
            {"brand": "Not/A)Brand", "version": greased},
            {"brand": self.vendor, "version": self.release.version if full else self.release.major},
            {"brand": "Chromium", "version": self.release.chromium if full else self.release.major},
        ]


@dataclass(frozen=True, slots=True)
class _Platform:
    token: str
    platform: str
    version: str
    architecture: str
    screens: tuple[tuple[int, int], ...]
    """Size of the page area: the screen without the browser's own bars."""


_SYSTEMS: Mapping[System, _Platform] = {
    "Windows": _Platform(
        "Windows NT 10.0; Win64; x64",
        "Win32",
        "15.0.0",
        "x86",
        ((1280, 720), (1366, 768), (1440, 900), (1536, 864), (1600, 900), (1680, 1050), (1920, 945), (1920, 1080)),
    ),
    "macOS": _Platform(
        "Macintosh; Intel Mac OS X 10_15_7",
        "MacIntel",
        "15.6.0",
        "arm",
        ((1280, 800), (1440, 789), (1440, 900), (1512, 861), (1680, 1050), (1728, 992), (1920, 1080)),
    ),
    "Linux": _Platform(
        "X11; Linux x86_64",
        "Linux x86_64",
        "",
        "x86",
        ((1280, 1024), (1366, 768), (1600, 900), (1680, 1050), (1920, 977), (1920, 1080)),
    ),
}

_CHROME = tuple(
    Release(version, version, released)
    for version, released in (
        ("145.0.7632.117", date(2026, 2, 23)),
        ("146.0.7680.80", date(2026, 3, 13)),
        ("147.0.7727.138", date(2026, 4, 28)),
        ("148.0.7778.179", date(2026, 5, 19)),
        ("149.0.7827.103", date(2026, 6, 8)),
        ("150.0.7871.46", date(2026, 6, 30)),
    )
)
_EDGE = (Release("148.0.3967.97", "148.0.7778.179", date(2026, 6, 4)),)

AGENTS: tuple[Agent, ...] = (
    *(Agent("Google Chrome", system, release) for release in _CHROME for system in _SYSTEMS),
    *(Agent("Microsoft Edge", system, release) for release in _EDGE for system in _SYSTEMS),
)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    agent: Agent
    viewport: tuple[int, int]
    timezone: str
    language: str
    """The browser's preferred language, such as de-DE."""
    geolocation: tuple[float, float] | None
    """Latitude and longitude; without a region no position is claimed."""

    @property
    def user_agent(self) -> str:
        return self.agent.user_agent

    @property
    def shown(self) -> tuple[object, ...]:
        """Return the visible parts, for comparison; a position that differs by a kilometre does not count."""
        return self.user_agent, self.viewport, self.timezone, self.language

    @property
    def accept_language(self) -> str:
        """The languages in order of preference: this one, its base language, English. The browser adds the weights."""
        return ",".join(dict.fromkeys((self.language, self.language.partition("-")[0], "en-US", "en")))


class Fingerprints:
    """Generates fingerprints. Randomness is injected, so that a run can be repeated."""

    def __init__(self, random: Random | None = None, agents: tuple[Agent, ...] = AGENTS) -> None:
        self._random = random or Random()  # noqa: S311 - a disguise, not a secret
        self._agents = agents
        self._last: Fingerprint | None = None

    def next(self, region: str | None = None) -> Fingerprint:
        """Return a fingerprint for a proxy's region (a country code), different from the one before."""
        while True:
            made = self._made(REGIONS.get((region or "").upper(), NEUTRAL))
            if self._last is None or made.shown != self._last.shown:
                self._last = made
                return made

    def _made(self, region: Region) -> Fingerprint:
        agent = self._random.choice(self._agents)
        place = self._random.choice(region.places) if region.places else None
        return Fingerprint(
            agent=agent,
            viewport=self._random.choice(_SYSTEMS[agent.system].screens),
            timezone=place.timezone if place else region.timezone,
            language=self._random.choice(region.languages),
            geolocation=self._near(place.latitude, place.longitude) if place else None,
        )

    def _near(self, latitude: float, longitude: float) -> tuple[float, float]:
        """Return a position within a few kilometres of a city's centre, so that not all visitors share one point."""
        return (
            round(latitude + self._random.uniform(-0.02, 0.02), 4),
            round(longitude + self._random.uniform(-0.02, 0.02), 4),
        )


def action_delay(random: Random, between: tuple[float, float] | None = None) -> float:
    """Return the seconds to wait before the next action: from the policy's range, else half a second to two."""
    least, most = between or DELAY
    return min(max(random.uniform(least, most), least), most)
