"""Generated pages are up to date, and pages for users are free of what only contributors need."""

import ast
import json
import re
import subprocess
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from scripts import docs_site, requirements_doc


def test_the_page_of_requirements_is_up_to_date() -> None:
    expected = requirements_doc.render(requirements_doc.collect(requirements_doc.ROOT / "tests"))

    up_to_date = requirements_doc.PAGE.read_text("utf-8") == expected
    assert up_to_date, "docs/contributing/requirements.md is stale: run `make requirements`"


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("test_plain", []),
        ("test_one__PL_6", ["PL-6"]),
        ("test_two__PL_6__R5", ["PL-6", "R5"]),
        ("test_a_property__SC_P12", ["SC-P12"]),
        ("test_security__S11", ["S11"]),
    ],
)
def test_ids_are_read_from_the_end_of_a_name(name: str, ids: list[str]) -> None:
    assert requirements_doc.requirement_ids(name) == ids


@pytest.mark.parametrize("suffix", ["PL6", "XX_1", "R_five", "twice", "pl_6"])
def test_a_suffix_that_is_no_id_is_refused_with_the_form_to_use(suffix: str) -> None:
    with pytest.raises(requirements_doc.UnknownRequirement, match="each behind two underscores"):
        requirements_doc.requirement_ids(f"test_x__{suffix}")


