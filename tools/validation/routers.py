"""Guests that forward, and guests in a ring, whose results are known beforehand: routes that are counted back, packets
that a rule in one router drops, a cost per packet that was put there beside routes that should cost nothing, a limit on
one guest of a ring. Real commands on a lab.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from tables import OF_GUESTS, Deadline, RowMaker, Table, measure, testbed

from labconsole.experiments.flow.record import FlowRecord
from labconsole.experiments.flow.ring import BYTES_ERROR
from labconsole.experiments.route.rates import build_hops
from labconsole.experiments.route.record import RouteRecord
from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from support.live_lab import COMMAND, wait_until
from support.route_lab import inside_router, processes_of_guest

ROUTERS = ("container", "lxc")
RINGS = ("container", "lxc", "uml")
MANY, DESTINATIONS = 100_000, 4096
DROPPED_PERCENT, OF, AT = 7, 4, 3
RULES = 20
MARGIN_RATIO = 0.02
DIFFERENT = ("different", "different on the average")
COMPARISONS = 6
"""Routes without and with rules, rules without and with routes, and the mean of either."""

QUICK_S = 5.0
"""So long giving routes may take, and taking them back."""

RING_MBPS, RING_RATIO = 64.0, 0.05
"""A limit counts a large segment's headers once for each of its frames, the interface once in all."""

TRIAL_S, REPLAY_S = 300.0, 1200.0
PLAN = f"""\
plan: routers
platforms: [PLATFORM]
set_ups: 9
repetitions: 1
margin: {MARGIN_RATIO:.0%}
order: blocked-random
seed: 1
settle_s: 0.5
max_redo: 2
route:
  guests: [1]
  routes: [0, {MANY}]
  destinations: [{DESTINATIONS}]
  filters: [0, {RULES}]
  targets: [max]
  frame_sizes: [64]
  duration_s: 4.0
"""
LOSING = (
    "table ip seen { counter lost { }; chain c { type filter hook forward priority 0; "
    f"numgen inc mod 100 < {DROPPED_PERCENT} counter name lost drop; }}; }}"
)


def _command(hosts: Path, *words: str) -> list[str]:
    return [*COMMAND, *words, "--hosts", str(hosts), "--store", str(hosts.parent / "routers.sqlite")]


