"""Network namespaces that reach one PostgreSQL through links of their own, which a test cuts and mends.

A relay in the middle namespace accepts connections on an address that exists nowhere else, and passes them to the
server's Unix socket. So the server itself listens on loopback only, and a cut is one of the network: packets vanish,
and neither side learns that a connection has ended. Needs root and `ip`; without them, tests are skipped.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

PORT = 5432
RELAY = """
import asyncio, sys
async def pass_on(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
async def accept(reader, writer):
    theirs = await asyncio.open_unix_connection(sys.argv[1])
    await asyncio.gather(pass_on(reader, theirs[1]), pass_on(theirs[0], writer))
async def main():
    server = await asyncio.start_server(accept, "0.0.0.0", int(sys.argv[2]))
    print("listening", flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


def require_namespaces() -> None:
    """Skip the test where namespaces cannot be made."""
    name = f"fg{os.getpid()}x"
    if os.geteuid() != 0 or shutil.which("ip") is None or not _made(name):
        pytest.skip("network namespaces need root and the command ip")
    _ip("netns", "delete", name)


def _made(name: str) -> bool:
    return subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0


@dataclass
class Namespaces(contextlib.AbstractContextManager["Namespaces"]):
    """One namespace for each name, and one in the middle with the relay to `socket`."""

    socket: Path
    names: Sequence[str]

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._make(self._middle, stack)
            for number, name in enumerate(self.names):
                self._make(self._of(name), stack)
                self._link(name, number)
            command = ["ip", "netns", "exec", self._middle, sys.executable, "-c", RELAY, str(self.socket), str(PORT)]
            relay = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            stack.callback(_end, relay)
            assert relay.stdout is not None
            assert relay.stdout.readline() == "listening\n"
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def url(self, name: str, database: str) -> str:
        """Return the address of a database, as a namespace reaches it."""
        return f"postgresql://app@10.77.{self.names.index(name)}.1:{PORT}/{database}"

    def command(self, name: str, *command: str) -> list[str]:
        """Return a command that runs in a namespace."""
        return ["ip", "netns", "exec", self._of(name), *command]

    def cut(self, name: str) -> None:
        """From now on, no packet passes between this namespace and the middle."""
        _ip("-n", self._middle, "link", "set", f"to-{name}", "down")

    def mend(self, name: str) -> None:
        _ip("-n", self._middle, "link", "set", f"to-{name}", "up")

    @property
    def _middle(self) -> str:
        return f"fg{os.getpid()}"

    def _of(self, name: str) -> str:
        return f"fg{os.getpid()}{name}"

    def _make(self, namespace: str, stack: contextlib.ExitStack) -> None:
        _ip("netns", "add", namespace)
        stack.callback(_ip, "netns", "delete", namespace)
        _ip("-n", namespace, "link", "set", "lo", "up")

    def _link(self, name: str, number: int) -> None:
        ends = ("link", "add", f"to-{name}", "netns", self._middle, "type", "veth")
        _ip(*ends, "peer", "name", "out", "netns", self._of(name))
        for namespace, end, last in ((self._middle, f"to-{name}", 1), (self._of(name), "out", 2)):
            _ip("-n", namespace, "address", "add", f"10.77.{number}.{last}/24", "dev", end)
            _ip("-n", namespace, "link", "set", end, "up")


@contextlib.contextmanager
def started(command: Sequence[str], says: str) -> Iterator["subprocess.Popen[str]"]:
    """Run a command that ends with the block; its first line of output is awaited."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == says
        yield process
    finally:
        _end(process)


def _end(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
