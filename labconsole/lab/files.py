"""The files of a lab that its clients read: keys, known_hosts, ssh_config, hosts.yaml."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from labconsole.lab.guests import domains, guest_image
from labconsole.lab.guests.containers import CREW_ROOT, write_containers, write_crew_root
from labconsole.lab.guests.containers import DIRECTORY as CONTAINERS
from labconsole.lab.platforms import (
    DISKS,
    MACHINE_DISK,
    GuestFiles,
    guest_files,
    has_crew_root,
    inventory_lines,
    may_have_disk,
)
from labconsole.lab.spec import SSH_PORT, UML, LabNode, LabSpec, Layout, carriers_of
from labconsole.lab.state import write_private
from labconsole.units import format_target

SETTLE_S = 0.0
DRAIN_S = 1.0
MACHINE_CONNECT_S = 60.0
UNSHAPED_BPS = 100 * 10**9


def alias(spec: LabSpec, node: str) -> str:
    """Return a node's name in ssh_config and hosts.yaml, which includes the lab's name because two labs may be up."""
    return f"{spec.name}-{node}"


def user_name() -> str:
    """Return the login name on the nodes: that of the user who built the lab."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def interpreter(spec: LabSpec) -> str:
    """Return the interpreter for agents, with links and shims on its path resolved."""
    return os.path.realpath(spec.python or sys.executable)


def ssh_config(spec: LabSpec, layout: Layout, directory: Path) -> str:
    """Build a file for ``ssh -F``. IdentityAgent none: an agent with many keys would use up the server's attempts."""
    lines = [f"# The nodes of the lab {spec.name}. Made by `labconsole lab up`, removed by `labconsole lab down`."]
    for node in layout.nodes:
        lines += [f"Host {alias(spec, node.name)}", f"    HostName {node.address}"]
    lines += [
        f"Host {spec.name}-*",
        f"    Port {SSH_PORT}",
        f"    User {user_name()}",
        f"    IdentityFile {_quoted(directory / 'id_ed25519')}",
        "    IdentitiesOnly yes",
        "    IdentityAgent none",
        f"    UserKnownHostsFile {_quoted(directory / 'known_hosts')}",
        "    GlobalKnownHostsFile /dev/null",
        "    StrictHostKeyChecking yes",
        "    ProxyJump none",
    ]
    return "\n".join(lines) + "\n"


def _quoted(path: Path) -> str:
    text = str(path).replace("%", "%%")
    return f'"{text}"' if " " in text else text


def known_hosts(layout: Layout, host_keys: Mapping[str, str]) -> str:
    """Build one line per node: ``[address]:port key``."""
    return "".join(f"[{node.address}]:{SSH_PORT} {host_keys[node.name].strip()}\n" for node in layout.nodes)


def hosts_yaml(spec: LabSpec, layout: Layout, ssh_config_path: str, guest: GuestFiles | None = None) -> str:
    """Build the hosts.yaml that describes the lab.

    Links without shaping have no line rate; the value written then only bounds the targets that a plan may request,
    above what a CPU can send.
    """
    speed = format_target(spec.link_speed_bps or UNSHAPED_BPS)
    lines = [
        f"# The lab {spec.name}. Made by `labconsole lab up`, removed by `labconsole lab down`.",
        # NICs decide results, so a lab with others is another testbed.
        f"testbed: {spec.name}{'' if spec.nic == 'virtio' else f'-{spec.nic}'}",
        "emulated: true",
        *([f"injected: {injected}"] if (injected := spec.injected_digest()) is not None else []),
        "nodes:",
    ]
    # sshd starts a user's own shell, whose start-up files may put a slow shim named python3 first in PATH; the lab's
    # own server sets PATH itself.
    python = f", python: {_yaml_text(interpreter(spec))}" if spec.ssh_server == "openssh" else ""
    for node in layout.nodes:
        carries = f", carries: {_carried(layout)}" if node.role == "host" else ""
        lines.append(f"  {node.name}: {{address: {alias(spec, node.name)}, roles: [{node.role}]{python}{carries}}}")
    lines.append("streams:")
    for stream in layout.streams:
        lines += [
            f"  - {{name: {stream.name}, source: {stream.source}, uut_in: {stream.uut_in}, uut_out: {stream.uut_out}, "
            f"sink: {stream.sink},",
            f"     source_ip: {stream.source_ip}, sink_ip: {stream.sink_ip}, link_speed: {speed}}}",
        ]
    lines += [
        "platforms:",
        *inventory_lines(
            spec.platforms,
            guest,
            layout,
            Path(ssh_config_path).parent,
            spec.name,
            machine=spec.uut == "machine",
            jobs=spec.jobs,
            accel="tcg" if spec.uut == "machine" else spec.accel,
        ),
        "defaults:",
        "  generator: auto",
        "  observe: quiet",
        f"  settle_s: {SETTLE_S:g}",
        f"  drain_s: {DRAIN_S:g}",
        f"  ssh_config: {_yaml_text(ssh_config_path)}",
    ]
    if spec.generator == "pktgen" or spec.uut == "machine":
        # The agents' interpreters all start at the same time, on two emulated processors.
        lines.append(f"  connect_timeout_s: {MACHINE_CONNECT_S:g}")
    return "\n".join(lines) + "\n"


def _carried(layout: Layout) -> str:
    """Return the host's interfaces that lead to the NICs of a machine."""
    uut: LabNode = next(node for node in layout.nodes if node.role == "uut")
    return "{" + ", ".join(f"{nic.name}: [{', '.join(carriers_of(nic.name))}]" for nic in uut.interfaces) + "}"


def _yaml_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def write_client_files(
    spec: LabSpec, layout: Layout, directory: Path, *, private_key: str, public_key: str, host_keys: Mapping[str, str]
) -> None:
    """Write everything but lab.json, whose presence means that the lab is ready."""
    write_private(directory / "id_ed25519", private_key)
    write_private(directory / "id_ed25519.pub", public_key)
    write_private(directory / "known_hosts", known_hosts(layout, host_keys))
    write_private(directory / "ssh_config", ssh_config(spec, layout, directory))
    guest = guest_files(spec.platforms, directory, jobs=spec.jobs)
    if "lxc" in spec.platforms:
        write_containers(directory / CONTAINERS, spec.name, layout)
    if UML in spec.platforms:
        guest_image.write_files(directory)
    if has_crew_root(spec.platforms, jobs=spec.jobs):
        write_crew_root(directory / CREW_ROOT, jobs=spec.jobs)
    (directory / DISKS).mkdir(mode=0o700)
    if "xen" in spec.platforms:
        assert guest is not None
        domains.write_domains(
            directory / domains.DIRECTORY,
            layout,
            kernel=guest.kernel,
            initrd=guest.initrd,
            disks=MACHINE_DISK if may_have_disk(directory) else None,
        )
    write_private(directory / "hosts.yaml", hosts_yaml(spec, layout, str(directory / "ssh_config"), guest))
