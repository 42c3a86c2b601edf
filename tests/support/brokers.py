"""Real brokers for Celery: a private Redis or RabbitMQ on loopback, in a temporary folder, on ports of its own.

`python -m tests.support.brokers` lists those that can be started here, and ends with 1 if one is missing.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Protocol

from tests.support.ports import free_ports

START_SECONDS = 90.0
RABBIT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


class BrokerMissing(Exception):
    """The program is not installed."""


class Broker(Protocol):
    url: str

    def start(self) -> None:
        """Returns when it accepts connections."""
        ...

    def kill(self) -> None:
        """Kill it with all it holds in memory; `start` brings it back on the same port."""
        ...

    def close(self) -> None: ...


class Redis:
    """A Redis that keeps nothing on disk."""

    def __init__(self) -> None:
        program = shutil.which("redis-server")
        if program is None:
            raise BrokerMissing("redis-server is not installed (Debian: apt-get install redis-server)")
        self._folder = Path(tempfile.mkdtemp(prefix="redis-"))
        (self._port,) = free_ports(1)
        self.url = f"redis://127.0.0.1:{self._port}/0"
        options = f"--port {self._port} --bind 127.0.0.1 --save  --appendonly no --dir {self._folder}".split(" ")
        self._command = [program, *options]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = started(self._command, dict(os.environ), self._folder, self._port)

    def kill(self) -> None:
        killed(self._process)

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


class Rabbit:
    """A RabbitMQ node with an epmd of its own, which outlives it and is ended by its own process id."""

    def __init__(self) -> None:
        if not RABBIT.exists():
            raise BrokerMissing("RabbitMQ is not installed (Debian: apt-get install rabbitmq-server)")
        self._folder = Path(tempfile.mkdtemp(prefix="rabbit-"))
        self._port, self._distribution, self._epmd = free_ports(3)
        self.url = f"amqp://guest:guest@127.0.0.1:{self._port}//"
        (self._folder / "enabled_plugins").write_text("[].\n")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = started([str(RABBIT)], self._environment(), self._folder, self._port)

    def kill(self) -> None:
        killed(self._process)
        self._end_epmd()

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _environment(self) -> dict[str, str]:
        folder = self._folder
        return {
            **os.environ,
            "HOME": str(folder),
            "RABBITMQ_NODENAME": f"t{self._port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self._port),
            "RABBITMQ_DIST_PORT": str(self._distribution),
            "ERL_EPMD_PORT": str(self._epmd),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} -setcookie t",
        }

    def _end_epmd(self) -> None:
        import psutil

        for process in psutil.process_iter(["name"]):
            try:
                if process.info["name"] == "epmd" and process.environ().get("ERL_EPMD_PORT") == str(self._epmd):
                    process.terminate()
            except psutil.Error:
                continue


def started(command: list[str], environment: dict[str, str], folder: Path, port: int) -> subprocess.Popen[bytes]:
    """A process group of its own, so that a kill of the group ends all of its processes."""
    with (folder / "output").open("ab") as output:
        process = subprocess.Popen(
            command, env=environment, cwd=folder, stdout=output, stderr=output, start_new_session=True
        )
    give_up = time.monotonic() + START_SECONDS
    while time.monotonic() < give_up and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return process
        time.sleep(0.05)
    killed(process)
    raise RuntimeError(f"{command[0]} did not start: {(folder / 'output').read_text()[-2_000:]}")


def killed(process: subprocess.Popen[bytes] | None) -> None:
    if process is not None and process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def main() -> int:
    missing = 0
    for kind in (Redis, Rabbit):
        try:
            broker = kind()
        except BrokerMissing as reason:
            sys.stdout.write(f"{reason}\n")
            missing = 1
        else:
            broker.close()
            sys.stdout.write(f"{kind.__name__} can be started\n")
    return missing


if __name__ == "__main__":
    sys.exit(main())
