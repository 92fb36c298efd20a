"""What a driver of an installed hypervisor has to give: a handful of questions and commands.

What is abstract every hypervisor has. The rest not all have, and what a driver does not give is refused with a reason,
never taken for done.
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
"""Gives the shell at the other end its loop as the first line of its input: what leads there may be ``ssh``, which
makes one line for a shell of the words it is given, or may take each as it is. Who feeds it ends with it: a way in that
does not lead inside yet has to end, to be tried again."""


T = TypeVar("T")


class StopCommands(NamedTuple):
    """Commands by which a keeper stops a guest; ``runs``: Hypervisor.runs_words()."""

    ask: Sequence[str]
    kill: Sequence[str]
    runs: Sequence[str] | None = None


class Hypervisor(ABC):
    """One platform of hosts.yaml. ``planned`` are the guests that have to run, the second only beside a load, each with
    the CPUs that it is pinned to; None: it is not."""

    about: DriverInfo
    JOINS: ClassVar[bool] = False
    """Whether what leads inside may make one line for a shell of the words behind it, as ``ssh`` does."""

    EVERY_VCPU: ClassVar[str] = "all"
    """How a dry run names the vCPUs to ``pin``: how many there are is not known then."""

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
        told = self.options
        for key, value in (("cpu", told.cpu), ("second_cpu", told.second_cpu)):
            if value is not None and not self.about.capabilities.pin:
                raise self._wrong(key, f"is not possible: driver {self.about.name} cannot pin a guest{self.where()}")
        if told.guest_shell is not None and not any(GUEST_PLACE in word for word in told.guest_shell):
            raise self._wrong("guest_shell", f"leads to the same guest always: no word of it has {GUEST_PLACE}")
        for key in ("guest_shell", "guest_nic", "guest_inbound_nic", "guest_cpus", "guest_files", "guest_directory"):
            if getattr(told, key) is not None and not told.guests:
                raise self._wrong(key, "needs guests")
        if told.guest_inbound_nic is not None and told.guest_inbound_nic == told.guest_nic:
            raise self._wrong("guest_inbound_nic", "is the NIC that guests send by, guest_nic", str(told.guest_nic))
        if told.guest_files is not None and told.ssh is not None:
            raise self._wrong("guest_files", "is not possible with ssh: they are on another node than this one")
        if len(set(told.guests)) < len(told.guests):
            raise self._wrong("guests", "names a guest twice")
        for key, names in (("guest", [told.guest]), ("second_guest", [told.second_guest]), ("guests", told.guests)):
            for name in names:
                if name is not None and (refusal := self.name_refusal(name)) is not None:
                    raise self._wrong(key, refusal, name)
        for key in ("second_cpu", "second_shell"):
            if getattr(told, key) is not None and told.second_guest is None:
                raise self._wrong(key, "needs a second_guest")
        if told.second_guest == told.guest:
            raise self._wrong("second_guest", "is the first guest", told.guest)
        if told.bridges == "made" and (told.ssh is not None or not self.about.capabilities.statistics):
            raise self._wrong(
                "bridges",
                f"is not possible: driver {self.about.name} cannot tell which interface of this node "
                f"belongs to a guest's NIC",
            )
        named = [name for name in (told.guest, told.second_guest) if name is not None]
        for index, nics in enumerate(told.nics):
            if nics.guest is not None and nics.guest not in named:
                raise self._wrong(
                    f"nics[{index}].guest", "is not a guest of this platform", nics.guest, ", ".join(named)
                )

    def name_refusal(self, name: str) -> str | None:
        """Why the tool would not read this word as a guest's name, or None if it does."""
        return None

    def _wrong(self, key: str, message: str, value: str | None = None, allowed: str | None = None) -> ConfigError:
        return ConfigError(message, key=f"platforms.{self.name}.{key}", value=value, allowed=allowed)

    def declare(self) -> Capabilities:
        """What this hypervisor can do, as far as the options tell."""
        return self.about.capabilities

    def tools(self) -> tuple[str, ...]:
        """The hypervisor's programs, as far as the options tell."""
        return self.about.tools

    def where(self) -> str:
        """What the sentence about a missing capability adds, such as the connection."""
        return ""

    def unknown(self, shell: Shell, name: str, known: Iterable[str]) -> UnknownGuest:
        return UnknownGuest(
            shell.uut.name,
            f"platform {self.name}: there is no guest {name}; the guests of {self.about.name} are {format_names(known)}",
        )

    async def read(self, shell: Shell, argv: Sequence[str], parse: Callable[[str], T]) -> T:
        """What a command that only asks prints. Raises NodeError with the line that is not known."""
        text = await shell.must(argv)
        try:
            return parse(text)
        except UnknownLine as exc:
            command = shlex.join(argv)
            raise shell.error(f"`{command}` printed a line that is not known: {format_output(str(exc))}") from exc

    # What every hypervisor has ------------------------------------------------------------------------------------

    @abstractmethod
    async def probe(self, shell: Shell) -> dict[str, str]:
        """Versions of what runs the guests. Raises CapabilityMissing when it is not there or refuses us."""

    @abstractmethod
    async def guests(self, shell: Shell) -> dict[str, HypervisorGuest]:
        """Every guest that is known. Of those that are not planned, ``state`` only tells whether they run."""

    @abstractmethod
    async def state(self, shell: Shell, name: str) -> HypervisorGuest:
        """One guest now. Raises UnknownGuest."""

    @abstractmethod
    async def start(self, shell: Shell, name: str) -> Answer:
        """Say that it shall start."""

    @abstractmethod
    async def ask_to_stop(self, shell: Shell, name: str) -> Answer:
        """Ask the guest to shut down."""

    @abstractmethod
    async def kill(self, shell: Shell, name: str) -> Answer:
        """Take its power away."""

    def build_identity_command(self, name: str) -> Sequence[str] | None:
        """A command that prints the same from a guest's start to its end, and something else afterwards; None: there is
        none, or what asks it to stop waits for that.
        """
        return None

    async def build_stop_commands(self, shell: Shell, name: str) -> StopCommands:
        """What ask_to_stop() and kill() run, for a keeper that has nobody to ask: each one command, known before the
        guest is started.
        """
        asking, killing = RecordingShell(self.name), RecordingShell(self.name)
        asking.record(self.ask_to_stop(asking, name))
        killing.record(self.kill(killing, name))
        return StopCommands(asking.argvs[0], killing.argvs[0], self.build_identity_command(name))

    @abstractmethod
    async def nics(self, shell: Shell, name: str) -> Sequence[GuestNic]:
        """Its NICs, in the hypervisor's order."""

    # What not all have --------------------------------------------------------------------------------------------

    async def facts(self, shell: Shell, name: str) -> Attestation:
        """What else the record says of a guest that runs: nothing that changes by itself."""
        return {}

    async def pinning(self, shell: Shell, name: str) -> Pinning | None:
        """Where its vCPUs may run; None where the hypervisor does not say."""
        return None

    async def pin(self, shell: Shell, name: str, pinning: Pinning) -> Answer:
        """Say where its vCPUs may run."""
        raise shell.missing(f"driver {self.about.name} cannot pin a guest{self.where()}")

    def limits_it_has(self) -> Collection[str]:
        """To which of cpu_shares, cpu_quota_ratio and memory_mib a guest can be held."""
        return ()

    async def limit_settings(self, shell: Shell, name: str, wanted: Limits) -> Settings:
        """What these limits are here."""
        raise shell.missing(f"driver {self.about.name} cannot hold a guest to limits{self.where()}")

    async def settings(self, shell: Shell, name: str, names: Sequence[str]) -> Settings:
        """What these settings of a guest that runs are now."""
        raise shell.missing(f"driver {self.about.name} does not report to what a guest is held{self.where()}")

    async def set_limits(self, shell: Shell, name: str, wanted: Settings) -> Answer:
        """Say to what a guest that runs is held."""
        raise shell.missing(f"driver {self.about.name} cannot hold a guest to limits{self.where()}")

    async def execute(self, shell: Shell, name: str, argv: Sequence[str]) -> Answer:
        """Run a program inside a guest."""
        raise shell.missing(f"driver {self.about.name} cannot run a program inside a guest{self.where()}")

    def inside(self, name: str) -> Sequence[str] | None:
        """What a program and its words are put behind to run inside a guest, with our standard input; None: nothing."""
        return None

    def way_in(self, name: str, told: Sequence[str] | None) -> list[str] | None:
        """What leads into a guest, to a shell that ``open_shell`` puts behind it: as ``told`` in hosts.yaml, or the
        driver's own. None: nothing does."""
        if told is not None:
            return ["sh", "-c", _FED.format(lead=shlex.join(told))]
        inside = self.inside(name)
        if inside is None:
            return None
        if self.options.ssh is None:
            return ["sh", "-c", _FED.format(lead=shlex.join(inside))] if self.JOINS else list(inside)
        there = ssh_argv(self.options.ssh, shlex.join(inside))
        return ["sh", "-c", _FED.format(lead=shlex.join(there))]

    async def nics_to_be(self, shell: Shell, name: str) -> Sequence[GuestNic]:
        """The NICs that a guest will have when it is started, in the hypervisor's order, where `nics` does not tell of
        one that is off. Empty: that is not known."""
        return ()

    async def memory_word(self, shell: Shell, names: Sequence[str]) -> HypervisorWord | None:
        """What the hypervisor itself says of its memory and of these guests', those that run; None: nothing that the
        UUT's own kernel does not say."""
        return None

    async def find_member_pids(self, shell: Shell) -> dict[str, int]:
        """By planned guest, a process on this node in its network namespace; none where it has a kernel of its own."""
        return {}

    async def pid(self, shell: Shell, name: str) -> int | None:
        """The process on this node whose threads and descendants are the guest; None where there is none or it is
        not told."""
        return None
