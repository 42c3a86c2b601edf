"""If Apify's address is set to an internal one, the egress guard refuses it, and the token never gets there."""

from pathlib import Path

from tests.support.listings import open_rentals
from tests.support.origin import Origin, reply


async def test_an_address_inside_is_refused_unless_egress_allow_names_it__S2(tmp_path: Path) -> None:
    async with Origin(lambda _: reply(body=b"internal")) as canary:
        inside = {"apify_base_url": f"http://127.0.0.1:{canary.port}"}
        async with open_rentals(tmp_path / "home", settings=inside) as rentals:
            job = await rentals.scrape("nyc")
            (task,) = await rentals.get(f"/jobs/{job['id']}/tasks", state="failed")
            assert task["reason"] == "egress_refused"
        assert canary.connections == 0
