"""Lanes: who owns one, how fast it may send, and when it must wait."""
