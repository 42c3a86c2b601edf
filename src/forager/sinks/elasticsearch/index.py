"""The index of one record class in the cluster: written by the sink, searched by edges, rebuilt from the records."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from forager.core.change import Change
from forager.core.errors import Conflict, Permanent, ServiceAway, Transient
from forager.core.ledger import Ledger
from forager.kit.indexed import Indexed
from forager.kit.queries import last_change
from forager.kit.search.ranking import Found, find, terms_of
from forager.sinks.elasticsearch.alias import Alias
from forager.sinks.elasticsearch.candidates import ElasticCandidates
from forager.sinks.elasticsearch.client import Client, Missing
from forager.sinks.elasticsearch.documents import Documents, write
from forager.sinks.elasticsearch.rebuild import Rebuild
from forager.sinks.log_place import is_place_of

SEARCH_LATER = "Products are stored and stay listed; searching them works again when it answers."
FORGET_LATER = "Archived records leave it when `forager archive` is run again."
BUILT_AT_ONCE = 20_000
"""A search builds at most so much of an index that is not there yet."""


class ElasticIndex:
    """Implements `TextIndex`. Any process may call any method at any time."""

    def __init__(self, client: Client, ledger: Ledger, indexed: Indexed, *, prefix: str = "") -> None:
        self.record = indexed.record
        self._client = client
        self._ledger = ledger
        self._alias = Alias(client, indexed, prefix + indexed.alias)
        self._rebuild = Rebuild(client, ledger, indexed, self._alias)
        self._documents = Documents(indexed, ledger.database)
        self._candidates = ElasticCandidates(client, ledger.database, indexed, self._alias.name)
        self._began: int | None = None
        """The change up to which the index was filled from the records. None: not looked up yet."""

    # ── the sink ──

    async def put(self, changes: Sequence[Change]) -> None:
        """Index the records of these changes as they are now, each with the number of its last change as its version.

        Raises `Permanent` if the cluster refuses one of them, and `Transient` if it cannot be reached.
        """
        began = await self.ready()
        versions = {change.key: change.id for change in changes if change.id > began}
        documents = await self._documents.by_keys(versions)
        try:
            written = await write(self._client, self._alias.name, documents, is_alias=True)
        except Missing:
            self._began = None
            raise
        for key, reason in written.refused.items():
            raise Permanent(f"The search index refuses {self.record.kind} {key[:100]}: {reason}")

    async def ready(self) -> int:
        """Build the index if there is none, or if it has another definition; complete a rebuild that was interrupted.

        Returns the change up to which it was filled from the records. Raises `Conflict` if it belongs to another
        ledger, or if another process is building it, and `Transient` for every refusal of the cluster: what it says
        about the index is not a reason to set a change aside.
        """
        if self._began is None:
            try:
                self._began = await self._prepare()
            except Permanent as error:
                raise Transient(error.message) from error
        return self._began

    async def _prepare(self) -> int:
        meta = await self._alias.current()
        if meta is None or meta["definition"] != self._alias.definition:
            while await self._rebuild.part(BUILT_AT_ONCE, go_on=True):
                pass
            meta = await self._alias.current()
        if meta is None:
            raise Missing(f"The alias {self._alias.name!r} is not there, although its index was built.")
        await self._check_ledger(int(meta["began"]), str(meta["witness"]))
        await self._rebuild.complete()
        return int(meta["began"])

    async def _check_ledger(self, began: int, witness: str) -> None:
        if not await is_place_of(self._ledger, began, witness):
            raise Conflict(
                f"The index {self._alias.name!r} was filled from another ledger, or from a later state of this one. Set"
                " FORAGER_ELASTICSEARCH_PREFIX, or run `forager search rebuild`."
            )

    async def close(self) -> None:
        await self._client.close()

    # ── edges ──

    async def search(
        self, text: str, columns: Sequence[str] = (), only: Sequence[str] = (), values: Mapping[str, Any] | None = None
    ) -> Found:
        """Find records by the words of a text; all words must match. Builds an index that is not there yet.

        Raises `ServiceAway` if the cluster cannot be asked.
        """
        with self._translated():
            try:
                return await find(self._candidates, self._candidates.near, text, columns, only, values)
            except Missing:
                left = await self._build()
            if left:
                return Found((), terms_of(text), more=False, unindexed=left)
            return await find(self._candidates, self._candidates.near, text, columns, only, values)

    async def marked(self, matches: Found, ids: Sequence[int]) -> Mapping[int, Mapping[str, str]]:
        """By record and field: its text, with `START` and `END` around each match; only fields with a match."""
        if not ids:
            return {}
        with self._translated():
            return await self._candidates.marked(matches.terms, ids)

    async def forget(self, gone: Mapping[int, str]) -> None:
        """Remove records that are no longer stored, also from an index that is being built. Raises `ServiceAway` if the
        cluster cannot be asked."""
        with self._translated(FORGET_LATER):
            # A rebuild may have read these records before they left the store. One that begins later has not.
            building = await self._rebuild.target()
            # The end of the log comes before the records: one that is stored again after that has a later change.
            tail = await last_change(self._ledger.database)
            read = await self._documents.by_keys(dict.fromkeys(gone.values(), tail))
            missing = [document for document in read if document.body is None]
            # To a missing alias, a cluster would create an index of that name: for removals it ignores `require_alias`.
            if await self._alias.current() is not None:
                await write(self._client, self._alias.name, missing, is_alias=True)
            if building is not None:
                await write(self._client, building, missing)

    async def rebuild(self, most: int, *, go_on: bool = False) -> int:
        """Rebuild the index without interrupting searches: see `Rebuild.part`."""
        with self._translated():
            left = await self._rebuild.part(most, go_on=go_on)
        self._began = None
        return left

    async def _build(self) -> int:
        """Build a part of an index that is not there. Returns how many records are left."""
        try:
            return await self._rebuild.part(BUILT_AT_ONCE, go_on=True)
        except Conflict:
            if await self._alias.current() is not None:
                return 0
            return max(1, await self._documents.last())  # another process is building it

    @contextmanager
    def _translated(self, then: str = SEARCH_LATER) -> Iterator[None]:
        """Turn what the cluster's failures mean to a sink into what they mean to a request. `then` ends the message."""
        try:
            yield
        except (Transient, Permanent) as error:
            raise ServiceAway(f"{error.message} {then}") from error
