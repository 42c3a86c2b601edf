""".env.example and the page of settings list every setting, those that operators set first."""

import re

from forager import __version__
from forager.app.config import declared_settings
from scripts import settings_doc
from tests.support.settings import Load


def test_dotenv_example_lists_every_setting_with_its_default_and_nothing_else() -> None:
    listed = dict(re.findall(r"^#(FORAGER_[A-Z0-9_*]+)=(.*)$", settings_doc.EXAMPLE.read_text("utf-8"), re.MULTILINE))

    listed = {name: value.replace("/VERSION", f"/{__version__}") for name, value in listed.items()}
    assert listed == {each.name.variable: each.default or "" for each in declared_settings()}


def test_dotenv_example_names_every_alias() -> None:
    text = settings_doc.EXAMPLE.read_text("utf-8")

    assert set(re.findall(r"Also read as (\S+)\.$", text, re.MULTILINE)) == {
        each.name.seed for each in declared_settings() if each.name.seed
    }


def test_dotenv_example_with_every_line_in_use_gives_the_defaults(load: Load) -> None:
    lines = re.findall(r"^#(FORAGER_[A-Z0-9_]+=.*)$", settings_doc.EXAMPLE.read_text("utf-8"), re.MULTILINE)

    text = "\n".join(lines).replace("/VERSION", f"/{__version__}")
    assert load(dotenv=text) == load(dotenv="")


def test_the_page_of_settings_is_up_to_date() -> None:
    stale = "is stale: run `make settings`"
    assert settings_doc.PAGE.read_text("utf-8") == settings_doc.render_page(), f"docs/settings.md {stale}"
    assert settings_doc.EXAMPLE.read_text("utf-8") == settings_doc.render_example(), f".env.example {stale}"


def test_common_settings_come_first_and_each_setting_once() -> None:
    common = [each.name.variable for each in declared_settings() if each.is_common]
    advanced = [each.name.variable for each in declared_settings() if not each.is_common]
    assert 30 <= len(common) <= 50, "mark a setting as common only if most operators decide about it"

    for text, line in (
        (settings_doc.render_page(), r"^\| `(FORAGER_[A-Z0-9_*]+)`"),
        (settings_doc.render_example(), r"^#(FORAGER_[A-Z0-9_*]+)="),
    ):
        listed = re.findall(line, text, re.MULTILINE)
        assert sorted(listed[: len(common)]) == sorted(common)
        assert sorted(listed[len(common) :]) == sorted(advanced)
