"""Saved runs as files for other programs: each module here is a format, named after the file name suffix.

Other packages add formats by an entry point ``labconsole.exporters``. A module has ``BINARY``, which is True if the
format must not be written to a terminal, and ``parts(runs)``, which yields the file in pieces.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from labconsole import plugins
from labconsole.errors import ConfigError

if TYPE_CHECKING:
    from labconsole.store.exporting import ChosenRuns

DEFAULT = "jsonl"
PACKAGE = "store.exporters"


class Exporter(Protocol):
    """The module of a format."""

    BINARY: bool

    def parts(self, runs: ChosenRuns) -> Iterator[str] | Iterator[bytes]:
        """Yield the file in pieces, as bytes if it is binary.

        Raises ConfigError if a requirement of the format is missing.
        """


def names() -> list[str]:
    """All formats, the default one first. Imports none of them."""
    return sorted(plugins.names(PACKAGE), key=lambda name: (name != DEFAULT, name))


def export(runs: ChosenRuns, wanted: str | None, out: Path | None) -> None:
    """Write runs to a file or to stdout, in ``wanted`` format, or else as the file's name says; by default to stdout.

    A file is either replaced completely or left unchanged; a device or a pipe is written to. Raises ConfigError.
    """
    suffix = out.suffix.removeprefix(".").lower() if out is not None else ""
    if wanted is None and suffix not in ("", *names()) and not out_is_special(out):
        allowed = f"{', '.join(f'.{name}' for name in names())}, or --format"
        raise ConfigError("does not end in the name of a format", key="--out", value=str(out), allowed=allowed)
    name = wanted or suffix or DEFAULT
    exporter = load(name)
    if out is not None:
        _write(out, exporter.parts(runs))
        return
    if exporter.BINARY:
        raise ConfigError(
            f"a {name.capitalize()} file cannot be written to the terminal; use --out FILE", key="--format"
        )
    for part in exporter.parts(runs):
        sys.stdout.write(cast("str", part))


def out_is_special(out: Path | None) -> bool:
    """Whether the output is stdout, a device or a pipe, whose name does not determine a format."""
    return out is None or (out.exists() and not out.is_file())


def load(name: str) -> Exporter:
    """Load the module of a format. Raises ConfigError for a plug-in that cannot be used."""
    try:
        module = plugins.load(PACKAGE, name)
    except plugins.PluginError as exc:
        raise ConfigError(str(exc), key="--format", value=name) from exc
    if not isinstance(getattr(module, "BINARY", None), bool) or not callable(getattr(module, "parts", None)):
        raise ConfigError(f"plug-in {name} cannot be used: it lacks BINARY or parts", key="--format", value=name)
    return cast("Exporter", module)


def _write(out: Path, parts: Iterator[str] | Iterator[bytes]) -> None:
    data = (part.encode() if isinstance(part, str) else part for part in parts)
    try:
        if out_is_special(out):
            with out.open("wb") as stream:
                stream.writelines(data)
            return
        target = Path(os.path.realpath(out))  # a link's target
        partial = target.with_name(f".{target.name}.{os.urandom(4).hex()}")
        try:
            with partial.open("xb") as stream:
                stream.writelines(data)
                stream.flush()
                os.fsync(stream.fileno())
            partial.replace(target)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    except OSError as exc:
        raise ConfigError(f"cannot write {out}: {exc.strerror or exc}", key="--out") from None
