"""Every part of the API is declared stable or experimental."""

import re
from pathlib import Path

from tests.support.api import Front

PAGE = Path(__file__).parents[3] / "docs" / "stability.md"


def tags_of(section: str) -> set[str]:
    """Return the tags that a section of the page lists."""
    part = PAGE.read_text(encoding="utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
    lists = re.findall(r"(?:Tags: |under the tags )([a-z ,\n]+?) *[.|]", part)
    return {" ".join(name.split()) for found in lists for name in found.split(",") if name.strip()}


async def test_every_tag_of_the_api_is_stable_or_experimental_and_not_both(simple: Front) -> None:
    document = (await simple.client.get("/openapi.json")).json()
    used = {tag for path in document["paths"].values() for about in path.values() for tag in about.get("tags", ())}
    stable, experimental = tags_of("Stable"), tags_of("Experimental")
    assert stable & experimental == set()
    assert stable | experimental == used
