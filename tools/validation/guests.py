"""Jobs in guests of LXC, User-mode Linux and QEMU whose time is known beforehand, and crews of many: real commands on labs
of their own.
"""

from __future__ import annotations

import datetime
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from tables import NO, YES, Deadline, RowMaker, Table, measure, take

from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from support.changed_starts import FILL, MIB, TOUCH, TOUCHED_BYTES, with_start
from support.disk_throttle import BYTES_PER_S, hold_back, limit_of, node_throttled, throttled
from support.live_lab import COMMAND, lab_state, wait_until

PLATFORMS = ("lxc", "uml", "qemu-virtio")
WAIT_S = 20
WAIT_ERROR_S = {"lxc": 0.005, "uml": 0.1, "qemu-virtio": 0.1}
DIGITS = {"raw": "3000", "lxc": "3000", "uml": "3000", "qemu-virtio": "1500"}
"""Of the square root of 2: one to three seconds."""

SHARE_RATIO = 0.15
"""How far a job on a part of a processor may be from what the part says."""

PAIRS = 3
"""Of a job alone and one on a part of a processor, next to each other, of whose ratios a row takes the median: where the
machine is itself a guest, single ones were up to 15 % off, either way."""

AT_WORK = {20: "1500", 100: "1000"}
"""Guests that all use the processor, and digits of the square root of 2 that each finds."""

OWN_S = 2.0
"""What a trial of 20 guests may take beside their boot and their work."""

SLOWED = 6
"""An instruction takes 2^6 ns of the guest's time, which is not how long it takes."""

CREWS = (("container", 100, 10.0), ("lxc", 100, 10.0), ("uml", 50, 120.0), ("qemu-virtio", 20, 180.0))
"""Platform, guests, and in how many seconds they have to stand."""

GONE_S = 5.0
DRIVING_RATIO = 0.01
TRIAL_S = 900.0

START_S, START_ERROR_S = 2.0, {"lxc": 0.1, "uml": 0.3, "qemu-virtio": 0.3}
START_TIMES = {"lxc": 3, "uml": 5, "qemu-virtio": 5}
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
LARGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
GUEST_MIB = 256
"""Of each guest that fills all of it."""

MEMORY_TIMES = 3
"""Trials of either size, of which a row takes the least: one kernel of User-mode Linux in six touches a block of 4 MiB that
the others leave alone, never one less."""

COLD_BYTES, COLD_TIMES = {"uml": 24 * MIB, "qemu-virtio": 64 * MIB}, 3
COLD_RATIO = 0.1
"""How far a cold start's reading may be from what its bytes take."""

READ_MIB = 64
READ_RATIO = 0.05
"""How far a throttled read may be from what its bytes take."""

Job = dict[str, Any]


@contextmanager
def _testbed(letter: str, platforms: Sequence[str], **options: Any) -> Iterator[tuple[str, Path]]:
    """A lab with one source: its name, and its hosts.yaml in a directory that also takes the stores."""
    name = f"valid{os.getpid()}{letter}"
    try:
        status = lab.up(LabSpec(name=name, sources=1, platforms=tuple(platforms), **options))
        with tempfile.TemporaryDirectory() as directory:
            hosts = Path(directory) / "hosts.yaml"
            hosts.write_text(_with_slowed(status.hosts_file.read_text()))
            yield name, hosts
    finally:
        lab.down(name)


def _with_slowed(text: str) -> str:
    """One platform more: QEMU with a clock of its own."""
    if "  qemu-virtio: " not in text:
        return text
    entry = text[text.index("  qemu-virtio: ") : text.index("\ndefaults:")].rstrip()
    entry = entry.replace("qemu-virtio:", "qemu-icount:").replace("driver: qemu,", f"driver: qemu, icount: {SLOWED},")
    return text.replace("\ndefaults:", f"\n{entry}\ndefaults:")


def _command(hosts: Path, *words: str) -> list[str]:
    return [*COMMAND, "experiment", "job", "--hosts", str(hosts), "--store", str(hosts.parent / "jobs.sqlite"), *words]


