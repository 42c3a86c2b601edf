"""Runs a program under a seccomp profile of Docker's format, without privileges, as a container would.

`python -m tests.support.seccomp PROFILE COMMAND…`. Only what our profile uses is understood: everything is allowed but
the named calls. Needs libseccomp, which Debian's apt brings along.
"""

import ctypes
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LIBRARY = "libseccomp.so.2"
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
NO_NEW_PRIVILEGES = 38
USER = 10_001


def run(profile: Path, command: Sequence[str]) -> None:
    """Replace this process by the command. As root, become the user of our image first."""
    rules = json.loads(profile.read_text())
    assert rules["defaultAction"] == "SCMP_ACT_ALLOW"
    seccomp = ctypes.CDLL(LIBRARY)
    seccomp.seccomp_init.restype = ctypes.c_void_p
    made = ctypes.c_void_p(seccomp.seccomp_init(ctypes.c_uint32(ALLOW)))
    for rule in rules["syscalls"]:
        _refuse(seccomp, made, rule)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(USER, USER, USER)
        os.setresuid(USER, USER, USER)
    assert ctypes.CDLL(None).prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
    assert seccomp.seccomp_load(made) == 0
    os.execvp(command[0], list(command))


def _refuse(seccomp: ctypes.CDLL, made: ctypes.c_void_p, rule: dict[str, Any]) -> None:
    assert rule["action"] == "SCMP_ACT_ERRNO"
    for name in rule["names"]:
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:  # others do not exist on this machine
            action = ctypes.c_uint32(ERRNO | rule["errnoRet"])
            assert seccomp.seccomp_rule_add_array(made, action, number, 0, None) == 0, name


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2:])
