"""Starts readers: a process of its own (`python -m forager.reading.server`), which forks each of them.

A fork of this process costs milliseconds and shares the memory of all modules that it has loaded, where a new
interpreter would load them for half a second each. Forking the main process is no choice: it has threads, connections
and secrets. This one has a clean environment, one thread and nothing open but its control socket. It starts with the
first page of a process, serves all pools of that process, and ends with it.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterable
from typing import NoReturn

REQUEST = struct.Struct("<I")
STATUS = struct.Struct("<i")
_ENVIRONMENT = ("PATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")
"""The environment variables that readers get. They read untrusted pages, so they get no key."""
_PR_SET_PDEATHSIG = 1


class ReaderServer:
    """The parent's side: starts the server when it is needed, and requests readers from it. Safe to call from
    threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def fork(self, modules: Iterable[str], memory: int) -> tuple[socket.socket, socket.socket]:
        """Start a reader that has these modules loaded. Return its channel, and a socket that gets its exit status.

        Raises `OSError` if no process can be started.
        """
        ours, theirs = socket.socketpair()
        exited, exits = socket.socketpair()
        request = {"memory": memory, "modules": sorted(modules), "path": [path for path in sys.path if path]}
        message = json.dumps(request).encode()
        with theirs, exits, self._lock:
            for attempt in (1, 2):
                try:
                    control = self._started()
                    socket.send_fds(control, [REQUEST.pack(len(message))], [theirs.fileno(), exits.fileno()])
                    control.sendall(message)
                    break
                except OSError:
                    self._forget()
                    if attempt == 2:
                        ours.close()
                        exited.close()
                        raise
        return ours, exited

    def _started(self) -> socket.socket:
        if self._owner != os.getpid():  # a fork of our process must not share its server
            self._control, self._process, self._owner = None, None, os.getpid()
        if self._control is None:
            self._control, theirs = socket.socketpair()
            environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
            environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
            with theirs:
                command = (sys.executable, "-m", "forager.reading.server")
                # Its standard output is our standard error: what a parser prints must not mix with our output.
                self._process = subprocess.Popen(  # noqa: S603 - our own module
                    command, stdin=theirs.fileno(), stdout=2, env=environment
                )
        return self._control

    def _forget(self) -> None:
        """Drop a server that has ended."""
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._control = self._process = None


def main() -> None:
    """Fork a reader for each request until the parent has ended; then end all readers."""
    control = socket.socket(fileno=0)
    for number in (signal.SIGINT, signal.SIGTERM):  # sent to a whole group: readers end with their parent
        signal.signal(number, signal.SIG_IGN)
    woken, wake = socket.socketpair()
    for each in (woken, wake):
        each.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    waiting = selectors.DefaultSelector()
    waiting.register(control, selectors.EVENT_READ)
    waiting.register(woken, selectors.EVENT_READ)
    readers: dict[int, int] = {}
    while True:
        ready = {key.fileobj for key, _ in waiting.select()}
        if woken in ready:
            with contextlib.suppress(BlockingIOError):
                woken.recv(4_096)
            _report_ended(readers)
        if control in ready and not _fork(control, readers):
            break
    for pid in readers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _fork(control: socket.socket, readers: dict[int, int]) -> bool:
    """Carry out one request. False if the parent has ended."""
    head, fds, _, _ = socket.recv_fds(control, REQUEST.size, 2)
    if len(head) < REQUEST.size or len(fds) < 2:
        return False
    channel, exits = fds
    message = b""
    while len(message) < REQUEST.unpack(head)[0]:
        part = control.recv(REQUEST.unpack(head)[0] - len(message))
        if not part:
            return False
        message += part
    request = json.loads(message)
    if sys.path != request["path"]:  # a package that was installed meanwhile
        sys.path[:] = request["path"]
        importlib.invalidate_caches()
    for name in request["modules"]:
        with contextlib.suppress(Exception):  # the call that needs the module raises its error where it is seen
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a reader would copy every page of memory that it shares with this process
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        pid = 0 - 1
    if pid == 0:
        _become_reader(parent, channel, [control.detach(), exits, *readers.values()], request["memory"])
    if pid > 0:
        readers[pid] = exits
    else:
        os.close(exits)
    os.close(channel)
    return True


def _become_reader(parent: int, channel: int, inherited: list[int], memory: int) -> NoReturn:
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for each in inherited:
            os.close(each)
        _end_with_parent(parent)
        from forager.reading.child import serve

        with contextlib.suppress(ConnectionError):
            serve(socket.socket(fileno=channel), memory)
        os._exit(0)
    except BaseException:  # noqa: BLE001 - the exit status is all that this process can report
        os._exit(70)


def _end_with_parent(parent: int) -> None:
    """Let the system end this process if the server ends without a word. Elsewhere than on Linux, a reader whose server
    was killed ends with its page."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def _report_ended(readers: dict[int, int]) -> None:
    while readers:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        exits = readers.pop(pid)
        with contextlib.suppress(OSError):
            os.write(exits, STATUS.pack(os.waitstatus_to_exitcode(status)))
        os.close(exits)


if __name__ == "__main__":
    # Loaded before the first fork, by every reader's need.
    import forager.reading.child  # noqa: F401

    main()
