"""Runs the command line, and maps every way in which a command can end to an exit code. No other module does."""

import errno
import gc
import os
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from io import TextIOWrapper
from itertools import islice
from typing import Any, cast

import typer

from forager.cli.root import app
from forager.core.errors import ForagerError, StoreFull, StoreUnavailable
from forager.sdk.cli.invocation import ExitCode, Invocation, Reached, StoreUse, exit_code_for
from forager.sdk.cli.render import json_text, sentence

# Prints errors to standard error: the problem and the remedy, with a traceback only under `--debug`.
#
# With `--json`, an error is one JSON line, so that a program need not parse messages.


LONGEST_WORD = 1_000
"""Longer words are cut in messages: no path or URL that is meant is as long."""


def report(error: BaseException, *, as_json: bool, debug: bool, flags: Mapping[str, str] | None = None) -> ExitCode:
    """Write an error to standard error. `flags` has the options of the command by the fields that they fill."""
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        where = f" ({error.filename})" if error.filename else ""
        error = StoreFull(f"The disk is full{where}. Free some space, then run the command again.")
    code = exit_code_for(error)
    message, fields = _said(error)
    if as_json:
        body = {"error": {"code": code.name.lower(), "exit_code": int(code), "message": message, "fields": fields}}
        sys.stderr.write(json_text(body, sys.stderr) + "\n")
        return code
    known = flags or {}
    sys.stderr.write(_short(f"forager: {_with_flags(_headline(message, fields, known), known)}\n"))
    for found_field in fields:
        # A single field error is often the whole message already.
        if found_field["message"].lower() not in message.lower():
            where, what = _where(found_field["field"], known), _with_flags(found_field["message"], known)
            sys.stderr.write(_short(f"  {where}{what}\n"))
    return code


def _headline(message: str, fields: Sequence[Mapping[str, str]], flags: Mapping[str, str]) -> str:
    """Return the message; one that begins with a field's name begins with its option instead."""
    for each in fields:
        if message.startswith(start := f"{each['field']}: "):
            return _where(each["field"], flags) + message.removeprefix(start)
    return message


def _where(field: str, flags: Mapping[str, str]) -> str:
    """Return the option that sets this field; empty for an error about the whole request."""
    name, _, inside = field.replace("-", "_").partition(".")
    if field == "body":
        return ""
    if inside and (whole := flags.get(field.replace("-", "_"))):
        return f"{whole}: "
    if name not in flags:
        return f"{field}: "
    if inside.isdigit():
        return f"{flags[name]}, entry {int(inside) + 1}: " if inside != "0" else f"{flags[name]}: "
    return f"{flags[name]} {inside}: " if inside else f"{flags[name]}: "


def _with_flags(message: str, flags: Mapping[str, str]) -> str:
    """Return a message of the API with `field` replaced by the option that sets it."""
    return re.sub(r"`(\w+)`", lambda quoted: flags.get(quoted[1], quoted[0]), message)


def _short(text: str) -> str:
    """Cut very long words: such values are given by mistake."""
    return re.sub(rf"\S{{{LONGEST_WORD},}}", lambda word: word[0][: LONGEST_WORD // 2] + "…", text)


def usage_message(error: typer.TyperException) -> str:
    """Return what is wrong with the command line; empty if the help was shown instead.

    The parser validates values with pydantic, whose words are not for people.
    """
    if isinstance(error, typer.BadParameter) and type(error.__cause__).__name__ == "ValidationError":
        from forager.core.invalid import field_errors

        error.message = "; ".join(dict.fromkeys(each.message for each in field_errors(cast("Any", error.__cause__))))
    return error.format_message()


def report_usage(message: str, command: str, *, as_json: bool) -> ExitCode:
    """Report a command line that cannot be parsed."""
    hint = f"See `{command} --help`."
    text = sentence(message)
    if as_json:
        body = {"error": {"code": "usage", "exit_code": int(ExitCode.USAGE), "message": f"{text} {hint}", "fields": []}}
        sys.stderr.write(json_text(body, sys.stderr) + "\n")
    else:
        sys.stderr.write(_short(f"forager: {text} {hint}\n"))
    return ExitCode.USAGE


def _said(error: BaseException) -> tuple[str, list[dict[str, str]]]:
    if isinstance(error, ForagerError):
        fields = getattr(error, "fields", ())
        return _with_remedy(error), [{"field": each.field, "message": each.message} for each in fields]
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"Unexpected error: {what}. Run the command again with --debug, and report its output.", []


def _with_remedy(error: ForagerError) -> str:
    """Return the database's message with advice appended."""
    if not isinstance(error, StoreUnavailable) or "forager doctor" in error.message:
        return error.message.rstrip()
    return f"{sentence(error.message)} Run `forager doctor` to see what is wrong."


class Application:
    """`ApplicationHost` of the SDK, for the Forager that is installed here."""

    def settings(self, overrides: Mapping[str, object]) -> Any:
        from forager.app.config import load_settings

        return load_settings(overrides)

    def reach(
        self, settings: Any, *, debug: bool, store: StoreUse = "existing"
    ) -> AbstractAsyncContextManager[Reached]:
        from forager.client.connect import reach

        return reach(settings, debug=debug, store=store)

    def at_rest(self, settings: Any) -> AbstractContextManager[Any]:
        from forager.client.resting import resting_store

        return resting_store(settings)


def main() -> None:
    # Imported modules stay alive. Scanning them repeatedly for garbage took a seventh of a command's start-up time.
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
