"""What the agent reads around a trial: drop counters and processes, from texts and messages made up by hand and real ones."""

from __future__ import annotations

import os
import struct
import subprocess
import time
import tracemalloc
from contextlib import closing

import pytest

from labconsole.agent import netlink
from labconsole.agent.reading import drops, host_activity
from labconsole.agent.reading.ethtool import NAME_BYTES
from labconsole.agent.reading.host_activity import (
    HostActivity,
    ProcessOwnership,
    Snapshot,
    derive_ticks_used,
    find_guest_name,
    matching,
    parse_cpu,
)
from labconsole.agent.reading.proc_files import Process, parse_stat, processes
from labconsole.wire.codec import WireError


def stat_line(name: str, *, pid: int = 7, parent: int = 1, flags: int = 0, used: int = 30, waited: int = 4) -> str:
    middle = f"{parent} {pid} {pid} 0 -1 {flags} 0 0 0 0 {used - 10} 10 {waited} 0 20 0 1 0 999"
    return f"{pid} ({name}) S {middle} 0 0 0"


@pytest.mark.parametrize("name", ["make", "a b", "x) R 1 (y", "(sd-pam)"])
def test_a_process_is_read_whatever_its_name(name: str):
    assert parse_stat(stat_line(name)) == Process(7, name, 1, False, 999, 30, 4)


@pytest.mark.parametrize(
    "line", ["", "7 (make", "7 make) S", "x (make) S 1 2 3", stat_line("make").replace("999", "?")]
)
def test_what_is_no_process_line_is_none(line: str):
    assert parse_stat(line) is None


def test_a_kernel_thread_is_known_by_its_flag():
    found = parse_stat(stat_line("kworker/0:1", flags=0x00200040))
    assert found is not None and found.kernel


def test_processor_times_are_by_kind_and_processor():
    cpu = parse_cpu("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 1 1 1 1 1 1 1 0 0\nintr 5\ncpu9 1\n")
    assert cpu["cpu"]["softirq"] == 7 and cpu["cpu"]["steal"] == 8 and list(cpu) == ["cpu", "cpu0"]


class Moment(Snapshot):
    def __init__(self, *processes: Process) -> None:
        self.processes = {process.pid: process for process in processes}


def process(pid: int, *, parent: int = 1, started: int = 5, used: int = 0, waited: int = 0, name: str = "x") -> Process:
    return Process(pid, name, parent, False, started, used, waited)


def test_a_child_that_came_and_went_is_its_parents_use():
    first, last = Moment(process(10, used=5)), Moment(process(10, used=6, waited=40))
    assert derive_ticks_used(first, last) == {10: (1, 40)}


def test_what_a_child_had_used_before_the_window_is_nobodys_use_in_it():
    first = Moment(process(10), process(11, parent=10, used=1000))
    assert derive_ticks_used(first, Moment(process(10, waited=1003))) == {10: (0, 3)}
    # Its parent does not wait for it: then nothing arrives, and nothing may be taken off.
    assert derive_ticks_used(first, Moment(process(10, used=2))) == {10: (2, 0)}


def test_a_number_that_another_process_has_now_is_another_process():
    first, last = Moment(process(10, used=500)), Moment(process(10, used=7, started=9))
    assert derive_ticks_used(first, last) == {10: (7, 0)}


def test_a_busy_process_of_somebody_else_is_found_and_named():
    watch = HostActivity()
    assert watch.read(True)["window"] is None
    # Beside us, not below us: our own children are ours.
    busy = subprocess.Popen(["sh", "-c", "sh -c 'while :; do :; done' & echo $!"], stdout=subprocess.PIPE, text=True)
    assert busy.stdout is not None
    pid = int(busy.stdout.readline())
    try:
        deadline = time.monotonic() + 10
        while processes()[pid].used < 20:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        window = watch.read(False)["window"]
    finally:
        subprocess.run(["kill", "-9", str(pid)], check=True)
        busy.communicate()
    assert window["used_s"]["ours"] + window["used_s"].get("other", 0) > 0.1
    assert any(entry["pid"] == pid for entry in window["processes"])
    assert watch.read(False)["window"] is None  # the window is closed


