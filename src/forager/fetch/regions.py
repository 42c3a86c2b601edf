"""Properties of a browser in a country: its languages, and cities with time zone and position.

Keys are ISO 3166 codes in upper case, as in a proxy's region. A country that is missing gets the neutral region (UTC,
American English, no position), which claims nothing that could be contradicted.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    timezone: str
    latitude: float
    longitude: float


@dataclass(frozen=True, slots=True)
class Region:
    languages: tuple[str, ...]
    places: tuple[Place, ...]
    timezone: str = "UTC"
    """Used when there is no place."""


NEUTRAL = Region(("en-US",), ())


def _one(languages: str, timezone: str, latitude: float, longitude: float) -> Region:
    """A country with one time zone, by its capital or largest city."""
    return Region(tuple(languages.split()), (Place(timezone, latitude, longitude),))


REGIONS: Mapping[str, Region] = {
    "US": Region(
        ("en-US",),
        (
            Place("America/New_York", 40.7128, -74.0060),
            Place("America/Chicago", 41.8781, -87.6298),
            Place("America/Denver", 39.7392, -104.9903),
            Place("America/Phoenix", 33.4484, -112.0740),
            Place("America/Los_Angeles", 34.0522, -118.2437),
        ),
    ),
    "CA": Region(
        ("en-CA", "fr-CA"),
        (
            Place("America/Toronto", 43.6532, -79.3832),
            Place("America/Winnipeg", 49.8954, -97.1385),
            Place("America/Vancouver", 49.2827, -123.1207),
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
            Place("Australia/Sydney", -33.8688, 151.2093),
            Place("Australia/Brisbane", -27.4698, 153.0251),
            Place("Australia/Perth", -31.9523, 115.8613),
        ),
    ),
    "NZ": _one("en-NZ", "Pacific/Auckland", -36.8509, 174.7645),
}
