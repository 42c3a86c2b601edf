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
    _create_work()
    _create_deliveries()
    _create_archive()
    _create_politeness()
    op.execute("INSERT INTO tail (one, change, claim) VALUES (1, 0, 0)")
    if op.get_bind().dialect.name == "postgresql":
        _create_queue()
    else:
        for statement in SQLITE_QUEUE_INDEXES:
            op.execute(statement)
    op.create_table(
        "agent_spends",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("about", sa.Text(), nullable=False),
        sa.Column("job", sa.String(36)),
        sa.Column("pages", sa.BigInteger(), nullable=False),
        sa.Column("credits", sa.BigInteger(), nullable=False),
        sa.Column("micro_usd", sa.BigInteger(), nullable=False),
        sa.Column("settled", sa.Boolean(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_agent_spends"),
    )
    op.create_index("ix_agent_spends_session", "agent_spends", ["session", "id"])
    op.create_table(
        "vault",
        sa.Column("kind", sa.Text(), nullable=False, comment="what the text belongs to: channel, session"),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sealed", sa.Text(), nullable=False, comment="encrypted"),
        sa.PrimaryKeyConstraint("kind", "name", name="pk_vault"),
    )


def downgrade() -> None:
    op.drop_table("vault")
    op.drop_table("agent_spends")
    if op.get_bind().dialect.name == "postgresql":
        for table in ("flows", "dead", "queue"):
            op.drop_table(table)
    for table in (
        "proxies",
        "robots",
        "domains",
        "archived",
        "archives",
        "set_aside",
        "sinks",
        "cursors",
        "derived",
        "schedules",
        "aliases",
        "blob_folder",
        "tail",
        "changes",
        "rejected",
        "evidence",
        "attempts",
        "open_keys",
        "tasks",
        "past_jobs",
        "idempotency",
        "job_secrets",
        "jobs",
        "rechecks",
        "actions",
        "api_keys",
        "series",
        "spending",
        "region_pins",
        "regions",
        "lanes",
        "sessions",
    ):
        op.drop_table(table)


def _create_work() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("lease_until", sa.BigInteger(), nullable=False),
        sa.Column(
            "wants", sa.Integer(), nullable=False, server_default="0", comment="how many more lanes it could use"
        ),
        sa.Column("queues", sa.Text(), comment="JSON list of the queues that it serves; NULL: all"),
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
    )
    op.create_table(
        "lanes",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("owner", sa.BigInteger()),
        sa.Column("epoch", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("paused", sa.Boolean(), nullable=False, server_default=sa.text("false")),
        sa.Column("wake_at", sa.BigInteger()),
        sa.Column("state", sa.JSON()),
        sa.Column("queue", sa.Text(), nullable=False, server_default="celery"),
        sa.PrimaryKeyConstraint("id", name="pk_lanes"),
        sa.UniqueConstraint("name", name="uq_lanes_name"),
    )
    op.create_index("ix_lanes_owner", "lanes", ["owner"])
    op.create_index(
        "ix_lanes_queue_wake_at",
        "lanes",
        ["queue", "wake_at"],
        sqlite_where=sa.text("owner IS NULL"),
        postgresql_where=sa.text("owner IS NULL"),
    )
    op.create_index(
        "ix_lanes_wake_at",
        "lanes",
        ["wake_at"],
        sqlite_where=sa.text("owner IS NULL"),
        postgresql_where=sa.text("owner IS NULL"),
    )
    op.create_table(
        "regions",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False, comment="a worker of it was alive then"),
        sa.PrimaryKeyConstraint("name", name="pk_regions"),
    )
    op.create_table(
        "region_pins",
        sa.Column("lane", sa.Text(), nullable=False, comment="its name; the pin also applies to sub-domains"),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column(
            "fails_over_after",
            sa.BigInteger(),
            comment="milliseconds without a worker of the region after which others may take it; NULL: never",
        ),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("lane", name="pk_region_pins"),
    )
    op.create_table(
        "spending",
        sa.Column("lane_id", sa.BigInteger(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False, comment="UTC day as YYYYMMDD"),
        sa.Column("spent", sa.BigInteger(), nullable=False),
        sa.Column("hour", sa.SmallInteger(), comment="the last hour of the day in which something was spent …"),
        sa.Column(
            "spent_hour", sa.BigInteger(), nullable=False, server_default="0", comment="… and what was spent in it"
        ),
        sa.PrimaryKeyConstraint("lane_id", "day", name="pk_spending"),
        sa.ForeignKeyConstraint(["lane_id"], ["lanes.id"], name="fk_spending_lane_id"),
    )
    op.create_table(
        "series",
        sa.Column("step", sa.Integer(), nullable=False, comment="seconds that one row covers: 60 or 3600"),
        sa.Column("at", sa.BigInteger(), nullable=False, comment="start of the step, in seconds"),
        sa.Column("pipeline", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False, comment="completed, failed, skipped, cost, changes"),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("step", "at", "pipeline", "name", name="pk_series"),
    )
    op.create_table(
        "api_keys",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False, comment="admin, operator or viewer"),
        sa.Column("hash", sa.Text(), nullable=False, comment="SHA-256 of the key, which is stored nowhere"),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False, comment="the name of the key that made it"),
        sa.Column("last_used_at", sa.BigInteger(), comment="to the minute"),
        sa.PrimaryKeyConstraint("name", name="pk_api_keys"),
        sa.UniqueConstraint("hash", name="uq_api_keys_hash"),
    )
    op.create_table(
        "actions",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("key_name", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.Column("request_id", sa.String(36), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_actions"),
    )
    op.create_index("ix_actions_at", "actions", ["at"])
    op.create_index("ix_actions_key_name", "actions", ["key_name", "id"])
    op.create_table(
        "rechecks",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False, server_default=sa.text("false")),
        sa.Column(
            "dispatched", sa.BigInteger(), nullable=False, server_default="0", comment="records that became tasks"
        ),
        sa.Column("last_at", sa.BigInteger()),
        sa.Column("error", sa.Text(), comment="of the task function, in the last page"),
        sa.Column("error_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("name", name="pk_rechecks"),
    )
    op.create_table(
        "jobs",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("public_id", sa.String(36), nullable=False),
        sa.Column("pipeline", sa.Text(), nullable=False),
        sa.Column("params", sa.JSON(), nullable=False),
        sa.Column("estimate", sa.JSON()),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text()),
        sa.Column("drain", sa.Text(), comment="its queued tasks are being ended for this reason: cancelled or budget"),
        sa.Column("schedule", sa.Text()),
        sa.Column("turn", sa.SmallInteger(), nullable=False, server_default="0"),
        sa.Column("batch_size", sa.Integer()),
        sa.Column("concurrency", sa.Integer()),
        sa.Column("max_cost", sa.BigInteger()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger()),
        sa.Column("finished_at", sa.BigInteger()),
        sa.Column("planning_until", sa.BigInteger(), comment="a submission that has not moved by then is removed"),
        sa.Column("total", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("queued", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("running", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("completed", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("failed", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("skipped", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("cancelled", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("retries", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("spent", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("guessed", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("reserved", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("records", sa.BigInteger(), nullable=False, server_default="0", comment="rows of job scope"),
        sa.Column(
            "discoveries",
            sa.BigInteger(),
            nullable=False,
            server_default="0",
            comment="rows of world scope that were new",
        ),
        sa.Column(
            "rejected", sa.BigInteger(), nullable=False, server_default="0", comment="rows that failed validation"
        ),
        sa.Column("request_id", sa.String(36), comment="of the HTTP request that submitted it, for the log"),
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
    op.create_index(
        "ix_jobs_waiting",
        "jobs",
        ["pipeline"],
        sqlite_where=sa.text("finished_at IS NULL AND started_at IS NULL"),
        postgresql_where=sa.text("finished_at IS NULL AND started_at IS NULL"),
    )
    op.create_table(
        "job_secrets",
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column(
            "sealed", sa.Text(), nullable=False, comment="encrypted; deleted in the transaction that ends the job"
        ),
        sa.PrimaryKeyConstraint("job_id", "name", name="pk_job_secrets"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_job_secrets_job_id", ondelete="CASCADE"),
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
        sa.PrimaryKeyConstraint("key", name="pk_idempotency"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_idempotency_job_id", ondelete="CASCADE"),
    )
    op.create_index("ix_idempotency_expires_at", "idempotency", ["expires_at"])
    op.create_index("ix_idempotency_job_id", "idempotency", ["job_id"])
    op.create_table(
        "past_jobs",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("public_id", sa.String(36), nullable=False),
        sa.Column("pipeline", sa.Text(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=False),
        sa.Column("clearing", sa.Boolean(), nullable=False, comment="some of its tasks may be left"),
        sa.PrimaryKeyConstraint("id", name="pk_past_jobs"),
        sa.UniqueConstraint("public_id", name="uq_past_jobs_public_id"),
    )
    op.create_index(
        "ix_past_jobs_clearing",
        "past_jobs",
        ["id"],
        sqlite_where=sa.text("clearing"),
        postgresql_where=sa.text("clearing"),
    )
    op.create_table(
        "tasks",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("lane_id", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("state", sa.SmallInteger(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("attempt", sa.SmallInteger(), nullable=False, server_default="0"),
        sa.Column("claim", sa.BigInteger()),
        sa.Column("claimed_at", sa.BigInteger()),
        sa.Column("session_id", sa.BigInteger()),
        sa.Column("after", sa.BigInteger(), comment="the task that must end well first"),
        sa.Column(
            "followed",
            sa.Boolean(),
            nullable=False,
            server_default=sa.text("false"),
            comment="some task comes after it",
        ),
        sa.Column("due", sa.BigInteger()),
        sa.Column("price", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("cost", sa.BigInteger(), nullable=False, server_default="0", comment="over all attempts"),
        sa.Column("guessed", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("together", sa.SmallInteger(), comment="maximum number of other suspects that run with it"),
        sa.Column(
            "crashes",
            sa.SmallInteger(),
            nullable=False,
            server_default="0",
            comment="of a worker that ran only this task",
        ),
        sa.Column(
            "hidden", sa.Boolean(), nullable=False, server_default=sa.text("false"), comment="a discarded dead letter"
        ),
        sa.Column("ended_at", sa.BigInteger()),
        sa.Column("error", sa.Text()),
        sa.Column("facts", sa.JSON()),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("waited", sa.BigInteger(), comment="milliseconds of waiting without an attempt; NULL: none"),
        sa.Column("waited_until", sa.BigInteger(), comment="when the last of these waits ended"),
        sa.Column("reason", sa.Text(), comment="the word for why it failed, was skipped or waits"),
        sa.Column("error_type", sa.Text(), comment="network, http, blocked, parse, validation, storage or internal"),
        sa.Column("retries", sa.SmallInteger(), comment="maximum retries; NULL: as its step or lane declares"),
        sa.Column(
            "begun", sa.BigInteger(), comment="the claim under which its step began while it ran alone as a suspect"
        ),
        sa.Column("waits", sa.Boolean(), comment="of that step: it waits for an answer, and does not run its own code"),
        sa.Column(
            "waiting_crashes",
            sa.SmallInteger(),
            nullable=False,
            server_default="0",
            comment="of a worker that ran only this task, while its step waited for an answer",
        ),
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
        "open_keys",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("task_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "key", name="pk_open_keys"),
    )
    op.create_index("ix_open_keys_task_id", "open_keys", ["task_id"])
    op.create_table(
        "attempts",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("task_id", sa.BigInteger(), nullable=False),
        sa.Column(
            "attempt",
            sa.SmallInteger(),
            nullable=False,
            comment="its number; if it burned none, the number of the next",
        ),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("duration_ms", sa.BigInteger(), nullable=False),
        sa.Column(
            "status", sa.Text(), nullable=False, comment="completed, failed, skipped, snoozed, given_back or lost"
        ),
        sa.Column("reason", sa.Text()),
        sa.Column("error_type", sa.Text()),
        sa.Column("message", sa.Text()),
        sa.Column("traceback", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="pk_attempts"),
    )
    op.create_index("ix_attempts_started_at", "attempts", ["started_at"])
    op.create_index("ix_attempts_task_id", "attempts", ["task_id", "id"])
    op.create_table(
        "evidence",
        sa.Column("task_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("content_type", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("kept_until", sa.BigInteger(), nullable=False),
        sa.Column("screenshot", sa.LargeBinary(), comment="a PNG"),
        sa.PrimaryKeyConstraint("task_id", name="pk_evidence"),
    )
    op.create_index("ix_evidence_kept_until", "evidence", ["kept_until"])
    op.create_table(
        "rejected",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("task_id", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False, comment="of the record that it should have been"),
        sa.Column("key", sa.Text()),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_rejected"),
    )
    op.create_index("ix_rejected_job", "rejected", ["job_id", "id"])
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
    op.create_index(
        "ix_changes_key",
        "changes",
        ["key", "version"],
        sqlite_where=sa.text("body IS NOT NULL"),
        postgresql_where=sa.text("body IS NOT NULL"),
    )
    op.create_table(
        "tail",
        sa.Column("one", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("change", sa.BigInteger(), nullable=False),
        sa.Column("claim", sa.BigInteger(), nullable=False),
        sa.Column("last_job", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("last_task", sa.BigInteger(), nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("one", name="pk_tail"),
    )
    op.create_table(
        "blob_folder",
        sa.Column("one", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("folder", sa.Text(), nullable=False, comment="its id, which is also in its file folder.id"),
        sa.PrimaryKeyConstraint("one", name="pk_blob_folder"),
    )
    op.create_table(
        "aliases",
        sa.Column("identity", sa.Text(), nullable=False),
        sa.Column("alias", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("identity", "alias", name="pk_aliases"),
    )
    op.create_index("ix_aliases_key", "aliases", ["identity", "key"])
    op.create_table(
        "schedules",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("pipeline", sa.Text(), nullable=False),
        sa.Column("params", sa.JSON(), nullable=False),
        sa.Column("cron", sa.Text()),
        sa.Column("every", sa.Float()),
        sa.Column("paused", sa.Boolean(), nullable=False, server_default=sa.text("false")),
        sa.Column("next_at", sa.BigInteger()),
        sa.Column("last_at", sa.BigInteger()),
        sa.Column("last_job", sa.String(36)),
        sa.Column("last_error", sa.Text()),
        sa.Column("timezone", sa.Text(), nullable=False, server_default="UTC"),
        sa.PrimaryKeyConstraint("name", name="pk_schedules"),
    )
    op.create_index("ix_schedules_next_at", "schedules", ["next_at"])
    op.create_table(
        "derived",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_derived"),
    )


def _create_deliveries() -> None:
    op.create_table(
        "cursors",
        sa.Column("sink", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("moved_at", sa.BigInteger(), nullable=False),
        sa.Column(
            "delivered", sa.BigInteger(), nullable=False, server_default="0", comment="changes that the sink has taken"
        ),
        sa.Column(
            "rate", sa.Float(), nullable=False, server_default="0", comment="of these per second, when it last moved"
        ),
        sa.Column("failures", sa.Integer(), nullable=False, server_default="0", comment="in a row"),
        sa.Column("error", sa.Text(), comment="the last"),
        sa.Column("error_at", sa.BigInteger()),
        sa.Column("retry_at", sa.BigInteger(), comment="NULL: it does not fail"),
        sa.Column("failing_since", sa.BigInteger(), comment="NULL: it does not fail"),
        sa.PrimaryKeyConstraint("sink", name="pk_cursors"),
    )
    op.create_table(
        "sinks",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("kinds", sa.JSON(), comment="NULL: all"),
        sa.Column("pipelines", sa.JSON(), comment="NULL: all"),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_sinks"),
    )
    op.create_table(
        "set_aside",
        sa.Column("sink", sa.Text(), nullable=False),
        sa.Column("change_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column(
            "retry", sa.Boolean(), nullable=False, server_default=sa.text("false"), comment="to be delivered again"
        ),
        sa.PrimaryKeyConstraint("sink", "change_id", name="pk_set_aside"),
    )


def _create_archive() -> None:
    op.create_table(
        "archives",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("place", sa.Text(), nullable=False, comment="the folder or the address in S3"),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("records", sa.Integer(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False, comment="SHA-256 of the file"),
        sa.Column(
            "state", sa.Text(), nullable=False, comment="writing, dropped: it does not count; moved, listed: it does"
        ),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_archives"),
    )
    op.create_index(
        "ix_archives_unfinished",
        "archives",
        ["id"],
        sqlite_where=sa.text("state <> 'listed'"),
        postgresql_where=sa.text("state <> 'listed'"),
    )
    op.create_table(
        "archived",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False, comment="a record that comes back continues from here"),
        sa.Column("archive_id", sa.BigInteger(), nullable=False),
        sa.Column("archived_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "key", name="pk_archived"),
    )


def _create_politeness() -> None:
    op.create_table(
        "domains",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("domain_name", sa.Text(), nullable=False),
        sa.Column("base_url", sa.Text()),
        sa.Column("crawl_delay_seconds", sa.Float()),
        sa.Column("max_concurrent_requests", sa.Integer()),
        sa.Column("is_active", sa.Boolean(), nullable=False, server_default=sa.text("true")),
        sa.Column("tokens_per_interval", sa.Float()),
        sa.Column("interval_seconds", sa.Float()),
        sa.Column("min_delay_ms", sa.Integer()),
        sa.Column("max_delay_ms", sa.Integer()),
        sa.Column("allowed_hours_start", sa.SmallInteger()),
        sa.Column("allowed_hours_end", sa.SmallInteger()),
        sa.Column("respect_robots_txt", sa.Boolean()),
        sa.Column("use_proxies", sa.Boolean()),
        sa.Column("proxy_cooldown_seconds", sa.Float()),
        sa.Column("block_resources", sa.Text(), comment="image, font, media, stylesheet; separated by commas"),
        sa.Column("currency", sa.Text(), comment="ISO 4217, for prices of pages that name none"),
        sa.Column(
            "crawl_frequency",
            sa.BigInteger(),
            comment="seconds between two crawls of a page; NULL: the general default",
        ),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_domains"),
        sa.UniqueConstraint("domain_name", name="uq_domains_domain_name"),
    )
    op.create_index("ix_domains_updated_at", "domains", ["updated_at"])
    op.create_table(
        "robots",
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), comment="of the last try; NULL: no answer"),
        sa.Column("tried_at", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), comment="the last good copy"),
        sa.Column("good_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("origin", name="pk_robots"),
    )
    op.create_index("ix_robots_tried_at", "robots", ["tried_at"])
    op.create_table(
        "proxies",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False, comment="keyed hash of the whole address: no two alike"),
        sa.Column("protocol", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False, comment="the host, without user and password"),
        sa.Column("port", sa.Integer(), nullable=False),
        sa.Column("username", sa.Text(), comment="encrypted"),
        sa.Column("password", sa.Text(), comment="encrypted"),
        sa.Column("region", sa.String(2)),
        sa.Column("source", sa.Text(), nullable=False, comment="who added it: operator or settings"),
        sa.Column(
            "is_active", sa.Boolean(), nullable=False, server_default=sa.text("true"), comment="the operator's switch"
        ),
        sa.Column("healthy", sa.Boolean(), nullable=False, server_default=sa.text("true")),
        sa.Column(
            "disabled",
            sa.Boolean(),
            nullable=False,
            server_default=sa.text("false"),
            comment="too many failures in a row",
        ),
        sa.Column("failure_count", sa.Integer(), nullable=False, server_default="0", comment="in a row"),
        sa.Column("success_count", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("failures", sa.BigInteger(), nullable=False, server_default="0", comment="in all"),
        sa.Column("last_used_at", sa.BigInteger()),
        sa.Column("last_success_at", sa.BigInteger()),
        sa.Column("last_failure_at", sa.BigInteger()),
        sa.Column("last_check_at", sa.BigInteger()),
        sa.Column("avg_response_time_ms", sa.Float()),
        sa.Column("bytes", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_proxies"),
        sa.UniqueConstraint("fingerprint", name="uq_proxies_fingerprint"),
    )


def _create_queue() -> None:
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
        sa.Column("attempt", sa.SmallInteger(), nullable=False, server_default="0"),
        sa.Column(
            "offered",
            sa.Boolean(),
            nullable=False,
            server_default=sa.text("false"),
            comment="it may be claimed by its number before it is due",
        ),
        sa.PrimaryKeyConstraint("task_id", name="pk_queue"),
        postgresql_with={"fillfactor": "50"},
    )
    op.create_index(
        "ix_queue_ready", "queue", ["lane_id", "job_id", "rank", "task_id"], postgresql_where=sa.text("state = 0")
    )
    op.create_index("ix_queue_running", "queue", ["session_id"], postgresql_where=sa.text("state = 3"))
    op.create_index("ix_queue_suspect", "queue", ["lane_id", "task_id"], postgresql_where=sa.text("state = 8"))
    op.create_index("ix_queue_waiting", "queue", ["lane_id", "due"], postgresql_where=sa.text("state = 1"))
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
        sa.Column("paused", sa.Boolean(), nullable=False, server_default=sa.text("false")),
        sa.PrimaryKeyConstraint("lane_id", "job_id", name="pk_flows"),
    )
    op.create_index("ix_flows_job_id", "flows", ["job_id"])
    op.create_index("ix_flows_turn", "flows", ["lane_id", "turn", "job_id"], postgresql_where=sa.text("NOT paused"))