def _taken(hosts: Path, platform: str, *words: str, statuses: tuple[int, ...] = (0,)) -> list[Job]:
    """What the command says of each trial; Raises RuntimeError when it ends otherwise."""
    argv = _command(hosts, "--platforms", platform, "--json", *words)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=TRIAL_S, check=False)
    if done.returncode not in statuses:
        raise RuntimeError(f"labconsole experiment job ended with {done.returncode}: {done.stderr[-600:]}")
    return [json.loads(line)["job"] for line in done.stdout.splitlines()]


def _seconds(job: Job) -> list[float]:
    return [copy["seconds"] for copy in job["copies"]]


def known_times(deadline: Deadline) -> Table:
    """Waits, parts of a processor, a clock that is wrong, a mark that is lost."""
    table = Table("15. Jobs in guests", ("platform", "job", "known beforehand", "found", "allowed", "as it must be"))
    table.summary = (
        "By the clock outside. The parts of a processor are control groups', which labconsole sets; what a job takes with "
        f"a part of one follows by hand. Those of a quota are the median of {PAIRS} pairs with the job alone, all other rows "
        "one trial. Of guests that all use the processor each has its part of all that there are; *beside boot and work* is what "
        "is left of a trial without its longest job."
    )
    rows: list[tuple[str, RowMaker]] = [
        *((platform, _waits) for platform in PLATFORMS),
        *((platform, _quota) for platform in PLATFORMS),
        *((platform, _weights) for platform in PLATFORMS),
        *((platform, _isolation) for platform in ("raw", *PLATFORMS)),
        ("container", _at_work),
        ("qemu-icount", _wrong_clock),
        *((platform, _lost_mark) for platform in PLATFORMS),
    ]
    try:
        with _testbed("j", ("raw", "container", *PLATFORMS)) as (name, hosts):
            measure(table, deadline, rows, name, hosts)
    except Exception as exc:
        table.not_done("jobs in guests", exc)
    return table


def _row(table: Table, platform: str, job: str, known: float, found: float, allowed: float, unit: str) -> None:
    right = abs(found - known) <= allowed
    table.add(
        platform,
        job,
        f"{known:.4g} {unit}",
        f"{found:.3f} {unit}",
        f"± {allowed:.3f} {unit}",
        YES if right else NO,
        failure=None if right else f"found {found:.3f} {unit}",
    )


def _waits(table: Table, platform: str, _: str, hosts: Path) -> None:
    (job,) = _taken(hosts, platform, "--jobs", "wait", "--size", str(WAIT_S))
    allowed = max(WAIT_ERROR_S[platform], 3 * job["empty"]["sd_s"])
    _row(table, platform, f"wait of {WAIT_S} s", WAIT_S, _seconds(job)[0], allowed, "s")


def _job_s(hosts: Path, platform: str, *words: str) -> float:
    (job,) = _taken(hosts, platform, "--jobs", "cpu-sqrt2", "--size", DIGITS[platform], "--cpu", "same", *words)
    return _seconds(job)[0]


def _quota(table: Table, platform: str, _: str, hosts: Path) -> None:
    for quota in (0.5, 0.25):
        pairs = [(_job_s(hosts, platform), _job_s(hosts, platform, "--cpu-quota", str(quota))) for _ in range(PAIRS)]
        ratio = median(held_s / alone_s for alone_s, held_s in pairs)
        _row(table, platform, f"{quota:.0%} of a processor", 1 / quota, ratio, SHARE_RATIO / quota, "times alone")


def _weights(table: Table, platform: str, _: str, hosts: Path) -> None:
    _one_and_two(table, platform, hosts, "weights of 2 : 1", (1.5, 3.0), "--cpu-shares", "2048,1024")


def _isolation(table: Table, platform: str, _: str, hosts: Path) -> None:
    """The bare host's processor is shared between processes of one user (Quétier et al., 3.1.3), others between guests."""
    known = (3.0, 3.0) if platform == "raw" else (2.0, 3.0)
    _one_and_two(table, platform, hosts, "between processes" if platform == "raw" else "equal weights", known)


