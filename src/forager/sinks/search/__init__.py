"""The search sink: the full-text index of records, in the same store. Start at `feature.py`."""
