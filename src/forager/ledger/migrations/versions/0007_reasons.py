"""Why a task did not end well, in columns of their own: until now the error began with the word, or was the word."""

import sqlalchemy as sa
from alembic import op

revision = "core_0007"
down_revision = "core_0006"
branch_labels = None
depends_on = None

ANY_KIND = ("robots", "timed_out")
SCRAPE = (
    "circuit_open",
    "pool_exhausted",
    "no_healthy_proxies",
    "credentials_missing",
    "login_wall",
    "not_found",
    "blocked",
    "refused",
    "not_a_page",
)
"""With these words and a colon errors began, those of SCRAPE only in tasks of kind `scrape.page` …"""
WHOLE = ("after_failed", "budget", "cancelled")
"""… these were the error …"""
EARLY_EXIT = "early_exit_"
"""… and with this it began, and still does."""


def upgrade() -> None:
    op.add_column("tasks", sa.Column("reason", sa.Text(), comment="the word for why it failed, was skipped or waits"))
    types = "network, http, blocked, parse, validation, storage or internal"
    op.add_column("tasks", sa.Column("error_type", sa.Text(), comment=types))
    begins = {word: f"substr(error, 1, {len(word) + 2}) = '{word}: '" for word in (*ANY_KIND, *SCRAPE)}
    begins.update({word: f"kind = 'scrape.page' AND {begins[word]}" for word in SCRAPE})
    reasons = "".join(f" WHEN {test} THEN '{word}'" for word, test in begins.items())
    reasons += "".join(f" WHEN error = '{word}' THEN '{word}'" for word in WHOLE)
    reasons += f" WHEN substr(error, 1, {len(EARLY_EXIT)}) = '{EARLY_EXIT}' THEN 'early_exit'"
    errors = "".join(f" WHEN {test} THEN substr(error, {len(word) + 3})" for word, test in begins.items())
    op.execute(
        f"UPDATE tasks SET reason = CASE{reasons} END, error = CASE{errors} ELSE error END WHERE error IS NOT NULL"
    )


def downgrade() -> None:
    op.execute(
        "UPDATE tasks SET error = reason || ': ' || error WHERE error IS NOT NULL AND"
        f" (reason IN ({_quoted(ANY_KIND)}) OR kind = 'scrape.page' AND reason IN ({_quoted(SCRAPE)}))"
    )
    op.drop_column("tasks", "error_type")
    op.drop_column("tasks", "reason")


def _quoted(words: tuple[str, ...]) -> str:
    return ", ".join(f"'{word}'" for word in words)
