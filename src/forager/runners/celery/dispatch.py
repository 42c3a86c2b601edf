"""Sends shifts while lanes have work and no owner. Runs in `forager up --runner celery`.

It keeps no account of messages: a shift that runs is a living session in the ledger, marked as a shift, and one that
was sent counts until a new session appears or it expires. So a lost message is sent again after half a minute, and a
restart sends at worst some too many, which find nothing to do.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import orjson
import structlog
from celery import Celery
from kombu.exceptions import KombuError, OperationalError

from forager.app.application import App
from forager.core.errors import FieldError, Rejected, StoreError
from forager.core.ledger import SHIFT
from forager.ledger.rules.scheduling import free_by_queue
from forager.settings import Settings

# The names of the Celery tasks. Those who send them need nothing else of this package.


WORK = "forager.work"
FIRE = "forager.fire"
SUBMIT = "forager.submit"


log = structlog.get_logger("forager.celery")

LOOK_EVERY = 1.0
EXPIRES = 30.0
"""Seconds after which a shift that no worker has begun is dropped, and may be sent again."""
SEND_SECONDS = 10.0
_FREE = free_by_queue(":now", ":most")
# A lane that every worker uses has no owner. It can keep as many shifts busy as it has tasks that are ready.
_SHARED = """
SELECT l.queue, sum(greatest(1, (
  SELECT count(*) FROM (SELECT 1 FROM queue q WHERE q.lane_id = l.id AND q.state = 0 LIMIT :most) r))) AS lanes
FROM lanes l WHERE l.owner = 0 AND l.wake_at <= :now AND NOT l.paused GROUP BY l.queue
"""
# Plain workers with `--queue` also serve some queues, but do not replace a shift.
_SHIFTS = f"""
SELECT id, queues FROM sessions WHERE lease_until >= :now AND queues IS NOT NULL AND name LIKE '{SHIFT}%'
"""
BROKERS = "redis://127.0.0.1:6379/0 or amqp://user:password@host:5672//"
Send = Callable[[str], None]
"""Sends one shift for a queue. Blocks; raises `OSError` or kombu's errors if the broker does not answer."""


def required_broker(settings: Settings) -> str:
    """Return the broker's URL. Raises `Rejected` if none is set, or if it is not a URL."""
    if settings.broker_url is None:
        problem = f"is not set; give it, or set FORAGER_BROKER_URL, such as {BROKERS}"
        raise Rejected(f"--broker: {problem}.", fields=[FieldError("--broker", problem)])
    broker = settings.broker_url.get_secret_value()
    if not all(each.partition("://")[1] for each in broker.split(";")):
        problem = f"not a valid URL of a broker; write {BROKERS}"
        raise Rejected(f"--broker (FORAGER_BROKER_URL): {problem}.", fields=[FieldError("--broker", problem)])
    return broker


def sender(celery: Any, expires: float = EXPIRES) -> Send:
    """Return the function that sends shifts through this Celery application."""

    def send(queue: str) -> None:
        celery.send_task(
            WORK,
            kwargs={"queue": queue},
            queue=queue,
            expires=expires,
            ignore_result=True,
            retry=False,
            delivery_mode=1,  # kept in memory only: one that is lost is sent again
        )

    return send


def connector(celery: Any) -> Callable[[], None]:
    """Return a function that connects to the broker once. It raises what a `Send` raises."""

    def connect() -> None:
        with celery.connection_for_write() as connection:
            connection.ensure_connection(max_retries=1)

    return connect


def plain_celery(broker: str) -> Any:
    """Return a Celery application that only sends."""
    app = Celery("forager", broker=broker, set_as_current=False)
    timeouts = {"socket_timeout": SEND_SECONDS, "socket_connect_timeout": SEND_SECONDS, "connect_timeout": SEND_SECONDS}
    app.conf.update(task_serializer="json", broker_connection_timeout=SEND_SECONDS, broker_transport_options=timeouts)
    return app


