"""The service key: made once, for its owner alone, strong where others can connect, compared in constant time."""

import ast
import multiprocessing
import os
import secrets
import stat
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
from pydantic import SecretStr

import forager
from forager.api.auth import ServiceKey
from forager.core.errors import Rejected
from forager.secrets.service_key import check_bind, is_loopback, read_service_key, service_key

STRONG = "Zk3vQ9xLw7Rb2Tn8Yc5Hm1Jd6Pf4Gs0A"


def test_the_first_start_makes_a_key_for_its_owner_alone(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"

    key, created = service_key(home, None)

    assert created
    assert len(key) >= 43  # 32 random bytes
    assert stat.S_IMODE((home / "service.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) & 0o077 == 0
    assert [path.name for path in home.iterdir()] == ["service.key"]


def test_the_mode_does_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o777)
    try:
        tmp_path.chmod(0o700)
        service_key(tmp_path, None)
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "service.key").stat().st_mode) == 0o600


def test_the_next_start_takes_the_same_key(tmp_path: Path) -> None:
    key, _ = service_key(tmp_path, None)

    assert service_key(tmp_path, None) == (key, False)
    assert read_service_key(tmp_path) == key


def test_two_listings_have_two_keys(tmp_path: Path) -> None:
    assert service_key(tmp_path / "a", None) != service_key(tmp_path / "b", None)


def test_a_configured_key_comes_before_the_file_and_makes_none(tmp_path: Path) -> None:
    assert service_key(tmp_path, SecretStr("mine")) == ("mine", False)
    assert list(tmp_path.iterdir()) == []


def test_a_client_makes_no_key(tmp_path: Path) -> None:
    assert read_service_key(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_what_a_crash_left_half_written_is_not_taken_for_the_key(tmp_path: Path) -> None:
    (tmp_path / "service.key.new").write_text("half")

    key, created = service_key(tmp_path, None)

    assert created
    assert key != "half"
    assert not (tmp_path / "service.key.new").exists()


def _start(home: Path, together: Barrier, answers: "multiprocessing.Queue[tuple[str, bool]]") -> None:
    together.wait(60)
    answers.put(service_key(home, None))


def test_processes_that_start_together_agree_on_one_key(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("fork")
    for attempt in range(10):
        home, together = tmp_path / str(attempt), spawn.Barrier(6)
        answers: multiprocessing.Queue[tuple[str, bool]] = spawn.Queue()
        starts = [spawn.Process(target=_start, args=(home, together, answers)) for _ in range(6)]
        for process in starts:
            process.start()
        found = [answers.get(timeout=30) for _ in starts]
        for process in starts:
            process.join(60)

        assert len({key for key, _ in found}) == 1
        assert sum(created for _, created in found) == 1


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o602, 0o601])
def test_a_key_file_that_others_can_use_is_refused_with_chmod(tmp_path: Path, mode: int) -> None:
    key, _ = service_key(tmp_path, None)
    (tmp_path / "service.key").chmod(mode)

    with pytest.raises(Rejected, match=r"chmod 600 .*service\.key") as refused:
        service_key(tmp_path, None)
    with pytest.raises(Rejected, match="chmod 600"):
        read_service_key(tmp_path)
    assert key not in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"\n", b"short\n", b"\xff" * 40, b"a b" * 20, b"x" * 5000])
def test_a_damaged_key_file_is_refused_with_the_remedy(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "service.key"
    path.write_bytes(content)
    path.chmod(0o600)

    with pytest.raises(Rejected, match="Remove it, and the next start makes a new key"):
        service_key(tmp_path, None)


@pytest.mark.parametrize("target", ["elsewhere", "nowhere"])
def test_a_key_file_that_is_a_link_is_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "elsewhere").write_text(STRONG)
    (tmp_path / "elsewhere").chmod(0o600)
    (tmp_path / "service.key").symlink_to(tmp_path / target)

    with pytest.raises(Rejected, match="is a link"):
        service_key(tmp_path, None)


