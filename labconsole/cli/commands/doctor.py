"""``labconsole doctor``: what this machine lacks, and what to type. docs/lab.md."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from labconsole.cli.commands import About
from labconsole.cli.options import add_common
from labconsole.cli.output import json_line, plain_lines
from labconsole.errors import ConfigError, LabError
from labconsole.units import counted

about = About(
    195,
    "say what this machine lacks, and what to type",
    description="Look at this machine: Python, optional packages, the terminal, the store, and what each platform of "
    "the local lab needs. Changes nothing. Machines of a testbed are looked at by `labconsole check`.",
)


class Looked(NamedTuple):
    """``status``: ok; lacking, where something else works without; failed, where nothing does."""

    subject: str
    status: Literal["ok", "lacking", "failed"]
    evidence: str
    hint: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    add_common(parser, "--store", "--json")


def run(args: argparse.Namespace) -> int:
    """0, or 1 when something is broken."""
    found = [*_program(), *_plugins(), _terminal(), _store(args.store), *_lab()]
    marks = {"ok": "✓", "lacking": "-", "failed": "✗"}
    for each in found:
        if args.json:
            json_line({"subject": each.subject, "status": each.status, "evidence": each.evidence, "hint": each.hint})
            continue
        plain_lines(f"  {marks[each.status]} {each.subject:22}  {each.evidence}")
        if each.hint:
            plain_lines(f"    {'':22}  → {each.hint}")
    return 1 if any(each.status == "failed" for each in found) else 0


def _program() -> Iterator[Looked]:
    from labconsole.text.extras import EXTRAS, missing, to_install
    from labconsole.wire.version import __version__

    yield Looked("labconsole", "ok", f"{__version__}, Python {sys.version.split()[0]}")
    for extra, told in EXTRAS.items():
        lacking = bool(missing(extra))
        evidence = f"{'without' if lacking else 'with'} {told.purpose}"
        yield Looked(f"for {extra}", "lacking" if lacking else "ok", evidence, to_install(extra) if lacking else "")


def _plugins() -> Iterator[Looked]:
    from labconsole import plugins

    for package, try_it in _tried_by().items():
        for name, whose in plugins.hidden(package):
            why = f"that of package {whose} is not used: labconsole has one of this name"
            yield Looked(f"plug-in {name}", "failed", why, "rename or uninstall it; all others work")
        for name in plugins.outside(package):
            try:
                try_it(name)
            except (LabError, plugins.PluginError) as exc:
                said = exc.message if isinstance(exc, ConfigError) else str(exc)  # nobody typed what it complains of
                said = said.removeprefix(f"plug-in {name} ")
                yield Looked(f"plug-in {name}", "failed", said, "mend or uninstall it; all others work")
            else:
                yield Looked(f"plug-in {name}", "ok", f"of {package.rpartition('.')[2]}")


def _tried_by() -> dict[str, Callable[[str], object]]:
    """What other packages plug into, each with what loads one and checks it."""
    from labconsole.experiments.units import OUTSIDE, load_units
    from labconsole.model.generator import load_generator
    from labconsole.model.generator_names import PACKAGE as GENERATORS
    from labconsole.model.plan.outside import PACKAGE as EXPERIMENTS
    from labconsole.model.plan.outside import load_experiment
    from labconsole.model.record.kinds import PACKAGE as KINDS
    from labconsole.model.record.kinds import record_kinds
    from labconsole.platforms.loading import PACKAGE as DRIVERS
    from labconsole.platforms.loading import load_driver
    from labconsole.store import exporters

    return {
        DRIVERS: load_driver, GENERATORS: load_generator, exporters.PACKAGE: exporters.load, OUTSIDE: load_units,
        KINDS: lambda name: record_kinds()[name], EXPERIMENTS: load_experiment,
    }  # fmt: skip


def _terminal() -> Looked:
    import os
    import shutil

    size, encoding = shutil.get_terminal_size(), (sys.stdout.encoding or "").lower()
    words = f"{os.environ.get('TERM', 'no TERM')}, {size.columns}x{size.lines}, {encoding}"
    if encoding not in ("utf-8", "utf8"):
        return Looked("terminal", "lacking", words, "the console draws with UTF-8: export LANG=C.UTF-8")
    if size.columns < 80 or size.lines < 24:
        return Looked("terminal", "lacking", words, "the console needs 80x24")
    return Looked("terminal", "ok", words)


def _store(url: str | None) -> Looked:
    from labconsole.store.location import would_make
    from labconsole.store.open import open_store

    try:
        if would_make(url):
            return Looked("run store", "ok", "none yet: it is made with the first run")
        with open_store(url, write=False) as store:
            return Looked("run store", "ok", f"{store.name}, {counted(store.count(), 'run')}")
    except LabError as exc:
        return Looked("run store", "failed", str(exc), "name another with --store, or mend this one")


def _lab() -> Iterator[Looked]:
    import os

    from labconsole.lab.prerequisites import BASE_TOOLS, MACHINE_TOOLS, namespaces_refused
    from labconsole.lab.spec import DEFAULT_PLATFORMS, KNOWN_PLATFORMS

    refused = namespaces_refused()
    if refused is not None:
        yield Looked("local lab", "lacking", "namespaces cannot be made", refused)
    else:
        yield _tools("local lab", BASE_TOOLS)
    for platform in (each for each in KNOWN_PLATFORMS if each not in DEFAULT_PLATFORMS):
        if platform == "lxc" and os.geteuid() != 0:
            hint = "sudo labconsole lab up --platforms lxc"
            yield Looked("platform lxc", "lacking", "needs root, because LXC creates control groups", hint)
            continue
        yield _tools(f"platform {platform}", _needs(platform))
    yield _tools("lab in a machine", MACHINE_TOOLS)


def _needs(platform: str) -> dict[str, str]:
    from labconsole.lab.offers import tools_of
    from labconsole.lab.prerequisites import MACHINE_TOOLS
    from labconsole.lab.spec import MACHINE_ONLY_PLATFORMS

    return {**tools_of([platform]), **(MACHINE_TOOLS if platform in MACHINE_ONLY_PLATFORMS else {})}


def _tools(subject: str, wanted: dict[str, str]) -> Looked:
    import os

    from labconsole.lab.prerequisites import missing_tools

    missing = missing_tools(wanted)
    if not missing:
        return Looked(subject, "ok", f"has {', '.join(wanted)}" if wanted else "needs nothing more")
    prefix = "" if os.geteuid() == 0 else "sudo "
    packages = " ".join(sorted(set(missing.values())))
    return Looked(subject, "lacking", f"lacks {', '.join(missing)}", f"{prefix}apt-get install -y {packages}")
