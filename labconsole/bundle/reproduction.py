"""Makes a bundle's report again from its runs and compares it file by file with the packed one."""

from __future__ import annotations

import filecmp
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from labconsole.bundle import pack
from labconsole.bundle.archive import Unpacked
from labconsole.bundle.differences import Tell, cut
from labconsole.bundle.origins import plan_names, select_strings
from labconsole.errors import LabError, StoreError
from labconsole.experiments.units import report_units
from labconsole.model.record.run import METHOD
from labconsole.model.yaml_file import MAX_FILE_BYTES
from labconsole.report.assembly import counts
from labconsole.report.files import FORMATS, write_report
from labconsole.report.loading import load_report
from labconsole.report.request import ReportRequest, parse_arguments
from labconsole.store.open import open_store
from labconsole.store.untrusted_json import parse_json
from labconsole.wire.version import __version__

MAX_VERSIONS_BYTES = 1 << 20
MAX_LINE_CHARACTERS = 1 << 16
"""The length of a report's line that is compared."""

_MAX_FILE_NAME_BYTES = 255


@dataclass(frozen=True, slots=True)
class Reproduction:
    """How many files of a report were made again; how many are pictures or pages that other libraries drew."""

    files: int = 0
    not_drawn: int = 0


def reproduce_report(found: Unpacked, scratch: Path, tell: Tell) -> Reproduction:
    """Make the report again, and compare file by file. None where numbers were reckoned by another method than ours."""
    if found.manifest.get("method") != METHOD:
        return Reproduction()  # other numbers follow from the same counts
    redo = found.manifest.get("redo")
    formats = pack.report_formats() if _has_same_packages(found, tell) else ("csv", "md", "tex")
    try:
        request = _request(found, redo if isinstance(redo, dict) else {}, scratch / "plans")
        with open_store(str(scratch / "runs.sqlite"), write=False) as store:
            made = load_report(
                request,
                store,
                report_units(outside=False),
                place="the bundle",
                on_unreadable=lambda problem: tell(str(problem)),
            )
        written = write_report(made, scratch / "report", formats)
    except LabError as exc:
        tell(f"report: cannot be reproduced: {found.describe(exc)}")
        return Reproduction()
    for name, ours in (("selection", made.selection.to_json()), ("report", counts(made))):
        theirs = found.manifest.get(name)
        if theirs != json.loads(json.dumps(ours)):
            tell(f"manifest.json: {name}: says {cut(str(theirs))}, the runs give {ours}")
    for path in written:
        packed = found.path(f"report/{path.name}")
        if packed is None:
            tell(f"report/{path.name}: is missing")
        elif not filecmp.cmp(packed, path, shallow=False):
            tell(f"report/{path.name}: {_first_difference(packed, path)}")
    made_again = {f"report/{path.name}" for path in written}
    others = sorted(name for name in found.names - made_again if name.startswith("report/"))
    not_drawn = [name for name in others if (suffix := Path(name).suffix[1:]) in FORMATS and suffix not in formats]
    why = f"cannot be made again: {'; '.join(made.failures)}" if made.failures else "is not in the report of these runs"
    for name in others:
        if name not in not_drawn:
            tell(f"{name}: {why}")
    return Reproduction(len(written), len(not_drawn))


def _request(found: Unpacked, redo: dict[str, Any], directory: Path) -> ReportRequest:
    """The report's request, which is untrusted text.

    It names no file, and a plan given as a file must be the bundle's own.
    """
    plan_hashes = redo.get("plans")
    by_hash = {key: name for name, key in plan_names(found).items() if isinstance(key, str)}
    plans = []
    for shown, key in plan_hashes.items() if isinstance(plan_hashes, dict) else ():
        if isinstance(key, str) and key in by_hash and _is_plan_file_name(shown):
            content = found.read(by_hash.pop(key), MAX_FILE_BYTES)  # each once, as a report takes it
            if content is not None:
                directory.mkdir(exist_ok=True)
                (directory / shown).write_bytes(content)
                plans.append(directory / shown)
    arguments, chosen = select_strings(redo.get("arguments")), select_strings(redo.get("filter"))
    return parse_arguments(arguments, filter=chosen, plan_files=plans)


def _is_plan_file_name(name: str) -> bool:
    """Whether a plan may be displayed under this name, which also names a file in a directory of our own."""
    is_one_file = name.isprintable() and "/" not in name and len(os.fsencode(name)) <= _MAX_FILE_NAME_BYTES
    return is_one_file and name.endswith((".yaml", ".yml"))


def _has_same_packages(found: Unpacked, tell: Tell) -> bool:
    """Whether this installation would produce the same bytes for figures and page."""
    try:
        content = found.read(pack.VERSIONS, MAX_VERSIONS_BYTES)
        theirs = parse_json(content, pack.VERSIONS) if content else {}
    except StoreError as exc:
        tell(str(exc))
        return False
    ours = pack.versions()
    packages = theirs.get("packages") if isinstance(theirs, dict) else None
    return (
        isinstance(packages, dict)
        and theirs.get("labconsole") == __version__
        and all(packages.get(name) == ours["packages"].get(name) for name in ("matplotlib", "jinja2"))
    )


SHOWN, SHOWN_BEFORE = 200, 60
"""Characters displayed of a table's line: in all, and before the first one that differs."""


def _first_difference(packed: Path, made: Path) -> str:
    if made.suffix in (".png", ".pdf", ".svg", ".html"):
        return "differs when it is made again"
    one, other = _read_lines(packed), _read_lines(made)
    for number, (left, right) in enumerate(zip_longest(one, other, fillvalue=""), 1):
        if left != right:
            differing = (place for place, (a, b) in enumerate(zip(left, right, strict=False)) if a != b)
            first = next(differing, min(len(left), len(right)))
            begin = max(0, first - SHOWN_BEFORE) if max(len(left), len(right)) > SHOWN else 0
            there = f", from character {begin + 1} on," if begin else ""
            shown, again = (line[begin : begin + SHOWN] for line in (left, right))
            return f"line {number}{there} is {shown!r}, the runs give {again!r}"
    return "differs in its line endings"


def _read_lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="replace") as stream:
        while line := stream.readline(MAX_LINE_CHARACTERS):
            yield line.removesuffix("\n")
