"""`python -m tests.support.kafka_mock`: librdkafka's mock cluster; prints its brokers, and ends when its input does."""

import ctypes
import sys
from importlib.util import find_spec
from pathlib import Path

BROKERS = 1


def library() -> ctypes.CDLL:
    """The librdkafka that the wheel of the client brings."""
    spec = find_spec("confluent_kafka")
    assert spec is not None
    assert spec.origin is not None
    (path,) = (Path(spec.origin).parent.parent / "confluent_kafka.libs").glob("librdkafka-*.so*")
    return ctypes.CDLL(str(path))


def main() -> None:
    lib = library()
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
        getattr(lib, name).restype = ctypes.c_void_p
    lib.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    error = ctypes.create_string_buffer(512)
    client = lib.rd_kafka_new(0, ctypes.c_void_p(lib.rd_kafka_conf_new()), error, 512)
    assert client, error.value
    cluster = ctypes.c_void_p(lib.rd_kafka_mock_cluster_new(ctypes.c_void_p(client), BROKERS))
    lib.rd_kafka_mock_group_initial_rebalance_delay_ms(cluster, ctypes.c_int32(0))
    print(lib.rd_kafka_mock_cluster_bootstraps(cluster).decode(), flush=True)  # noqa: T201 - its announcement
    for line in sys.stdin:
        act(lib, cluster, line.split())
        print("done", flush=True)  # noqa: T201


def act(lib: ctypes.CDLL, cluster: ctypes.c_void_p, words: list[str]) -> None:
    if words[0] in ("down", "up"):
        for broker in range(1, BROKERS + 1):
            getattr(lib, f"rd_kafka_mock_broker_set_{words[0]}")(cluster, broker)
        return
    key, codes = int(words[1]), [int(code) for code in words[2:]]
    lib.rd_kafka_mock_push_request_errors(
        cluster, ctypes.c_int16(key), ctypes.c_size_t(len(codes)), *(ctypes.c_int(code) for code in codes)
    )


if __name__ == "__main__":
    main()
