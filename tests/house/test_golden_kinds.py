"""What the program prints of every kind of trial is what it printed: lists, records, summaries, reports, comparisons.

It is made on stores of tests/support/golden_stores.py. A change that is meant to change sentences renews it all, and is
looked through by ``git diff``; formats, column names, keys and numbers do not change:

    RENEW_GOLDEN_WORDS=1 python -m pytest tests/house/test_golden_*.py
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from labconsole.cli.main import main
from support.consistent_guests import consistent_guests
from support.contradictory_guests import ALONE, BESIDE, stored_guests
from support.golden_outputs import abridged, fixed_identity, printed, same, without_varying
from support.golden_sets import GOLDEN_SETS
from support.golden_stores import (
    store_of_all_kinds,
    store_of_days,
    store_of_guests,
    store_of_runs,
    store_of_two_plans,
)
from support.measured_sides import around
from support.recorded_guests import recorded_guests
from unit.cli.test_gate import Lab
from unit.cli.test_gate_of_other_kinds import BOOTS, JOBS, ROUTES, SEARCH, Nightly
from unit.experiments.test_advice_of_guests import KINDS as ADVISED
from unit.experiments.test_advice_of_guests import Stored

KINDS = GOLDEN_SETS / "kinds"
STORES: dict[str, Callable[[Path], None]] = {
    "all": store_of_all_kinds,
    "guests": store_of_guests,
    "runs": store_of_runs,
    "two": store_of_two_plans,
    "days": store_of_days,
}
CONSISTENT = {
    "out": ("flow", 0),
    "weights": ("flow", 2),
    "beside": ("flow", 3),
    "ring": ("flow", 4),
    "in": ("flow", 5),
    "route": ("route", 6),
    "job": ("job", 8),
    "disk": ("job", 10),
    "boot": ("boot", 11),
    "hot": ("boot", 12),
}
"""The records of consistent_guests by kind and place."""

OF_GUESTS = ("job", "boot", "flow", "route")
TEXT_AND_JSON = ((), ("--json",))
THREE_FORMS = (*TEXT_AND_JSON, ("--markdown",))


def stored_id(place: int) -> str:
    return f"20261120T08{place:02}00Z-{place:06x}"


COMMANDS: dict[str, tuple[str, list[list[str]]]] = {
    **{
        f"list-{kind}": ("all", [["experiment", kind, "--list"], ["experiment", kind, "--list", "--plan", "none"]])
        for kind in OF_GUESTS
    },
    **{
        f"list-json-{kind}": ("all", [["experiment", kind, "--list", "--plan", "guests", "--json"]])
        for kind in OF_GUESTS
    },
    **{
        f"show-{name}": ("all", [["experiment", kind, "--show", stored_id(place), *form] for form in TEXT_AND_JSON])
        for name, (kind, place) in CONSISTENT.items()
    },
    **{
        f"summary-{kind}": (store, [["experiment", kind, "--summary", *form] for form in TEXT_AND_JSON])
        for store in ("guests",)
        for kind in OF_GUESTS
    },
    **{
        f"summary-all-{kind}": ("all", [["experiment", kind, "--summary", *form] for form in TEXT_AND_JSON])
        for kind in OF_GUESTS
    },
    "show-missing": ("all", [["experiment", kind, "--show", "20200101T000000Z-000000"] for kind in OF_GUESTS]),
    "report-all": ("all", [["report", "--json"]]),
    "report-guests": ("guests", [["report", *form] for form in TEXT_AND_JSON]),
    "report-runs": ("runs", [["report", "--json"]]),
    "report-references": (
        "guests",
        [["report", "--reference", paper, "--json"] for paper in ("mattos", "quetier", "adamczyk")],
    ),
    "report-reference-schlosser": ("runs", [["report", "--reference", "schlosser", "--json"]]),
    "report-one-plan": ("guests", [["report", "--plan", "work", "--json"], ["report", "platform=lxc", "--json"]]),
    "export": ("all", [["runs", "export", "--format", "jsonl"], ["runs", "export", "--format", "csv"]]),
    "verify-all": ("all", [["verify", *form] for form in TEXT_AND_JSON]),
    "metrics": ("all", [["metrics", "--once"]]),
    "compare": ("two", [["compare", "plan=old", "plan=new", *form] for form in THREE_FORMS]),
    "compare-guests": ("guests", [["compare", "platform=lxc", "platform=uml", *form] for form in THREE_FORMS]),
    "trend": ("days", [["trend", "nightly", *form] for form in THREE_FORMS]),
    "baselines": (
        "days",
        [
            ["baseline", "set", "main", "nightly@01", "nightly@02", "nightly@03"],
            ["baseline", "set", "main", "nightly@0[1-4]", "--json"],
            ["baseline", *[]],
            ["baseline", "--json"],
            ["baseline", "show", "main"],
            ["baseline", "show", "main", "--json"],
        ],
    ),
    "report-trends": ("days", [["report", "--json"]]),
}
"""From the name of a golden file to a store and the commands on it, in their order."""


@pytest.fixture(autouse=True)
def plain_surroundings(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 100 columns without colours, and nothing of the user's."""
    for name, value in {"COLUMNS": "100", "LINES": "40", "NO_COLOR": "1", "TERM": "dumb", "TZ": "UTC"}.items():
        monkeypatch.setenv(name, value)
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(own_home))
    monkeypatch.chdir(own_home)
    fixed_identity(monkeypatch)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Path]]:
    """A store by its name, made once."""
    directory = tmp_path_factory.mktemp("stores")

    def place(name: str) -> Path:
        path = directory / f"{name}.sqlite"
        if not path.exists():
            STORES[name](path)
        return path

    yield place


