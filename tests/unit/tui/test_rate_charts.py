"""What the bench and the saved runs draw over time, driven by keys, on traffic whose truth is known."""

from __future__ import annotations

import copy
import itertools
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labconsole.contracts.ports import Series
from labconsole.engine.live.samples import LiveStreams
from labconsole.model.inventory import Inventory
from labconsole.model.record.run import Delay, LedgerHop, OneWayDelay, Quantiles, RunRecord
from labconsole.store.open import open_store
from labconsole.text import charts
from labconsole.tui.screens.bench.interfaces import InterfacesTable
from labconsole.tui.screens.bench.streams import StreamsTable
from labconsole.tui.screens.runs.details import stream_rates
from support.background_records import REQUEST
from support.driven_console import SIZES, console, picture, settle, still, text, until
from support.fake_session import INVENTORY, FakeSession, make_inventory
from support.live_traffic import BEGUN_NS, OFFSETS_NS, KnownTraffic
from support.saved_runs import saved_record, session_with_runs

GOLDEN = Path(__file__).resolve().parents[2] / "golden"


def inventory_of(streams: int) -> Inventory:
    """As many sources and sinks as streams."""
    nodes: dict[str, Any] = {"uut": INVENTORY["nodes"]["uut"]}
    made = []
    for number in range(1, streams + 1):
        nodes[f"src{number}"] = INVENTORY["nodes"]["src1"]
        nodes[f"snk{number}"] = INVENTORY["nodes"]["snk1"]
        stream = copy.deepcopy(INVENTORY["streams"][0])
        made.append(
            stream
            | {
                "name": f"s{number}",
                "source": f"src{number}/eth1",
                "sink": f"snk{number}/eth1",
                "uut_in": f"in{number}",
                "uut_out": f"out{number}",
                "source_ip": f"198.18.{number}.1",
                "sink_ip": f"198.19.{number}.1",
            }
        )
    return make_inventory(nodes=nodes, streams=made)


async def begin(app, session, pilot, *, sources: int) -> None:
    await pilot.press("r")
    await until(pilot, lambda: session.running)
    session.begin_streams(replace(REQUEST, sources=sources))
    session.rate_pps = 50_000
    for _ in range(60):
        session.advance()
    await settle(app, pilot)


# -- live loss --------------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_the_bench_shows_the_true_loss_or_none_whatever_the_clocks_and_the_delays_of_reports() -> None:
    async with console(lambda: FakeSession(hold=True), (120, 40)) as (app, session, pilot):
        await pilot.press("r")
        await until(pilot, lambda: session.running)
        live = LiveStreams(session.telemetry, session.inventory, OFFSETS_NS)
        live.begin(session.inventory.streams[0], REQUEST, "afpacket")
        live.begin_sending(BEGUN_NS)
        traffic = KnownTraffic(
            session.telemetry, live, session.inventory.streams[0], pps=50_000, loss_ratio=0.02, seconds=4
        )
        seen = []
        for number, now_s in enumerate(traffic.reports()):
            if number % 3:
                continue
            await settle(app, pilot)
            loss = app.screen.query_one(StreamsTable).cell_loss("s1", 9)[0]
            row = next(row for row in picture(app) if "s1" in row and "eth1" not in row)
            assert loss in row
            if now_s < 1:
                assert loss == "–"
            elif loss != "–":
                assert float(loss.removeprefix("≈ ")) == pytest.approx(2.0, abs=0.1)
                seen.append(loss)
        assert len(seen) > 10


