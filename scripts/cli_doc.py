"""Writes docs/cli.md from the tree of commands, so that no command or option is without a word.

`python -m scripts.cli_doc` writes it; a test compares.
"""

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from forager.cli.root import app
from forager.sdk.cli.invocation import ExitCode

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"
EXAMPLE = "Example: "
UNDOCUMENTED = frozenset({"help", "install_completion", "show_completion"})
HEAD = """# The `forager` command

Written from the commands themselves by `python -m scripts.cli_doc`.

Every command but `demo`, `sandbox` and `doctor` works on the store of the data folder (`--home`, `FORAGER_HOME`,
`.forager`). While `forager up` runs there, commands go through its API; otherwise they open the store themselves. On
PostgreSQL (`FORAGER_DATABASE_URL`) any number of processes share the store. `FORAGER_API_URL` and `FORAGER_SERVICE_KEY`
send commands to a Forager on another machine.

Results go to standard output; progress, remarks and errors to standard error. With `--json` a command prints what the
API says and nothing else, and an error is one JSON line: `{"error": {"code", "exit_code", "message", "fields"}}`.

`up` and `worker` stop on Ctrl-C or SIGTERM: in-flight tasks get `FORAGER_SHUTDOWN_SECONDS` to finish, the rest goes
back to the queue. A second signal puts everything back at once. Either way nothing is lost.
"""


def render() -> str:
    root = get_command(app)
    parts = [
        HEAD,
        _exit_codes(),
        "## Options of every command\n\n`--home` and `--debug` may stand anywhere.\n\n" + _options(root),
    ]
    parts += [_section(path, command) for path, command in commands(root)]
    return "\n".join(parts)


def commands(root: Any) -> Iterator[tuple[str, Any]]:
    """Every command that does something, with the words that call it."""
    for name, shown in root.commands.items():
        command = shown.loaded() if hasattr(shown, "loaded") else shown
        if hasattr(command, "commands"):
            yield from ((f"{name} {below}", found) for below, found in commands(command))
        else:
            yield name, command


def parameters(command: Any) -> list[Any]:
    return [each for each in command.params if each.name not in UNDOCUMENTED]


def _exit_codes() -> str:
    rows = [f"| {int(code)} | {code.about} |" for code in ExitCode]
    return "\n".join(["## Exit codes", "", "| code | meaning |", "|---|---|", *rows, ""])


def _section(path: str, command: Any) -> str:
    words = " ".join(f"[{_name(p)}]" if not p.required else _name(p) for p in parameters(command) if _is_argument(p))
    usage = " ".join(part for part in ("forager", path, words, "[options]") if part)
    paragraphs = (command.help or "").strip().split("\n\n")
    text = "\n\n".join(textwrap.fill(each, 120) for each in paragraphs if not each.startswith(EXAMPLE))
    shown = f"\n{each}" if (each := example(command)) else ""
    return f"## `forager {path}`\n\n{text}\n\n```\n{usage}{shown}\n```\n\n{_options(command)}"


def example(command: Any) -> str | None:
    """Return the command line that the help of a command ends with."""
    last = (command.help or "").strip().split("\n\n")[-1]
    return " ".join(last.removeprefix(EXAMPLE).split()) if last.startswith(EXAMPLE) else None


def _options(command: Any) -> str:
    rows = [f"| {_names(each)} | {_about(each)} |" for each in parameters(command)]
    return "\n".join(["| option | meaning |", "|---|---|", *rows, ""])


def _names(parameter: Any) -> str:
    if _is_argument(parameter):
        return f"`{_name(parameter)}`"
    return ", ".join(f"`{name}`" for name in sorted(parameter.opts, key=lambda name: (-len(name), name)))


def _name(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name).upper()


def _about(parameter: Any) -> str:
    about = str(parameter.help or "").replace("|", "\\|")
    default = parameter.default
    if parameter.required:
        return f"{about} Required."
    if default in (None, False, ()) or callable(default):
        return about
    return f"{about} Default: `{getattr(default, 'value', default)}`."


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


if __name__ == "__main__":
    PAGE.write_text(render(), "utf-8")
