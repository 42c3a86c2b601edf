"""The examples of docs/client.md run as they stand there."""

import asyncio
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from forager.client import Forager
from forager.sandbox.site import SandboxSite
from tests.support.api import KEY, open_front
from tests.support.docs_code import DOCS
from tests.support.scrape import QUICK
from tests.support.served import served


async def test_every_example_of_the_page_runs(tmp_path: Path) -> None:
    (tmp_path / "front").mkdir()
    policies = tmp_path / "policies.yaml"
    policies.write_text(QUICK)
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "client.md").read_text("utf-8"), re.DOTALL)
    async with SandboxSite() as site:
        host = urlsplit(site.url("/")).netloc
        async with (
            open_front(tmp_path / "front", policies=policies, allow=(host,)) as front,
            served(front.api) as url,
            front.app.engine(schedules=False),
        ):
            names: dict[str, Any] = {
                "url": url,
                "key": KEY,
                "home": tmp_path / "home",
                "site": f"http://{host}",
                "cursor": tmp_path / "cursor",
            }

            def run() -> None:
                with Forager(url, KEY) as forager:
                    for block in blocks:
                        names["forager"] = forager
                        exec(compile(block, "docs/client.md", "exec"), names)

            await asyncio.to_thread(run)

    assert len(blocks) >= 9
    assert names["text"]
    assert names["job"]["state"] == "completed"
    assert names["found"] == names["table"].num_rows > 0
