"""The loops: work (lease → step → settle), schedule, sweep, recheck, deliver, prune. The engine handles lanes and
retries for every pipeline, and names none."""
