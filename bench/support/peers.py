"""The environments of the peers: pinned, apart from ours, made once and kept beside the project."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Peers:
    """Packages that are installed together."""

    folder: str
    pinned: tuple[str, ...]

    @property
    def python(self) -> Path:
        return ROOT / self.folder / "bin" / "python"


QUEUES = Peers(
    ".bench-venv",
    (
        "pgqueuer==1.6.0",
        "procrastinate==3.10.0",
        "awa-pg==0.6.9",
        "asyncpg==0.31.0",
        "psycopg[binary]==3.3.8",
        "psycopg-pool==3.3.3",
        "uvloop==0.23.0",
    ),
)
CRAWLERS = Peers(
    ".bench-crawlers", ("scrapy==2.19.0", "crawlee[parsel]==1.11.0", "extruct==0.18.0", "price-parser==0.5.1")
)


def prepare(peers: Peers = QUEUES) -> None:
    """Install the peers unless exactly these versions are there already."""
    venv = ROOT / peers.folder
    mark = venv / "installed.json"
    if mark.exists() and json.loads(mark.read_text()) == list(peers.pinned):
        return
    print(f"installing {', '.join(peers.pinned[:2])} into {venv.name} …", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], check=True)
    uv = Path(sys.executable).parent / "uv"
    ours = [str(uv), "pip", "install", "--quiet", "--python", str(peers.python), *peers.pinned]
    if not (uv.exists() and _ran(ours)):  # uv does not read pip's configuration, so pip may reach what uv cannot
        pip = [str(peers.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *peers.pinned], check=True)
    mark.write_text(json.dumps(peers.pinned))


def answer(peer: str, *arguments: str, peers: Peers = CRAWLERS) -> dict[str, Any]:
    """The JSON object that the script of a peer prints as its last line."""
    script = ROOT / "bench" / "peers" / f"run_{peer}.py"
    command = [str(peers.python), str(script), *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def run(peer: str, url: str, count: int, *arguments: str) -> float:
    """Tasks per second of a peer, on an empty database of its own."""
    timing = answer(peer, url, str(count), *arguments, peers=QUEUES)
    return count / float(timing["submit"] + timing["work"])


def _ran(command: list[str]) -> bool:
    return subprocess.run(command, check=False).returncode == 0