def test_whose_a_process_is(monkeypatch):
    lines = {30: b"python3\0-c\0x labconsole-agent y", 31: b"python3\0-c\0x labconsole-agent y", 40: b"python3\0x.py"}
    monkeypatch.setattr(os, "getppid", lambda: 21)
    monkeypatch.setattr(host_activity, "command_line", lambda pid: lines.get(pid, b""))
    seen = [
        process(1, parent=0, name="systemd"),
        process(20, name="sshd"),
        process(21, parent=20, name="python3"),
        process(22, parent=21, name="tcpdump"),
        process(30, name="python3"),
        process(31, parent=30, name="python3"),
        process(32, parent=31, name="tcpdump"),
        process(40, name="python3"),
        process(50, name="qemu-system-x86"),
        Process(2, "kthreadd", 0, True, 1, 0, 0),
    ]
    guests = matching(["qemu-.*"])
    belonging = ProcessOwnership({each.pid: each for each in seen}, guests)
    whose = {each.pid: belonging.of(each) for each in seen}
    assert whose == {
        1: "ours",
        20: "ours",
        21: "ours",
        22: "ours",
        30: "labconsole",
        31: "labconsole",
        32: "labconsole",
        40: "other",
        50: "guest",
        2: "kernel",
    }
    assert belonging.agents == {30}
    renamed = [each._replace(name="platform-python") if each.pid in (30, 31) else each for each in seen]  # RHEL 8
    assert ProcessOwnership({each.pid: each for each in renamed}, guests).agents == {30}
    assert belonging.above == {20, 1}
    # Nodes that share this kernel: agents of the same console, with all that they started and all that carries them.
    ours = b"python3\0-c\0x labconsole-agent y\0009\0session-0a"
    lines[22], lines[30], lines[os.getpid()] = b"", ours, ours
    shared = [*seen, process(33, parent=1, name="sshd"), process(30, parent=33, name="python3")]
    sister = ProcessOwnership({each.pid: each for each in shared}, guests, console=40)
    whose = {pid: sister.of(each) for pid, each in sorted({each.pid: each for each in shared}.items())}
    assert {pid for pid, word in whose.items() if word == "ours"} == {1, 20, 21, 22, 30, 31, 32, 33, 40}
    assert (sister.agents, sister.above) == (set(), {1, 20, 33, 40})
    lines[30] = ours[:-1] + b"b"  # another console's
    assert ProcessOwnership({each.pid: each for each in shared}, guests).agents == {30}
    # A guest that a hypervisor's own service started, and its load inside: told by whoever drives it.
    told = ProcessOwnership(
        {each.pid: each for each in [*seen, process(51, parent=50, name="stress")]}, guests, [50, 4711]
    )
    assert (told.of(process(50)), told.of(process(51)), told.guests) == ("ours", "ours", set())


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (b"qemu-system-x86_64\0-name\0guest=deb12,debug-threads=on\0-m\0512", "deb12"),
        (b"qemu-system-x86_64\0-name\0win7", "win7"),
        (b"VBoxHeadless\0--comment\0ubuntu\0--startvm\0x", "ubuntu"),
        (b"qemu-system-x86_64\0-m\0512", None),
        (b"qemu-system-x86_64\0-name\0debug-threads=on,guest=a,,b,process=q\0", "a,b"),  # QEMU 2.x on, qemu_opts
        (b"/usr/libexec/qemu-kvm\0-enable-kvm\0-name\0vm100,debug-threads=on\0", "vm100"),  # RHEL, Proxmox
        (b"/lib64/ld-linux-x86-64.so.2\0--library-path\0/l\0/usr/bin/qemu-system-x86_64\0-name\0fw\0", "fw"),
        (b"qemu-system-x86_64\0-name\0process=q\0", None),
        (b"VBoxHeadless\0-comment\0a, b\0-startvm\0x\0", "a, b"),  # VirtualBox 3 to 5: one dash
        (b"/usr/lib/virtualbox/VBoxHeadless\0--startvm=fw\0", "fw"),
        (b"firecracker\0--id\0vm-1\0--api-sock\0/run/f.sock\0", "vm-1"),
        (b"cloud-hypervisor\0--api-socket\0path=/run/c.sock\0", "/run/c.sock"),
        (b"[lxc monitor] /var/lib/lxc fw\0\0", "fw"),
        (b"[lxc monitor] /nosuch/my lxc fw\0\0", None),  # which blank ends the directory cannot be told
        (b"/usr/bin/lxc-start\0-F\0-P\0/srv/lxc\0-n\0web server\0--\0/bin/sh\0", "web server"),
        (b"lxc-start\0--name=fw\0-d\0", "fw"),
        (b"lxc-start\0-s\0lxc.net.0.type=veth\0-F\0fw\0", "fw"),
        (b"sh\0/usr/bin/lxc-execute\0-nfw\0--\0/bin/sh\0", "fw"),
        (b"/opt/linux.uml\0mem=128M\0umid=fw\0", "fw"),
        (b"/usr/sbin/xl\0-v\0-f\0create\0-p\0--quiet\0/etc/xen/fw.cfg\0", "fw"),  # xl 4.1 on, main_create
        (b"xl\0create\0-pf\0/etc/xen/fw.cfg\0", "fw"),
        (b"xl\0create\0--defconfig=/etc/xen/other\0memory=512; name = 'my fw'\0", "my fw"),
        (b"/bin/sh\0/usr/sbin/xl\0create\0-c\0hostname=x\0/etc/xen/fw.cfg\0", "fw"),
        (b"xl\0restore\0/var/lib/xen/fw.save\0", None),
        (b"", None),
        (b"linux.uml\0umid=guest\0uml_dir=/dev/shm/\0", "guest"),
        (b'xl\0create\0/etc/xen/other.cfg\0name="fw"\0', "fw"),
        (b"xl\0create\0/etc/xen/fw.cfg\0", "fw"),
        (b"xl\0list\0", None),
    ],
)
def test_a_guest_is_called_what_its_command_line_calls_it(line: bytes, name: str | None):
    assert find_guest_name(line) == name


