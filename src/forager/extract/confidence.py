"""What all extractors share about confidence: a number from 0 to 1 that says how likely a value is right."""

DISAGREED = 0.6
"""The part of a value's confidence that is left when another reliable source has another value."""
