"""The listings steps that read the application's tables or create jobs (decision 0052)."""
