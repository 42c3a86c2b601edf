"""How the command line names the parts of a reviews job: pages, and the reviews that they brought."""

from collections.abc import Mapping
from typing import Any

from forager.kit.cli.render import some
from forager.kit.cli.words import Figures, Job, Words, answered


def request(_: Mapping[str, Any]) -> str:
    return "reviews of an access token"


def results(job: Job) -> Figures:
    return [
        ("pages", answered(job)),
        ("records", some(job["records"], "account, location or review", "accounts, locations and reviews")),
    ]


words = Words(
    task=("page", "pages"),
    request=request,
    results=results,
    retry="forager reviews retry {job} --token-file FILE",
)
