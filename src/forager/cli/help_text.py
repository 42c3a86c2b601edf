"""Formats help texts: paragraphs wrap to the terminal, and an option without a value shows no type."""

from typing import Any

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
