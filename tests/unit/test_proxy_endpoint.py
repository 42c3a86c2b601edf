"""A proxy's address as people write it: what is read, what is refused, and that a refusal repeats no password."""

import pytest

from forager.core.errors import Rejected
from forager.core.proxies import ProxyEndpoint
from forager.core.secret import Secret
from forager.fetch.proxies.tunnel import parse_endpoint, parse_file


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://p.example:8080", ProxyEndpoint("http", "p.example", 8080)),
        ("HTTPS://P.Example:443/", ProxyEndpoint("https", "p.example", 443)),
        (
            "socks5://u:p%40ss%2F@[2001:db8::1]:1080?region=de",
            ProxyEndpoint("socks5", "2001:db8::1", 1080, Secret("u"), Secret("p@ss/"), "DE"),
        ),
        ("http://only-user@10.0.0.1:1", ProxyEndpoint("http", "10.0.0.1", 1, Secret("only-user"))),
    ],
)
def test_an_address_is_read(text: str, expected: ProxyEndpoint) -> None:
    assert parse_endpoint(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "p.example:8080",
        "ftp://u:canary@p.example:21",
        "http://u:canary@p.example",
        "http://u:canary@p.example:0",
        "http://u:canary@p.example:65536",
        "http://u:canary@p.example:80/path",
        "http://u:canary@p.example:80#x",
        "http://u:canary@p.example:80?key=canary",
        "http://u:canary@p.example:80?region=canary",
        "http://:canary@p.example:80",
        "http://u:canary@-p.example:80",
        "http://u:canary@[fe80::1%25eth0]:80",
        "http://u:can%0Aary@p.example:80",
        "http://u:canary @p.example:80",
        "http://u:ca/nary@p.example:80",
        "http://u:" + "canary" * 60 + "@p.example:80",
        "http://" + "p" * 3000 + ":80",
    ],
)
def test_a_wrong_address_is_refused_by_field_and_repeats_nothing__PR_9(text: str) -> None:
    with pytest.raises(Rejected) as caught:
        parse_endpoint(text)
    assert [each.field for each in caught.value.fields] == ["address"]
    assert "canary" not in f"{caught.value} {caught.value.fields} {caught.value.__cause__}"


def test_a_file_has_one_address_per_line_and_wrong_lines_are_reported() -> None:
    good = ["# ours", "", "  http://p.example:1  ", "socks5://u:p@q.example:2"]
    assert [each.host for each in parse_file(good, "proxies.txt")] == ["p.example", "q.example"]
    with pytest.raises(Rejected) as caught:
        parse_file([*good, "http://u:canary@p.example", "nonsense"], "proxies.txt")
    assert [each.field for each in caught.value.fields] == ["proxies.txt:5", "proxies.txt:6"]
    assert "line 5" in caught.value.message
    assert "canary" not in f"{caught.value}{caught.value.fields}"
