"""The verdict of a soak run: a line that grows is found, noise below its floor is not."""

import pytest

from scripts.soak import LINES, Line, chart, verdicts

QUIET = {line.name: line.floor * 2 for line in LINES}


def samples(**changed: float) -> list[dict[str, float]]:
    """Forty samples over an hour; `changed` is what a figure has gained by the end."""
    return [
        {
            "at": n * 90.0,
            **{name: value + changed.get(name, 0.0) * n / 39 for name, value in QUIET.items()},
        }
        for n in range(40)
    ]


def test_steady_lines_are_flat() -> None:
    assert all(each.flat for each in verdicts(samples()))


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.name)
def test_a_line_that_doubles_is_found__R21(line: Line) -> None:
    name = line.name
    grown = [each.line.name for each in verdicts(samples(**{name: QUIET[name]})) if not each.flat]
    assert grown == [name]


def test_growth_during_the_warm_up_does_not_count() -> None:
    seen = samples()
    for each in seen[:9]:
        each["memory"] = 1.0
    assert all(each.flat for each in verdicts(seen))


def test_a_small_figure_may_vary_below_its_floor() -> None:
    seen = [{**each, "behind": 0.0 if n < 30 else 900.0} for n, each in enumerate(samples())]
    assert all(each.flat for each in verdicts(seen))


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(SystemExit, match="run longer"):
        verdicts(samples()[:11])


def test_the_chart_has_a_line_for_each_figure() -> None:
    drawn = chart(samples(), verdicts(samples()))
    assert drawn.count("<polyline") == len(LINES)
