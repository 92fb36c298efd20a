"""Contradictions made by hand, one at a time, in the records of consistent_guests: each a change, and where it shows."""

from __future__ import annotations

import copy
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from labconsole.model.record.kind import record_kinds
from labconsole.store.experiments import parse_experiment
from labconsole.store.open import open_store
from support.consistent_guests import MEMORY_BYTES, Stored, at
from support.contradictory_runs import judged, reasons, set_to, several

Guests = dict[str, dict[str, Any]]
Change = Callable[[Guests], object]


def of(name: str, *changes: Callable[[dict[str, Any]], None]) -> Change:
    """In one record."""
    return lambda records: [each(records[name]) for each in changes]


def same(path: str, one: str, other: str) -> Change:
    """What one record says at a path, the other says, too."""

    def change(records: Guests) -> None:
        value: Any = records[one]
        for key in path.split("."):
            value = value[int(key)] if isinstance(value, list) else value[key]
        set_to(path, value)(records[other])

    return change


def link(speed_bps: int) -> Callable[[dict[str, Any]], None]:
    """A link of another speed, of which all that follows is right."""

    def change(data: dict[str, Any]) -> None:
        payload = data["requested"]["payload_bytes"]
        data["link_speed_bps"], data["line_bps"] = speed_bps, speed_bps * payload / (payload + 66)
        data["line_ratio"] = data["sum_bps"] / data["line_bps"]

    return change


def strangers(data: dict[str, Any]) -> None:
    data["sink"]["foreign_packets"] += 50
    data["sink"]["captured_packets"] += 50
    data["sink"]["nic_packets"] += 50


def influence(**entry: Any) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        data["influences"].append({"node": "uut", "detail": "made up", **entry})

    return change


def doubled(path: str) -> Callable[[dict[str, Any]], None]:
    """The first of a list stands in the place of the second."""
    return set_to(path, lambda held: [held[0], copy.deepcopy(held[0]), *held[2:]])


def early_mark(data: dict[str, Any]) -> None:
    """The second guest's start command comes 6 ms after its mark; its word follows it."""
    first, second = data["guests"]
    second["started_ns"] = first["started_ns"] + 1_506_000_000
    second["own_s"] = second["mark_s"] - 1.506


