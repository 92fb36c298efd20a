"""A report packed with all that it rests on, and verified as from a stranger: honest, changed, damaged, hostile."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import sys
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labconsole.bundle import archive
from labconsole.bundle.pack import _needed, anonymize_inventory
from labconsole.cli.main import main
from labconsole.errors import StoreError
from labconsole.experiments.units import report_units
from labconsole.model.inventory import load_inventory
from labconsole.report.figure_drawing import draw_figure
from labconsole.store.importing import import_records
from labconsole.store.open import open_store
from labconsole.text.axis import Undrawable
from support.bundle_samples import HOSTS, fill, make_lab, members, pack, repack
from support.report_runs import measured
from support.store_places import ServerPlace


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with hosts.yaml, a plan, and a store of its runs."""
    monkeypatch.chdir(tmp_path)
    return make_lab(tmp_path)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a bundle, packed once."""
    directory = make_lab(tmp_path_factory.mktemp("honest"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        return members(pack(directory))


def test_a_bundle_holds_everything_and_verifies_where_there_is_nothing_else(lab, tmp_path_factory, capsys, monkeypatch):
    bundle = pack(lab)
    said = capsys.readouterr()
    assert (said.out, said.err) == ("b.tar.gz\n", "")
    files = members(bundle)
    assert next(iter(files)) == "manifest.json"
    manifest = json.loads(files["manifest.json"])
    assert (manifest["runs"], manifest["series"], manifest["missing"]) == (4, 3, [])
    assert manifest["files"] == {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in files.items()
        if name != "manifest.json"
    }
    assert {
        "runs.jsonl",
        "calibrations.jsonl",
        "versions.json",
        "inventory/hosts.yaml",
        "plans/small-plan.yaml",
        "report/results.csv",
        "report/report.html",
    } <= set(files)
    assert "plans/other.yaml" not in files
    *_, last, noted = (json.loads(line) for line in files["runs.jsonl"].splitlines())
    assert last["note"]["text"] == "fan was loud"
    assert noted["plan_note"]["text"] == "with the old fan"
    assert b"<td>Note on plan small</td><td>with the old fan (op, " in files["report/report.html"]
    assert json.loads(files["versions.json"])["labconsole"]
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)
    assert main(["verify", str(bundle), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["runs"], told["series"], told["differences"]) == (4, 3, 0)
    assert told["tables"] >= 4
    assert list(elsewhere.iterdir()) == []


def test_a_report_of_a_plans_file_is_made_again_with_the_plan_from_the_bundle(
    lab, tmp_path_factory, capsys, monkeypatch
):
    bundle = pack(lab, "b.tar.gz", "--plan", "plans/small plan.yaml")
    assert b"small plan.yaml" in members(bundle)["report/report.html"]
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    status = main(["verify", str(bundle)])
    assert (status, capsys.readouterr().out.count("otherwise")) == (0, 0)


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ("", "jinja2 is not installed: pip"),
        (
            "raise ImportError('no \\x1b[31mABI')",
            "jinja2 is installed and cannot be imported: ImportError: no ·[31mABI",
        ),
        ("None.ABI", "jinja2 is installed and cannot be imported: AttributeError: 'NoneType' object has no attribute"),
        (
            "import no_such_part",
            "jinja2 is installed and cannot be imported: ModuleNotFoundError: No module named 'no_",
        ),
    ],
)
def test_a_bundle_without_figures_says_why(lab, tmp_path, capsys, monkeypatch, broken, why):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    if broken:
        monkeypatch.delitem(sys.modules, "jinja2")
        (tmp_path / "jinja2.py").write_text(broken)
        monkeypatch.syspath_prepend(str(tmp_path))
    bundle = pack(lab, "tables.tar.gz")
    said = f"labconsole: the bundle's report has tables only, without figures and page: {why}"
    assert [line for line in capsys.readouterr().err.splitlines() if line.startswith(said)]
    assert not [name for name in members(bundle) if name.endswith((".html", ".svg"))]


def test_what_a_bundle_has_and_a_unit_fails_to_make_again_is_told(lab, capsys, monkeypatch):
    bundle = pack(lab)
    capsys.readouterr()

    def fails(material):
        raise Undrawable("too wide")

    ours = [replace(unit, make=fails) if unit.name == "results" else unit for unit in report_units(outside=False)]
    monkeypatch.setattr("labconsole.bundle.reproduction.report_units", lambda outside: ours)
    assert _told(bundle, capsys)[1:] == [  # the first is the page, which names the unit
        f"report/results.{suffix}: cannot be made again: unit results is left out: too wide"
        for suffix in ("csv", "md", "tex")
    ]


def test_plans_that_a_bundle_could_not_tell_apart_are_refused(lab, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(lab)
    small = "plans/small plan.yaml"
    (lab / "again").mkdir()
    shutil.copy(small, "again/copy.yaml")
    (lab / "again" / "small plan.yaml").write_text(Path(small).read_text().replace("[64]", "[1500]"))
    for plans, words in (
        ((small, small), f"{small}: describes the same measurements as {small}; remove one of the two"),
        ((small, "again/copy.yaml"), f"again/copy.yaml: describes the same measurements as {small}"),
        (
            (small, "again/small plan.yaml"),
            "--plan: two of these files have the same name, by which a bundle keeps them",
        ),
        (("small", "small"), "--plan: names a plan twice"),
    ):
        options = [word for plan in plans for word in ("--plan", plan)]
        assert (
            main(["report", "--store", str(lab / "runs.sqlite"), *options, "--bundle", str(tmp_path / "b.tar.gz")]) == 2
        )
        assert words in capsys.readouterr().err
        assert not (tmp_path / "b.tar.gz").exists()


def test_a_filtered_report_is_made_again_from_whole_set_ups_and_its_manifest_is_held_to_the_runs(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    runs = [
        measured(10 * b + p, 60 + p + b / 10, block=b, point=p, trials=2, size=(64, 1000)[p], offered_mbps=100)
        for b in (1, 2, 3)
        for p in (0, 1)
    ]
    with open_store("runs.sqlite") as store:
        import_records(store, runs)
    words = ["--margin", "2%", "--pool", "kernel", "--platforms", "raw", "--select-by-outcome", "size=64", "loss<0.5"]
    bundle = pack(tmp_path, "b.tar.gz", *words)
    manifest = json.loads(members(bundle)["manifest.json"])
    assert manifest["runs"] == 6  # with the runs by which the set-ups are whole
    assert manifest["selection"] == {
        "filter": "size=64 loss<0.5",
        "options": ["platforms raw"],
        "by_outcome": ["loss"],
        "pool": ["kernel"],
        "margin_ratio": 0.02,
    }
    assert (manifest["report"]["planned"], manifest["report"]["entered"]) == (3, 3)
    capsys.readouterr()
    main(["verify", str(bundle)])
    assert not [line for line in capsys.readouterr().out.splitlines() if line.startswith(("report", "manifest"))]
    changed = with_manifest(bundle, lambda m: m["selection"].update(filter="size=64", by_outcome=[]))
    main(["verify", str(changed)])
    assert "manifest.json: selection: says" in capsys.readouterr().out
    hidden = with_manifest(bundle, lambda m: m.pop("method"))
    main(["verify", str(hidden)])
    assert "manifest.json: method: says None, runs are of method 2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("redo", "plans"),
    [
        ({"plans": {"p.yaml": ["x"]}}, {}),
        ({"plans": 3, "filter": 4, "arguments": 5}, {}),
        ({"plans": {"../p.yaml": "x", "p.yaml": "x"}}, {"plans/small-plan.yaml": ["x"]}),
        (["arguments"], {}),
        ({"arguments": ["--reference=/etc/passwd", {}]}, {}),
    ],
)
def test_a_request_that_is_none_is_told_or_passed_over(honest, tmp_path, capsys, monkeypatch, redo, plans):
    monkeypatch.setattr("labconsole.bundle.pack.report_formats", lambda: ("csv", "md", "tex"))
    path = repack(tmp_path / "b.tar.gz", dict(honest), honest=True)
    changed = with_manifest(path, lambda manifest: (manifest["plans"].update(plans), manifest.update(redo=redo)))
    assert main(["verify", str(changed)]) in (0, 1)
    said = capsys.readouterr()
    assert said.err == ""
    assert ("report: cannot be reproduced: --reference" in said.out) == ("passwd" in str(redo))


def _told(bundle: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What verify says of report and manifest: the runs are made up, and what is wrong with them is told, too."""
    capsys.readouterr()
    main(["verify", str(bundle)])
    return [line for line in capsys.readouterr().out.splitlines() if line.startswith(("report", "manifest"))]