@asynccontextmanager
async def sending_shifts(app: App, *, expires: float = EXPIRES) -> AsyncIterator["Dispatcher"]:
    """Leave the work to Celery workers while the block runs: the engine of this process takes no lanes with tasks, and
    shifts are sent for them. Enter it before the engine. Raises `Rejected` if no broker is set."""
    app.worker.serve(())
    celery = plain_celery(required_broker(app.settings))
    dispatcher = Dispatcher(
        app, sender(celery, expires), app.settings.shifts, expires=expires, connect=connector(celery)
    )
    sending = asyncio.create_task(dispatcher.run())
    try:
        yield dispatcher
    finally:
        sending.cancel()


class Dispatcher:
    """Sends shifts. At most `most` run or are on their way at once; `send` sends one that expires after `expires`
    seconds. `connect` is tried at the start, so that a wrong address is logged before there is work."""

    def __init__(
        self,
        app: App,
        send: Send,
        most: int,
        *,
        expires: float = EXPIRES,
        connect: Callable[[], None] | None = None,
    ) -> None:
        self.sent = 0
        """Messages since the start."""
        self._app = app
        self._send = send
        self._connect = connect
        self._most = most
        self._expires = expires
        self._pending: dict[str, list[float]] = {}
        """Time when shifts were sent that have not begun, by queue."""
        self._known: set[int] = set()
        """Sessions of shifts that were there at the last look."""
        self._fails = False

    async def run(self) -> None:
        """Send shifts until cancelled. If the broker or the store does not answer, try again."""
        connect = self._connect
        while True:
            try:
                if connect is not None:
                    first, connect = connect, None
                    await self._done(first)
                await self.look()
            except StoreError as error:
                log.warning("lanes_unreadable", error=error.message)
            except Exception:
                log.exception("shifts_failed")
            await self._app.clock.sleep(LOOK_EVERY)

    async def look(self) -> None:
        """Look once, and send what is needed now. A broker that did not take it is a trouble of the app (`/health`)
        until a later look finds it back, or nothing to send."""
        now = {"now": await self._app.ledger.now_ms()}
        free: Counter[str] = Counter()
        for lanes_with_work in (_FREE, _SHARED):
            rows = await self._app.database.fetch(lanes_with_work, now | {"most": self._most})
            free.update({row["queue"]: int(row["lanes"]) for row in rows})
        running = self._count(await self._app.database.fetch(_SHIFTS, now))
        room = self._most - sum(running.values()) - sum(map(len, self._pending.values()))
        for queue, lanes in free.items():
            # A shift that runs takes free lanes by itself, so more are sent only while it has too many for one.
            wanted = min(lanes, self._most) - running.get(queue, 0) - len(self._pending.get(queue, ()))
            for _ in range(min(wanted, room)):
                if not await self._sent(queue):
                    return
                room -= 1
        self._app.runner_trouble = None

    def _count(self, sessions: Any) -> Mapping[str, int]:
        """Count the running shifts by queue. A session that is new has begun one of the pending shifts."""
        now, running = self._app.clock.monotonic(), dict[str, int]()
        there: set[int] = set()
        for row in sessions:
            (queue,) = orjson.loads(row["queues"])  # a shift serves one
            running[queue] = running.get(queue, 0) + 1
            there.add(row["id"])
            if row["id"] not in self._known and self._pending.get(queue):
                self._pending[queue].pop(0)
        self._known = there
        for queue, sent in self._pending.items():
            self._pending[queue] = [at for at in sent if now - at < self._expires]
        return running

    async def _sent(self, queue: str) -> bool:
        if not await self._done(partial(self._send, queue)):
            return False
        self.sent += 1
        self._app.worker.stats.shifts_sent[queue] += 1
        self._pending.setdefault(queue, []).append(self._app.clock.monotonic())
        return True

    async def _done(self, ask: Callable[[], None]) -> bool:
        """Send a request to the broker. Returns whether it answered."""
        try:
            await asyncio.to_thread(ask)
        except (OSError, KombuError, OperationalError) as error:
            if not self._fails:
                log.error("broker_unreachable", error=str(error))
            self._fails = True
            self._app.runner_trouble = f"The broker does not answer: {error}"
            return False
        if self._fails:
            log.info("broker_reachable")
        self._fails = False
        return True
