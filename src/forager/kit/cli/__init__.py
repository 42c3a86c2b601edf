"""What the commands of a pipeline are written with: the API as a client, progress, tables, and how a command ends.

A pipeline's `cli.py` imports this package and its own pure files, never the application. What only the application can
do (read settings, open a store, run the engine) it gets through `Invocation` and `Reached`. Start reading at
`invocation.py`, then `run_job.py`.
"""
