"""The commands, display texts and demos of features, loaded only when they are used.

`forager --help` lists a feature with its summary and imports none of it.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any

from typer.core import TyperGroup
from typer.main import get_command

from forager.app.features import all_features
from forager.sdk.cli.render import GENERAL, Words
from forager.sdk.feature import Feature, Ref

# Formats help texts: paragraphs wrap to the terminal, and an option without a value shows no type.


_TYPES = {str: "<text>", int: "<number>", float: "<number>"}
_COMPLETION = ("install_completion", "show_completion")


def tidy(command: Any) -> Any:
    """Tidy the help of a command, and of every command below it. Returns the command."""
    if command.help:
        command.help = unwrapped(command.help)
    tidy_types(command)
    _tidy_help_option(command)
    for below in getattr(command, "commands", {}).values():
        tidy(below)
    return command


def tidy_types(command: Any) -> None:
    """Remove the type of a switch, and name types without Python's words; arguments are written in capitals."""
    for parameter in command.params:
        _tidy_type(parameter)


def without_completion(command: Any) -> Any:
    """Remove the options for shell completion, which belong to `forager` itself. Returns the command."""
    command.params = [each for each in command.params if each.name not in _COMPLETION]
    return command


def unwrapped(text: str) -> str:
    """Join the lines of each paragraph, so that it wraps to the terminal and not as in the source."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))


def _tidy_type(parameter: Any) -> None:
    if parameter.param_type_name == "argument" and parameter.nargs != 1:
        parameter.display_type_rich = lambda ctx: "<text>"  # instead of `<list[str]>`
    if parameter.metavar is not None:
        return
    if parameter.param_type_name == "argument":
        parameter.metavar = parameter.name.upper()
    elif getattr(parameter, "is_flag", False):
        parameter.metavar = ""
    elif getattr(parameter, "multiple", False):
        parameter.metavar = "<text>"
    else:
        parameter.metavar = _TYPES.get(parameter.type_descriptor.annotation)


def _tidy_help_option(command: Any) -> None:
    """Tidy `--help` when the parser creates it."""
    make = command.get_help_option

    def help_option(context: Any) -> Any:
        option = make(context)
        if option is not None:
            option.metavar = ""
        return option

    command.get_help_option = help_option


FIRST = ("demo", "up", "worker")
"""Commands that the help lists before those of the features."""


class FeatureCommand(TyperGroup):
    """Placeholder for the commands of a feature in the command tree. They are imported when one of them is called."""

    def __init__(self, name: str, summary: str, commands: Ref, kind: str | None = None) -> None:
        super().__init__(name=name, help=summary)
        self._commands = commands
        self._kind = kind

    def loaded(self) -> Any:
        """Return the feature's own command or group."""
        command = get_command(self._commands.load())
        command.name = self.name
        if self._kind is not None and isinstance(command, TyperGroup):
            from forager.cli.record_commands import record_commands

            command.commands = {
                **command.commands,
                **_missing(record_commands(str(self.name), self._kind), command.commands),
            }
        if isinstance(command, TyperGroup):
            command.commands = {**command.commands, **_missing(_planning(command.commands), command.commands)}
        return tidy(without_completion(command))

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        return self.loaded().make_context(info_name, args, parent=parent, **extra)


def _planning(commands: Mapping[str, Any]) -> dict[str, Any]:
    """Return the command `plan` of a group whose `run` has the option `--plan`: it does the same with that option."""
    run = commands.get("run")
    if run is None or not any(each.name == "plan" for each in run.params):
        return {}
    plan = copy(run)
    plan.name, plan.callback = "plan", partial(run.callback, plan=True)
    plan.params = [each for each in run.params if each.name not in ("plan", "watch")]
    example = (run.help or "").rpartition("Example: ")[2].replace(" run ", " plan ", 1)
    plan.help = f"Show what `run` would do and cost; fetch and spend nothing.\n\nExample: {example}"
    return {"plan": plan}


def _missing(more: Mapping[str, Any], have: Mapping[str, Any]) -> dict[str, Any]:
    return {name: command for name, command in more.items() if name not in have}


class RootGroup(TyperGroup):
    """The `forager` command: our own commands and those of every feature."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        ours = dict(self.commands)
        first = {name: ours.pop(name) for name in FIRST}
        self.commands = {**first, **_of_features(), **ours}
        tidy(self)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        tidy_types(self)  # the options for shell completion have been added since
        super().format_help(ctx, formatter)


def _of_features() -> dict[str, FeatureCommand]:
    """Return the group of every feature, each followed by its shortcuts."""
    commands: dict[str, FeatureCommand] = {}
    for each in all_features():
        if each.commands is not None:
            commands[each.name] = FeatureCommand(each.name, each.summary, each.commands, each.kind)
        for shortcut in each.shortcuts:
            commands[shortcut.name] = FeatureCommand(shortcut.name, shortcut.summary, shortcut.commands)
    return commands


def words_of(pipeline: str) -> Words:
    """Return the display texts of a pipeline; general ones if it declares none or is not installed here."""
    for feature in all_features():
        if feature.name == pipeline and feature.words is not None:
            words: Words = feature.words.load()
            return words
    return GENERAL


def with_demo() -> Sequence[Feature]:
    """Return the features that have a demo."""
    return [feature for feature in all_features() if feature.demo is not None]
