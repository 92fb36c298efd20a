"""Nodes that are namespaces of one machine: whose processes are whose, and what none of them sees."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from labconsole.model.tolerances import Tolerances
from labconsole.verdict.observations import TrialObservations
from labconsole.verdict.offered_shortfall import INITIAL_PID_NAMESPACE
from labconsole.wire.host_activity import CpuShares, UsageWindow
from support.observed_trials import PORTS, SENT, bent, busy, codes, found, record, tell, undisturbed


def one_machine(
    inventory, *, own_s: float = 0.1, busy_ratio: float = 0.25, elapsed_s: float = 10.0, **sent: Any
) -> TrialObservations:
    """Three containers of a machine with two processors; each accounts for ``own_s`` of processor time."""
    seen = undisturbed(inventory, **sent)
    for place, node in enumerate(PORTS):
        window = UsageWindow(
            elapsed_s=elapsed_s,
            cpu=CpuShares(busy_ratio=busy_ratio, interrupt_ratio=0.1, steal_ratio=0.05),
            hottest=None,
            used_s={"ours": own_s},
            processes=[],
        )
        seen.end[node].surroundings = bent(
            seen.end[node].surroundings, boot_id="the same", pid_namespace=4026532000 + place, cpus=2, window=window
        )
    seen.console_boot_id, seen.console_cpu_s = "the same", 0.2
    return seen


def test_what_the_nodes_and_the_console_account_for_is_no_doubt(inventory):
    # 0.1 of two processors for ten seconds: 2 s, of which three nodes had 0.6 s each and the console 0.2.
    run = record(inventory, one_machine(inventory, own_s=0.6))
    assert codes(run) == set()
    (machine,) = (entry for entry in run.influences if entry["kind"] == "cpu")
    assert machine["unseen_ratio"] == 0


@pytest.mark.parametrize("mute", ["src1", "uut"])
def test_the_machine_is_told_by_the_first_node_that_could_say_what_its_processors_did(inventory, mute: str):
    seen = one_machine(inventory, own_s=0.6)
    tell(seen.end[mute], "surroundings.window", None)
    (machine,) = (entry for entry in record(inventory, seen).influences if entry["kind"] == "cpu")
    assert machine["busy_ratio"] == 0.25
    assert machine["node"] == next(node for node in seen.end if node != mute)
    assert set(machine["nodes"]) == set(PORTS)


def test_what_no_node_accounts_for_is_a_doubt_beyond_the_tolerance_and_the_samples_error(inventory):
    seen = one_machine(inventory, busy_ratio=0.65)  # 10 s, and 0.5 of them known
    run = record(inventory, seen)
    assert codes(run) == {"unseen_cpu"}
    evidence = found(run, "unseen_cpu").evidence
    assert evidence["cpu_ratio"] == pytest.approx(0.95)
    assert evidence["error_ratio"] == pytest.approx(4 * (2000 * 0.5 * 0.5) ** 0.5 * 0.01 / 10)
    assert codes(record(inventory, seen, tolerances=Tolerances(other_cpu_ratio=0.9))) == set()


def test_it_shows_what_held_a_source_back(inventory):
    run = record(inventory, one_machine(inventory, busy_ratio=0.65, sent=SENT - 1000))
    short = found(run, "offered_short")
    assert [cause["cause"] for cause in short.evidence["causes"]] == ["unseen_cpu"]
    ended = one_machine(inventory, busy_ratio=0.65, sent=SENT - 1000, error_text="eth1 has no carrier")
    assert found(record(inventory, ended), "offered_short").detail.endswith(": eth1 has no carrier")
    assert ": processes that no node sees took " in short.detail and short.detail.endswith("% or more of a processor")


def test_a_short_window_says_less(inventory):
    assert codes(record(inventory, one_machine(inventory, busy_ratio=0.35, own_s=0.0, elapsed_s=1.0))) == set()
    assert codes(record(inventory, one_machine(inventory, busy_ratio=0.35, own_s=0.0, elapsed_s=60.0))) == {
        "unseen_cpu"
    }


@pytest.mark.parametrize("bend", ["a node sees all", "another machine", "no window", "not told"])
def test_where_it_cannot_be_known_nothing_is_said(inventory, bend: str):
    seen = one_machine(inventory, busy_ratio=0.65)
    said = seen.end["snk1"]
    if bend == "a node sees all":
        tell(said, "surroundings.pid_namespace", INITIAL_PID_NAMESPACE)
    elif bend == "another machine":
        tell(said, "surroundings.boot_id", "another")
    elif bend == "no window":
        tell(said, "surroundings.window", None)
    else:
        tell(said, "surroundings.pid_namespace", None)
    assert codes(record(inventory, seen)) == set()


def test_nodes_that_see_the_same_processes_account_for_them_once(inventory):
    seen = one_machine(inventory, own_s=2.0, busy_ratio=0.65)
    for node in PORTS:
        tell(seen.end[node], "surroundings.pid_namespace", 7)
    assert found(record(inventory, seen), "unseen_cpu").evidence["cpu_ratio"] == pytest.approx(0.78)


def test_a_guest_of_the_platform_is_ours_on_every_node_that_sees_it(inventory):
    seen = undisturbed(inventory)
    seen.attestation = {"guests": ["deb12"]}
    for node in PORTS:
        for side in (seen.begin, seen.end):
            tell(side[node], "surroundings.guests", [{"name": "deb12", "pid": 50}])
        busy(seen.end[node], {"pid": 50, "name": "qemu-system-x86", "whose": "guest", "cpu_s": 1.9})
    apart = copy.deepcopy(seen)
    for node in PORTS:
        tell(seen.end[node], "surroundings.boot_id", "the same")
    assert codes(record(inventory, seen)) == set()
    assert codes(record(inventory, apart)) == {"other_cpu"}