def drawn(figure: Any, formats: Collection[str]) -> dict[str, bytes]:
    """In place of what matplotlib draws."""
    return dict.fromkeys(formats, f"<svg><!-- {figure.name} --></svg>".encode())


Stores = Callable[[str], Path]
Capsys = pytest.CaptureFixture[str]


def all_printed(commands: Sequence[Sequence[str]], store: Path, capsys: Capsys) -> str:
    """What each command prints on the store."""
    places = {store: "STORE", Path.home(): "HOME"}
    return "\n".join(printed([*words, "--store", str(store)], capsys, places) for words in commands)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_kind_is_printed_as_it_was(name: str, stores: Stores, tmp_path: Path, capsys: Capsys) -> None:
    which, commands = COMMANDS[name]
    store = stores(which)
    if name == "baselines":
        store = Path(shutil.copy(store, tmp_path / "copy.sqlite"))
    same(KINDS / f"{name}.txt", all_printed(commands, store, capsys))


@pytest.mark.parametrize("kind", OF_GUESTS)
def test_what_was_measured_on_a_lab_is_shown_as_it_was(kind: str, stores: Stores, capsys: Capsys) -> None:
    ids = [record_id for record_id, (own, _) in recorded_guests().items() if own == kind]
    commands = [["experiment", kind, "--show", record_id] for record_id in ids]
    same(KINDS / f"show-recorded-{kind}.txt", all_printed(commands, stores("all"), capsys))


