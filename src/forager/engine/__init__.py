"""The loops: work (lease → step → settle), schedule, sweep, deliver. Knows lanes and retries; no pipeline by name."""
