"""``labconsole lab up | down | status``: the functions that the command line, the console and the tests call.

The lab itself lives in its supervisor's process tree; these functions start it, end it and query it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from labconsole.errors import ConfigError, LabSetupError
from labconsole.lab import control
from labconsole.lab.files import alias
from labconsole.lab.guests.containers import remove_control_groups
from labconsole.lab.guests.guest_image import LOAD_TOOLS
from labconsole.lab.machines.virtio_port import SERIAL_LOG, find_panic_message
from labconsole.lab.platforms import check_rights, find_tools
from labconsole.lab.prerequisites import check_tools
from labconsole.lab.spec import SSH_PORT, LabSpec, lay_out
from labconsole.lab.state import DOWN_S, MACHINE_UP_S, LabFile, lab_directory, labs_directory, locked, start_supervisor
from labconsole.network import control_groups

WIRE_S = 60.0
_TAP_DEVICE = "/dev/net/tun"


@dataclass(frozen=True)
class NodeStatus:
    """One node and how to reach it."""

    name: str
    role: str
    address: str
    port: int
    alias: str
    alive: bool
    last_words: str | None = None
    """The kernel's last message of a machine that has ended, if any."""


@dataclass(frozen=True)
class LabStatus:
    """A lab that is up, or one whose supervisor died (``running`` False)."""

    spec: LabSpec
    running: bool
    already_up: bool
    directory: Path
    supervisor_pid: int
    owner: str
    started_at: str
    kernel: str
    nodes: tuple[NodeStatus, ...]
    wired: str
    """``through`` the UUT, ``direct`` from source to sink, or ``not`` while it changes or after a change failed."""
    truth: dict[str, dict[str, int]]
    """Maps ``uut/eth5`` to ``seen_packets`` and ``dropped_packets`` of the injected loss."""

    @property
    def hosts_file(self) -> Path:
        """Path of the lab's hosts.yaml."""
        return self.directory / "hosts.yaml"

    @property
    def ssh_config(self) -> Path:
        """Path of the file for ``ssh -F``."""
        return self.directory / "ssh_config"

    def to_json(self) -> dict[str, Any]:
        """Return plain data, for ``lab status --json``."""
        return {
            "name": self.spec.name,
            "running": self.running,
            "already_up": self.already_up,
            "spec": self.spec.to_json(),
            "owner": self.owner,
            "started_at": self.started_at,
            "kernel": self.kernel,
            "supervisor_pid": self.supervisor_pid,
            "directory": str(self.directory),
            "hosts_file": str(self.hosts_file),
            "ssh_config": str(self.ssh_config),
            "nodes": [vars(node) for node in self.nodes],
            "wired": self.wired,
            "truth": self.truth,
        }


def up(spec: LabSpec, *, install: bool = False) -> LabStatus:
    """Bring the lab up, or find it up with the same options. Raises LabSetupError, leaving nothing behind.

    Nodes of a running lab that have ended are brought back, empty, as after a reboot.

    ``install``: first install missing Debian packages.
    """
    check_tools(
        openssh=spec.ssh_server == "openssh",
        machine=spec.generator == "pktgen" or spec.uut == "machine",
        more=find_tools(spec.platforms, jobs=spec.jobs),
        useful=LOAD_TOOLS,
        install=install,
    )
    if spec.uut == "namespace":
        check_rights(spec.platforms)
    _check_options(spec)
    directory = lab_directory(spec.name)
    with locked(directory, create=True) as lock:
        assert lock is not None
        known = LabFile.read(directory)
        if known is not None and known.supervisor.alive:
            different = known.spec.differences(spec)
            if known.spec != spec and replace(known.spec, boot=spec.boot) == spec:
                # The only option that can be changed in a lab that is up.
                control.request(directory, "reboot", wait_s=MACHINE_UP_S, node="uut", boot=spec.boot)
                known = replace(known, spec=spec)
                known.write(directory)
            elif different:
                raise LabSetupError(
                    f"the lab {spec.name} is up with other options ({'; '.join(different)}); run `labconsole lab "
                    f"down{_name_option(spec.name)}` first"
                )
            else:
                _bring_back(directory)
            return _build_status(directory, known, already_up=True)
        if known is not None:
            _await_exit(known)
        _empty(directory)
        try:
            start_supervisor(spec, directory, lock)
        except BaseException:  # an interrupt, too, must leave nothing behind
            _remove(directory)
            raise
        started = LabFile.read(directory)
        if started is None:
            raise LabSetupError(f"the lab {spec.name} reported that it was ready but is not; see {directory / 'log'}")
        return _build_status(directory, started, already_up=False)


