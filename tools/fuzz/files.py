"""Targets: files from others. Captures, archives, bundles, records, series, hosts.yaml and plans."""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import strategies as st

from fuzz.target import Read, Target
from labconsole.bundle.archive import TOP, unpack
from labconsole.bundle.examination import Examination
from labconsole.bundle.verify import check
from labconsole.cli.commands.analyze import analyze_path
from labconsole.cli.text.analysis import analysis_lines
from labconsole.errors import LabError, StoreError
from labconsole.model.inventory import load_inventory
from labconsole.model.plan.loader import load_plan
from labconsole.model.record.annotations import NotedRecord
from labconsole.store.importing import ExportedExperiment, import_records, parse_exported
from labconsole.store.open import open_store
from labconsole.store.series import pack_series, read_file, unpack_series
from labconsole.text.sanitize import sanitize
from support.bundle_samples import make_lab, members, pack, repack
from support.fuzzing import changed_json, changed_text, mutated_bytes
from support.recorded_guests import recorded_guests
from support.store_samples import sample_record, sample_series
from support.untrusted_samples import CAPTURES, HOSTS, PLAN, YAML_WORDS

PLANS = Path(__file__).parents[2] / "plans"
GUESTS = """\
  lxc: {driver: lxc, guest: g, second_guest: h, crew_root: /srv/root}
  uml: {driver: uml, kernel: /k, initramfs: /i}
"""
"""Platforms on which every kind of plan may be."""

JSON_WORDS = ("{", "}", "[", "]", ",", ":", "null", "true", '"', "\\ud800", "1e999", "NaN", "-1", "9" * 30)


def change_json(data: st.DataObject, seed: bytes) -> bytes:
    """A JSON text with other values at some places, or with other bytes."""
    if data.draw(st.integers(0, 3)) == 0:
        return mutated_bytes(data, seed)
    return json.dumps(changed_json(data, json.loads(seed))).encode()


def change_yaml(data: st.DataObject, seed: bytes) -> bytes:
    """A YAML text with other words at some places."""
    return changed_text(data, seed.decode(), YAML_WORDS).encode("utf-8", "surrogatepass")


# --- captures


def open_captures(directory: Path) -> Read:
    """Counts a capture in both ways, which have to agree."""
    path = directory / "capture"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        reports: list[dict[str, Any] | LabError] = []
        for use_numpy in (False, True):
            try:
                reports.append(analyze_path(path, use_numpy=use_numpy, flow_bin_s=0.1))
            except LabError as error:
                reports.append(error)
        if isinstance(reports[0], LabError):
            assert isinstance(reports[1], LabError), "only one of both ways takes it"
            raise reports[0]
        assert reports[0] == reports[1], "both ways differ"
        text = "\n".join(analysis_lines(reports[0]))
        assert sanitize(text) == text

    return read


# --- archives and bundles


def sample_archive(format: int) -> bytes:
    """A tar archive with the members of a small bundle, not compressed."""
    packed = io.BytesIO()
    files = {
        "manifest.json": b'{"format":1,"files":{"runs.jsonl":{}}}',
        "runs.jsonl": b"{}\n",
        "report/a.csv": b"a,b\n",
    }
    with tarfile.open(fileobj=packed, mode="w", format=format) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{TOP}/{name}")
            member.size = len(content)
            if format == tarfile.PAX_FORMAT:
                member.pax_headers = {"comment": "x"}
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def open_archives(directory: Path) -> Read:
    """Compresses what is a tar archive or nearly one, and unpacks it as a bundle."""
    path = directory / "archive.tar.gz"

    def read(content: bytes) -> None:
        path.write_bytes(gzip.compress(content, 1, mtime=0))
        with TemporaryDirectory(dir=directory) as name:
            found = unpack(path, Path(name))
            names = {file.relative_to(found.directory).as_posix() for file in Path(name).rglob("*") if file.is_file()}
            assert names == found.names, "it wrote other files than it says"

    return read


def bundle_files() -> dict[str, bytes]:
    """The files of a bundle without pictures."""
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.chdir(make_lab(Path(name)))
        patch.setattr("labconsole.bundle.pack.report_formats", lambda: ("csv",))
        return members(pack(Path(name)))


def bundle_seeds() -> Sequence[bytes]:
    """A member's name, a line feed, its content: the other members stay as they are."""
    return [name.encode() + b"\n" + content for name, content in bundle_files().items()]


def change_member(data: st.DataObject, seed: bytes) -> bytes:
    """Another content under the same name."""
    name, _, content = seed.partition(b"\n")
    if name.endswith(b".json"):
        return name + b"\n" + change_json(data, content)
    if name.endswith(b".jsonl"):
        lines = content.splitlines() or [b"{}"]
        number = data.draw(st.integers(0, len(lines) - 1))
        lines[number] = change_json(data, lines[number])
        return name + b"\n" + b"\n".join(lines)
    if name.endswith(b".yaml"):
        return name + b"\n" + change_yaml(data, content)
    return name + b"\n" + mutated_bytes(data, content)


