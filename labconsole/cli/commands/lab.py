"""``labconsole lab up|down|wire|status``: commands for the local testbed. docs/lab.md."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labconsole.cli.commands import About
from labconsole.cli.options import ONE_OR_MORE, add_common, comma_separated
from labconsole.cli.output import answer, print_lines
from labconsole.errors import ConfigError

if TYPE_CHECKING:
    from labconsole.lab.spec import LabSpec

about = About(30, "create and manage a local testbed")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions, and the options of each."""
    actions = parser.add_subparsers(dest="lab_action", metavar="ACTION", required=True)
    up = actions.add_parser("up", help="build the lab and leave it running")
    add_common(up, "--json")
    up.add_argument("--name", default="local", help="name of the lab; several can run at once (default: local)")
    up.add_argument(
        "--sources", type=ONE_OR_MORE, default=3, metavar="N", help="number of sources, and of sinks (default: 3)"
    )
    up.add_argument(
        "--link-speed", default="1Gbit", metavar="RATE", help="speed of every link, or none (default: 1Gbit)"
    )
    up.add_argument(
        "--loss",
        action="append",
        default=[],
        metavar="HOP=RATIO",
        help="drop this share of test packets at this place, such as uut/out=0.07; may be repeated",
    )
    up.add_argument(
        "--generator",
        choices=("afpacket", "pktgen"),
        default="afpacket",
        help="pktgen: run the whole lab inside a QEMU machine whose kernel has pktgen (default: afpacket)",
    )
    up.add_argument(
        "--uut",
        choices=("namespace", "machine"),
        default="namespace",
        help="machine: the UUT is a QEMU machine of its own, on which platforms can be compared (default: namespace)",
    )
    up.add_argument(
        "--boot",
        choices=("linux", "xen"),
        default="linux",
        help="what that machine boots; xen: the UUT is Xen's first domain (default: linux). If the lab is up, its "
        "UUT reboots",
    )
    up.add_argument(
        "--ssh-server",
        choices=("builtin", "openssh"),
        default="builtin",
        help="SSH server of the nodes; openssh needs sshd (default: builtin)",
    )
    up.add_argument(
        "--platforms",
        type=comma_separated,
        metavar="A,B",
        help="platforms of the UUT: raw, raw-bridge, container, lxc, uml, qemu-virtio, qemu-e1000, qemu-vmxnet3; on "
        "a machine also kvm and xen (default: the first three; on a machine raw, raw-bridge, lxc, kvm, xen)",
    )
    up.add_argument(
        "--accel", choices=("tcg", "kvm"), default="tcg", help="accelerator of machines and of qemu-* (default: tcg)"
    )
    up.add_argument(
        "--nic",
        choices=("virtio", "e1000"),
        default="virtio",
        help="model of the machine's NICs; e1000 has flow control to set (default: virtio)",
    )
    up.add_argument(
        "--jobs",
        action="store_true",
        help="give guests the programs of jobs as well: pi, mbw, stress-ng, bonnie++, iperf, iproute2",
    )
    up.add_argument("--install", action="store_true", help="install missing Debian packages")
    wire = actions.add_parser("wire", help="connect sources to sinks directly, or through the UUT again")
    add_common(wire, "--json")
    wire.add_argument(
        "how",
        choices=("direct", "through"),
        help="direct: each source to its sink; through: by way of the UUT, as built",
    )
    wire.add_argument("--name", default="local", help="name of the lab (default: local)")
    for action, text in (
        ("down", "remove a lab"),
        ("status", "show what is running and how many packets were dropped on purpose"),
    ):
        sub = actions.add_parser(action, help=text)
        add_common(sub, "--json")
        only = "local" if action == "down" else None
        sub.add_argument("--name", default=only, help=f"name of the lab (default: {only or 'all labs'})")


def run(args: argparse.Namespace) -> int:
    """Run one action and return the exit status."""
    return {"up": _up, "down": _down, "wire": _wire, "status": _status}[args.lab_action](args)