SKEW = judged("suspect", "start_skew")
VERDICT = "verdict.reasons"
ALONE: list[tuple[str, str, Callable[[dict[str, Any]], None], str]] = [
    # whatever guests did: times, place, processors, verdict
    ("finished before it was started", "boot", set_to("finished_at", at(0, 0)), "finished_at"),
    ("finished at no time", "route", set_to("finished_at", "yesterday"), "finished_at"),
    ("a set-up that began after its trial", "job", set_to("set_up.started_at", at(59, 0)), "set_up.started_at"),
    (
        "a set-up that took longer than there was before its trial",
        "route",
        set_to("set_up.setup_s", 30.0),
        "set_up.started_at",
    ),
    ("a set-up at no time", "ring", set_to("set_up.started_at", "never"), "set_up.started_at"),
    ("trial 0 of a set-up", "in", set_to("set_up.trial", 0), "set_up.trial"),
    ("block 7 of 1", "out", set_to("plan.block", 7), "plan.block"),
    ("block 0", "ring", set_to("plan.block", 0), "plan.block"),
    ("repetition 9 of 2", "job", set_to("plan.repetition", 9), "plan.repetition"),
    ("attempt 4 of 3", "boot", set_to("plan.attempt", 4), "plan.attempt"),
    ("500 attempts", "in", set_to("plan.attempts", 500), "plan.attempts"),
    ("position 0", "route", set_to("plan.position", 0), "plan.position"),
    ("a margin of 150 %", "disk", set_to("plan.margin_ratio", 1.5), "plan.margin_ratio"),
    ("done, and why nothing can be concluded", "route", set_to("failure", "it broke"), "failure"),
    ("failed, and valid", "job", set_to("status", "failed"), "status"),
    ("valid, with a doubt", "in", set_to("verdict.reasons", reasons("start_skew")), "verdict.status"),
    ("a doubt that the record does not show", "route", set_to("verdict", SKEW), VERDICT),
    ("a code that nobody knows", "job", set_to("verdict", judged("suspect", "bad_luck")), "verdict.reasons[0].code"),
    ("one code twice", "out", set_to("verdict", judged("suspect", "guests_changed", "guests_changed")), VERDICT),
    (
        "a reason that follows one that is not there",
        "ring",
        set_to("verdict", judged("suspect", "guests_changed", follows="link_lost")),
        "verdict.reasons[0].follows",
    ),
    (
        "a tolerance that nobody knows",
        "boot",
        set_to("in_force.tolerances.patience", 1),
        "in_force.tolerances.patience",
    ),
    (
        "a tolerance above all",
        "job",
        set_to("in_force.tolerances.offered_ratio", 7.0),
        "in_force.tolerances.offered_ratio",
    ),
    ("processors 170 % busy", "route", set_to("influences.0.busy_ratio", 1.7), "influences[0].busy_ratio"),
    (
        "processors busy for longer than there was time",
        "job",
        set_to("influences.0.used_s.ours", 90.0),
        "influences[0].used_s",
    ),
    (
        "processors watched for longer than the trial",
        "in",
        set_to("influences.0.window_s", 200.0),
        "influences[0].window_s",
    ),
    (
        "a process on more processors than there are",
        "out",
        influence(kind="process", whose="ours", cpu_ratio=3.0),
        "influences[1].cpu_ratio",
    ),
    ("another program that is no doubt", "boot", influence(kind="process", whose="other", cpu_ratio=0.9), VERDICT),
    ("stolen time that is no doubt", "ring", set_to("influences.0.steal_ratio", 0.5), VERDICT),
    ("unseen load that is no doubt", "job", set_to("influences.0.unseen_ratio", 0.8), VERDICT),
    ("something not observed that is no doubt", "route", influence(kind="not_observed"), VERDICT),
    ("pages swapped back", "in", set_to("swapped_pages", -5), "swapped_pages"),
    ("pages swapped in a valid trial", "disk", set_to("swapped_pages", 7), VERDICT),
    # guests that send
    ("three times what the link carries", "out", link(29_000_000), "flows"),
    ("more than the link carries, and no doubt", "out", link(80_000_000), VERDICT),
    ("a link without speed", "ring", set_to("link_speed_bps", 0), "link_speed_bps"),
    (
        "a limiter that dropped 50 000 of 12 385",
        "out",
        set_to("senders.0.limiter.dropped_packets", 50_000),
        "senders[0].limiter.dropped_packets",
    ),
    ("packets that passed no limiter", "out", set_to("senders.0.limiter.passed_packets", 12), VERDICT),
    ("a limit that was another one", "out", set_to("senders.1.limiter.rate_bps", 31_000_000), VERDICT),
    ("a limit that was not there", "out", set_to("senders.1.limiter", None), VERDICT),
    ("a burst below zero", "out", set_to("senders.1.limiter.burst_bytes", -1), "senders[1].limiter.burst_bytes"),
    (
        "two limiters on one interface",
        "out",
        set_to("senders.1.limiter.interface", "lcq1"),
        "senders[1].limiter.interface",
    ),
    ("two guests of one MAC address", "out", set_to("senders.1.mac", "02:6C:77:00:00:00"), "senders[1].mac"),
    ("two guests of one address", "out", set_to("senders.1.address", "198.18.64.1"), "senders[1].address"),
    ("two guests behind one interface", "out", set_to("senders.1.host_interface", "lcg1"), "senders[1].host_interface"),
    ("two flows of one port", "out", set_to("flows.1.udp_source_port", 20_000), "flows[1].udp_source_port"),
    ("a flow of a guest that does not send", "out", set_to("flows.1.guest", "g9"), "flows[1].guest"),
    ("a last packet before the first", "out", set_to("flows.0.last_at_ns", 5), "flows[0].last_at_ns"),
    (
        "packets that came at no time",
        "out",
        several(set_to("flows.0.first_at_ns", None), set_to("flows.0.last_at_ns", None)),
        "flows[0].packets",
    ),
    (
        "packets in bins after the last one",
        "out",
        set_to("flows.0.bin_packets", [0, 0, 0, 0, 0, 0, 0, 2477 * 5]),
        "flows[0].bin_packets",
    ),
    ("an origin without a packet", "out", set_to("origin_ns", lambda held: held - 10**9), "origin_ns"),
    ("frames of another size", "out", set_to("flows.0.bytes", 12), VERDICT),
    ("more at the sink than came out of the guest", "out", set_to("senders.0.host_packets", 12_000), VERDICT),
    ("a guest whose sender failed", "out", set_to("senders.0.exit_status", 1), VERDICT),
    ("a guest that did not answer", "out", set_to("senders.0.exit_status", None), VERDICT),
    ("more captured than the NIC got", "out", set_to("sink.nic_packets", 10), VERDICT),
    ("less captured than the NIC got", "beside", set_to("sink.nic_packets", lambda held: held + 900), VERDICT),
    ("a capture that missed packets", "weights", set_to("sink.dropped_packets", 900), VERDICT),
    ("a NIC that was not read", "out", set_to("sink.nic_packets", None), VERDICT),
    ("more control traffic than other packets", "out", set_to("sink.control_packets", 3), "sink.control_packets"),
    ("more fragments than packets", "out", set_to("sink.fragments", 10**7), "sink.fragments"),
    ("packets of others that are no doubt", "out", strangers, VERDICT),
    ("packets for less time than was asked for", "out", set_to("requested.duration_s", 6.0), VERDICT),
    ("sending for more time than was asked for", "in", set_to("requested.duration_s", 1.5), VERDICT),
    (
        "a digest that is none",
        "out",
        set_to("program", {"name": "iperf", "sha256": ["abc"], "unknown": 0}),
        "program.sha256",
    ),
    (
        "several files of one program",
        "out",
        set_to("program", {"name": "iperf", "sha256": ["a" * 64, "b" * 64], "unknown": 0}),
        VERDICT,
    ),
    (
        "a file that is not known of more guests than there are",
        "out",
        set_to("program", {"name": "iperf", "sha256": [], "unknown": 5}),
        "program",
    ),
    ("a trial of 1 s with 5 s of packets", "out", set_to("finished_at", at(0, 11)), "flows"),
    ("a bin longer than the trial", "in", set_to("requested.bin_s", 60.0), "requested"),
    ("weights that took effect in another order", "weights", set_to("weights.steps.0.taken_s", 1.5), "weights.steps"),
    (
        "a queue in use before it was looked at",
        "weights",
        set_to("weights.looked_ns", lambda held: held + 10**6),
        "weights.looked_ns",
    ),
    ("a queue that was seen late", "weights", set_to("weights.looked_ns", lambda held: held - 10**9), VERDICT),
    ("rates that were not those of the weights", "weights", set_to("weights.steps.0.rates_bps.0", 1_000_000), VERDICT),
    ("weights that did not last", "weights", set_to("weights.steps.1.kept_bps", [1, 1]), VERDICT),
    ("a worker that sends as well", "beside", set_to("disk.guest", "g1"), "disk.guest"),
    ("work that ended before it began", "beside", set_to("disk.end_ns", 5), "disk.end_ns"),
    ("marks that were no packets", "beside", set_to("disk.mark_packets", 0), "disk.mark_packets"),
    ("work on a disk that was not asked for", "beside", set_to("disk.job", "disk-zero"), "disk.job"),
    ("the second flow of one", "out", set_to("flows.0.flow", 2), "flows"),
    ("work on a disk that failed", "beside", set_to("disk.exit_status", 1), VERDICT),
    ("a mark that did not come", "beside", set_to("disk.start_ns", None), VERDICT),
    # a ring, and guests that are sent to
    ("a link that carries more than its speed", "ring", set_to("line_bps", lambda held: held * 2), "line_bps"),
    ("a window longer than the trial", "ring", set_to("window_s", 400.0), "window_s"),
    ("bytes below zero", "ring", set_to("ring.1.in_bytes", -1), "ring[1].in_bytes"),
    ("bytes that went nowhere", "ring", set_to("ring.1.in_bytes", 12), VERDICT),
    ("a ring of one MAC address", "ring", set_to("ring.1.mac", "02:6c:77:00:00:00"), "ring[1].mac"),
    ("a connection that failed", "ring", set_to("ring.2.exit_status", 1), VERDICT),
    ("three times the link into guests", "in", link(20_000_000), "receivers"),
    ("guests handed 12 000 of 100", "in", set_to("source.uut_packets", 100), "source.uut_packets"),
    ("a guest that read more than was sent", "in", set_to("receivers.0.sent_packets", 5000), VERDICT),
    ("more in a guest than was handed to it", "in", set_to("receivers.1.nic_packets", 9000), VERDICT),
    ("sending for longer than the trial", "in", set_to("receivers.0.sent_s", 90.0), "receivers[0].sent_s"),
    ("a reader that was not there", "in", set_to("receivers.0.reader", False), VERDICT),
    ("less on the wire than was sent", "in", set_to("source.nic_packets", 11_000), VERDICT),
    ("more at the unit under test than was sent", "in", set_to("source.uut_packets", 13_000), VERDICT),
    ("a generator's errors that are no doubt", "in", set_to("receivers.0.errors", 3), VERDICT),
    ("less sent than was asked for", "in", set_to("requested.offered_bps", 90_000_000), VERDICT),
    # routers
    ("routers given 7650 of 100", "route", set_to("in_packets", 100), "in_packets"),
    ("frames of 64 B beyond what the link carries", "route", set_to("link_speed_bps", 2_000_000), "routers"),
    ("two routers of one port", "route", set_to("routers.1.udp_source_port", 30_001), "routers[1].udp_source_port"),
    ("two routers of one MAC address", "route", set_to("routers.1.mac", "02:6c:77:00:00:00"), "routers[1].mac"),
    (
        "two routers of one MAC address inward",
        "route",
        set_to("routers.1.inbound_mac", "02:6c:77:01:00:00"),
        "routers[1].inbound_mac",
    ),
    ("one router twice", "route", doubled("routers"), "routers[1].guest"),
    ("a router without its routes", "route", set_to("routers.0.routes", 0), VERDICT),
    ("a router that lost its routes", "route", set_to("routers.1.routes_after", 1), VERDICT),
    ("a router with a filter nobody asked for", "route", set_to("routers.0.filters", 4), VERDICT),
    ("more out of a router than into it", "route", set_to("routers.0.from_packets", 8000), VERDICT),
    ("more at the sink than out of a router", "route", set_to("routers.1.from_packets", 5), VERDICT),
    ("frames that are not of their size", "route", set_to("routers.0.bytes", 12), VERDICT),
    ("a stream that broke off", "route", set_to("routers.0.stopped_by", "error"), VERDICT),
    (
        "a stream of half the time",
        "route",
        several(set_to("routers.0.sent_for_s", 1.0), set_to("routers.0.sent_pps", 4000.0)),
        VERDICT,
    ),
    ("a stream longer than the trial", "route", set_to("routers.0.sent_for_s", 300.0), "routers[0].sent_for_s"),
    ("routers loaded in less than no time", "route", set_to("routers.0.load_s", -1.0), "routers[0].load_s"),
    ("processors of the unit under test 170 % busy", "route", set_to("busy_ratio", 1.7), "busy_ratio"),
    ("less sent to routers than was asked for", "route", set_to("requested.target_pps", 9000), VERDICT),
    # jobs
    (
        "a trial of 1 s with a job of 3 s",
        "job",
        set_to("finished_at", lambda held: held.replace(":50.000", ":11.000")),
        "copies[0].outside_s",
    ),
    ("both copies of one guest", "job", doubled("copies"), "copies"),
    (
        "a guest of two MAC addresses",
        "job",
        several(set_to("copies.1.guest", "g1"), set_to("copies.1.copy_number", 2)),
        "copies[1].mac",
    ),
    ("two guests of one address in a job", "job", set_to("copies.1.address", "198.18.64.1"), "copies[1].address"),
    ("copy 0", "job", set_to("copies.1.copy_number", 0), "copies"),
    ("a status that no program has", "job", set_to("copies.0.exit_status", 999), "copies[0].exit_status"),
    ("a job that failed in a valid trial", "job", set_to("copies.0.exit_status", 1), VERDICT),
    ("work that ended before it was asked for", "job", set_to("copies.0.answered_ns", 2), "copies[0].host_s"),
    (
        "a longer time outside than around it",
        "job",
        several(set_to("copies.0.asked_ns", 2_000_000_000), set_to("copies.0.host_s", 1.010000005)),
        VERDICT,
    ),
    ("guests that did not begin together", "job", set_to("start_skew_s", 1.0), VERDICT),
    ("a mark that the timekeeper did not see", "job", set_to("copies.0.end_request_ns", None), VERDICT),
    ("an answer that did not come in time", "job", set_to("copies.0.ping_status", 1), VERDICT),
    ("a job too short for its marks", "job", set_to("empty.sd_s", 2.0), VERDICT),
    ("empty jobs that took less than no time", "job", set_to("empty.each_s.0", -0.5), "empty.each_s[0]"),
    ("strange pings that are no doubt", "job", set_to("timekeeper.strange_packets", 3), VERDICT),
    ("marks that came twice", "job", set_to("timekeeper.doubled", ["g1"]), VERDICT),
    ("marks that may be lost", "job", set_to("timekeeper.dropped_packets", 3), VERDICT),
    ("a clock that was set", "job", set_to("timekeeper.wall_moved_ns", 10**9), VERDICT),
    ("a job of size 0", "job", set_to("requested.size", 0), "requested"),
    ("more files than guests", "job", set_to("program.unknown", 9), "program"),
    ("less on the device than jobs read", "disk", set_to("disk.device_read_bytes", 5), VERDICT),
    ("a disk of a guest that did not work", "disk", set_to("disk.guests.1.guest", "g7"), "disk.guests[1].guest"),
    ("the disk of one guest twice", "disk", doubled("disk.guests"), "disk.guests[1].guest"),
    ("a device that was not read", "disk", set_to("disk.device_written_bytes", None), VERDICT),
    # starts
    ("a mark before the start command", "boot", early_mark, "guests[1].mark_ns"),
    (
        "a start shorter than its start-up",
        "boot",
        set_to("finished_at", lambda held: held.replace(":50.000", ":11.000")),
        "guests[1].mark_s",
    ),
    ("a set-up shorter than its start-up", "boot", set_to("set_up.setup_s", 0.5), "set_up.setup_s"),
    ("the second trial of a start", "boot", set_to("set_up.trial", 2), "set_up.trial"),
    (
        "guests with more memory than the host has",
        "boot",
        set_to("memory.pss_bytes", 2 * MEMORY_BYTES),
        "memory.pss_bytes",
    ),
    (
        "more memory free than there is",
        "boot",
        set_to("memory.available_before_bytes", 2 * MEMORY_BYTES),
        "memory.available_before_bytes",
    ),
    ("a quiet time longer than the trial", "boot", set_to("memory.quiet_s", 300.0), "memory.quiet_s"),
    ("pages shared below zero", "boot", set_to("memory.ksm_pages_sharing", -3), "memory.ksm_pages_sharing"),
    (
        "more pages in memory than memory",
        "hot",
        several(set_to("files.0.pages", 10**8), set_to("files.0.cached_pages", 10**8)),
        "files",
    ),
    ("one file twice", "boot", set_to("files", lambda held: held * 2), "files[1].path"),
    ("a cold start from memory", "boot", set_to("files.0.cached_pages", 12), VERDICT),
    ("a hot start from the disk", "hot", set_to("files.0.cached_pages", 12), VERDICT),
    (
        "a start of which no page is known",
        "hot",
        several(set_to("files.0.pages", 0), set_to("files.0.cached_pages", 0)),
        VERDICT,
    ),
    ("a mark that was lost", "boot", set_to("guests.0.mark_ns", None), VERDICT),
    ("a guest that did not come", "hot", set_to("guests.0.ready_ns", None), VERDICT),
    (
        "mark and word far apart",
        "boot",
        several(set_to("guests.0.ready_ns", lambda held: held + 3 * 10**9)),
        "guests[0].ready_s",
    ),
    ("two guests of one MAC address in a start", "boot", set_to("guests.1.mac", "02:6c:77:00:00:01"), "guests[1].mac"),
    ("two guests of one address in a start", "boot", set_to("guests.1.address", "198.18.64.1"), "guests[1].address"),
    ("a strange mark of a start", "hot", set_to("timekeeper.strange_packets", 1), VERDICT),
    ("a start that waits for no time", "boot", set_to("requested.limit_s", 0.0), "requested"),
]
"""(name, which record, change, where verify has to see it)."""

