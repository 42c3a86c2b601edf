"""A demo of a pipeline: a real job against a simulated upstream, without a key and without a network.

A feature declares a `Demo`; `forager demo NAME` runs it. With `--crash` the worker is killed in the middle of the job,
and the demo audits the result with the upstream's own log of requests.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from forager.sdk.cli.client import Api
from forager.sdk.cli.render import GENERAL, Job, Words


@dataclass(frozen=True, slots=True)
class DemoUpstream:
    """The simulated upstream of a demo, running."""

    url: str
    log: Path
    """File with one line per request that it received."""
    announced: Mapping[str, Any] = field(default_factory=dict)
    """The whole line that it printed when ready; needed for an upstream with several hosts."""

    @property
    def address(self) -> str:
        return self.url.removeprefix("http://")


class DemoAudit(Protocol):
    """The result of comparing the upstream's log with a job whose worker was killed."""

    @property
    def failures(self) -> Sequence[str]:
        """Short descriptions of everything that is wrong; empty if nothing is."""
        ...

    def figures(self) -> dict[str, Any]:
        """Return the result as data, for `--json`."""
        ...

    def facts(self) -> Sequence[tuple[str, str]]:
        """Return the result as names and values, for display."""
        ...

    def sentence(self) -> str:
        """Return the result in one line."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashDemo:
    """Audits a demo after a crash."""

    stored: Callable[[Api, str], Awaitable[Any]]
    """`stored(api, job_id)`: what the ledger holds of the job."""
    audit: Callable[[DemoUpstream, Job, Any], DemoAudit]
    """`audit(upstream, job, stored)`: compare it with what the upstream was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """The demo of one pipeline."""

    intro: str
    """Introduction in one or two lines of rich markup."""
    upstream: Callable[[Path], Sequence[str]]
    """`upstream(log)`: the command that serves the simulated upstream until its standard input closes. It prints one
    JSON line with its `url` when it is ready, and appends one line per request to `log`."""
    settings: Callable[[DemoUpstream], Mapping[str, Any]]
    """`settings(upstream)`: settings, by name, that point Forager at the upstream."""
    path: str
    """API path to which the job is posted."""
    job: Mapping[str, Any] | Callable[[DemoUpstream], Mapping[str, Any]]
    """The job's parameters; a function of the upstream where they name its address."""
    found: Callable[[Api, str], Awaitable[Any]]
    """`found(api, job_id)`: return a part of the results, for display."""
    show: Callable[[Job, Any], None]
    """`show(job, found)`: print the result."""
    next_steps: Callable[[Path], Sequence[tuple[str, str]]]
    """`next_steps(home)`: what to try next, and the command for it."""
    again: Callable[[DemoUpstream], Awaitable[None]] | None = None
    """`again(upstream)`: change the simulated world after the first job. The job then runs a second time, and `found`
    and `show` see the second one."""
    follow: Callable[[Api, str], Awaitable[object]] | None = None
    """`follow(api, job_id)`: draw the job on a terminal until it has ended, instead of the progress bar."""
    name: str = "found"
    """Name of the results of `found` in JSON."""
    words: Words = GENERAL
    crash: CrashDemo | None = None

    def job_for(self, upstream: DemoUpstream) -> Mapping[str, Any]:
        """Return the job's parameters for this upstream."""
        return self.job(upstream) if callable(self.job) else self.job


@dataclass(frozen=True, slots=True)
class OwnDemo:
    """A demo that is more than one job: it brings its upstream and its time, and runs by itself."""

    run: Callable[[Path, bool], None]
    """`run(home, as_json)`: in this empty data folder; prints what happened, or with `as_json` all of it as data."""
