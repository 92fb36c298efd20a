"""The interface of a driver for an installed hypervisor: a few queries and commands.

Abstract methods exist for every hypervisor. The others are optional, and a missing one is refused with a reason, never
assumed to have run.
"""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple, TypeVar

from labconsole.contracts.crew import HypervisorWord
from labconsole.contracts.driver import Attestation, Capabilities, DriverInfo
from labconsole.errors import ConfigError
from labconsole.network.control_groups import Limits
from labconsole.platforms.base.guest import (
    GuestNic,
    HypervisorGuest,
    Pinning,
    Settings,
    UnknownGuest,
    UnknownLine,
    format_names,
    format_output,
)
from labconsole.platforms.base.options import GUEST_PLACE, ManagedOptions, read_options
from labconsole.platforms.base.shell import Answer, RecordingShell, Shell, ssh_argv

_FED = (
    "for loop; do :; done; exec 3>&2 2>/dev/null; "
    "{{ sh -c 'echo $PPID'; printf '%s\\n' \"$loop\"; exec cat; }} 3>&- | "
    "{{ read -r feeder; {lead} sh 2>&3 3>&-; status=$?; kill $feeder; exit $status; }}"
)
"""Gives the shell at the other end its loop as the first line of its input: the entry may be ``ssh``, which joins its
arguments to one line for a shell, or may take each argument unchanged. The feeding process ends with it: an entry that
does not yet lead inside has to end, to be tried again.
"""


T = TypeVar("T")


class StopCommands(NamedTuple):
    """Commands with which a keeper stops a guest; ``runs``: Hypervisor.build_identity_command()."""

    ask: Sequence[str]
    kill: Sequence[str]
    runs: Sequence[str] | None = None


