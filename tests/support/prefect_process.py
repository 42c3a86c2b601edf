"""A process that runs the Prefect flows as a user's program does. Imports take seconds, so a test starts it early.

It is synchronous, reads a call per line (`{"flow": …, "parameters": {…}}`) and prints the result or error of each.
"""

import json
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from typing import Any

PATIENCE = 120.0
RESULT, ERROR = "result: ", "error: "


class FlowProcess:
    """One such process."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", "tests.support.prefect_process"]
        pipe, self._log = subprocess.PIPE, tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by `kill`
        self._process = subprocess.Popen(
            command, env=dict(environment), stdin=pipe, stdout=pipe, stderr=self._log, text=True
        )

    def call(self, flow: str, **parameters: Any) -> None:
        """Start a flow run."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"flow": flow, "parameters": parameters}) + "\n")
        self._process.stdin.flush()

    def result(self) -> Any:
        """Wait for the end of the flow run. Fails with the process's log if the run failed."""
        return self._read(RESULT)

    def error(self) -> str:
        """Wait for the flow run to fail. Returns its message."""
        return str(self._read(ERROR))

    def _read(self, wanted: str) -> Any:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(wanted):
                return json.loads(line.removeprefix(wanted))
            if line.startswith((RESULT, ERROR)):
                break
        self._log.seek(0)
        raise AssertionError(self._log.read()[-4_000:])

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._log.close()


def main() -> None:
    import forager.runners.prefect as runner

    for line in sys.stdin:
        asked = json.loads(line)
        try:
            ended = f"{RESULT}{json.dumps(getattr(runner, asked['flow'])(**asked['parameters']))}"
        except Exception as error:
            traceback.print_exc()
            ended = f"{ERROR}{json.dumps(str(error))}"
        sys.stdout.write(f"\n{ended}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
