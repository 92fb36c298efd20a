"""``labconsole doctor``: missing prerequisites of this machine, and how to install them. docs/lab.md."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from labconsole.cli.commands import About
from labconsole.cli.options import add_common
from labconsole.cli.output import print_json_line, print_lines
from labconsole.errors import ConfigError, LabError
from labconsole.units import counted

about = About(
    195,
    "list missing prerequisites and how to install them",
    description="Look at this machine: Python, optional packages, the terminal, the store, and what each platform of "
    "the local lab needs. Changes nothing. Machines of a testbed are looked at by `labconsole check`.",
)


class Diagnosis(NamedTuple):
    """``status``: ok; lacking if other parts work without it; failed if nothing does."""

    subject: str
    status: Literal["ok", "lacking", "failed"]
    evidence: str
    hint: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_common(parser, "--store", "--json")


def run(args: argparse.Namespace) -> int:
    """Return 0, or 1 if something is broken."""
    found = [*_program(), *_plugins(), _terminal(), _store(args.store), *_lab()]
    marks = {"ok": "✓", "lacking": "-", "failed": "✗"}
    for each in found:
        if args.json:
            print_json_line(
                {"subject": each.subject, "status": each.status, "evidence": each.evidence, "hint": each.hint}
            )
            continue
        print_lines(f"  {marks[each.status]} {each.subject:22}  {each.evidence}")
        if each.hint:
            print_lines(f"    {'':22}  → {each.hint}")
    return 1 if any(each.status == "failed" for each in found) else 0


def _program() -> Iterator[Diagnosis]:
    from labconsole.text.extras import EXTRAS, build_install_command, missing
    from labconsole.wire.version import __version__

    yield Diagnosis("labconsole", "ok", f"{__version__}, Python {sys.version.split()[0]}")
    for extra, details in EXTRAS.items():
        lacking = bool(missing(extra))
        evidence = f"{'without' if lacking else 'with'} {details.purpose}"
        yield Diagnosis(
            f"for {extra}", "lacking" if lacking else "ok", evidence, build_install_command(extra) if lacking else ""
        )


def _plugins() -> Iterator[Diagnosis]:
    from labconsole import plugins

    for package, try_it in _list_plugin_checks().items():
        for name, whose in plugins.find_shadowed_names(package):
            why = f"that of package {whose} is not used: labconsole has one of this name"
            yield Diagnosis(f"plug-in {name}", "failed", why, "rename or uninstall it; all others work")
        for name in plugins.find_external_names(package):
            try:
                try_it(name)
            except (LabError, plugins.PluginError) as exc:
                said = (
                    exc.message if isinstance(exc, ConfigError) else str(exc)
                )  # the user did not type the refused value
                said = said.removeprefix(f"plug-in {name} ")
                yield Diagnosis(f"plug-in {name}", "failed", said, "repair or uninstall it; all others work")
            else:
                yield Diagnosis(f"plug-in {name}", "ok", f"of {package.rpartition('.')[2]}")


def _list_plugin_checks() -> dict[str, Callable[[str], object]]:
    """The groups of plug-ins in other packages, each with the function that loads and checks one."""
    from labconsole.experiments.units import ENTRY_POINT_GROUP, load_units
    from labconsole.model.generator import load_generator
    from labconsole.model.generator_names import PACKAGE as GENERATORS
    from labconsole.model.plan.plugins import PACKAGE as EXPERIMENTS
    from labconsole.model.plan.plugins import load_experiment
    from labconsole.model.record.kind import PACKAGE as KINDS
    from labconsole.model.record.kind import record_kinds
    from labconsole.platforms.loading import PACKAGE as DRIVERS
    from labconsole.platforms.loading import load_driver
    from labconsole.store import exporters

    return {
        DRIVERS: load_driver,
        GENERATORS: load_generator,
        exporters.PACKAGE: exporters.load,
        ENTRY_POINT_GROUP: load_units,
        KINDS: lambda name: record_kinds()[name],
        EXPERIMENTS: load_experiment,
    }


def _terminal() -> Diagnosis:
    import os
    import shutil

    size, encoding = shutil.get_terminal_size(), (sys.stdout.encoding or "").lower()
    description = f"{os.environ.get('TERM', 'no TERM')}, {size.columns}x{size.lines}, {encoding}"
    if encoding not in ("utf-8", "utf8"):
        return Diagnosis("terminal", "lacking", description, "the console draws with UTF-8: export LANG=C.UTF-8")
    if size.columns < 80 or size.lines < 24:
        return Diagnosis("terminal", "lacking", description, "the console needs 80x24")
    return Diagnosis("terminal", "ok", description)


def _store(url: str | None) -> Diagnosis:
    from labconsole.store.location import would_create
    from labconsole.store.open import open_store

    try:
        if would_create(url):
            return Diagnosis("run store", "ok", "none yet: the first run creates it")
        with open_store(url, write=False) as store:
            return Diagnosis("run store", "ok", f"{store.name}, {counted(store.count(), 'run')}")
    except LabError as exc:
        return Diagnosis("run store", "failed", str(exc), "name another with --store, or repair this one")


def _lab() -> Iterator[Diagnosis]:
    import os

    from labconsole.lab.prerequisites import BASE_TOOLS, MACHINE_TOOLS, namespaces_refused
    from labconsole.lab.spec import DEFAULT_PLATFORMS, KNOWN_PLATFORMS

    refused = namespaces_refused()
    if refused is not None:
        yield Diagnosis("local lab", "lacking", "namespaces cannot be created", refused)
    else:
        yield _tools("local lab", BASE_TOOLS)
    for platform in (each for each in KNOWN_PLATFORMS if each not in DEFAULT_PLATFORMS):
        if platform == "lxc" and os.geteuid() != 0:
            hint = "sudo labconsole lab up --platforms lxc"
            yield Diagnosis("platform lxc", "lacking", "needs root, because LXC creates control groups", hint)
            continue
        yield _tools(f"platform {platform}", _needs(platform))
    yield _tools("lab in a machine", MACHINE_TOOLS)


def _needs(platform: str) -> dict[str, str]:
    from labconsole.lab.platforms import find_tools
    from labconsole.lab.prerequisites import MACHINE_TOOLS
    from labconsole.lab.spec import MACHINE_ONLY_PLATFORMS

    return {**find_tools([platform]), **(MACHINE_TOOLS if platform in MACHINE_ONLY_PLATFORMS else {})}


def _tools(subject: str, wanted: dict[str, str]) -> Diagnosis:
    import os

    from labconsole.lab.prerequisites import missing_tools

    missing = missing_tools(wanted)
    if not missing:
        return Diagnosis(subject, "ok", f"has {', '.join(wanted)}" if wanted else "needs nothing more")
    prefix = "" if os.geteuid() == 0 else "sudo "
    packages = " ".join(sorted(set(missing.values())))
    return Diagnosis(subject, "lacking", f"lacks {', '.join(missing)}", f"{prefix}apt-get install -y {packages}")
