"""How help reads: paragraphs that wrap to the terminal, and no type beside an option that takes no value."""

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
    """Show no type beside a switch, and that of one value beside an option that can be repeated."""
    for parameter in command.params:
        _tidy_type(parameter)


def unwrapped(text: str) -> str:
    """Join the lines of each paragraph: where they end in the source says nothing about the reader's terminal."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))


def _tidy_type(parameter: Any) -> None:
    if parameter.metavar is not None or parameter.param_type_name == "argument":
        return
    if getattr(parameter, "is_flag", False):
        parameter.metavar = ""
    elif getattr(parameter, "multiple", False):
        parameter.metavar = "<text>"


def _tidy_help_option(command: Any) -> None:
    """`--help` is made by the parser, so it is tidied when it is asked for."""
    make = command.get_help_option

    def help_option(context: Any) -> Any:
        option = make(context)
        if option is not None:
            option.metavar = ""
        return option

    command.get_help_option = help_option
