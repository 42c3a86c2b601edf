"""One crawl of a linked site through the whole of Forager in a process of its own: `python -m bench.support.site_run
REQUEST`. The request is a JSON object; the answer is one JSON line."""

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvloop

from bench.support.crawl_run import IN_FLIGHT
from bench.support.engine_run import _cpu, peak_mb
from forager.app.compose import open_app
from forager.app.config import load_settings
from forager.logging import configure_logs


async def run(base: str, limit: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="forager-site-") as folder:
        home = Path(folder)
        address = urlsplit(base).netloc
        rules = home / "policies.yaml"
        rules.write_text(
            f'domains:\n  "{address}":\n    tokens_per_interval: 100000\n    interval_seconds: 1\n'
            f"    max_concurrent_requests: {IN_FLIGHT}\n"
        )
        overrides = {"home": home, "log_level": "ERROR", "egress_allow": [address], "domain_policies_path": rules}
        loaded = load_settings(overrides, env={}, cwd=home)
        configure_logs(loaded.log_level, loaded.log_format, loaded.secrets())
        async with open_app(loaded) as app:
            started, used = time.perf_counter(), _cpu()
            made = await app.submit("sites", {"url": base, "limit": limit, "form": "html", "sitemap": False})
            async with app.engine(schedules=False):
                while (await app.reports.job(made.job)).finished_at is None:
                    await asyncio.sleep(0.05)
                seconds, used = time.perf_counter() - started, _cpu() - used
            (row,) = await app.database.fetch("SELECT pages, duplicates, trapped FROM site_crawls")
    return {"seconds": seconds, "cpu": used, "peak_mb": peak_mb(), **row}


if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    print(json.dumps(uvloop.run(run(request["base"], request["limit"]))), flush=True)
