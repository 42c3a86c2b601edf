"""`forager doctor`: checks whether this machine is ready, and suggests fixes. Read only; the checks are in
`checks.py`."""

from typing import TYPE_CHECKING, Any

import typer

from forager.sdk.cli.client import ProblemFound
from forager.sdk.cli.invocation import Json, invocation

if TYPE_CHECKING:
    from forager.sdk.feature import Finding

MARKS = {"ok": ("✓", "green"), "note": ("!", "yellow"), "problem": ("✗", "red")}


def doctor(context: typer.Context, as_json: Json = False) -> None:
    """Check Python, store, schema, keys, disk and upstream, and suggest fixes. Exit code 1 if there is a problem.

    Example: forager doctor
    """
    from forager.app import checks
    from forager.logging import quiet_logs
    from forager.sdk.cli import render

    quiet_logs(debug=invocation(context).debug)
    findings = checks.examine(invocation(context).settings)
    findings += _sinks(context, findings)
    problems = [finding for finding in findings if finding.state == "problem"]
    if as_json:
        told = [{"check": f.check, "state": f.state, "message": f.message, "remedy": f.remedy} for f in findings]
        render.show_json({"ok": not problems, "checks": told})
    else:
        _show(findings)
    if problems:
        wrong = ", ".join(finding.check for finding in problems)
        raise ProblemFound(f"{render.some(len(problems), 'problem')} found: {wrong}. The fixes are above.")


def _sinks(context: typer.Context, findings: "list[Finding]") -> "list[Finding]":
    """Check the sinks through the API of this store: that of a running Forager, ready or not, or one opened for this.
    Left out if there is no store yet, if something is wrong with it, or if its owner does not answer."""
    from forager.app.checks import SILENT, check_sinks
    from forager.core.errors import ForagerError
    from forager.sdk.cli.invocation import run_loop
    from forager.sdk.feature import Finding

    if any(each.state == "problem" and each.check in ("settings", "store", SILENT) for each in findings):
        return []
    current = invocation(context)
    settings = current.settings()
    if settings.api_url is None and settings.database_url is None and not (settings.home / "ledger.db").exists():
        return []

    async def listed() -> "list[dict[str, Any]]":
        async with current.host.reach(settings, debug=current.debug) as at:
            sinks: list[dict[str, Any]] = await at.api.get("/sinks")
            return sinks

    try:
        return list(check_sinks(run_loop(listed())))
    except ForagerError as error:
        return [Finding("sinks", "note", f"cannot be listed: {error.message}")]


def _show(findings: "list[Finding]") -> None:
    from rich.table import Table
    from rich.text import Text

    from forager.sdk.cli import render

    grid = Table.grid(padding=(0, 1))
    grid.add_column()
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for finding in findings:
        mark, style = MARKS[finding.state]
        text = Text(finding.message)
        if finding.remedy:
            text.append(f"\n→ {finding.remedy}", style=style)
        grid.add_row(Text(mark, style=style), finding.check, text)
    render.out().print(grid)
