"""The import rules find what they are there for. (That our own code keeps them is checked by `make check`.)"""

from typing import Any

import pytest
from grimp import ImportGraph

from scripts.import_rules import PipelineFolders, Rooms

FOLDERS: dict[str, Any] = {
    "parent": "shop.pipelines",
    "edges": ["feature", "api", "api_*"],
    "pure_may_import": ["shop.core"],
    "edges_may_import": ["shop.kit"],
    "frameworks": ["fastapi"],
    "drivers": ["asyncpg"],
    "programs": ["demo"],
}


def graph(*imports: tuple[str, str]) -> ImportGraph:
    made = ImportGraph()
    for importer, imported in imports:
        for module in (importer, imported):
            parts = module.split(".")
            for length in range(1, len(parts) + 1):
                if (name := ".".join(parts[:length])) not in made.modules:
                    made.add_module(name)
        made.add_import(importer=importer, imported=imported)
    return made


def wrong(contract: Any, *imports: tuple[str, str]) -> list[str]:
    check = contract.check(graph(*imports), verbose=False)
    assert check.kept is not bool(check.metadata["wrong"])
    return list(check.metadata["wrong"])


@pytest.fixture
def folders() -> PipelineFolders:
    return PipelineFolders("folders", session_options={}, contract_options=FOLDERS)


@pytest.mark.parametrize(
    "imports",
    [
        ("shop.pipelines.pets.steps", "shop.core.task"),
        ("shop.pipelines.pets.steps", "shop.pipelines.pets.parse"),
        ("shop.pipelines.pets.api", "shop.pipelines.pets.steps"),
        ("shop.pipelines.pets.api", "shop.kit.http"),
        ("shop.pipelines.pets.api_bodies", "fastapi"),
        ("shop.pipelines.pets.api.bodies", "fastapi"),
        ("shop.pipelines.pets.api.bodies", "shop.kit.http"),
        ("shop.pipelines.pets.api", "shop.pipelines.pets.api.bodies"),
        ("shop.pipelines.pets.feature", "shop.kit.feature"),
        ("shop.pipelines.pets.demo", "shop.app"),
        ("shop.pipelines.pets.demo", "shop.pipelines.pets.api"),
    ],
)
def test_what_a_pipeline_may_import_is_kept(folders: PipelineFolders, imports: tuple[str, str]) -> None:
    assert wrong(folders, imports) == []


@pytest.mark.parametrize(
    "imports",
    [
        ("shop.pipelines.pets.steps", "shop.pipelines.pets.api"),
        ("shop.pipelines.pets.steps", "shop.pipelines.pets.api.bodies"),
        ("shop.pipelines.pets.parse.api", "fastapi"),
        ("shop.pipelines.pets.steps", "shop.kit.queries"),
        ("shop.pipelines.pets.steps", "fastapi"),
        ("shop.pipelines.pets.a_new_file", "fastapi"),
        ("shop.pipelines.pets.breeds.dogs", "shop.kit.queries"),
        ("shop.pipelines.pets.steps", "asyncpg"),
        ("shop.pipelines.pets.api", "asyncpg"),
        ("shop.pipelines.pets.api", "shop.ledger.store"),
        ("shop.pipelines.pets.steps", "shop.pipelines.toys.steps"),
        ("shop.pipelines.pets.api", "shop.pipelines.toys.api"),
        ("shop.pipelines.pets.api", "shop.pipelines.pets.demo"),
        ("shop.pipelines.pets.demo", "shop.pipelines.toys.api"),
    ],
)
def test_what_a_pipeline_must_not_import_is_found(folders: PipelineFolders, imports: tuple[str, str]) -> None:
    importer, imported = imports
    assert wrong(folders, imports) == [f"{importer} must not import {imported}."]


def test_a_room_imports_what_its_rule_names_and_every_room_needs_one() -> None:
    rules = ["shop.core ->", "shop.kit -> shop.core", "shop.app -> *"]
    rooms = Rooms("rooms", session_options={}, contract_options={"root": "shop", "rules": rules})

    assert wrong(rooms, ("shop.kit.http", "shop.core.task"), ("shop.app", "shop.kit.http"), ("shop.core", "json")) == []
    assert wrong(rooms, ("shop.core.task", "shop.kit")) == ["shop.core.task must not import shop.kit."]
    assert wrong(rooms, ("shop.kit", "shop.app")) == ["shop.kit must not import shop.app."]
    assert wrong(rooms, ("shop.cellar", "shop.core")) == ["shop.cellar has no rule: name it, and what it may import."]


def test_a_rule_for_modules_of_any_folder_replaces_the_rule_of_their_room() -> None:
    rules = ["shop.core ->", "shop.pipelines -> shop.core", "shop.pipelines.*.demo -> *", "shop.app -> *"]
    rooms = Rooms("rooms", session_options={}, contract_options={"root": "shop", "rules": rules})

    assert wrong(rooms, ("shop.pipelines.pets.demo", "shop.app")) == []
    assert wrong(rooms, ("shop.pipelines.pets.steps", "shop.app")) == [
        "shop.pipelines.pets.steps must not import shop.app."
    ]
