"""The `forager` command, as `python -m forager` and as the installed script.

`up` and `worker` need a second or two to import what they run. A SIGTERM in that time must not kill them: it is
remembered here, before anything heavy is imported, and obeyed as soon as the process could stop in order
(`sdk/cli/invocation.py`).
"""

import signal
import sys

LONG_RUNNING = frozenset({"up", "worker"})


class EarlyStop:
    """A signal handler that keeps the first signal it got."""

    first: int | None = None

    def __call__(self, number: int, _: object) -> None:
        self.first = self.first or number


def main() -> None:
    if not LONG_RUNNING.isdisjoint(sys.argv[1:]):
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, EarlyStop())
    from forager.cli import main as cli_main

    cli_main()


if __name__ == "__main__":
    main()
