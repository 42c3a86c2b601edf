"""The sandbox's web site with its job postings, in a process of its own: `python -m bench.support.job_site`."""

import asyncio
import sys

import uvloop

from forager.sandbox.site import SandboxSite


async def main() -> None:
    async with SandboxSite() as site:
        print(site.url("").rstrip("/"), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)  # until the benchmark lets go


if __name__ == "__main__":
    uvloop.run(main())
