"""``command``: any hypervisor with a command line, described in hosts.yaml without any code of ours.

Each query is a command and a way to read its output: a regular expression with named groups, or paths into JSON. Both
give rows of the same fields, which are then handled the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from labconsole.contracts.driver import Capabilities, DriverInfo
from labconsole.errors import ConfigError
from labconsole.platforms.base.guest import GuestNic, HypervisorGuest, State, parse_interface
from labconsole.platforms.base.installed_guests import InstalledGuestDriver
from labconsole.platforms.base.options import ManagedOptions, mac_address
from labconsole.platforms.base.shell import Answer, Shell
from labconsole.wire.clean import read_json

MAX_ROWS = 1001
"""One more than a hypervisor's maximum of guests: such output is refused, not cut."""
PLACES = ("guest", "index")
_PLACE = re.compile(r"\{(\w*)\}")


def _pattern(value: str) -> str:
    try:
        re.compile(value, re.MULTILINE)
    except re.error as exc:
        raise ValueError(f"is not a regular expression ({exc})") from None
    return value


def _argv(value: list[str]) -> list[str]:
    for word in value:
        for place in _PLACE.findall(word):
            if place != "guest":
                raise ValueError(f"has an unknown placeholder {{{place}}}; allowed: {{guest}}")
        if "\0" in word:
            raise ValueError("contains a character that a command line cannot contain")
    return value


Argv = Annotated[list[str], Field(min_length=1), AfterValidator(_argv)]
Pattern = Annotated[str, AfterValidator(_pattern)]


