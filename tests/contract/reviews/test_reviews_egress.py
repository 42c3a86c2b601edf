"""If one of Google's addresses is set to an internal one, the egress guard refuses it, and no token ever gets there."""

from pathlib import Path

from tests.support.origin import Origin, reply
from tests.support.reviews import open_reviews


async def test_an_address_inside_is_refused_unless_egress_allow_names_it__S2(tmp_path: Path) -> None:
    async with Origin(lambda _: reply(body=b"internal")) as canary:
        inside = f"http://127.0.0.1:{canary.port}"
        for name in ("accounts", "locations", "reviews"):
            async with open_reviews(tmp_path / name, locations=2, **{f"google_{name}_url": inside}) as opened:
                job = await opened.fetch()
                await opened.work()
                tasks = (await opened.client.get(f"/api/v1/jobs/{job}/tasks", params={"state": "failed"})).json()
                assert {task["reason"] for task in tasks["data"]} == {"egress_refused"}, name
        assert canary.connections == 0