def down(name: str = "local") -> bool:
    """End the lab and remove its files. Returns False if there was none."""
    directory = lab_directory(name)
    with locked(directory, create=False) as lock:
        if lock is None:
            return False
        known = LabFile.read(directory)
        was_there = known is not None
        if known is not None:
            # The supervisor kills the lab's process 1 and waits for it; the kernel ends the rest before that returns.
            if not known.supervisor.signal_and_wait(signal.SIGTERM, DOWN_S):
                known.supervisor.signal_and_wait(signal.SIGKILL, DOWN_S)
            _await_exit(known)
            if "lxc" in known.spec.platforms:
                remove_control_groups(name)
            control_groups.sweep()
        _remove(directory)
        return was_there


def status(name: str = "local") -> LabStatus | None:
    """Return the lab's status, or None if there is no such lab."""
    directory = lab_directory(name)
    known = LabFile.read(directory)
    deadline = time.monotonic() + DOWN_S
    while known is not None:
        try:
            return _build_status(directory, known, already_up=True)
        except LabSetupError:
            # It is going down, or just died: the next status call shows which.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        known = LabFile.read(directory)
    return None


def names() -> list[str]:
    """Return the labs that are up, or that crashed and were not taken down."""
    try:
        found = sorted(entry.name for entry in labs_directory().iterdir())
    except FileNotFoundError:
        return []
    return [name for name in found if (labs_directory() / name / "lab.json").is_file()]


def hosts_files() -> list[Path]:
    """Return the hosts.yaml of each lab that is up, without querying the labs."""
    found = []
    for name in names():
        with contextlib.suppress(LabSetupError):
            directory = lab_directory(name)
            known = LabFile.read(directory)
            if known is not None and known.supervisor.alive:
                found.append(directory / "hosts.yaml")
    return found


def read_loss_counts(name: str = "local") -> dict[str, dict[str, int]]:
    """Return the lab's own drops: ``uut/eth5`` to ``seen_packets`` and ``dropped_packets``. Raises LabSetupError."""
    return dict(control.request(_existing(name), "truth")["interfaces"])


@dataclass(frozen=True)
class ExecResult:
    """Output and status of a command in a node. ``status`` is minus the signal if one ended it."""

    status: int
    stdout: str
    stderr: str


def execute(name: str, node: str, argv: list[str], *, timeout_s: float = 10.0) -> ExecResult:
    """Run a command in a node from outside SSH. Raises LabSetupError."""
    directory = _existing(name)
    answer = control.request(directory, "exec", wait_s=timeout_s + 10.0, node=node, argv=argv, timeout_s=timeout_s)
    return ExecResult(int(answer["status"]), str(answer["stdout"]), str(answer["stderr"]))


def wire(name: str, how: str) -> None:
    """Wire every source ``direct`` to its sink, without the UUT, or ``through`` it as built. Raises LabSetupError."""
    control.request(_existing(name), "wire", wait_s=WIRE_S, how=how)


@contextlib.contextmanager
def bypassed(name: str) -> Iterator[None]:
    """Wire the lab direct while the block runs. The lab itself restores the wiring when this process's connection ends,
    also if the process is killed. Raises LabSetupError, also if the lab is already wired direct.
    """
    directory = _existing(name)
    back = {"op": "wire", "how": "through"}
    with control.connected(directory, WIRE_S) as connection:
        control.ask(connection, directory.name, "wire", wait_s=WIRE_S, how="direct", alone=True, afterwards=back)
        try:
            yield
        finally:
            control.ask(connection, directory.name, "wire", wait_s=WIRE_S, how="through")


