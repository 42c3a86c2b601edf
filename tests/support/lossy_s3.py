"""An S3 server on a bad network: a proxy that passes requests on and then, by chance, loses the answer.

The request took effect, but the client gets no answer. It can also pass a request on late, when the client has given it
up; or twice, as a gateway that retries does. And it can answer that a file was created although there was one, like a
server that ignores `If-None-Match`.
"""

import http.client
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

Fault = Callable[[str, str], str]
"""(method, path) → `""`, `lost`, `late`, `twice` or `blind`"""
LATE = 0.02


class LossyS3:
    """Serves on `endpoint` while it is entered. `fired` counts the faults."""

    def __init__(self, upstream: str, fault: Fault) -> None:
        self.fired: Counter[str] = Counter()
        self._late: list[threading.Timer] = []
        handler = _handler(urlsplit(upstream).netloc, fault, self.fired, self._late)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "LossyS3":
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        for each in self._late:
            each.join()


def _handler(
    upstream: str, fault: Fault, fired: Counter[str], late: list[threading.Timer]
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_PUT(self) -> None:
            chosen = fault(self.command, self.path)
            fired[chosen] += 1
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if chosen == "late":
                self.close_connection = True
                late.append(threading.Timer(LATE, self._forward, (body,)))
                late[-1].start()
                return
            for _ in range(2 if chosen == "twice" else 1):
                status, headers, content = self._forward(body)
            if chosen == "blind" and status == http.HTTPStatus.PRECONDITION_FAILED:
                status, headers, content = http.HTTPStatus.OK, [("ETag", '"blind"')], b""
            if chosen == "lost":
                self.close_connection = True
                return
            self.send_response_only(status)
            is_head = self.command == "HEAD"  # its answer has the length of a content that does not follow
            for name, value in headers:
                if name.lower() not in ("transfer-encoding", "connection", *([] if is_head else ["content-length"])):
                    self.send_header(name, value)
            if not is_head:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_HEAD = do_POST = do_DELETE = do_PUT  # noqa: N815 - the names that the base class calls

        def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            """Send the request as it came, so that its signature holds."""
            connection = http.client.HTTPConnection(upstream, timeout=60)
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() != "connection":
                    connection.putheader(name, value)
            connection.endheaders(body or None)
            answer = connection.getresponse()
            taken = answer.status, answer.getheaders(), answer.read()
            connection.close()
            return taken

        def log_message(self, *_: Any) -> None:
            pass

    return Handler
