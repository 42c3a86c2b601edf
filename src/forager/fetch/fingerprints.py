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

# Properties of a browser in a country: its languages, and cities with time zone and position.
#
# Keys are ISO 3166 codes in upper case, as in a proxy's region. A country that is missing gets the neutral region (UTC,
# American English, no position), without a claim that could be contradicted.


@dataclass(frozen=True, slots=True)
class RegionCity:
    timezone: str
    latitude: float
    longitude: float


@dataclass(frozen=True, slots=True)
class Region:
    languages: tuple[str, ...]
    places: tuple[RegionCity, ...]
    timezone: str = "UTC"
    """Used when there is no place."""


NEUTRAL = Region(("en-US",), ())


def _one(languages: str, timezone: str, latitude: float, longitude: float) -> Region:
    """Return a country with one time zone, by its capital or largest city."""
    return Region(tuple(languages.split()), (RegionCity(timezone, latitude, longitude),))


REGIONS: Mapping[str, Region] = {
    "US": Region(
        ("en-US",),
        (
            RegionCity("America/New_York", 40.7128, -74.0060),
            RegionCity("America/Chicago", 41.8781, -87.6298),
            RegionCity("America/Denver", 39.7392, -104.9903),
            RegionCity("America/Phoenix", 33.4484, -112.0740),
            RegionCity("America/Los_Angeles", 34.0522, -118.2437),
        ),
    ),
    "CA": Region(
        ("en-CA", "fr-CA"),
        (
            RegionCity("America/Toronto", 43.6532, -79.3832),
            RegionCity("America/Winnipeg", 49.8954, -97.1385),
            RegionCity("America/Vancouver", 49.2827, -123.1207),
        ),
    ),
    "MX": _one("es-MX", "America/Mexico_City", 19.4326, -99.1332),
    "BR": _one("pt-BR", "America/Sao_Paulo", -23.5505, -46.6333),
    "AR": _one("es-AR", "America/Argentina/Buenos_Aires", -34.6037, -58.3816),
    "CL": _one("es-CL", "America/Santiago", -33.4489, -70.6693),
    "CO": _one("es-CO", "America/Bogota", 4.7110, -74.0721),
    "PE": _one("es-PE", "America/Lima", -12.0464, -77.0428),
    "GB": _one("en-GB", "Europe/London", 51.5074, -0.1278),
    "IE": _one("en-IE", "Europe/Dublin", 53.3498, -6.2603),
    "DE": _one("de-DE", "Europe/Berlin", 52.5200, 13.4050),
    "AT": _one("de-AT", "Europe/Vienna", 48.2082, 16.3738),
    "CH": _one("de-CH fr-CH it-CH", "Europe/Zurich", 47.3769, 8.5417),
    "FR": _one("fr-FR", "Europe/Paris", 48.8566, 2.3522),
    "BE": _one("nl-BE fr-BE", "Europe/Brussels", 50.8503, 4.3517),
    "NL": _one("nl-NL", "Europe/Amsterdam", 52.3676, 4.9041),
    "LU": _one("fr-LU de-LU", "Europe/Luxembourg", 49.6116, 6.1319),
    "ES": _one("es-ES", "Europe/Madrid", 40.4168, -3.7038),
    "PT": _one("pt-PT", "Europe/Lisbon", 38.7223, -9.1393),
    "IT": _one("it-IT", "Europe/Rome", 41.9028, 12.4964),
    "DK": _one("da-DK", "Europe/Copenhagen", 55.6761, 12.5683),
    "SE": _one("sv-SE", "Europe/Stockholm", 59.3293, 18.0686),
    "NO": _one("nb-NO", "Europe/Oslo", 59.9139, 10.7522),
    "FI": _one("fi-FI", "Europe/Helsinki", 60.1699, 24.9384),
    "PL": _one("pl-PL", "Europe/Warsaw", 52.2297, 21.0122),
    "CZ": _one("cs-CZ", "Europe/Prague", 50.0755, 14.4378),
    "SK": _one("sk-SK", "Europe/Bratislava", 48.1486, 17.1077),
    "HU": _one("hu-HU", "Europe/Budapest", 47.4979, 19.0402),
    "RO": _one("ro-RO", "Europe/Bucharest", 44.4268, 26.1025),
    "BG": _one("bg-BG", "Europe/Sofia", 42.6977, 23.3219),
    "GR": _one("el-GR", "Europe/Athens", 37.9838, 23.7275),
    "HR": _one("hr-HR", "Europe/Zagreb", 45.8150, 15.9819),
    "UA": _one("uk-UA", "Europe/Kyiv", 50.4501, 30.5234),
    "LT": _one("lt-LT", "Europe/Vilnius", 54.6872, 25.2797),
    "LV": _one("lv-LV", "Europe/Riga", 56.9496, 24.1052),
    "EE": _one("et-EE", "Europe/Tallinn", 59.4370, 24.7536),
    "TR": _one("tr-TR", "Europe/Istanbul", 41.0082, 28.9784),
    "IL": _one("he-IL", "Asia/Jerusalem", 32.0853, 34.7818),
    "AE": _one("ar-AE en-AE", "Asia/Dubai", 25.2048, 55.2708),
    "SA": _one("ar-SA", "Asia/Riyadh", 24.7136, 46.6753),
    "EG": _one("ar-EG", "Africa/Cairo", 30.0444, 31.2357),
    "ZA": _one("en-ZA", "Africa/Johannesburg", -26.2041, 28.0473),
    "NG": _one("en-NG", "Africa/Lagos", 6.5244, 3.3792),
    "KE": _one("en-KE", "Africa/Nairobi", -1.2921, 36.8219),
    "IN": _one("en-IN hi-IN", "Asia/Kolkata", 28.6139, 77.2090),
    "PK": _one("en-PK ur-PK", "Asia/Karachi", 24.8607, 67.0011),
    "BD": _one("bn-BD", "Asia/Dhaka", 23.8103, 90.4125),
    "TH": _one("th-TH", "Asia/Bangkok", 13.7563, 100.5018),
    "VN": _one("vi-VN", "Asia/Ho_Chi_Minh", 10.8231, 106.6297),
    "ID": _one("id-ID", "Asia/Jakarta", -6.2088, 106.8456),
    "MY": _one("ms-MY en-MY", "Asia/Kuala_Lumpur", 3.1390, 101.6869),
    "SG": _one("en-SG", "Asia/Singapore", 1.3521, 103.8198),
    "PH": _one("en-PH", "Asia/Manila", 14.5995, 120.9842),
    "HK": _one("zh-HK en-HK", "Asia/Hong_Kong", 22.3193, 114.1694),
    "TW": _one("zh-TW", "Asia/Taipei", 25.0330, 121.5654),
    "JP": _one("ja-JP", "Asia/Tokyo", 35.6762, 139.6503),
    "KR": _one("ko-KR", "Asia/Seoul", 37.5665, 126.9780),
    "AU": Region(
        ("en-AU",),
        (
            RegionCity("Australia/Sydney", -33.8688, 151.2093),
            RegionCity("Australia/Brisbane", -27.4698, 153.0251),
            RegionCity("Australia/Perth", -31.9523, 115.8613),
        ),
    ),
    "NZ": _one("en-NZ", "Pacific/Auckland", -36.8509, 174.7645),
}


LISTED = date(2026, 11, 16)
"""Date of the last update of the list. Update it at least once a year."""

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