def find_lab(addresses: Mapping[str, str]) -> str | None:
    """Find the running lab with these nodes (node to address as in hosts.yaml), or None if it is none of this user's.

    Raises LabSetupError if no readable lab has them, and there are others.
    """
    unreadable: LabSetupError | None = None
    for name in names():
        try:
            known = LabFile.read(lab_directory(name))
        except LabSetupError as exc:
            unreadable = exc
            continue
        if known is None or not known.supervisor.alive:
            continue
        mine = {
            node.name: {alias(known.spec, node.name), node.address} for node in lay_out(known.spec, known.index).nodes
        }
        if addresses and all(address in mine.get(node, ()) for node, address in addresses.items()):
            return name
    if unreadable is not None:
        raise unreadable
    return None


def kill_node(name: str, node: str) -> None:
    """End a node as a power failure would."""
    control.request(_existing(name), "kill_node", node=node)


def revive_node(name: str, node: str) -> None:
    """Bring back a node that was ended, as after a reboot: same address and keys, nothing of what it had in memory."""
    control.request(_existing(name), "revive_node", wait_s=60.0, node=node)


def _existing(name: str) -> Path:
    directory = lab_directory(name)
    known = LabFile.read(directory)
    if known is None or not known.supervisor.alive:
        raise LabSetupError(f"the lab {name} is not up; run `labconsole lab up{_name_option(name)}`")
    return directory


def _bring_back(directory: Path) -> None:
    """Restart the nodes of a running lab that have ended."""
    for name, node in control.request(directory, "status")["nodes"].items():
        if not node["alive"]:
            control.request(directory, "revive_node", wait_s=MACHINE_UP_S, node=name)


def _name_option(name: str) -> str:
    return "" if name == "local" else f" --name {name}"


def _check_options(spec: LabSpec) -> None:
    if spec.ssh_server == "openssh" and os.geteuid() != 0:
        raise LabSetupError("sshd needs root to separate privileges (setgroups()); use the lab's own server")
    if spec.uut == "machine" and not os.access(_TAP_DEVICE, os.R_OK | os.W_OK):
        raise LabSetupError(
            f"the NICs of a UUT that is a machine need {_TAP_DEVICE}, which this user may not open or the kernel "
            "lacks (modprobe tun); run the same command as root"
        )
    if spec.python is not None and not (Path(spec.python).is_file() and os.access(spec.python, os.X_OK)):
        raise ConfigError("is not a program", key="python", value=spec.python, allowed="path of a python3")


def _build_status(directory: Path, known: LabFile, *, already_up: bool) -> LabStatus:
    running = known.supervisor.alive
    alive: dict[str, Any] = {}
    wired = "through"
    counts: dict[str, dict[str, int]] = {}
    if running:
        answer = control.request(directory, "status")
        alive, wired = answer["nodes"], str(answer["wired"])
        if known.spec.loss and alive["uut"]["alive"]:
            counts = control.request(directory, "truth")["interfaces"]
    nodes = []
    for node in lay_out(known.spec, known.index).nodes:
        process = "uut" if node.role == "host" else node.name
        lives = bool(alive.get(process, {}).get("alive", False))
        said = find_panic_message(directory / SERIAL_LOG) if node.role == "uut" and not lives else None
        host = alias(known.spec, node.name)
        nodes.append(NodeStatus(node.name, node.role, node.address, SSH_PORT, host, lives, said))
    return LabStatus(
        known.spec,
        running,
        already_up,
        directory,
        known.supervisor.pid,
        known.owner,
        known.started_at,
        known.kernel,
        tuple(nodes),
        wired,
        counts,
    )


def _await_exit(known: LabFile) -> None:
    """Wait until the first process of a lab whose supervisor is gone has ended too: it occupies the addresses."""
    if not known.init.signal_and_wait(signal.SIGKILL, DOWN_S):
        raise LabSetupError(f"process {known.init.pid} of the former lab {known.spec.name} does not end")


def _empty(directory: Path) -> None:
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _remove(directory: Path) -> None:
    """Remove the lab's directory, and the directories above it that become empty."""
    shutil.rmtree(directory, ignore_errors=True)
    for parent in (directory.parent, directory.parent.parent):
        try:
            parent.rmdir()
        except OSError:
            return
