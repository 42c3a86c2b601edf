"""Secrets at rest: sealed to their place, opened by any key that is there, and a key file with the care of a key."""

import pickle
import re
import secrets
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import SecretStr

from forager.core.errors import Rejected, SealBroken
from forager.core.secret import SealedFor, Secret
from forager.secrets.sealing import FILE, Sealer, sealer_for
from forager.secrets.service_key import KeyFile, new_key

HERE = SealedFor("proxies", "row-1", "password")
TEXT = "canary-p@ss 🔑"


@pytest.fixture
def sealer(tmp_path: Path) -> Sealer:
    return sealer_for(tmp_path)


def test_what_is_sealed_opens_in_its_place_alone__S9(sealer: Sealer) -> None:
    sealed = sealer.seal(TEXT, HERE)
    assert sealer.unseal(sealed, HERE) == TEXT
    assert re.fullmatch(r"s1\.[0-9a-f]{8}\.[A-Za-z0-9_=-]+", sealed)
    assert "canary" not in sealed
    for other in (HERE._replace(table="robots"), HERE._replace(row="row-2"), HERE._replace(field="username")):
        with pytest.raises(SealBroken, match="another row"):
            sealer.unseal(sealed, other)


def test_the_same_text_is_never_sealed_alike(sealer: Sealer) -> None:
    assert sealer.seal(TEXT, HERE) != sealer.seal(TEXT, HERE)
    assert sealer.fingerprints(TEXT) == sealer.fingerprints(TEXT)
    assert sealer.fingerprints(TEXT) != sealer.fingerprints(TEXT + "x")


def test_every_changed_character_is_noticed__S9(sealer: Sealer) -> None:
    sealed = sealer.seal(TEXT, HERE)
    for n in range(len(sealed) - 4):  # the last one before the padding has bits that base64 does not use
        changed = sealed[:n] + ("A" if sealed[n] != "A" else "B") + sealed[n + 1 :]
        with pytest.raises(SealBroken) as caught:
            sealer.unseal(changed, HERE)
        assert "canary" not in str(caught.value)


def test_the_error_for_another_key_names_the_missing_one__S9(sealer: Sealer, tmp_path: Path) -> None:
    sealed = sealer.seal(TEXT, HERE)
    with pytest.raises(SealBroken, match=sealed.split(".")[1]):
        sealer_for(tmp_path / "elsewhere").unseal(sealed, HERE)
    assert not (tmp_path / "elsewhere").exists(), "looking must not make a key"


def test_a_rotation_keeps_the_old_key_until_it_is_forgotten__S9(sealer: Sealer, tmp_path: Path) -> None:
    sealed = sealer.seal(TEXT, HERE)
    sealer.rotate()
    assert sealer.unseal(sealed, HERE) == TEXT
    assert len(sealer.fingerprints(TEXT)) == 2
    sealer.rotate()
    assert len((tmp_path / FILE).read_text().split()) == 2, "an unfinished rotation is gone on with"
    anew = sealer.seal(TEXT, HERE)
    assert sealer.forget_old() == 1
    assert sealer.unseal(anew, HERE) == TEXT
    with pytest.raises(SealBroken, match="which is missing"):
        sealer.unseal(sealed, HERE)


def test_a_process_beside_a_rotation_seals_and_opens_with_the_new_key(sealer: Sealer, tmp_path: Path) -> None:
    beside = sealer_for(tmp_path)
    old = beside.seal(TEXT, HERE)
    sealer.rotate()
    assert beside.unseal(sealer.seal(TEXT, HERE), HERE) == TEXT
    assert beside.seal(TEXT, HERE).split(".")[1] == sealer.seal(TEXT, HERE).split(".")[1] != old.split(".")[1]


def test_configured_keys_come_before_the_file_newest_first(tmp_path: Path) -> None:
    old, new = SecretStr(secrets.token_urlsafe(32)), SecretStr(secrets.token_urlsafe(32))
    before = sealer_for(tmp_path, [old])
    sealed = before.seal(TEXT, HERE)
    both = sealer_for(tmp_path, [new, old])
    assert both.unseal(sealed, HERE) == TEXT
    anew = both.seal(TEXT, HERE)
    with pytest.raises(SealBroken):
        before.unseal(anew, HERE)
    assert sealer_for(tmp_path, [new]).unseal(anew, HERE) == TEXT
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize("bad", ["short", "x" * 43 + "!", "A" * 44, "ä" * 43])
def test_an_invalid_key_is_refused_without_being_shown(bad: str, tmp_path: Path) -> None:
    with pytest.raises(Rejected) as caught:
        sealer_for(tmp_path, [SecretStr(bad)])
    assert bad not in f"{caught.value}{caught.value.fields}"
    assert "FORAGER_SECRET_KEY" in caught.value.message


def test_the_key_file_is_for_its_owner_alone(sealer: Sealer, tmp_path: Path) -> None:
    sealer.seal(TEXT, HERE)
    path = tmp_path / FILE
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    with pytest.raises(Rejected, match="chmod 600"):
        sealer_for(tmp_path).seal(TEXT, HERE)


def _half_a_key(path: Path) -> None:
    path.touch(mode=0o600)
    path.write_text("abc\n")


def test_a_link_a_folder_and_a_damaged_key_file_are_refused_and_left_alone(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(new_key() + "\n")
    elsewhere.chmod(0o600)
    broken: dict[str, Callable[[Path], object]] = {
        "link": lambda path: path.symlink_to(elsewhere),
        "folder": lambda path: path.mkdir(mode=0o700),
        "empty": lambda path: path.touch(mode=0o600),
        "half": _half_a_key,
    }
    for name, make in broken.items():
        home = tmp_path / name
        home.mkdir()
        make(home / FILE)
        with pytest.raises(Rejected):
            sealer_for(home).seal(TEXT, HERE)
        assert (home / FILE).exists()
    assert len(elsewhere.read_text().split()) == 1


def test_a_key_file_that_is_being_replaced_is_never_half(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / FILE, "X")
    first = file.read(make=True)
    with pytest.raises(RuntimeError):
        file.change(_crash)
    assert file.read() == first
    (tmp_path / f"{FILE}.new").write_text("left by a crash")
    assert file.change(lambda keys: [new_key(), *keys])[1:] == first


def _crash(keys: list[str]) -> list[str]:
    raise RuntimeError("killed")


def test_a_secret_prints_as_stars_and_is_not_pickled() -> None:
    secret = Secret("canary")
    assert f"{secret} {secret!r} {secret!s:>5} {[secret]} {{'a': secret}}".count("canary") == 0
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    assert secret.reveal() == "canary"
