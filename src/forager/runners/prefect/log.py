"""One log for Prefect and Forager in a flow run: Prefect's lines in its own form, ours in ours, and each line once."""

import logging

from prefect.logging.handlers import PrefectConsoleHandler


def share_log() -> None:
    """Give Prefect's console handler to Prefect's own loggers. Call it after `configure_logs`.

    Prefect puts that handler on the root logger, where it would write our lines a second time, without our removal of
    secrets. Lines that Prefect sends to its server are not affected.
    """
    root, own = logging.getLogger(), logging.getLogger("prefect")
    for handler in [each for each in root.handlers if isinstance(each, PrefectConsoleHandler)]:
        root.removeHandler(handler)
        own.addHandler(handler)
    own.propagate = not own.handlers
