"""A real Kafka broker for tests: a private one on loopback, or the one that `FORAGER_TEST_KAFKA` names.

Its jars come from `scripts/setup kafka`. `python -m tests.support.kafka_broker` prints the broker that would be used,
and ends with 1 if there is none.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.ports import free_ports

OWN_BROKER = "FORAGER_TEST_KAFKA"
JARS = Path(__file__).parents[2] / ".venv" / "kafka-broker"
START_SECONDS = 60.0
JAVA = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
CLUSTER = "Zm9yYWdlci10ZXN0LWthZg"
"""16 bytes in base64. A random one can begin with a dash, and is then taken for an option."""
PROPERTIES = """
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/data
num.partitions=1
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
group.initial.rebalance.delay.ms=0
"""


class Broker:
    """One node with both KRaft roles, in a temporary folder, on ports of its own. It survives `kill` and `start`."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="kafka-"))
        port, controller = free_ports(2)
        self.brokers = f"127.0.0.1:{port}"
        self._port = port
        config = self._folder / "server.properties"
        config.write_text(PROPERTIES.format(port=port, controller=controller, folder=self._folder))
        format_it = [*self._java("kafka.tools.StorageTool"), "format", "-t", CLUSTER, "-c", str(config)]
        formatted = subprocess.run(format_it, capture_output=True, text=True, check=False)
        if formatted.returncode:
            raise RuntimeError(f"the broker's folder was not formatted: {formatted.stdout}{formatted.stderr}")
        self._command = [*self._java("kafka.Kafka"), str(config)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it accepts connections."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, cwd=self._folder)
        give_up = time.monotonic() + START_SECONDS
        while time.monotonic() < give_up and self._process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    return
            time.sleep(0.05)
        raise RuntimeError(f"the broker did not start: {(self._folder / 'log').read_text()[-2_000:]}")

    def kill(self) -> None:
        """As a power cut: kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _java(self, main: str) -> list[str]:
        java = java_command()
        assert java is not None
        # Native libraries of compressors are unpacked there: the machine's own folder may forbid to execute them.
        temporary = f"-Djava.io.tmpdir={self._folder}"
        return [java, *JAVA, temporary, "-cp", f"{JARS}/*", main]


def java_command() -> str | None:
    """Java, if it is there and new enough."""
    java = shutil.which("java")
    if java is None:
        return None
    said = subprocess.run([java, "-XshowSettings:properties", "-version"], capture_output=True, text=True, check=False)
    for line in said.stderr.splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "java.specification.version":
            return java if float(value) >= 17 else None
    return None


def why_none() -> str | None:
    """Why there is no real broker; None if there is one."""
    if os.environ.get(OWN_BROKER):
        return None
    if java_command() is None:
        return f"no real Kafka: Java 17 or newer is not installed, and {OWN_BROKER} names no broker"
    if not any(JARS.glob("kafka_2.13-*.jar")):
        return f"no real Kafka: run `scripts/setup kafka` (needs Maven), or name a broker in {OWN_BROKER}"
    return None


if __name__ == "__main__":
    reason = why_none()
    sys.stdout.write(f"{reason or os.environ.get(OWN_BROKER) or JARS}\n")
    sys.exit(reason is not None)
