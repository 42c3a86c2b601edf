"""The manifests of ops/kubernetes: valid by Kubernetes' own schemas, closed by default, and fit for the code."""

import copy
import itertools
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from forager.app.config import declared_settings, new_settings
from forager.app.wiring import build_pipelines
from forager.ledger.catalog import DEFAULT_QUEUE
from tests.support.cli import Forager

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "ops" / "kubernetes"
SCHEMAS = ROOT / ".venv/ops/python/kubernetes_validate/kubernetes-json-schema/v1.37.0-local-strict"
"""The folder to which `scripts/setup ops` downloads the schemas. The strict ones refuse unknown fields, as `kubectl
apply` does."""
KUSTOMIZATION = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
OBJECTS: list[dict[str, Any]] = [
    each for name in KUSTOMIZATION["resources"] for each in yaml.safe_load_all((FOLDER / name).read_text())
]
PODS = [each for each in OBJECTS if each["kind"] in ("Deployment", "Job")]


def _name(given: dict[str, Any]) -> str:
    return f"{given['kind']}/{given['metadata']['name']}"


@cache
def _registry() -> "Registry[Any]":
    definitions = DRAFT202012.create_resource(json.loads((SCHEMAS / "_definitions.json").read_text()))
    registry: Registry[Any] = Registry().with_resource("/api/_definitions.json", definitions)
    return registry


def _errors(manifest: dict[str, Any]) -> list[str]:
    if not SCHEMAS.exists():
        reason = "The schemas of Kubernetes are missing. Run `scripts/setup ops`."
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    group, _, version = manifest["apiVersion"].rpartition("/")
    parts = [manifest["kind"], *([group.split(".")[0]] if group else []), version]
    schema = json.loads((SCHEMAS / f"{'-'.join(parts).lower()}.json").read_text())
    validator = jsonschema.Draft202012Validator(schema, registry=_registry())
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(manifest)]


@pytest.mark.parametrize("manifest", OBJECTS, ids=_name)
def test_a_manifest_is_valid(manifest: dict[str, Any]) -> None:
    assert _errors(manifest) == []


def test_a_manifest_with_a_misspelt_field_is_refused() -> None:
    broken = copy.deepcopy(PODS[-1])
    broken["spec"]["replica"] = 3
    assert any("replica" in error for error in _errors(broken))


def test_every_file_of_the_folder_is_applied() -> None:
    assert sorted(KUSTOMIZATION["resources"]) == sorted(
        file.name for file in FOLDER.glob("*.yaml") if file.name != "kustomization.yaml"
    )


def test_workers_together_serve_every_queue() -> None:
    served = []
    for each in PODS:
        arguments = each["spec"]["template"]["spec"]["containers"][0]["args"]
        served += [after for option, after in itertools.pairwise(arguments) if option == "--queue"]
    declared = {lane.queue for each in build_pipelines(new_settings()) for lane in each.lanes if lane.queue}
    assert sorted(served) == sorted({DEFAULT_QUEUE, *declared})


@pytest.mark.parametrize("manifest", PODS, ids=_name)
def test_a_pod_has_no_privileges_and_limits(manifest: dict[str, Any]) -> None:
    pod = manifest["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] == 10001, "the user of the image"
    assert pod["securityContext"]["seccompProfile"]["type"] in ("RuntimeDefault", "Localhost")
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"].keys() == {"requests", "limits"}
    assert container["image"] == KUSTOMIZATION["images"][0]["name"]


@pytest.mark.parametrize("manifest", PODS, ids=_name)
def test_every_path_that_a_pod_writes_is_a_volume(manifest: dict[str, Any]) -> None:
    pod = manifest["spec"]["template"]["spec"]
    mounted = {mount["mountPath"]: mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
    assert {"/data", "/tmp"} <= mounted.keys()
    assert set(mounted.values()) == {volume["name"] for volume in pod["volumes"]}


@pytest.mark.parametrize("manifest", [each for each in PODS if each["kind"] == "Deployment"], ids=_name)
def test_a_pod_that_serves_is_probed_and_ends_after_its_tasks(manifest: dict[str, Any]) -> None:
    pod = manifest["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert {"startupProbe", "livenessProbe"} <= container.keys()
    assert "httpGet" not in container["livenessProbe"], "the database's outage must not restart every pod"
    settings = next(each for each in OBJECTS if each["kind"] == "ConfigMap")["data"]
    assert pod["terminationGracePeriodSeconds"] > float(settings["FORAGER_SHUTDOWN_SECONDS"])


@pytest.mark.parametrize("manifest", PODS, ids=_name)
def test_a_command_of_a_pod_is_one_of_ours(manifest: dict[str, Any], forager: Forager) -> None:
    shown = forager(*manifest["spec"]["template"]["spec"]["containers"][0]["args"], "--help")
    assert shown.code == 0, shown.all


def test_every_setting_exists_and_none_is_a_secret() -> None:
    known = {each.name.variable for each in declared_settings()}
    given = next(each for each in OBJECTS if each["kind"] == "ConfigMap")["data"]
    assert given.keys() <= known
    assert not [name for name in given if name.endswith(("KEY", "TOKEN", "PASSWORD", "DATABASE_URL"))]


def test_pods_are_closed_to_and_from_everything_that_is_not_opened() -> None:
    policies = {each["metadata"]["name"]: each["spec"] for each in OBJECTS if each["kind"] == "NetworkPolicy"}
    assert policies["forager-closed"]["policyTypes"] == ["Ingress", "Egress"]
    assert not {"ingress", "egress"} & policies["forager-closed"].keys()
    blocks = [
        rule["ipBlock"] for peer in policies["forager-egress"]["egress"] for rule in peer["to"] if "ipBlock" in rule
    ]
    closed = {network for block in blocks for network in block["except"]}
    assert {"10.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"} <= closed


def test_a_region_runs_workers_alone_and_names_itself() -> None:
    overlay = yaml.safe_load((FOLDER / "region" / "kustomization.yaml").read_text())
    assert overlay["resources"] == [".."]
    kept = {_name(each): copy.deepcopy(each) for each in OBJECTS}
    for each in overlay["patches"]:
        name, change = f"{each['target']['kind']}/{each['target']['name']}", yaml.safe_load(each["patch"])
        if isinstance(change, dict):
            assert change["$patch"] == "delete"
            assert change["apiVersion"] == kept[name]["apiVersion"]
            del kept[name]
            continue
        for step in change:
            *path, last = step["path"].strip("/").split("/")
            assert path == ["data"]
            kept[name]["data"][last] = step["value"]
        assert _errors(kept[name]) == []
    pods = {name for name, each in kept.items() if each["kind"] in ("Deployment", "Job")}
    assert pods == {_name(each) for each in PODS if "worker" in each["metadata"]["name"]}
    settings = kept["ConfigMap/forager-settings"]["data"]
    assert settings["FORAGER_REGION"] == "eu"
    assert settings.keys() <= {each.name.variable for each in declared_settings()}
    assert not [name for name in kept if "api" in name]
