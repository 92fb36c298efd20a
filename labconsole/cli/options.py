"""The parser of the command line, and the options that several commands share.

Importing this takes no time.
"""

from __future__ import annotations

import argparse
import difflib
import math
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from labconsole.errors import ConfigError, format_value
from labconsole.text.sanitize import sanitize

if TYPE_CHECKING:
    from labconsole.model.design_point import DesignPoint
    from labconsole.model.inventory import Inventory


class Parser(argparse.ArgumentParser):
    """A parser that reports bad usage in one sentence and takes no abbreviated options.

    It takes values that begin with a minus sign. Parsers of subcommands are also of this class.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse unknown options here: the parser of the whole command line does not know a command's options."""
        arguments = self._join_values(sys.argv[1:] if args is None else list(args))
        namespace, unknown = super().parse_known_args(arguments, namespace)
        if unknown:
            name = unknown[0].partition("=")[0]
            near = difflib.get_close_matches(name, self._option_string_actions, 1) if name.startswith("-") else []
            hint = f" (did you mean {near[0]}?)" if near else ""
            self.error(f"unknown {'option' if name.startswith('-') else 'argument'} {format_value(name)}{hint}")
        return namespace, unknown

    def _join_values(self, arguments: Sequence[str]) -> list[str]:
        """Turn ``--target -5Mbit`` into ``--target=-5Mbit``: argparse would take the value for an option."""
        joined: list[str] = []
        left = iter(arguments)
        for word in left:
            if word == "--":
                joined += [word, *left]
                break
            action = self._option_string_actions.get(word)
            if action is not None and (action.nargs in (None, "?")):
                value = next(left, None)
                if value is not None and self._is_value(value):
                    word += f"={value}" if word.startswith("--") else value
                    value = None
                joined += [word] if value is None else [word, *self._join_values([value, *left])]
            else:
                joined.append(word)
        return joined

    def _is_value(self, word: str) -> bool:
        """Whether a word looks like an option and is none."""
        if not re.match(r"-[^-]", word):
            return False
        return any(f"-{letter}" not in self._option_string_actions for letter in word[1:])

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(each) for each in action.choices]
        near = difflib.get_close_matches(str(value), known, 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise argparse.ArgumentError(
            action, f"invalid choice: {format_value(value)}{hint}; allowed: {', '.join(known)}"
        )

    def error(self, message: str) -> NoReturn:
        """Exit with one sentence and status 2."""
        sentence = sanitize(message.removeprefix("argument "))
        self.exit(ConfigError.exit_code, f"labconsole: {sentence}; see `{self.prog} --help`\n")


def whole_number(text: str, least: int | None = None) -> int:
    """The type of an option that takes a whole number. ``least``: the smallest allowed, or None if later code
    checks.

    Raises ArgumentTypeError.
    """
    allowed = "" if least is None else f"; allowed: {least} or more"
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        raise argparse.ArgumentTypeError(f"must be a whole number without a unit, got {format_value(text)}{allowed}")
    number = int(text)
    if least is not None and number < least:
        raise argparse.ArgumentTypeError(f"must be {least} or more, got {number}")
    return number


def number(text: str) -> float:
    """The type of an option that takes a number. Raises ArgumentTypeError."""
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        raise argparse.ArgumentTypeError(f"must be a number without a unit, got {format_value(text)}")
    value = float(text)
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"is too large, got {format_value(text)}")
    return value


ONE_OR_MORE: Any = partial(whole_number, least=1)
"""The type of a count that cannot be 0."""

SHARED: dict[str, dict[str, Any]] = {
    "--hosts": {"type": Path, "metavar": "FILE", "help": "testbed file (default: ./hosts.yaml)"},
    "--store": {
        "metavar": "URL",
        "help": "run store: a file, or postgresql://user@host/database (default: labconsole/runs.sqlite in "
        "$XDG_DATA_HOME or ~/.local/share)",
    },
    "--json": {"action": "store_true", "help": "print JSON lines, and nothing else, on stdout"},
    "--take-over": {
        "action": "store_true",
        "help": "take the testbed over from an operator who is measuring on it; ends their run, and both records say "
        "so",
    },
    "--platform": {"help": "platform from the testbed file (default: its first)"},
    "--includes-fcs": {"action": "store_true", "help": "the frame size includes the FCS, as in RFC 2544"},
    "--generator": {"help": "traffic generator (default: the testbed file's)"},
    "--observe": {
        "choices": ("quiet", "live"),
        "help": "whether the UUT reports its counters during a trial (default: the testbed file's)",
    },
    "--drop-reasons": {
        "choices": ("auto", "on", "off"),
        "help": "ask the UUT's kernel why it drops packets; auto: as long as that takes next to nothing (default: as "
        "the plan or the testbed file says)",
    },
    "--packet-times": {
        "choices": ("on", "off", "xdp-generic", "xdp-native"),
        "help": "let the sinks' kernels count and time every packet; xdp-generic and xdp-native: by an XDP program, "
        "which changes the port (default: as the plan or the testbed file says)",
    },
}
"""Options that are the same in all commands."""


