"""The sinks. Each receives batches of changes by cursor; receiving the same batch twice must have no further effect."""
