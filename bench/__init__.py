"""Benchmarks, one file each: `make bench`, or one with `python -m bench.NAME`. Never imported by the package."""
