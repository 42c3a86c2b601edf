"""The Celery application of `celery -A forager.runners.celery …`, which looks for it in a module of this name. Its
settings come from Forager's own."""

from forager.app.config import load_settings
from forager.runners.celery.broker import new_celery
from forager.runners.celery.shift import fire, submit, work

app = new_celery(load_settings({}))

__all__ = ["app", "fire", "submit", "work"]
