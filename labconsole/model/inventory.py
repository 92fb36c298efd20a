"""hosts.yaml: the nodes of a testbed, its streams, its platforms. The example file explains its keys."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, WithJsonSchema

from labconsole.errors import ConfigError
from labconsole.model.design_point import FrameSize
from labconsole.model.generator import known_generator
from labconsole.model.generator_names import BUILT_IN
from labconsole.model.identity import content_hash
from labconsole.model.strict_model import StrictModel
from labconsole.model.yaml_file import find_line, key_text, load_yaml, register_keys, validate
from labconsole.units import parse_rate_bps

Role = Literal["source", "uut", "sink", "host"]
DropReasons = Literal["auto", "on", "off"]
ClockKeeper = Literal["chrony", "ptp4l"]
PacketTiming = Literal["off", "on", "xdp-generic", "xdp-native"]
"""Whether the sinks' kernels time every packet, and how; on: the way that changes nothing at a port."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
INTERFACE = re.compile(r"[^\s/:\x00-\x1f\x7f]{1,15}\Z")
NO_LOGIN = frozenset(" '`\"$\\;&<>|(){}")
BENCHMARK_NETWORK = ipaddress.ip_network("198.18.0.0/15")
"""Addresses that RFC 2544 appendix C.2.2 reserves for tests of network devices."""


def _name(value: str) -> str:
    if not NAME.match(value):
        raise ValueError("is not a valid name | allowed: letters, digits, '_', '.', '-', at most 64")
    return value


def _login(value: str) -> str:
    # OpenSSH refuses the same: ProxyCommand and Match exec put a host's name and a user's into a shell's line.
    if not value or value.startswith("-") or not value.isprintable() or set(value) & NO_LOGIN:
        raise ValueError(f"is not a valid login | allowed: no blanks and none of {''.join(sorted(NO_LOGIN - {' '}))}")
    return value


def _path(value: str) -> str:
    if not value or value.startswith("-") or not value.isprintable():
        raise ValueError("is not a valid path | allowed: printable characters, no '-' at the beginning")
    return value


def _interface(value: str) -> str:
    if not INTERFACE.match(value) or not value.isprintable() or value.startswith("-") or value in (".", ".."):
        raise ValueError("is not a valid interface name | allowed: 1 to 15 characters without '/', ':' or blanks")
    return value


def _rate(value: Any) -> int:
    try:
        return parse_rate_bps(value)
    except ValueError as exc:
        raise ValueError(f"is not a valid rate | allowed: {exc}") from None


def _address(value: str) -> str:
    try:
        address = ipaddress.IPv4Address(value)
    except ValueError:
        raise ValueError("is not an IPv4 address | allowed: such as 198.18.1.1") from None
    if address not in BENCHMARK_NETWORK:
        raise ValueError(f"test traffic must stay in the benchmark network | allowed: {BENCHMARK_NETWORK} (RFC 2544)")
    return str(address)


Name = Annotated[str, AfterValidator(_name)]
Generator = Annotated[str, AfterValidator(known_generator), WithJsonSchema({"enum": list(BUILT_IN), "type": "string"})]
"""The schema for editors also lists the generators of other packages (platforms/loading.py)."""
Interface = Annotated[str, AfterValidator(_interface)]
Login = Annotated[str, Field(max_length=255), AfterValidator(_login)]
RemotePath = Annotated[str, Field(max_length=4096), AfterValidator(_path)]
Rate = Annotated[int, BeforeValidator(_rate, json_schema_input_type=str | int)]
TestAddress = Annotated[str, AfterValidator(_address)]


class Node(StrictModel):
    """One machine. Other SSH settings than the address come from ~/.ssh/config unless given here.

    ``carries``: for the host of a virtual UUT, the host's interfaces that lead to each of the UUT's NICs.
    ``clock_error_ns``: the operator's declared bound on the difference between its wall clock and the time that the
    nodes share. ``clock_keeper``: the program on it that reports that bound instead. ``capture_stamps``: the source of
    time stamps for the frames that a sink captures.
    """

    address: Login
    roles: tuple[Role, ...] = Field(min_length=1)
    user: Login | None = None
    port: int | None = Field(default=None, ge=1, le=65535)
    key: RemotePath | None = None
    jump: Login | None = None
    become: Literal["sudo"] | None = None
    python: RemotePath = "python3"
    capture_dir: RemotePath | None = None
    generator_cpus: tuple[int, ...] | None = None
    carries: dict[Interface, tuple[Interface, ...]] | None = None
    clock_error_ns: int | None = Field(default=None, ge=0, le=10**9)
    clock_keeper: ClockKeeper | None = None
    capture_stamps: Literal["kernel", "nic"] = "kernel"


class Endpoint(BaseModel):
    """``node/interface``."""

    model_config = ConfigDict(frozen=True)
    node: str
    interface: str

    def __str__(self) -> str:
        return f"{self.node}/{self.interface}"


