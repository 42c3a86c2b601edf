"""Prints errors to standard error: what happened and what to do, with a traceback only under `--debug`.

With `--json`, an error is one JSON line, so that a program need not parse messages.
"""

import errno
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import Any, cast

import typer

from forager.core.errors import ForagerError, StoreFull, StoreUnavailable
from forager.kit.cli.exit_codes import ExitCode, exit_code_for
from forager.kit.cli.json_text import json_text
from forager.kit.cli.render import sentence

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
    if name not in flags:
        return f"{field}: "
    if inside.isdigit():
        return f"{flags[name]}, entry {int(inside) + 1}: " if inside != "0" else f"{flags[name]}: "
    return f"{flags[name]} {inside}: " if inside else f"{flags[name]}: "


def _with_flags(message: str, flags: Mapping[str, str]) -> str:
    """Return a message of the API with `field` replaced by the option that sets it."""
    return re.sub(r"`(\w+)`", lambda quoted: flags.get(quoted[1], quoted[0]), message)


def _short(text: str) -> str:
    """Cut very long words, which are values that were given by mistake."""
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
