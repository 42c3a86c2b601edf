"""Runs the benchmarks, all or those named: `python -m bench [NAME…] [--quick]`. It must never measure anything itself.

Each benchmark is a file of this folder and runs in a process of its own. Its last line is one JSON object,
`{"name": …, "ok": …, figures…}`; `ok` is true if its own targets held. Options are passed on to each. Without options,
the result is kept and published (`bench/support/published.py`).
"""

import json
import subprocess
import sys
import time
from pathlib import Path

from bench.support.published import keep

HERE = Path(__file__).resolve().parent
ALL = sorted(path.stem for path in HERE.glob("[a-z]*.py"))


def main(arguments: list[str]) -> int:
    options = [argument for argument in arguments if argument.startswith("-")]
    names = [argument for argument in arguments if not argument.startswith("-")]
    unknown = set(names) - set(ALL)
    if unknown:
        print(f"no benchmark is called {', '.join(sorted(unknown))}; there are: {', '.join(ALL)}", file=sys.stderr)
        return 2
    verdicts = {name: run(name, options) for name in names or ALL}
    if len(verdicts) > 1:
        print("\nall benchmarks:", *(f"  {name:12} {verdict}" for name, verdict in verdicts.items()), sep="\n")
    return 0 if set(verdicts.values()) <= {"ok"} else 1


def run(name: str, options: list[str]) -> str:
    """Run one benchmark, passing on what it prints as it comes; return `ok` or what is wrong."""
    last, began = "", time.monotonic()
    command = [sys.executable, "-m", f"bench.{name}", *options]
    with subprocess.Popen(command, cwd=HERE.parent, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line if line.strip() else last
    if process.returncode != 0:
        return f"failed with exit code {process.returncode}"
    try:
        result = json.loads(last)
        verdict = "ok" if result["ok"] is True else "targets missed"
    except (ValueError, KeyError, TypeError):
        return "broken: its last line is not the JSON object that every benchmark ends with"
    if not options:
        keep(name, result, time.monotonic() - began)
    return verdict


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
