"""Reference data that pipelines need, such as the table of ZIP codes: loaded at first use and kept."""

import asyncio
import gc
from collections.abc import Callable, Iterable, Mapping
from typing import Any


class References:
    """Reference data by name. Each is loaded once, in a thread, because the tables are big."""

    def __init__(self, loaders: Mapping[str, Callable[[], Any]]) -> None:
        self._loaders = loaders
        self._loaded: dict[str, Any] = {}
        self._loading = asyncio.Lock()

    async def get(self, name: str) -> Any:
        """Return reference data, after loading it if this is the first use."""
        async with self._loading:
            if name not in self._loaded:
                self._loaded[name] = await asyncio.to_thread(self._loaders[name])
                gc.freeze()  # the table stays in memory, so the garbage collector need not scan it
            return self._loaded[name]

    async def load(self, names: Iterable[str]) -> dict[str, Any]:
        """Return several by name."""
        return {name: await self.get(name) for name in names}
