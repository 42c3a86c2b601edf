"""Errors that only the command line has, beside the tree of `core/errors.py`. Each message says what to do."""

from forager.core.errors import ForagerError


class ApiUnreachable(ForagerError):
    """The API does not answer."""


class KeyRefused(ForagerError):
    """The API does not accept the service key."""


class ServerFault(ForagerError):
    """The API answered with an error of its own."""


class JobNotDone(ForagerError):
    """The job did not end well."""


class ProblemFound(ForagerError):
    """A check found something wrong."""
