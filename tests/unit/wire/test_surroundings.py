"""What a node says around a trial is checked like everything else it says: real answers pass, others do not."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from labconsole.wire.codec import WireError
from support.kept_messages import kept_reply

DROPS: dict[str, Any] = {
    "monotonic_ns": 5,
    "softnet": [[0, 138161591, 0, 4], [None, 1, 2, 3]],
    "namespaces": {
        "": {
            "ip": {"InDiscards": 0, "OutNoRoutes": 3},
            "qdiscs": [["eth1", "tbf", {"drops": 553, "requeues": 0, "overlimits": 12}]],
            "driver": {"eth1": {"rx_no_buffer_count": 2**64 - 1}, "eth5": None},
            "filters": [
                {
                    "family": "netdev",
                    "table": "t",
                    "chain": "c",
                    "handle": 3,
                    "interface": "eth1",
                    "hook": "ingress",
                    "packets": 130,
                },
                {
                    "family": "ip",
                    "table": "t",
                    "chain": "f",
                    "handle": 2,
                    "interface": None,
                    "hook": None,
                    "packets": 5,
                },
            ],
        },
        "guest": {"ip": None, "qdiscs": [], "driver": {}, "filters": None},
        "newer": {
            "ip": None,
            "qdiscs": [],
            "driver": {"eth1": {}},
            "filters": None,
            "drivers": {"eth1": "ena", "eth5": None},
            "cut": ["eth1"],
        },
    },
}
SURROUNDINGS = {
    "monotonic_ns": 1,
    "wall_ns": 2,
    "boot_id": "0f-1a",
    "pid_namespace": 4026531836,
    "logins": [{"user": "eva", "line": "pts/1", "host": None, "since_wall_s": -1}],
    "load": [0.5, 1, 2.25],
    "cpus": 2,
    "guests": [{"name": "deb12", "pid": 50}],
    "sessions": [7],
    "window": {
        "elapsed_s": 2.5,
        "cpu": {"busy_ratio": 0.9, "interrupt_ratio": 0.1, "steal_ratio": 0.0},
        "hottest": {"cpu": "cpu1", "busy_ratio": 1, "interrupt_ratio": 0.1, "steal_ratio": 0.0},
        "used_s": {"ours": 1.5},
        "processes": [{"pid": 9, "name": "make", "whose": "other", "cpu_s": 0.4}],
    },
}
N = ("namespaces", "")
W = ("window",)


def checked(op: str, ok: Any) -> Any:
    return kept_reply(op, {"id": 1, "ok": copy.deepcopy(ok)})["ok"]


@pytest.mark.parametrize(
    ("op", "ok"),
    [
        ("drops.read", DROPS),
        ("drops.read", {**DROPS, "softnet": None}),
        ("surroundings", SURROUNDINGS),
        ("surroundings", {**SURROUNDINGS, "logins": None, "load": None, "cpus": None, "window": None}),
    ],
)
def test_a_real_answer_passes_unchanged(op: str, ok: dict[str, Any]):
    assert checked(op, ok) == ok


def bent(ok: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = place = copy.deepcopy(ok)
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return changed


@pytest.mark.parametrize(
    ("op", "ok", "path", "value"),
    [
        ("drops.read", DROPS, ("softnet", 0), [0, 1, 2]),
        ("drops.read", DROPS, ("softnet", 0, 2), -1),
        ("drops.read", DROPS, ("softnet",), [[0, 1, 2, 3]] * 5000),
        ("drops.read", DROPS, ("namespaces",), {str(k): DROPS["namespaces"]["guest"] for k in range(300)}),
        ("drops.read", DROPS, (*N, "ip", "InDiscards"), 1.5),
        ("drops.read", DROPS, (*N, "ip"), {"\x1b[2J": 1}),
        ("drops.read", DROPS, (*N, "qdiscs", 0), ["eth1", "tbf"]),
        ("drops.read", DROPS, (*N, "qdiscs", 0, 2, "drops"), None),
        ("drops.read", DROPS, (*N, "driver", "eth1"), {"x": 2**64}),
        ("drops.read", DROPS, (*N, "driver", "eth1"), {str(k): 1 for k in range(600)}),
        ("drops.read", DROPS, (*N, "filters", 0, "packets"), -1),
        ("drops.read", DROPS, (*N, "filters", 0), {}),
        ("surroundings", SURROUNDINGS, ("logins", 0, "user"), "x" * 300),
        ("surroundings", SURROUNDINGS, ("load",), [1, 2, 3, 4]),
        ("surroundings", SURROUNDINGS, ("guests",), [{"name": "x", "pid": 1}] * 300),
        ("surroundings", SURROUNDINGS, ("sessions", 0), "7"),
        ("surroundings", SURROUNDINGS, (*W, "elapsed_s"), float("inf")),
        ("surroundings", SURROUNDINGS, (*W, "cpu", "steal_ratio"), -0.1),
        ("surroundings", SURROUNDINGS, (*W, "used_s"), {str(k): 1.0 for k in range(30)}),
        ("surroundings", SURROUNDINGS, (*W, "processes", 0, "cpu_s"), float("nan")),
    ],
)
def test_what_is_not_as_promised_is_refused(op: str, ok: dict[str, Any], path: tuple[Any, ...], value: Any):
    with pytest.raises(WireError, match=f"^{op}: "):
        checked(op, bent(ok, path, value))


def test_names_of_processes_are_harmless_to_a_terminal():
    said = bent(SURROUNDINGS, (*W, "processes", 0, "name"), "\x1b]0;owned\x07make")
    assert "\x1b" not in checked("surroundings", said)["window"]["processes"][0]["name"]
