"""What Prometheus is told is what the store holds, on loopback alone; and the dashboard asks for nothing else."""

import json
import re
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from labconsole.api import metrics
from labconsole.api.metrics import (
    MAX_CONNECTIONS,
    PLAN_METRICS,
    POINT_METRICS,
    PlanMetrics,
    StoreMetrics,
    exposition,
    loopback,
    served,
)
from labconsole.errors import ConfigError
from labconsole.measure.statistics.set_ups import mean_over_set_ups
from labconsole.store.importing import import_records
from labconsole.store.open import open_store
from support.report_runs import measured, set_ups_of, taken

DASHBOARD = Path(__file__).parents[3] / "docs" / "grafana" / "labconsole.json"
PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"


def samples(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
    return found


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    path = tmp_path / "runs.sqlite"
    with open_store(str(path)) as store:
        import_records(store, set_ups_of([60.0, 61.0, 62.0], offered_mbps=100.0))
        import_records(store, [measured(50, 10.0, status="invalid", block=None, platform="lxc")])
    return path


def test_means_intervals_and_counts_are_those_of_the_store(store_path):
    with open_store(str(store_path), write=False) as store:
        metrics = StoreMetrics(store)
        found = samples(exposition(metrics))
        rates = [run.forwarding_bps or 0.0 for run in store.list() if run.platform == "raw"]
    mean = mean_over_set_ups({place: [rate] for place, rate in enumerate(rates)})
    ((labels, value),) = found["labconsole_forwarding_bps"]
    assert labels == {
        "testbed": "wuerzburg",
        "plan": "made-up",
        "platform": "raw",
        "frame_size_bytes": "1000",
        "sources": "1",
        "includes_fcs": "false",
        "target": "100000000",
        "background": "none",
    }
    assert value == pytest.approx(mean.mean)
    assert found["labconsole_forwarding_ci_low_bps"][0][1] == pytest.approx(mean.ci_low)
    assert {(each["platform"], each["verdict"]): value for each, value in found["labconsole_runs"]} == {
        ("raw", "valid"): 3,
        ("lxc", "invalid"): 1,
    }


def test_what_is_not_known_has_no_sample_and_new_runs_are_seen(store_path):
    with open_store(str(store_path)) as store:
        metrics = StoreMetrics(store)
        import_records(store, [measured(90, 30.0, platform="container", offered_mbps=100.0, plan_hash="other")])
        found = samples(exposition(metrics))
        assert len(found["labconsole_forwarding_bps"]) == 2
        assert len(found["labconsole_forwarding_ci_low_bps"]) == 1, "one set-up has no interval"
        kept = metrics.collect()
        assert metrics.collect() is kept
        import_records(store, [measured(91, 30.0, platform="uml", offered_mbps=100.0, plan_hash="third")])
        assert metrics.collect() is not kept


def test_a_loss_on_an_unknown_side_is_not_one_of_the_unit_under_test(tmp_path):
    place = tmp_path / "old.sqlite"
    with open_store(str(place)) as store:
        import_records(store, [taken(number, 60.0) for number in (1, 2, 3)])
        found = samples(exposition(StoreMetrics(store)))
    assert found["labconsole_set_ups"] and found["labconsole_forwarding_bps"]
    assert "labconsole_loss_ratio" not in found


def test_an_empty_store_is_served_too(tmp_path):
    with open_store(str(tmp_path / "runs.sqlite")) as store:
        assert exposition(StoreMetrics(store)).endswith("# EOF\n")


def test_it_is_served_on_loopback_and_nowhere_else(store_path):
    with (
        open_store(str(store_path), write=False) as store,
        served("127.0.0.1:0", "--listen", StoreMetrics(store)) as place,
    ):
        with urllib.request.urlopen(place, timeout=5) as answer:
            assert b"labconsole_runs{" in answer.read()
        taken = place.removeprefix("http://").partition("/")[0]
        with pytest.raises(ConfigError, match="cannot listen there"), served(taken, "--listen"):
            pass
    assert loopback("localhost:1", "--listen") == ("127.0.0.1", 1)
    assert loopback("[::1]:9", "--listen") == ("::1", 9)
    assert loopback("9477", "--listen") == ("127.0.0.1", 9477)
    for address in ("0.0.0.0:9477", "192.0.2.1:9477", "lab:9477", "127.0.0.1:x", "127.0.0.1:70000", ""):
        with pytest.raises(ConfigError, match="is not a loopback address"):
            loopback(address, "--listen")


@contextmanager
def served_port() -> Iterator[int]:
    with served("127.0.0.1:0", "--listen") as place:
        yield int(place.rpartition(":")[2].partition("/")[0])


def status(port: int, *headers: str) -> int:
    """The answer's status; 0: closed without one."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as asking:
        asking.sendall("\r\n".join(["GET /metrics HTTP/1.1", *headers, "", ""]).encode())
        words = asking.makefile("rb").readline().split()
        return int(words[1]) if words else 0


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:9477", "127.0.0.1", "127.0.0.1:80", "127.8.8.8:1", "[::1]:9477"]
)
def test_a_request_to_this_machine_is_answered(host):
    with served_port() as port:
        assert status(port, f"Host: {host}") == 200


@pytest.mark.parametrize(
    "host",
    [
        "rebound.example",
        "rebound.example:9477",
        "localhost.example",
        "127.0.0.1.example",
        "192.0.2.1",
        "0.0.0.0",
        "::1",
        "127.0.0.1@rebound.example",
        "localhost:x",
        "127.0.0.1:9477:1",
        "",
    ],
)
def test_a_request_by_a_name_that_others_give_is_refused(host):
    """A page of theirs could otherwise read the metrics in the operator's browser."""
    with served_port() as port:
        assert status(port, f"Host: {host}") == 421
        assert status(port) == 421


def test_connections_are_bounded_and_end(monkeypatch: pytest.MonkeyPatch, capfd):
    threads = threading.active_count()
    with served_port() as port, ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5)) for _ in range(40)]
        idle[0].sendall(b"GET /metrics HTT")
        # Long before any of the others is closed for its age.
        assert [each.recv(1) for each in idle[MAX_CONNECTIONS:]] == [b""] * (40 - MAX_CONNECTIONS)
        assert threading.active_count() <= threads + 1 + MAX_CONNECTIONS
        monkeypatch.setattr(metrics, "REQUEST_LIMIT_S", 0.5)
        assert status_ends(idle[:MAX_CONNECTIONS])
        assert status(port, "Host: localhost") == 200
    assert capfd.readouterr().err == ""


