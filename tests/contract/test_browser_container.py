"""Chromium in the containers of docker-compose.yml: without privileges, and with its own sandbox."""

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.seccomp import LIBRARY, USER

ROOT = Path(__file__).parents[2]
PROFILE = ROOT / "ops" / "seccomp-browser.json"
NEW_USER_NAMESPACE = ["unshare", "--user", "true"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder that the user of the containers can reach and write to."""
    if os.geteuid() == 0:
        os.chown(tmp_path, USER, USER)
        for folder in (tmp_path, *tmp_path.parents[:3]):
            folder.chmod(folder.stat().st_mode | 0o011)
    return tmp_path


def confined(profile: Path, command: Sequence[str], home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.support.seccomp", str(profile), *command],
        env={**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_chromium_starts_with_its_sandbox_under_the_profile_of_the_compose_file(chromium: Path, home: Path) -> None:
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("libseccomp is not installed (Debian: libseccomp2)")
    if (refused := confined(PROFILE, NEW_USER_NAMESPACE, home)).returncode:
        pytest.skip(f"this machine allows no user namespaces: {refused.stderr}")
    visit = [str(chromium), "--headless", "--disable-gpu", "--dump-dom", "about:blank"]

    visited = confined(PROFILE, visit, home)
    assert "<html>" in visited.stdout, visited.stderr


def test_what_a_user_namespace_would_allow_stays_refused() -> None:
    refused = {name for rule in json.loads(PROFILE.read_text())["syscalls"] for name in rule["names"]}
    assert {"mount", "umount2", "pivot_root", "setns", "bpf", "keyctl", "ptrace", "io_uring_setup"} <= refused
    assert not {"clone", "clone3", "unshare", "chroot"} & refused, "Chromium's sandbox is made with these"