@pytest.mark.parametrize("name", ["guests", "runs"])
def test_the_files_of_a_report_are_as_they_were(
    name: str, stores: Stores, tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of figures only the places in the page: what is drawn is up to matplotlib, and what from is in the JSON."""
    pytest.importorskip("jinja2")
    monkeypatch.setattr("labconsole.report.files.draw_figure", drawn)
    monkeypatch.setattr("labconsole.report.files.require_matplotlib", lambda: None)
    out = tmp_path / "out"
    assert main(["report", "--store", str(stores(name)), "--out", str(out), "--formats", "csv,md,tex,html"]) == 0
    capsys.readouterr()
    for suffix in ("csv", "md", "tex", "html"):
        texts = {
            path.name: without_varying(path.read_text(), {stores(name): "STORE"}) for path in out.glob(f"*.{suffix}")
        }
        parts = [f"==> {file} <==\n{abridged(text)}" for file, text in sorted(texts.items())]
        same(KINDS / f"report-{name}-files.{suffix}.txt", "\n".join(parts))


def test_differences_are_printed_as_they_were(tmp_path: Path, capsys: Capsys) -> None:
    """In each store no record is changed more than once."""
    rounds: list[dict[str, Any]] = []
    for _, record, change, _ in ALONE:
        free = next((each for each in rounds if record not in each), None)
        if free is None:
            rounds.append(free := {})
        free[record] = change
    stores = []
    for number, changes in enumerate(rounds[:7]):
        guests = consistent_guests()
        for record, change in changes.items():
            change(guests[record][1])
        stores.append((f"alone-{number}", guests))
    for number, (_, change_all, _, _) in enumerate(BESIDE[:9]):
        guests = consistent_guests()
        change_all({name: data for name, (_, data) in guests.items()})
        stores.append((f"beside-{number}", guests))
    parts = []
    for number, (name, guests) in enumerate(stores):
        path = tmp_path / f"{name}.sqlite"
        stored_guests(path, guests)
        commands = [["verify", *form] for form in (TEXT_AND_JSON if number < 2 else TEXT_AND_JSON[1:])]
        parts.append(all_printed(commands, path, capsys))
    same(KINDS / "verify-differences.txt", "\n".join(parts))


def test_a_bundle_of_all_kinds_is_verified_and_imported_as_it_was(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labconsole.report.files.draw_figure", drawn)
    path, bundle = tmp_path / "s.sqlite", tmp_path / "bundle.tar.gz"
    stored_guests(path, consistent_guests())
    assert main(["report", "--store", str(path), "--bundle", str(bundle)]) == 0
    capsys.readouterr()
    commands = [
        ["verify", str(bundle)],
        ["verify", str(bundle), "--json"],
        ["runs", "import", str(bundle), "--store", str(tmp_path / "one.sqlite")],
        ["runs", "import", str(bundle), "--store", str(tmp_path / "two.sqlite"), "--json"],
        ["runs", "import", str(path), "--store", str(tmp_path / "two.sqlite"), "--json"],
    ]
    same(KINDS / "bundle.txt", "\n".join(printed(words, capsys, {tmp_path: "TMP"}) for words in commands))


def gates(directory: Path) -> Iterator[tuple[str, Path]]:
    """Plans of every kind with a baseline and two occasions, ``today`` as good as it and ``worse`` not."""
    made: dict[str, tuple[str, Callable[[Nightly, str, int, float], None]]] = {
        "job": (JOBS, lambda lab, name, seed, factor: lab.jobs(name, around(4.0 * factor, seed))),
        "boot": (
            BOOTS,
            lambda lab, name, seed, factor: lab.boots(name, around(2.0 * factor, seed), [50.0 * factor] * 8),
        ),
        "route": (
            ROUTES,
            lambda lab, name, seed, factor: lab.routes(name, around(20_000 / factor, seed, 3), [4000] * 3),
        ),
        "search": (SEARCH, lambda lab, name, seed, factor: lab.searches(name, around(30_000.0 / factor, seed))),
    }
    for kind, (text, take) in made.items():
        (directory / kind).mkdir()
        lab = Nightly(directory / kind, text)
        lab.baseline(lambda name, seed, lab=lab, take=take: take(lab, name, seed, 1.0))  # type: ignore[misc]
        take(lab, "today", 2, 1.0)
        take(lab, "worse", 3, 1.06)
        yield kind, lab.plan
    (directory / "run").mkdir()
    runs = Lab(directory / "run")
    runs.occasions("main", [60.0, 80.0])
    words = [word for number in range(1, 5) for word in ("--occasion", f"main-{number}")]
    assert runs("baseline", "set", "main", str(runs.plan), *words) == 0
    runs.measure("today", [60.0, 80.0], seed=2)
    runs.measure("worse", [60.0, 74.0], seed=3)
    yield "run", runs.plan


def test_gates_judge_every_kind_as_they_did(tmp_path: Path, capsys: Capsys) -> None:
    for kind, plan in gates(tmp_path):
        store = plan.with_name("runs.sqlite")
        places = {tmp_path / kind: "TMP"}
        parts = []
        for occasion in ("today", "worse", "never") if kind == "job" else ("worse",):
            base = ["gate", "--store", str(store), str(plan), "--baseline", "main", "--occasion", occasion]
            files = [tmp_path / kind / name for name in ("gate.xml", "gate.md")]
            parts.append(printed([*base, "--junit", str(files[0]), "--markdown", str(files[1])], capsys, places))
            parts.append(printed([*base, "--json"], capsys, places))
            if occasion == "worse":
                parts += [f"==> {path.name} <==\n{without_varying(path.read_text(), places)}" for path in files]
        parts.append(printed(["baseline", "show", "main", "--store", str(store)], capsys, places))
        same(KINDS / f"gate-{kind}.txt", "\n".join(parts))


@pytest.mark.parametrize("kind", ADVISED)
def test_advice_is_what_it_was(kind: str, tmp_path: Path, capsys: Capsys) -> None:
    key, make, _ = ADVISED[kind]
    stored = Stored(tmp_path, key, make, between=0.02, within=0.01, repetitions=3)
    shown = [[], ["--json"], ["--accuracy", "1%"], ["--accuracy", "1%", "--json"]]
    hosts = str(GOLDEN_SETS / "format-1" / "hosts.yaml")
    base = ["plan", "advise", str(stored.plan), "--hosts", hosts, "--store", str(stored.store)]
    places = {tmp_path: "TMP", GOLDEN_SETS: "GOLDEN"}
    same(KINDS / f"advise-{kind}.txt", "\n".join(printed([*base, *words], capsys, places) for words in shown))


def test_records_by_place_are_those_that_are_shown() -> None:
    guests = consistent_guests()
    assert {name: (kind, stored_id(place)) for name, (kind, place) in CONSISTENT.items()} == {
        name: (guests[name][0], guests[name][1][f"{guests[name][0]}_id"]) for name in CONSISTENT
    }