def _one_and_two(table: Table, platform: str, hosts: Path, what: str, known: tuple[float, float], *words: str) -> None:
    size = ("--jobs", "cpu-sqrt2", "--size", DIGITS[platform], "--cpu", "same", "--guests", "2")
    jobs = _taken(hosts, platform, *size, "--working", "one,one-two", *words)
    of = {job["requested"]["working"]: _seconds(job) for job in jobs}
    (alone_s,), (first_s, *second_s) = of["one"], of["one-two"]
    for copies, times, ratio in (
        ("one copy", known[0], first_s / alone_s),
        ("two copies", known[1], sum(second_s) / len(second_s) / alone_s),
    ):
        _row(table, platform, f"{what}, guest with {copies}", times, ratio, SHARE_RATIO * times, "times alone")


def _at_work(table: Table, platform: str, _: str, hosts: Path) -> None:
    """Many guests on few processors: all get their part, and the console needs little for itself."""
    processors = len(os.sched_getaffinity(0))
    for guests, digits in AT_WORK.items():
        size = ("--jobs", "cpu-sqrt2", "--size", digits, "--cpu", "own", "--guests", str(guests))
        jobs = _taken(hosts, platform, *size, "--working", "one,all")
        of = {job["requested"]["working"]: job for job in jobs}
        (alone_s,), times_s = _seconds(of["one"]), _seconds(of["all"])
        known = guests / processors
        ratio = sum(times_s) / len(times_s) / alone_s
        words = f"{guests} guests at work on {processors} processors"
        _row(table, platform, words, known, ratio, SHARE_RATIO * known, "times alone")
        if guests == min(AT_WORK):
            own_s = max(map(_own_s, jobs))
            table.add(
                platform,
                f"{guests} guests, beside boot and work",
                f"at most {OWN_S:g} s",
                f"{own_s:.3f} s",
                "",
                YES if own_s <= OWN_S else NO,
                failure=None if own_s <= OWN_S else f"took {own_s:.3f} s",
            )


def _own_s(job: Job) -> float:
    """Of a trial in guests that stand, what is not its longest copy."""
    begun, ended = (datetime.datetime.fromisoformat(job[key]).timestamp() for key in ("started_at", "finished_at"))
    longest_s: float = max(copy["outside_s"] for copy in job["copies"])
    return ended - begun - longest_s


def _wrong_clock(table: Table, platform: str, _: str, hosts: Path) -> None:
    """The guest's own clock has to be off, and told; the clock outside has to agree with the UUT's."""
    (job,) = _taken(hosts, platform, "--jobs", "cpu-sqrt2", "--size", DIGITS["qemu-virtio"])
    (copy,) = job["copies"]
    around_s = 2 * (job["empty"]["mean_s"] + 0.1)  # the UUT's clock holds both pings and the shell
    allowed = 0.01 * copy["outside_s"] + around_s
    _row(
        table,
        platform,
        f"clock {copy['clock_ratio']:.2f} times as fast",
        copy["host_s"],
        copy["outside_s"],
        allowed,
        "s",
    )
    told = any(note["kind"] == "clock_distorted" for note in job["influences"])
    right = abs(copy["clock_ratio"] - 1) > 0.05 and told
    table.add(
        platform,
        "the guest's own clock",
        "not 1",
        f"{copy['clock_ratio']:.3f}",
        "told",
        YES if right else NO,
        failure=None if right else "its clock ratio is not told",
    )


