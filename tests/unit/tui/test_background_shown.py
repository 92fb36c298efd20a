"""Background load where an operator meets it: the form, the streams as they run, a saved run, a plan, the checks."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from labconsole.contracts.ports import StoredMaximum
from labconsole.engine.check import feasibility, tools
from labconsole.engine.check.context import CheckContext
from labconsole.engine.check.result import CheckFinding
from labconsole.engine.live.events import TrialStarted
from labconsole.engine.live.samples import LiveStreams
from labconsole.engine.live.telemetry import Telemetry
from labconsole.errors import ConfigError
from labconsole.model.design_point import BACKGROUNDS, DesignPoint, FrameSize
from labconsole.model.plan.loader import load_plan
from labconsole.model.plan.plan import Plan
from labconsole.model.record.run import RunRecord
from labconsole.platforms.loading import build_driver
from labconsole.tui.console import form
from labconsole.tui.console.state import ConsoleState
from labconsole.tui.screens.bench.streams import TOTAL_ROW, collect_stream_numbers
from labconsole.tui.screens.runs.run_pages import packets_page, verdict_page
from support.background_records import FOUND, REQUEST, forwarding_record
from support.fake_session import make_inventory, make_record


def no_guests(request: DesignPoint) -> None:
    if request.background != "none":
        raise ConfigError("is not available on platform raw: it has one guest only", key="background", allowed="none")


# -- the form ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in BACKGROUNDS if kind != "none"])
def test_a_form_says_what_a_load_is_and_which_stream_it_takes(kind: str) -> None:
    inventory = make_inventory()
    values = replace(form.initial_values(inventory), background=kind, sources="2")
    reading = form.read_form(values, inventory, lambda request: None)
    assert reading.request is not None
    assert reading.request.background == kind
    assert reading.hints["background"][0].endswith("; second stream: s3")


def test_a_form_refuses_a_load_in_the_words_of_the_platform() -> None:
    inventory = make_inventory()
    values = replace(form.initial_values(inventory), background="heavy")
    reading = form.read_form(values, inventory, no_guests)
    assert reading.request is None
    assert reading.problems["background"].short == "is not available on platform raw: it has one guest only"
    assert reading.problems["background"].allowed == "none"
    full = form.read_form(replace(values, background="forwarding-50", sources="3"), inventory)
    assert "fewer sources" in full.problems["background"].allowed
    assert form.read_form(replace(values, sources="3"), inventory).hints["background"][0].endswith("none free")


# -- as it runs, and saved --------------------------------------------------------------------------------------------


def test_the_second_guests_stream_is_shown_while_it_runs_and_enters_no_total() -> None:
    inventory, telemetry, state = make_inventory(), Telemetry(), ConsoleState()
    started = TrialStarted(run_id="r", request=REQUEST, repetition=1, repetitions=1)
    state.apply(started, now_s=0, wall_s=0)
    live = LiveStreams(telemetry, inventory, {})
    live.begin(inventory.streams[0], REQUEST, "pktgen")
    live.begin(inventory.streams[2], replace(REQUEST, frame=FrameSize(64)), "pktgen", of_second_guest=True)
    for name, pps in (("s1", 1000.0), ("s3", 50_000.0)):
        shown = telemetry.streams[name]
        shown.offered_pps.append(pps)
        shown.measured_pps.append(pps)
        shown.offered_packets = shown.measured_packets = int(pps)
    rows = collect_stream_numbers(inventory, telemetry, state)
    assert (rows["s1"].offered_pps, rows["s3"].offered_pps, rows[TOTAL_ROW].offered_pps) == (1000.0, 50_000.0, 1000.0)
    assert rows["s3"].offered_bps == 50_000 * 8 * (64 + 24), "of the second guest's own frames"


def test_a_saved_run_shows_what_was_asked_and_reached_and_the_second_guests_stream() -> None:
    record = RunRecord.model_validate(forwarding_record())
    text = "\n".join("".join(part for part, _ in row) for row in verdict_page(record, None, 120))
    assert "forwarding-50" in text
    assert "second, not pinned" in text
    assert "not in totals" in text
    assert "share_ratio 0.5" in text
    packets = "\n".join("".join(part for part, _ in row) for row in packets_page(record, 120))
    assert "Stream s3 of the second guest, not in totals" in packets
    settled = Telemetry()
    live = LiveStreams(settled, make_inventory(), {})
    live.begin(make_inventory().streams[2], REQUEST, "pktgen", of_second_guest=True)
    live.settle(record)
    assert settled.streams["s3"].final


# -- plans ------------------------------------------------------------------------------------------------------------

PLAN = """\
plan: p
platforms: [raw]
frame_sizes: [64]
targets: [1Mbit]
backgrounds:
  - none
  - light
