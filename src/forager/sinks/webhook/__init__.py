"""Webhooks: one task per message and receiver, retried for a week, then a dead letter.

Start reading at `feature.py`. This module imports nothing, because a receiver that verifies signatures needs only
`signing`.
"""
