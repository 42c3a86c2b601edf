"""`python -m forager.runners.prefect`: serve the deployments until it is stopped.

`create-job` creates a job, `process-batches` works on all jobs. Flow runs start as processes of this machine with this
environment, so the Forager settings apply to them. With the argument `process`, it runs `process_job_batches` once, as
`create_scraping_job` does when it was not started by a deployment.
"""

import asyncio
import os
import sys

from forager.app.config import load_settings
from forager.core.errors import Rejected
from forager.runners.prefect import create_scraping_job, process_job_batches
from forager.runners.prefect.processor import API_URL, PROCESS
from forager.sdk.cli.invocation import ExitCode


def main() -> int:
    """Serve the deployments, or process. Returns the exit code: 2 if the settings are wrong or name no Prefect
    server."""
    try:
        url = load_settings().prefect_api_url
    except Rejected as error:
        sys.stderr.write(f"{error.message}\n")
        return 2
    if not url:
        sys.stderr.write(f"Set {API_URL} to the address of your Prefect server, such as http://127.0.0.1:4200/api.\n")
        return 2
    os.environ[API_URL] = url  # for the processes of the flow runs
    if sys.argv[1:] == [PROCESS]:
        process_job_batches(skip_if_waiting=True)
        return 0
    sys.stderr.write(f"Connecting to the Prefect server at {url} …\n")
    return asyncio.run(_serve(url))


async def _serve(url: str) -> int:
    """Serve until cancelled. Returns the exit code: 69 if the server does not answer."""
    from httpx import HTTPError
    from prefect import aserve, get_client
    from prefect.types.entrypoint import EntrypointType

    try:
        async with get_client() as client:
            await client.hello()
    except HTTPError as error:
        sys.stderr.write(f"The Prefect server at {url} does not answer ({error}). Start it, or correct {API_URL}.\n")
        return ExitCode.UNAVAILABLE
    sys.stderr.write(
        "Serving create-scraping-job/create-job and process-job-batches/process-batches (Ctrl-C stops it).\n"
    )
    await aserve(
        await create_scraping_job.ato_deployment("create-job", entrypoint_type=EntrypointType.MODULE_PATH),
        await process_job_batches.ato_deployment("process-batches", entrypoint_type=EntrypointType.MODULE_PATH),
        print_starting_message=False,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
