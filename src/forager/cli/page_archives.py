"""`forager pages export --warc | --wacz`, and `forager replay`: a file for tools of web archives, and a job run again
from one."""

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from forager.core.errors import NotFound, Rejected
from forager.sdk.cli.client import JobNotDone, ProblemFound, part
from forager.sdk.cli.invocation import Json, Reached, full_job, invocation, with_api
from forager.sdk.cli.row_files import opened

if TYPE_CHECKING:
    from forager.app.replay import ReplayResult
    from forager.sdk.warc import WarcWriter

PATH = "/pages"
INNER = "pages.warc.gz"
NEXT = "x-next-cursor"


def export_archive(
    context: typer.Context,
    warc: Path | None,
    wacz: Path | None,
    kind: str,
    domain: str | None,
    job: str | None,
    *,
    as_json: bool,
) -> None:
    """Write a WARC file with its index, or a WACZ package with both in it."""
    from forager.sdk.cli import render
    from forager.sdk.warc import cdxj, write_wacz
    from forager.sdk.warc_read import cdxj_lines

    output = warc or wacz
    assert output is not None  # noqa: S101 - the caller has looked
    name = INNER if wacz is not None else output.name
    with TemporaryFile(dir=output.parent) as inner:
        written = with_api(context, lambda at: _written(at, inner, name, kind, domain, job))
        inner.seek(0)
        index = list(cdxj_lines(inner, name))
        inner.seek(0)
        with opened(output) as file:
            if wacz is not None:
                write_wacz(file, inner, name, index, written.pop("pages_list"))
            else:
                while chunk := inner.read(1 << 20):
                    file.write(chunk)
    if warc is not None:
        written.pop("pages_list")
        with opened(output.with_name(f"{output.name}.cdxj")) as to:
            to.write(cdxj(index))
    if as_json:
        render.show_json({"pages": len(index), **written, "output": str(output)})
        return
    missing = written["missing"]
    lost = f" {render.some(missing, 'page')} no longer stored, or without an address." if missing else ""
    what = f"{render.some(len(index), 'answer')} of the recorded job" if written["recorded"] else ""
    message = f"{what or render.some(len(index), 'page')} in {output}.{lost}"
    render.notes().print(message, markup=False, soft_wrap=True)
    if written["recorded"]:
        render.notes().print(f"Run the job again from it: forager replay {output}", markup=False, soft_wrap=True)


async def _written(
    at: Reached, file: BinaryIO, name: str, kind: str, domain: str | None, job: str | None
) -> dict[str, Any]:
    """Write the recording of a job, or stored pages. Returns what was written."""
    from forager.sdk.warc import WarcWriter

    writer = WarcWriter(file, name)
    if job is not None:
        job = await full_job(at.api, job)
        await _write_recording(at, writer, job)
        file.seek(0)
        return {"missing": 0, "recorded": True, "job": job, "pages_list": _pages_of(file)}
    pages, missing = await _captured(at, writer, kind, domain)
    return {"missing": missing, "recorded": False, "pages_list": pages}


async def _write_recording(at: Reached, writer: "WarcWriter", job: str) -> None:
    """Write the job, all its answers and the changes that it caused. Raises `NotFound` if it was not recorded."""
    from forager.app.replay import write_job, write_records

    path = f"/jobs/{part(job)}/recording"
    answer = await at.api.download(path)
    report = await at.api.get(f"/jobs/{part(job)}")
    now = datetime.now(UTC)
    told = {name: report[name] for name in ("id", "pipeline", "params", "created_at", "finished_at")}
    write_job(writer, told, now)
    writer.add_members(answer.body)
    while (cursor := answer.headers.get(NEXT)) is not None:
        answer = await at.api.download(f"{path}?cursor={cursor}")
        writer.add_members(answer.body)
    after = 0
    while True:
        got = await at.api.ask("GET", "/changes", query={"job": job, "after": after, "limit": 1_000})
        write_records(writer, [each for each in got.data if each["kind"] not in ("job", "task")], now)
        if len(got.data) < 1_000:
            break
        after = got.meta["next_after"]


def _pages_of(file: BinaryIO) -> list[dict[str, str]]:
    """Return the entries of a WACZ's list of pages: the pages among the answers, without the calls of APIs."""
    from forager.sdk.warc_read import read_records

    found = []
    for each in read_records(file):
        if each.kind == "response":
            status, headers, _ = each.http()
            if status < 400 and "html" in headers.get("Content-Type", ""):
                found.append({"id": each.headers["warc-record-id"], "url": each.url, "ts": each.at.isoformat()})
    return found


