"""The names of the Celery tasks. Those who send them need nothing else of this package."""

WORK = "forager.work"
FIRE = "forager.fire"
SUBMIT = "forager.submit"