def _endpoint(value: Any) -> Any:
    if value is None:
        raise ValueError("is empty | allowed: node/interface, such as src1/eth1")
    if isinstance(value, str):
        node, slash, interface = value.partition("/")
        if not slash or not NAME.match(node):
            raise ValueError("is not an endpoint of a stream | allowed: node/interface, such as src1/eth1")
        return {"node": node, "interface": _interface(interface)}
    return value


End = Annotated[Endpoint, BeforeValidator(_endpoint, json_schema_input_type=str)]


class Stream(StrictModel):
    """One stream: source NIC, the two NICs of the UUT it passes, sink NIC. No two share a link."""

    name: Name
    source: End
    uut_in: Interface
    uut_out: Interface
    sink: End
    source_ip: TestAddress
    sink_ip: TestAddress
    link_speed: Rate = 10**9

    @property
    def link_speed_bps(self) -> int:
        """Bandwidth of each of the stream's links, on the wire."""
        return self.link_speed


class Platform(BaseModel):
    """One platform that the operator may pick: a driver and its options."""

    model_config = ConfigDict(extra="allow", frozen=True)
    driver: str

    @property
    def options(self) -> dict[str, Any]:
        """All keys except ``driver``; the driver checks them."""
        return dict(self.model_extra or {})


class Defaults(StrictModel):
    """Values for keys that a request leaves out."""

    generator: Generator = "auto"
    observe: Literal["quiet", "live"] = "quiet"
    drop_reasons: DropReasons = "off"
    packet_times: PacketTiming = "off"
    settle_s: float = Field(default=5.0, ge=0, le=600)
    drain_s: float = Field(default=2.0, ge=0.1, le=60)
    ssh_config: str = "~/.ssh/config"
    known_hosts: str | None = None
    frame_size_includes_fcs: bool = False
    connect_timeout_s: float = Field(default=10.0, gt=0, le=120)
    sample_interval_s: float = Field(default=0.1, ge=0.02, le=10)
    capture_buffer_kib: int = Field(default=65536, ge=64, le=4 * 1024 * 1024)
    background_stream: Name | None = None

    def frame(self, size_bytes: int, includes_fcs: bool = False) -> FrameSize:
        """A frame size in this testbed's convention, or in RFC 2544's if requested."""
        return FrameSize(size_bytes, includes_fcs or self.frame_size_includes_fcs)


class Inventory(StrictModel):
    """A testbed as hosts.yaml describes it.

    ``injected``: a digest of the faults put into the testbed on purpose. It distinguishes testbeds with and without
    faults without naming them: the person who measures must not be able to look the result up.
    """

    testbed: Name
    emulated: bool = False
    injected: Annotated[str, Field(pattern="^[0-9a-f]{16}$")] | None = None
    nodes: dict[Name, Node] = Field(min_length=1)
    streams: tuple[Stream, ...] = Field(min_length=1)
    platforms: dict[Name, Platform] = Field(min_length=1)
    defaults: Defaults = Defaults()
    generators: dict[Generator, dict[str, Any]] = Field(default_factory=dict)
    """Options of generators of other packages, which validate them."""

    _file: Path | None = PrivateAttr(default=None)
    _lines: Any = PrivateAttr(default=None)

    def complaint(
        self, location: tuple[str | int, ...], message: str, value: object = None, allowed: str | None = None
    ) -> ConfigError:
        """Build a ConfigError about one place of the file this inventory was read from."""
        return ConfigError(
            message,
            file=str(self._file) if self._file else None,
            line=find_line(self._lines, location) if self._lines is not None else None,
            key=key_text(location),
            value=value,
            allowed=allowed,
        )

    @property
    def uut(self) -> str:
        """Name of the unit under test."""
        return next(name for name, node in self.nodes.items() if "uut" in node.roles)

    @property
    def host(self) -> str | None:
        """The machine that runs the UUT as a virtual machine, or None if the UUT is no such guest or its host is no
        node.
        """
        return next((name for name, node in self.nodes.items() if "host" in node.roles), None)

    def second_stream(self, sources: int) -> Stream | None:
        """The stream of the second guest, or None if a trial with this number of sources leaves none free."""
        chosen = self.defaults.background_stream or self.streams[-1].name
        return next((stream for stream in self.streams[sources:] if stream.name == chosen), None)

    def fingerprint(self) -> str:
        """Hash of what decides results: nodes, streams and platforms, without SSH settings and comments."""
        meaning = {
            "testbed": self.testbed,
            "emulated": self.emulated,
            "streams": [s.model_dump(mode="json") for s in self.streams],
            "platforms": {k: v.model_dump(mode="json") for k, v in sorted(self.platforms.items())},
            # The console watches a host, and sends and counts no packet there.
            "roles": {k: sorted(v.roles) for k, v in sorted(self.nodes.items()) if "host" not in v.roles},
        }
        # Keys at their default are left out, so that testbeds described before a key existed keep their fingerprint.
        if self.defaults.background_stream is not None:
            meaning["background_stream"] = self.defaults.background_stream
        if stamping := sorted(name for name, node in self.nodes.items() if node.capture_stamps == "nic"):
            meaning["capture_stamps_nic"] = stamping
        if self.injected is not None:
            meaning["injected"] = self.injected
        if self.generators:
            meaning["generators"] = self.generators
        return content_hash(meaning)


