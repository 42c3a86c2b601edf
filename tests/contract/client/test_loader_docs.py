"""The loaders of docs/loaders.md, run as they stand there with the real packages. Skipped where these are missing:
`scripts/setup loaders` gets them, into an environment of their own."""

import asyncio
import re
import subprocess
from pathlib import Path

import pytest

from forager.sandbox.site import SandboxSite
from tests.support.docs_code import DOCS, code_on
from tests.support.scrape import QUICK

PYTHON = Path(__file__).parents[3] / ".venv" / "loaders" / "bin" / "python"
LANGCHAIN = """
documents = ForagerLoader(urls=URLS, home=HOME).load()
text = [document.page_content for document in documents]
found = [document.metadata["source"] for document in documents]
stored = [(each.metadata["source"], each.page_content) for each in ForagerLoader(site=SITE, home=HOME).lazy_load()]
"""
LLAMAINDEX = """
documents = ForagerReader(home=HOME).load_data(urls=URLS)
text = [document.text for document in documents]
found = [document.id_ for document in documents]
stored = [(each.metadata["source"], each.text) for each in ForagerReader(home=HOME).load_data(site=SITE)]
"""
CHECK = """
assert found == URLS[:1], found  # the second page does not exist
assert "Senior" in text[0] or "#" in text[0] or len(text[0]) > 100, text
assert len(stored) >= 2, stored
assert all(content and source.startswith("http") for source, content in stored)
print("ok")
"""


@pytest.mark.parametrize("word", ["ForagerLoader", "ForagerReader"])
def test_a_loader_has_at_most_thirty_lines(word: str) -> None:
    code = code_on("loaders.md", f"class {word}")
    assert len([line for line in code.splitlines() if line.strip()]) <= 30
    compile(code, "docs/loaders.md", "exec")


@pytest.mark.parametrize(
    ("word", "package", "use"),
    [("ForagerLoader", "langchain_core", LANGCHAIN), ("ForagerReader", "llama_index.core", LLAMAINDEX)],
)
async def test_a_loader_gives_pages_that_are_read_now_and_stored_ones(
    word: str, package: str, use: str, tmp_path: Path
) -> None:
    if not PYTHON.exists() or subprocess.run([PYTHON, "-c", f"import {package}"], check=False).returncode:
        pytest.skip(f"{package} is not installed; run: scripts/setup loaders")
    (tmp_path / "policies.yaml").write_text(QUICK)
    async with SandboxSite() as site:
        names = {
            "HOME": str(tmp_path / "home"),
            "URLS": [site.url("/jobs/jsonld/1"), site.url("/nowhere")],
            "SITE": site.endpoint,
        }
        crawl = (
            "from forager.client import Forager\n"
            "with Forager(home=HOME) as forager:\n"
            f"    job = forager.jobs.create('sites', {{'url': {site.url('/jobs/jsonld/1')!r}, 'limit': 3}})\n"
            f"    forager.jobs.create('sites', {{'url': {site.url('/companies/pages/1')!r}, 'limit': 2}})\n"
            "    forager.jobs.wait(job['id'], timeout=120)\n"
        )
        program = tmp_path / "program.py"
        head = "".join(f"{name} = {value!r}\n" for name, value in names.items())
        program.write_text(head + crawl + code_on("loaders.md", f"class {word}") + use + CHECK)
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
            "FORAGER_EGRESS_ALLOW": site.endpoint,
            "FORAGER_DOMAIN_POLICIES_PATH": str(tmp_path / "policies.yaml"),
        }
        process = await asyncio.create_subprocess_exec(
            PYTHON, program, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        said, _ = await process.communicate()
    assert said.decode().strip().endswith("ok"), said.decode()


def test_the_page_names_what_to_install() -> None:
    page = (DOCS / "loaders.md").read_text("utf-8")
    assert re.search(r"Needs `langchain-core`", page)
    assert re.search(r"Needs `llama-index-core`", page)
