"""PostgreSQL's text cannot hold NUL, and the web can: one page with one would otherwise refuse a whole group."""

NUL, INSTEAD = "\x00", "\ufffd"


def clean(text: str) -> str:
    return text.replace(NUL, INSTEAD) if NUL in text else text


def clean_or_none(text: str | None) -> str | None:
    return None if text is None else clean(text)
