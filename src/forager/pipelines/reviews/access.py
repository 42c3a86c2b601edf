"""Google logins: a refresh token with its client, sealed in the vault, and access tokens made from it when they are
needed.

Access tokens live in memory only, for less than their hour. A refresh token is sent to Google's token endpoint and
nowhere else; neither is ever logged, returned or recorded: these requests do not pass through the lanes of a job.
"""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import orjson

from forager.core.clock import Clock
from forager.core.database import Database
from forager.core.errors import FieldError, ForagerError, NotFound, Rejected, Transient, Unconfigured
from forager.core.http import Fetch, Request, Response
from forager.core.secret import Secret, Vault
from forager.core.states import ErrorType
from forager.pipelines.reviews.pipeline import ReviewsJob, checked_login
from forager.pipelines.reviews.settings import ReviewsSettings
from forager.pipelines.reviews.steps import TOKEN
from forager.sdk.service import Service
from forager.sdk.settings import SettingsTree

KIND = "google_login"
EARLY = 300.0
"""Seconds before its end at which an access token is replaced: a page must not begin with one that is about to end."""
AGAIN = "log in: forager reviews login"
_LOGIN_OF_JOB = "SELECT params FROM jobs WHERE id = :job"
_NAMES = f"SELECT name FROM vault WHERE kind = '{KIND}' ORDER BY name"


async def with_known_login(service: Service, job: ReviewsJob) -> ReviewsJob:
    """Return the job. Raises `Rejected` if it names a login that is not stored."""
    if job.login is not None and job.login not in await service.tokens["reviews"].names():
        problem = FieldError("login", f"{job.login!r} is not a stored Google login; {AGAIN} --name {job.login}")
        raise Rejected(f"login: {problem.message}", fields=[problem])
    return job


class GoogleLogins:
    """The logins of this store."""

    def __init__(self, settings: SettingsTree, vault: Vault, database: Database, fetch: Fetch, clock: Clock) -> None:
        own = settings.of(ReviewsSettings)
        self._endpoint = f"{own.google_oauth_url.rstrip('/')}/token"
        self._timeout = own.google_timeout_seconds
        self._vault = vault
        self._database = database
        self._fetch = fetch
        self._clock = clock
        self._tokens: dict[str, tuple[Secret, float, str]] = {}
        """Access token, the end of its use in monotonic seconds, and the refresh token that it was made from."""
        self._locks: dict[str, asyncio.Lock] = {}
        self._of_job: dict[int, str | None] = {}

    # ── tokens of jobs: implements `core.secret.JobSecrets` ──

    async def of(self, job: int, name: str) -> Secret | None:
        """Return an access token for a job that names a login; None for any other job or secret."""
        if name != TOKEN:
            return None
        if job not in self._of_job:
            rows = await self._database.fetch(_LOGIN_OF_JOB, {"job": job})
            params = rows[0]["params"] if rows else None
            known = orjson.loads(params) if isinstance(params, str | bytes) else params
            self._of_job[job] = known.get("login") if isinstance(known, Mapping) else None
            while len(self._of_job) > 1_000:
                del self._of_job[next(iter(self._of_job))]
        login = self._of_job[job]
        return None if login is None else await self.token(login)

    async def token(self, login: str) -> Secret:
        """Return an access token of a login. Raises `Unconfigured` if Google refuses the login or if there is none,
        `Transient` if Google does not answer."""
        async with self._locks.setdefault(login, asyncio.Lock()):
            stored = await self._vault.get(KIND, login)
            if stored is None:
                raise Unconfigured(f"There is no Google login {login!r}; {AGAIN} --name {login}")
            given = orjson.loads(stored.reveal())
            known = self._tokens.get(login)
            if known and known[1] > self._clock.monotonic() and known[2] == given["refresh_token"]:
                return known[0]
            answer = await self._exchange({**given, "grant_type": "refresh_token"}, login)
            made = Secret(str(answer["access_token"]))
            lives = float(answer.get("expires_in") or 0)
            until = self._clock.monotonic() + max(lives - EARLY, lives / 2)
            self._tokens[login] = (made, until, given["refresh_token"])
            return made

    # ── keeping logins ──

    async def put(self, login: str, client_id: str, client_secret: Secret, refresh_token: Secret) -> None:
        """Check a login with Google, and keep it. Raises `Rejected` if Google refuses it."""
        _check_name(login)
        given = {
            "client_id": client_id,
            "client_secret": client_secret.reveal(),
            "refresh_token": refresh_token.reveal(),
        }
        try:
            await self._exchange({**given, "grant_type": "refresh_token"}, login)
        except Unconfigured as error:
            raise Rejected(error.message) from error
        await self._keep(login, given)

    async def put_code(
        self, login: str, client_id: str, client_secret: Secret, code: Secret, verifier: Secret, redirect_uri: str
    ) -> None:
        """Exchange the code of a consent for a refresh token, and keep that. Raises `Rejected` if Google refuses it."""
        _check_name(login)
        client = {"client_id": client_id, "client_secret": client_secret.reveal()}
        form = {
            **client,
            "grant_type": "authorization_code",
            "code": code.reveal(),
            "code_verifier": verifier.reveal(),
            "redirect_uri": redirect_uri,
        }
        try:
            answer = await self._exchange(form, login)
        except Unconfigured as error:
            raise Rejected(error.message) from error
        refresh = answer.get("refresh_token")
        if not refresh:
            raise Rejected(
                "Google sent no refresh token. Remove Forager's access at myaccount.google.com/permissions, and log in"
                " again."
            )
        await self._keep(login, {**client, "refresh_token": str(refresh)})

    async def names(self) -> list[str]:
        return [row["name"] for row in await self._database.fetch(_NAMES)]

    async def remove(self, login: str) -> None:
        if login not in await self.names():
            raise NotFound(f"There is no Google login {login!r}. See `forager reviews logins`.")
        await self._vault.remove(KIND, login)
        self._tokens.pop(login, None)

    async def _keep(self, login: str, given: Mapping[str, str]) -> None:
        await self._vault.put(KIND, login, Secret(orjson.dumps(dict(given)).decode()))
        self._tokens.pop(login, None)

    async def _exchange(self, form: Mapping[str, str], login: str) -> Mapping[str, Any]:
        request = Request(
            self._endpoint,
            "POST",
            headers={"Content-Type": "application/x-www-form-urlencoded"},
            body=urlencode(form).encode(),
            timeout=self._timeout,
            max_redirects=0,  # the refresh token must not follow one to another host
            max_bytes=64 * 1024,
        )
        try:
            response = await self._fetch(request)
        except Transient:
            raise
        except ForagerError as error:
            raise Transient(f"Google's token endpoint does not answer: {error.message}") from None
        body = _object(response)
        if response.status == 200 and body.get("access_token"):
            return body
        why = str(body.get("error_description") or body.get("error") or response.status)[:200]
        if response.status in (400, 401, 403):
            raise Unconfigured(f"Google refused the login {login!r}: {why.rstrip('.')}; {AGAIN} --name {login}")
        raise Transient(f"Google gave no access token ({response.status}).", error_type=ErrorType.HTTP)


def _check_name(login: str) -> None:
    try:
        checked_login(login)
    except ValueError as error:
        raise Rejected(f"name: {error}", fields=[FieldError("name", str(error))]) from None


def _object(response: Response) -> Mapping[str, Any]:
    try:
        body = orjson.loads(response.body)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
