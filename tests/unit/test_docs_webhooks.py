"""The receivers on the page about signing, run as they stand there: in Python, in JavaScript where Node is, and in Go
where Go is."""

import base64
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from forager.sinks.webhook import signing

PAGE = Path(__file__).parents[2] / "docs" / "webhooks.md"
BODY = b'{"job_id": "j1", "status": "completed", "summary": {}, "results": null}'


LANGUAGES = {
    "python": ("receiver.py", [sys.executable]),
    "javascript": ("receiver.mjs", ["node"]),
    "go": ("main.go", ["go", "run"]),
}
"""Maps the language of a block to the name of its file and the program that runs it."""
SAID = {"python": ("another secret", "changed", "5 minutes", "missing")}
OTHERS = ("wrong signature", "wrong signature", "not fresh", "unsigned")
STANDARD = "whsec_" + base64.b64encode(b"a third secret, as Standard Webhooks writes it").decode()


# Go compiles its standard library first, which takes a minute.
@pytest.fixture(scope="module", params=["python", "javascript", pytest.param("go", marks=pytest.mark.chaos)])
def language(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    program = LANGUAGES[name][1][0]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    return name


@pytest.fixture(scope="module")
def receiver(language: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[subprocess.Popen[str], int]]:
    (code,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    file, run = LANGUAGES[language]
    program = tmp_path_factory.mktemp("docs") / file
    program.write_text(code)
    command = [*run, str(program), "new-secret", "old-secret", STANDARD]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, int(process.stdout.readline().split()[-1])
        process.terminate()


def post(port: int, headers: dict[str, str], body: bytes = BODY) -> int:
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/", body, headers)
    try:
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_the_receiver_of_the_page_takes_the_true_once_and_refuses_the_false__SC_13(
    receiver: tuple[subprocess.Popen[str], int], language: str
) -> None:
    process, port = receiver
    assert process.stdout is not None
    now = int(time.time())
    assert post(port, signing.sign("new-secret", "m1", now, BODY)) == 200
    assert process.stdout.readline() == "job j1 completed\n"
    assert post(port, signing.sign("new-secret", "m1", now + 1, BODY)) == 200  # again: taken once
    assert post(port, signing.sign("old-secret", "m2", now, BODY)) == 200
    assert process.stdout.readline() == "job j1 completed\n"
    assert post(port, signing.sign(STANDARD, "m4", now, BODY)) == 200
    assert process.stdout.readline() == "job j1 completed\n"
    tampered = BODY.replace(b"j1", b"j2")
    wrong: list[tuple[dict[str, str], bytes]] = [
        (signing.sign("fourth", "m3", now, BODY), BODY),
        (signing.sign("new-secret", "m3", now, BODY), tampered),
        (signing.sign("new-secret", "m3", now - 400, BODY), BODY),
        ({}, BODY),
    ]
    for (headers, body), said in zip(wrong, SAID.get(language, OTHERS), strict=True):
        assert post(port, headers, body) == 400
        assert said in process.stdout.readline()


def test_the_receiver_of_the_page_takes_the_changes_of_a_sink(receiver: tuple[subprocess.Popen[str], int]) -> None:
    process, port = receiver
    assert process.stdout is not None
    change = b'{"id": 977, "kind": "place", "key": "ChIJN1t", "op": "changed", "version": 3, "body": {}}'
    assert post(port, signing.sign("new-secret", "hooks_977", int(time.time()), change), change) == 200
    assert process.stdout.readline() == "place ChIJN1t changed\n"


def test_the_page_has_every_error_of_the_verifier() -> None:
    page = PAGE.read_text("utf-8")
    for error in signing.WebhookError.__subclasses__():
        assert f"`{error.__name__}`" in page
