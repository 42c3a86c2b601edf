"""The rules in force: the policy file and the operators' overrides, read again whenever either changes.

It joins the two and decides nothing itself. A file that has become invalid changes nothing: the last valid one stays in
force, and `trouble` holds the reason.
"""

import asyncio
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import structlog

from forager.core.clock import Clock
from forager.core.errors import FieldError, Rejected, StoreError
from forager.core.hosts import host_of
from forager.core.pipeline import Breaker, Lane, Pipeline
from forager.core.rules import OverrideSource, Rules
from forager.engine.lanes.rules.policy_file import MOST_CHARACTERS, Policies, parse_policies, shipped_policies
from forager.engine.lanes.rules.precedence import Politeness

LOOK_EVERY = 2.0
MOST_NAMES = 4_096
"""Lane names that are kept in memory."""

log = structlog.get_logger("forager.rules")

Seen = tuple[int, int, int]
"""Identifies a version of a file: inode, modification time, size. An editor that replaces the file changes the
inode."""


class Rulebook:
    """The rules in force. `open` it, then call `refresh` periodically; `lane_for` and `lane_name` answer from
    memory."""

    def __init__(self, domains: OverrideSource, path: Path | None, politeness: Politeness) -> None:
        self.politeness = politeness
        self.trouble: str | None = None
        """Why the newest file is not in force."""
        self._domains = domains
        self._path = path
        self._seen: Seen | None = None
        self._marker: int | None = None
        self._acts: list[Callable[[], None]] = []
        self._names: dict[str, str] = {}
        """Lane names by host, as `_named_by` has them: every request needs one."""
        self._named_by = politeness

    @classmethod
    async def open(
        cls,
        domains: OverrideSource,
        pipelines: Sequence[Pipeline],
        *,
        path: Path | None,
        ground: Rules,
        breaker: Breaker,
    ) -> "Rulebook":
        """Read the file and the overrides. Raises `Rejected` if the file is invalid."""
        lanes: Mapping[str, Sequence[Lane]] = {pipeline.name: pipeline.lanes for pipeline in pipelines}
        shipped = await asyncio.to_thread(shipped_policies)
        made = cls(domains, path, Politeness(shipped, lanes=lanes, ground=ground, breaker=breaker))
        await made.refresh()
        if made.trouble is not None:
            raise Rejected(made.trouble, fields=[FieldError("SCRAPER_DOMAIN_POLICIES_PATH", made.trouble)])
        return made

    async def refresh(self) -> bool:
        """Check for changes. Returns True if other rules are in force now."""
        before = self.politeness
        if self._path is not None:
            await self._read_file(self._path)
        overrides = await self._domains.changed_since(self._marker)
        if overrides is not None:
            self._marker = overrides.marker
            self.politeness = replace(self.politeness, overrides=overrides.rules, inactive=overrides.inactive)
        changed = self.politeness != before
        for act in self._acts if changed else ():
            act()
        return changed

    def when_changed(self, act: Callable[[], None]) -> None:
        """Call `act` now, and whenever the rules have changed."""
        self._acts.append(act)
        act()

    async def follow(self, clock: Clock) -> None:
        """Refresh periodically until cancelled."""
        while True:
            await clock.sleep(LOOK_EVERY)
            try:
                await self.refresh()
            except StoreError as error:
                log.warning("rule_overrides_unreadable", error=error.message)
            except Exception:
                log.exception("rules_failed")

    def lane_for(self, name: str, used_by: Collection[str] | None = None) -> Lane:
        return self.politeness.lane_for(name, used_by)

    def lane_name(self, url: str) -> str:
        """Return the name of the lane that a URL belongs to."""
        if self._named_by is not self.politeness or len(self._names) > MOST_NAMES:
            self._named_by, self._names = self.politeness, {}
        host = host_of(url)
        name = self._names.get(host)
        if name is None:
            name = self._names[host] = self.politeness.lane_name(host)
        return name

    async def _read_file(self, path: Path) -> None:
        try:
            seen, policies = await asyncio.to_thread(_read, path, self._seen)
        except OSError as error:
            self._say(f"The policy file {path} cannot be read: {error.strerror or error}.")
            self._seen = None
            return
        except _Unusable as unusable:
            self._say(unusable.reason)
            self._seen = unusable.seen
            return
        if policies is not None:
            self._seen, self.trouble = seen, None
            self.politeness = replace(self.politeness, policies=policies)
            log.info("policy_file_loaded", file=str(path), domains=len(policies.domains))

    def _say(self, trouble: str) -> None:
        if trouble != self.trouble:
            log.warning("policy_file_rejected", reason=trouble)
        self.trouble = trouble


class _Unusable(Exception):
    def __init__(self, reason: str, seen: Seen) -> None:
        super().__init__(reason)
        self.reason = reason
        self.seen = seen


def _read(path: Path, seen: Seen | None) -> tuple[Seen, Policies | None]:
    """Read the policies of a file, unless it has not changed since the last read."""
    with path.open("rb") as file:
        stat = os.fstat(file.fileno())
        now = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        if now == seen:
            return now, None
        content = file.read(4 * MOST_CHARACTERS + 1)
    try:
        return now, parse_policies(content.decode("utf-8"), str(path))
    except UnicodeDecodeError:
        raise _Unusable(f"The policy file {path} is not UTF-8 text.", now) from None
    except Rejected as rejected:
        raise _Unusable(rejected.message, now) from rejected
