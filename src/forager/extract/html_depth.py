"""How deep a parser nests, counted from tags alone.

`Depth` follows the rules by which HTML5 parsers open and close elements. It errs on the safe side: an end tag that
might close nothing closes nothing here, so a sloppy page may be counted deeper than it is, and a hostile one is not
counted flatter by more than a small factor (a property test compares it with the real parser). It never looks at text
and keeps only the names of what is open.
"""

MOST_DEPTH = 400
"""Browsers stop at 512."""
MOST_REOPENED = 150_000
"""Formatting elements that a page may make the parser open again, in every block in which they were not closed."""
MOST_ONCE = 20
"""A second <body> gives its attributes to the first, which compares them with all that are there."""
_FAR = 30
_BLOCKS_REPAIRED = 3
"""A parser moves a formatting element out of eight blocks at most, some of which are not on our stack."""

_VOID = frozenset(
    "area base br col embed hr img input link meta param source track wbr basefont bgsound frame keygen image".split()
)
# An element of these ends where the next of its kind begins, or its table ends; they nest only in what is counted.
_IMPLIED = frozenset("p option tr td th tbody thead tfoot html head body colgroup caption".split())
_ITEMS = frozenset(("li", "dd", "dt"))
_HEADINGS = frozenset("h1 h2 h3 h4 h5 h6".split())
_FORMATTING = frozenset("b big code em font i nobr s small strike strong tt u".split())
# An end tag of an element that is not special closes whatever is open in it, up to the first special one.
_SPECIAL = _ITEMS | frozenset(
    "address applet article aside blockquote button center details dialog dir div dl fieldset figcaption figure footer "
    "form h1 header hgroup listing main marquee menu nav noscript object ol plaintext pre search section select "
    "summary table template ul svg math mi mo mn ms mtext annotation-xml foreignobject desc "
    "ruby rb rt rtc rp".split()
)
# The next item of a list ends the one before it through these as well.
_NOT_IN_ITEM = _SPECIAL - {"div", "address"}
# One of these ends another one that is open, in one way or another.
_ALONE = frozenset(("a", "nobr", "button", "select", "h1"))
_ENDED = "†"
"""Stands for an element that may be over: no end tag closes it, and it may be closed with what it is in."""
# Behind these, an end tag does not reach the formatting elements that were opened before.
_HIDING = frozenset("table td th caption object applet marquee template select svg math".split())
_FOREIGN = frozenset(("svg", "math"))
# What an <svg> cannot hold ends it; inside of the last three is HTML again.
_LEAVES_DRAWING = frozenset(
    "b big blockquote body br center code dd div dl dt em embed h1 head hr i img li listing menu meta "
    "nobr ol p pre ruby s small span strong strike sub sup table tt u ul var font foreignobject desc title".split()
)
# What the end tags of blocks do not reach over; the others stop at any special element.
_BLOCKS = (
    "address article aside blockquote button center details dialog dir div dl fieldset figcaption figure footer header "
    "hgroup listing main menu nav ol pre search section summary ul"
)
_SCOPES = _HIDING | frozenset("mi mo mn ms mtext annotation-xml foreignobject desc".split())
_STOPS = {
    **dict.fromkeys(_BLOCKS.split(), _SPECIAL - _ITEMS),
    "li": _SCOPES | {"ul", "ol"},
    "dd": _SCOPES,
    "dt": _SCOPES,
}
_ONCE = frozenset(("html", "body"))
# Their content is not markup, so they begin and end between two tags and are never on the stack.
_RAW = frozenset("script style textarea title xmp iframe noembed noframes".split())