def _spec(args: argparse.Namespace) -> LabSpec:
    from labconsole.lab.spec import DEFAULT_MACHINE_PLATFORMS, DEFAULT_PLATFORMS, LabSpec
    from labconsole.units import parse_rate_bps, parse_ratio

    link_speed_bps = None
    if args.link_speed != "none":
        try:
            link_speed_bps = parse_rate_bps(args.link_speed)
        except ValueError as exc:
            raise ConfigError(
                "is not a valid rate", key="--link-speed", value=args.link_speed, allowed=f"{exc}, or none"
            ) from None
    loss = {}
    for text in args.loss:
        hop, equals, ratio = text.partition("=")
        try:
            if not equals:
                raise ValueError("HOP=RATIO, such as uut/out=0.07")
            loss[hop] = parse_ratio(ratio)
        except ValueError as exc:
            raise ConfigError("is not a valid loss", key="--loss", value=text, allowed=str(exc)) from None
    return LabSpec(
        name=args.name,
        sources=args.sources,
        link_speed_bps=link_speed_bps,
        loss=loss,
        generator=args.generator,
        ssh_server=args.ssh_server,
        accel=args.accel,
        uut=args.uut,
        boot=args.boot,
        nic=args.nic,
        jobs=args.jobs,
        platforms=tuple(args.platforms or (DEFAULT_MACHINE_PLATFORMS if args.uut == "machine" else DEFAULT_PLATFORMS)),
    )


def _up(args: argparse.Namespace) -> int:
    from labconsole.lab import commands as lab

    spec = _spec(args)
    if spec.generator == "pktgen" or spec.uut == "machine":
        sys.stderr.write("booting an emulated machine with Debian's kernel; this takes 15 seconds or more\n")
    status = lab.up(spec, install=args.install).to_json()
    answer(status, [*_lines(status), *_next_lines(Path(status["hosts_file"]))], as_json=args.json)
    return 0


def _next_lines(hosts_file: Path) -> list[str]:
    """The next command to type, and whether this directory's hosts.yaml has to be copied first."""
    from labconsole.model.inventory import DEFAULT_INVENTORY

    hosts = shlex.quote(str(hosts_file))
    lines = [f"next: labconsole check --hosts {hosts}"]
    try:
        here = DEFAULT_INVENTORY.read_bytes()
        if here == hosts_file.read_bytes():
            return ["next: labconsole check"]
    except FileNotFoundError:
        return [*lines, f"  or, for commands without --hosts: cp {hosts} ."]
    except OSError:  # the lab is up, regardless of files here
        return lines
    if b"Made by `labconsole lab up`" in here:
        lines.append(f"  {DEFAULT_INVENTORY} here is not of this lab")
    return lines


def _down(args: argparse.Namespace) -> int:
    from labconsole.lab import commands as lab

    was_up = lab.down(args.name)
    sentence = f"lab {args.name} is down" if was_up else f"lab {args.name} was not up"
    answer({"name": args.name, "was_up": was_up}, [sentence], as_json=args.json)
    return 0


def _wire(args: argparse.Namespace) -> int:
    from labconsole.lab import commands as lab

    lab.wire(args.name, args.how)
    way = "every source is connected straight to its sink" if args.how == "direct" else "every stream passes the UUT"
    sentence = f"lab {args.name} is now wired {args.how}: {way}"
    answer({"name": args.name, "wired": args.how}, [sentence], as_json=args.json)
    return 0


def _status(args: argparse.Namespace) -> int:
    from labconsole.lab import commands as lab

    names = [args.name] if args.name else lab.names()
    found = [status.to_json() for status in map(lab.status, names) if status is not None]
    for status in found:
        answer(status, _lines(status), as_json=args.json)
    if not found and not args.json:
        print_lines(f"lab {args.name} is not up" if args.name else "no lab is up")
    return 0 if found or not args.name else 1


def _lines(status: dict[str, Any]) -> list[str]:
    dead = "has died; `labconsole lab down` removes what is left, `labconsole lab up` builds it again"
    state = "is up" if status["running"] else dead
    lines = [f"lab {status['name']} {state}"]
    lines += [f"  hosts    {status['hosts_file']}", f"  ssh      -F {status['ssh_config']} {status['name']}-NODE"]
    for node in status["nodes"]:
        lines.append(f"  {node['name']:<8} {node['address']}:{node['port']}")
        if status["running"] and not node["alive"]:
            said = f", and its kernel said: {node['last_words']}" if node["last_words"] else ""
            lines.append(f"    has ended{said}; the same `labconsole lab up` brings it back")
    if status["wired"] != "through":
        lines.append(f"  wired    {status['wired']}; `labconsole lab wire through` puts the UUT back in between")
    for place, counts in status["truth"].items():
        lines.append(f"  drops    {place}: {counts['dropped_packets']} of {counts['seen_packets']} test packets so far")
    return lines
