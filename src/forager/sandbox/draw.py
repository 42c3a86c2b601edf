"""Seeded draws: a number that belongs to some words and a seed, whatever the order in which requests arrive.

Simulated worlds are made of these draws when they are asked for, so that they need no memory and repeat exactly.
"""

import math
from hashlib import blake2b
from statistics import NormalDist


def draw(seed: int, *parts: object, size: int) -> bytes:
    """Return `size` (at most 64) pseudo-random bytes that are the same for the same seed and parts."""
    text = "\x1f".join([str(seed), *map(str, parts)])
    return blake2b(text.encode(), digest_size=size).digest()


def chance(seed: int, *parts: object) -> float:
    """Return a pseudo-random number in [0, 1) that is the same for the same seed and parts."""
    return int.from_bytes(draw(seed, "chance", *parts, size=6), "big") / 2**48


def log_normal(median: float, sigma: float, drawn: float) -> float:
    """Return the value of a log-normal distribution at the quantile `drawn`; the median where `sigma` is 0."""
    if not median or not sigma:
        return median
    return median * math.exp(sigma * _NORMAL.inv_cdf(min(max(drawn, 1e-9), 1 - 1e-9)))


_NORMAL = NormalDist()
