"""The loopback flow of a Google login: the user consents in a browser, which comes back to a port of this machine.

The code in the address is worth nothing without the verifier (PKCE), which stays in this process.
"""

import asyncio
import base64
import hashlib
import html
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import orjson

from forager.core.errors import Rejected
from forager.sdk.cli import render
from forager.sdk.cli.client import Api, JobNotDone, part

LONGEST_LINE = 8 * 1024


@dataclass(frozen=True, slots=True)
class OAuthClient:
    id: str
    secret: str


def read_client(file: Path) -> OAuthClient:
    """Read the JSON file of an OAuth client. Raises `Rejected`."""
    try:
        given = orjson.loads(file.read_bytes())
    except OSError as error:
        raise Rejected(f"--client: {file} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise Rejected(f"--client: {file} is not JSON. Download it again from Google's console.") from error
    inner = given.get("installed") or given.get("web") or given if isinstance(given, dict) else {}
    if not isinstance(inner, dict) or not inner.get("client_id") or not inner.get("client_secret"):
        raise Rejected(f"--client: {file} has no client_id and client_secret. Create an OAuth client of type desktop.")
    return OAuthClient(str(inner["client_id"]), str(inner["client_secret"]))


async def store_login(
    api: Api, name: str, client: OAuthClient, refresh_token: str | None, *, open_browser: bool, wait: int
) -> Any:
    """Store a login by its refresh token, or by a consent that this waits for."""
    path, known = f"/review-logins/{part(name)}", {"client_id": client.id, "client_secret": client.secret}
    if refresh_token is not None:
        return await api.put(path, {**known, "refresh_token": refresh_token})
    consent = await api.get("/review-consent")
    verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
    arrived: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readline())[:LONGEST_LINE].decode("latin-1").split(" ")
        given = {key: values[0] for key, values in parse_qs(urlsplit(line[1] if len(line) > 1 else "").query).items()}
        right = secrets.compare_digest(given.get("state", ""), state)
        text = "You can close this window and go back to the terminal." if right else "This is not the page expected."
        body = f"<!doctype html><title>Forager</title><p>{html.escape(text)}</p>".encode()
        head = f"HTTP/1.1 {200 if right else 404} -\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()
        if right and not arrived.done():
            arrived.set_result(given)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        redirect = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        digest = hashlib.sha256(verifier.encode()).digest()
        asked = {
            "client_id": client.id,
            "redirect_uri": redirect,
            "response_type": "code",
            "scope": consent["scope"],
            "access_type": "offline",
            "prompt": "consent",
            "state": state,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        page = f"{consent['url']}?{urlencode(asked)}"
        render.notes().print(f"Open this page and allow access:\n{page}", markup=False, soft_wrap=True)
        if open_browser:
            import webbrowser

            webbrowser.open(page)
        try:
            given = await asyncio.wait_for(arrived, wait)
        except TimeoutError:
            raise JobNotDone(f"No consent arrived within {wait} s. Run the command again.") from None
    if "code" not in given:
        raise Rejected(f"Google gave no consent: {given.get('error', 'no reason')[:200]}.")
    body = {**known, "code": given["code"], "code_verifier": verifier, "redirect_uri": redirect}
    return await api.put(path, body)
