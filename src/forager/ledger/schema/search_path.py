"""The `search_path` in a database's URL: it leads connections to the schema of the tables, whose statements name none.

A connection pooler refuses it as a start-up parameter, so it is taken out of the URL where a transaction can set it.
"""

from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

_SEARCH_PATH = "search_path"


def in_schema(url: str, schema: str) -> str:
    """Return the URL with this search path added."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(query=urlencode([*parse_qsl(parts.query), (_SEARCH_PATH, schema)])))


def split_search_path(url: str) -> tuple[str, str | None]:
    """Return the URL without its search path, and that path; None if the URL has none."""
    parts = urlsplit(url)
    query = parse_qsl(parts.query)
    path = dict(query).get(_SEARCH_PATH)
    if path is None:
        return url, None
    return urlunsplit(parts._replace(query=urlencode([pair for pair in query if pair[0] != _SEARCH_PATH]))), path
