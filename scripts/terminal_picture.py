"""Writes docs/images/demo.svg from a recording of `forager demo` on a terminal.

Record it with `script -qc "stty cols 110; forager demo" demo.log`, then `python -m scripts.terminal_picture demo.log`.
"""

import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "images" / "demo.svg"
WIDTH = 110
FRAME = 6
"""Lines of the progress view: a bar for each of five pipelines, and the headline."""


def main(recording: Path) -> None:
    raw = recording.read_text(errors="replace").replace("\r\n", "\n").replace("\r", "")
    # The view is redrawn in place: keep the lines that stay (`kill -9 …`, `back after …`) and the last frame.
    redrawn = re.split(r"(?:\x1b\[2K\x1b\[1A|\x1b\[1A\x1b\[2K)+(?:\x1b\[2K)?", raw)
    first, last = redrawn[0].splitlines(), redrawn[-1].splitlines()
    stay = [line for part in redrawn[1:-1] for line in part.splitlines() if "kill -9" in line or "back after" in line]
    lines = [line for line in (*first[:-FRAME], *dict.fromkeys(stay), *last) if not line.startswith("Script ")]
    console = Console(record=True, width=WIDTH, file=sys.stderr, force_terminal=True)
    console.print("[bold]$ forager demo[/]")
    for line in lines:
        console.print(Text.from_ansi(re.sub(r"\x1b\[\?25[lh]", "", line)), soft_wrap=True)
    svg = console.export_svg(title="forager demo")
    PICTURE.write_text(re.sub(r"@font-face\s*\{.*?\}", "", svg, flags=re.DOTALL))  # loads nothing from elsewhere


if __name__ == "__main__":
    main(Path(sys.argv[1]))
