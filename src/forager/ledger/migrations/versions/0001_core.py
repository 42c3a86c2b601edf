"""The ledger's own tables. PostgreSQL keeps its open work in tables of its own, SQLite in partial indexes."""

import sqlalchemy as sa
from alembic import op

revision = "core_0001"
down_revision = None
branch_labels = ("core",)
depends_on = None

# A rowid on SQLite needs INTEGER; everywhere else these are 64-bit.
BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


SQLITE_QUEUE_INDEXES = (
    "CREATE INDEX ix_tasks_ready ON tasks (lane_id, job_id, rank, id) WHERE state = 0",
    "CREATE INDEX ix_tasks_waiting ON tasks (lane_id, due) WHERE state = 1",
    "CREATE INDEX ix_tasks_running ON tasks (session_id) WHERE state = 3",
    "CREATE INDEX ix_tasks_suspect ON tasks (together, id) WHERE state = 8",
    "CREATE INDEX ix_tasks_failed ON tasks (ended_at) WHERE state = 5",
)


def upgrade() -> None:
    _create_tables()
    op.execute("INSERT INTO tail (one, change, claim) VALUES (1, 0, 0)")
    if op.get_bind().dialect.name == "postgresql":
        _create_queue()
    else:
        for statement in SQLITE_QUEUE_INDEXES:
            op.execute(statement)


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        _drop_queue()
    op.drop_table("spending")
    op.drop_table("idempotency")
    op.drop_table("tasks")
    op.drop_table("tail")
    op.drop_table("sessions")
    op.drop_table("schedules")
    op.drop_table("lanes")
    op.drop_table("jobs")
    op.drop_table("evidence")
    op.drop_table("derived")
    op.drop_table("cursors")
    op.drop_table("changes")
    op.drop_table("aliases")


