"""The loops: work (lease → step → settle), schedule, sweep. Knows lanes and retries; knows no pipeline by name."""