def test_a_container_whose_directory_has_a_blank_is_found_by_the_directory(tmp_path):
    for path, name in (("my lxc", "fw"), ("lxc", "web server")):
        (tmp_path / path / name).mkdir(parents=True)
        assert find_guest_name(f"[lxc monitor] {tmp_path}/{path} {name}\0".encode()) == name


@pytest.mark.parametrize(
    "line",
    [
        b"[lxc monitor] " + b" a" * 32_000,
        b"xl\0create\0" + b"\n" * 65_000 + b"=",
        b"xl\0create\0" + b"name=\0" * 10_000,
        b"qemu\0" + b"-\0" * 32_000,
    ],
    ids=["blanks", "line feeds", "settings", "options"],
)
def test_a_command_line_of_another_user_s_costs_next_to_nothing(line: bytes):
    """Up to 256 of them are read by root for each look at a node's surroundings."""
    tracemalloc.start()
    find_guest_name(line[:65536])
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    begun_s = time.process_time()
    find_guest_name(line[:65536])
    assert peak_bytes < 32_000_000 and time.process_time() - begun_s < 0.2


@pytest.mark.parametrize("words, name", [(4000, "late"), (4200, None)])
def test_only_so_many_words_of_a_command_line_are_read(words: int, name: str | None):
    assert find_guest_name(b"qemu\0" + b"-\0" * words + b"-name\0late\0") == name


def test_guests_are_known_by_the_whole_names_that_the_console_sends():
    known = matching(["qemu-.*", "xl"])
    assert [known.fullmatch(name) is not None for name in ("qemu-system-x86", "xl", "xlate", "my-qemu-x")] == [
        True,
        True,
        False,
        False,
    ]
    assert matching([]).fullmatch("xl") is None
    for wrong in (["("], ["x"] * 101, ["x" * 201]):
        with pytest.raises(WireError) as refused:
            matching(wrong)
        assert refused.value.code == "bad_request"


def test_of_a_drivers_statistics_only_trouble_that_happened_is_kept():
    names = ["rx_packets", "rx_missed_errors", "tx_busy", "rx_interrupts", "rx_flow_control_xoff", "rx_no_buffer_count"]
    raw = b"".join(name.encode().ljust(NAME_BYTES, b"\0") for name in names)
    assert drops.keep_trouble(raw, (5, 4, 0, 9, 3, 2)) == {
        "rx_missed_errors": 4,
        "rx_flow_control_xoff": 3,
        "rx_no_buffer_count": 2,
    }


def strings(rows: list[tuple[str, int]]) -> tuple[bytes, tuple[int, ...]]:
    return b"".join(name.encode().ljust(NAME_BYTES, b"\0") for name, _ in rows), tuple(number for _, number in rows)


def test_names_that_a_driver_repeats_for_each_queue_are_summed():
    """vmxnet3 of Linux 6.12: the same names for each queue, below a line that is the queue's number."""
    queues = [("Rx Queue#", 0), ("  drv dropped rx total", 5), ("Rx Queue#", 1), ("  drv dropped rx total", 2)]
    assert drops.keep_trouble(*strings(queues)) == {"drv dropped rx total": 7}
    assert drops.keep_trouble(*strings([("x drops", 2**64 - 1), ("x drops", 3)])) == {"x drops": 2}


def test_more_statistics_than_are_kept_are_summed_over_queues_before_and_after_alike():
    def kept(number: int) -> dict[str, int]:
        rows = [(f"rx_queue_{queue}_{what}", 0) for queue in range(300) for what in ("drops", "csum_err")]
        rows[-2] = ("rx_queue_299_drops", number)
        return drops.keep_trouble(*strings([*rows, ("tx_dropped", 4), ("rx_queue_0_packets", 9)]))

    assert kept(0) == {"tx_dropped": 4}
    assert kept(6) == {"rx_queue_#_drops": 6, "tx_dropped": 4}


def test_of_too_many_names_the_first_are_kept_whatever_they_count_and_the_rest_is_missed():
    letters = "abcdefghijklmnopqrstuvwxyz"
    names = [f"drop_{one}{other}" for one in letters for other in letters]
    seen = drops.all_trouble(*strings([(name, int(place >= 500)) for place, name in enumerate(names)]))
    assert list(drops.bounded(seen)) == names[500 : drops.MAX_KEPT] and drops.is_cut(seen)
    assert not drops.is_cut(dict.fromkeys(names, 0)) and not drops.is_cut(None)


