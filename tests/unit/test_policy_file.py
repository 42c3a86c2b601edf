"""The policy file: reading and writing it, and the errors for a file that cannot be used."""

import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from forager.core.errors import Rejected
from forager.core.hosts import checked_host, one_spelling
from forager.core.rules import FIELDS, RESOURCES, AllowedHours, Rules
from forager.engine.lanes.rules.policy_file import (
    MOST_CHARACTERS,
    MOST_ERRORS,
    Policies,
    parse_policies,
    shipped_policies,
    to_yaml,
)


def wrong(text: str) -> dict[str, str]:
    with pytest.raises(Rejected) as refused:
        parse_policies(text, "rules.yaml")
    assert "rules.yaml" in refused.value.message
    return {each.field: each.message for each in refused.value.fields}


def test_the_shipped_file_contains_the_values_of_the_specification__SC_7() -> None:
    policies = shipped_policies()
    assert policies.domains == {
        "linkedin.com": Rules(
            tokens_per_interval=1,
            interval_seconds=15,
            min_delay_ms=2_000,
            max_delay_ms=5_000,
            allowed_hours=AllowedHours(start=6, end=22),
            respect_robots_txt=True,
        ),
        "indeed.com": Rules(
            tokens_per_interval=2,
            interval_seconds=10,
            min_delay_ms=1_000,
            max_delay_ms=3_000,
            respect_robots_txt=True,
        ),
    }
    assert policies.default == Rules(
        tokens_per_interval=2, interval_seconds=10, min_delay_ms=500, max_delay_ms=2_000, respect_robots_txt=True
    )


def test_the_example_on_the_page_about_politeness_is_read_and_shows_every_key() -> None:
    page = (Path(__file__).parents[2] / "docs" / "politeness.md").read_text("utf-8")
    shown = parse_policies(page.split("```yaml\n")[1].split("```")[0], "docs/politeness.md")
    assert {key for key, value in shown.domains["shop.example"] if value is not None} == set(FIELDS)
    assert not shown.default.is_silent()


SEVERAL_ERRORS = """\
domains:
  linkedin.com:
    tokens_per_interval: -1
    intervall_seconds: 15
    min_delay_ms: 5000
    max_delay_ms: 2000
    allowed_hours:
      start: 6
      end: 6
  LinkedIn.com:
    respect_robots_txt: maybe
  "https://shop.example/":
    use_proxies: true
  shop.example:
    block_resources: [image, video]
    allowed_hours: 5
    max_concurrent_requests: 0
    crawl_delay_seconds: "3"
    interval_seconds: 3
    interval_seconds: 4
  list.example: [1, 2]
  number.example:
    tokens_per_interval: true
    min_delay_ms: 2.5
    allowed_hours: {start: 6}
colour: red
"""


def test_all_errors_are_reported_at_once_each_with_its_line_and_remedy__SC_7() -> None:
    found = wrong(SEVERAL_ERRORS)
    lines = {field: int(message.removeprefix("line ").partition(":")[0]) for field, message in found.items()}
    assert lines == {
        "domains.linkedin.com.tokens_per_interval": 3,
        "domains.linkedin.com.intervall_seconds": 4,
        "domains.linkedin.com.max_delay_ms": 6,
        "domains.linkedin.com.allowed_hours.end": 9,
        "domains.LinkedIn.com": 10,
        "domains.https://shop.example/": 12,
        "domains.shop.example.block_resources.1": 15,
        "domains.shop.example.allowed_hours": 16,
        "domains.shop.example.max_concurrent_requests": 17,
        "domains.shop.example.crawl_delay_seconds": 18,
        "domains.shop.example.interval_seconds": 20,
        "domains.list.example": 21,
        "domains.number.example.tokens_per_interval": 23,
        "domains.number.example.min_delay_ms": 24,
        "domains.number.example.allowed_hours.end": 25,
        "colour": 26,
    }
    assert "did you mean interval_seconds?" in found["domains.linkedin.com.intervall_seconds"]
    assert "such as tokens_per_interval: 2" in found["domains.linkedin.com.tokens_per_interval"]
    assert "start 0 and end 24" in found["domains.linkedin.com.allowed_hours.end"]
    assert "line 2" in found["domains.LinkedIn.com"]
    assert "line 19" in found["domains.shop.example.interval_seconds"]
    assert "without https://" in found["domains.https://shop.example/"]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 1, "empty"),
        ("# nothing\n", 1, "empty"),
        ("default:\n  tokens_per_interval: 2\n", 1, "the only key at the top is `domains`"),
        ("{}", 1, "missing"),
        ("domains:\n  a.example:\n\ttokens_per_interval: 1\n", 3, "not YAML"),
        ("domains:\n  a.example: [1\n", 3, "not YAML"),
        ("domains: {}\n---\ndomains: {}\n", 2, "not YAML"),
        ("- a\n- b\n", 1, "should have `domains:`"),
        ("domains:\n  a.example: *nobody\n", 2, "not YAML"),
        ("domains:\n  a.example:\n    <<: {min_delay_ms: 1}\n", 3, "<<"),
    ],
)
def test_what_is_no_policy_file_is_refused_with_the_line(text: str, line: int, says: str) -> None:
    (message,) = wrong(text).values()
    assert message.startswith(f"line {line}: ")
    assert says in message


def test_a_hostile_file_is_refused_soon() -> None:
    bombs = [
        "[" * 200_000,
        "domains: " + "{a: " * 50_000,
        "a: &a [x]\n" + "".join(f"k{n}: &k{n} [*a, *a, *a, *a]\n" for n in range(40)),
        "domains: &d {a.example: *d}",
        "x" * (MOST_CHARACTERS + 1),
        "domains:\n  a.example: !!python/object/apply:os.system [exit]\n",
        "domains:\n" + "".join(f"  h{n}.example: {{colour: red}}\n" for n in range(5_000)),
    ]
    began = time.monotonic()
    for bomb in bombs:
        assert len(wrong(bomb)) <= MOST_ERRORS
    assert time.monotonic() - began < 30


