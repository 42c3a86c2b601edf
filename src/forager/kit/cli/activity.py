"""Shows what a command is doing before there is a job to follow: a status line on a terminal, elsewhere a line from
time to time."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from forager.kit.cli import render

LINE_EVERY = 5.0
LOOK_EVERY = 0.1
"""Seconds between two updates of a status line: more often would only cost time."""


Show = Callable[[str], None]


@contextmanager
def activity(*, quiet: bool = False) -> Iterator[Show]:
    """Yield a function that shows a text. The status line is erased at the end; with `quiet` nothing is shown."""
    if quiet:
        yield lambda _: None
        return
    console = render.notes()
    if console.is_terminal:
        with console.status("") as status:
            yield _now_and_then(lambda text: status.update(render.plain(text)), LOOK_EVERY, first=True)
    else:
        yield _now_and_then(lambda text: console.print(text, markup=False, soft_wrap=True), LINE_EVERY, first=False)


def _now_and_then(show: Show, every: float, *, first: bool) -> Show:
    """Pass on a text if the last one is so many seconds old; `first`: the first one at once."""
    due = time.monotonic() + (0.0 if first else every)

    def maybe(text: str) -> None:
        nonlocal due
        if (now := time.monotonic()) >= due:
            due = now + every
            show(text)

    return maybe