def test_runs_without_blocks_give_way_to_blocks_of_the_same_report_only(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = [measured(n, 90 + n / 10, block=n) for n in (1, 2, 3)]
    for n in (1, 2, 3):
        bare = measured(10 + n, 80 + n / 10, set_up=f"bare-{n}", plan_hash="c" * 16, repetition=n, repetitions=3)
        bare["plan"] |= {"name": "other", "block": None, "set_ups": None, "set_up_trials": None}
        runs.append(bare)
    with open_store("runs.sqlite") as store:
        import_records(store, runs)
    for name, words, entered in (("other", ["--plan", "other"], 3), ("all", [], 3), ("made", ["--plan", "made-up"], 3)):
        bundle = pack(tmp_path, f"{name}.tar.gz", *words)
        files = members(bundle)
        assert json.loads(files["manifest.json"])["report"]["entered"] == entered
        assert (b"outside_blocks" in files["report/runs.csv"]) == (name == "all")
        assert _told(bundle, capsys) == []


def test_what_lies_in_the_place_of_a_run_is_packed_with_its_whole_set_up(tmp_path, capsys, monkeypatch):
    """Packed alone, the other run would seem to be of a set-up that broke off, and give its place away."""
    monkeypatch.chdir(tmp_path)
    runs = [
        measured(
            100 * s + 10 * b + p,
            60 + b,
            block=b,
            point=p,
            trials=2,
            size=(64, 1000)[p],
            set_up=f"{s}-{b}",
            kernel=f"6.{s}",
        )
        for b in (1, 2, 3)
        for p in (0, 1)
        for s in ((1, 2) if b == 3 else (1,))
    ]
    with open_store("runs.sqlite") as store:
        import_records(store, runs)
    bundle = pack(tmp_path, "b.tar.gz", "size=64", "kernel=6.1")
    manifest = json.loads(members(bundle)["manifest.json"])
    assert (manifest["report"]["entered"], manifest["runs"]) == (2, 8)
    assert _told(bundle, capsys) == []


def test_a_time_that_chose_runs_by_their_outcome_is_told_alike_from_the_bundle(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_store("runs.sqlite") as store:
        import_records(store, [measured(60 * b, 80 + b, block=b) for b in (1, 2, 3)])
    bundle = pack(tmp_path, "b.tar.gz", "--select-by-outcome", "started>=2026-11-21T00:02")
    assert json.loads(members(bundle)["manifest.json"])["selection"]["by_outcome"] == ["started"]
    assert _told(bundle, capsys) == []


def with_manifest(bundle: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """The same bundle with another manifest."""
    files = members(bundle)
    manifest = json.loads(files["manifest.json"])
    change(manifest)
    files["manifest.json"] = json.dumps(manifest).encode()
    out = bundle.with_name("changed.tar.gz")
    out.unlink(missing_ok=True)
    return repack(out, files, honest=False)


def test_the_same_store_gives_the_same_bytes(lab, monkeypatch):
    monkeypatch.setattr("labconsole.report.files.draw_figure", draw_figure)  # each time, as outside of tests
    assert pack(lab, "one.tar.gz").read_bytes() == pack(lab, "two.tar.gz").read_bytes()


def test_a_bundle_of_a_shared_store_is_that_of_a_file_with_the_same_runs(lab, postgres):
    place = ServerPlace(postgres)
    with open_store(place.url) as store:
        fill(store, lab)
    assert main(["report", "--store", place.url, "--bundle", "pg.tar.gz"]) == 0
    one, other = members(lab / "pg.tar.gz"), members(pack(lab))
    for files in (one, other):  # the note has the time at which it was written
        files["report/report.html"] = re.sub(rb"\(op, [^)]*\)", b"(op)", files["report/report.html"])
    differing = {name for name in one | other if one.get(name) != other.get(name)}
    assert differing <= {"manifest.json", "runs.jsonl"}


def test_nothing_says_how_nodes_are_reached(lab):
    for name, content in members(pack(lab)).items():
        assert b"secret" not in content, name
        assert b"10.9.8.7" not in content, name


def test_an_inventory_without_addresses_means_the_same(lab):
    inventory = load_inventory(lab / "hosts.yaml")
    (lab / "bare.yaml").write_text(json.dumps(anonymize_inventory(inventory)))
    bare = load_inventory(lab / "bare.yaml")
    assert bare.fingerprint() == inventory.fingerprint()
    assert bare.defaults.drain_s == 1.5


def test_what_is_not_found_is_told_and_no_difference(lab, capsys):
    (lab / "hosts.yaml").rename(lab / "moved.yaml")
    (lab / "plans" / "small plan.yaml").unlink()
    bundle = pack(lab)
    said = capsys.readouterr().err
    assert "not found, so the bundle does not contain it: inventory of testbed bench" in said
    assert "not found, so the bundle does not contain it: plan small" in said
    assert main(["verify", str(bundle)]) == 0
    with_hosts = pack(lab, "c.tar.gz", "--hosts", "moved.yaml")
    assert "inventory/hosts.yaml" in members(with_hosts)


def test_nothing_is_overwritten_and_a_failure_leaves_nothing(lab, capsys):
    bundle = pack(lab)
    before = bundle.read_bytes()
    assert main(["report", "--store", "runs.sqlite", "--bundle", "b.tar.gz"]) == 2
    assert "already exists and will not be overwritten" in capsys.readouterr().err
    assert bundle.read_bytes() == before
    assert main(["report", "--store", "runs.sqlite", "--bundle", "no/such/place.tar.gz"]) == 2
    assert "No such file or directory" in capsys.readouterr().err
    assert main(["report", "--store", "runs.sqlite", "--hosts", "hosts.yaml"]) == 2
    (lab / "hosts.yaml").write_text(HOSTS.replace("eth5", "eth6"))
    assert main(["report", "--store", "runs.sqlite", "--bundle", "d.tar.gz", "--hosts", "hosts.yaml"]) == 2
    assert "--hosts: describes testbed bench" in capsys.readouterr().err
    assert sorted(path.name for path in lab.iterdir() if path.name.startswith(".")) == []


def test_a_bundles_runs_come_into_a_store_with_their_series_and_notes(lab, capsys):
    bundle = pack(lab)
    capsys.readouterr()
    assert main(["runs", "import", str(bundle), "--store", "other.sqlite"]) == 0
    assert capsys.readouterr().out == "4 runs added, 0 already stored, 2 notes imported\n"
    with open_store("runs.sqlite", write=False) as one, open_store("other.sqlite", write=False) as other:
        assert list(one.iterate()) == list(other.iterate())
        assert [one.series(run.run_id) for run in one.list()] == [other.series(run.run_id) for run in other.list()]
        assert one.notes() == other.notes()
    files = members(bundle)
    change("runs.jsonl", b"uut", b"UUT")(files)
    repack(lab / "changed.tar.gz", files, honest=False)
    assert main(["runs", "import", "changed.tar.gz", "--store", "other.sqlite"]) == 2
    assert (
        "runs.jsonl: differs from the file that the manifest describes; `labconsole verify`" in capsys.readouterr().err
    )


# -- what somebody changed


def change(name: str, old: bytes, new: bytes) -> Callable[[dict[str, bytes]], None]:
    def apply(files: dict[str, bytes]) -> None:
        assert old in files[name]
        files[name] = files[name].replace(old, new, 1)

    return apply


def without(name: str) -> Callable[[dict[str, bytes]], None]:
    return lambda files: files.__delitem__(name)


def a_run_twice(files: dict[str, bytes]) -> None:
    files["runs.jsonl"] += files["runs.jsonl"].splitlines(True)[0]


def a_run_less(files: dict[str, bytes]) -> None:
    files["runs.jsonl"] = b"".join(files["runs.jsonl"].splitlines(True)[1:])


def series_of_nobody(files: dict[str, bytes]) -> None:
    name = next(name for name in files if name.startswith("series/"))
    files["series/20200101T000000Z-000000.npz"] = files[name]


def no_runs(files: dict[str, bytes]) -> None:
    for name in [name for name in files if name.startswith("series/")]:
        del files[name]
    files["runs.jsonl"] = b""
    files["manifest.json"] = json.dumps(json.loads(files["manifest.json"]) | {"runs": 0, "series": 0}).encode()


def broken_series(files: dict[str, bytes]) -> None:
    name = next(name for name in files if name.startswith("series/"))
    files[name] = b"PK"


@pytest.mark.parametrize(
    ("changed", "careful", "told"),
    [
        (
            change("runs.jsonl", b'"operator": "', b'"operator": "x'),
            False,
            "runs.jsonl: differs from the file that the manifest describes",
        ),
        (without("versions.json"), False, "versions.json: is missing"),
        (lambda files: files.update({"more.txt": b"x"}), False, "more.txt: is not in the manifest"),
        (change("runs.jsonl", b'"measured_packets": ', b'"measured_packets": 1'), True, "the counts give"),
        (change("report/results.csv", b"raw", b"kvm"), True, "report/results.csv: line "),
        (change("report/runs.csv", b"raw", b"kvm"), True, "report/runs.csv: line "),
        (
            change("report/report.html", b"<title>", b"<title>Better: "),
            True,
            "report/report.html: differs when it is made again",
        ),
        (without("report/results.csv"), True, "report/results.csv: is missing"),
        (change("plans/small-plan.yaml", b"100Mbit", b"200Mbit"), True, "plans/small-plan.yaml: means plan"),
        (change("inventory/hosts.yaml", b"eth5", b"eth6"), True, "inventory/hosts.yaml: is not the testbed"),
        (change("inventory/hosts.yaml", b"eth5", b"e/h6"), True, "inventory/hosts.yaml"),
        (a_run_twice, True, "runs.jsonl: 1 run contained twice"),
        (a_run_less, True, "manifest.json: says 4 runs, there are 3"),
        (
            change("runs.jsonl", b'"point": 0', b'"point": 3'),
            True,
            "plan.point: is 3, and plans/small-plan.yaml has 1 point",
        ),
        (series_of_nobody, True, "series/20200101T000000Z-000000.npz: does not belong to any run"),
        (broken_series, True, "cannot be read"),
        (change("runs.jsonl", b'{"', b"{"), True, "runs.jsonl:1: not valid JSON"),
        (without("runs.jsonl"), True, "runs.jsonl: cannot be read"),
        (lambda files: files.update({"searches.jsonl": b"{}\n"}), True, "searches.jsonl:1"),
        (lambda files: files.update({"versions.json": b"{"}), True, "versions.json: not valid JSON"),
        (
            lambda files: files.update({"report/best.csv": b"a\n"}),
            True,
            "report/best.csv: is not in the report of these runs",
        ),
        (lambda files: files.update({"report/more/a.csv": b"a\n"}), True, "report/more/a.csv: is not in the report of"),
        (
            lambda files: files.update({"best.md": b"x"}),
            True,
            "best.md: is not a part of a bundle, and nothing verifies it",
        ),
        (lambda files: files.update({"plans/x.yaml": b"x"}), True, "plans/x.yaml: is not a part of a bundle"),
        (
            lambda files: files.update({"calibrations.jsonl": b"[]\n"}),
            True,
            "calibrations.jsonl:1 cannot be read: it is not a",
        ),
        (
            lambda files: files.update({"calibrations.jsonl": b""}),
            True,
            "manifest.json: says 1 calibrations, there are 0",
        ),
        (change("manifest.json", b'"inventory": "', b'"inventory": "0'), True, "manifest.json: inventory: says 0"),
        (no_runs, True, "report: there are no runs or trials that it could follow from"),
    ],
)
def test_every_change_is_named(honest, tmp_path, capsys, monkeypatch, changed, careful, told):
    if "report.html" not in told:  # drawing takes half a second
        monkeypatch.setattr("labconsole.bundle.pack.report_formats", lambda: ("csv", "md", "tex"))
    files = dict(honest)
    changed(files)
    path = repack(tmp_path / "changed.tar.gz", files, honest=careful)
    assert main(["verify", str(path)]) == 1
    said = capsys.readouterr()
    assert told in said.out
    assert said.err == ""
    assert "/tmp" not in said.out


def test_pictures_that_other_libraries_drew_are_told_as_not_compared(honest, tmp_path, capsys):
    versions = json.loads(honest["versions.json"])
    versions["packages"]["matplotlib"] = "0.1"
    files = {**honest, "versions.json": json.dumps(versions).encode(), "report/report.html": b"other"}
    assert main(["verify", str(repack(tmp_path / "b.tar.gz", files, honest=True))]) == 0
    said = capsys.readouterr().out
    assert "not judged in 4 records: pictures and page of the report, which other libraries drew" in said


# -- what somebody means ill


def hostile(path: Path, *put: tuple[tarfile.TarInfo, bytes]) -> Path:
    manifest = json.dumps({"format": 1, "files": {}}).encode()
    first = tarfile.TarInfo(f"{archive.TOP}/manifest.json")
    first.size = len(manifest)
    with tarfile.open(path, "w:gz") as tar:
        for member, content in ((first, manifest), *put):
            tar.addfile(member, io.BytesIO(content) if content else None)
    return path


def named(name: str, content: bytes = b"x", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    for key, value in fields.items():
        setattr(member, key, value)
    return member, content


@pytest.mark.parametrize(
    "member",
    [
        named("/etc/passwd"),
        named("../../x"),
        named("labconsole-bundle/../x"),
        named("labconsole-bundle/report/../../x"),
        named("labconsole-bundle/.hidden"),
        named("labconsole-bundle/a\nb"),
        named("elsewhere/x"),
        named("labconsole-bundle/" + "a/" * 9 + "x"),
        named("labconsole-bundle/" + "a" * 400),
        named("labconsole-bundle/link", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        named("labconsole-bundle/link", b"", type=tarfile.LNKTYPE, linkname="labconsole-bundle/manifest.json"),
        named("labconsole-bundle/dir", b"", type=tarfile.DIRTYPE),
        named("labconsole-bundle/fifo", b"", type=tarfile.FIFOTYPE),
        named("labconsole-bundle/device", b"", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
        named("labconsole-bundle/manifest.json"),
    ],
)
def test_an_archive_that_asks_for_more_than_files_is_refused(tmp_path, capsys, member):
    target = tmp_path / "into"
    target.mkdir()
    path = hostile(tmp_path / "evil.tar.gz", member)
    if member[0].name.endswith("manifest.json"):
        assert main(["verify", str(path)]) == 1  # a second manifest is a file that the first does not name
        return
    with pytest.raises(StoreError, match=r"evil.tar.gz: "):
        archive.unpack(path, target)
    assert list(target.rglob("*")) == []
    assert main(["verify", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_bomb_is_refused_before_it_goes_off(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "SMALL_BYTES", 1 << 20)
    target = tmp_path / "into"
    target.mkdir()
    path = hostile(tmp_path / "bomb.tar.gz", named("labconsole-bundle/big", bytes(8 << 20)))
    assert path.stat().st_size < 20_000
    with pytest.raises(StoreError, match="decompresses to more than"):
        archive.unpack(path, target)
    assert sum(file.stat().st_size for file in target.rglob("*")) <= 4 << 20


def test_a_header_that_claims_gigabytes_is_not_believed(tmp_path):
    target = tmp_path / "into"
    target.mkdir()
    claim = tarfile.TarInfo("././@PaxHeader")
    claim.type, claim.size = tarfile.XHDTYPE, 8 << 30
    path = tmp_path / "claim.tar.gz"
    with gzip.open(path, "wb") as stream:
        stream.write(claim.tobuf(tarfile.GNU_FORMAT))
        stream.write(bytes(1 << 20))
    with pytest.raises(StoreError, match=r"claim.tar.gz: is not a bundle"):
        archive.unpack(path, target)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not a bundle"),
        (b"no archive at all", "is not a bundle"),
        (gzip.compress(b"", mtime=0), "is not a bundle"),
        (gzip.compress(b"x" * 5000, mtime=0), "is not a bundle"),
        (gzip.compress(bytes(20_000), mtime=0)[:-9], "is not a bundle"),
    ],
)
def test_what_is_no_bundle_is_one_sentence(tmp_path, capsys, content, words):
    path = tmp_path / "x.tar.gz"
    path.write_bytes(content)
    assert main(["verify", str(path)]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (b"[", "not valid JSON"),
        (b"[]", "is not a JSON object"),
        (b"{}", "has no format"),
        (b'{"format": 2, "files": {}}', "is a bundle of format 2; this version of labconsole reads up to 1"),
        (b'{"format": 1}', "lists no files"),
        (b'{"format": 1, "files": {"a": 3}}', None),
        (b'{"format": 1, "files": {}, "plans": 3, "redo": {"arguments": 3}, "missing": 4}', None),
    ],
)
def test_a_manifest_is_read_as_from_a_stranger(tmp_path, capsys, manifest, words):
    path = repack(tmp_path / "m.tar.gz", {"manifest.json": manifest}, honest=False)
    assert main(["verify", str(path)]) == (1 if words is None else 2)
    said = capsys.readouterr()
    assert words is None or words in said.err
    assert "internal error" not in said.err


def test_a_bundle_that_is_missing_or_given_beside_a_store_is_one_sentence(tmp_path, capsys):
    assert main(["verify", str(tmp_path / "none.tar.gz")]) == 2
    assert "none.tar.gz: No such file" in capsys.readouterr().err
    assert main(["verify", str(tmp_path / "none.tar.gz"), "--store", "x"]) == 2
    assert "cannot be used with a bundle" in capsys.readouterr().err


def test_a_bundle_tells_when_every_set_up_of_its_plans_began(tmp_path: Path) -> None:
    """Which set-ups of a block were taken in one go follows from those of other platforms too."""
    runs = [
        measured(10 * n + p, 80, block=n, point=p // 2, repetition=1 + p % 2, trials=2, platform=("raw", "lxc")[p // 2])
        for n in (1, 2)
        for p in range(4)
    ]
    with open_store(str(tmp_path / "runs.sqlite")) as store:
        import_records(store, runs)
        meant = frozenset(run["run_id"] for run in runs if run["requested"]["platform"] == "raw")
        made = SimpleNamespace(material=SimpleNamespace(kept=SimpleNamespace(run_ids=meant)))
        needed = _needed(made, store)  # type: ignore[arg-type]
    assert needed == meant | {runs[2]["run_id"], runs[6]["run_id"]}


def test_a_plan_in_this_directory_is_found_and_one_elsewhere_is_asked_for(lab, capsys):
    (lab / "plans" / "small plan.yaml").rename(lab / "small.yaml")
    os.mkfifo(lab / "plans" / "pipe.yaml")
    assert any(name.startswith("plans/small") for name in members(pack(lab)))
    assert capsys.readouterr().err == ""
    (lab / "small.yaml").rename(lab / "small.txt")
    pack(lab, "c.tar.gz")
    said = capsys.readouterr().err
    assert "plan small" in said
    assert "plan files in plans/ and in this directory were looked at; name the file of another by --plan FILE" in said
