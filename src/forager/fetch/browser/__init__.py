"""Browsers: the gate that their traffic passes."""
