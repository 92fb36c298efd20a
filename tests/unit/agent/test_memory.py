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
from labconsole.agent.reading import memory
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
    (found,) = memory.read([pid])
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
    assert memory.read([2**22 + 1]) == [{"pid": 2**22 + 1, "pss_bytes": None, "group_bytes": None}]
    with pytest.raises(WireError, match="at least one"):
        memory.read([])


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("0::/system.slice/labconsole-1a2b/g1", "/sys/fs/cgroup/system.slice/labconsole-1a2b/g1/memory.current"),
        ("0::/lxc.payload.g1", "/sys/fs/cgroup/lxc.payload.g1/memory.current"),
        ("0::/lxc.payload.web/system.slice/x.service", "/sys/fs/cgroup/lxc.payload.web/memory.current"),
        (
            "0::/machine.slice/machine-qemu1.scope/libvirt/emulator",
            "/sys/fs/cgroup/machine.slice/machine-qemu1.scope/memory.current",
        ),
        ("0::/labconsole-1a2b/g1/below", "/sys/fs/cgroup/labconsole-1a2b/g1/memory.current"),
        ("0::/labconsole-1a2b", None),
        ("0::/user/lxc/g1", None),
        ("7:memory:/lxc/g1/init.scope", "/sys/fs/cgroup/memory/lxc/g1/memory.usage_in_bytes"),
        ("7:memory:/lxc/g1", "/sys/fs/cgroup/memory/lxc/g1/memory.usage_in_bytes"),
        ("7:cpu,cpuacct:/lxc/g1", None),
        ("0::/user.slice", None),
        ("no such line", None),
    ],
)
def test_a_guests_own_control_group_is_told_from_others(
    line: str, file: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "text_of", lambda path: line)
    assert list(memory._groups(1)) == ([] if file is None else [file])
