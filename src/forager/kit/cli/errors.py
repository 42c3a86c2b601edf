"""Errors that exist only on the command line, beside the tree of `core/errors.py`. Each message says what to do."""

from forager.core.errors import ForagerError


class ApiUnreachable(ForagerError):
    """The API does not answer."""


class KeyRefused(ForagerError):
    """The API does not accept the service key."""


class ServerFault(ForagerError):
    """The API failed with an internal error."""


class JobNotDone(ForagerError):
    """The job failed or was paused."""


class ProblemFound(ForagerError):
    """A check found something wrong."""