def add_common(parser: argparse.ArgumentParser, *flags: str) -> None:
    """Add ``--verbose``, which every command has, and these of SHARED."""
    parser.add_argument(
        "-v", "--verbose", action="count", default=0, help="print more detail on stderr; -vv adds tracebacks"
    )
    add_shared(parser, *flags)


def add_shared(parser: argparse.ArgumentParser | argparse._ArgumentGroup, *flags: str) -> None:
    """Add these of SHARED, in this order."""
    for flag in flags:
        parser.add_argument(flag, **SHARED[flag], **(choices_of_generators() if flag == "--generator" else {}))


def choices_of_generators() -> dict[str, Any]:
    """For an option that names a generator: also those of other packages."""
    from labconsole.model.generator_names import generator_names

    return {"choices": generator_names()}


def add_configuration(
    parser: argparse.ArgumentParser | argparse._ArgumentGroup,
    *,
    frame_size_bytes: int | None = 64,
    sources: int | None = 1,
) -> None:
    """Add the options of a design point except its load. With defaults of None a command can tell which were given."""
    add_shared(parser, "--platform")
    parser.add_argument(
        "--frame-size",
        type=whole_number,
        default=frame_size_bytes,
        metavar="BYTES",
        help="frame size, without FCS (default: 64)",
    )
    add_shared(parser, "--includes-fcs")
    parser.add_argument(
        "--sources", type=whole_number, default=sources, metavar="N", help="number of simultaneous sources (default: 1)"
    )


OPTION_OF_KEY = {"frame_size": "--frame-size", "pairs": "--observer-effect"}
"""Options of keys that the engine refuses after connecting the nodes."""


@contextmanager
def naming_options() -> Iterator[None]:
    """Name the option in errors from the block, in place of the key that it sets."""
    try:
        yield
    except ConfigError as exc:
        option = OPTION_OF_KEY.get(exc.key or "")
        if option is None or exc.file is not None:
            raise
        raise ConfigError(exc.message, key=option, value=exc.value, allowed=exc.allowed) from None


def comma_separated(text: str) -> list[str]:
    """Split the value of an option such as ``--platforms A,B``."""
    return [name for name in (part.strip() for part in text.split(",")) if name]


def hosts_path(given: Path | None) -> Path:
    """The inventory of a command: the given one, else ./hosts.yaml. Raises ConfigError with advice."""
    from labconsole.model.inventory import DEFAULT_INVENTORY

    path = given or DEFAULT_INVENTORY
    if not path.exists():
        raise ConfigError(f"no such file{'' if given is not None else _hosts_hint()}", file=str(path))
    return path


def _hosts_hint() -> str:
    from labconsole.lab.commands import hosts_files

    up = " or ".join(map(str, hosts_files()))
    return (
        f"; use --hosts FILE{f' ({up} of the lab that is up)' if up else ''}, or run `labconsole discover` to make one "
        "of your machines, `labconsole init` for a blank one, or `labconsole demo` for a testbed on this machine"
    )


def parse_request(args: argparse.Namespace, inventory: Inventory) -> DesignPoint:
    """Build the trial of ``run``, ``search`` and ``check --observer-effect`` from the options. Raises ConfigError."""
    from labconsole.api.design_point_parser import parse_design_point

    if args.repetitions < 1:
        raise ConfigError("must be 1 or more", key="--repetitions", value=args.repetitions)
    return parse_design_point(
        inventory,
        platform=args.platform,
        frame_size_bytes=args.frame_size,
        includes_fcs=args.includes_fcs,
        sources=args.sources,
        target=args.target,
        duration_s=args.duration,
        background=args.background,
        generator=args.generator,
        observe=args.observe,
        where="--",
    )
