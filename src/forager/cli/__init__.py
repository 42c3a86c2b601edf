"""The `forager` command: validates, calls the API, renders. Start reading at `root.py`.

Nothing heavy is imported here: what a command needs, it imports when it runs, so that `forager --help` answers at once.
"""

from forager.cli.main import main

__all__ = ["main"]