class QueryTemplate(BaseModel):
    """A command and a parser of its output: ``regex`` with named groups, or ``json`` paths (``each``: to the rows)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    argv: Argv
    regex: Pattern | None = None
    json_: dict[str, str] | None = Field(default=None, alias="json")

    @model_validator(mode="after")
    def _has_one_parser(self) -> QueryTemplate:
        if (self.regex is None) == (self.json_ is None):
            raise ValueError("needs either regex or json")
        return self

    def fields(self) -> set[str]:
        """The fields that it reads."""
        if self.regex is not None:
            return set(re.compile(self.regex).groupindex)
        return set(self.json_ or ()) - {"each"}

    def read(self, text: str) -> list[dict[str, str]]:
        """The rows of an answer. Raises ValueError if it is not JSON."""
        if self.regex is not None:
            found = re.finditer(self.regex, text, re.MULTILINE)
            return [{k: v for k, v in row.groupdict().items() if v is not None} for row in islice(found, MAX_ROWS)]
        paths = self.json_ or {}
        document = read_json(text)
        rows = []
        for entry in find_at_path(document, paths.get("each", "")):
            values = {key: next(find_at_path(entry, path), None) for key, path in paths.items() if key != "each"}
            rows.append({k: str(v) for k, v in values.items() if isinstance(v, (str, int)) and type(v) is not bool})
        return rows[:MAX_ROWS]


def find_at_path(document: Any, path: str) -> Iterator[Any]:
    """The values at a path such as ``machines.*.state``: keys and list indexes, ``*`` for each; "" is all."""
    step, _, rest = path.partition(".")
    if not step:
        yield document
    elif step == "*":
        for entry in (
            document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
        ):
            yield from find_at_path(entry, rest)
    elif isinstance(document, dict) and step in document:
        yield from find_at_path(document[step], rest)
    elif (
        isinstance(document, list) and step.isascii() and step.isdigit() and len(step) < 6 and int(step) < len(document)
    ):
        yield from find_at_path(document[int(step)], rest)


class CommandOptions(ManagedOptions):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    list_: QueryTemplate = Field(alias="list")
    state: QueryTemplate
    nics_of: QueryTemplate
    start: Argv
    kill: Argv
    stop: Argv | None = None
    version: Argv | None = None
    exec_: Argv | None = Field(default=None, alias="exec")
    running: tuple[str, ...] = ("running",)
    stopped: tuple[str, ...] = ("stopped",)
    changing: tuple[str, ...] = ()
    host_interface: str | None = None


NEEDED = {"list": ("list_", {"guest"}), "state": ("state", {"state"}), "nics_of": ("nics_of", {"mac"})}


class CommandDriver(InstalledGuestDriver):
    """Options ``list``, ``state``, ``nics_of`` (queries), ``start``, ``stop``, ``kill``, ``version``, ``exec``
    (commands), ``running``, ``stopped``, ``changing`` (words), ``host_interface`` (a name with {guest} and {index}).
    """

    about = DriverInfo(
        name="command",
        summary="anything with a command line, by templates in hosts.yaml",
        tried="the templates yes; no product was driven with them",
        Options=CommandOptions,
        processes=("cloud-hyperviso", "crosvm.*", "firecracker.*"),
    )
    JOINS: ClassVar[bool] = True
    options: CommandOptions

    def tools(self) -> tuple[str, ...]:
        options = self.options
        queries = (
            options.list_.argv,
            options.state.argv,
            options.nics_of.argv,
            options.start,
            options.stop,
            options.kill,
            options.version,
        )
        return tuple(dict.fromkeys(argv[0] for argv in (*queries, options.exec_) if argv is not None))

    def declare(self) -> Capabilities:
        return Capabilities(statistics=True, nic_models=True, exec=self.options.exec_ is not None)

    def _check_options(self) -> None:
        super()._check_options()
        for key, (attribute, needed) in NEEDED.items():
            missing = needed - getattr(self.options, attribute).fields()
            if missing:
                raise ConfigError(f"must produce: {', '.join(sorted(missing))}", key=f"platforms.{self.name}.{key}")
        for place in _PLACE.findall(self.options.host_interface or ""):
            if place not in PLACES:
                raise ConfigError(
                    "has an unknown placeholder",
                    key=f"platforms.{self.name}.host_interface",
                    value=self.options.host_interface,
                    allowed="{guest}, {index}",
                )

    @staticmethod
    def _filled(argv: Sequence[str], name: str) -> list[str]:
        return [word.replace("{guest}", name) for word in argv]

    async def _ask(self, shell: Shell, question: QueryTemplate, name: str) -> list[dict[str, str]]:
        argv = self._filled(question.argv, name)
        text = await shell.must(argv)
        try:
            return question.read(text)
        except ValueError:
            raise shell.error(f"`{argv[0]}` did not print JSON: {text.strip()[:80]!r}") from None

    def _state(self, shell: Shell, name: str, said: str) -> HypervisorGuest:
        options = self.options
        for known, state in (
            (options.running, State.RUNNING),
            (options.stopped, State.STOPPED),
            (options.changing, State.CHANGING),
        ):
            if said in known:
                return HypervisorGuest(name, state, said)
        expected = ", ".join([*options.running, *options.stopped, *options.changing])
        raise shell.error(f"guest {name} is {said[:80]!r}; expected: {expected}")

    async def probe(self, shell: Shell) -> dict[str, str]:
        if self.options.version is None:
            return {}
        lines = (await shell.must(self._filled(self.options.version, self.options.guest))).strip().splitlines()
        return {self.options.version[0]: lines[0][:100] if lines else ""}

    async def guests(self, shell: Shell) -> dict[str, HypervisorGuest]:
        found: dict[str, HypervisorGuest] = {}
        for number, row in enumerate(await self._ask(shell, self.options.list_, self.options.guest), 1):
            name, said = row.get("guest"), row.get("state", "")
            if name is None:
                raise shell.error(f"`{self.options.list_.argv[0]}` reports no `guest` in row {number} of its list")
            if name in found and name in self.planned:
                raise shell.error(f"`{self.options.list_.argv[0]}` lists two guests named {name}; rename one")
            # For a guest that is not planned only running or not matters; one that is not known to be stopped may run.
            state = State.STOPPED if said in self.options.stopped else State.RUNNING
            if name not in found or found[name].state is State.STOPPED:
                found[name] = HypervisorGuest(name, state, said or "listed")
        for name in self.planned:
            if name in found:
                found[name] = await self.state(shell, name)
        return found

    async def state(self, shell: Shell, name: str) -> HypervisorGuest:
        rows = await self._ask(shell, self.options.state, name)
        if len(rows) != 1 or "state" not in rows[0]:
            raise shell.error(
                f"`{self.options.state.argv[0]}` reports {len(rows)} states of guest {name}; expected: one"
            )
        return self._state(shell, name, rows[0]["state"])

    async def start(self, shell: Shell, name: str) -> Answer:
        return await shell.run(self._filled(self.options.start, name), limit_s=self.options.start_s)

    def build_identity_command(self, name: str) -> Sequence[str]:
        return self._filled(self.options.state.argv, name)

    async def ask_to_stop(self, shell: Shell, name: str) -> Answer:
        if self.options.stop is None:
            return await self.kill(shell, name)
        return await shell.run(self._filled(self.options.stop, name), limit_s=max(1.0, self.options.graceful_s))

    async def kill(self, shell: Shell, name: str) -> Answer:
        return await shell.run(self._filled(self.options.kill, name))

    async def nics(self, shell: Shell, name: str) -> Sequence[GuestNic]:
        nics = []
        for index, row in enumerate(await self._ask(shell, self.options.nics_of, name)):
            end = row.get("host_interface")
            if end is None and self.options.host_interface is not None:
                end = self.options.host_interface.replace("{guest}", name).replace("{index}", str(index))
            nics.append(
                GuestNic(
                    mac=mac_address(row.get("mac", "")),
                    host_interface=parse_interface(end or "-"),
                    model=row.get("model"),
                    attached_to=row.get("attached_to"),
                )
            )
        return nics

    def inside(self, name: str) -> Sequence[str] | None:
        return None if self.options.exec_ is None else self._filled(self.options.exec_, name)

    async def execute(self, shell: Shell, name: str, argv: Sequence[str]) -> Answer:
        assert self.options.exec_ is not None
        return await shell.run([*self._filled(self.options.exec_, name), *argv])


DRIVER = CommandDriver
