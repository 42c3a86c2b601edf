"""Rows that are read page by page, and turned into an Arrow table or a DataFrame on request."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import wraps
from importlib import import_module
from typing import Any, Concatenate, ParamSpec, TypeVar

from forager.client.errors import PackageMissing
from forager.client.loop_thread import LoopThread, PlainGroup

G = TypeVar("G")
P = ParamSpec("P")
Row = Mapping[str, Any]
Pages = Callable[[], AsyncIterator[Sequence[Row]]]


class AsyncRows:
    """Rows of a list. Each iteration reads them again, page by page: memory stays small."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    async def __aiter__(self) -> AsyncIterator[Row]:
        async for page in self._pages():
            for row in page:
                yield row

    async def to_list(self) -> list[Row]:
        return [row async for row in self]

    async def to_arrow(self) -> Any:
        """Return all rows as a `pyarrow.Table`. Raises `PackageMissing` without the package `pyarrow`."""
        return arrow_table(await self.to_list())

    async def to_pandas(self) -> Any:
        """Return all rows as a `pandas.DataFrame`. Raises `PackageMissing` without the package `pandas`."""
        return data_frame(await self.to_list())


class SyncRows:
    """The same for plain code."""

    def __init__(self, thread: LoopThread, rows: AsyncRows) -> None:
        self._thread = thread
        self._rows = rows

    def __iter__(self) -> Iterator[Row]:
        return self._thread.iterate(aiter(self._rows))

    def to_list(self) -> list[Row]:
        return self._thread.run(self._rows.to_list())

    def to_arrow(self) -> Any:
        """Return all rows as a `pyarrow.Table`. Raises `PackageMissing` without the package `pyarrow`."""
        package("pyarrow", "pip install 'forager-data[parquet]'")
        return arrow_table(self.to_list())

    def to_pandas(self) -> Any:
        """Return all rows as a `pandas.DataFrame`. Raises `PackageMissing` without the package `pandas`."""
        package("pandas", "pip install pandas")
        return data_frame(self.to_list())


def plain_rows(method: Callable[Concatenate[G, P], AsyncRows]) -> Callable[Concatenate[PlainGroup[G], P], SyncRows]:
    """Return the method of a `PlainGroup` that returns these rows for plain code."""

    @wraps(method)
    def call(self: PlainGroup[G], /, *args: P.args, **options: P.kwargs) -> SyncRows:
        return SyncRows(self._thread, method(self._group, *args, **options))

    return call


def arrow_table(rows: Sequence[Row]) -> Any:
    return package("pyarrow", "pip install 'forager-data[parquet]'").Table.from_pylist([dict(row) for row in rows])


def data_frame(rows: Sequence[Row]) -> Any:
    return package("pandas", "pip install pandas").DataFrame.from_records([dict(row) for row in rows])


def package(name: str, command: str) -> Any:
    """Import a package that only this needs. Raises `PackageMissing` with the command that installs it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise PackageMissing(f"This needs the package {name}: {command}") from error