class Hypervisor(ABC):
    """One platform of hosts.yaml. ``planned``: the guests that have to run, the second only for a background load, each
    with the CPUs that it is pinned to, or None if it is not pinned.
    """

    about: DriverInfo
    JOINS: ClassVar[bool] = False
    """Whether the entry may join the arguments behind it to one line for a shell, as ``ssh`` does."""

    EVERY_VCPU: ClassVar[str] = "all"
    """Name of the vCPUs to ``pin`` in a dry run, which does not know their number."""

    options: ManagedOptions

    def __init__(self, name: str, options: Mapping[str, object]) -> None:
        self.name = name
        read = read_options(self.about.Options, self.about.name, name, options)
        assert isinstance(read, ManagedOptions)
        self.options = read
        tools = self.tools() if read.ssh is None else ("ssh",)
        self.about = replace(self.about, tools=tools, capabilities=self.declare())
        self.planned: dict[str, str | None] = {self.options.guest: self.options.cpu}
        self._check_options()

    def _check_options(self) -> None:
        options = self.options
        for key, value in (("cpu", options.cpu), ("second_cpu", options.second_cpu)):
            if value is not None and not self.about.capabilities.pin:
                raise self._wrong(key, f"is not possible: driver {self.about.name} cannot pin a guest{self.where()}")
        if options.guest_shell is not None and not any(GUEST_PLACE in word for word in options.guest_shell):
            raise self._wrong("guest_shell", f"always leads to the same guest: none of its words has {GUEST_PLACE}")
        for key in ("guest_shell", "guest_nic", "guest_inbound_nic", "guest_cpus", "guest_files", "guest_directory"):
            if getattr(options, key) is not None and not options.guests:
                raise self._wrong(key, "needs guests")
        if options.guest_inbound_nic is not None and options.guest_inbound_nic == options.guest_nic:
            raise self._wrong(
                "guest_inbound_nic", "is the NIC that guests send through, guest_nic", str(options.guest_nic)
            )
        if options.guest_files is not None and options.ssh is not None:
            raise self._wrong("guest_files", "is not possible with ssh: they are on another node than this one")
        if len(set(options.guests)) < len(options.guests):
            raise self._wrong("guests", "names a guest twice")
        for key, names in (
            ("guest", [options.guest]),
            ("second_guest", [options.second_guest]),
            ("guests", options.guests),
        ):
            for name in names:
                if name is not None and (refusal := self.name_refusal(name)) is not None:
                    raise self._wrong(key, refusal, name)
        for key in ("second_cpu", "second_shell"):
            if getattr(options, key) is not None and options.second_guest is None:
                raise self._wrong(key, "needs a second_guest")
        if options.second_guest == options.guest:
            raise self._wrong("second_guest", "is the first guest", options.guest)
        if options.bridges == "made" and (options.ssh is not None or not self.about.capabilities.statistics):
            raise self._wrong(
                "bridges",
                f"is not possible: driver {self.about.name} cannot tell which interface of this node "
                f"belongs to a guest's NIC",
            )
        named = [name for name in (options.guest, options.second_guest) if name is not None]
        for index, nics in enumerate(options.nics):
            if nics.guest is not None and nics.guest not in named:
                raise self._wrong(
                    f"nics[{index}].guest", "is not a guest of this platform", nics.guest, ", ".join(named)
                )

    def name_refusal(self, name: str) -> str | None:
        """Why the tool would not accept this word as a guest's name, or None if it does."""
        return None

    def _wrong(self, key: str, message: str, value: str | None = None, allowed: str | None = None) -> ConfigError:
        return ConfigError(message, key=f"platforms.{self.name}.{key}", value=value, allowed=allowed)

    def declare(self) -> Capabilities:
        """The capabilities of this hypervisor, as far as the options determine them."""
        return self.about.capabilities

    def tools(self) -> tuple[str, ...]:
        """The hypervisor's programs, as far as the options determine them."""
        return self.about.tools

    def where(self) -> str:
        """Addition to the error about a missing capability, such as the connection."""
        return ""

    def unknown(self, shell: Shell, name: str, known: Iterable[str]) -> UnknownGuest:
        return UnknownGuest(
            shell.uut.name,
            f"platform {self.name}: there is no guest {name}; "
            f"the guests of {self.about.name} are {format_names(known)}",
        )

    async def read(self, shell: Shell, argv: Sequence[str], parse: Callable[[str], T]) -> T:
        """Parsed output of a command that changes nothing. Raises NodeError with the unknown line."""
        text = await shell.must(argv)
        try:
            return parse(text)
        except UnknownLine as exc:
            command = shlex.join(argv)
            raise shell.error(f"`{command}` printed an unrecognized line: {format_output(str(exc))}") from exc

    # Required of every hypervisor ---------------------------------------------------------------------------------

    @abstractmethod
    async def probe(self, shell: Shell) -> dict[str, str]:
        """Versions of the guests' programs. Raises CapabilityMissing if they are missing or refuse access."""

    @abstractmethod
    async def guests(self, shell: Shell) -> dict[str, HypervisorGuest]:
        """Every known guest. For guests that are not planned, ``state`` only shows whether they run."""

    @abstractmethod
    async def state(self, shell: Shell, name: str) -> HypervisorGuest:
        """One guest now. Raises UnknownGuest."""

    @abstractmethod
    async def start(self, shell: Shell, name: str) -> Answer:
        """Request its start."""

    @abstractmethod
    async def ask_to_stop(self, shell: Shell, name: str) -> Answer:
        """Ask the guest to shut down."""

    @abstractmethod
    async def kill(self, shell: Shell, name: str) -> Answer:
        """Power it off."""

    def build_identity_command(self, name: str) -> Sequence[str] | None:
        """A command with the same output from a guest's start to its end, and another afterwards. None if there is
        none, or if the command to stop waits for the end.
        """
        return None

    async def build_stop_commands(self, shell: Shell, name: str) -> StopCommands:
        """The commands of ask_to_stop() and kill(), for a keeper without a console: each one command, known before the
        guest starts.
        """
        stopping, killing = RecordingShell(self.name), RecordingShell(self.name)
        stopping.record(self.ask_to_stop(stopping, name))
        killing.record(self.kill(killing, name))
        return StopCommands(stopping.argvs[0], killing.argvs[0], self.build_identity_command(name))

    @abstractmethod
    async def nics(self, shell: Shell, name: str) -> Sequence[GuestNic]:
        """Its NICs, in the hypervisor's order."""

    # Optional -----------------------------------------------------------------------------------------------------

    async def facts(self, shell: Shell, name: str) -> Attestation:
        """Further facts of a running guest for the record, which do not change by themselves."""
        return {}

    async def pinning(self, shell: Shell, name: str) -> Pinning | None:
        """The CPUs its vCPUs may run on, or None if the hypervisor does not report it."""
        return None

    async def pin(self, shell: Shell, name: str, pinning: Pinning) -> Answer:
        """Set the CPUs its vCPUs may run on."""
        raise shell.missing(f"driver {self.about.name} cannot pin a guest{self.where()}")

    def limits_it_has(self) -> Collection[str]:
        """The supported limits out of cpu_shares, cpu_quota_ratio and memory_mib."""
        return ()

    async def limit_settings(self, shell: Shell, name: str, wanted: Limits) -> Settings:
        """The hypervisor's settings for these limits."""
        raise shell.missing(f"driver {self.about.name} cannot limit a guest{self.where()}")

    async def settings(self, shell: Shell, name: str, names: Sequence[str]) -> Settings:
        """Current values of these settings of a running guest."""
        raise shell.missing(f"driver {self.about.name} does not report the limits of a guest{self.where()}")

    async def set_limits(self, shell: Shell, name: str, wanted: Settings) -> Answer:
        """Set the limits of a running guest."""
        raise shell.missing(f"driver {self.about.name} cannot limit a guest{self.where()}")

    async def execute(self, shell: Shell, name: str, argv: Sequence[str]) -> Answer:
        """Run a program inside a guest."""
        raise shell.missing(f"driver {self.about.name} cannot run a program inside a guest{self.where()}")

    def inside(self, name: str) -> Sequence[str] | None:
        """The command prefix that runs a program inside a guest, with our standard input, or None if there is none."""
        return None

    def way_in(self, name: str, configured: Sequence[str] | None) -> list[str] | None:
        """The command that leads into a guest, to a shell that ``open_shell`` appends: ``configured`` in hosts.yaml, or
        the driver's own, or None if there is none.
        """
        if configured is not None:
            return ["sh", "-c", _FED.format(lead=shlex.join(configured))]
        inside = self.inside(name)
        if inside is None:
            return None
        if self.options.ssh is None:
            return ["sh", "-c", _FED.format(lead=shlex.join(inside))] if self.JOINS else list(inside)
        there = ssh_argv(self.options.ssh, shlex.join(inside))
        return ["sh", "-c", _FED.format(lead=shlex.join(there))]

    async def nics_to_be(self, shell: Shell, name: str) -> Sequence[GuestNic]:
        """The NICs that a guest will have when it is started, in the hypervisor's order, if `nics` does not report
        those of a stopped one. Empty if unknown.
        """
        return ()

    async def memory_word(self, shell: Shell, names: Sequence[str]) -> HypervisorWord | None:
        """The hypervisor's own report on its memory and that of these guests, if running, or None if the UUT's own
        kernel reports the same.
        """
        return None

    async def find_member_pids(self, shell: Shell) -> dict[str, int]:
        """By planned guest, a process on this node in its network namespace; none for guests with a kernel of their
        own.
        """
        return {}

    async def pid(self, shell: Shell, name: str) -> int | None:
        """The process on this node whose threads and descendants are the guest, or None if there is none or it is not
        reported.
        """
        return None
