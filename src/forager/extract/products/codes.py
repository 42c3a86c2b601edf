"""The article number of a product where no markup has it. Pure."""

import re
from itertools import zip_longest
from urllib.parse import urlsplit

from forager.extract.document import Document
from forager.extract.products.findings import Findings
from forager.extract.text import one_line

_CODE = re.compile(r"(?=.*\d)[\w][\w./-]{2,29}")
_LABEL = (
    r"(?:sku|(?:item|article|product|model|part|art|catalog)[\s.-]*(?:number|no\.?|nr\.?|code|#|id)|mpn|artikelnummer"
    r"|art\.-?nr\.?|артикул|kód(?: produktu| zboží)?|référence|symbol)\s*[:#]"
)
_INLINE = re.compile(rf"{_LABEL}\s*([\w][\w./-]{{2,29}})", re.IGNORECASE)
"""`Item #: AB-123` in one line."""
_ALONE = re.compile(_LABEL, re.IGNORECASE)


def read_code(document: Document, findings: Findings) -> None:
    """Add the article number: an element that is called `sku`, a line with a label, or else the number that both the
    page's address and the file of its main picture have. Several different ones are of several products: none is added.
    """
    if "sku" in findings:
        return
    codes = _called(document) or _labelled(document) or _pictured(document)
    if len(codes) == 1:
        findings.add("sku", codes.pop(), "heuristic")


def _called(document: Document) -> set[str]:
    texts = (one_line(node.text()) for node in document.tree.css(".sku, #sku")[:20])
    return {text for text in texts if _CODE.fullmatch(text)}


def _labelled(document: Document) -> set[str]:
    codes = set()
    lines = document.shown[:2_000]
    for line, below in zip_longest(lines, lines[1:]):
        if len(line.text) > 120:
            continue
        if coded := _INLINE.search(line.text):
            codes.add(coded[1])
        elif below is not None and _ALONE.fullmatch(line.text) and _CODE.fullmatch(below.text):
            codes.add(below.text)
    return codes


def _pictured(document: Document) -> set[str]:
    picture = urlsplit(document.metas.get("og:image", "")).path.rpartition("/")[2].partition(".")[0]
    path = urlsplit(document.canonical or document.url).path
    return {picture} if re.fullmatch(r"\d{4,12}", picture) and picture in re.split(r"\D+", path) else set()
