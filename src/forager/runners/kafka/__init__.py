"""The Kafka runner: workers that get their tasks from topics. `forager worker --runner kafka --queue review-worker`.

The Kafka sink publishes every new task from the change log; a consumer claims the task by its number and runs it as any
worker would. A message is a hint, never work: the ledger holds the task and hands it out once. A repeated or late
message finds nothing to claim; a lost one costs a minute, because then any worker takes the task. Needs PostgreSQL and
the extra `kafka`. Start at `consumer.py`.
"""
