"""Ports of loopback for one owner alone.

The system gives clients, and servers that bind port 0, numbers of one range (32768 to 60999 on Linux), and reuses a
number soon after it was released. So a client of another test that still tries a server that has ended can reach a new
one, and a free port can be lost between its choice and its use. Ports below that range have neither problem.
"""

import random
import socket

BELOW_THE_SYSTEMS = range(20_000, 32_000)
_DICE = random.SystemRandom()  # test processes with the same seed must not request the same ports
_TRIES = 1_000


def bound_socket() -> socket.socket:
    """A TCP socket on a port of its own. The caller listens on it, and closes it."""
    for _ in range(_TRIES):
        made = socket.socket()
        try:
            made.bind(("127.0.0.1", _DICE.choice(BELOW_THE_SYSTEMS)))
        except OSError:
            made.close()
            continue
        return made
    raise RuntimeError(f"{_TRIES} ports of loopback were tried, and none is free")


def free_ports(count: int) -> list[int]:
    """Ports that are free now, and different."""
    sockets = [bound_socket() for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
