"""Webhooks on their way: one task for each message and receiver, tried for a week, then a dead letter.

Start reading at `sink.py`. Nothing is imported here: a receiver that verifies signatures needs `signing` alone.
"""
