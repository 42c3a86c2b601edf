"""Forager in a process of its own that is to be killed: `python -m tests.support.listings_process JSON`."""

import asyncio
import json
import subprocess
import sys
from typing import Any

from forager.app import open_app
from forager.config import new_settings


def start(settings: dict[str, Any]) -> "subprocess.Popen[bytes]":
    """A worker with watches and schedules that runs until it is killed."""
    command = [sys.executable, "-m", "tests.support.listings_process", json.dumps(settings, default=str)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


async def main(settings: dict[str, Any]) -> None:
    async with open_app(new_settings(**settings)) as app, app.engine():
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