async def _captured(
    at: Reached, writer: "WarcWriter", kind: str, domain: str | None
) -> tuple[list[dict[str, str]], int]:
    """Write every stored page. Returns the entries of a list of pages, and the number that could not be written."""
    from forager.sdk.warc import CapturedPage

    written: list[dict[str, str]] = []
    missing = 0
    async for some in at.api.pages(PATH, kind=kind, domain=domain):
        for each in some:
            try:
                detail = await at.api.get(f"{PATH}/{each['id']}")
                file = next(file for file in detail["files"] if file["name"] != "screenshot")
                body = (await at.api.download(f"{PATH}/{each['id']}/{file['name']}")).body
            except (NotFound, StopIteration):
                missing += 1
                continue
            url, fetched = each["url"] or detail["url"], detail["fetched_at"]
            if url is None or fetched is None:
                missing += 1
                continue
            about = {"forager-page": each["id"], "forager-kind": each["kind"], "forager-key": each["key"]}
            about["forager-file"] = file["name"]
            moment = datetime.fromisoformat(fetched)
            writer.add(CapturedPage(url, moment, detail["status"] or 200, file["content_type"], body, about))
            written.append({"id": each["id"], "url": url, "ts": fetched})
    return written, missing


# `forager replay`: the job of a recording, run again from its file.


def replay(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", dir_okay=False, help="WARC file of a job: `forager pages export --warc FILE --job JOB`."
        ),
    ],
    into: Annotated[
        Path | None,
        typer.Option("--into", file_okay=False, help="Empty data folder to keep the result in (default: not kept)."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a recorded job again from its file, without the network, and compare the records.

    Every request is answered from the file. Exit code 1 if a record differs from the recorded ones, if a request is not
    in the file, or if the job did not end.

    Example: forager replay job.warc.gz
    """
    import asyncio

    from forager.app.replay import read_recording
    from forager.app.replay import replay as run_again
    from forager.ledger.sqlite.lock import has_store
    from forager.logging import quiet_logs

    current = invocation(context)
    quiet_logs(debug=current.debug)
    try:
        if into is not None and has_store(into):
            raise Rejected(f"{into} has a store already. Name a folder without one.")
        content = file.open("rb")
    except OSError as error:
        raise Rejected(f"{error.filename} cannot be opened: {error.strerror or error}.") from error
    with tempfile.TemporaryDirectory(prefix="forager-replay-") as passing, content:
        recording = read_recording(content)
        home = into.absolute() if into is not None else Path(passing)
        settings = current.settings({"home": home, "database_url": None, "blobs": None, "record": ()})
        done = asyncio.run(run_again(settings, recording))
    _show_replayed(done, into, as_json=as_json)


def _show_replayed(done: "ReplayResult", into: Path | None, *, as_json: bool) -> None:
    from forager.sdk.cli import render

    state = str(done.job.state)
    if as_json:
        render.show_json(
            {
                "job_id": str(done.job.id),
                "pipeline": done.job.pipeline,
                "state": state,
                "records": done.records,
                "differ": done.differ,
                "more": done.more,
                "not_recorded": done.missing,
                "home": None if into is None else str(into),
            }
        )
    else:
        found = ", ".join(f"{count} {kind}" for kind, count in done.records.items()) or "no records"
        lines = [("job", f"{done.job.pipeline}, {state}"), ("found", found)]
        if done.differ is not None:
            lines.append(("compared", _verdict(done.differ)))
        if done.more:
            lines.append(("new here", ", ".join(f"{count} {kind}" for kind, count in done.more.items())))
        if into is not None:
            lines.append(("data", str(into)))
        render.out().print(render.facts(lines))
    if done.missing:
        raise ProblemFound(f"{len(done.missing)} requests are not in the recording, the first: {done.missing[0]}")
    if done.differ:
        raise ProblemFound(f"The replay is not the same: {_verdict(done.differ)}.")
    if done.job.finished_at is None:
        raise JobNotDone(f"The job did not end: {done.job.reason or state}.")


def _verdict(differ: dict[str, int]) -> str:
    if not differ:
        return "the same as recorded"
    return ", ".join(f"{count} {kind} differ" for kind, count in differ.items())
