"""Formats help texts: paragraphs wrap to the terminal, and an option without a value shows no type."""

from typing import Any


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
    """Remove the type of a switch; show the type of a single value for a repeatable option."""
    for parameter in command.params:
        _tidy_type(parameter)


def unwrapped(text: str) -> str:
    """Join the lines of each paragraph, so that it wraps to the terminal and not as in the source."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))


def _tidy_type(parameter: Any) -> None:
    if parameter.metavar is not None or parameter.param_type_name == "argument":
        return
    if getattr(parameter, "is_flag", False):
        parameter.metavar = ""
    elif getattr(parameter, "multiple", False):
        parameter.metavar = "<text>"


def _tidy_help_option(command: Any) -> None:
    """Tidy `--help` when the parser creates it."""
    make = command.get_help_option

    def help_option(context: Any) -> Any:
        option = make(context)
        if option is not None:
            option.metavar = ""
        return option

    command.get_help_option = help_option
