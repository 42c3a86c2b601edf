"""Records as files: JSON lines and CSV. Pure. A cell that a spreadsheet would run as a formula is made text (S17)."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from forager.kit.http.envelope import encoded

RISKY = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""A cell of text that begins so is code to some spreadsheet; a leading apostrophe makes it text."""


def json_lines(rows: Sequence[Mapping[str, Any]]) -> bytes:
    return b"".join(encoded(row) + b"\n" for row in rows)


def csv_lines(rows: Sequence[Mapping[str, Any]], *, header: bool) -> bytes:
    """The columns are those of the first row; rows of one kind have the same ones."""
    text = io.StringIO()
    writer = csv.writer(text)
    if header and rows:
        writer.writerow([harmless(name) for name in rows[0]])
    writer.writerows([_cell(value) for value in row.values()] for row in rows)
    return text.getvalue().encode()


def harmless(text: str) -> str:
    """Also behind blanks, which some spreadsheets trim before they look."""
    return f"'{text}" if text.startswith(RISKY) or text.lstrip().startswith(RISKY) else text


def _cell(value: Any) -> Any:
    """Numbers stay numbers: a longitude of -112 is no formula."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return harmless(value.replace("\0", ""))
    text = encoded(value).decode()
    return text.strip('"') if text.startswith('"') else text
