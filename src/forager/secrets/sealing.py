"""Encryption of secrets at rest: AES-256-GCM, with a key that is never in the database.

A sealed text names its key and is bound to one table, row and field: it cannot be decrypted elsewhere. Keys are written
only to the key file, plain texts nowhere.
"""

import base64
import binascii
import hashlib
import hmac
import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from pydantic import SecretStr

from forager.core.clock import Faults, NoFaults
from forager.core.errors import FieldError, Rejected, SealBroken
from forager.core.secret import SealedFor, SealedTable
from forager.secrets.service_key import KeyFile, new_key

if TYPE_CHECKING:  # imported with the first key: it takes 6 MB, and most installations have nothing to seal
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

FILE = "secret.key"
VARIABLE = "FORAGER_SECRET_KEY"
VERSION = "s1"
NONCE = 12


class Sealer:
    """Encrypts with the newest key and decrypts with any available key. Create one with `sealer_for`."""

    def __init__(self, file: KeyFile | None, configured: Sequence[str] = ()) -> None:
        self._file = file
        self._keys: tuple[_Key, ...] = tuple(_key(text, VARIABLE) for text in configured)
        self._stamp: object = None

    def seal(self, text: str, about: SealedFor) -> str:
        key = self._newest()
        nonce = os.urandom(NONCE)
        sealed = nonce + key.cipher.encrypt(nonce, text.encode(), _bound(key.id, about))
        return f"{VERSION}.{key.id}.{base64.urlsafe_b64encode(sealed).decode()}"

    def unseal(self, sealed: str, about: SealedFor) -> str:
        version, key_id, body = _parts(sealed, about)
        if version != VERSION:
            raise SealBroken(f"{_row_of(about)} was sealed by a newer Forager ({version}). Use that version.")
        from cryptography.exceptions import InvalidTag

        key = self._find(key_id)
        if key is None:
            raise SealBroken(
                f"{_row_of(about)} was sealed with the key {key_id}, which is missing. Restore the {FILE} of"
                f" that time or add that key to {VARIABLE}; if it is lost, remove the entry and add it again."
            )
        try:
            raw = base64.urlsafe_b64decode(body)
            return key.cipher.decrypt(raw[:NONCE], raw[NONCE:], _bound(key_id, about)).decode()
        except (InvalidTag, binascii.Error, ValueError):
            raise SealBroken(
                f"{_row_of(about)} cannot be decrypted: it was changed, or copied from another row."
                " Remove the entry and add it again."
            ) from None

    def is_current(self, sealed: str) -> bool:
        return sealed.split(".")[1:2] == [self._newest().id]

    def missing(self, key_ids: Collection[str]) -> set[str]:
        return {each for each in key_ids if self._find(each) is None}

    def fingerprints(self, text: str) -> tuple[str, ...]:
        self._newest()
        return tuple(hmac.new(key.marks, text.encode(), hashlib.sha256).hexdigest() for key in self._keys)

    def rotate(self) -> None:
        """Add a new key as the newest; old keys stay. If there are old keys already, an earlier rotation was
        interrupted, and its new key is used."""
        if self._file is not None:
            self._newest()
            self._file.change(lambda keys: keys if len(keys) > 1 else [new_key(), *keys])
            self._reload()

    def forget_old(self) -> int:
        """Delete all keys but the newest, and return how many. Everything must have been sealed with the newest
        before."""
        if self._file is None:
            return 0
        self._reload()
        dropped = len(self._keys) - 1
        self._file.change(lambda keys: keys[:1])
        self._reload()
        return dropped

    def _newest(self) -> "_Key":
        """Return the newest key, creating one if the file has none. The file is read again if another process has
        changed it."""
        if self._file is not None and (not self._keys or self._file.stamp() != self._stamp):
            self._reload(make=True)
        return self._keys[0]

    def _find(self, key_id: str) -> "_Key | None":
        match = next((key for key in self._keys if key.id == key_id), None)
        if match is None and self._file is not None and self._file.stamp() is not None:
            self._reload()
            match = next((key for key in self._keys if key.id == key_id), None)
        return match

    def _reload(self, *, make: bool = False) -> None:
        if self._file is not None:
            self._stamp = self._file.stamp()
            self._keys = tuple(_key(text, FILE) for text in self._file.read(make=make))
            self._stamp = self._file.stamp() if self._stamp is None else self._stamp


def sealer_for(home: Path, configured: Sequence[SecretStr] = ()) -> Sealer:
    """Return a `Sealer`. Configured keys, newest first, take precedence over the key file, which is read or created on
    first use."""
    if configured:
        return Sealer(None, [each.get_secret_value() for each in configured])
    return Sealer(KeyFile(home / FILE, VARIABLE))


@dataclass(frozen=True, slots=True)
class Rotated:
    resealed: int
    dropped: int
    """Old keys that were deleted from our key file."""


async def rotate_keys(sealer: Sealer, tables: Sequence[SealedTable], faults: Faults | None = None) -> Rotated:
    """Create a new key, encrypt everything with it, and delete the old key. At any time, every text can be decrypted
    with a key on disk, so an interrupted rotation loses nothing; calling it again continues."""
    faults = faults or NoFaults()
    sealer.rotate()
    faults.at("rotate:new-key")
    resealed = 0
    for table in tables:
        resealed += await table.reseal()
        faults.at("rotate:resealed")
    if stale := sum([await table.stale() for table in tables]):
        raise SealBroken(f"{stale} entries are still sealed with an old key, which stays. Run it again.")
    faults.at("rotate:before-drop")
    return Rotated(resealed, sealer.forget_old())


@dataclass(frozen=True, slots=True)
class _Key:
    id: str
    cipher: "AESGCM"
    marks: bytes
    """Derived key for fingerprints, so that no key has two uses."""


def _key(text: str, where: str) -> _Key:
    if not re.fullmatch(r"[A-Za-z0-9_-]{43}=?", text):
        raise Rejected(
            f"a key in {where} is not 32 random bytes in URL-safe base64. Make one with:"
            ' python3 -c "import secrets; print(secrets.token_urlsafe(32))"',
            fields=[FieldError(where, "use the output of secrets.token_urlsafe(32); several separated by commas")],
        )
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    raw = base64.urlsafe_b64decode(text[:43] + "=")
    return _Key(_derived(raw, "id", 4).hex(), AESGCM(_derived(raw, "seal", 32)), _derived(raw, "fingerprint", 32))


def _derived(key: bytes, use: str, length: int) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), length, salt=None, info=f"forager {VERSION} {use}".encode()).derive(key)


def _bound(key_id: str, about: SealedFor) -> bytes:
    return orjson.dumps([VERSION, key_id, *about])


def _parts(sealed: str, about: SealedFor) -> tuple[str, str, str]:
    match sealed.split("."):
        case [version, key_id, body]:
            return version, key_id, body
    raise SealBroken(f"{_row_of(about)} is not a sealed text: it was changed. Remove the entry and add it again.")


def _row_of(about: SealedFor) -> str:
    return f"{about.field} of {about.table} {about.row[:12]}"
