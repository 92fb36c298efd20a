"""Metrics served on this machine alone: on a loopback address or a Unix socket of the owner.

Only its owner may open the socket. Every user of this machine can read a loopback port. A page in a browser cannot: a
request has to name this machine as its host, and not a name that a third party points to 127.0.0.1.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import socketserver
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from labconsole.errors import ConfigError
from labconsole.text.extras import build_install_command, missing

PORT: Final = 9477
UNIX: Final = "unix:"
MAX_CONNECTIONS: Final = 16
"""Each has a thread; further ones are closed at once."""
REQUEST_LIMIT_S: Final = 10.0
"""Limit of a whole request and its answer: a connection that takes longer is closed."""
ALLOWED: Final = f"an address of this machine alone, such as 127.0.0.1:{PORT} or {UNIX}/run/labconsole.sock"


def exposition(*collectors: Any) -> str:
    """All collectors as text in OpenMetrics' format. Raises ConfigError without the package for it."""
    _require()
    from prometheus_client.openmetrics.exposition import generate_latest

    text: bytes = generate_latest(_registry(collectors))  # type: ignore[no-untyped-call]
    return text.decode()


@contextmanager
def served(address: str, key: str, *collectors: Any) -> Iterator[str]:
    """Serve these collectors at this address during the block, and yield the URL or socket. Raises ConfigError."""
    _require()
    with _listening(address, key, _registry(collectors)) as (server, place):
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        try:
            yield place
        finally:
            server.shutdown()
            thread.join()


def loopback(address: str, key: str) -> tuple[str, int]:
    """Parse ``127.0.0.1:9477``, or a port alone. Raises ConfigError on an address that others could reach."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    try:
        number = int(port)
        own = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host).is_loopback
    except ValueError:
        number, own = -1, False
    if not own or not 0 <= number <= 65535:
        raise ConfigError("is not a loopback address", key=key, value=address, allowed=ALLOWED)
    return ("127.0.0.1" if host == "localhost" else host), number


def _require() -> None:
    if missing("metrics"):
        raise ConfigError(f"metrics need another package: {build_install_command('metrics')}")


def _registry(collectors: tuple[Any, ...]) -> Any:
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry()
    for each in collectors:
        registry.register(each)
    return registry


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not written to stderr, where a replay reports its progress."""


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def __init__(self, *args: Any) -> None:
        self._since: dict[socket.socket, float] = {}
        """The open connections, with the time at which each was accepted."""
        super().__init__(*args)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        if len(self._since) >= MAX_CONNECTIONS:
            return False
        self._since[request] = monotonic()
        return True

    def service_actions(self) -> None:
        """Called after every connection, and at least each poll interval."""
        for request, since in list(self._since.items()):
            if monotonic() - since > REQUEST_LIMIT_S:
                with suppress(OSError):  # closed meanwhile
                    request.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        self._since.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that ends early is not reported on stderr, where a replay shows its progress."""


class _Server6(_Server):
    address_family = socket.AF_INET6


class _FromSocket(_Quiet):
    def setup(self) -> None:
        self.client_address = ("unix", 0)  # a client on a Unix socket has no address
        super().setup()

    def address_string(self) -> str:
        return "unix"


class _UnixServer(_Server):
    address_family = socket.AF_UNIX

    def server_bind(self) -> None:
        before = os.umask(0o177)
        try:
            socketserver.TCPServer.server_bind(self)
        finally:
            os.umask(before)
        self.server_name, self.server_port = "localhost", 0
        self.setup_environ()


@contextmanager
def _listening(address: str, key: str, registry: Any) -> Iterator[tuple[WSGIServer, str]]:
    from prometheus_client import make_wsgi_app

    try:
        if address.startswith(UNIX):
            path = Path(address.removeprefix(UNIX))
            if not path.is_absolute():
                raise ConfigError("is not an absolute path", key=key, value=address, allowed=ALLOWED)
            _remove_stale_socket(path)
            server: WSGIServer = _UnixServer(str(path), _FromSocket)
            place = f"curl --unix-socket {path} http://localhost/metrics"
        else:
            path = None
            host, port = loopback(address, key)
            server = (_Server6 if ":" in host else _Server)((host, port), _Quiet)
            place = f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}/metrics"
    except OSError as exc:
        raise ConfigError(f"cannot listen there: {exc.strerror or exc}", key=key, value=address) from None
    server.set_app(_require_own_host(make_wsgi_app(registry)))
    try:
        yield server, place
    finally:
        server.server_close()
        if path is not None:
            path.unlink(missing_ok=True)


def _require_own_host(app: Any) -> Any:
    """The application, restricted to requests whose Host is a name of this machine that others cannot assign to it."""

    def checked(environ: dict[str, Any], start_response: Any) -> Any:
        if is_own_host(str(environ.get("HTTP_HOST", ""))):
            return app(environ, start_response)
        start_response("421 Misdirected Request", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"the Host of a request has to be localhost or a loopback address\n"]

    return checked


def is_own_host(host: str) -> bool:
    """Whether a Host header, with or without a port, says ``localhost`` or a loopback address."""
    found = re.fullmatch(r"(localhost|[0-9.]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?", host, re.ASCII | re.IGNORECASE)
    if found is None:
        return False
    try:
        return found[1].lower() == "localhost" or ipaddress.ip_address(found[1].strip("[]")).is_loopback
    except ValueError:
        return False


def _remove_stale_socket(path: Path) -> None:
    """Remove a socket without a listener; any other file stays, and binding is refused."""
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX) as probe, suppress(ConnectionRefusedError):
        probe.connect(str(path))
        return
    path.unlink()
