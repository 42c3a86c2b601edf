"""Runs the command line, and maps every way in which a command can end to an exit code. No other module does."""

import gc
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from itertools import islice

import typer

from forager.cli.host import Application
from forager.cli.report import report, report_usage, usage_message
from forager.cli.root import app
from forager.kit.cli.exit_codes import ExitCode
from forager.kit.cli.invocation import Invocation


def main() -> None:
    # What a command imports stays alive. Looking through it for garbage again and again took a seventh of the time that
    # a command needs to start.
    gc.set_threshold(50_000, 20, 20)
    open_closed_streams()
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # under LANG=C a name such as Café must not end the command
    sys.exit(run(sys.argv[1:]))


def open_closed_streams() -> None:
    """Send to nowhere what has nowhere to go (`>&-`, some service managers). Otherwise the next socket would get the
    number of the closed stream, and whatever is printed would be sent to it."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def run(arguments: Sequence[str]) -> int:
    """Run one command line. Returns its exit code."""
    ordered = options_first(arguments)
    given = Invocation(Application(), tuple(ordered))
    try:
        ended = app(args=ordered, prog_name="forager", standalone_mode=False, obj=given)
        sys.stdout.flush()
    except typer.TyperException as error:
        if not (message := usage_message(error)):
            return ExitCode.USAGE  # a group without a command: its help was shown
        as_json = given.as_json or "--json" in arguments
        context = getattr(error, "ctx", None)
        return report_usage(message, context.command_path if context else "forager", as_json=as_json)
    except (KeyboardInterrupt, typer.Abort):
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader closed our output (`| head`). Without this, Python would print another error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    except Exception as error:  # noqa: BLE001 - the outermost handler: the user gets a message, not a traceback
        return report(error, as_json=given.as_json, debug=given.debug, flags=given.flags)
    return int(ended) if isinstance(ended, int) else ExitCode.OK


def options_first(arguments: Sequence[str]) -> list[str]:
    """Move `--home` and `--debug`, which may appear anywhere, before the command, where the parser expects them."""
    first: list[str] = []
    rest: list[str] = []
    given = iter(arguments)
    for word in given:
        if word == "--":
            return [*first, *rest, word, *given]
        if word == "--debug" or word.startswith("--home="):
            first.append(word)
        elif word == "--home":
            first += [word, *islice(given, 1)]
        else:
            rest.append(word)
    return [*first, *rest]
