"""`python -m forager.runners.prefect`: serve the deployments until it is stopped.

`create-job` creates a job, `process-batches` works on all jobs. Flow runs start as processes of this machine with this
environment, so the Forager settings apply to them.
"""

import asyncio
import os
import sys

from forager.config import load_settings
from forager.core.errors import Rejected

API_URL = "PREFECT_API_URL"


def main() -> int:
    """Serve the deployments. Returns the exit code: 2 if the settings are wrong or name no Prefect server."""
    try:
        url = load_settings().prefect_api_url
    except Rejected as error:
        sys.stderr.write(f"{error.message}\n")
        return 2
    if not url:
        sys.stderr.write(f"Set {API_URL} to the address of your Prefect server, such as http://127.0.0.1:4200/api.\n")
        return 2
    os.environ[API_URL] = url  # Prefect reads it when it is imported, and so do the processes of the flow runs
    asyncio.run(_serve())
    return 0


async def _serve() -> None:
    from prefect import aserve
    from prefect.types.entrypoint import EntrypointType

    from forager.runners.prefect import create_scraping_job, process_job_batches

    await aserve(
        await create_scraping_job.ato_deployment("create-job", entrypoint_type=EntrypointType.MODULE_PATH),
        await process_job_batches.ato_deployment("process-batches", entrypoint_type=EntrypointType.MODULE_PATH),
        print_starting_message=False,
    )


if __name__ == "__main__":
    sys.exit(main())
