"""``labconsole lab up|down|status`` as a user meets them."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from labconsole import lab
from labconsole.errors import ConfigError
from labconsole.lab import platforms
from labconsole.units import parse_rate_bps, parse_ratio

_DEFAULT_PLATFORMS = {"namespace": platforms.DEFAULT, "machine": platforms.MACHINE_DEFAULT}


def dispatch(args: argparse.Namespace) -> int:
    """Run one ``lab`` action; returns the exit status."""
    if args.lab_action == "up":
        return _up(args)
    if args.lab_action == "down":
        return _down(args)
    if args.lab_action == "wire":
        return _wire(args)
    return _status(args)


def _spec(args: argparse.Namespace) -> lab.LabSpec:
    link_speed_bps = None
    if args.link_speed != "none":
        try:
            link_speed_bps = parse_rate_bps(args.link_speed)
        except ValueError as exc:
            raise ConfigError(
                "is not a rate", key="--link-speed", value=args.link_speed, allowed=f"{exc}, or none"
            ) from None
    loss = {}
    for text in args.loss:
        hop, equals, ratio = text.partition("=")
        try:
            if not equals:
                raise ValueError("HOP=RATIO, such as uut/out=0.07")
            loss[hop] = parse_ratio(ratio)
        except ValueError as exc:
            raise ConfigError("is not a loss", key="--loss", value=text, allowed=str(exc)) from None
    return lab.LabSpec(
        name=args.name,
        sources=args.sources,
        link_speed_bps=link_speed_bps,
        loss=loss,
        generator=args.generator,
        ssh_server=args.ssh_server,
        accel=args.accel,
        uut=args.uut,
        boot=args.boot,
        platforms=tuple(args.platforms or _DEFAULT_PLATFORMS[args.uut]),
    )


def _up(args: argparse.Namespace) -> int:
    spec = _spec(args)
    if spec.generator == "pktgen" or spec.uut == "machine":
        sys.stderr.write("booting an emulated machine with Debian's kernel; this takes a quarter of a minute or more\n")
    status = lab.up(spec, install=args.install)
    if args.json:
        sys.stdout.write(json.dumps(status.to_json()) + "\n")
    else:
        sys.stdout.write("\n".join(_lines(status.to_json())) + "\n")
    return 0


def _down(args: argparse.Namespace) -> int:
    was_up = lab.down(args.name)
    if args.json:
        sys.stdout.write(json.dumps({"name": args.name, "was_up": was_up}) + "\n")
    else:
        sys.stdout.write(f"lab {args.name} is down\n" if was_up else f"lab {args.name} was not up\n")
    return 0


def _wire(args: argparse.Namespace) -> int:
    lab.wire(args.name, args.how)
    if args.json:
        sys.stdout.write(json.dumps({"name": args.name, "wired": args.how}) + "\n")
    else:
        way = "every source straight to its sink" if args.how == "direct" else "every stream through the UUT"
        sys.stdout.write(f"lab {args.name} is wired {args.how}: {way}\n")
    return 0


def _status(args: argparse.Namespace) -> int:
    names = [args.name] if args.name else lab.names()
    found = [status for status in map(lab.status, names) if status is not None]
    if args.json:
        for status in found:
            sys.stdout.write(json.dumps(status.to_json()) + "\n")
    elif not found:
        sys.stdout.write((f"lab {args.name} is not up" if args.name else "no lab is up") + "\n")
    else:
        for status in found:
            sys.stdout.write("\n".join(_lines(status.to_json())) + "\n")
    return 0 if found or not args.name else 1


def _lines(status: dict[str, Any]) -> list[str]:
    state = "is up" if status["running"] else "has died; `labconsole lab down` clears it, `lab up` builds it anew"
    lines = [f"lab {status['name']} {state}"]
    lines += [f"  hosts    {status['hosts_file']}", f"  ssh      {status['ssh_config']}"]
    for node in status["nodes"]:
        lines.append(f"  {node['name']:<8} {node['address']}:{node['port']}")
    if status["wired"] != "through":
        lines.append(f"  wired    {status['wired']}; `labconsole lab wire through` puts the UUT back between")
    for place, counts in status["truth"].items():
        lines.append(f"  drops    {place}: {counts['dropped_packets']} of {counts['seen_packets']} test packets so far")
    return lines
