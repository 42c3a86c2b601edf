"""URLs in one form: https, without what only tracks. Pure."""

import re
from urllib.parse import parse_qsl, quote, urljoin, urlsplit, urlunsplit

from w3lib.url import safe_url_string

from forager.core.hosts import one_spelling

LONGEST = 4_096
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):(?!\d)")
_TRACKING_PREFIXES = (
    "utm_",
    "mtm_",
    "matomo_",
    "pk_",
    "piwik_",
    "hsa_",
    "oly_",
    "vero_",
    "trk_",
    "__hs",
    "_hs",
    "itm_",
)
_TRACKING = frozenset(
    "fbclid gclid gclsrc dclid wbraid gbraid msclkid yclid ysclid twclid ttclid tduid li_fat_id lipi igshid igsh "
    "mc_cid mc_eid mkt_tok _ga _gl _gac s_cid s_kwcid ef_id epik irclickid irgwc cjevent cjdata rb_clickid wickedid "
    "sc_cid srsltid _openstat yadclid zanpid admitad_uid trk trkinfo trackingid originalsubdomain refid spm scm pvid "
    "guccounter guce_referrer guce_referrer_sig ncid cmpid campaignid adgroupid".split()
)
# Domain names that end in two letters of a country, of which the first part says what kind they are.
_SECOND_LEVEL = frozenset("ac co com edu gob gov gouv go ltd mil ne net nhs nom or org plc sch".split())


def clean_url(value: str) -> str:
    """An https URL without tracking parameters; ValueError says why anything else is not one."""
    text = re.sub(r"[\t\n\r]", "", value.strip())
    if len(text) > LONGEST:
        raise ValueError("the URL is too long")
    scheme = _SCHEME.match(text)
    if text.startswith("//"):
        text = "https:" + text
    elif scheme is None:
        text = "https://" + text
    elif scheme[1].lower() not in ("http", "https"):
        raise ValueError(f"a {scheme[1]}: address is not a web page")
    parts = urlsplit(safe_url_string(text))
    host = one_spelling(parts.hostname or "")
    if not _is_host(host):
        raise ValueError("the URL has no host")
    if ":" in host:
        host = f"[{host}]"
    port = f":{parts.port}" if parts.port and parts.port not in (80, 443) else ""
    path = urlsplit(urljoin("https://host/", parts.path)).path if "/." in parts.path else parts.path
    return urlunsplit(("https", host + port, path or "/", _kept(parts.query), parts.fragment))


def is_tracking(name: str) -> bool:
    name = name.lower()
    return name in _TRACKING or name.startswith(_TRACKING_PREFIXES)


def same_site(one: str, other: str) -> bool:
    """Whether two URLs lie in one site: the same host, or hosts of one registered domain as far as a name shows it."""
    try:
        return site_of(one) == site_of(other)
    except ValueError:
        return False


def site_of(url: str) -> str:
    host = one_spelling(urlsplit(url).hostname or "")
    labels = host.split(".")
    if len(labels) < 3 or labels[-1].isdigit() or ":" in host:
        return host
    short = len(labels[-1]) == 2 and labels[-2] in _SECOND_LEVEL
    return ".".join(labels[-3:] if short else labels[-2:])


def _is_host(host: str) -> bool:
    return bool(host) and (":" in host or re.fullmatch(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?", host) is not None)


def _kept(query: str) -> str:
    """The query as it stands, without the parameters that track: order, blanks and repeats may mean something."""
    parts = [part for part in query.split("&") if part and not is_tracking(parameter_name(part))]
    return quote("&".join(parts), safe="%/?:@!$&'()*+,;=~-._[]{}|^`\\")


def parameter_name(part: str) -> str:
    """The decoded name of one `name=value` of a query."""
    pairs = parse_qsl(part.partition("=")[0] + "=x", max_num_fields=5)
    return pairs[0][0].strip() if pairs else ""
