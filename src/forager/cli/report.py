"""How an error reaches a person: on standard error, what happened and what to do, never a traceback unless asked.

With `--json` the same as one JSON line, so that a program need not read sentences.
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

        found = {"error": {"code": code.name.lower(), "exit_code": int(code), "message": message, "fields": fields}}
        sys.stderr.write(orjson.dumps(found).decode() + "\n")
        return code
    sys.stderr.write(f"forager: {message}\n")
    for found_field in fields:
        # A single field error is often the whole message already.
        if found_field["message"] not in message:
            sys.stderr.write(f"  {_where(found_field['field'], flags or {})}{found_field['message']}\n")
    return code


def _where(field: str, flags: Mapping[str, str]) -> str:
    """The option that fills this field; what is wrong with the whole has no name on a command line."""
    name, dot, inside = field.partition(".")
    if field == "body":
        return ""
    return f"{flags.get(name, name)}{dot}{inside}: "


def report_usage(message: str, command: str, *, as_json: bool) -> ExitCode:
    """A command line that cannot be read."""
    hint = f"See `{command} --help`."
    text = sentence(message)
    if as_json:
        import orjson

        found = {
            "error": {"code": "usage", "exit_code": int(ExitCode.USAGE), "message": f"{text} {hint}", "fields": []}
        }
        sys.stderr.write(orjson.dumps(found).decode() + "\n")
    else:
        sys.stderr.write(f"forager: {text} {hint}\n")
    return ExitCode.USAGE


def _said(error: BaseException) -> tuple[str, list[dict[str, str]]]:
    if isinstance(error, ForagerError):
        found = getattr(error, "fields", ())
        return _with_remedy(error), [{"field": each.field, "message": each.message} for each in found]
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"An error that Forager did not expect: {what}. Run it again with --debug and report what it shows.", []


def _with_remedy(error: ForagerError) -> str:
    """The database's own words say what happened; what to do about it is ours to say."""
    if not isinstance(error, StoreUnavailable) or "forager doctor" in error.message:
        return error.message.rstrip()
    return f"{sentence(error.message)} Run `forager doctor` to see what is wrong."
