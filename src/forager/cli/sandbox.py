"""`forager sandbox`: everything that Forager talks to, simulated on ports of this machine. Nothing leaves it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forager.cli.exit_codes import ExitCode
from forager.cli.invocation import Json

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from forager.sandbox import CredentialBackend, GoogleSandbox, Received, SandboxSite, WebhookReceiver

WEBHOOK_SECRET = "sandbox-webhook-secret"  # noqa: S105 - nothing real is behind it
BACKEND_KEY = "sandbox-backend-key"
LOGIN = {"name": "li_at", "value": "sandbox", "domain": "127.0.0.1", "secure": False}


def sandbox(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of Serper; 0 takes a free one.")] = 0,
    site_port: Annotated[int, typer.Option(min=0, max=65535, help="Of the web site; 0 takes a free one.")] = 0,
    google_port: Annotated[
        int, typer.Option(min=0, max=65532, help="First of four ports of Google Business Profile (0 = any free).")
    ] = 0,
    locations: Annotated[int, typer.Option(min=0, max=1_000_000, help="Locations of each Google user.")] = 20,
    seed: Annotated[int | None, typer.Option(help="Another seed is another world.")] = None,
    key: Annotated[str | None, typer.Option(help="The key that is accepted (default: sandbox-key).")] = None,
    latency_ms: Annotated[float | None, typer.Option(help="Time to an answer, in milliseconds.")] = None,
    latency_sigma: Annotated[
        float | None, typer.Option(help="Spread of a log-normal latency; 0 is a fixed one.")
    ] = None,
    rate_limit: Annotated[int | None, typer.Option(help="Requests a second before a 429; 0 only counts.")] = None,
    balance: Annotated[
        int | None, typer.Option("--credits", help="Credits that the key has; without it, endless.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Every page is full: the worst case for credits.")] = False,
    fault: Annotated[
        list[str] | None, typer.Option(metavar="NAME=SHARE", help="Such as http500=0.01; repeat it.")
    ] = None,
    log_path: Annotated[Path | None, typer.Option(help="Append one JSON line per request to this file.")] = None,
    as_json: Json = False,
) -> int:
    """Serve simulated upstreams on local ports, with the faults of the real ones. Costs nothing; needs no key.

    Serper; Google Business Profile; a web site with job postings, companies and profiles; a receiver of webhooks, which
    prints what it gets; a backend that keeps log-ins. Answers until Ctrl-C, and prints how to point Forager at it.
    """
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
    if full:
        changes["density"] = [[1.0, 1000, 1000]]
    if fault:
        changes["faults"] = dict(_share(text) for text in fault)
    config = SerperConfig().changed(changes)
    sizes = Sizes(config.seed, site_port, google_port, locations)
    town = Town.built(config.key, sizes, quiet=as_json)
    serve(config, port=port, announce=lambda url: town.show(url, as_json=as_json), beside=town.servers)
    return ExitCode.OK


def _share(text: str) -> tuple[str, float]:
    name, _, share = text.partition("=")
    try:
        return name, float(share)
    except ValueError:
        raise typer.BadParameter(
            f"give NAME=SHARE, such as http500=0.01, instead of {text!r}", param_hint="--fault"
        ) from None


@dataclass(frozen=True)
class Sizes:
    """Where the upstreams beside Serper listen, and how big their worlds are."""

    seed: int
    site_port: int
    google_port: int
    locations: int


@dataclass(frozen=True)
class Town:
    """What stands beside Serper."""

    key: str
    site: "SandboxSite"
    receiver: "WebhookReceiver"
    backend: "CredentialBackend"
    google: "GoogleSandbox"

    @classmethod
    def built(cls, key: str, sizes: Sizes, *, quiet: bool) -> "Town":
        from forager.sandbox import CredentialBackend, SandboxSite, WebhookReceiver

        backend = CredentialBackend(BACKEND_KEY)
        backend.keep("default", "linkedin", {"cookies": [LOGIN]})
        receiver = WebhookReceiver([WEBHOOK_SECRET], tell=None if quiet else _show_webhook)
        return cls(key, SandboxSite(port=sizes.site_port), receiver, backend, _google(sizes))

    @property
    def servers(self) -> "Sequence[AbstractAsyncContextManager[Any]]":
        return self.site, self.receiver, self.backend, self.google

    @property
    def endpoints(self) -> tuple[str, ...]:
        return self.site.endpoint, self.receiver.endpoint, self.backend.endpoint, *self.google.endpoints

    def show(self, url: str, *, as_json: bool) -> None:
        import orjson

        from forager.cli import render

        allow = ",".join([url.removeprefix("http://"), *self.endpoints])
        if as_json:
            render.write(orjson.dumps(self._said(url, allow)).decode() + "\n")
            return
        render.write(
            f"The sandbox answers (Ctrl-C stops it). In another terminal:\n"
            f"  export FORAGER_EGRESS_ALLOW={allow}\n"
            f"  export FORAGER_SERPER_BASE_URL={url} SERPER_API_KEY={self.key}\n"
            f"  forager places run --keyword bars --state AZ\n"
            f"  forager scrape {self.site.url('/jobs/jsonld/1')} --as job_posting\n"
            f"  forager scrape {self.site.url('/companies/pages/1')} --as company_website\n"
            f"Webhooks of jobs that end are printed here, once Forager knows where they go:\n"
            f"  export FORAGER_DEFAULT_WEBHOOK_URL={self.receiver.url('/hook')}\n"
            f"  export FORAGER_WEBHOOK_SECRET={WEBHOOK_SECRET}\n"
            f"Log-ins of the workspace `default`:\n"
            f"  export FORAGER_BACKEND_API_URL={self.backend.base_url} FORAGER_BACKEND_SERVICE_KEY={BACKEND_KEY}\n"
            f"Google Business Profile, with any access token that begins with `{self.google.config.prefix}`:\n"
            f"  accounts   {self.google.accounts_url}\n"
            f"  locations  {self.google.locations_url}\n"
            f"  reviews    {self.google.reviews_url}\n"
        )

    def _said(self, url: str, allow: str) -> dict[str, Any]:
        return {
            "url": url,
            "key": self.key,
            "site": self.site.url(""),
            "webhook_url": self.receiver.url("/hook"),
            "webhook_secret": WEBHOOK_SECRET,
            "backend_url": self.backend.base_url,
            "backend_key": BACKEND_KEY,
            "google": self.google.announcement(),
            "egress_allow": allow,
        }


def _google(sizes: Sizes) -> "GoogleSandbox":
    from forager.sandbox import GoogleConfig, GoogleSandbox, Tenant

    config = GoogleConfig(seed=sizes.seed, default=Tenant(locations=sizes.locations))
    ports = (
        {name: sizes.google_port + n for n, name in enumerate(GoogleSandbox.host_names)} if sizes.google_port else {}
    )
    return GoogleSandbox(config, ports=ports)


def _show_webhook(received: "Received") -> None:
    import orjson

    from forager.cli import render

    if received.problem:
        render.write(f"webhook refused: {received.problem}\n")
        return
    said = orjson.loads(received.body)  # it is signed, so it is ours
    counts = ", ".join(f"{count} {name}" for name, count in said["summary"].items())
    render.write(f"webhook {received.id}: {said['status']} ({counts})\n")
