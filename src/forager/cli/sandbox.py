"""`forager sandbox`: serves simulated upstreams on local ports. No request leaves the machine.

Serper has its own options; every other upstream is one line in `sandbox_upstreams.UPSTREAMS`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forager.sdk.cli.invocation import ExitCode, Json

if TYPE_CHECKING:
    from forager.cli.sandbox_upstreams import Simulated


def sandbox(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the simulated Serper (0 = any free port).")] = 0,
    site_port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the web site (0 = any free port).")] = 0,
    google_port: Annotated[
        int, typer.Option(min=0, max=65532, help="First of four ports of Google Business Profile (0 = any free).")
    ] = 0,
    locations: Annotated[int, typer.Option(min=0, max=1_000_000, help="Locations of each Google user.")] = 20,
    apify_port: Annotated[
        int, typer.Option(min=0, max=65534, help="Port of Apify; the next is the listings site's (0 = any free).")
    ] = 0,
    homes: Annotated[int, typer.Option(min=0, max=16_384, help="Homes of each market of the listings site.")] = 30,
    shop_port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the shop (0 = any free port).")] = 0,
    shop_pages: Annotated[int, typer.Option(min=0, max=100_000_000, help="Product pages of the shop.")] = 1000,
    receiver_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the webhook receiver (0 = any free port).")
    ] = 0,
    seed: Annotated[int | None, typer.Option(help="Seed for the generated data.")] = None,
    key: Annotated[str | None, typer.Option(help="Serper: API key that is accepted (default: sandbox-key).")] = None,
    latency_ms: Annotated[float | None, typer.Option(help="Serper: latency of an answer, in milliseconds.")] = None,
    latency_sigma: Annotated[
        float | None, typer.Option(help="Serper: spread of the log-normal latency (0 = fixed).")
    ] = None,
    rate_limit: Annotated[
        int | None, typer.Option(help="Serper: requests per second before a 429 (0 = no limit).")
    ] = None,
    balance: Annotated[
        int | None, typer.Option("--credits", help="Serper: credit balance of the key (default: unlimited).")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Serper: make every page full, the worst case for credits.")
    ] = False,
    fault: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=SHARE", help="Serper: share of faults, such as http500=0.01 (repeatable)."),
    ] = None,
    log_path: Annotated[
        Path | None, typer.Option(help="Serper: append one JSON line per request to this file.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Serve simulated upstreams on local ports, with the faults of the real ones. Costs nothing; needs no key.

    Serper; Google Business Profile; Apify with a listings site; a shop; a web site with job postings, companies and
    profiles; a webhook receiver that prints its messages; a credential backend. Prints how to point Forager at them,
    and runs until Ctrl-C.

    Example: forager sandbox --latency-ms 100
    """
    from forager.cli.sandbox_upstreams import UPSTREAMS, Options
    from forager.sandbox import SerperConfig, serve

    named = {
        "seed": seed,
        "key": key,
        "latency_ms": latency_ms,
        "latency_sigma": latency_sigma,
        "credits": balance,
        "log_path": str(log_path) if log_path else None,
    }
    changes: dict[str, object] = {name: value for name, value in named.items() if value is not None}
    if rate_limit is not None:
        changes["rate_limit"] = rate_limit or None
    if site_port:
        changes["search_site"] = f"http://127.0.0.1:{site_port}"
    if full:
        changes["density"] = [[1.0, 1000, 1000]]
    if fault:
        changes["faults"] = dict(_share(text) for text in fault)
    config = SerperConfig().changed(changes)
    options = Options(
        seed=config.seed,
        site_port=site_port,
        google_port=google_port,
        locations=locations,
        apify_port=apify_port,
        homes=homes,
        shop_port=shop_port,
        shop_pages=shop_pages,
        receiver_port=receiver_port,
        quiet=as_json,
    )
    others = [build(options) for build in UPSTREAMS]
    serve(
        config,
        port=port,
        announce=lambda url: _announce(url, config.key, others, as_json=as_json),
        beside=[each.server for each in others],
    )
    return ExitCode.OK


def _share(text: str) -> tuple[str, float]:
    name, _, share = text.partition("=")
    try:
        return name, float(share)
    except ValueError:
        raise typer.BadParameter(
            f"give NAME=SHARE, such as http500=0.01, instead of {text!r}", param_hint="--fault"
        ) from None


def _announce(url: str, key: str, others: "Sequence[Simulated]", *, as_json: bool) -> None:
    """Print how to point Forager at the simulated upstreams. Their ports are known only now that they listen."""
    from forager.sdk.cli import render

    allow = ",".join(
        [url.removeprefix("http://"), *(endpoint for each in others for endpoint in each.server.endpoints)]
    )
    if as_json:
        data: dict[str, Any] = {"url": url, "key": key, "egress_allow": allow}
        for each in others:
            data |= each.data()
        render.show_json(data, indent=False)
        return
    render.write(
        f"The sandbox is running (Ctrl-C stops it). In another terminal:\n"
        f"  export FORAGER_EGRESS_ALLOW={allow}\n"
        f"  export FORAGER_SERPER_BASE_URL={url} SERPER_API_KEY={key}\n"
        f"  forager places run --keyword bars --state AZ\n"
    )
    render.write("".join(f"{line}\n" for each in others for line in each.hints()))