FACTS = "environment.nodes.uut.facts"
BESIDE: list[tuple[str, Change, str, str]] = [
    ("one set-up on two boots", of("route-2", set_to(f"{FACTS}.boot_id", "boot-9")), "route-2", "set_up.id"),
    ("one set-up on two platforms", of("job-2", set_to("requested.platform", "uml")), "job-2", "set_up.id"),
    ("one set-up on two testbeds", of("route-2", set_to("testbed_fingerprint", "0" * 16)), "route-2", "set_up.id"),
    ("one set-up of two plans", of("out-2", set_to("plan.name", "another")), "out-2", "set_up.id"),
    ("one set-up in two blocks", of("job-2", set_to("plan.block", 2), set_to("plan.set_ups", 2)), "job-2", "set_up.id"),
    ("one set-up with other guests", of("job-2", set_to("requested.memory_mib", 512)), "job-2", "set_up.id"),
    ("one set-up of two operators", of("out-2", set_to("operator", "bob@desk")), "out-2", "set_up.id"),
    ("one set-up begun twice", of("route-2", set_to("set_up.started_at", at(18, 3))), "route-2", "set_up.id"),
    ("one set-up of two durations", of("out-2", set_to("set_up.setup_s", 1.5)), "out-2", "set_up.id"),
    ("one set-up of two configurations", of("job-2", set_to("attestation.driver", "qemu")), "job-2", "set_up.id"),
    ("two trials of a set-up at one time", of("route-2", set_to("started_at", at(18, 20))), "route-2", "set_up.trial"),
    ("two first trials of a set-up", of("out-2", set_to("set_up.trial", 1)), "out-2", "set_up.trial"),
    (
        "trials of a set-up in another order",
        lambda records: (set_to("set_up.trial", 2)(records["job"]), set_to("set_up.trial", 1)(records["job-2"])),
        "job",
        "set_up.trial",
    ),
    (
        "trials of two set-ups at one time",
        of(
            "ring",
            set_to("started_at", at(15, 20)),
            set_to("finished_at", at(15, 40)),
            set_to("set_up.started_at", at(15, 15)),
        ),
        "ring",
        "started_at",
    ),
    ("one hash of two design points", same("plan.hash", "route", "route-2"), "route-2", "requested"),
    (
        "a trial that was complete, taken again in its set-up",
        lambda records: (
            same("plan.hash", "job", "job-2")(records),
            set_to("plan.repetition", 1)(records["job-2"]),
            set_to("plan.attempt", 2)(records["job-2"]),
        ),
        "job-2",
        "plan",
    ),
    (
        "one attempt twice in a set-up",
        lambda records: (same("plan.hash", "job", "job-2")(records), set_to("plan.repetition", 1)(records["job-2"])),
        "job-2",
        "plan.attempt",
    ),
    ("one boot of two kernels", of("in", set_to(f"{FACTS}.kernel", "6.6")), "in", f"{FACTS}.kernel"),
    ("a testbed that is emulated now and then", of("in", set_to("emulated", True)), "in", "emulated"),
]
"""(name, change to all, which record is told of, where)."""

COLUMNS = {
    "platform": "raw",
    "started_at": "2020-01-01T00:00:00.000000Z",
    "testbed": "elsewhere",
    "testbed_fingerprint": "0" * 16,
    "plan_name": "another",
    "plan_hash": "job-0",
    "status": "failed",
    "id": "20200101T000000Z-ffffff",
}
"""What the table experiments is made to say of a record, column by column."""


def stored_guests(path: Path, guests: dict[str, Stored]) -> None:
    """A store of these."""
    with open_store(str(path)) as store:
        for name, (kind, data) in guests.items():
            of_kind = record_kinds()[kind]
            store.save_experiment(of_kind, parse_experiment(of_kind, json.dumps(data), name))


def change_column(path: Path, record_id: str, column: str, value: str) -> None:
    """In the table, and not in the record."""
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE experiments SET {column} = ? WHERE id = ?", (value, record_id))  # noqa: S608
    connection.close()
