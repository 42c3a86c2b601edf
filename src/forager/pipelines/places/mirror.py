"""The seed's three tables in a warehouse (PL-15): its columns in its order, then `change_id` and `details`."""

from forager.core.record import Record
from forager.pipelines.places.records import Sighting
from forager.sdk.delivery import CHANGE_ID, DETAILS, Mirror, MirrorColumn, MirrorTable, columns

_TOTALS = tuple(
    MirrorColumn(name, "INT64") for name in ("zips", "queries", "successes", "failures", "places", "credits", "skipped")
)
_JOB = columns("""
    job_id STRING
    keyword STRING
    state STRING
    pages INT64
    batch_size INT64
    dry_run BOOL
    concurrency INT64
    status STRING
    created_at TIMESTAMP
    started_at TIMESTAMP
    finished_at TIMESTAMP
""")
_QUERY = columns("""
    job_id STRING
    zip STRING
    page INT64
    q STRING
    status STRING
    claim_id STRING
    claimed_at TIMESTAMP
    api_status INT64
    results_count INT64
    credits INT64
    error STRING
    ran_at TIMESTAMP
""")
_PLACE = columns("""
    ingest_id STRING
    job_id STRING
    source STRING
    source_version STRING
    ingest_ts TIMESTAMP
    keyword STRING
    state STRING
    zip STRING
    page INT64
    place_uid STRING
    payload JSON
    api_status INT64
    api_ms INT64
    results_count INT64
    credits INT64
    error STRING
""")


def _aliases(sighting: Record) -> tuple[str, ...]:
    """A cid next to a placeId names the same place (`Place.other_keys`)."""
    payload = sighting.payload if isinstance(sighting, Sighting) else {}
    return (str(payload["cid"]),) if payload.get("placeId") and payload.get("cid") else ()


mirror = Mirror(
    jobs=MirrorTable(
        "serper_jobs",
        "places_jobs",
        (*_JOB, MirrorColumn("totals", "STRUCT", _TOTALS), CHANGE_ID, DETAILS),
        ("job_id",),
    ),
    tasks=MirrorTable("serper_queries", "places_queries", (*_QUERY, CHANGE_ID, DETAILS), ("job_id", "zip", "page")),
    records={
        Sighting.kind: MirrorTable(
            "serper_places",
            "places_sightings",
            (*_PLACE, CHANGE_ID, DETAILS),
            ("job_id", "place_uid"),
            walk="row_number",
        )
    },
    aliases=_aliases,
)
