"""Alerts: rules over changes, channels, and the messages that reach them. Start reading at `feature.py`."""
