"""The files that publish a release: the version, the checks before it, the workflows, and the systemd unit."""

import shutil
import subprocess
import tomllib
import zipfile
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
import yaml

from forager import __version__
from scripts import release_check

ROOT = Path(__file__).parents[2]
WORKFLOWS = {path.name: yaml.safe_load(path.read_text()) for path in (ROOT / ".github" / "workflows").glob("*.yml")}
RELEASED = "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2026-03-14\n\n## [1.1.0]\n"


def steps(workflow: str, job: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = WORKFLOWS[workflow]["jobs"][job]["steps"]
    return found


def test_the_version_comes_from_the_tag_and_stands_nowhere_in_the_code() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["source"] == "vcs"
    assert __version__ not in (ROOT / "src" / "forager" / "__init__.py").read_text()
    assert __version__ not in (ROOT / "docs" / "settings.md").read_text()


@pytest.mark.parametrize(
    ("version", "tag", "expected"),
    [
        ("1.2.0", "v1.2.0", []),
        ("1.2.1.dev4", None, []),
        ("1.2.0", "v1.3.0", ["the wheel's version is 1.2.0, and the tag is v1.3.0", "no section [1.3.0]"]),
        ("1.1.0", "v1.1.0", ["has no date"]),
    ],
)
def test_a_version_must_be_that_of_the_tag_and_be_in_the_changelog_with_a_date(
    version: str, tag: str | None, expected: list[str]
) -> None:
    found = list(release_check.check_version(version, tag, RELEASED))
    assert len(found) == len(expected), found
    assert all(part in problem for part, problem in zip(expected, found, strict=True))


def test_a_wheel_without_its_data_or_with_foreign_files_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "forager_data-1.2.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("forager/__init__.py", "")
        packed.writestr("tests/conftest.py", "")
        packed.writestr("forager_data-1.2.0.dist-info/METADATA", "Name: forager-data\nVersion: 1.2.0\n")
        packed.writestr("forager_data-1.2.0.dist-info/entry_points.txt", "")
    found = list(release_check.check_wheel(wheel))
    assert "the wheel lacks forager/py.typed" in found
    assert "the wheel has a foreign package tests" in found
    assert "the wheel has no command `forager`" in found
    assert "the wheel lacks LICENSE" in found
    assert "the metadata lack Summary" in found


def test_metadata_that_an_index_refuses_are_named() -> None:
    metadata = Message()
    metadata["Requires-Dist"] = "thing @ https://example.com/thing.whl"
    assert "an index refuses requirements by address: thing@ https://example.com/thing.whl" in [
        each.replace("thing @ ", "thing@ ") for each in release_check.check_metadata(metadata)
    ]


def test_every_dependency_has_a_licence_that_permits_distribution() -> None:
    lines, problems = release_check.licences("forager-data")
    assert problems == []
    assert len(lines) > 40
    assert any(line.startswith("aiohttp ") for line in lines)
    assert not release_check.PERMITTED.search("GPL-3.0-only")
    assert not release_check.PERMITTED.search("Proprietary")


def test_ci_runs_what_a_reader_runs() -> None:
    assert {"ci.yml", "release.yml"} <= set(WORKFLOWS)
    assert ".ci/run" in [step.get("run") for step in steps("ci.yml", "test")]
    assert ".ci/run" in [step.get("run") for step in steps("release.yml", "build")]
    assert "make release-check" in [step.get("run") for step in steps("release.yml", "build")]
    targets = (ROOT / "Makefile").read_text()
    for job in (job for workflow in WORKFLOWS.values() for job in workflow["jobs"].values()):
        for step in job["steps"]:
            if step.get("run", "").startswith("make "):
                assert f"\n{step['run'].split()[1]}:" in targets


def test_a_release_is_published_by_a_tag_alone_and_without_a_stored_token() -> None:
    release = WORKFLOWS["release.yml"]
    assert release[True] == {"push": {"tags": ["v[0-9]+.[0-9]+.[0-9]+*"]}}  # YAML reads `on` as true
    publish = release["jobs"]["pypi"]
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["environment"] == "pypi"
    assert publish["needs"] == "build"
    assert "secrets" not in str(publish)
    assert any("gh-action-pypi-publish" in step.get("uses", "") for step in publish["steps"])
    image = str(release["jobs"]["image"]["steps"])
    assert "docker build --build-arg" in image
    assert "docker push" in image


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_reads_only_and_every_job_has_a_time_limit(name: str) -> None:
    assert WORKFLOWS[name]["permissions"] == {"contents": "read"}
    for job in WORKFLOWS[name]["jobs"].values():
        assert job["timeout-minutes"] <= 90
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout"):
                assert step["with"]["persist-credentials"] is False


def test_the_versions_that_need_tags_get_them() -> None:
    for workflow, job in (("ci.yml", "test"), ("release.yml", "build")):
        checkout = next(step for step in steps(workflow, job) if "checkout" in step.get("uses", ""))
        assert checkout["with"]["fetch-depth"] == 0


def test_the_systemd_unit_is_valid_and_waits_longer_than_a_graceful_stop(tmp_path: Path) -> None:
    text = (ROOT / "ops" / "systemd" / "forager.service").read_text()
    lines = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    assert lines["ExecStart"].endswith("/forager up")
    assert int(lines["TimeoutStopSec"]) > 30  # FORAGER_SHUTDOWN_SECONDS
    assert lines["User"] == "forager"
    assert lines["Restart"] == "on-failure"
    verifier = shutil.which("systemd-analyze")
    if verifier is None:
        pytest.skip("systemd-analyze is not installed")
    program = tmp_path / "forager"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "forager.service"
    unit.write_text(text.replace("/opt/forager/bin/forager", str(program)))
    checked = subprocess.run([verifier, "verify", str(unit)], capture_output=True, text=True, check=False)
    assert checked.stdout + checked.stderr == ""
