"""Forager gathers data from the web and keeps it true."""

__version__ = "0.1.0"
