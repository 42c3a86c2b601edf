"""Runs, datasets and lists as the API shows them. Pure."""

from datetime import UTC, datetime
from typing import Any

from forager.sandbox.apify.config import ApifyConfig
from forager.sandbox.apify.inputs import ACTORS
from forager.sandbox.apify.runs import TERMINAL, Run, State
from forager.sandbox.draw import draw

Row = dict[str, Any]
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def make_id(seed: int, *parts: object) -> str:
    """Seventeen letters and digits, as Apify's ids are."""
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in draw(seed, "id", *parts, size=17))


def time_text(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def run_summary(run: Run, state: State, config: ApifyConfig, *, with_usage: bool) -> Row:
    """A run as a list shows it."""
    row: Row = {
        "id": run.id,
        "actId": ACTORS[run.actor],
        "actorTaskId": None,
        "status": state.status,
        "startedAt": time_text(run.started),
        "finishedAt": None if state.finished is None else time_text(state.finished),
        "buildId": make_id(config.seed, "build", run.actor),
        "buildNumber": "0.1.42",
        "meta": {"origin": "API", "userAgent": run.user_agent},
        "defaultKeyValueStoreId": make_id(config.seed, "store", run.id),
        "defaultDatasetId": make_id(config.seed, "dataset", run.id),
        "defaultRequestQueueId": make_id(config.seed, "queue", run.id),
    }
    if with_usage:
        row["usageTotalUsd"] = round(state.cost, 6)
    return row


def run_whole(run: Run, state: State, moment: float, config: ApifyConfig, *, with_usage: bool) -> Row:
    """A run as its own endpoint shows it. Without a token, what it costs is hidden."""
    lasted = (state.finished or moment) - run.started
    options: Row = {
        "build": "latest",
        "timeoutSecs": round(run.timeout),
        "memoryMbytes": run.memory,
        "diskMbytes": run.memory * 2,
    }
    if run.max_items is not None:
        options["maxItems"] = run.max_items
    if run.max_charge is not None:
        options["maxTotalChargeUsd"] = run.max_charge
    row = run_summary(run, state, config, with_usage=with_usage)
    row |= {
        "userId": make_id(config.seed, "user", run.tenant),
        "statusMessage": _message(run, state),
        "isStatusMessageTerminal": state.status in TERMINAL,
        "exitCode": {"SUCCEEDED": 0, "FAILED": 1}.get(state.status),
        "stats": {
            "inputBodyLen": len(run.input_body),
            "migrationCount": 0,
            "rebootCount": 0,
            "restartCount": 0,
            "resurrectCount": 0,
            "durationMillis": round(lasted * 1000),
            "runTimeSecs": round(lasted, 3),
            "computeUnits": round(lasted * run.memory / 1024 / 3600, 6),
        },
        "options": options,
        "usage": {"ACTOR_COMPUTE_UNITS": 0.01, "DATASET_WRITES": state.items} if with_usage else None,
        "generalAccess": "FOLLOW_USER_SETTING",
        "platformUsageBillingModel": "DEVELOPER",
        "chargedEventCounts": {"apify-actor-start": 1, "apify-default-dataset-item": state.items},
        "containerUrl": f"https://{run.id.lower()}.runs.apify.net",
    }
    return row


def dataset_whole(run: Run, lagging: State, moment: float, config: ApifyConfig) -> Row:
    """The dataset of a run; its counts lag some seconds behind."""
    return {
        "id": make_id(config.seed, "dataset", run.id),
        "name": None,
        "userId": make_id(config.seed, "user", run.tenant),
        "createdAt": time_text(run.started),
        "modifiedAt": time_text(lagging.finished or moment),
        "accessedAt": time_text(moment),
        "itemCount": lagging.items,
        "cleanItemCount": lagging.items,
        "actId": ACTORS[run.actor],
        "actRunId": run.id,
        "fields": [],
    }


def _message(run: Run, state: State) -> str | None:
    if state.status == "READY":
        return None
    if state.status == "SUCCEEDED":
        return f"Finished! Total {state.items} results"
    if state.status == "FAILED":
        return "The Actor process failed: too many blocked requests"
    return f"Fetched {state.items} of {run.found} listings"
