"""Apartment listings that stay fresh. Start reading at `records.py`, then `parse.py`; `markets.py` has the cities."""
