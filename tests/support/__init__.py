"""What tests and benchmarks share to start real servers. Never imported by the package itself."""

import gc

# Test processes import a great deal, which stays: looking through it for garbage took a seventh of their start.
gc.set_threshold(50_000, 20, 20)