# -- the bench's chart ------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.parametrize("size", SIZES)
async def test_a_key_shows_all_streams_on_one_scale_and_again_the_chosen_one(size: tuple[int, int]) -> None:
    async with console(lambda: FakeSession(hold=True, loss=0.05), size) as (app, session, pilot):
        await begin(app, session, pilot, sources=3)
        await pilot.press("c")
        await settle(app, pilot)
        shown = text(app)
        assert "All streams: " in shown
        assert all(word in shown for word in ("⠒⠒⠒ measured", "⠂ ⠂ offered", "▆ lost"))
        titles = next(row for row in picture(app) if "▸ s1" in row)
        assert re.search(r"▸ s1 .* s2 .* s3 ", titles)
        assert "50 000┤".replace(" ", "\u2009") in shown or "60\u2009000┤" in shown
        assert " %┤" in shown, "the loss has a strip of its own"
        assert "more" not in next(row for row in picture(app) if "All streams" in row)
        await pilot.press("n")
        await settle(app, pilot)
        assert "▸ s2" in text(app)
        await pilot.press("c")
        await settle(app, pilot)
        assert "Stream s2 over time" in text(app)
        assert "▸" not in text(app)


@pytest.mark.asyncio
async def test_the_chart_is_of_the_interface_under_the_cursor_while_the_focus_is_on_interfaces() -> None:
    async with console(lambda: FakeSession(hold=True), (120, 40)) as (app, session, pilot):
        await begin(app, session, pilot, sources=1)
        assert "Stream s1 over time" in text(app)
        await pilot.press("i")
        await settle(app, pilot)
        table = app.screen.query_one(InterfacesTable)
        first = table.chosen
        assert first is not None
        assert f"Interface {first.node}/{first.label}: ⠒⠒⠒ received  ⠂⠂⠂ sent" in text(app)
        await pilot.press("down")
        await settle(app, pilot)
        assert table.chosen is not first
        assert table.chosen is not None
        assert f"Interface {table.chosen.node}/{table.chosen.label}: " in text(app)
        await pilot.press("escape")
        await settle(app, pilot)
        assert "Stream s1 over time" in text(app)


@pytest.mark.asyncio
@pytest.mark.parametrize(("size", "more"), zip(SIZES, (8, 9, 0), strict=True))
async def test_streams_that_find_no_room_are_counted_and_turned_to(size: tuple[int, int], more: int) -> None:
    async with console(lambda: FakeSession(inventory_of(12), hold=True), size) as (app, session, pilot):
        await begin(app, session, pilot, sources=12)
        await pilot.press("c")
        await settle(app, pilot)
        title = next(row for row in picture(app) if "All streams" in row)
        assert re.findall(r"\+ (\d+) more", title) == ([str(more)] if more else [])
        for number in range(2, 13):
            await pilot.press("n")
            await settle(app, pilot)
            assert f"▸ s{number} " in text(app), "the page follows the cursor"


# -- saved runs -------------------------------------------------------------------------------------------------------


