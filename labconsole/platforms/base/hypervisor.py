"""What a driver of an installed hypervisor has to give: a handful of questions and commands.

What is abstract every hypervisor has. The rest not all have, and what a driver does not give is refused with a reason,
never taken for done.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from labconsole.contracts.driver import Attestation, Capabilities, DriverInfo
from labconsole.errors import ConfigError
from labconsole.platforms.base.guest import GuestNic, HypervisorGuest, Pinning, UnknownGuest, listed
from labconsole.platforms.base.options import ManagedOptions, read_options
from labconsole.platforms.base.shell import Answer, Shell


class Hypervisor(ABC):
    """One platform of hosts.yaml. ``planned`` are the guests that have to run: the second only beside a load."""

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
        self.planned: tuple[str, ...] = (self.options.guest,)
        self._check_options()

    def _check_options(self) -> None:
        told = self.options
        for key, value in (("cpu", told.cpu), ("second_cpu", told.second_cpu)):
            if value is not None and not self.about.capabilities.pin:
                raise self._wrong(key, f"is not possible: driver {self.about.name} cannot pin a guest{self.where()}")
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
            f"platform {self.name}: there is no guest {name}; the guests of {self.about.name} are {listed(known)}",
        )

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

    async def execute(self, shell: Shell, name: str, argv: Sequence[str]) -> Answer:
        """Run a program inside a guest."""
        raise shell.missing(f"driver {self.about.name} cannot run a program inside a guest{self.where()}")

    def inside(self, name: str) -> Sequence[str] | None:
        """What a program and its words are put behind to run inside a guest, with our standard input; None: nothing."""
        return None

    async def pid(self, shell: Shell, name: str) -> int | None:
        """The process on this node whose threads and descendants are the guest; None where there is none or it is
        not told."""
        return None
