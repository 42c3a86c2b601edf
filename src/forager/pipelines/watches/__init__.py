"""Watches: any page, observed again and again, with what changed. Start reading at `feature.py`."""
