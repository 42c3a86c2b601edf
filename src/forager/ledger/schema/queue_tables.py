"""PostgreSQL only: open work stands in a table of its own (`queue`), beside `tasks`, which is identity and history.

Created by a dialect branch of the migrations, unknown to SQLite, which leases straight from `tasks`.
"""

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, SmallInteger, Table, text
from sqlalchemy.types import Boolean

from forager.ledger.schema.core_tables import metadata

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
