"""The settings of the Kafka sink: where the brokers are, how to sign in, what topics look like."""

from functools import partial
from typing import Literal

from pydantic import SecretStr

from forager.sdk.settings import FeatureSettings, Location, Texts, setting

_kafka = partial(setting, group="Kafka")


class KafkaSettings(FeatureSettings):
    kafka_brokers: Texts = _kafka(
        (), "Brokers to begin with, host:port, separated by commas; without them, nothing is published.", common=True
    )
    kafka_name: str = _kafka(
        "forager",
        "Name under which this ledger publishes: its transactional id and the key of its cursor. One per ledger.",
    )
    kafka_topic_prefix: str = _kafka("", "Text before the name of every topic.")
    kafka_partitions: int = _kafka(
        6, "Partitions of a topic that the sink creates; 0: it creates none, the topics are there.", ge=0, le=10_000
    )
    kafka_tasks: bool = _kafka(
        False,
        "Publish new tasks (fetch-accounts, …) for workers with --runner kafka; needs PostgreSQL. In every process.",
    )
    kafka_session_seconds: float = _kafka(
        45.0, "Time without a heartbeat after which the partitions of a dead worker go to others.", ge=1, le=3_600
    )
    kafka_timeout_seconds: float = _kafka(30.0, "Time limit of the brokers' answers.", gt=0, le=600)
    kafka_security: Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"] = _kafka(
        "plaintext", "Protection of connections: plaintext, ssl, sasl_plaintext or sasl_ssl."
    )
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = _kafka(
        "SCRAM-SHA-512", "Login method of sasl_*: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."
    )
    kafka_username: str | None = _kafka(None, "User to sign in as.")
    kafka_password: SecretStr | None = _kafka(None, "Password of this user.")
    kafka_ca_file: Location | None = _kafka(
        None, "File with the certificates that sign the brokers' own; without it, the system's."
    )
