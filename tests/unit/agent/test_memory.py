"""What an agent says that processes hold of this machine's memory."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from labconsole.agent.processes import linux
from labconsole.agent.reading import process_usage
from labconsole.wire.codec import WireError

MIB = 2**20
HELD = 32 * MIB

SHARING = f"""
import ctypes, os, signal, sys
held = bytearray(os.urandom(1)) * {HELD}
libc = ctypes.CDLL(None, use_errno=True)
stacks = [ctypes.create_string_buffer(1 << 16) for _ in range(2)]
wait = ctypes.cast(libc.pause, ctypes.c_void_p)
for stack in stacks:
    top = ctypes.c_void_p(ctypes.addressof(stack) + (1 << 16) - 64)
    assert libc.clone(wait, top, 0x100 | signal.SIGCHLD, None) > 0  # CLONE_VM: the same memory
print("up", flush=True)
signal.pause()
"""
"""A process of 32 MiB with two children that run on its memory, as those of a User-mode Linux do."""

FORKED = f"""
import os, signal
held = bytearray(os.urandom(1)) * {HELD}
if os.fork() == 0:
    signal.pause()
print("up", flush=True)
signal.pause()
"""
"""A process of 32 MiB with a child that has the same pages, until one of them writes."""


@contextmanager
def running(*argv: str) -> Iterator[int]:
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "up\n"
            yield process.pid
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def held_mib(pid: int) -> float | None:
    (found,) = process_usage.read_memory([pid])
    assert found["pid"] == pid
    return None if found["pss_bytes"] is None else found["pss_bytes"] / MIB


def test_a_process_and_what_it_started_are_one() -> None:
    line = f"exec 3>&1; ( head -c {HELD} /dev/zero; echo up >&3; sleep 30 ) | tail -c {HELD} >/dev/null; :"
    with running("sh", "-c", line) as pid:
        assert 32 <= (held_mib(pid) or 0) < 40


def test_processes_on_one_memory_are_counted_once() -> None:
    """Each of the three says all of it."""
    with running(sys.executable, "-c", SHARING) as pid:
        assert 32 <= (held_mib(pid) or 0) < 55


def test_pages_that_a_child_has_in_common_are_counted_once_as_well() -> None:
    with running(sys.executable, "-c", FORKED) as pid:
        assert 32 <= (held_mib(pid) or 0) < 55


def test_where_the_kernel_does_not_compare_it_is_not_known_what_such_processes_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(pid: int, other: int) -> bool:
        raise OSError(errno.ENOSYS, "no kcmp")

    monkeypatch.setattr(linux, "same_memory", refuse)
    with running(sys.executable, "-c", SHARING) as pid:
        assert held_mib(pid) is None
    begun = "sleep 30 & until grep -q sleep /proc/$!/comm; do :; done; echo up; wait"
    with running("sh", "-c", begun) as pid:  # of processes that differ it is
        assert held_mib(pid) is not None


def test_a_process_that_is_not_there_holds_nothing_that_is_known() -> None:
    (found,) = process_usage.read_memory([2**22 + 1])
    assert (found["pss_bytes"], found["group_bytes"]) == (None, None)
    assert "shows its control group" in found["group_reason"]
    with pytest.raises(WireError, match="at least one"):
        process_usage.read_memory([])


ID, POD = "0c" * 32, "5a" * 32

# What makes it (project, version) and where a process of it is, by /proc/PID/cgroup: the guest's own whole group.
GROUPS = {
    "labconsole, version 2": ("/system.slice/labconsole-1a2b/g1", "system.slice/labconsole-1a2b/g1"),
    "labconsole, what the guest made below": ("/labconsole-1a2b/g1/below", "labconsole-1a2b/g1"),
    "labconsole, containers of LXC 5": ("/labconsole-1a2b/lxc.payload.g1", "labconsole-1a2b/lxc.payload.g1"),
    "labconsole, their monitor": ("/labconsole-1a2b/lxc.monitor.g1", None),
    "labconsole, above its guests": ("/labconsole-1a2b", None),
    "LXC 3.0": ("/lxc/g1/init.scope", "lxc/g1"),
    "LXC 1 by a user": ("/user/1000.user/c2.session/lxc/g1", "user/1000.user/c2.session/lxc/g1"),
    "LXC 3.2": ("/lxc.payload/g1", "lxc.payload/g1"),
    "LXC 3.2, its monitor": ("/lxc.monitor/g1", None),
    "LXC 4 to 6, Incus": ("/lxc.payload.web/system.slice/x.service", "lxc.payload.web"),
    "LXD 5, a project's": ("/lxc.payload.lab_web/.lxc", "lxc.payload.lab_web"),
    "LXC 4, its monitor": ("/lxc.monitor.web", None),
    "Incus 6, a machine's qemu": ("/system.slice/incus.service", None),
    "Docker in LXC 4": (f"/lxc.payload.web/docker/{ID}", "lxc.payload.web"),
    "Proxmox VE 8, a container": ("/lxc/101/ns/system.slice", "lxc/101"),
    "Proxmox VE 8, a machine": ("/qemu.slice/100.scope", "qemu.slice/100.scope"),
    "libvirt 9, machined": (
        r"/machine.slice/machine-qemu\x2d1\x2dfw.scope/libvirt/emulator",
        r"machine.slice/machine-qemu\x2d1\x2dfw.scope",
    ),
    "libvirt 4, machined, version 1": (
        r"/machine.slice/machine-qemu\x2d1\x2dfw.scope/emulator",
        r"machine.slice/machine-qemu\x2d1\x2dfw.scope",
    ),
    "libvirt 6, no machined": (
        "/machine/qemu-1-instance-00000025.libvirt-qemu/emulator",
        "machine/qemu-1-instance-00000025.libvirt-qemu",
    ),
    "libvirt 1.2, no machined": (
        "/machine/instance-00000025.libvirt-qemu/emulator",
        "machine/instance-00000025.libvirt-qemu",
    ),
    "libvirt 6, from another namespace": (
        "/../../../../machine/qemu-1-fw.libvirt-qemu/emulator",
        "../../../../machine/qemu-1-fw.libvirt-qemu",
    ),
    "libvirt 6, a container in a partition": (
        "/machine/a.partition/lxc-7-fw.libvirt-lxc",
        "machine/a.partition/lxc-7-fw.libvirt-lxc",
    ),
    "libvirt 1.0": ("/libvirt/qemu/fw/emulator", "libvirt/qemu/fw"),
    "libvirt 0.10 below its daemon": (
        "/system/libvirtd.service/libvirt/lxc/fw",
        "system/libvirtd.service/libvirt/lxc/fw",
    ),
    "libvirt, its daemon": ("/system.slice/libvirtd.service", None),
    "libvirt, an administrator's slice": ("/machine.slice/machine-lab.slice", None),
    "systemd 252, nspawn as a service": (
        "/machine.slice/systemd-nspawn@deb.service/payload/init.scope",
        "machine.slice/systemd-nspawn@deb.service",
    ),
    "systemd 252, nspawn by hand": ("/machine.slice/machine-deb.scope/payload", "machine.slice/machine-deb.scope"),
    "Docker 24 by systemd": (f"/system.slice/docker-{ID}.scope/init", f"system.slice/docker-{ID}.scope"),
    "Docker 19 by cgroupfs": (f"/docker/{ID}", f"docker/{ID}"),
    "Docker, its daemon": ("/system.slice/docker.service", None),
    "Podman 4": (f"/machine.slice/libpod-{ID}.scope/container", f"machine.slice/libpod-{ID}.scope"),
    "Podman 4 in a pod": (
        f"/machine.slice/machine-libpod_pod_{POD}.slice/libpod-{ID}.scope",
        f"machine.slice/machine-libpod_pod_{POD}.slice/libpod-{ID}.scope",
    ),
    "Podman 4, by cgroupfs in a pod": (f"/libpod_parent/{POD}/libpod-{ID}", f"libpod_parent/{POD}/libpod-{ID}"),
    "Podman 4, a pod": (f"/libpod_parent/{POD}", None),
    "Podman 4 by a user": (
        f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope",
        f"user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope",
    ),
    "Podman 4, its monitor": (f"/machine.slice/libpod-conmon-{ID}.scope", None),
    "Podman 4, split groups": (
        f"/system.slice/a.service/libpod-payload-{ID}",
        f"system.slice/a.service/libpod-payload-{ID}",
    ),
    "CRI-O 1.28": (
        f"/kubepods.slice/kubepods-podaa_bb.slice/crio-{ID}.scope",
        f"kubepods.slice/kubepods-podaa_bb.slice/crio-{ID}.scope",
    ),
    "CRI-O 1.28, its monitor": (f"/kubepods.slice/kubepods-podaa_bb.slice/crio-conmon-{ID}.scope", None),
    "Kubernetes by cgroupfs": (
        f"/kubepods/besteffort/pod12345678-1234-1234-1234-123456789abc/{ID}",
        f"kubepods/besteffort/pod12345678-1234-1234-1234-123456789abc/{ID}",
    ),
    "containerd 1.7": (f"/default/{ID}", f"default/{ID}"),
    "somebody's own parent": (f"/lab/{ID}", None),
    "Firecracker 1.7, its jailer": ("/firecracker/vm-1", "firecracker/vm-1"),
    "a session": ("/user.slice/user-0.slice/session-3.scope", None),
    "the root": ("/", None),
    "a group that was removed": ("/lxc/g1 (deleted)", None),
}


@pytest.mark.parametrize("name", GROUPS)
def test_a_guests_own_whole_group_is_recognised_by_who_makes_it(name: str) -> None:
    path, own = GROUPS[name]
    assert process_usage._own(path) == own


def test_a_container_that_the_agent_is_in_is_the_node_and_no_guest() -> None:
    around = ["/lxc.payload.lab/user.slice/session-1.scope", "/init.scope"]
    assert process_usage._own("/lxc.payload.lab/labconsole-1a2b/g1/x", around) == "lxc.payload.lab/labconsole-1a2b/g1"
    assert process_usage._own("/lxc.payload.lab/user.slice", around) is None
    assert process_usage._own("/lxc.payload.labs/user.slice", around) == "lxc.payload.labs"


FIRST = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory"
SECOND = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"
HYBRID = "31 23 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"
IN_DOCKER = f"35 31 0:32 /docker/{ID} /sys/fs/cgroup/memory ro - cgroup cgroup rw,hugetlb,memory"
ODD_PLACE = r"35 31 0:32 / /mnt/control\040groups rw - cgroup none rw,memory,cpu"
"""Lines of /proc/self/mountinfo; see proc(5)."""


@pytest.mark.parametrize(
    ("mounted", "line", "file"),
    [
        ([SECOND], "0::/lxc.payload.g1/x", "/sys/fs/cgroup/lxc.payload.g1/memory.current"),
        ([FIRST, HYBRID], "9:memory:/lxc/g1/x", "/sys/fs/cgroup/memory/lxc/g1/memory.usage_in_bytes"),
        ([FIRST, HYBRID], "0::/lxc/g1", "/sys/fs/cgroup/unified/lxc/g1/memory.current"),
        ([FIRST], "7:hugetlb,memory:/lxc/g1", "/sys/fs/cgroup/memory/lxc/g1/memory.usage_in_bytes"),
        ([ODD_PLACE], "7:memory,cpu:/lxc/g1", "/mnt/control groups/lxc/g1/memory.usage_in_bytes"),
        ([IN_DOCKER], f"7:memory:/docker/{ID}/lxc/g1", "/sys/fs/cgroup/memory/lxc/g1/memory.usage_in_bytes"),
        ([IN_DOCKER], f"7:memory:/docker/{POD}", "the agent's mounts do not reach control group"),
        ([SECOND], "0::/../../machine/a.libvirt-qemu", "the agent's mounts do not reach control group"),
        ([], "0::/lxc/g1", "the agent's mounts do not reach control group"),
        ([SECOND], "7:cpu,cpuacct:/lxc/g1", "none of its processes shows its control group"),
        ([SECOND], "0::/user.slice", "process 1 is in /user.slice, which belongs to no guest"),
        ([SECOND], "no such line", "none of its processes shows its control group"),
    ],
)
def test_what_a_group_holds_is_read_where_its_hierarchy_is_mounted_or_the_reason_is_given(
    mounted: list[str], line: str, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = f"0::/\n7:memory:/docker/{ID}" if IN_DOCKER in mounted else "0::/"
    texts = {"/proc/self/mountinfo": "\n".join(mounted), "/proc/1/cgroup": line, f"/proc/{os.getpid()}/cgroup": own}
    monkeypatch.setattr(process_usage, "read_text", lambda path, most=0: {**texts, file: "4096"}.get(path))
    monkeypatch.setattr(os.path, "exists", lambda path: path == file)
    held, reason = process_usage._group_bytes([1])
    assert (held, reason) == (4096, None) if file.startswith("/") else (held is None and file in (reason or ""))


def test_processes_in_groups_of_several_guests_are_no_one_guests(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"/proc/self/mountinfo": SECOND, "/proc/1/cgroup": "0::/lxc/g1", "/proc/2/cgroup": "0::/lxc/g2"}
    monkeypatch.setattr(process_usage, "read_text", lambda path, most=0: texts.get(path, "4096"))
    monkeypatch.setattr(os.path, "exists", lambda path: True)
    assert process_usage._group_bytes([1]) == (4096, None)
    assert process_usage._group_bytes([1, 2]) == (
        None,
        "its processes are in several guests' control groups: /lxc/g1, /lxc/g2",
    )
    texts["/proc/2/cgroup"] = "0::/lxc.monitor.g1"
    assert process_usage._group_bytes([1, 2]) == (4096, None)
