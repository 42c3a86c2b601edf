"""The alias of one record class, and the numbered indexes behind it: `products` names `products-000007`."""

import re
from typing import Any

from forager.core.errors import Conflict
from forager.kit.indexed import Indexed
from forager.sinks.elasticsearch.client import Client
from forager.sinks.elasticsearch.mapping import META, definition_of, index_body

Meta = dict[str, Any]
"""What an index says about itself: its `definition`, the change `began` after which it was filled, and a `witness`."""


class Alias:
    """Which index an alias names, which others there are, and how they are made and removed."""

    def __init__(self, client: Client, indexed: Indexed, name: str) -> None:
        self.name = name
        self.definition = definition_of(indexed)
        self._client = client
        self._indexed = indexed
        self._pattern = re.compile(rf"{re.escape(name)}-([0-9]{{6,}})")

    async def current(self) -> Meta | None:
        """Return what the index behind the alias says about itself; None if there is no such alias.

        Raises `Conflict` if the name belongs to something that Forager has not made.
        """
        found = await self._client.ask("GET", f"/{self.name}/_mapping", none_if=404)
        if found is None:
            return None
        metas = [_meta(about) for about in found.values()]
        if self.name in found or len(metas) != 1 or metas[0] is None:
            raise Conflict(
                f"{self.name!r} in the search cluster is not an alias of Forager's. Remove or rename it, or set"
                " FORAGER_ELASTICSEARCH_PREFIX."
            )
        return metas[0]

    async def meta(self, index: str) -> Meta | None:
        """Return what an index says about itself; None if it is not there."""
        found = await self._client.ask("GET", f"/{index}/_mapping", none_if=404)
        return None if found is None else _meta(found[index])

    async def names(self, index: str) -> bool:
        """Return whether the alias names this index."""
        return index in (await self._client.ask("GET", f"/_alias/{self.name}", none_if=404) or {})

    async def next_index(self) -> str:
        """Return a name that no index has yet, neither one of ours nor another."""
        return f"{self.name}-{max((number for number, _ in (await self._numbered()).values()), default=0) + 1:06d}"

    async def create(self, index: str, began: int, witness: str) -> None:
        """Create an empty index, in place of one of that name that Forager has made. Raises `Conflict` for another."""
        found = await self._client.ask("GET", f"/{index}/_mapping", none_if=404)
        if found is not None and _meta(found[index]) is None:
            raise Conflict(
                f"The index {index!r} in the search cluster is not Forager's. Rename it, or set"
                " FORAGER_ELASTICSEARCH_PREFIX."
            )
        await self._client.ask("DELETE", f"/{index}", none_if=404)
        await self._client.ask("PUT", f"/{index}", index_body(self._indexed, began, witness))

    async def move_to(self, index: str) -> None:
        """Let the alias name this index and no other, in one step; what was written to it so far is visible."""
        await self._client.ask("POST", f"/{index}/_refresh")
        named = await self._client.ask("GET", f"/_alias/{self.name}", none_if=404) or {}
        actions: list[dict[str, Any]] = [
            {"remove": {"index": other, "alias": self.name}} for other in named if other != index
        ]
        actions.append({"add": {"index": index, "alias": self.name}})
        await self._client.ask("POST", "/_aliases", {"actions": actions})

    async def remove_all_but(self, index: str) -> None:
        """Remove the other indexes of this alias: the one before, and those of rebuilds that were given up."""
        for other, (_, is_ours) in (await self._numbered()).items():
            if is_ours and other != index:
                await self._client.ask("DELETE", f"/{other}", none_if=404)

    async def _numbered(self) -> dict[str, tuple[int, bool]]:
        """By name: the number of each index whose name is the alias and a number, and whether Forager has made it."""
        found = await self._client.ask("GET", f"/{self.name}-*/_mapping", none_if=404) or {}
        matches = {index: self._pattern.fullmatch(index) for index in found}
        return {index: (int(match[1]), _meta(found[index]) is not None) for index, match in matches.items() if match}


def _meta(about: Any) -> Meta | None:
    meta = about["mappings"].get("_meta", {}).get(META)
    return meta if isinstance(meta, dict) else None
