"""The environment of the peers: pinned, apart from ours, made once and kept beside the project."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".bench-venv"
PINNED = (
    "pgqueuer==1.6.0",
    "procrastinate==3.10.0",
    "asyncpg==0.31.0",
    "psycopg[binary]==3.3.8",
    "psycopg-pool==3.3.3",
    "uvloop==0.23.0",
)


def prepare() -> None:
    """Install the peers unless exactly these versions are there already."""
    mark = VENV / "installed.json"
    if mark.exists() and json.loads(mark.read_text()) == list(PINNED):
        return
    print(f"installing {', '.join(PINNED[:2])} into {VENV.name} …", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)
    uv = Path(sys.executable).parent / "uv"
    quick = uv.exists() and _ran([str(uv), "pip", "install", "--quiet", "--python", str(VENV / "bin/python"), *PINNED])
    if not quick:  # uv does not read pip's configuration, so pip may reach what uv cannot
        pip = [str(VENV / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *PINNED], check=True)
    mark.write_text(json.dumps(PINNED))


def run(peer: str, url: str, count: int, *arguments: str) -> float:
    """Tasks per second of a peer, on an empty database of its own."""
    script = ROOT / "bench" / "peers" / f"run_{peer}.py"
    command = [str(VENV / "bin/python"), str(script), url, str(count), *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    timing = json.loads(done.stdout.splitlines()[-1])
    return count / float(timing["submit"] + timing["work"])


def _ran(command: list[str]) -> bool:
    return subprocess.run(command, check=False).returncode == 0
