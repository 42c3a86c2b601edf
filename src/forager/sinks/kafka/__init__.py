"""The Kafka sink: what pipelines publish, with the sink's cursor in the same transactions. Start at `sink.py`."""
