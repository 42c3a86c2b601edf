"""Helpers of tests and benchmarks to start real servers. Never imported by the package itself."""