def _create_tables() -> None:
    op.create_table(
        "aliases",
        sa.Column("identity", sa.Text(), nullable=False),
        sa.Column("alias", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("identity", "alias", name="pk_aliases"),
    )
    op.create_index("ix_aliases_key", "aliases", ["identity", "key"])
    op.create_table(
        "changes",
        sa.Column("id", BIG_ID, autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("op", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.BigInteger()),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.JSON()),
        sa.PrimaryKeyConstraint("id", name="pk_changes"),
    )
    op.create_index("ix_changes_job", "changes", ["job_id", "id"])
    has_body = sa.text("body IS NOT NULL")
    op.create_index(
        "ix_changes_key", "changes", ["kind", "key", "version"], sqlite_where=has_body, postgresql_where=has_body
    )
    op.create_table(
        "cursors",
        sa.Column("sink", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("moved_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("sink", name="pk_cursors"),
    )
    op.create_table(
        "derived",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_derived"),
    )
    op.create_table(
        "evidence",
        sa.Column("task_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("content_type", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("kept_until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("task_id", name="pk_evidence"),
    )
    op.create_index("ix_evidence_kept_until", "evidence", ["kept_until"])
    op.create_table(
        "jobs",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("public_id", sa.String(length=36), nullable=False),
        sa.Column("pipeline", sa.Text(), nullable=False),
        sa.Column("params", sa.JSON(), nullable=False),
        sa.Column("estimate", sa.JSON()),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text()),
        sa.Column("drain", sa.Text(), comment="its queued tasks are being ended for this reason: cancelled or budget"),
        sa.Column("schedule", sa.Text()),
        sa.Column("turn", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("batch_size", sa.Integer()),
        sa.Column("concurrency", sa.Integer()),
        sa.Column("max_cost", sa.BigInteger()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger()),
        sa.Column("finished_at", sa.BigInteger()),
        sa.Column("planning_until", sa.BigInteger(), comment="a submission that has not moved by then is removed"),
        sa.Column("total", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("queued", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("running", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("completed", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("failed", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("skipped", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("cancelled", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("retries", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("spent", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("guessed", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("reserved", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("records", sa.BigInteger(), server_default="0", nullable=False, comment="rows of job scope"),
        sa.Column(
            "discoveries",
            sa.BigInteger(),
            server_default="0",
            nullable=False,
            comment="rows of world scope that were new",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sa.UniqueConstraint("public_id", name="uq_jobs_public_id"),
    )
    op.create_index(
        "ix_jobs_drain",
        "jobs",
        ["id"],
        sqlite_where=sa.text("drain IS NOT NULL"),
        postgresql_where=sa.text("drain IS NOT NULL"),
    )
    op.create_index(
        "ix_jobs_open",
        "jobs",
        ["state"],
        sqlite_where=sa.text("finished_at IS NULL"),
        postgresql_where=sa.text("finished_at IS NULL"),
    )
    op.create_table(
        "lanes",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("owner", sa.BigInteger()),
        sa.Column("epoch", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("paused", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("wake_at", sa.BigInteger()),
        sa.Column("state", sa.JSON()),
        sa.PrimaryKeyConstraint("id", name="pk_lanes"),
        sa.UniqueConstraint("name", name="uq_lanes_name"),
    )
    op.create_index("ix_lanes_owner", "lanes", ["owner"])
    op.create_index(
        "ix_lanes_wake_at",
        "lanes",
        ["wake_at"],
        sqlite_where=sa.text("owner IS NULL"),
        postgresql_where=sa.text("owner IS NULL"),
    )
    op.create_table(
        "schedules",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("pipeline", sa.Text(), nullable=False),
        sa.Column("params", sa.JSON(), nullable=False),
        sa.Column("cron", sa.Text()),
        sa.Column("every", sa.Float()),
        sa.Column("paused", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("next_at", sa.BigInteger()),
        sa.Column("last_at", sa.BigInteger()),
        sa.Column("last_job", sa.String(length=36)),
        sa.Column("last_error", sa.Text()),
        sa.PrimaryKeyConstraint("name", name="pk_schedules"),
    )
    op.create_index("ix_schedules_next_at", "schedules", ["next_at"])
    op.create_table(
        "sessions",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("lease_until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
    )
    op.create_table(
        "tail",
        sa.Column("one", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("change", sa.BigInteger(), nullable=False),
        sa.Column("claim", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("one", name="pk_tail"),
    )
    op.create_table(
        "tasks",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("lane_id", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("state", sa.SmallInteger(), nullable=False),
        sa.Column("rank", sa.Integer(), server_default="0", nullable=False),
        sa.Column("attempt", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("claim", sa.BigInteger()),
        sa.Column("claimed_at", sa.BigInteger()),
        sa.Column("session_id", sa.BigInteger()),
        sa.Column("after", sa.BigInteger(), comment="the task that must end well first"),
        sa.Column(
            "followed",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="some task comes after it",
        ),
        sa.Column("due", sa.BigInteger()),
        sa.Column("price", sa.Integer(), server_default="0", nullable=False),
        sa.Column("cost", sa.BigInteger(), server_default="0", nullable=False, comment="over all attempts"),
        sa.Column("guessed", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("together", sa.SmallInteger(), comment="a suspect may run beside at most so many others"),
        sa.Column(
            "crashes",
            sa.SmallInteger(),
            server_default="0",
            nullable=False,
            comment="of a worker that ran only this task",
        ),
        sa.Column(
            "hidden", sa.Boolean(), server_default=sa.text("false"), nullable=False, comment="a discarded dead letter"
        ),
        sa.Column("ended_at", sa.BigInteger()),
        sa.Column("error", sa.Text()),
        sa.Column("facts", sa.JSON()),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_tasks"),
        sa.UniqueConstraint("job_id", "kind", "key", name="uq_tasks_job_kind_key"),
        postgresql_with={"fillfactor": "70"},
    )
    op.create_index(
        "ix_tasks_held",
        "tasks",
        ["after"],
        sqlite_where=sa.text("state = 2"),
        postgresql_where=sa.text('"after" IS NOT NULL'),
    )
    op.create_table(
        "idempotency",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column(
            "fingerprint",
            sa.Text(),
            nullable=False,
            comment="of pipeline and parameters: another body under the same key is a conflict",
        ),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_idempotency_job_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("key", name="pk_idempotency"),
    )
    op.create_index("ix_idempotency_expires_at", "idempotency", ["expires_at"])
    op.create_table(
        "spending",
        sa.Column("lane_id", sa.BigInteger(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False, comment="UTC day as YYYYMMDD"),
        sa.Column("spent", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["lane_id"], ["lanes.id"], name="fk_spending_lane_id"),
        sa.PrimaryKeyConstraint("lane_id", "day", name="pk_spending"),
    )


def _create_queue() -> None:
    op.create_table(
        "dead",
        sa.Column("task_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("task_id", name="pk_dead"),
    )
    op.create_index("ix_dead_ended_at", "dead", ["ended_at", "task_id"])
    op.create_table(
        "flows",
        sa.Column("lane_id", sa.BigInteger(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("turn", sa.SmallInteger(), nullable=False),
        sa.Column("paused", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.PrimaryKeyConstraint("lane_id", "job_id", name="pk_flows"),
    )
    op.create_index("ix_flows_job_id", "flows", ["job_id"])
    op.create_index("ix_flows_turn", "flows", ["lane_id", "turn", "job_id"], postgresql_where=sa.text("NOT paused"))
    op.create_table(
        "queue",
        sa.Column("task_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("lane_id", sa.BigInteger(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column(
            "state", sa.SmallInteger(), nullable=False, comment="0 ready, 1 waiting, 2 held, 3 running, 8 suspect"
        ),
        sa.Column("due", sa.BigInteger()),
        sa.Column("session_id", sa.BigInteger()),
        sa.Column("claim", sa.BigInteger()),
        sa.Column("claimed_at", sa.BigInteger()),
        sa.Column("attempt", sa.SmallInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("task_id", name="pk_queue"),
        postgresql_with={"fillfactor": "50"},
    )
    op.create_index(
        "ix_queue_ready", "queue", ["lane_id", "job_id", "rank", "task_id"], postgresql_where=sa.text("state = 0")
    )
    op.create_index("ix_queue_running", "queue", ["session_id"], postgresql_where=sa.text("state = 3"))
    op.create_index("ix_queue_suspect", "queue", ["lane_id", "task_id"], postgresql_where=sa.text("state = 8"))
    op.create_index("ix_queue_waiting", "queue", ["lane_id", "due"], postgresql_where=sa.text("state = 1"))


def _drop_queue() -> None:
    op.drop_table("queue")
    op.drop_table("flows")
    op.drop_table("dead")
