"""A web page with what pages have, on a free port: `python -m bench.support.page_site`. Prints its URL."""

import asyncio
import sys

from tests.support.origin import Answer, Origin, Seen, reply
from tests.support.pages import PNG

ROWS = "".join(f"<tr><td>row {number}</td><td>{'text ' * 20}</td></tr>" for number in range(100))
HTML = f"""<!doctype html><html><head><title>a page</title><link rel=stylesheet href=/style.css></head>
<body><h1>not yet</h1><img src=/one.png><img src=/two.png><table>{ROWS}</table><script src=/code.js></script>
</body></html>"""
CODE = b"document.querySelector('h1').textContent = 'ran'"


def answer(seen: Seen) -> Answer:
    match seen.target.rpartition(".")[2]:
        case "css":
            return reply(200, b"td{color:#333}" * 100, Content_Type="text/css")
        case "png":
            return reply(200, PNG, Content_Type="image/png")
        case "js":
            return reply(200, CODE, Content_Type="text/javascript")
        case "ico":
            return reply(404)
        case _:
            return reply(200, HTML.encode(), Content_Type="text/html")


async def main() -> None:
    async with Origin(answer) as origin:
        sys.stdout.write(f"{origin.url('/')}\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