def status_ends(connections: list[socket.socket]) -> bool:
    return all(each.makefile("rb").read() == b"" for each in connections)


def test_it_is_served_on_a_socket_of_its_owner_alone(store_path, tmp_path):
    path = tmp_path / "metrics.sock"
    with (
        open_store(str(store_path), write=False) as store,
        served(f"unix:{path}", "--listen", StoreMetrics(store)) as place,
    ):
        assert path.stat().st_mode & 0o777 == 0o600
        told = subprocess.run([*place.split(), "--silent", "--max-time", "5"], capture_output=True, check=True).stdout
        assert b"labconsole_runs{" in told
        with pytest.raises(ConfigError, match="cannot listen there"), served(f"unix:{path}", "--listen"):
            pass
    assert not path.exists()


def test_a_socket_that_was_left_is_taken_over_and_nothing_else_is(tmp_path):
    left = tmp_path / "left.sock"
    with socket.socket(socket.AF_UNIX) as ended:
        ended.bind(str(left))
    with served(f"unix:{left}", "--listen"):
        pass
    kept = tmp_path / "notes.txt"
    kept.write_text("kept")
    for place, words in (
        (f"unix:{kept}", "cannot listen there"),
        (f"unix:{tmp_path}/no/such/place", "cannot listen there"),
        ("unix:metrics.sock", "is not an absolute path"),
    ):
        with pytest.raises(ConfigError, match=words), served(place, "--listen"):
            pass
    assert kept.read_text() == "kept"


def test_progress_keeps_the_last_trial_while_the_next_one_runs():
    metrics = PlanMetrics()
    plan: Any = SimpleNamespace(name="nightly")
    nothing: Any = None
    total = SimpleNamespace(offered_bps=10.0, measured_bps=9.0, loss_ratio=0.1)

    def progress(done: int, last: Any) -> Any:
        from labconsole.engine.execution.progress import Progress

        return Progress(
            plan=plan, done=done, skipped=1, left_out=2, total=10, point=nothing, repetition=1, left_s=5.0, last=last
        )

    metrics.seen(progress(3, SimpleNamespace(total=total)))
    metrics.seen(progress(3, None))
    found = samples(exposition(metrics))
    assert {each["state"]: value for each, value in found["labconsole_plan_trials"]} == {
        "done": 3,
        "stored": 1,
        "left_out": 2,
        "left": 4,
    }
    assert found["labconsole_trial_loss_ratio"] == [({"plan": "nightly"}, 0.1)]
    assert found["labconsole_plan_left_seconds"] == [({"plan": "nightly"}, 5.0)]


def test_the_dashboard_and_the_page_name_every_metric_and_no_other():
    known = {"labconsole_runs", *POINT_METRICS, *PLAN_METRICS}
    dashboard = json.loads(DASHBOARD.read_text())
    asked = {
        name
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for name in re.findall(r"labconsole_\w+", target["expr"])
    }
    assert asked == known
    assert set(re.findall(r"`(labconsole_\w+)`", PAGE.read_text())) == known
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))
    cells = {
        (x, y)
        for panel in dashboard["panels"]
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    }
    assert len(cells) == sum(panel["gridPos"]["w"] * panel["gridPos"]["h"] for panel in dashboard["panels"])


def test_the_command_prints_them_once_and_ends_when_it_is_told_to(store_path):
    argv = [sys.executable, "-m", "labconsole", "metrics", "--store", str(store_path)]
    once = subprocess.run([*argv, "--once"], capture_output=True, text=True)
    assert once.returncode == 0
    assert "labconsole_set_ups{" in once.stdout
    with subprocess.Popen([*argv, "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True) as serving:
        assert serving.stderr is not None
        said = serving.stderr.readline()
        port = re.search(r":(\d+)/metrics", said)
        assert port, said
        with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/metrics", timeout=5) as answer:
            assert answer.status == 200
        serving.terminate()
        assert serving.wait(timeout=10) == 0


def test_what_differs_in_conditions_is_not_averaged_and_the_newest_is_told(tmp_path):
    path = tmp_path / "runs.sqlite"
    with open_store(str(path)) as store:
        import_records(store, set_ups_of([60.0, 60.0, 60.0], offered_mbps=100.0, kernel="6.1"))
        newer = set_ups_of([40.0, 40.0, 40.0], 100, offered_mbps=100.0, kernel="6.6", plan_hash="another")
        third = set_ups_of([50.0], 200, offered_mbps=100.0, includes_fcs=True, plan_hash="third")
        for record in (*newer, *third):
            record["set_up"]["id"] += record["plan"]["hash"]
        import_records(store, [*newer, *third])
        found = samples(exposition(StoreMetrics(store)))
    told = {each["includes_fcs"]: value for each, value in found["labconsole_forwarding_bps"]}
    assert told["false"] == pytest.approx(40e6, rel=0.01)
    assert told["true"] == pytest.approx(50e6, rel=0.01)
