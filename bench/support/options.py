"""The few options that every benchmark takes. The default is the full size, both stores, three rounds."""

import argparse
from dataclasses import dataclass
from typing import Literal

StoreKind = Literal["sqlite", "postgres"]


@dataclass(frozen=True, slots=True)
class Options:
    quick: bool
    stores: tuple[StoreKind, ...]
    rounds: int
    full: bool = False
    """Everything, where the default is a part: hours instead of minutes."""


def parse(about: str) -> Options:
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="small sizes, one round: for work on the benchmark itself")
    parser.add_argument("--store", choices=("sqlite", "postgres"), help="only this one; the other's targets then fail")
    parser.add_argument("--rounds", type=int, help="default: 3")
    parser.add_argument("--full", action="store_true", help="all of a search whose default is a part (hostile)")
    given = parser.parse_args()
    stores: tuple[StoreKind, ...] = (given.store,) if given.store else ("sqlite", "postgres")
    return Options(given.quick, stores, given.rounds or (1 if given.quick else 3), given.full)
