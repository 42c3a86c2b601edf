"""Code that the benchmarks share: stores, the sandbox, peers, the state of the machine, the verdict. Measures
nothing."""