TCA_KIND, TCA_STATS2, TCA_STATS_QUEUE, RTM_NEWQDISC = 1, 7, 3, 36


def attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(data), kind) + data + b"\0" * (-len(data) % 4)


def qdisc(index: int, kind: str, parent: int, dropped: int) -> bytes:
    queue = attribute(TCA_STATS_QUEUE, struct.pack("=IIIII", 1, 2, dropped, 3, 4))
    body = struct.pack("=BBHiIII", 0, 0, 0, index, 0x10000, parent, 2)
    body += attribute(TCA_KIND, kind.encode() + b"\0") + attribute(TCA_STATS2, queue)
    return struct.pack("=IHHII", 16 + len(body), RTM_NEWQDISC, 0, 1, 0) + body


def test_only_root_and_ingress_disciplines_count_because_a_root_holds_its_children():
    part = (
        qdisc(3, "tbf", drops.TC_H_ROOT, 9) + qdisc(3, "bfifo", 0x10001, 9) + qdisc(4, "clsact", drops.TC_H_INGRESS, 2)
    )
    with closing(netlink.RouteSocket()) as route:
        messages = route.decode([part])
    assert drops.parse_qdiscs(messages) == [
        (3, "tbf", {"drops": 9, "requeues": 3, "overlimits": 4}),
        (4, "clsact", {"drops": 2, "requeues": 3, "overlimits": 4}),
    ]


def test_ip_counters_are_read_by_name():
    text = "Ip: Forwarding InDiscards OutNoRoutes\nIp: 1 7 8\nIcmp: InMsgs\nIcmp: 5\nIpExt: InNoRoutes\nIpExt: 3\n"
    assert drops.parse_snmp(text) == {"InDiscards": 7, "OutNoRoutes": 8, "InNoRoutes": 3}


def test_this_machine_can_be_read():
    found = drops.read_namespace(["lo", "no-such"])
    assert found["driver"] == {"lo": None} and found["drivers"] == {"lo": None} and found["cut"] == []
    assert isinstance(found["qdiscs"], list) and "InDiscards" in found["ip"]
    rows = drops.softnet()
    assert rows is not None and all(len(row) == 4 for row in rows)


def nested(*parts: tuple[int, bytes]) -> bytes:
    return b"".join(attribute(kind, data) for kind, data in parts)


def expression(name: bytes, *parts: tuple[int, bytes]) -> tuple[int, bytes]:
    return 1, nested((1, name + b"\0"), (2, nested(*parts)))


def four(number: int) -> bytes:
    return number.to_bytes(4, "big")


DROPPING = expression(b"immediate", (1, four(0)), (2, nested((2, nested((1, four(0)))))))
ACCEPTING = expression(b"immediate", (1, four(0)), (2, nested((2, nested((1, four(1)))))))
COUNTING = expression(b"counter", (1, bytes(8)), (2, (7).to_bytes(8, "big")))
NAMED = expression(b"objref", (1, four(1)), (2, b"dd\0"))
OBJECTS = [(5, nested((1, b"t\0"), (2, b"dd\0"), (3, four(1)), (4, nested((2, (9).to_bytes(8, "big"))))))]
CHAINS = [(5, nested((1, b"t\0"), (3, b"in\0"), (4, nested((1, four(0)), (3, b"eth1\0")))))]


def rules(*expressions: tuple[int, bytes]) -> list[tuple[int, bytes]]:
    return [(5, nested((1, b"t\0"), (2, b"in\0"), (3, (4).to_bytes(8, "big")), (4, nested(*expressions))))]


@pytest.mark.parametrize(
    ("expressions", "packets"),
    [
        ([COUNTING, DROPPING], 7),
        ([NAMED, DROPPING], 9),
        ([COUNTING, expression(b"reject")], 7),
        ([COUNTING, ACCEPTING], None),
        ([DROPPING, COUNTING], None),
        ([COUNTING], None),
        ([DROPPING], None),
    ],
)
def test_only_a_rule_that_counts_and_then_drops_tells_of_drops(expressions, packets):
    found = drops.parse_rules(rules(*expressions), CHAINS, OBJECTS)
    assert [each["packets"] for each in found] == ([] if packets is None else [packets])
    for each in found:
        assert (each["family"], each["interface"], each["hook"]) == ("netdev", "eth1", "ingress")


def test_damaged_rules_are_none():
    (_, data), *_ = rules(COUNTING, DROPPING)
    for size in range(len(data)):
        assert drops.parse_rules([(5, data[:size])], CHAINS, OBJECTS) == []
