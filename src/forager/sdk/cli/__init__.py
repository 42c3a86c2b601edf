"""Building blocks for a pipeline's commands: the API client, progress views, tables, exit codes.

A pipeline's `cli.py` imports this package and its own pure files, never the application. `Invocation` and `Reached`
give it access to what only the application can do: read settings, open a store, run the engine. Start reading at
`invocation.py`, then `run_job.py`.
"""
