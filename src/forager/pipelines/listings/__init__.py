"""Apartment listings that stay fresh. Start reading at `pipeline.py`; then `tasks.py`, `steps.py` and `app_steps/`."""
