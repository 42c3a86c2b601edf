"""Any site, mapped or crawled: its pages as records. Start reading at `pipeline.py`; then `app_steps.py`, `frontier.py`
and `addresses.py`."""
