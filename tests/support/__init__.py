"""What tests and benchmarks share to start real servers. Never imported by the package itself."""