def _lost_mark(table: Table, platform: str, name: str, hosts: Path) -> None:
    """The timekeeper's node drops every ping after those of the eleven empty jobs."""
    rule = "icmp type echo-request limit rate over 1/day burst 22 packets drop"
    wall = f"table ip marks {{ chain in {{ type filter hook input priority 0; {rule}; }}; }}"
    assert lab.execute(name, "snk1", ["nft", wall]).status == 0
    store = hosts.parent / "lost.sqlite"
    store.unlink(missing_ok=True)
    argv = [*COMMAND, "experiment", "job", "--store", str(store), "--json"]
    try:
        subprocess.run(
            [*argv, "--hosts", str(hosts), "--platforms", platform, "--jobs", "wait", "--size", "1"],
            capture_output=True,
            timeout=TRIAL_S,
            check=False,
        )
    finally:
        lab.execute(name, "snk1", ["nft", "delete", "table", "ip", "marks"])
    listed = subprocess.run([*argv, "--list"], capture_output=True, text=True, timeout=60, check=True).stdout
    first = json.loads(listed.splitlines()[-1])["job"]  # the next attempts find no marks at all
    codes = [reason["code"] for reason in first["verdict"]["reasons"]]
    right = "mark_lost" in codes and first["verdict"]["status"] == "invalid" and first["copies"][0]["seconds"] is None
    found = f"{first['verdict']['status']}: {', '.join(codes)}"
    table.add(
        platform,
        "a mark is dropped",
        "invalid: mark_lost",
        found,
        "no time",
        YES if right else NO,
        failure=None if right else f"found {found}",
    )


def crews(deadline: Deadline) -> Table:
    """Many guests: up, at work, gone; and gone as well when the console is killed."""
    columns = ("platform", "guests", "up", "the UUT's agent meanwhile", "gone", "killed, gone", "left", "as it must be")
    table = Table("16. Crews", columns)
    table.summary = (
        f"All guests wait for {WAIT_S} s. *Up*: from the first change until all say so; it may take as long as the row before "
        "last says. *The UUT's agent meanwhile*: of one processor, while all guests are at work. *Gone*: from the end of the "
        "trial until the command ends. *Killed, gone*: from SIGKILL to the console until no node has anything left."
    )
    try:
        with _testbed("c", [platform for platform, _, _ in CREWS]) as (name, hosts):
            for platform, guests, within_s in CREWS:
                row = partial(_crew, platform=platform, guests=guests, within_s=within_s, name=name, hosts=hosts)
                take(table, deadline, f"{guests} guests on {platform}", row)
    except Exception as exc:
        table.not_done("crews", exc)
    return table


def _crew(table: Table, platform: str, guests: int, within_s: float, name: str, hosts: Path) -> None:
    before = lab_state(name)
    words = ("--jobs", "wait", "--size", str(WAIT_S), "--guests", str(guests), "--working", "all")
    (job,) = _taken(hosts, platform, *words)
    gone_s = time.time() - datetime.datetime.fromisoformat(job["finished_at"]).timestamp()
    left = lab_state(name) != before
    up_s = job["set_up"]["setup_s"]
    driving = next(note["cpu_ratio"] for note in job["influences"] if note["kind"] == "driving")
    killed_s = _killed_s(platform, guests, name, hosts, before)
    problems = [
        problem
        for problem, there in (
            (f"needed {up_s:.1f} s", up_s > within_s),
            (f"took {gone_s:.1f} s to go", gone_s > GONE_S),
            (f"driving them took {driving:.2%} of a processor", driving >= DRIVING_RATIO),
            ("something is left", left),
            (f"took {killed_s:.1f} s to go after the console was killed", killed_s > 2 * GONE_S),
        )
        if there
    ]
    table.add(
        platform,
        guests,
        f"{up_s:.1f} s",
        f"{driving:.2%}",
        f"{gone_s:.1f} s",
        f"{killed_s:.1f} s",
        "something" if left else "nothing",
        NO if problems else YES,
        failure="; ".join(problems) or None,
    )


