"""The frame of a page: head, navigation, a body, and filler up to the wanted size. Built from pieces made once.

The filler is markup as shops have it around their product: cards with links, lists, paragraphs, a script. It names
no price, so that no reader takes one from it.
"""

from bisect import bisect_right
from collections.abc import Sequence
from html import escape
from itertools import accumulate

NAVIGATION = 12
_END = b"</main><footer><p>Fair trade since 1931.</p></footer></body></html>"
_BEGIN = "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
_COMMENT = b"<!--%b-->"


class Frame:
    """Renders pages of one shop."""

    def __init__(self, size: int, links: Sequence[tuple[str, str]]) -> None:
        """`links` are (address, text) of the navigation and of the cards of the filler."""
        menu = "".join(f"<li><a href='{address}'>{escape(text)}</a></li>" for address, text in links[:NAVIGATION])
        self._menu = f"<body><header><a href='/'>Home</a><nav><ul>{menu}</ul></nav></header><main>".encode()
        self._size = size
        blocks = [_block(number, links) for number in range(size // 300 + 1)]
        self._filler = b"".join(blocks)
        self._ends = [0, *accumulate(len(block) for block in blocks)]

    def page(self, title: str, body: str, head: str = "") -> bytes:
        """A whole page of exactly the wanted size, if what it says leaves room for that."""
        opening = f"{_BEGIN}<title>{escape(title)}</title>{head}</head>"
        begin = opening.encode() + self._menu + body.encode()
        room = self._size - len(begin) - len(_END)
        if room <= 0:
            return begin + _END
        end = self._ends[bisect_right(self._ends, room) - 1]
        rest = room - end
        padding = b" " * rest if rest < 7 else _COMMENT % (b"x" * (rest - 7))
        return b"".join((begin, self._filler[:end], padding, _END))


def _block(number: int, links: Sequence[tuple[str, str]]) -> bytes:
    address, text = links[number % len(links)] if links else ("/", "Home")
    if number % 9 == 4:
        return (
            b"<script>window.dataLayer=window.dataLayer||[];dataLayer.push({'event':'view','slot':%d});</script>"
            % number
        )
    return (
        f"<div class='card card--{number % 5}'><a class='card__link' href='{address}'><span>{escape(text)}</span></a>"
        f"<p class='card__text'>Made to last and easy to mend. Delivered within a week, {number} of many.</p>"
        f"<ul><li>Solid</li><li>Plain</li><li>Honest</li></ul></div>"
    ).encode()
