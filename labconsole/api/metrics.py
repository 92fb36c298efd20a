"""Metrics in OpenMetrics' format, of a store's contents and the progress of plans, and the server for them."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import socketserver
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from labconsole.engine.execution.progress import Progress
from labconsole.errors import ConfigError
from labconsole.measure.admission import admit
from labconsole.measure.groups import is_search_trial
from labconsole.model.record.summary import RunSummary
from labconsole.report.points import PointSummary, make_points
from labconsole.store.reading import StoredRuns
from labconsole.text.extras import build_install_command, missing
from labconsole.text.sanitize import sanitize_line

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily


# -- metrics -----------------------------------------------------------------------------------------------------------
# They are computed on the operator's machine from data that it already has: no node is queried for them.

POINT_LABELS: Final = (
    "testbed",
    "plan",
    "platform",
    "frame_size_bytes",
    "includes_fcs",
    "sources",
    "target",
    "background",
)
POINT_METRICS: Final = {
    "labconsole_forwarding_bps": "Mean forwarding rate of a design point on the wire, over its set-ups",
    "labconsole_forwarding_ci_low_bps": "Lower bound of its 95 % interval",
    "labconsole_forwarding_ci_high_bps": "Upper bound of its 95 % interval",
    "labconsole_loss_ratio": "Share of the offered packets that the unit under test lost",
    "labconsole_set_ups": "Set-ups with a trial that enters the mean",
}
PLAN_METRICS: Final = {
    "labconsole_plan_trials": "Trials of a plan that is being measured, by state",
    "labconsole_plan_left_seconds": "Estimated time until the plan is finished",
    "labconsole_trial_offered_bps": "Load offered in the last trial, on the wire",
    "labconsole_trial_measured_bps": "Rate that arrived in the last trial, on the wire",
    "labconsole_trial_loss_ratio": "Share of the last trial's packets that was lost, wherever they were lost",
}


def family(name: str, description: str, labels: Sequence[str]) -> GaugeMetricFamily:
    """An empty gauge."""
    from prometheus_client.core import GaugeMetricFamily

    return GaugeMetricFamily(name, description, labels=labels)


class StoreMetrics:
    """Metrics of the runs of a store. Recomputed only if runs were added since the last time."""

    def __init__(self, store: StoredRuns) -> None:
        self._store = store
        self._seen: tuple[int, str] | None = None
        self._kept: list[Any] = []

    def collect(self) -> list[Any]:
        """Its families; unknown values have no sample. Blocking."""
        newest = self._store.list(limit=1)
        seen = (self._store.count(), newest[0].run_id if newest else "")
        if seen != self._seen:
            self._kept, self._seen = self._families(), seen
        return self._kept

    def _families(self) -> list[Any]:
        runs = self._store.list()
        counted = family("labconsole_runs", "Saved runs", ("testbed", "plan", "platform", "verdict"))
        found = Counter(_clean(run.testbed, run.plan_name or "", run.platform, run.verdict) for run in runs)
        for labels, many in sorted(found.items()):
            counted.add_metric(labels, many)
        return [counted, *_build_point_metrics(runs)]


def _build_point_metrics(runs: Sequence[RunSummary]) -> list[Any]:
    families = {name: family(name, description, POINT_LABELS) for name, description in POINT_METRICS.items()}
    admission = admit(runs)
    by_plan: dict[str, list[RunSummary]] = {}
    for run in runs:
        if run.run_id not in admission.left_out and not is_search_trial(run):
            by_plan.setdefault(run.plan_name or "", []).append(run)
    for plan, runs_of_plan in sorted(by_plan.items()):
        for point in _newest(make_points(runs_of_plan, (), admission.stretches), runs_of_plan):
            values = (
                point.rate_bps.mean,
                point.rate_bps.ci_low,
                point.rate_bps.ci_high,
                None if point.loss is None or point.loss_of != "uut" else point.loss.ratio,
                point.set_ups,
            )
            for gauge, value in zip(families.values(), values, strict=True):
                if value is not None:
                    gauge.add_metric(_labels(plan, point), value)
    return list(families.values())


def _newest(points: Iterable[PointSummary], runs: Iterable[RunSummary]) -> Iterator[PointSummary]:
    """For each point under several conditions (kernels, generators, durations, …) the one that was measured last."""
    begun = {run.run_id: run.started_at for run in runs}
    found: dict[tuple[str, ...], PointSummary] = {}
    for point in sorted(points, key=lambda each: max(begun[run_id] for run_id in each.run_ids)):
        found[_labels("", point)] = point
    return iter(found.values())


def _labels(plan: str, point: PointSummary) -> tuple[str, ...]:
    design = point.design
    return _clean(
        design.conditions.testbed or "",
        plan,
        design.platform,
        str(design.frame.bytes),
        "true" if design.frame.includes_fcs else "false",
        str(design.sources),
        str(design.target_bps),
        design.background,
    )


def _clean(*labels: str) -> tuple[str, ...]:
    """Labels sanitized for a page of metrics: names are from anyone who wrote to the store."""
    return tuple(map(sanitize_line, labels))


class PlanMetrics:
    """Metrics of plans that are being measured. ``seen`` takes the progress of an execution."""

    def __init__(self) -> None:
        self._last: dict[str, Progress] = {}

    def seen(self, progress: Progress) -> None:
        """Record a plan's progress. Call it from the event loop; collectors read from another thread."""
        before = self._last.get(progress.plan.name)
        keeps = progress.last is None and before is not None and before.last is not None
        if keeps and before is not None:
            progress = replace(progress, last=before.last)
        self._last = {**self._last, progress.plan.name: progress}

    def collect(self) -> list[Any]:
        """Its families."""
        labels = {"labconsole_plan_trials": ("plan", "state")}
        families = {
            name: family(name, description, labels.get(name, ("plan",))) for name, description in PLAN_METRICS.items()
        }
        trials, left_s, *of_trial = families.values()
        for plan, progress in self._last.items():
            left = progress.total - progress.done - progress.skipped - progress.left_out
            states = {"done": progress.done, "stored": progress.skipped, "left_out": progress.left_out, "left": left}
            for state, many in states.items():
                trials.add_metric((plan, state), many)
            if progress.left_s is not None:
                left_s.add_metric((plan,), progress.left_s)
            total = None if progress.last is None else progress.last.total
            values = () if total is None else (total.offered_bps, total.measured_bps, total.loss_ratio)
            for gauge, value in zip(of_trial, values, strict=False):
                if value is not None:
                    gauge.add_metric((plan,), value)
        return list(families.values())


# -- server ------------------------------------------------------------------------------------------------------------
# Metrics served on this machine alone: on a loopback address or a Unix socket of the owner.
#
# Only its owner may open the socket. Every user of this machine can read a loopback port. A page in a browser cannot: a
# request has to name this machine as its host, and not a name that a third party points to 127.0.0.1.

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