def _killed_s(platform: str, guests: int, name: str, hosts: Path, before: dict[str, str]) -> float:
    words = ("--platforms", platform, "--jobs", "wait", "--size", "600", "--guests", str(guests), "--working", "all")
    running = subprocess.Popen(_command(hosts, *words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        # All have begun when the line that they were given is seen on the last one's console: by then marks come.
        wait_until(lambda: _addressed(name), timeout_s=TRIAL_S, what="the timekeeper's address")
        wait_until(lambda: lab_state(name)["uut"].count("lcg") >= guests, timeout_s=TRIAL_S, what="all guests' NICs")
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    begun_s = time.monotonic()
    wait_until(lambda: lab_state(name) == before, timeout_s=60, what="the end of everything")
    return time.monotonic() - begun_s


def _addressed(name: str) -> bool:
    return "/18 " in lab.execute(name, "snk1", ["ip", "-4", "-o", "address"]).stdout


def starts_and_disks(deadline: Deadline) -> Table:
    """A wait and touched memory in a guest's start, a throttled disk."""
    columns = ("platform", "what", "known beforehand", "found", "allowed", "as it must be")
    table = Table("17. Starts and disks of guests", columns)
    table.summary = (
        f"Guests that sleep for {START_S:g} s in their start, the shortest of {min(START_TIMES.values())} or {max(START_TIMES.values())} starts, taken in turns, against that of guests "
        f"that do not; what is held at least in {MEMORY_TIMES} trials with guests that fill {TOUCHED_BYTES // MIB} MiB (User-mode Linux and QEMU: that fill all of their memory, of which one trial gives them 64 MiB more than the other, on a host without transparent large pages); {READ_MIB} MiB read past every cache of a device that "
        f"the kernel holds to {BYTES_PER_S / 1e6:g} MB/s (for User-mode Linux its host reads ahead: how much of that the job waits for is not known); cold starts against hot ones of machines with {COLD_BYTES['uml'] // MIB} and {COLD_BYTES['qemu-virtio'] // MIB} MiB more to load, "
        f"all of which they read from such a device (of their kernel they read what they need: between nothing and all)."
    )
    try:
        with _testbed("s", ("raw", *PLATFORMS), jobs=True) as (name, hosts):
            rows: list[tuple[str, Callable[[Table, str, Starts], None]]] = [
                *((platform, _wait_in_start) for platform in START_ERROR_S),
                *((platform, _touched) for platform in PLATFORMS),
                *((platform, _throttled) for platform in PLATFORMS),
                *((platform, _cold) for platform in COLD_BYTES),
            ]
            known = lab.status(name)
            assert known is not None
            starts = Starts(known.hosts_file, hosts.parent)
            for platform, row in rows:
                take(table, deadline, platform, partial(_of_starts, row, platform, starts))
    except Exception as exc:
        table.not_done("starts and disks of guests", exc)
    return table


def _of_starts(row: Callable[[Table, str, Starts], None], platform: str, starts: Starts, table: Table) -> None:
    row(table, platform, starts)


@dataclass(frozen=True)
class Starts:
    """The lab's own inventory, beside which guests' files have to be, and a directory for stores."""

    hosts: Path
    directory: Path

    @contextmanager
    def changed(self, platform: str, line: str, more_bytes: int = 0) -> Iterator[Path]:
        """The inventory with guests that do or have something more in their start."""
        with tempfile.TemporaryDirectory(dir=self.directory) as directory:
            yield with_start(self.hosts, Path(directory), platform, line, more_bytes)

    def taken(self, hosts: Path, platform: str, *words: str) -> list[Job]:
        """What the command says of each start. Raises RuntimeError when it fails."""
        store = ("--store", str(self.directory / "boots.sqlite"))
        argv = [
            *COMMAND,
            "experiment",
            "boot",
            "--hosts",
            str(hosts),
            *store,
            "--platforms",
            platform,
            "--json",
            *words,
        ]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=TRIAL_S, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"labconsole experiment boot ended with {done.returncode}: {done.stderr[-600:]}")
        return [json.loads(line)["boot"] for line in done.stdout.splitlines()]


def _wait_in_start(table: Table, platform: str, starts: Starts) -> None:
    usual_s: list[float] = []
    slow_s: list[float] = []
    with starts.changed(platform, f"sleep {START_S:g}") as hosts:
        for _ in range(START_TIMES[platform]):  # in turns: the machine may be faster at one time than at another
            for inventory, found in ((starts.hosts, usual_s), (hosts, slow_s)):
                found += [each["startup_s"] for each in starts.taken(inventory, platform)]
    _row(
        table,
        platform,
        f"sleep {START_S:g} in the start",
        START_S,
        min(slow_s) - min(usual_s),
        START_ERROR_S[platform],
        "s more",
    )


def _touched(table: Table, platform: str, starts: Starts) -> None:
    """A machine's memory is its host's once it was used, also what was freed: so it is filled, in guests of two sizes."""
    more_mib = 0 if platform == "lxc" else TOUCHED_BYTES // MIB
    lines = (None, TOUCH) if platform == "lxc" else (FILL, FILL)
    pairs: list[tuple[Sequence[Job], Sequence[Job]]] = []
    with without_large_pages():
        for _ in range(MEMORY_TIMES):
            usual = _two_guests(platform, starts, lines[0], GUEST_MIB)
            pairs.append((usual, _two_guests(platform, starts, lines[1], GUEST_MIB + more_mib)))
    for key, witness in (("pss_bytes", "by Pss"), ("cgroup_bytes", "by its control group")):
        for number in range(2):
            if all(side[number][key] is None for pair in pairs for side in pair):
                continue  # it has none
            least = [min(guests[number][key] for guests in trials) for trials in zip(*pairs, strict=True)]
            what = f"memory of guest {number + 1} {witness}"
            _row(table, platform, what, TOUCHED_BYTES / MIB, (least[1] - least[0]) / MIB, 2, "MiB more")


@contextmanager
def without_large_pages() -> Iterator[None]:
    """QEMU asks for pages of 2 MiB, so that what it holds does not follow what is touched in a guest."""
    usual = LARGE_PAGES.read_text()
    LARGE_PAGES.write_text("never")
    try:
        yield
    finally:
        LARGE_PAGES.write_text(usual.partition("[")[2].partition("]")[0])


def _two_guests(platform: str, starts: Starts, line: str | None, memory_mib: int) -> Sequence[Job]:
    words = ("--guests", "2", "--memory-mib", str(memory_mib))
    if line is None:
        (taken,) = starts.taken(starts.hosts, platform, *words)
    else:
        with starts.changed(platform, line) as hosts:
            (taken,) = starts.taken(hosts, platform, *words)
    guests: Sequence[Job] = taken["guests"]
    return guests


def _throttled(table: Table, platform: str, starts: Starts) -> None:
    limit, argv = (
        limit_of(starts.hosts),
        ["--platforms", platform, "--json", "--jobs", "disk-read", "--size", str(READ_MIB)],
    )
    store = ["--store", str(starts.directory / "reads.sqlite")]
    with throttled(limit):
        running = subprocess.Popen(
            [*COMMAND, "experiment", "job", "--hosts", str(starts.hosts), *store, *argv], stdout=subprocess.PIPE
        )
        try:
            hold_back(starts.hosts.parent.name, platform, limit)
            out, _ = running.communicate(timeout=TRIAL_S)
        finally:
            running.kill()
            running.wait()
    job = json.loads(out)["job"]
    least_s = READ_MIB * MIB / BYTES_PER_S
    most_s = job["disk"]["guests"][0]["read_bytes"] / BYTES_PER_S if platform == "uml" else least_s
    known_s = (least_s + most_s) / 2
    allowed_s = (most_s - least_s) / 2 + READ_RATIO * most_s
    _row(table, platform, f"{READ_MIB} MiB read", known_s, _seconds(job)[0], allowed_s, "s")


def _cold(table: Table, platform: str, starts: Starts) -> None:
    words = ("--start", "cold,hot", "--memory-mib", str(2 * GUEST_MIB))
    taken: dict[str, list[Job]] = {"cold": [], "hot": []}
    with (
        starts.changed(platform, "true", COLD_BYTES[platform]) as hosts,
        node_throttled(starts.hosts.parent.name, "uut", limit_of(starts.hosts)),
    ):
        for _ in range(COLD_TIMES):
            for each in starts.taken(hosts, platform, *words):
                taken[each["requested"]["start"]].append(each)
    cold_s, hot_s = (min(each["startup_s"] for each in taken[start]) for start in ("cold", "hot"))
    least_s = COLD_BYTES[platform] / BYTES_PER_S
    most_s = sum(file["pages"] for file in taken["cold"][0]["files"]) * PAGE_BYTES / BYTES_PER_S
    allowed_s = (most_s - least_s) / 2 + COLD_RATIO * most_s
    _row(table, platform, "a cold start", (least_s + most_s) / 2, cold_s - hot_s, allowed_s, "s more than hot")
