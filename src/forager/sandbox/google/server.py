"""Google Business Profile on four ports of this machine: accounts, locations, reviews, and OAuth tokens.

The three APIs are separate hosts with separate quotas, as the real ones are; a path of one is unknown to the others.
"""

import base64
import hashlib
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlencode

import orjson

from forager.core.errors import Rejected
from forager.sandbox.faults import Trouble
from forager.sandbox.google import errors
from forager.sandbox.google.config import FIRST, AccessTokens, GoogleConfig, read_page_token
from forager.sandbox.google.methods import GoogleCall, GoogleMethods, GoogleReply, read_route
from forager.sandbox.google.world import EPOCH, Changes, GoogleWorld
from forager.sandbox.journal import Call
from forager.sandbox.rate import SlidingWindow
from forager.sandbox.upstream import AdminRoute, Reply, Upstream
from forager.sandbox.wire import WireRequest
from forager.sandbox.world import chance

_QUOTA = 300  # what a refused call names as the limit when the sandbox itself has none


CONSENT = "/o/oauth2/v2/auth"


class GoogleSandbox(Upstream[GoogleConfig]):
    """`async with GoogleSandbox(config) as google:` — then send to `google.accounts_url` and its siblings.

    A token `sandbox-NAME` belongs to the tenant NAME; each tenant has a world of its own. `now` is the clock of
    token expiry, quotas and the `updateTime` of edited reviews.
    """

    host_names: ClassVar[tuple[str, ...]] = ("accounts", "locations", "reviews", "token")

    def __init__(
        self,
        config: GoogleConfig | None = None,
        *,
        now: Callable[[], datetime] | None = None,
        ports: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(config or GoogleConfig(), now=now, ports=ports)
        self.prepare()

    @property
    def accounts_url(self) -> str:
        return self.hosts["accounts"].url("")

    @property
    def locations_url(self) -> str:
        return self.hosts["locations"].url("")

    @property
    def reviews_url(self) -> str:
        return self.hosts["reviews"].url("")

    @property
    def token_url(self) -> str:
        return self.hosts["token"].url("/token")

    def prepare(self) -> None:
        self.tokens = AccessTokens(self.config)
        self.changes = Changes()
        self.methods = GoogleMethods(self.config, self.changes, self.time)
        self.shown: dict[str, set[str]] = {}
        """With `record_shown`: per tenant, the names of all reviews in good answers, delivered or not."""
        self._codes: dict[str, tuple[str, str, str]] = {}
        """Tenant, challenge and redirect address of each consent that was not redeemed."""
        self._worlds: dict[str, GoogleWorld] = {}
        self._windows: dict[tuple[str, str], SlidingWindow] = {}
        self._drifted: set[tuple[str, str, int]] = set()

    def world(self, tenant: str) -> GoogleWorld:
        """Return the tenant's accounts, locations and reviews; its `expected()` is what a full read must find."""
        if tenant not in self._worlds:
            self._worlds[tenant] = GoogleWorld(self.config.seed, tenant, self.config.tenant(tenant))
        return self._worlds[tenant]

    def change(self, tenant: str, location_id: str, kind: str, position: int = 0) -> None:
        """Edit or delete the review at this position in the order of `updateTime`, or add a new one.

        Raises `Rejected` for a location or position that is not there.
        """
        world = self.world(tenant)
        location = world.location_number(location_id)
        if location is None:
            raise Rejected(f"Tenant {tenant!r} has no location {location_id!r}")
        changes, now = self.changes.of(tenant, location), max(self.time.now(), EPOCH)
        order = changes.order(world.review_count(location))
        if kind == "add":
            changes.add(now)
        elif kind not in ("edit", "delete") or not -len(order) <= position < len(order):
            raise Rejected(f"`kind` is add, edit or delete, at one of {len(order)} positions; got {kind} {position}")
        elif kind == "edit":
            changes.edit(order[position], now)
        else:
            changes.delete(order[position])

    def admin_routes(self) -> Mapping[str, AdminRoute]:
        return {"expire": self._expire, "change": self._change}

    def announcement(self) -> dict[str, Any]:
        return {
            "accounts_url": self.accounts_url,
            "locations_url": self.locations_url,
            "reviews_url": self.reviews_url,
            "token_url": self.token_url,
            "access_token": f"{self.config.prefix}demo",
        }

    def error(self, fault: str, call: Call) -> Reply | None:
        project = self.config.tenant(call.tenant).project
        quota = self.config.quota_per_minute or _QUOTA
        made: dict[str, Callable[[], Reply]] = {
            "http401": lambda: errors.unauthenticated(call.host, call.operation, "ACCESS_TOKEN_EXPIRED"),
            "http403": errors.denied,
            "http404": errors.not_found,
            "quota_zero": lambda: errors.quota_exceeded(call.host, project, 0, self.config.retry_after),
            "service_disabled": lambda: errors.service_disabled(call.host, project),
            Trouble.HTTP429: lambda: errors.quota_exceeded(call.host, project, quota, self.config.retry_after),
            Trouble.HTTP500: errors.internal,
            Trouble.HTTP503: errors.unavailable,
        }
        return made[fault]() if fault in made else None

    def answer(self, host: str, request: WireRequest, call: Call) -> Reply:
        if host == "token":
            return self._token(request, call)
        asked = read_route(host, request.method, request.path, request.query)
        if asked is None:
            return errors.no_such_page(request.path)
        caller = self.tokens.check(request.headers.get(b"authorization"), self.time.seconds())
        call.tenant, call.operation, call.subject = caller.tenant, asked.operation, asked.subject
        token = asked.query.get("pageToken", "")
        place = read_page_token(token, asked.listing) if token else FIRST
        call.page = place.page if place is not None else 0
        if caller.problem is not None:
            return errors.unauthenticated(host, asked.operation, caller.problem)
        refused = self._refused(host, caller.tenant)
        if refused is not None:
            return refused
        if place is None:
            return errors.invalid("page_token", "Invalid page token")
        fault, failed = self.fault_of(call)
        if failed is not None:
            return failed
        given = self.methods.carry_out(self.world(caller.tenant), asked, place, request.body)
        self._after(asked, call, given)
        reply = given.reply
        return reply if fault is None else Reply(reply.status, reply.body, headers=reply.headers, fault=fault)

    def _refused(self, host: str, tenant: str) -> Reply | None:
        settings = self.config.tenant(tenant)
        if host in settings.disabled:
            return errors.service_disabled(host, settings.project)
        quota = self.config.quota_per_minute
        window = self._windows.setdefault((host, settings.project), SlidingWindow(60.0))
        if quota == 0 or not window.admit(self.time.seconds(), quota):
            return errors.quota_exceeded(host, settings.project, quota or 0, self.config.retry_after)
        return None

    def _after(self, asked: GoogleCall, call: Call, given: GoogleReply) -> None:
        call.items = len(given.names)
        if asked.operation != "reviews.list" or given.reply.status != 200:
            return
        if self.config.record_shown:
            self.shown.setdefault(call.tenant, set()).update(given.names)
        page = (call.tenant, asked.location, call.page)
        if self.config.drift_share and given.names and page not in self._drifted:
            self._drifted.add(page)
            drawn = chance(self.config.seed, "drift", *page) / self.config.drift_share
            if drawn < 1:
                # An old review comes to the top, or the newest vanishes: later pages repeat a row, or miss one.
                kind, position = (("edit", -1), ("delete", 0), ("add", 0))[int(drawn * 3)]
                self.change(call.tenant, asked.location, kind, position)

    def _token(self, request: WireRequest, call: Call) -> Reply:
        call.operation = "token.refresh"
        if (request.method, request.path) == ("GET", CONSENT):
            return self._consent(request)
        if (request.method, request.path) != ("POST", "/token"):
            return errors.no_such_page(request.path)
        fault, failed = self.fault_of(call)
        if failed is not None:
            return failed
        form = {name: values[0] for name, values in parse_qs(request.body.decode("latin-1")).items()}
        refresh = form.get("refresh_token", "")
        has_code = form.get("grant_type") == "authorization_code"
        if has_code:
            refresh = self._redeemed(form) or ""
        fresh = self.tokens.refresh(refresh) if has_code or form.get("grant_type") == "refresh_token" else None
        if fresh is None:
            return errors.invalid_grant()
        call.tenant = self.tokens.tenant_of(fresh)
        scope = "https://www.googleapis.com/auth/business.manage"
        lives = round(self.config.token_seconds)
        body = {"access_token": fresh, "expires_in": lives, "scope": scope, "token_type": "Bearer"}
        if has_code:
            body["refresh_token"] = refresh
        return Reply(200, orjson.dumps(body), fault=fault)

    def _consent(self, request: WireRequest) -> Reply:
        """Consent at once, as a user who presses the button, for the tenant that `login_hint` names."""
        asked = {name: values[0] for name, values in parse_qs(request.query).items()}
        if asked.get("access_type") != "offline" or asked.get("code_challenge_method") != "S256":
            return errors.invalid("request", "access_type=offline and a code_challenge are needed")
        code = f"code-{len(self._codes) + 1}"
        self._codes[code] = (asked.get("login_hint", "demo"), asked["code_challenge"], asked["redirect_uri"])
        to = f"{asked['redirect_uri']}?{urlencode({'state': asked.get('state', ''), 'code': code})}"
        return Reply(302, headers=f"Location: {to}\r\n".encode())

    def _redeemed(self, form: Mapping[str, str]) -> str | None:
        """Return the refresh token for a code, once; None for a wrong verifier or another redirect address."""
        tenant, challenge, redirect = self._codes.pop(form.get("code", ""), ("", "", ""))
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        right = base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == challenge
        return f"1//{self.config.prefix}{tenant}" if right and redirect == form.get("redirect_uri") else None

    def _expire(self, value: Any) -> Any:
        token = value.get("token") if isinstance(value, dict) else None
        if not isinstance(token, str):
            raise Rejected('Send {"token": "…"}')
        self.tokens.expire(token)
        return {}

    def _change(self, value: Any) -> Any:
        wanted = {"tenant": str, "location": str, "kind": str}
        if not isinstance(value, dict) or not all(isinstance(value.get(name), kind) for name, kind in wanted.items()):
            raise Rejected('Send {"tenant": "…", "location": "…", "kind": "add|edit|delete", "position": 0}')
        position = value.get("position", 0)
        self.change(value["tenant"], value["location"], value["kind"], position if isinstance(position, int) else 0)
        return {}
