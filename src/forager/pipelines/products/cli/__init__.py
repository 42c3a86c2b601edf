"""The names of a crawl's parts on the command line: pages and products."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from forager.sdk.cli.render import Figures, Job, Words, answered, count, some


def request(params: Mapping[str, Any]) -> str:
    """`shop.example/p/7`, `sitemap of shop.example`, `40 pages`."""
    urls: Sequence[str] = [*(params.get("urls") or ()), *(page["url"] for page in params.get("pages") or ())]
    if params.get("reparse"):
        return f"stored pages of {params['reparse']}"
    if params.get("source"):
        return f"pages of {params['source']}"
    if not urls and not params.get("sitemap"):
        standing = {"recrawl": "pages whose time has come", "pictures": "pictures of products"}
        return next((what for name, what in standing.items() if params.get(name)), "alerts about parsers")
    if params.get("sitemap"):
        return f"sitemap {params['sitemap']}"
    if len(urls) == 1:
        return f"{urls[0]}{' and its links' if params.get('follow') else ''}"
    return some(len(urls), "page")


def results(job: Job) -> Figures:
    return [
        ("pages", answered(job)),
        ("new", some(job["discoveries"], "page or product", "pages and products") + " not known before"),
        ("skipped", count(job["skipped"]) if job["skipped"] else None),
    ]


def progress(job: Job) -> Iterable[str]:
    if job["skipped"]:
        yield f"{count(job['skipped'])} skipped"


def cost(amount: int) -> str:
    return some(amount, "page")


words = Words(task=("page", "pages"), request=request, results=results, progress=progress, cost=cost)