class Depth:
    """What is open while the tags of a page go by, never counted too low."""

    def __init__(self) -> None:
        self._stack: list[str] = []
        self._walls: list[int] = []
        """For each open element, how many hiding elements had been opened before it."""
        self._wall = 0
        self._active: dict[str, list[int]] = {}
        """Formatting elements that may still be opened again, each with its number of hiding elements."""
        self._piled = 0
        self._reopened = 0
        self._once = 0
        self._foreign = 0
        self._paragraph: int | None = None
        """How many elements were open when the last <p> began that was not closed."""
        self._choosing = False
        """In a <select> with nothing but options so far: there, <optgroup> ends the one before it."""
        self.drawing = False
        """Surely inside <svg>, where `/>` closes an element."""

    @property
    def foreign(self) -> bool:
        """Maybe inside <svg> or <math>, where other rules hold."""
        return self._foreign > 0

    def open(self, name: str, *, itself_closed: bool) -> bool:
        """Count a start tag; False if the page goes beyond a limit."""
        if name in _HEADINGS:
            name = "h1"
        self._reopened += self._piled
        if name in _FORMATTING:
            self._active.setdefault(name, []).append(self._wall)
            self._piled += 1
        elif name in _ONCE:
            self._once += 1
        if self._reopened > MOST_REOPENED or self._once > MOST_ONCE or name == "frameset":
            return False
        if self._foreign:
            return self._open_in_foreign(name, itself_closed)
        if self._choosing and name in ("option", "optgroup"):
            return True
        self._choosing = name == "select"
        if name == "p" or (self._paragraph is not None and name in _SPECIAL):
            self._end_paragraph(name)
        if name in _VOID or name in _IMPLIED:
            self._wall += name in _HIDING
            return True
        if name in _ITEMS:
            self._end_item(name)
        elif name in _ALONE or name == "table":
            self._end_others(name)
        elif name in _FOREIGN:
            self._foreign += 1
            self.drawing = name == "svg"
            if itself_closed:
                self._foreign -= 1
                self.drawing = False
                return True
        return self._push(name)

    def close(self, name: str) -> None:
        """Count an end tag: it closes its element if nothing that is open may prevent that."""
        if name in _HEADINGS:
            name = "h1"
        self._reopened += self._piled
        if name in _FORMATTING:
            self._end_formatting(name)
        elif name == "p":
            self._paragraph = None
        elif name in _RAW:
            return
        if self.drawing:
            self._close_in_drawing(name)
        elif self._foreign:
            if self._stack[-1] == name:
                self._pop(1)
        else:
            self._choosing = self._choosing and name in ("option", "optgroup")
            self._close_in_html(name)

    def raw(self) -> None:
        """Count an element whose content is not markup."""
        self._choosing = False

    def _close_in_html(self, name: str) -> None:
        stops = _STOPS.get(name, _SPECIAL)
        for back, each in enumerate(reversed(self._stack[-_FAR:]), 1):
            if each == name:
                if name == "form" or self._is_kept_by_paragraph(name, len(self._stack) - back):
                    self._stack[-back] = _ENDED
                else:
                    self._pop(back)
                return
            if each in stops:
                return

    def _is_kept_by_paragraph(self, name: str, index: int) -> bool:
        """Whether an end tag may not reach its element, because of a paragraph that began in it."""
        if self._paragraph is None or self._paragraph <= index:
            return False
        return name not in _STOPS and name not in _FORMATTING and name != "a"

    def _open_in_foreign(self, name: str, itself_closed: bool) -> bool:
        """Elements that are empty or end by themselves in HTML hold others in a drawing or a formula."""
        if name in _LEAVES_DRAWING:
            self.drawing = False
        if itself_closed and (self.drawing or name in _VOID):
            return True
        if name in _VOID and name in _LEAVES_DRAWING:
            return True
        if name in _FOREIGN:
            self._foreign += 1
        return self._push(name)

    def _close_in_drawing(self, name: str) -> None:
        """Inside <svg> an end tag closes whatever is open in its element; any other may have ended the drawing."""
        for back, each in enumerate(reversed(self._stack), 1):
            if each == name:
                self._pop(back)
                self.drawing = self.drawing and each != "svg"
                return
            if each == "svg":
                break
        self.drawing = False
        for back, each in enumerate(reversed(self._stack), 1):
            if each == name:
                self._stack[-back] = _ENDED
                return

    def _end_paragraph(self, name: str) -> None:
        """A block ends the paragraph that it stands in, if there is one, with everything that is open in that."""
        if self._paragraph is not None:
            for back, each in enumerate(reversed(self._stack), 1):
                if each in _SPECIAL:
                    break
                self._stack[-back] = _ENDED
        self._paragraph = len(self._stack) if name == "p" else None

    def _end_item(self, name: str) -> None:
        ended = ("li",) if name == "li" else ("dd", "dt")
        for back, each in enumerate(reversed(self._stack[-_FAR:]), 1):
            if each in ended:
                self._pop(back)
                return
            if each in _NOT_IN_ITEM:
                return

    def _end_others(self, name: str) -> None:
        """A table ends another one unless it stands in a cell of it."""
        if name in self._stack:
            for number, each in enumerate(self._stack):
                if each == name and (name != "table" or self._walls[number] + 1 == self._wall):
                    self._stack[number] = _ENDED

    def _end_formatting(self, name: str) -> None:
        """The last one of its name is over, unless something hides it from its end tag."""
        active = self._active.get(name)
        if not active or active[-1] != self._wall or self._foreign:
            return
        blocks = 0
        for each in reversed(self._stack[-_FAR:]):
            if each == name:
                break
            blocks += each in _SPECIAL
            if blocks > _BLOCKS_REPAIRED:
                return
        active.pop()
        self._piled -= 1

    def _push(self, name: str) -> bool:
        self._stack.append(name)
        self._walls.append(self._wall)
        self._wall += name in _HIDING
        return len(self._stack) <= MOST_DEPTH

    def _pop(self, count: int) -> None:
        if self._foreign:
            self._foreign -= sum(each in _FOREIGN for each in self._stack[-count:])
        self._wall = self._walls[-count]
        del self._stack[-count:], self._walls[-count:]