def test_a_folder_or_a_pipe_in_its_place_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "service.key", 0o600)
    with pytest.raises(Rejected, match="is not a file"):
        service_key(tmp_path, None)
    (tmp_path / "service.key").unlink()

    (tmp_path / "service.key").mkdir()
    with pytest.raises(Rejected):
        service_key(tmp_path, None)


def test_a_data_folder_that_cannot_be_created_is_reported_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(Rejected, match="FORAGER_HOME"):
        service_key(tmp_path / "file" / "home", None)


@pytest.mark.parametrize("key", ["with space", "umlaut-ü", "line\nbreak"])
def test_a_configured_key_that_no_header_can_carry_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(Rejected, match="header cannot have") as refused:
        service_key(tmp_path, SecretStr(key))

    assert key not in str(refused.value)


# --- where others can connect


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST", "::ffff:127.0.0.1"])
def test_loopback_needs_no_strong_key(host: str) -> None:
    assert is_loopback(host)
    check_bind(host, "dev")


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "", "10.0.0.1", "example.com", "localhost.example.com", "127.1", "::ffff:0.0.0.0", "fe80::1"],
)
def test_any_other_bind_is_refused_without_a_strong_key__S12(host: str) -> None:
    for weak in (None, "", "dev", "a" * 64):
        with pytest.raises(Rejected, match=r"secrets\.token_urlsafe"):
            check_bind(host, weak)
    check_bind(host, STRONG)


@pytest.mark.parametrize(
    "weak",
    [
        STRONG[:31],
        "test-key",
        "changeme" * 4,
        "change-me-to-something-long-0123456789",
        "your-service-key-goes-here-1234567890abc",
        "Password1234567890!Password1234567890!x",
        "my-super-secret-service-key-for-forager",
        "a" * 64,
        "abc" * 20,
        "0123456789" * 4,
        "abcdefghijklmnopqrstuvwxyz0123456789",
        "aQ7xLw9Rb2" * 4,
    ],
)
def test_short_default_and_regular_keys_are_refused_without_being_shown__S12(weak: str) -> None:
    with pytest.raises(Rejected) as refused:
        check_bind("0.0.0.0", weak)

    assert [each.field for each in refused.value.fields] == ["FORAGER_SERVICE_KEY"]
    assert weak not in str(refused.value)


def test_random_keys_of_every_usual_form_are_strong_enough() -> None:
    for _ in range(2_000):
        check_bind("0.0.0.0", secrets.token_urlsafe(32))
        check_bind("0.0.0.0", secrets.token_hex(32))


# --- comparison


def test_keys_are_compared_whole__S12() -> None:
    def accepted(*sent: bytes) -> bool:
        headers = [(b"x-service-key", each) for each in sent]
        return ServiceKey(STRONG).accepts({"method": "GET", "path": "/api/v1/jobs", "headers": headers})

    right = STRONG.encode()
    assert accepted(right)
    for other in (b"", right[:-1], right + b"x", right.lower(), "ü".encode(), b"\xff", b"x" * 100_000):
        assert not accepted(other)
        assert not accepted(right, other)
    assert not accepted()


def test_no_code_compares_a_key_or_a_secret_with_an_operator__S12() -> None:
    found = []
    for path in Path(forager.__file__).parent.rglob("*.py"):
        found += [f"{path.name}:{line}" for line in key_comparisons(path.read_text("utf-8"))]

    assert found == []


@pytest.mark.parametrize(
    "code", ["service_key == given", "request.headers['X-Service-Key'] != key", "given in (settings.service_key,)"]
)
def test_the_check_above_finds_such_a_comparison__S12(code: str) -> None:
    assert key_comparisons(code) == [1]


def key_comparisons(source: str) -> list[int]:
    """Lines where ==, != or `in` meets a name or text that speaks of a service key, token or signature."""
    words = ("service_key", "x-service-key", "secret_key", "session_token", "signature")
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Compare)
        and any(isinstance(operator, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for operator in node.ops)
        and any(word in ast.unparse(node).lower() for word in words)
    ]
