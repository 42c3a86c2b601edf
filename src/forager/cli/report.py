"""Prints errors to standard error: what happened and what to do, with a traceback only under `--debug`.

With `--json`, an error is one JSON line, so that a program need not parse messages.
"""

import errno
import sys
import traceback
from collections.abc import Mapping

from forager.core.errors import ForagerError, StoreFull, StoreUnavailable
from forager.kit.cli.exit_codes import ExitCode, exit_code_for
from forager.kit.cli.render import sentence


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
        import orjson

        body = {"error": {"code": code.name.lower(), "exit_code": int(code), "message": message, "fields": fields}}
        sys.stderr.write(orjson.dumps(body).decode() + "\n")
        return code
    sys.stderr.write(f"forager: {message}\n")
    for found_field in fields:
        # A single field error is often the whole message already.
        if found_field["message"] not in message:
            sys.stderr.write(f"  {_where(found_field['field'], flags or {})}{found_field['message']}\n")
    return code


def _where(field: str, flags: Mapping[str, str]) -> str:
    """Return the option that sets this field; empty for an error about the whole request."""
    name, dot, inside = field.partition(".")
    if field == "body":
        return ""
    return f"{flags.get(name, name)}{dot}{inside}: "


def report_usage(message: str, command: str, *, as_json: bool) -> ExitCode:
    """Report a command line that cannot be parsed."""
    hint = f"See `{command} --help`."
    text = sentence(message)
    if as_json:
        import orjson

        body = {"error": {"code": "usage", "exit_code": int(ExitCode.USAGE), "message": f"{text} {hint}", "fields": []}}
        sys.stderr.write(orjson.dumps(body).decode() + "\n")
    else:
        sys.stderr.write(f"forager: {text} {hint}\n")
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
