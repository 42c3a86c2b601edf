"""Recognises login walls: pages that ask for a login instead of showing the requested page. Pure.

A page with a login form beside its content is not a wall.
"""

import re
from urllib.parse import urlsplit

from forager.extract.document import Document

LOGIN_PATH = re.compile(
    r"/(?:authwall|uas/login|login|log-in|signin|sign-in|sign_in|signup|join|checkpoint|sso|account/login)\b",
    re.IGNORECASE,
)
_WORDS = re.compile(
    r"\b(?:sign in|log ?in|join now|join linkedin|sign up|einloggen|anmelden|se connecter|connectez-vous|"
    r"iniciar sesión|inicia sesión|accedi|entrar|logg? ind|logga in|inloggen|zaloguj)\b|войти|ログイン|登录|登入",
    re.IGNORECASE,
)
_MUST = re.compile(
    r"(?:sign in|log ?in|join(?: now| linkedin)?|register|create an account)[^.]{0,40}"
    r"\bto (?:view|see|continue|read|access|apply)"
    r"|you (?:must|need to) (?:be logged in|log ?in|sign in)|please (?:log ?in|sign in)|members only"
    r"|(?:melden sie sich an|bitte anmelden|connectez-vous pour|inicia sesión para)",
    re.IGNORECASE,
)
LITTLE = 1_500
"""Maximum visible characters of a wall."""


def login_wall(document: Document) -> str | None:
    """Return the text with which a page asks for a login; None if it is not a wall."""
    title = document.title or ""
    if document.tree.css_first("[class*='authwall' i], [id*='authwall' i]") is not None or "authwall" in document.url:
        return _said(document) or title or "authwall"
    if len(document.text) >= LITTLE:
        return None
    password = document.tree.css_first("input[type='password' i]") is not None
    if LOGIN_PATH.search(urlsplit(document.url).path) and (password or _WORDS.search(title)):
        return _said(document) or title
    if password and (_WORDS.search(title) or _MUST.search(document.text)):
        return _said(document) or title
    must = _MUST.search(document.text)
    if must and _WORDS.search(title) and len(document.text) < LITTLE // 2:
        return _said(document) or title
    return None


def _said(document: Document) -> str | None:
    for pattern in (_MUST, _WORDS):
        for line in document.lines:
            if len(line.text) <= 200 and pattern.search(line.text):
                return line.text
    return None