def _said(argv: list[str], limit_s: float = TRIAL_S) -> list[dict[str, Any]]:
    """The lines that a command says. Raises RuntimeError when it ends otherwise than well."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=limit_s, check=False)
    if done.returncode:
        raise RuntimeError(f"labconsole {argv[3]} ended with {done.returncode}: {done.stderr[-600:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def routers(deadline: Deadline) -> Table:
    """One trial of each row, but of what routes and rules change nine set-ups."""
    table = Table("19. Routers and rings", OF_GUESTS)
    table.summary = (
        "What a rule of nftables drops is its own count. What routes and filter rules change is a replay's and its "
        f"report's: nine set-ups, as fast as the source can, with and without {MANY} routes, with and without {RULES} "
        "rules that match nothing. The method that finds no cost of routes has to find the cost of rules, in the mean over "
        "both numbers of routes. Where source, router and sink share two processors, nine set-ups are too few to show at "
        f"one number of rules by itself that there is no change within {MARGIN_RATIO:.0%}; the mean over both may show it."
    )
    spec = LabSpec(name=f"valid{os.getpid()}r", sources=1, platforms=("raw", *RINGS), jobs=True)
    wanted: list[tuple[str, RowMaker]] = [
        *((platform, row) for platform in ROUTERS for row in (_many, _undone, _loss, _changes)),
        *((platform, _ring) for platform in RINGS),
    ]
    try:
        with testbed(spec) as (name, hosts):
            measure(table, deadline, wanted, name, hosts)
    except Exception as exc:
        table.not_done("routers", exc)
    return table


def _asked(hosts: Path, platform: str, *words: str) -> list[str]:
    return _command(hosts, "experiment", "route", "--platforms", platform, "--json", *words)


def _many(table: Table, platform: str, _: str, hosts: Path) -> None:
    """All routes that were asked for are there, and no packet is lost in a router that has them."""
    told = ("--routes", str(MANY), "--destinations", str(DESTINATIONS), "--targets", "5kpps", "--duration", "5")
    (said,) = _said(_asked(hosts, platform, *told))
    (router,) = RouteRecord.model_validate(said["route"]).routers
    there, lost = router.routes_after, (router.sent_packets or 0) - router.packets
    table.judge(
        platform,
        1,
        f"{MANY + DESTINATIONS} routes, and none of {router.sent_packets} packets lost",
        f"{there} routes, {lost} lost",
        "to the route and the packet",
        right=router.routes == there == MANY + DESTINATIONS and lost == 0,
    )
    table.judge(
        platform,
        1,
        f"{MANY + DESTINATIONS} routes are given in a time that can be waited for",
        "not known" if router.load_s is None else f"{router.load_s:.1f} s",
        f"{QUICK_S:g} s",
        right=router.load_s is not None and router.load_s <= QUICK_S,
    )


def _undone(table: Table, platform: str, name: str, hosts: Path) -> None:
    """The console is killed while a router forwards: the router and its routes go by themselves."""
    told = ("--routes", str(MANY), "--destinations", str(DESTINATIONS), "--targets", "5kpps", "--duration", "120")
    process = subprocess.Popen(
        _asked(hosts, platform, *told), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )

    def arrived() -> int:
        if process.poll() is not None:
            raise RuntimeError(process.stderr.read() if process.stderr is not None else "")
        return int(lab.execute(name, "snk1", ["cat", "/sys/class/net/eth1/statistics/rx_packets"]).stdout)

    try:
        base = arrived()
        wait_until(lambda: arrived() > base + 500, timeout_s=120, what="nothing was sent")
        routes = len(inside_router(name, 1, "ip", "route").splitlines())
    finally:
        process.kill()
        killed_s = time.monotonic()
        process.communicate()
    wait_until(
        lambda: (
            processes_of_guest(name, 1) == [] and "lcg" not in lab.execute(name, "uut", ["ip", "-o", "link"]).stdout
        ),
        timeout_s=60,
        what="the router is still there",
    )
    took_s = time.monotonic() - killed_s
    table.judge(
        platform,
        1,
        f"a router with {routes} routes is gone after its console was killed",
        f"after {took_s:.1f} s",
        f"{QUICK_S:g} s",
        right=routes >= MANY + DESTINATIONS and took_s <= QUICK_S,
    )


def _loss(table: Table, platform: str, name: str, hosts: Path) -> None:
    """Packets are dropped in the third of four routers, and counted by what drops them."""
    words = _asked(hosts, platform, "--guests", str(OF), "--targets", "4kpps", "--duration", "6")
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def arrived() -> int:
        if process.poll() is not None:
            raise RuntimeError(process.stderr.read() if process.stderr is not None else "")
        return int(lab.execute(name, "snk1", ["cat", "/sys/class/net/eth1/statistics/rx_packets"]).stdout)

    dropped = 0
    try:
        base = arrived()
        wait_until(lambda: arrived() > base + 500, timeout_s=60, what="nothing was sent")
        inside_router(name, AT, "nft", LOSING)
        while process.poll() is None:
            try:
                said = json.loads(inside_router(name, AT, "nft", "-j", "list", "counters"))["nftables"]
                dropped = next(int(each["counter"]["packets"]) for each in said if "counter" in each)
            except (AssertionError, ValueError, StopIteration):
                pass  # the router has gone: so has the console, soon
            time.sleep(0.05)
        out, errors = process.communicate(timeout=TRIAL_S)
    finally:
        process.kill()
    if process.returncode:
        raise RuntimeError(f"labconsole experiment route ended with {process.returncode}: {errors[-600:]}")
    record = RouteRecord.model_validate(json.loads(out)["route"])
    lost = [build_hops(each).inside for each in record.routers]
    nowhere_else = all((build_hops(each).before, build_hops(each).behind) == (0, 0) for each in record.routers)
    table.judge(
        platform,
        OF,
        f"in the third {dropped} packets are dropped, in the others none",
        ", ".join(map(str, lost)),
        "to the packet",
        right=lost == [0, 0, dropped, 0] and dropped > 0 and nowhere_else,
    )


def _changes(table: Table, platform: str, _: str, hosts: Path) -> None:
    """What a replay and its report find of routes, and of the rules beside them."""
    plan, out = hosts.parent / f"{platform}.yaml", hosts.parent / f"out-{platform}"
    plan.write_text(PLAN.replace("PLATFORM", platform).replace("plan: routers", f"plan: routers-{platform}"))
    _said(_command(hosts, "replay", str(plan), "--json"), REPLAY_S)
    store = ["--store", str(hosts.parent / "routers.sqlite")]
    subprocess.run(
        [*COMMAND, "report", "--plan", str(plan), "--out", str(out), *store], check=True, capture_output=True
    )
    with (out / "route-changes.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["platform"] == platform]
    for row in rows:
        if not row["change_ci_low"]:
            table.not_done(platform, RuntimeError(f"the report has no interval: {row}"))
            continue
        low, high = float(row["change_ci_low"]), float(row["change_ci_high"])
        found = f"{float(row['change']):+.1%} [{low:+.1%}, {high:+.1%}], {row['word']}"
        routes = row["varied"] == "routes"
        level = f"{row['filters']} rules" if routes else f"{row['routes']} routes"
        beside = f"mean over {row['mean_over']}" if row["mean_over"] else f"beside {level}"
        if routes:
            known, allowed, right = f"{MANY} routes change nothing", "not different", row["word"] not in DIFFERENT
        elif row["mean_over"]:
            known, allowed, right = f"{RULES} rules cost something in each packet", "below 0", high < 0
        else:
            known, allowed, right = f"{RULES} rules cost something in each packet", "not above 0", low < 0
        table.judge(platform, 1, f"{known}, {beside}", found, allowed, right=right)
    if len(rows) != COMPARISONS:
        raise RuntimeError(f"the report compares {len(rows)} times, not {COMPARISONS}")


def _ring(table: Table, platform: str, _: str, hosts: Path) -> None:
    """Of three guests in a ring the first is held to a rate, and each gets what the one before it sends."""
    limits = f"{RING_MBPS:g}Mbit,200Mbit,200Mbit"
    words = ["experiment", "flow", "--platforms", platform, "--json", "--pattern", "ring", "--guests", "3"]
    (said,) = _said(_command(hosts, *words, "--limits", limits, "--duration", "5"))
    record = FlowRecord.model_validate(said["flow"])
    first, *others = record.ring
    found = (first.out_bps or 0.0) / 1e6
    free = all((each.out_bps or 0.0) / 1e6 > RING_MBPS * (1 + RING_RATIO) for each in others)
    table.judge(
        platform,
        3,
        f"in a ring, the first limited to {RING_MBPS:g} Mbit/s of frames",
        f"{found:.2f} Mbit/s",
        f"± {RING_RATIO * RING_MBPS:.2f} Mbit/s, the others beyond it",
        right=abs(found - RING_MBPS) <= RING_RATIO * RING_MBPS and free,
    )
    out, into = (sum(getattr(each, way) or 0 for each in record.ring) for way in ("out_bytes", "in_bytes"))
    table.judge(
        platform,
        3,
        "in a ring, what came out of all guests went into them",
        f"{out} bytes out, {into} in",
        f"± {BYTES_ERROR:.0%}",
        right=out > 0 and abs(out - into) <= BYTES_ERROR * out,
    )
