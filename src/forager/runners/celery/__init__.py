"""The Celery runner: what a team's Celery workers need to do Forager's work. `celery -A forager.runners.celery worker`.

A message is a shift ("come and work"), never work itself. The ledger holds the work and hands it out, so a message that
is lost, late or repeated changes nothing: a lost shift is sent again, and one too many finds nothing to do. Needs
PostgreSQL and the extra `celery`.
"""
