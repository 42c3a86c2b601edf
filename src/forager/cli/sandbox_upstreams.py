"""The simulated upstreams that `forager sandbox` serves besides Serper. A new one is a builder and one line below."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from forager.sandbox import (
    ApifyConfig,
    ApifySandbox,
    CredentialBackend,
    GoogleConfig,
    GoogleSandbox,
    ReceivedRequest,
    SandboxSite,
    ShopConfig,
    ShopSandbox,
    SimulatedModel,
    SimulatedUnblocker,
    Tenant,
    WebhookReceiver,
)

WEBHOOK_SECRET = "sandbox-webhook-secret"  # noqa: S105 - opens nothing real
BACKEND_KEY = "sandbox-backend-key"
MODEL_KEY = "sandbox-model-key"
VIA_KEY = "sandbox-via-key"
LOGIN = {"name": "li_at", "value": "sandbox", "domain": "127.0.0.1", "secure": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of the command."""

    seed: int
    site_port: int
    google_port: int
    locations: int
    apify_port: int
    homes: int
    shop_port: int
    shop_pages: int
    receiver_port: int
    quiet: bool
    """Print nothing but the announcement."""


class SandboxServer(AbstractAsyncContextManager[Any], Protocol):
    """A server that listens on local ports while the block runs."""

    @property
    def endpoints(self) -> Sequence[str]:
        """HOST:PORT of each port, once it listens."""
        ...


@dataclass(frozen=True, slots=True)
class Simulated:
    """One simulated upstream. Its URL is known only once it listens, hence the functions."""

    server: SandboxServer
    hints: Callable[[], Sequence[str]]
    """Lines for people: variables to export and commands to try."""
    data: Callable[[], Mapping[str, Any]]
    """The same for programs."""


def site(options: Options) -> Simulated:
    """Simulate a web site with job postings, companies and profiles."""
    served = SandboxSite(port=options.site_port)
    return Simulated(
        served,
        lambda: [
            f"  forager scrape {served.url('/jobs/jsonld/1')} --as job_posting",
            f"  forager scrape {served.url('/companies/pages/1')} --as company_website",
        ],
        lambda: {"site": served.url("")},
    )


def webhooks(options: Options) -> Simulated:
    """Simulate a webhook receiver that checks signatures and prints the messages."""
    receiver = WebhookReceiver(
        [WEBHOOK_SECRET], port=options.receiver_port, tell=None if options.quiet else _show_webhook
    )
    return Simulated(
        receiver,
        lambda: [
            "To send the webhooks of finished jobs to this receiver, which prints them:",
            f"  export FORAGER_DEFAULT_WEBHOOK_URL={receiver.url('/hook')}",
            f"  export FORAGER_WEBHOOK_SECRET={WEBHOOK_SECRET}",
        ],
        lambda: {"webhook_url": receiver.url("/hook"), "webhook_secret": WEBHOOK_SECRET},
    )


def logins(options: Options) -> Simulated:
    """Simulate a credential backend with one login."""
    backend = CredentialBackend(BACKEND_KEY)
    backend.keep("default", "linkedin", {"cookies": [LOGIN]})
    return Simulated(
        backend,
        lambda: [
            "Logins of the workspace `default`:",
            f"  export FORAGER_BACKEND_API_URL={backend.base_url} FORAGER_BACKEND_SERVICE_KEY={BACKEND_KEY}",
        ],
        lambda: {"backend_url": backend.base_url, "backend_key": BACKEND_KEY},
    )


