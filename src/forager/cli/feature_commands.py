"""The commands, display texts and demos of features, loaded only when they are used.

`forager --help` lists a feature with its summary and imports none of it.
"""

from collections.abc import Sequence
from typing import Any

from typer.core import TyperGroup
from typer.main import get_command

from forager.cli.help_text import tidy, tidy_types, without_completion
from forager.features import all_features
from forager.kit.cli.words import GENERAL, Words
from forager.kit.feature import Feature, Ref

FIRST = ("demo", "up", "worker")
"""Commands that the help lists before those of the features."""


class FeatureCommand(TyperGroup):
    """Placeholder for the commands of a feature in the command tree. They are imported when one of them is called."""

    def __init__(self, name: str, summary: str, commands: Ref) -> None:
        super().__init__(name=name, help=summary)
        self._commands = commands

    def loaded(self) -> Any:
        """Return the feature's own command or group."""
        command = get_command(self._commands.load())
        command.name = self.name
        return tidy(without_completion(command))

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        return self.loaded().make_context(info_name, args, parent=parent, **extra)


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
    """The group of every feature, each followed by its shortcuts."""
    commands: dict[str, FeatureCommand] = {}
    for each in all_features():
        if each.commands is not None:
            commands[each.name] = FeatureCommand(each.name, each.summary, each.commands)
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
