"""The logical schema, the same for both databases. Each database has its own hand-written SQL for the hot path.

Points in time are Unix milliseconds (`…_at`, `due`), so that both stores and every report compare the same integers;
the views with the seeds' names render them as timestamps. Every constraint and index has a name, for Alembic.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.types import JSON, Boolean

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

# A rowid on SQLite needs INTEGER; everywhere else these are 64-bit.
BigId = BigInteger().with_variant(Integer(), "sqlite")

sessions = Table(
    "sessions",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("name", Text, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("lease_until", BigInteger, nullable=False),
    Column("wants", Integer, nullable=False, server_default="0", comment="how many more lanes it could use"),
    Column("queues", Text, comment="JSON list of the queues that it serves; NULL: all"),
)

lanes = Table(
    "lanes",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("owner", BigInteger),  # 0: shared by all sessions (ledger/postgres/lanes.py)
    Column("epoch", BigInteger, nullable=False, server_default="0"),
    Column("paused", Boolean, nullable=False, server_default=text("false")),
    Column("wake_at", BigInteger),
    Column("state", JSON),
    Column("queue", Text, nullable=False, server_default="celery"),
    # Lanes that may be taken: awake, not paused, without an owner.
    Index("ix_lanes_wake_at", "wake_at", sqlite_where=text("owner IS NULL"), postgresql_where=text("owner IS NULL")),
    # The same for sessions that serve some queues only: lanes of other queues, however many, are not read.
    Index(
        "ix_lanes_queue_wake_at",
        "queue",
        "wake_at",
        sqlite_where=text("owner IS NULL"),
        postgresql_where=text("owner IS NULL"),
    ),
    Index("ix_lanes_owner", "owner"),
)

# Where workers are (core/regions.py). A row per region that has ever had a worker …
regions = Table(
    "regions",
    metadata,
    Column("name", Text, primary_key=True),
    Column("seen_at", BigInteger, nullable=False, comment="a worker of it was alive then"),
)

# … and one per lane that only workers of a region take.
region_pins = Table(
    "region_pins",
    metadata,
    Column("lane", Text, primary_key=True, comment="its name; the pin also applies to sub-domains"),
    Column("region", Text, nullable=False),
    Column(
        "fails_over_after",
        BigInteger,
        comment="milliseconds without a worker of the region after which others may take it; NULL: never",
    ),
    Column("created_at", BigInteger, nullable=False),
)

spending = Table(
    "spending",
    metadata,
    Column("lane_id", BigInteger, ForeignKey("lanes.id"), primary_key=True),
    Column("day", Integer, primary_key=True, comment="UTC day as YYYYMMDD"),
    Column("spent", BigInteger, nullable=False),
    Column("hour", SmallInteger, comment="the last hour of the day in which something was spent …"),
    Column("spent_hour", BigInteger, nullable=False, server_default="0", comment="… and what was spent in it"),
)

series = Table(
    "series",
    metadata,
    Column("step", Integer, primary_key=True, comment="seconds that one row covers: 60 or 3600"),
    Column("at", BigInteger, primary_key=True, comment="start of the step, in seconds"),
    Column("pipeline", Text, primary_key=True),
    Column("name", Text, primary_key=True, comment="completed, failed, skipped, cost, changes"),
    Column("value", BigInteger, nullable=False),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("name", Text, primary_key=True),
    Column("role", Text, nullable=False, comment="admin, operator or viewer"),
    Column("hash", Text, nullable=False, unique=True, comment="SHA-256 of the key, which is stored nowhere"),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", Text, nullable=False, comment="the name of the key that made it"),
    Column("last_used_at", BigInteger, comment="to the minute"),
)

# Every write through the API, with the name of the key that it was made with.
actions = Table(
    "actions",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("key_name", Text, nullable=False),
    Column("method", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("status", SmallInteger, nullable=False),
    Column("request_id", String(36), nullable=False),
    Index("ix_actions_at", "at"),
    Index("ix_actions_key_name", "key_name", "id"),
)

rechecks = Table(
    "rechecks",
    metadata,
    Column("name", Text, primary_key=True),
    Column("paused", Boolean, nullable=False, server_default=text("false")),
    Column("dispatched", BigInteger, nullable=False, server_default="0", comment="records that became tasks"),
    Column("last_at", BigInteger),
    Column("error", Text, comment="of the task function, in the last page"),
    Column("error_at", BigInteger),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("public_id", String(36), nullable=False, unique=True),
    Column("pipeline", Text, nullable=False),
    Column("params", JSON, nullable=False),
    Column("estimate", JSON),
    Column("state", Text, nullable=False),
    Column("reason", Text),
    Column("drain", Text, comment="its queued tasks are being ended for this reason: cancelled or budget"),
    Column("schedule", Text),
    Column("turn", SmallInteger, nullable=False, server_default="0"),
    Column("batch_size", Integer),
    Column("concurrency", Integer),
    Column("max_cost", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("started_at", BigInteger),
    Column("finished_at", BigInteger),
    Column("planning_until", BigInteger, comment="a submission that has not moved by then is removed"),
    # Counters: exact at every commit. total = queued + running + the four ends.
    Column("total", BigInteger, nullable=False, server_default="0"),
    Column("queued", BigInteger, nullable=False, server_default="0"),
    Column("running", BigInteger, nullable=False, server_default="0"),
    Column("completed", BigInteger, nullable=False, server_default="0"),
    Column("failed", BigInteger, nullable=False, server_default="0"),
    Column("skipped", BigInteger, nullable=False, server_default="0"),
    Column("cancelled", BigInteger, nullable=False, server_default="0"),
    Column("retries", BigInteger, nullable=False, server_default="0"),
    Column("spent", BigInteger, nullable=False, server_default="0"),
    Column("guessed", BigInteger, nullable=False, server_default="0"),
    Column("reserved", BigInteger, nullable=False, server_default="0"),
    Column("records", BigInteger, nullable=False, server_default="0", comment="rows of job scope"),
    Column("discoveries", BigInteger, nullable=False, server_default="0", comment="rows of world scope that were new"),
    Column("rejected", BigInteger, nullable=False, server_default="0", comment="rows that failed validation"),
    Column("request_id", String(36), comment="of the HTTP request that submitted it, for the log"),
    Index(
        "ix_jobs_open", "state", sqlite_where=text("finished_at IS NULL"), postgresql_where=text("finished_at IS NULL")
    ),
    # Counts the jobs of a pipeline that have not begun, where their number is limited.
    Index(
        "ix_jobs_waiting",
        "pipeline",
        sqlite_where=text("finished_at IS NULL AND started_at IS NULL"),
        postgresql_where=text("finished_at IS NULL AND started_at IS NULL"),
    ),
    Index("ix_jobs_drain", "id", sqlite_where=text("drain IS NOT NULL"), postgresql_where=text("drain IS NOT NULL")),
)

job_secrets = Table(
    "job_secrets",
    metadata,
    Column("job_id", BigInteger, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("sealed", Text, nullable=False, comment="encrypted; deleted in the transaction that ends the job"),
)

vault = Table(
    "vault",
    metadata,
    Column("kind", Text, primary_key=True, comment="what the text belongs to: channel, session"),
    Column("name", Text, primary_key=True),
    Column("sealed", Text, nullable=False, comment="encrypted"),
)

via_spending = Table(
    "via_spending",
    metadata,
    Column("month", Integer, primary_key=True, autoincrement=False, comment="as 202603"),
    Column("day", Integer, nullable=False, comment="the last one with a request, as 20260314"),
    Column("requests", BigInteger, nullable=False),
    Column("spent", BigInteger, nullable=False, comment="millionths of a USD"),
    Column("spent_today", BigInteger, nullable=False, comment="of that on the last day"),
)

page_sessions = Table(
    "page_sessions",
    metadata,
    Column("workspace", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("hosts", Text, nullable=False, comment="JSON list"),
    Column("cookies", Integer, nullable=False),
    Column("visits", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("used_at", BigInteger, nullable=False),
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("key", Text, primary_key=True),
    Column(
        "fingerprint",
        Text,
        nullable=False,
        comment="of pipeline and parameters: another body under the same key is a conflict",
    ),
    Column("job_id", BigInteger, ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Index("ix_idempotency_expires_at", "expires_at"),
    # A job that is removed takes its key along.
    Index("ix_idempotency_job_id", "job_id"),
)

# Jobs that were removed: their changes and records still name them.
past_jobs = Table(
    "past_jobs",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("public_id", String(36), nullable=False, unique=True),
    Column("pipeline", Text, nullable=False),
    Column("finished_at", BigInteger, nullable=False),
    Column("clearing", Boolean, nullable=False, comment="some of its tasks may be left"),
    Index("ix_past_jobs_clearing", "id", sqlite_where=text("clearing"), postgresql_where=text("clearing")),
)

tasks = Table(
    "tasks",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("job_id", BigInteger, nullable=False),
    Column("lane_id", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("state", SmallInteger, nullable=False),
    Column("rank", Integer, nullable=False, server_default="0"),
    Column("attempt", SmallInteger, nullable=False, server_default="0"),
    Column("claim", BigInteger),
    Column("claimed_at", BigInteger),
    Column("session_id", BigInteger),
    Column("after", BigInteger, comment="the task that must end well first"),
    Column("followed", Boolean, nullable=False, server_default=text("false"), comment="some task comes after it"),
    Column("due", BigInteger),
    Column("price", Integer, nullable=False, server_default="0"),
    Column("cost", BigInteger, nullable=False, server_default="0", comment="over all attempts"),
    Column("guessed", BigInteger, nullable=False, server_default="0"),
    Column("together", SmallInteger, comment="maximum number of other suspects that run with it"),
    Column("crashes", SmallInteger, nullable=False, server_default="0", comment="of a worker that ran only this task"),
    Column("hidden", Boolean, nullable=False, server_default=text("false"), comment="a discarded dead letter"),
    Column("ended_at", BigInteger),
    Column("error", Text),
    Column("facts", JSON),
    Column("body", LargeBinary, nullable=False),
    Column("waited", BigInteger, comment="milliseconds of waiting without an attempt; NULL: none"),
    Column("waited_until", BigInteger, comment="when the last of these waits ended"),
    Column("reason", Text, comment="the word for why it failed, was skipped or waits"),
    Column("error_type", Text, comment="network, http, blocked, parse, validation, storage or internal"),
    Column("retries", SmallInteger, comment="maximum retries; NULL: as its step or lane declares"),
    Column("begun", BigInteger, comment="the claim under which its step began while it ran alone as a suspect"),
    Column("waits", Boolean, comment="of that step: it waits for an answer, and does not run its own code"),
    Column(
        "waiting_crashes",
        SmallInteger,
        nullable=False,
        server_default="0",
        comment="of a worker that ran only this task, while its step waited for an answer",
    ),
    UniqueConstraint("job_id", "kind", "key", name="uq_tasks_job_kind_key"),
    # Followers of a task. On PostgreSQL no index may look at what a settlement changes (`state`, `ended_at`): only then
    # is its update of the row cheap (HOT), which halves the cost of a settlement.
    Index("ix_tasks_held", "after", sqlite_where=text("state = 2"), postgresql_where=text('"after" IS NOT NULL')),
    postgresql_with={"fillfactor": "70"},
)

# SQLite leases straight from `tasks`: partial indexes there stay small, whatever the history. Queries must repeat the
# literals, or the planner does not see that the index fits.
SQLITE_QUEUE_INDEXES = (
    "CREATE INDEX ix_tasks_ready ON tasks (lane_id, job_id, rank, id) WHERE state = 0",
    "CREATE INDEX ix_tasks_waiting ON tasks (lane_id, due) WHERE state = 1",
    "CREATE INDEX ix_tasks_running ON tasks (session_id) WHERE state = 3",
    "CREATE INDEX ix_tasks_suspect ON tasks (together, id) WHERE state = 8",
    # Dead letters, newest first.
    "CREATE INDEX ix_tasks_failed ON tasks (ended_at) WHERE state = 5",
)

# For kinds with one open task per key over all jobs: the task of this kind and key that was queued last. The next
# submission looks up whether it is still open, so that the end of a task never has to touch this table.
open_keys = Table(
    "open_keys",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("task_id", BigInteger, nullable=False),
    # Rows that are pruned with their task.
    Index("ix_open_keys_task_id", "task_id"),
)

# One row for each attempt that failed, and for every attempt of kinds that want it. Pruned by age.
attempts = Table(
    "attempts",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("task_id", BigInteger, nullable=False),
    Column("attempt", SmallInteger, nullable=False, comment="its number; if it burned none, the number of the next"),
    Column("started_at", BigInteger, nullable=False),
    Column("duration_ms", BigInteger, nullable=False),
    Column("status", Text, nullable=False, comment="completed, failed, skipped, snoozed, given_back or lost"),
    Column("reason", Text),
    Column("error_type", Text),
    Column("message", Text),
    Column("traceback", Text),
    Index("ix_attempts_task_id", "task_id", "id"),
    Index("ix_attempts_started_at", "started_at"),
)

evidence = Table(
    "evidence",
    metadata,
    Column("task_id", BigInteger, primary_key=True, autoincrement=False),
    Column("content_type", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("kept_until", BigInteger, nullable=False),
    Column("screenshot", LargeBinary, comment="a PNG"),
    Index("ix_evidence_kept_until", "kept_until"),
)

# Rows that failed validation, as they came. They are read by job.
rejected = Table(
    "rejected",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("job_id", BigInteger, nullable=False),
    Column("task_id", BigInteger, nullable=False),
    Column("kind", Text, nullable=False, comment="of the record that it should have been"),
    Column("key", Text),
    Column("reason", Text, nullable=False),
    Column("payload", JSON, nullable=False),
    Column("at", BigInteger, nullable=False),
    Index("ix_rejected_job", "job_id", "id"),
)

changes = Table(
    "changes",
    metadata,
    Column("id", BigId, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("op", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("job_id", BigInteger),
    Column("at", BigInteger, nullable=False),
    Column("body", JSON),
    # The history of one thing. Rows of job scope have none, and their changes store no body: half of all stay out.
    # Indexed by the key alone, since keys of two kinds seldom coincide: shorter entries, and a commit touches fewer.
    Index(
        "ix_changes_key",
        "key",
        "version",
        sqlite_where=text("body IS NOT NULL"),
        postgresql_where=text("body IS NOT NULL"),
    ),
    Index("ix_changes_job", "job_id", "id"),
)

# One row: the last change number and the last claim. Taken last in a settle and held to the commit, so that change
# numbers are dense and in commit order.
tail = Table(
    "tail",
    metadata,
    Column("one", SmallInteger, primary_key=True, autoincrement=False),
    Column("change", BigInteger, nullable=False),
    Column("claim", BigInteger, nullable=False),
    # The highest ids of removed jobs and tasks. SQLite continues numbering from there; PostgreSQL has sequences.
    Column("last_job", BigInteger, nullable=False, server_default="0"),
    Column("last_task", BigInteger, nullable=False, server_default="0"),
)

# The folder in which the ledger's pages are stored: one row, as soon as a process has worked on the ledger.
blob_folder = Table(
    "blob_folder",
    metadata,
    Column("one", SmallInteger, primary_key=True, autoincrement=False),
    Column("folder", Text, nullable=False, comment="its id, which is also in its file folder.id"),
)

aliases = Table(
    "aliases",
    metadata,
    Column("identity", Text, primary_key=True),
    Column("alias", Text, primary_key=True),
    Column("key", Text, nullable=False),
    # A stronger name takes over the aliases of the weaker.
    Index("ix_aliases_key", "identity", "key"),
)

schedules = Table(
    "schedules",
    metadata,
    Column("name", Text, primary_key=True),
    Column("pipeline", Text, nullable=False),
    Column("params", JSON, nullable=False),
    Column("cron", Text),
    Column("every", Float),
    Column("paused", Boolean, nullable=False, server_default=text("false")),
    Column("next_at", BigInteger),
    Column("last_at", BigInteger),
    Column("last_job", String(36)),
    Column("last_error", Text),
    Column("timezone", Text, nullable=False, server_default="UTC"),
    Index("ix_schedules_next_at", "next_at"),
)

# Spending of agents (MCP), by the name of their session. An unsettled row holds the worst case of a job that runs.
agent_spends = Table(
    "agent_spends",
    metadata,
    Column("id", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True),
    Column("session", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("about", Text, nullable=False),
    Column("job", String(36)),
    Column("pages", BigInteger, nullable=False),
    Column("credits", BigInteger, nullable=False),
    Column("micro_usd", BigInteger, nullable=False),
    Column("settled", Boolean, nullable=False),
    Column("at", BigInteger, nullable=False),
    Index("ix_agent_spends_session", "session", "id"),
)

# Views that `ledger/schema/migrate.py` created last, so that a later version can drop them before it changes tables.
derived = Table(
    "derived",
    metadata,
    Column("name", Text, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("hash", Text, nullable=False),
)


# PostgreSQL only: open work is in a table of its own (`queue`), next to `tasks`, which is identity and history.
#
# Created by a dialect branch of the migrations, unknown to SQLite, which leases straight from `tasks`.


queue_metadata = MetaData(naming_convention=metadata.naming_convention)

queue = Table(
    "queue",
    queue_metadata,
    Column("task_id", BigInteger, primary_key=True, autoincrement=False),
    Column("lane_id", BigInteger, nullable=False),
    Column("job_id", BigInteger, nullable=False),
    Column("rank", Integer, nullable=False),
    Column("state", SmallInteger, nullable=False, comment="0 ready, 1 waiting, 2 held, 3 running, 8 suspect"),
    Column("due", BigInteger),
    Column("session_id", BigInteger),
    Column("claim", BigInteger),
    Column("claimed_at", BigInteger),
    Column("attempt", SmallInteger, nullable=False, server_default="0"),
    Column(
        "offered",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="it may be claimed by its number before it is due",
    ),
    Index("ix_queue_ready", "lane_id", "job_id", "rank", "task_id", postgresql_where=text("state = 0")),
    Index("ix_queue_waiting", "lane_id", "due", postgresql_where=text("state = 1")),
    Index("ix_queue_running", "session_id", postgresql_where=text("state = 3")),
    Index("ix_queue_suspect", "lane_id", "task_id", postgresql_where=text("state = 8")),
    postgresql_with={"fillfactor": "50"},
)

# Dead letters, newest first.
dead = Table(
    "dead",
    queue_metadata,
    Column("task_id", BigInteger, primary_key=True, autoincrement=False),
    Column("ended_at", BigInteger, nullable=False),
    Index("ix_dead_ended_at", "ended_at", "task_id"),
)

flows = Table(
    "flows",
    queue_metadata,
    Column("lane_id", BigInteger, primary_key=True),
    Column("job_id", BigInteger, primary_key=True),
    Column("turn", SmallInteger, nullable=False),
    Column("paused", Boolean, nullable=False, server_default=text("false")),
    # Pausing, resuming and ending a job touch its flows only.
    Index("ix_flows_job_id", "job_id"),
    Index("ix_flows_turn", "lane_id", "turn", "job_id", postgresql_where=text("NOT paused")),
)
