"""Work: lease tasks, run their steps, settle the outcomes."""
