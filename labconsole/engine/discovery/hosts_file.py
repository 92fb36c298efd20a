"""hosts.yaml as discovery writes it: a proposal with comments, a template, and a file that is never overwritten."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from labconsole.engine.discovery.probing import Port
from labconsole.engine.discovery.wiring import ProposedStream
from labconsole.errors import ConfigError
from labconsole.text.sanitize import sanitize_line
from labconsole.units import format_target

# -- hosts text --------------------------------------------------------------------------------------------------------
# Writing a proposal as hosts.yaml, with comments that explain each part. Pure.

PLATFORMS = """\
# What the UUT can be, for `--platform`. The names are yours. `labconsole schema hosts` lists drivers and their options;
# hypervisors that are installed on the UUT, and their guests, are added here (docs/platforms.md).
platforms:
  raw: {driver: raw, forwarding: route}
  raw-bridge: {driver: raw, forwarding: bridge}
  container: {driver: container}
"""


@dataclass(frozen=True, slots=True)
class HostsNode:
    """``address``: the argument of `ssh`; ``user``, ``port``: None if SSH's configuration applies."""

    name: str
    address: str
    roles: tuple[str, ...]
    user: str | None = None
    port: int | None = None


def hosts_text(
    testbed: str,
    nodes: Sequence[HostsNode],
    streams: Sequence[ProposedStream],
    *,
    found: str,
    defaults: Mapping[str, object],
    become: bool = False,
) -> str:
    """The file. ``found``: how the cables were found, in a sentence; ``defaults``: besides settle and drain times."""
    return "\n".join(_lines(testbed, nodes, streams, found, defaults, become)) + "\n"


def _lines(
    testbed: str,
    nodes: Sequence[HostsNode],
    streams: Sequence[ProposedStream],
    found: str,
    defaults: Mapping[str, object],
    become: bool,
) -> Iterator[str]:
    yield sanitize_line(f"# A testbed for labconsole. {found}")
    yield "# `labconsole check` says whether it is fit to measure on; a mistake here is reported with its line."
    yield "#"
    for number, stream in enumerate(streams, 1):
        ports = (stream.source, stream.uut_in, stream.uut_out, stream.sink)
        source, uut_in, uut_out, sink = (sanitize_line(str(port)) for port in ports)
        yield f"#     {source} ── {uut_in}   {uut_out} ── {sink}        stream s{number}"
    yield ""
    yield "# A name for this testbed. It is stored in every record; a report never averages runs of different testbeds."
    yield f"testbed: {_word(testbed)}"
    yield ""
    if all(port.driver == "veth" for each in streams for port in (each.source, each.uut_in, each.uut_out, each.sink)):
        yield "# All ports are virtual ones of one machine: this is not hardware, and every run says so."
        yield "emulated: true"
        yield ""
    yield "# `address` is what you type after `ssh`; user, port and key come from ~/.ssh/config, or are written here:"
    yield "#     user: lab     port: 22     key: ~/.ssh/lab_ed25519     jump: gateway.example.org     become: sudo"
    yield "nodes:"
    for node in nodes:
        more = "" if node.user is None else f", user: {_word(node.user)}"
        more += "" if node.port is None else f", port: {node.port}"
        more += ", become: sudo" if become else ""
        yield f"  {_word(node.name)}: {{address: {_word(node.address)}, roles: [{', '.join(node.roles)}]{more}}}"
    yield ""
    yield "# Frames of a stream go from source to sink through the UUT. The addresses are of the network that RFC 2544"
    yield "# sets aside for tests, and need not be configured anywhere."
    yield "streams:"
    for number, stream in enumerate(streams, 1):
        speed_bps = stream.link_speed_bps
        speed = "" if speed_bps is None else f", link_speed: {format_target(speed_bps)}"
        yield (
            f"  - {{name: s{number}, source: {_end(stream.source)}, uut_in: {_word(stream.uut_in.interface)}, "
            f"uut_out: {_word(stream.uut_out.interface)}, sink: {_end(stream.sink)},"
        )
        yield f"     source_ip: 198.18.{number}.1, sink_ip: 198.19.{number}.1{speed}}}"
        if speed_bps is None:
            yield "    # The speed of a port is not known: 1Gbit is assumed. Write link_speed: 10Gbit, or what it is."
    yield ""
    yield from PLATFORMS.splitlines()
    yield ""
    yield "defaults:"
    yield "  # Rest between two trials, and how long counters must stay constant before a trial is closed."
    yield "  settle_s: 5"
    yield "  drain_s: 2"
    for name, value in defaults.items():
        yield f"  {name}: {_word(str(value))}"


def _end(port: Port) -> str:
    return _word(str(port))


_PLAIN = re.compile(r"[A-Za-z~][A-Za-z0-9._/~-]*\Z")
_RESERVED = ("yes", "no", "on", "off", "true", "false", "null", "y", "n", "~")


def _word(text: str) -> str:
    """A YAML scalar, quoted if it could be read as another type."""
    return text if _PLAIN.match(text) and text.lower() not in _RESERVED else json.dumps(text)


# -- blank hosts -------------------------------------------------------------------------------------------------------
# A hosts.yaml template: every key with its unit and an example.

_BLANK = Path(__file__).with_name("blank.yaml")


def blank_hosts() -> str:
    """The template, with the platforms that every UUT can provide."""
    return _BLANK.read_text(encoding="utf-8").replace("# PLATFORMS\n", PLATFORMS)


def describe_next_steps(path: Path) -> list[str]:
    """The steps that follow once the file is written."""
    return [
        f"{path} is written. Fill in the blanks, then: labconsole check --hosts {path}",
        "Or discover the cables, into another file: labconsole discover uut=dut1 src1 snk1 --out FILE",
    ]


# -- hosts file --------------------------------------------------------------------------------------------------------
# Writing a new hosts.yaml, without ever overwriting a file.


def write_new(path: Path, text: str, *, key: str | None = None) -> None:
    """Write all of the text to a new file. Raises ConfigError, naming the option ``key`` or the file."""

    def refused(why: str) -> ConfigError:
        return ConfigError(why, file=str(path)) if key is None else ConfigError(why, key=key, value=str(path))

    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise refused("already exists, and is not overwritten; move it away, or choose another name") from None
    except (OSError, ValueError) as exc:
        raise refused(f"cannot be written: {getattr(exc, 'strerror', None) or exc}") from None