def heard_late(record: RunRecord) -> Series:
    """Two seconds of a run as they were kept before: by when the console heard, in bursts; with the NICs' counters."""
    pps, loss, offset_ns = 50_000, 0.1, {"src1": 7_000_000_000, "snk1": -3_000_000_000}
    streams: dict[str, list[Any]] = {name: [] for name in ("seconds", "stream", "offered_packets", "measured_packets")}
    names = ("monotonic_ns", "wall_ns", "interface", "rx_packets", "tx_packets")
    interfaces: dict[str, list[Any]] = {name: [] for name in names}
    for tick in range(21):
        streams["seconds"].append(0.5 * (tick // 5 + 1) + 1e-4 * tick)
        streams["stream"].append(0)
        streams["offered_packets"].append(pps * (tick // 3) * 3 // 10)
        streams["measured_packets"].append(round(pps * tick * 0.1 * (1 - loss)))
        for place, (node, late_ns) in enumerate((("src1", 31_000_000), ("snk1", 0))):
            at_ns = tick * 100_000_000 + late_ns
            sent = round(pps * at_ns / 1e9)
            row = (
                at_ns + 12345 * (place + 1),
                10**18 + at_ns + offset_ns[node],
                place,
                0 if place == 0 else round(sent * (1 - loss)),
                sent if place == 0 else 0,
            )
            for name, value in zip(names, row, strict=True):
                interfaces[name].append(value)
    return Series({"streams": streams, "interfaces": interfaces})


def nic_record() -> RunRecord:
    record = saved_record(1)
    hops = tuple(
        LedgerHop(hop=hop, node=node, interface="eth1", packets=1, lost_packets=0)
        for hop, node in (("source_nic", "src1"), ("sink_nic", "snk1"))
    )
    environment = {
        "series_interfaces": ["src1/eth1", "snk1/eth1"],
        "nodes": {
            "src1": {"facts": {}, "clock_offset_ns": 7_000_000_000},
            "snk1": {"facts": {}, "clock_offset_ns": -3_000_000_000},
        },
    }
    stream = record.streams[0].model_copy(update={"ledger": hops})
    return record.model_copy(update={"environment": environment, "streams": (stream,)})


def test_a_run_kept_by_arrival_is_drawn_by_its_nics_own_clocks() -> None:
    record = nic_record()
    rates, how = stream_rates(heard_late(record), record, 0)
    assert how == "by the counters of source's and sink's NIC"
    assert rates is not None
    assert len(rates.seconds) == 20
    assert list(rates.measured_pps) == pytest.approx([45_000] * 20, rel=0.001)
    assert math.isnan(rates.offered_pps[0]), "the source was not read as early as the sink"
    assert list(rates.offered_pps)[1:] == pytest.approx([50_000] * 19, rel=0.001)
    assert list(rates.seconds) == pytest.approx([0.1 * i for i in range(1, 21)])


@pytest.mark.parametrize("environment", [{}, {"series_interfaces": 5}, {"series_interfaces": ["a"], "nodes": [1]}])
def test_a_record_from_elsewhere_that_lacks_what_it_takes_has_no_chart(environment: dict[str, Any]) -> None:
    record = nic_record()
    broken = record.model_copy(update={"environment": environment})
    assert stream_rates(heard_late(record), broken, 0)[0] is None


@pytest.mark.parametrize("number", [1, 2])
def test_no_run_ever_stored_draws_a_rate_that_was_not_there(tmp_path: Path, number: int) -> None:
    shutil.copy(GOLDEN / f"format-{number}/runs.sqlite", tmp_path)
    shutil.copytree(GOLDEN / f"format-{number}/runs.sqlite.series", tmp_path / "runs.sqlite.series")
    drawn = 0
    store = open_store(str(tmp_path / "runs.sqlite"))
    for run in store.list():
        series, record = (store.series(run.run_id), store.get(run.run_id)) if run.has_series else (None, None)
        if series is None or record is None:
            continue
        for index, stream in enumerate(record.streams):
            rates, _ = stream_rates(series, record, index)
            assert rates is not None
            assert stream.offered_pps is not None
            known = [rate for rate in (*rates.offered_pps, *rates.measured_pps) if math.isfinite(rate)]
            assert min(known) >= 0
            assert max(known) < stream.offered_pps * 1.25
            drawn += 1
    assert drawn >= 3


@pytest.mark.asyncio
async def test_the_page_over_time_says_what_an_older_run_is_drawn_from() -> None:
    def session() -> FakeSession:
        made, record = FakeSession(), nic_record()
        made.store.records = [record]
        made.store.kept_series = {record.run_id: heard_late(record)}
        return made

    async with console(session, (120, 40)) as (app, _, pilot):
        await pilot.press("2")
        await still(app, pilot)
        await pilot.press("t", "t", "t")
        await still(app, pilot)
        shown = text(app)
        assert "by the counters of source's and sink's NIC" in shown
        labels = [int(word.replace("\u2009", "")) for word in re.findall(r"([\d\u2009]+)┤", shown)]
        assert max(labels) == 50_000


@pytest.mark.asyncio
@pytest.mark.parametrize("size", SIZES)
async def test_the_page_over_time_names_every_glyph_and_has_the_loss_beneath(size: tuple[int, int]) -> None:
    async with console(session_with_runs, size) as (app, session, pilot):
        await pilot.press("2")
        await still(app, pilot)
        await pilot.press("enter", "t", "t", "t")
        await still(app, pilot)
        shown = text(app)
        assert all(word in shown for word in ("⠒⠒⠒ measured", "⠂ ⠂ offered", "▆ lost"))
        assert "by the counters" not in shown
        rows = picture(app)
        axis = [i for i, row in enumerate(rows) if re.search(r"\d┤", row)]
        strip = [i for i, row in enumerate(rows) if re.search(r"\d %┤", row)]
        assert axis
        assert strip
        assert min(strip) > min(axis)


@pytest.mark.asyncio
@pytest.mark.parametrize("one_way", [True, False])
async def test_percentiles_of_delay_are_on_the_page_of_packets(one_way: bool) -> None:
    figures = {"p50": 12_300, "p99": 45_600, "p999": 78_900, "max": 1_234_500}
    delay = Delay(
        packets=32_768,
        pair_every_packets=9,
        one_way=one_way,
        reason=None if one_way else "the clocks differ too much",
        clock_bound_ns=None,
        one_way_ns=OneWayDelay(min=1000, mean=2.0, **figures) if one_way else None,
        pdv_ns=Quantiles(**{name: ns - 1000 for name, ns in figures.items()}),
        ipdv_ns=None,
    )
    record = saved_record(1)
    stream = record.streams[0].model_copy(update={"delay": delay})

    def session() -> FakeSession:
        made = FakeSession()
        made.store.records = [record.model_copy(update={"streams": (stream,)})]
        return made

    async with console(session, (120, 40)) as (app, _, pilot):
        await pilot.press("2")
        await still(app, pilot)
        await pilot.press("t")
        await still(app, pilot)
        shown = text(app)
        assert re.search(r"delay µs +p50 +p99 +p99\.9 +max", shown)
        assert bool(re.search("one way +12\\.3 +45\\.6 +78\\.9 +1\u2009234\\.5", shown)) is one_way
        assert ("the clocks differ too much" in shown) is not one_way
        assert re.search("PDV +11\\.3 +44\\.6 +77\\.9 +1\u2009233\\.5", shown)
        assert "of a sample of 32\u2009768 packets" in shown


# -- curves -----------------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.parametrize("size", SIZES)
async def test_the_legend_of_curves_names_the_diagonal_and_the_intervals_too(size: tuple[int, int]) -> None:
    async with console(session_with_runs, size) as (app, _, pilot):
        await pilot.press("3")
        await still(app, pilot)
        await until(pilot, lambda: "· no loss   │ interval" in text(app))


@pytest.mark.parametrize("height", range(8, 40))
def test_ticks_of_curves_are_evenly_spaced_and_reach_below_zero(height: int) -> None:
    losses = [charts.CurvePointMark(1000.0 * i, y, y - 0.5, y + 0.5) for i, y in enumerate((0.0, 0.1, 2.0, 4.8))]
    rows = charts.draw_curves([losses], charts.CurveAxes(y_words=lambda y: f"{y:g}"), 90, height)
    assert len(rows) == height
    lines = ["".join(part for part, _ in row) for row in rows]
    labels = {i: float(line.partition("┤")[0]) for i, line in enumerate(lines) if "┤" in line}
    places, values = list(labels), list(labels.values())
    assert len({b - a for a, b in itertools.pairwise(places)}) == 1
    assert len({round(a - b, 6) for a, b in itertools.pairwise(values)}) == 1
    assert values[-1] <= -0.5
    assert values[0] >= 5.3
    assert 0 in values


@pytest.mark.parametrize("decades", [0.3, 1.7, 2.4, 5.0])
def test_ticks_of_decades_are_whole_ones(decades: float) -> None:
    points = [charts.CurvePointMark(1.0, 0.1), charts.CurvePointMark(2.0, decades)]
    axes = charts.CurveAxes(y_words=lambda place: f"{10**place:g}", y_least_step=1.0)
    lines = ["".join(part for part, _ in row) for row in charts.draw_curves([points], axes, 90, 20)]
    labels = [float(line.partition("┤")[0]) for line in lines if "┤" in line]
    assert labels == [10.0**place for place in reversed(range(math.ceil(decades) + 1))]