def test_an_anchor_shares_rules_and_an_empty_entry_sets_nothing() -> None:
    text = "domains:\n  a.example: &slow {interval_seconds: 60}\n  b.example: *slow\n  c.example:\n    min_delay_ms:\n"
    policies = parse_policies(text, "f")
    assert policies.domains == {
        "a.example": Rules(interval_seconds=60),
        "b.example": Rules(interval_seconds=60),
        "c.example": Rules(),
    }
    assert policies.default == Rules()


def test_numbers_are_decimal_as_people_write_them() -> None:
    text = "domains:\n  a.example:\n    allowed_hours: {start: 08, end: 010}\n    min_delay_ms: 1_500\n"
    rules = parse_policies(text, "f").domains["a.example"]
    assert rules == Rules(allowed_hours=AllowedHours(start=8, end=10), min_delay_ms=1_500)
    (message,) = wrong("domains:\n  a.example:\n    allowed_hours: {start: 6:00, end: 22}\n").values()
    assert message.startswith("line 3: ")


@pytest.mark.parametrize(
    ("host", "lane"),
    [
        ("linkedin.com", "linkedin.com"),
        ("www.linkedin.com", "linkedin.com"),
        ("WWW.LinkedIn.COM.", "linkedin.com"),
        ("de.jobs.linkedin.com", "jobs.linkedin.com"),
        ("notlinkedin.com", "notlinkedin.com"),
        ("linkedin.com.evil.example", "linkedin.com.evil.example"),
        ("com", "com"),
        ("linkedin.com:443", "linkedin.com"),
        ("www.linkedin.com:8443", "linkedin.com"),
        ("shop.example:80", "shop.example"),
        ("shop.example:8080", "shop.example:8080"),
        ("127.0.0.1:9000", "127.0.0.1:9000"),
        ("10.0.0.7", "10.0.0.7"),
        ("10.0.0.8", "10.0.0.8"),
        ("[2001:DB8::1]:443", "2001:db8::1"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("intranet", "intranet"),
    ],
)
def test_a_host_belongs_to_the_longest_domain_with_rules_else_to_itself(host: str, lane: str) -> None:
    text = "domains: {linkedin.com: , jobs.linkedin.com: , com: , 10.0.0.7: , xn--bcher-kva.example: }"
    assert parse_policies(text, "f").lane_name(host) == lane


# ── round trip ──

label = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
names = st.one_of(
    st.lists(label, min_size=2, max_size=4).map(".".join),
    st.ip_addresses(v=4).map(str),
    st.tuples(label, st.integers(1, 65_535)).map(lambda pair: one_spelling(f"{pair[0]}:{pair[1]}")),
    st.sampled_from(["yes", "no", "on", "null.example", "1e3.example"]),
).filter(lambda name: name != "default")
hours = st.tuples(st.integers(0, 23), st.integers(0, 24)).filter(lambda pair: pair[0] != pair[1])
seconds = st.one_of(st.integers(1, 86_400), st.floats(0.001, 86_400, allow_nan=False))
delays = st.tuples(st.integers(0, 3_600_000), st.integers(0, 3_600_000)).map(sorted)


@st.composite
def rules(draw: st.DrawFn) -> dict[str, Any]:
    least, most = draw(delays)
    start, end = draw(hours)
    whole = {
        "tokens_per_interval": draw(st.one_of(st.integers(1, 100_000), st.floats(0.001, 1_000))),
        "interval_seconds": draw(seconds),
        "min_delay_ms": least,
        "max_delay_ms": most,
        "allowed_hours": {"start": start, "end": end},
        "respect_robots_txt": draw(st.booleans()),
        "max_concurrent_requests": draw(st.integers(1, 1_000)),
        "crawl_delay_seconds": draw(st.one_of(st.just(0), seconds)),
        "use_proxies": draw(st.booleans()),
        "proxy_cooldown_seconds": draw(seconds),
        "block_resources": draw(st.lists(st.sampled_from(RESOURCES), unique=True)),
        "via": draw(st.booleans()),
    }
    assert set(whole) == set(FIELDS)
    return {key: whole[key] for key in draw(st.lists(st.sampled_from(FIELDS), unique=True))}


files = st.tuples(
    st.dictionaries(names.map(checked_host), rules(), max_size=6), st.one_of(st.none(), rules().filter(bool))
).map(lambda parts: {"domains": {**parts[0], **({"default": parts[1]} if parts[1] else {})}})


def same(config: dict[str, Any]) -> dict[str, Any]:
    """The order of blocked resources means nothing."""
    return {
        name: {key: sorted(value) if isinstance(value, list) else value for key, value in (said or {}).items()}
        for name, said in config["domains"].items()
    }


# Feature: scraping-microservices, Property 23: Domain policy YAML parsing round trip
@settings(max_examples=100)
@given(config=files, flow=st.sampled_from([None, True, False]), sort=st.booleans(), indent=st.integers(2, 8))
def test_a_file_read_and_written_is_the_same_configuration__SC_P23(
    config: dict[str, Any], flow: bool | None, sort: bool, indent: int
) -> None:
    text = yaml.safe_dump(config, default_flow_style=flow, sort_keys=sort, indent=indent)
    policies = parse_policies(text, "f")
    written = to_yaml(policies)
    assert same(yaml.safe_load(written)) == same(config)
    assert parse_policies(written, "f") == policies
    assert isinstance(policies, Policies)
