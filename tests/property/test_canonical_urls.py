"""Canonical URLs: one spelling for a page, whatever the order, the tracking and the spelling of its address."""

import json
from random import Random
from urllib.parse import parse_qsl, quote, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from forager.extract.text.urls import _spelled, canonical_url, is_tracking
from tests.support.shared_data import shared_data

words = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\t"), min_size=1, max_size=8)
hosts = st.sampled_from(["shop.example", "Shop.Example", "bücher.example", "127.0.0.1", "[::1]", "a.b.co.uk"])
names = words.filter(lambda name: not is_tracking(name.strip()) and name.strip().lower() not in ("ref_", "dib", "_pos"))
pairs = st.lists(st.tuples(names, words), max_size=6)
tracking = st.sampled_from(["utm_source", "UTM_Medium", "gclid", "fbclid", "mc_eid", "pf_rd_p", "srsltid", "_ga"])
paths = st.lists(words, max_size=4).map(lambda parts: "/" + "/".join(quote(part, safe="") for part in parts))


def query(given: list[tuple[str, str]]) -> str:
    return "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in given)


@given(st.text(max_size=60))
@example("http://a.example/%25%32%35")
@example("http://a.example/a%2Fb/../c")
@example("http://a.example?&&a")
@example("HTTP://A.example:0080/%7euser/./x/..//?b=%2b&a=+#x")
@example("https://a.example/%")
def test_applying_it_twice_changes_nothing__PR_5(text: str) -> None:
    for url in (text, f"https://a.example/{text}", f"http://a.example/?{text}", f"http://{text}/p"):
        try:
            once = canonical_url(url)
        except ValueError:
            continue
        assert canonical_url(once) == once
        assert "#" not in once
        assert urlsplit(once).scheme in ("http", "https")


plain_hosts = st.sampled_from(["shop.example", "127.0.0.1", "0127.0.0.1", "127.1", "a..b", "-a.example", "x.example."])
ports = st.sampled_from(["", ":80", ":443", ":8080", ":0", ":08", ":65535", ":65536"])
segments = st.lists(
    st.sampled_from(["a", "..", ".", "b.html", "", "A-b", "x~y", "...", "a..b", ".hid", "%41"]), max_size=5
)


@given(st.sampled_from(["http", "https"]), plain_hosts, ports, segments)
def test_a_plain_url_is_spelled_as_any_other_is__PR_5(scheme: str, host: str, port: str, path: list[str]) -> None:
    """Most URLs take a shorter way, which must lead to the same spelling and the same refusals."""
    url = f"{scheme}://{host}{port}/{'/'.join(path)}"
    try:
        expected = _spelled(url)
    except ValueError:
        with pytest.raises(ValueError, match=r".+"):
            canonical_url(url)
    else:
        assert canonical_url(url) == expected


@given(hosts, paths, pairs, st.lists(tracking, max_size=3), st.randoms(use_true_random=False))
def test_order_tracking_case_ports_and_fragments_do_not_count__PR_5(
    host: str, path: str, given: list[tuple[str, str]], tracked: list[str], dice: Random
) -> None:
    plain = canonical_url(f"https://{host}{path}?{query(given)}")
    noisy = [*given, *((name, "x") for name in tracked)]
    dice.shuffle(noisy)
    spelled = f"HTTPS://{host.upper() if host.isascii() else host}:443{path}?{query(noisy)}#reviews"
    assert canonical_url(spelled) == plain


@given(hosts, paths, pairs)
def test_real_parameters_and_the_scheme_are_kept__PR_5(host: str, path: str, given: list[tuple[str, str]]) -> None:
    for scheme in ("http", "https"):
        made = canonical_url(f"{scheme}://{host}{path}?{query(given)}")
        assert urlsplit(made).scheme == scheme
        assert sorted(parse_qsl(urlsplit(made).query, keep_blank_values=True)) == sorted(given)


@given(hosts, paths, pairs, pairs)
def test_pages_that_parameters_choose_stay_apart__PR_5(
    host: str, path: str, one: list[tuple[str, str]], other: list[tuple[str, str]]
) -> None:
    first, second = (canonical_url(f"https://{host}{path}?{query(each)}") for each in (one, other))
    assert (first == second) == (sorted(one) == sorted(other))


def test_no_url_of_the_standard_suite_breaks_it() -> None:
    cases = [
        case
        for case in json.loads((shared_data("urls") / "wpt_urltestdata.json").read_text())
        if isinstance(case, dict)
    ]
    assert len(cases) > 400
    read = 0
    for case in cases:
        for url in (case["input"], case.get("href") or ""):
            try:
                once = canonical_url(url)
            except ValueError:
                continue
            read += 1
            assert canonical_url(once) == once, url
    assert read > 200
