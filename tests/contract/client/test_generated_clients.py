"""Generators of clients read the OpenAPI document without a warning, and what they make is valid. They are installed by
`scripts/setup clients`; where one is missing, its test is skipped."""

import asyncio
import json
import os
import shutil
from pathlib import Path

import pytest

from scripts.api_clients import ROOT, api_document

PYTHON = ROOT / ".venv" / "openapi-client" / "bin"
NODE = ROOT / ".venv" / "node" / "node_modules" / ".bin"
CONFIG = ROOT / "clients" / "openapi-python-client.yml"


async def ran(*command: "str | Path", folder: Path) -> str:
    """Run a command, and return what it printed. Fails unless it succeeds."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={**os.environ, "PATH": f"{PYTHON}:{os.environ['PATH']}", "NO_COLOR": "1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    return out.decode()


async def document(folder: Path) -> Path:
    path = folder / "openapi.json"
    path.write_text(json.dumps(await api_document()))
    return path


@pytest.mark.skipif(not (PYTHON / "openapi-python-client").exists(), reason="run: scripts/setup clients")
async def test_openapi_python_client_makes_a_client_without_a_warning(tmp_path: Path) -> None:
    path = await document(tmp_path)
    generate: list[str | Path] = [PYTHON / "openapi-python-client", "generate", "--path", path, "--config", CONFIG]

    said = await ran(*generate, "--meta", "none", "--output-path", tmp_path / "made", folder=tmp_path)

    assert "WARNING" not in said.upper(), said
    assert len(list((tmp_path / "made" / "api").rglob("*.py"))) > 100
    await ran(PYTHON / "python", "-c", "from made import AuthenticatedClient; import made.models", folder=tmp_path)


@pytest.mark.skipif(
    not (NODE / "openapi-typescript").exists() or not shutil.which("node"), reason="run: scripts/setup clients"
)
async def test_openapi_typescript_makes_types_without_a_warning(tmp_path: Path) -> None:
    path = await document(tmp_path)

    said = await ran(NODE / "openapi-typescript", path, "-o", tmp_path / "types.ts", folder=tmp_path)

    assert "warn" not in said.lower(), said
    assert '"/api/v1/places/jobs"' in (tmp_path / "types.ts").read_text()
    await ran(NODE / "tsc", "--noEmit", "--strict", "--target", "es2022", tmp_path / "types.ts", folder=tmp_path)