def google(options: Options) -> Simulated:
    """Google Business Profile: accounts, locations, reviews."""
    ports = {name: options.google_port + n for n, name in enumerate(GoogleSandbox.host_names)}
    config = GoogleConfig(seed=options.seed, default=Tenant(locations=options.locations))
    served = GoogleSandbox(config, ports=ports if options.google_port else {})
    return Simulated(
        served,
        lambda: [
            f"Google Business Profile, with any access token that begins with `{config.prefix}`:",
            f"  export FORAGER_GOOGLE_ACCOUNTS_URL={served.accounts_url}",
            f"  export FORAGER_GOOGLE_LOCATIONS_URL={served.locations_url}",
            f"  export FORAGER_GOOGLE_REVIEWS_URL={served.reviews_url}",
            f"  echo {config.prefix}token | forager reviews run --token-file -",
            f"A login of it, with the refresh token `1//{config.prefix}token` and a client of any id and secret:",
            f"  export FORAGER_GOOGLE_OAUTH_URL={served.token_url.removesuffix('/token')}",
            f"  echo 1//{config.prefix}token > refresh.txt",
            """  echo '{"installed": {"client_id": "any", "client_secret": "any"}}' > client.json""",
            "  forager reviews login --client client.json --refresh-token-file refresh.txt",
        ],
        lambda: {"google": served.announcement()},
    )


def apify(options: Options) -> Simulated:
    """Apify, and the site that the listings of its actors are on."""
    ports = {name: options.apify_port + n for n, name in enumerate(ApifySandbox.host_names)}
    config = ApifyConfig(seed=options.seed, homes=options.homes)
    served = ApifySandbox(config, ports=ports if options.apify_port else {})
    return Simulated(
        served,
        lambda: [
            f"Apify, with any token that begins with `{config.prefix}` (the site of its listings: {served.site_url}):",
            f"  export FORAGER_APIFY_BASE_URL={served.url} APIFY_TOKEN={config.prefix}token",
            "  forager markets scrape boston",
            "  forager markets start",
        ],
        lambda: {"apify": served.announcement()},
    )


def shop(options: Options) -> Simulated:
    """Simulate a shop with product pages in every layout."""
    config = ShopConfig(seed=options.seed, pages=options.shop_pages, layout="mixed")
    served = ShopSandbox(config, port=options.shop_port)
    return Simulated(
        served,
        lambda: [
            "A shop (a page takes about two seconds, as on a real site):",
            f"  forager crawl {served.url('/sitemap.xml')} --sitemap --max-pages 20",
        ],
        lambda: {"shop": served.announcement()},
    )


def model(options: Options) -> Simulated:
    """Simulate a language model for described fields: it quotes lines such as `Price: $12`."""
    served = SimulatedModel(MODEL_KEY)
    return Simulated(
        served,
        lambda: [
            "A language model for described fields:",
            f"  export FORAGER_LLM_URL={served.base_url} FORAGER_LLM_API_KEY={MODEL_KEY}",
            f"  export FORAGER_LLM_MODEL={served.name} FORAGER_LLM_PRICE_IN=0.15 FORAGER_LLM_PRICE_OUT=0.60",
        ],
        lambda: {"llm_url": served.base_url, "llm_api_key": MODEL_KEY, "llm_model": served.name},
    )


def unblocker(options: Options) -> Simulated:
    """Simulate an unblocking service, which fetches pages of this machine."""
    served = SimulatedUnblocker(VIA_KEY)
    return Simulated(
        served,
        lambda: [
            "An unblocking service (which sites use it: forager lanes set 127.0.0.1:PORT --via --new):",
            f"  export FORAGER_VIA_URL='{served.template}' FORAGER_VIA_API_KEY={VIA_KEY}",
            "  export FORAGER_VIA_PRICE=0.001 FORAGER_VIA_MAX_USD_DAY=1",
        ],
        lambda: {"via_url": served.template, "via_api_key": VIA_KEY},
    )


UPSTREAMS: tuple[Callable[[Options], Simulated], ...] = (
    site,
    webhooks,
    logins,
    google,
    apify,
    shop,
    model,
    unblocker,
)


def _show_webhook(received: ReceivedRequest) -> None:
    import orjson

    from forager.sdk.cli import render

    if received.problem:
        render.write(f"webhook refused: {received.problem}\n")
        return
    message = orjson.loads(received.body)  # its signature was checked, so the body is ours
    if "summary" in message:  # the end of a job
        counts = ", ".join(f"{count} {name}" for name, count in message["summary"].items())
        render.write(f"webhook {received.id}: {message['status']} ({counts})\n")
    else:  # a change, of a sink that was added
        render.write(f"webhook {received.id}: {message['kind']} {message['key']} {message['op']}\n")
