"""The image, the compose file, the alerts and the dashboards fit together and fit the code."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from forager.app.config import declared_settings, load_settings, new_settings
from forager.app.wiring import build_pipelines
from forager.ledger.catalog import DEFAULT_QUEUE
from tests.support.cli import Forager

FETCHED = Path(__file__).parents[2] / ".venv" / "ops"
"""Folder in which `scripts/setup ops` unpacks promtool and Docker Compose."""
BESIDE_PYTHON = Path(sys.executable).parent
"""Path of the program in the package of hadolint."""


def require_tool(name: str) -> str:
    """Return the path of a program. Skip the test where it is missing; fail it in CI, where nothing may be left out
    unless the program does not exist for the machine."""
    found = shutil.which(name, path=os.pathsep.join([str(BESIDE_PYTHON), str(FETCHED), os.environ["PATH"]]))
    if found is not None:
        return found
    reason = f"{name} is missing. Run `scripts/setup dev` and `scripts/setup ops`."
    if os.environ.get("CI") and (sys.platform, platform.machine()) == ("linux", "x86_64"):
        pytest.fail(reason)
    pytest.skip(reason)


ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if service["image"] == "forager"]
DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
PROMETHEUS = yaml.safe_load((ROOT / "ops" / "prometheus.yml").read_text())
ALERTS = [
    rule for group in yaml.safe_load((ROOT / "ops" / "alerts.yml").read_text())["groups"] for rule in group["rules"]
]
DASHBOARDS = sorted((ROOT / "ops" / "grafana").glob("*.json"))


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_pinned_restarted_and_checked__PR_22(name: str) -> None:
    service = SERVICES[name]
    assert service["restart"] == "unless-stopped"
    if name in OURS:
        assert service["build"] == "."
    else:
        assert re.search(r":[^:]*\d", service["image"]), "an image without a version changes by itself"
    if name != "flows":  # it serves no port
        assert {"test", "interval", "timeout", "retries"} <= service["healthcheck"].keys()


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_depends_only_on_what_starts_with_it_and_can_be_waited_for(name: str) -> None:
    for other, how in SERVICES[name].get("depends_on", {}).items():
        assert how["condition"] == "service_healthy"
        assert "healthcheck" in SERVICES[other]
        assert set(SERVICES[other].get("profiles", [])) <= set(SERVICES[name].get("profiles", []))


def test_every_volume_is_declared_and_used_and_every_mounted_file_exists() -> None:
    sources = [mount.split(":")[0] for service in SERVICES.values() for mount in service.get("volumes", [])]
    assert {source for source in sources if not source.startswith(".")} == COMPOSE["volumes"].keys()
    assert all((ROOT / source).exists() for source in sources if source.startswith("."))


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_uses_at_most_2_cpus_and_4_gb(name: str) -> None:
    assert SERVICES[name]["deploy"]["resources"] == {"limits": {"cpus": "2", "memory": "4G"}}


@pytest.mark.parametrize("name", OURS)
def test_every_process_of_ours_gets_the_keys_of_upstreams_from_one_file(name: str) -> None:
    assert SERVICES[name]["env_file"] == [{"path": ".env", "required": False}]


def test_the_key_of_an_upstream_in_the_env_file_reaches_every_process_and_not_the_others(tmp_path: Path) -> None:
    (tmp_path / "docker-compose.yml").write_text((ROOT / "docker-compose.yml").read_text())
    (tmp_path / ".env").write_text("SERPER_API_KEY=serper-key\nAPIFY_TOKEN=apify-token\nFORAGER_HOME=.forager\n")
    command = [require_tool("docker-compose"), "--profile", "*", "config", "--format", "json"]
    environment = {"FORAGER_SERVICE_KEY": "k" * 32, "PATH": os.environ["PATH"]}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    for name, service in json.loads(ran.stdout)["services"].items():
        given = service.get("environment", {})
        shown = [given.get(key) for key in ("SERPER_API_KEY", "APIFY_TOKEN", "FORAGER_HOME")]
        assert shown == (["serper-key", "apify-token", "/data"] if name in OURS else [None] * 3), name
        limits = service["deploy"]["resources"]["limits"]
        assert (float(limits["cpus"]), int(limits["memory"])) == (2.0, 4 << 30), name


def test_an_index_and_an_s3_server_start_with_their_profiles() -> None:
    assert {name: SERVICES[name]["profiles"] for name in ("opensearch", "s3")} == {
        "opensearch": ["opensearch"],
        "s3": ["s3"],
    }
    (source,) = SERVICES["s3"]["configs"]
    plain = re.sub(r"\$\{\w+:-(.*?)\}", r"\1", COMPOSE["configs"][source["source"]]["content"])
    (who,) = json.loads(plain)["identities"]
    assert {"Read", "Write", "List"} <= {*who["actions"]}
    assert f"-s3.config={source['target']}" in SERVICES["s3"]["command"]


def test_celery_workers_serve_every_queue() -> None:
    command = SERVICES["celery"]["command"]
    served = command[command.index("-Q") + 1].split(",")
    pipelines = build_pipelines(new_settings())
    assert sorted(served) == sorted(
        {DEFAULT_QUEUE, *(lane.queue for each in pipelines for lane in each.lanes if lane.queue)}
    )


@pytest.mark.parametrize("name", [name for name in OURS if "entrypoint" not in SERVICES[name]])
def test_a_command_of_the_compose_file_is_one_of_ours(name: str, forager: Forager) -> None:
    shown = forager(*SERVICES[name]["command"], "--help")
    assert shown.code == 0, shown.all


def test_every_setting_of_the_compose_file_exists() -> None:
    known = {name for each in declared_settings() for name in (each.name.variable, each.name.seed) if name}
    given = {key for name in OURS for key in SERVICES[name]["environment"]}
    assert {key for key in given if key.startswith(("FORAGER_", "SERPER_"))} <= known
    assert given - known == {"DO_NOT_TRACK"}


def test_the_settings_of_the_compose_file_are_valid_without_the_optional_ones() -> None:
    given = SERVICES["worker"]["environment"]
    environment = {key: re.sub(r"\$\{\w+:-(.*?)\}", r"\1", value) for key, value in given.items()}
    settings = load_settings(env={**environment, "FORAGER_SERVICE_KEY": "q7Zr2-Wm9xL4vTn8KcB5hYs3DgJ6fPa1"})
    assert settings.database_url == "postgresql://forager:forager@postgres:5432/forager"
    assert not settings.secret_key


def test_our_ports_are_reachable_from_this_machine_only() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_our_containers_gain_no_privileges_and_those_with_browsers_allow_their_sandbox() -> None:
    for name in OURS:
        profile = ["seccomp=./ops/seccomp-browser.json"] if "shm_size" in SERVICES[name] else []
        assert SERVICES[name]["security_opt"] == ["no-new-privileges:true", *profile]


def test_prometheus_scrapes_every_process_on_its_port__PR_22() -> None:
    jobs = {job["job_name"]: job for job in PROMETHEUS["scrape_configs"]}
    assert jobs["forager-api"]["static_configs"] == [{"targets": [f"api:{_option('api', '--port')}"]}]
    for service, option in (("worker", "--metrics-port"), ("kafka-worker", "--metrics-port"), ("shifts", "--port")):
        (found,) = jobs[f"forager-{service}"]["dns_sd_configs"]
        assert (found["names"], found["port"]) == ([service], int(_option(service, option)))
    mounted = {mount.split(":")[1] for mount in SERVICES["prometheus"]["volumes"]}
    assert {f"/etc/prometheus/{name}" for name in ("prometheus.yml", *PROMETHEUS["rule_files"])} <= mounted


def test_the_image_has_a_chromium_and_runs_without_privileges() -> None:
    build, run = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[1:]
    assert "chromium-headless-shell" in run
    assert re.findall(r"^USER (\S+)", run, re.MULTILINE) == ["10001:10001"]
    assert "useradd --uid 10001" in run
    assert "pip install" not in run, "the second stage only copies"
    extras = re.search(r"'\.\[([a-z0-9,]+)\]'", build)
    assert extras is not None
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(extras[1].split(",")) == project["optional-dependencies"].keys()


def test_what_the_image_copies_is_sent_to_the_builder() -> None:
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        source
        for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)
        for source in line.split()[:-1]
    }
    assert copied == sent
    assert all((ROOT / source).exists() for source in copied)


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_describes_the_problem_and_the_remedy(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("page", "warn")
    assert rule["annotations"].keys() == {"summary", "action"}
    promql_parser.parse(rule["expr"])
    for command in re.findall(r"`forager ([a-z]+ [a-z]+)", rule["annotations"]["action"]):
        assert f"## `forager {command}" in (ROOT / "docs" / "cli.md").read_text()


def test_every_alert_is_seen_to_fire__PR_22() -> None:
    tests = yaml.safe_load((ROOT / "ops" / "alerts_test.yml").read_text())["tests"]
    expected = {case["alertname"] for test in tests for case in test["alert_rule_test"] if case.get("exp_alerts")}
    assert expected == {rule["alert"] for rule in ALERTS}


@pytest.mark.parametrize(
    "metric",
    [
        "forager_product_quarantines_open",
        "forager_recheck_late_seconds",
        "forager_market_late_seconds",
        "forager_markets_stopped",
        "forager_listings_stale_seconds",
    ],
)
def test_parsers_markets_and_freshness_have_an_alert_and_a_panel__PR_24(metric: str) -> None:
    assert any(metric in rule["expr"] for rule in ALERTS)
    panels = [panel for path in DASHBOARDS for panel in json.loads(path.read_text())["panels"]]
    assert any(metric in target["expr"] for panel in panels for target in panel.get("targets", ()))


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.name)
def test_a_dashboard_has_panels_of_its_own_that_do_not_overlap__PR_22(path: Path) -> None:
    board = json.loads(path.read_text())
    assert board["uid"]
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [place for panel in panels for place in _places(panel["gridPos"])]
    assert len(set(places)) == len(places)
    shown = [panel for panel in panels if panel["type"] != "row"]
    assert all(panel["description"] and panel["targets"] for panel in shown)
    for target in (target for panel in shown for target in panel["targets"]):
        promql_parser.parse(target["expr"].replace("$__rate_interval", "5m"))


def test_every_promise_about_a_failure_has_tests_that_exist() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    promises = (ROOT / "docs" / "operations.md").read_text().partition("## What happens when something dies")[2]
    page = (ROOT / "docs" / "contributing" / "failure-tests.md").read_text()
    row = re.compile(r"^\| (?!what dies)([^|]+) \| ([^|]+) \|$", re.MULTILINE)
    assert [what for what, _ in row.findall(promises)] == [what for what, _ in row.findall(page)]
    named = re.findall(r"`(test_\w+)`", page)
    assert len(named) >= 15
    assert [name for name in named if f"def {name}(" not in tests] == []


@pytest.mark.parametrize(
    "command",
    [
        "docker-compose --file docker-compose.yml config --quiet",
        "docker-compose --file docker-compose.yml --profile * config --quiet",
        "hadolint --ignore DL3008 Dockerfile",  # Debian keeps only the newest version of a package
        "promtool check config ops/prometheus.yml",
        "promtool check rules --lint=all --lint-fatal ops/alerts.yml",
        "promtool test rules ops/alerts_test.yml",
    ],
)
def test_the_programs_that_read_the_files_accept_them__PR_22(command: str) -> None:
    program, *arguments = command.split()
    environment = {"FORAGER_SERVICE_KEY": "k" * 32, "PATH": os.environ["PATH"]}
    ran = subprocess.run(
        [require_tool(program), *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_compose_file_is_refused_without_a_service_key() -> None:
    command = [require_tool("docker-compose"), "--file", "docker-compose.yml", "config", "--quiet"]
    ran = subprocess.run(
        command, cwd=ROOT, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False
    )
    assert ran.returncode != 0
    assert "FORAGER_SERVICE_KEY" in ran.stderr


def _option(service: str, option: str) -> str:
    command = SERVICES[service]["command"]
    value: str = command[command.index(option) + 1]
    return value


def _places(grid: dict[str, int]) -> Iterator[tuple[int, int]]:
    for x in range(grid["x"], grid["x"] + grid["w"]):
        for y in range(grid["y"], grid["y"] + grid["h"]):
            yield x, y