for _section, _model in ((None, Inventory), ("nodes", Node), ("streams", Stream), ("defaults", Defaults)):
    register_keys("Inventory", _section, _model)


def load_inventory(path: Path) -> Inventory:
    """Read and check hosts.yaml. Raises ConfigError naming file, line, key, value and what is allowed."""
    data = load_yaml(path)
    inventory = validate(Inventory, data, path)
    inventory._file, inventory._lines = path, data
    _check_references(inventory)
    return inventory


def _check_references(inventory: Inventory) -> None:
    def fail(
        location: tuple[str | int, ...], message: str, value: object = None, allowed: str | None = None
    ) -> NoReturn:
        raise inventory.complaint(location, message, value, allowed)

    uuts = [name for name, node in inventory.nodes.items() if "uut" in node.roles]
    if len(uuts) != 1:
        fail(("nodes",), "exactly one node must have the role uut", ", ".join(uuts) or "none")
    _check_host(inventory, fail)
    for name, node in inventory.nodes.items():
        if node.clock_error_ns is not None and node.clock_keeper is not None:
            message = "cannot be declared together with clock_keeper, which measures it"
            fail(("nodes", name, "clock_error_ns"), message, node.clock_error_ns, "one of the two")
        if node.capture_stamps == "nic" and "sink" not in node.roles:
            fail(("nodes", name, "capture_stamps"), "only a sink captures", "nic", "at a node with the role sink")
        if node.jump is not None and node.jump not in inventory.nodes and "@" not in node.jump and "." not in node.jump:
            fail(
                ("nodes", name, "jump"), "is neither a node nor a valid host", node.jump, "a node's name or host[:port]"
            )
    seen: dict[tuple[str, str], str] = {}
    for index, stream in enumerate(inventory.streams):
        for key, role in (("source", "source"), ("sink", "sink")):
            end: Endpoint = getattr(stream, key)
            if end.node not in inventory.nodes:
                fail(("streams", index, key), "names a node that does not exist", end.node, ", ".join(inventory.nodes))
            if role not in inventory.nodes[end.node].roles:
                fail(("streams", index, key), f"names a node without the role {role}", end.node)
        nics = {
            "source": str(stream.source),
            "uut_in": f"{uuts[0]}/{stream.uut_in}",
            "uut_out": f"{uuts[0]}/{stream.uut_out}",
            "sink": str(stream.sink),
        }
        for kind, items in (
            ("name", {"name": stream.name}),
            ("interface", nics),
            ("address", {"source_ip": stream.source_ip, "sink_ip": stream.sink_ip}),
        ):
            for key, value in items.items():
                if (kind, value) in seen:
                    fail(("streams", index, key), f"duplicate {kind}, already used by {seen[(kind, value)]}", value)
                seen[(kind, value)] = f"streams[{index}].{key}"
    background = inventory.defaults.background_stream
    if background is not None and background not in [stream.name for stream in inventory.streams[1:]]:
        # The first stream is never free: every trial measures with it.
        allowed = ", ".join(stream.name for stream in inventory.streams[1:]) or "(only one stream: none)"
        fail(("defaults", "background_stream"), "is not a stream that a trial can leave free", background, allowed)


def _check_host(inventory: Inventory, fail: Callable[..., NoReturn]) -> None:
    hosts = [name for name, node in inventory.nodes.items() if "host" in node.roles]
    if len(hosts) > 1:
        fail(("nodes",), "at most one node may have the role host", ", ".join(hosts))
    nics = [nic for stream in inventory.streams for nic in (stream.uut_in, stream.uut_out)]
    for name, node in inventory.nodes.items():
        if (node.carries is None) == (name in hosts):
            fail(("nodes", name), "the role host and carries belong together", None, "both or neither")
        if name in hosts and len(node.roles) > 1:
            fail(("nodes", name, "roles"), "a host has no other role", ", ".join(node.roles), "[host]")
        seen: dict[str, str] = {}
        for nic, interfaces in (node.carries or {}).items():
            if nic not in nics:
                fail(
                    ("nodes", name, "carries", nic), "is not a NIC of the UUT that a stream uses", nic, ", ".join(nics)
                )
            for interface in interfaces:
                if interface in seen:
                    message = f"names an interface that {seen[interface]} has already"
                    fail(("nodes", name, "carries", nic), message, interface)
                seen[interface] = nic


DEFAULT_INVENTORY = Path("hosts.yaml")