def open_bundles(directory: Path) -> Read:
    """Verifies a bundle one member of which has this content, and whose manifest has its hash."""
    files, path = bundle_files(), directory / "bundle.tar.gz"

    def read(content: bytes) -> None:
        name, _, member = content.partition(b"\n")
        known = name.decode("ascii", "replace")
        if known not in files:
            known = sorted(files)[sum(name) % len(files)]
        repack(path, {**files, known: member}, honest=known != "manifest.json")
        differences: list[str] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("labconsole.bundle.pack.report_formats", lambda: ("csv",))
            check(path, differences.append)
        assert all(len(each) < 20_000 for each in differences)

    return read


# --- records and series


def record_seeds() -> Sequence[bytes]:
    """Lines of an export: a run, and the shortest record of each kind of guests' trials."""
    by_kind: dict[str, bytes] = {}
    for kind, record in recorded_guests().values():
        line = json.dumps({kind: record}).encode()
        by_kind[kind] = min(by_kind.get(kind, line), line, key=len)
    run = json.dumps(sample_record().to_json()).encode()
    return [run, json.dumps({**json.loads(run), "note": {"text": "n", "author": "a"}}).encode(), *by_kind.values()]


def open_records(directory: Path) -> Read:
    """Reads a line of an export, examines it as verify does, and imports it."""

    def ignore(*_: object) -> None:
        pass

    def read(content: bytes) -> None:
        found = parse_exported(content, "input")
        examination = Examination(ignore)
        searches: list[Any] = []
        if isinstance(found, NotedRecord):
            examination.take(found.record)
        elif isinstance(found, ExportedExperiment) and found.kind.name == "search":
            searches.append(found.record)
        elif isinstance(found, ExportedExperiment):
            examination.take_other(found.kind, found.record)
        examination.end(searches)
        # The same id with another content is refused, which says nothing of the line.
        with open_store(str(directory / "runs.sqlite")) as store, suppress(StoreError):
            import_records(store, [found])

    return read


def series_seeds() -> Sequence[bytes]:
    """Whole files, and single columns: a change in a compressed file is seldom more than a wrong check sum."""
    file = pack_series("r", sample_series())
    with zipfile.ZipFile(io.BytesIO(file)) as packed:
        columns = [packed.read(name) for name in packed.namelist()]
    return [file, *columns]


def open_series(directory: Path) -> Read:
    """Reads a file of time series; what does not begin as a zip file is a column of one."""
    path = directory / "series.npz"

    def read(content: bytes) -> None:
        if not content.startswith(b"PK"):
            packed = io.BytesIO()
            with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
                file.writestr("uut/t_ns.npy", content)
            content = packed.getvalue()
        path.write_bytes(content)
        unpack_series(read_file(path, "r"), "r", str(path))

    return read


# --- hosts.yaml and plans


def open_hosts(directory: Path) -> Read:
    """Reads a hosts.yaml."""
    path = directory / "hosts.yaml"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        load_inventory(path)

    return read


def open_plans(directory: Path) -> Read:
    """Reads a plan for a testbed that is known, and computes its hash."""
    hosts, path = directory / "hosts.yaml", directory / "plan.yaml"
    hosts.write_text(HOSTS.replace("\ndefaults:", f"\n{GUESTS}defaults:"))
    inventory = load_inventory(hosts)

    def read(content: bytes) -> None:
        path.write_bytes(content)
        load_plan(path, inventory).hash()

    return read


def plan_seeds() -> Sequence[bytes]:
    """A plan for that testbed, and those that come with the program, with the names of its platforms."""
    texts = [PLAN, *(path.read_text() for path in sorted(PLANS.glob("*.yaml")))]
    return [re.sub(r"(?m)^platforms:.*$", "platforms: [raw, lxc, uml]", text).encode() for text in texts]


def sample(*contents: bytes) -> Callable[[], Sequence[bytes]]:
    """Seeds that are there."""
    return lambda: contents


FILE_TARGETS = (
    Target(
        name="captures",
        summary="pcap and pcapng, counted in both ways",
        load_seeds=sample(*CAPTURES.values()),
        open_reader=open_captures,
    ),
    Target(
        name="archives",
        summary="a bundle's tar archive, unpacked",
        load_seeds=lambda: [sample_archive(f) for f in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT)],
        open_reader=open_archives,
        words=("manifest.json", TOP, "../", "ustar"),
    ),
    Target(
        name="bundles",
        summary="a bundle's files, verified",
        load_seeds=bundle_seeds,
        open_reader=open_bundles,
        draw=change_member,
        words=JSON_WORDS,
        input_s=30.0,
    ),
    Target(
        name="records",
        summary="lines of an export, examined and imported",
        load_seeds=record_seeds,
        open_reader=open_records,
        draw=change_json,
        words=JSON_WORDS,
    ),
    Target(name="series", summary="time series (.npz)", load_seeds=series_seeds, open_reader=open_series),
    Target(
        name="hosts",
        summary="hosts.yaml",
        load_seeds=sample(HOSTS.encode()),
        open_reader=open_hosts,
        draw=change_yaml,
        words=YAML_WORDS,
    ),
    Target(
        name="plans", summary="plans", load_seeds=plan_seeds, open_reader=open_plans, draw=change_yaml, words=YAML_WORDS
    ),
)
