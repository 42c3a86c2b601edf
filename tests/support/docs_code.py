"""The code of a page in docs/, to be run as it is there."""

import re
import sys
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).parents[2] / "docs"


def code_on(page: str, word: str) -> str:
    """The one block of Python on a page that has this word in it."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)
    (code,) = [block for block in blocks if word in block]
    return str(code)


def module_on(page: str, word: str, name: str) -> ModuleType:
    """Return that block as a module of this name."""
    if name not in sys.modules:
        module = ModuleType(name)
        sys.modules[name] = module
        exec(compile(code_on(page, word), f"docs/{page}", "exec"), module.__dict__)
    return sys.modules[name]
