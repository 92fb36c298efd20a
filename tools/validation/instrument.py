"""The observer effect, and what search and calibrate find where the lab sets the limit: real commands on labs of their own."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tables import NO, YES, Deadline, Table

from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from labconsole.model.design_point import FrameSize
from support.live_lab import labconsole

PAIRS = 7
BOTTLENECK_BPS = 40_000_000
BUFFER_BYTES = 2_000_000
BURST_BYTES = 6_000
NARROWED_TRIALS_S = (0.5, 1.0, 5.0)
NARROWED_RATIO = 0.01
MARKS = {"buffered", "rate_uncertain"}
"""By them a reader knows that a forwarding rate may be further off."""
SEARCH_S = 4.0
CAP_BPS = 20_000_000
CAP_RATIO = 0.06


@contextmanager
def _testbed(letter: str, **options: Any) -> Iterator[tuple[lab.LabStatus, Path]]:
    """A lab with one source, and its hosts.yaml in a directory that also takes the store."""
    name = f"valid{os.getpid()}{letter}"
    try:
        status = lab.up(LabSpec(name=name, sources=1, **options))
        with tempfile.TemporaryDirectory() as directory:
            hosts = Path(directory) / "hosts.yaml"
            hosts.write_text(status.hosts_file.read_text().replace("drain_s: 1", "drain_s: 0.2"))
            yield status, hosts
    finally:
        lab.down(name)


def _printed(hosts: Path, *words: str) -> list[dict[str, Any]]:
    """The JSON lines of a command that has to succeed."""
    done = labconsole(*words, "--json", hosts=hosts, store=hosts.parent / "runs.sqlite")
    if done.returncode != 0:
        raise RuntimeError(f"labconsole {words[0]} ended with {done.returncode}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def observer_effect(deadline: Deadline) -> Table:
    """Quiet and live in pairs, far below the UUT's limit and at the generator's maximum."""
    columns = (
        "target",
        "quiet runs",
        "live runs",
        "loss, live - quiet",
        "measured rate, live - quiet",
        "lossless",
        "finding",
    )
    table = Table("3. The observer effect", columns)
    table.summary = (
        "Means of the differences with Welch's 95 % interval. The lab drops nothing by itself, so that every run must be "
        "lossless either way; a difference of rates is a finding and not a failure, and one in twenty is chance."
    )
    try:
        with _testbed("o") as (_, hosts):
            for target in ("20Mbit", "max"):
                if deadline.passed:
                    raise TimeoutError("no time was left")
                words = ("check", "--observer-effect", str(PAIRS), "--target", target, "--duration", "0.5")
                (effect,) = _printed(hosts, *words)
                _observed(table, target, effect)
    except Exception as exc:
        table.not_done("observer effect", exc)
    return table


def _observed(table: Table, target: str, effect: dict[str, Any]) -> None:
    used = {
        kind: [r for r in effect["runs"] if r["observe"] == kind and r["status"] != "invalid"]
        for kind in ("quiet", "live")
    }
    lossless = all(run["loss_ratio"] == 0 for runs in used.values() for run in runs)
    enough = all(len(runs) == PAIRS for runs in used.values())
    loss, rate = effect["loss_ratio"], effect["measured_pps"]
    finding = "too few runs" if loss is None or rate is None else effect["sentence"].partition(":")[0].partition("(")[0]
    table.add(
        target,
        len(used["quiet"]),
        len(used["live"]),
        _difference(loss, 100, "%", ".4f"),
        _difference(rate, 1, " pps", ".0f"),
        YES if lossless else NO,
        finding,
        failure=None if lossless and enough else effect["sentence"],
    )


def _difference(found: dict[str, Any] | None, factor: float, unit: str, form: str) -> str:
    if found is None:
        return "not known"
    low, high = (found[key] for key in ("ci_low", "ci_high"))
    reach = "" if low is None else f" ({low * factor:+{form}} to {high * factor:+{form}})"
    return f"{found['mean'] * factor:+{form}}{unit}{reach}"


def known_limits(deadline: Deadline) -> Table:
    """A bottleneck that search must bracket, a shaper that calibrate must find."""
    table = Table("5. Limits that the lab sets", ("command", "what the lab sets", "that is", "found", "must", "does"))
    for word, measure in (("narrowed link", _narrowed), ("calibrate", _calibrate)):
        _guarded(table, word, measure, deadline)
    return table


def _guarded(table: Table, word: str, measure: Callable[[Table], None], deadline: Deadline) -> None:
    try:
        if deadline.passed:
            raise TimeoutError("no time was left")
        measure(table)
    except Exception as exc:
        table.not_done(word, exc)


def _narrowed(table: Table) -> None:
    """The UUT's way out sends at most BOTTLENECK_BPS behind a queue that takes half a second to empty.

    The queue counts a frame as it was handed to it: without FCS, preamble and gap.
    """
    own_pps = BOTTLENECK_BPS / (8 * 1500)
    what = f"the UUT sends {BOTTLENECK_BPS / 1e6:g} Mbit/s, buffers {BUFFER_BYTES // 1000} kB"
    band = f"{own_pps:.0f} pps"
    with _testbed("s", link_speed_bps=100_000_000) as (status, hosts):
        rate = ["rate", f"{BOTTLENECK_BPS}bit", "burst", str(BURST_BYTES), "limit", str(BUFFER_BYTES)]
        done = lab.execute(status.spec.name, "uut", ["tc", "qdisc", "replace", "dev", "eth5", "root", "tbf", *rate])
        if done.status != 0:
            raise RuntimeError(done.stderr)
        for trial_s in NARROWED_TRIALS_S:
            (run,) = _printed(
                hosts, "run", "--frame-size", "1500", "--target", f"{2 * BOTTLENECK_BPS}bit", "--duration", str(trial_s)
            )
            _forwarded(table, run, trial_s, own_pps, what)
        *_, result = _printed(
            hosts,
            "search",
            "--frame-size",
            "1500",
            "--goals",
            "pdr-0.5%",
            "--trial-duration",
            str(SEARCH_S),
            "--duration-sum",
            str(SEARCH_S),
        )
    (found,) = result["search"]["goals"]
    low, high = found["lower_bound_pps"], found["upper_bound_pps"]
    forwarded_pps = found["conditional_throughput_pps"]
    near = abs(forwarded_pps / own_pps - 1) <= NARROWED_RATIO
    right = near and low <= own_pps * (1 + NARROWED_RATIO) and high >= own_pps and found["limited_by"] == "uut"
    table.add(
        "search, 1500 B, up to 0.5 % loss",
        what,
        band,
        f"{low:.0f} to {high:.0f} pps, forwards {forwarded_pps:.0f}, limited by {found['limited_by']}",
        f"forward what the link does, within {NARROWED_RATIO:.0%}, and blame the UUT",
        YES if right else NO,
        failure=None if right else "the search did not find the link's own rate",
    )


def _forwarded(table: Table, run: dict[str, Any], trial_s: float, own_pps: float, what: str) -> None:
    """One trial's forwarding rate against the link's own, or the mark by which a reader knows that it is not that."""
    found_pps, codes = run["total"]["forwarding_pps"], [reason["code"] for reason in run["verdict"]["reasons"]]
    marked = run["verdict"]["status"] == "invalid" or not MARKS.isdisjoint(codes)
    near = found_pps is not None and abs(found_pps / own_pps - 1) <= NARROWED_RATIO
    rate = "no rate" if found_pps is None else f"{found_pps:.0f} pps ({found_pps / own_pps - 1:+.2%})"
    table.add(
        f"run, 1500 B, {trial_s:g} s at twice the link",
        what,
        f"{own_pps:.0f} pps",
        f"{rate}, {run['total']['late_packets']} packets late" + (", marked" if marked else ""),
        f"be within {NARROWED_RATIO:.0%}, or marked",
        YES if near or marked else NO,
        failure=None if near or marked else "the forwarding rate is not the link's",
    )


def _calibrate(table: Table) -> None:
    """The source is shaped; its inventory believes in links of 1 Gbit/s."""
    with _testbed("c", link_speed_bps=CAP_BPS, loss={"uut/in": 0.5}) as (_, hosts):
        hosts.write_text(hosts.read_text().replace("link_speed: 20Mbit", "link_speed: 1Gbit"))
        (envelope,) = _printed(
            hosts, "calibrate", "--frame-size", "500", "--sources", "1", "--duration", "0.5", "--time-limit", "20"
        )
    ((stream,),) = (point["streams"] for point in envelope["points"])
    cap_pps, found_pps = FrameSize(500).rate_pps(CAP_BPS), stream["maximum_pps"]
    near = abs(found_pps / cap_pps - 1) <= CAP_RATIO
    table.add(
        "calibrate, 500 B, generator's maximum",
        f"the source's link is shaped to {CAP_BPS / 1e6:g} Mbit/s",
        f"{cap_pps:.0f} pps",
        f"{found_pps:.0f} pps ({found_pps / cap_pps - 1:+.1%})",
        f"be within {CAP_RATIO:.0%}",
        YES if near else NO,
        failure=None if near else "the maximum is not the shaper's",
    )
    lossy, passed = stream["counters"]["lossy_pps"], envelope["proof"][0]["uut_rx_packets"]
    bypassed = lossy is None and passed == 0
    table.add(
        "calibrate, 500 B, the UUT is bypassed",
        "the UUT drops half of all packets",
        "0 packets seen there",
        f"{passed} packets, " + ("no loss at the sink" if lossy is None else f"loss from {lossy:.0f} pps"),
        "see none, lose none",
        YES if bypassed else NO,
        failure=None if bypassed else "the UUT was not bypassed",
    )