duration_s: 1
repetitions: 1
"""


def test_a_plan_that_asks_a_platform_for_what_it_cannot_have_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN)
    assert load_plan(path, make_inventory()).trials == 2
    with pytest.raises(ConfigError) as caught:
        load_plan(path, make_inventory(), also=no_guests)
    assert (caught.value.line, caught.value.key, caught.value.allowed) == (7, "backgrounds[1]", "none")
    assert "it has one guest only" in str(caught.value)


def _plan(tmp_path: Path, backgrounds: str, targets: str) -> Plan:
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN.replace("\n  - none\n  - light", f" [{backgrounds}]").replace("1Mbit", targets))
    return load_plan(path, make_inventory())


def _bench(plan: Plan, found: StoredMaximum | None = None, stress: str | None = None) -> Any:
    async def survey(node: str) -> Any:
        return SimpleNamespace(tools={"stress": stress})

    store = SimpleNamespace(maximum=lambda **asked: found)
    session = SimpleNamespace(
        inventory=make_inventory(), store=store, check_background=lambda request: None, driver_for=build_driver
    )
    bench: Any = CheckContext(cast(Any, session), plan, fix=False)
    bench.survey = survey
    return bench


def _checked(check: Any, bench: Any, *more: str) -> CheckFinding:
    return cast(CheckFinding, asyncio.run(check(bench, *more)))


def test_a_check_of_a_plan_names_the_maximum_that_must_be_measured_first(tmp_path: Path) -> None:
    plan = _plan(tmp_path, "none, forwarding-50", "1Mbit")
    missing = _checked(feasibility.references, _bench(plan))
    assert missing.status == "fail" and missing.hint is not None
    assert "labconsole run --platform raw --background idle --frame-size 64 --sources 1 --target max" in missing.hint
    there = _checked(feasibility.references, _bench(plan, FOUND))
    assert there.status == "pass"
    assert "raw 100" in there.evidence
    itself = _checked(feasibility.references, _bench(_plan(tmp_path, "idle, forwarding-50", "1Mbit, max")))
    assert (itself.status, itself.evidence) == ("pass", "the plan measures them itself")
    assert _checked(feasibility.references, _bench(_plan(tmp_path, "none", "1Mbit"))).status == "skipped"


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ("set_ups: 3\norder: as-listed\n", "warn"),
        ("set_ups: 3\n", "pass"),
        ("order: as-listed\n", "skipped"),
    ],
)
def test_a_check_of_a_plan_warns_where_nothing_of_it_would_be_compared(tmp_path: Path, more: str, status: str) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN.replace("\n  - none\n  - light", " [none, idle]") + more)
    found = _checked(feasibility.order, _bench(load_plan(path, make_inventory())))
    assert found.status == status
    assert ("will not compare" in found.evidence) is (status == "warn")


def test_a_check_of_a_plan_wants_stress_where_the_load_runs_on_the_node(tmp_path: Path) -> None:
    loaded = _plan(tmp_path, "idle, heavy", "1Mbit")
    missing = _checked(tools.platform, _bench(loaded), "uut")
    assert (missing.status, missing.evidence) == ("fail", "no stress (for the background load of raw)")
    assert _checked(tools.platform, _bench(loaded, stress="/usr/bin/stress"), "uut").status == "pass"
    idle = _checked(tools.platform, _bench(_plan(tmp_path, "none, idle", "1Mbit")), "uut")
    assert "only the kernel is needed" in idle.evidence


def test_a_run_without_a_second_guest_shows_none() -> None:
    record = make_record(REQUEST, "20261121T000000Z-000001")
    text = "\n".join("".join(part for part, _ in row) for row in verdict_page(record, None, 120))
    assert "background" in text
    assert "none" in text