def test_requirements_are_listed_by_family_and_number_with_every_test(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_a.py").write_text("def test_x__PL_10(): ...\nasync def test_y__PL_9__R2(): ...\n")
    (tests / "test_b.py").write_text("class TestB:\n    def test_z__PL_9(self): ...\n")

    page = requirements_doc.render(requirements_doc.collect(tests))

    lines = [line for line in page.splitlines() if line.startswith(("##", "**", "- "))]
    assert lines == [
        "## Places",
        "**PL-9**",
        "- `tests/test_a.py::test_y__PL_9__R2`",
        "- `tests/test_b.py::test_z__PL_9`",
        "**PL-10**",
        "- `tests/test_a.py::test_x__PL_10`",
        "## Reliability",
        "**R2**",
        "- `tests/test_a.py::test_y__PL_9__R2`",
    ]


def test_every_trap_of_the_ledger_has_a_test_or_a_reason_for_having_none() -> None:
    shown = requirements_doc.collect(requirements_doc.ROOT / "tests")

    unguarded = {number for number in requirements_doc.TRAPS if not shown.get(f"trap {number}")}
    assert unguarded == requirements_doc.WITHOUT_TEST.keys()


def test_a_trap_is_read_from_before_the_ids_and_must_be_known(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_a.py").write_text("def test_x_trap_1__PL_10(): ...\n")
    assert requirements_doc.collect(tests).keys() == {"PL-10", "trap 1"}
    (tests / "test_a.py").write_text("def test_x_trap_99(): ...\n")
    with pytest.raises(requirements_doc.UnknownRequirement, match="no trap 99"):
        requirements_doc.collect(tests)


DOCS = requirements_doc.ROOT / "docs"
GENERATED = {DOCS / "cli.md", DOCS / "settings.md", requirements_doc.PAGE}
FOR_USERS = [*sorted(set(DOCS.glob("*.md")) - {DOCS / "architecture.md"}), *requirements_doc.ROOT.glob("[RC]*E*.md")]
PAGES = [*sorted(DOCS.rglob("*.md")), *sorted(requirements_doc.ROOT.glob("*.md"))]


def prose(page: Path) -> str:
    """Return the text of a page without its blocks of code."""
    return "".join(page.read_text("utf-8").split("```")[0::2])


@pytest.mark.parametrize("page", FOR_USERS, ids=lambda page: page.name)
def test_a_page_for_users_names_no_requirement_and_no_test(page: Path) -> None:
    found = re.findall(r"\b(?:PL|PR|LI|SC|RV)-P?\d+|\btest_\w+|\bthe seeds?\b|\bseeds?['’]", prose(page))
    assert not found


@pytest.mark.parametrize("page", sorted(set(PAGES) - GENERATED), ids=lambda page: page.name)
def test_prose_is_wrapped_at_120_columns(page: Path) -> None:
    long = [line for line in prose(page).splitlines() if len(line) > 120 and not line.lstrip().startswith(("|", "#"))]
    assert not [line for line in long if " " in re.sub(r"`[^`]*`|\[[^]]*\]\([^)]*\)", "", line)[:120].strip()]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file_and_a_heading_that_exist(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        path, _, anchor = target.partition("#")
        if "://" in target:
            continue
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert not broken


def test_every_decision_is_in_the_index_under_its_title_and_number() -> None:
    folder = DOCS / "decisions"
    index = dict(
        re.findall(r"^\| \[\d{4}\]\(([^)]+)\) \| (.+) \|$", (folder / "README.md").read_text("utf-8"), re.MULTILINE)
    )
    titles = {}
    for path in folder.glob("[0-9]*.md"):
        number, _, title = path.read_text("utf-8").partition("\n")[0].removeprefix("# ").partition(". ")
        assert path.name.startswith(f"{number}-")
        titles[path.name] = title
    assert index == titles
    assert len({name[:4] for name in titles}) == len(titles)


def _navigated(entries: object) -> Iterator[str]:
    """Yield the pages of a navigation, in their order."""
    if isinstance(entries, str):
        yield entries
    elif isinstance(entries, dict):
        for each in entries.values():
            yield from _navigated(each)
    elif isinstance(entries, list):
        for each in entries:
            yield from _navigated(each)


def test_every_page_is_in_the_navigation_of_the_site_once_and_every_guide_on_the_first_page() -> None:
    text = (requirements_doc.ROOT / "mkdocs.yml").read_text("utf-8")
    nav = list(_navigated(yaml.safe_load(text[text.index("\nnav:") :])["nav"]))
    root = requirements_doc.ROOT
    decisions = {page for page in PAGES if page.parent.name == "decisions" and page.name != "README.md"}
    assert len(nav) == len(set(nav))
    listed = {root / each for each in nav}
    assert listed <= {*PAGES}
    assert {page.name for page in {*PAGES} - listed - decisions} == set()
    readme = (root / "README.md").read_text("utf-8")
    assert [page.name for page in DOCS.glob("*.md") if f"docs/{page.name}" not in readme] == []


BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = [
    (page, language, code)
    for page in PAGES
    for language, code in BLOCK.findall(page.read_text("utf-8"))
    if language in ("python", "json", "toml", "yaml", "bash", "sh")
]


@pytest.mark.parametrize(
    ("page", "language", "code"),
    BLOCKS,
    ids=[f"{page.name}: {language} {code[:30]!r}" for page, language, code in BLOCKS],
)
def test_a_block_of_code_is_valid_in_its_language(page: Path, language: str, code: str) -> None:
    valid_code(language, code)


def valid_code(language: str, code: str) -> None:
    """Raise an error unless the code can be parsed."""
    if language == "python":
        ast.parse(textwrap.dedent(code))
    elif language == "json":
        json.loads(code)
    elif language == "toml":
        tomllib.loads(code)
    elif language == "yaml":
        list(yaml.safe_load_all(code))
    else:
        subprocess.run(["bash", "-n"], input=code, text=True, check=True, capture_output=True)


@pytest.mark.parametrize(
    ("language", "code"),
    [("python", "def f(:"), ("json", "{'a': 1}"), ("toml", "a = "), ("yaml", "a: [1"), ("sh", "if true; then")],
)
def test_code_that_is_not_valid_is_found(language: str, code: str) -> None:
    with pytest.raises((SyntaxError, ValueError, yaml.YAMLError, subprocess.CalledProcessError)):
        valid_code(language, code)


def test_the_site_is_built_from_the_pages_and_every_file_that_they_link_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docs_site, "PAGES", tmp_path / "pages")
    docs_site.collect()
    assert (tmp_path / "pages" / "README.md").is_file()
    assert (tmp_path / "pages" / "ops" / "alerts.yml").is_file()
    assert ".yaml](" in (tmp_path / "pages" / "ops" / "kubernetes" / "index.md").read_text("utf-8")
    assert "(../ops/kubernetes/index.md)" in (tmp_path / "pages" / "docs" / "kubernetes.md").read_text("utf-8")
