"""Routers: what a plan may ask, how routes are drawn and given, what follows from counts, what may be claimed."""

from __future__ import annotations

import asyncio
import ipaddress
import random
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from labconsole.cli.main import main
from labconsole.contracts.crew import StandingMember
from labconsole.errors import GuestLacks
from labconsole.experiments.route.kind import KIND as ROUTE_KIND
from labconsole.experiments.route.loading import LoadResult, RouteLoad, _read, load_line
from labconsole.experiments.route.measurement import RouteMeasurement
from labconsole.experiments.route.plan import RouteFactors, format_target_pps, route_points
from labconsole.experiments.route.points import lost_inside_ratio
from labconsole.experiments.route.rates import build_hops
from labconsole.experiments.route.record import RouteRecord
from labconsole.experiments.route.summary import summarize_routes
from labconsole.experiments.route.text import TEXT, summary_lines
from labconsole.experiments.route.verify import recompute_route
from labconsole.experiments.route.window import Router, derive_processor_use
from labconsole.experiments.units import build_kind_figures
from labconsole.measure.paired_blocks import adjusted
from labconsole.measure.statistics.effects import equivalence_p
from labconsole.model.plan.loader import load_plan
from labconsole.model.record.run import Reason, Verdict
from labconsole.report.trial_text import trial_lines
from support.route_records import route_record

ROOT = Path(__file__).parents[3]
TEST_NETWORK = ipaddress.ip_network("198.18.0.0/15")


@pytest.mark.parametrize(
    ("told", "complaint"),
    [
        ({"guests": [65]}, "too many routers"),
        ({"routes": [-1]}, "greater than or equal to 0"),
        ({"routes": [500_001]}, "less than or equal to 500000"),
        ({"destinations": [3]}, "power of two"),
        ({"destinations": [32_768]}, "power of two"),
        ({"targets": ["130"]}, "is not a packet rate"),
        ({"targets": ["0pps"]}, "is not a packet rate"),
        ({"targets": ["2pps"], "guests": [4]}, "less than a packet a second"),
        ({"frame_sizes": [63]}, "greater than or equal to 64"),
        ({"filters": [10_001]}, "less than or equal to 10000"),
    ],
)
def test_what_a_plan_cannot_ask_is_refused(told: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        RouteFactors.model_validate(told)


@pytest.mark.parametrize(
    ("plan", "status", "said"),
    [
        ("platforms: [raw, container]\n", 0, "raw: 1 router"),
        ("platforms: [raw]\n", 2, "plan.yaml:2: platforms: the bare host has no guests that forward"),
        ("platforms: [raw, container]\nframe_sizes: [64]\ntargets: [max]\n", 2, "plan.yaml:3: frame_sizes: cannot be"),
    ],
)
def test_why_the_bare_host_is_no_router_beside_others_is_said(
    plan: str, status: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Alone it is refused, beside others left out, and in each case it is told where its forwarding is measured."""
    (path := tmp_path / "plan.yaml").write_text(f"plan: p\n{plan}route: {{guests: [1]}}\n")
    store, hosts = str(tmp_path / "s.sqlite"), str(ROOT / "tests" / "golden" / "format-1" / "hosts.yaml")
    assert main(["replay", str(path), "--dry-run", "--hosts", hosts, "--store", store]) == status
    told = "".join(capsys.readouterr())
    assert said in told
    assert ("a plan of frames to forward (frame_sizes, targets)" if status == 0 else "frames to forward") in told


def test_rates_are_read_as_they_are_written() -> None:
    factors = RouteFactors.model_validate({"targets": ["130kpps", "20000pps", "1.5Mpps", "max"]})
    assert factors.targets == (130_000, 20_000, 1_500_000, "max")
    assert [format_target_pps(each) for each in factors.targets] == ["130kpps", "20kpps", "1500kpps", "max"]
    points = route_points(factors, ["lxc"])
    assert points[0].words() == "lxc: 1 router, 0 routes, 130kpps in all, 64 B"


@pytest.mark.parametrize("awk", [["busybox", "awk"], ["mawk"]])
def test_every_route_is_there_once_and_none_leads_into_the_test_network(awk: list[str]) -> None:
    """With the awk of guests and that of the unit under test alike."""
    line = load_line(RouteLoad(2000, 4, 0), "02:6c:77:00:00:00")
    drawn = line[line.index("awk ") + 4 : line.index(" 2>&1 | head")].replace("$o", "eth1")
    drawn = drawn.replace("$b -batch -", "cat")
    done = subprocess.run(["sh", "-c", f"{' '.join(awk)} {drawn}"], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert all(each.endswith(" via 198.18.127.1 dev eth1 proto 229") for each in lines)
    found = [ipaddress.ip_network(each.split()[2]) for each in lines]
    assert [str(each) for each in found[:4]] == [f"198.19.64.{place}/32" for place in range(4)]
    routes = found[4:]
    assert len(routes) == len(set(routes)) == 2000
    assert {each.prefixlen for each in routes} == set(range(16, 25))
    assert not any(each.overlaps(TEST_NETWORK) or each.is_multicast or each.is_loopback for each in routes)


def test_a_line_is_short_enough_for_a_console() -> None:
    assert len(load_line(RouteLoad(500_000, 16_384, 10_000), "02:6c:77:00:00:00")) < 3000


@pytest.mark.parametrize("in_namespace", [False, True])
def test_a_router_without_iproute2_is_told_at_once_and_no_other_attempt_is_made(
    in_namespace: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is a namespace of the unit under test's kernel may be gone, and be there in the next attempt."""

    async def ask(*of: Any) -> str:
        return ""

    async def give(*of: Any) -> dict[str, LoadResult]:
        return {"g1": _read("sh: LCNOIP", 0.1)}

    monkeypatch.setattr("labconsole.experiments.route.measurement.load_routes", give)
    (point,) = route_points(RouteFactors(), ["uml"])
    taking: Any = RouteMeasurement.__new__(RouteMeasurement)
    member = StandingMember(name="g1", ask=ask, pid=1, in_namespace=in_namespace)
    taking._point, taking._standing = point, {"g1": member}
    taking._crew, taking._bench = SimpleNamespace(loaded="", uut=None), SimpleNamespace(show=lambda picture: None)
    macs = {"inbound_mac": "02:6c:77:01:00:00", "mac": "02:6c:77:00:00:00"}
    router = Router(name="g1", **macs, inbound_interface="lcgi1", host_interface="lcg1", udp_source_port=1)
    loading = taking._load([router], "02:00:00:00:00:09")
    if in_namespace:
        assert asyncio.run(loading)["g1"].prefixes is None
        return
    with pytest.raises(GuestLacks, match="router g1 of platform uml has no iproute2.*`labconsole lab up --jobs`"):
        asyncio.run(loading)


def test_rates_are_of_the_bins_in_which_all_forward() -> None:
    record = route_record([200, 100])
    assert record.sum_pps == pytest.approx(3000.0)
    assert [each.forwarded_pps for each in record.routers] == [pytest.approx(2000.0), pytest.approx(1000.0)]
    assert record.jain == pytest.approx(0.9)
    assert record.verdict.status == "valid"
    assert recompute_route(record) == []


def test_what_is_lost_in_one_router_is_told_for_that_router_and_is_no_reason_to_doubt() -> None:
    record = route_record([200] * 4, lost_inside=[0, 0, 301, 0])
    assert [build_hops(each).inside for each in record.routers] == [0, 0, 301, 0]
    assert build_hops(record.routers[2]).words() == ", lost 7.00% of what was sent (301 in it)"
    assert record.verdict.status == "valid"


def changed(record: RouteRecord, **values: Any) -> RouteRecord:
    """With one router other than it was."""
    return record.model_copy(update={"routers": (record.routers[0].model_copy(update=values), *record.routers[1:])})


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"routes": 5}, "routes_missing"),
        ({"routes": None}, "routes_missing"),
        ({"routes_after": 0}, "routes_missing"),
        ({"filters": 3}, "routes_missing"),
        ({"filters_after": 3}, "routes_missing"),
        ({"last_at_ns": 1_000_000_000_000_000_000}, "duration_cut"),
        ({"forwarded_pps": None}, "rate_uncertain"),
        ({"error": "link down"}, "generator_failed"),
        ({"sent_packets": None}, "generator_failed"),
        ({"to_packets": 999_999}, "witnesses_disagree"),
        ({"bytes": 7}, "witnesses_disagree"),
        ({"sent_for_s": 1.0}, "duration_cut"),
    ],
)
def test_a_verdict_that_does_not_follow_is_found(values: dict[str, Any], code: str) -> None:
    assert any(code in str(each) for each in recompute_route(changed(route_record(), **values)))


def test_a_router_without_its_routes_voids_the_trial() -> None:
    record = route_record([200, 200], routes=1000, had=7)
    assert record.status == "failed"
    (found,) = record.verdict.reasons
    assert found.code == "routes_missing"
    assert found.detail == "g2: it had 7 routes before the trial, of 1001 that it was given"


def test_less_than_what_was_to_be_sent_is_told() -> None:
    assert route_record([200], target_pps=2000).verdict.status == "valid"
    short = route_record([200], target_pps=4000)
    assert [each.code for each in short.verdict.reasons] == ["offered_short"]


def test_numbers_that_were_changed_are_found() -> None:
    record = route_record([200, 100])
    for values in ({"sum_pps": 1.0}, {"jain": 1.0}, {"shared_from": 3}, {"start_skew_s": 9.0}):
        assert recompute_route(record.model_copy(update=values)) != []
    assert recompute_route(changed(record, packets=1)) != []
    assert recompute_route(changed(record, forwarded_pps=1.0)) != []


def declared(record: RouteRecord, margin_ratio: float | None = 0.02) -> RouteRecord:
    """As of a plan that declares a margin."""
    return record.model_copy(update={"plan": record.plan.model_copy(update={"margin_ratio": margin_ratio})})


def measured(cost_ratio: float, spread: float, *, blocks: int = 10, **how: Any) -> list[RouteRecord]:
    """Ten blocks: no routes, 100 000 routes, which cost nothing, and filters, which cost ``cost_ratio``."""
    draw = random.Random(3)
    found = []
    for block in range(1, blocks + 1):
        base = 20_000 * (1 + 0.05 * draw.gauss(0, 1))  # what a block has in common falls out
        for routes, filters, cost in ((0, 0, 0.0), (100_000, 0, 0.0), (0, 300, cost_ratio)):
            each = round(base * (1 - cost) * (1 + spread * draw.gauss(0, 1)))
            found.append(declared(route_record([each], routes=routes, filters=filters, block=block, **how)))
    return found


def test_a_cost_of_five_percent_is_found_where_routes_are_found_to_cost_nothing() -> None:
    summary = summarize_routes(measured(0.05, 0.005))
    words = {each.what: each for each in summary.compared}
    assert words["routes"].word == "equivalent"
    assert words["routes"].margin_ratio == 0.02
    assert words["filters"].word == "different"
    assert words["filters"].effect.change == pytest.approx(-0.05, abs=0.01)
    assert "100000 routes against 0 routes" in summary.describe_claim(words["routes"])


def crossed(
    spread: float, *, blocks: int = 12, whole: int = 12, tilt_ratio: float = 0.0, seed: int = 5
) -> list[RouteRecord]:
    """Routes, which cost nothing, with and without filters, which cost 5 %; the last blocks without the last point.
    ``tilt_ratio``: what routes bring without rules and cost with them.
    """
    draw = random.Random(seed)
    points = [(routes, filters) for filters in (0, 20) for routes in (0, 100_000)]
    found = []
    for block in range(1, blocks + 1):
        base = 20_000 * (1 + 0.05 * draw.gauss(0, 1))
        of_block = []
        for routes, filters in points:
            tilt = (1 + tilt_ratio) ** ((-1 if filters else 1) * bool(routes))
            each = round(base * (0.95 if filters else 1.0) * tilt * (1 + spread * draw.gauss(0, 1)))
            of_block.append(declared(route_record([each], routes=routes, filters=filters, block=block)))
        found += of_block if block <= whole else of_block[:-1]
    return found


def test_routes_are_also_held_against_none_over_all_filters_that_they_were_crossed_with() -> None:
    summary = summarize_routes(crossed(0.02))
    single = [each for each in summary.compared if each.what == "routes" and len(each.pairs) == 1]
    (pooled,) = [each for each in summary.compared if each.what == "routes" and len(each.pairs) == 2]
    logs = [each.effect.mean_log for each in single]
    assert pooled.effect.mean_log == pytest.approx(sum(each or 0.0 for each in logs) / 2)
    assert pooled.effect.blocks == 12, "a block is one value, of however many pairs"
    assert pooled.effect.error_log is not None
    assert all(each.effect.error_log > pooled.effect.error_log for each in single if each.effect.error_log)
    assert "1 router, 100000 routes against 0 routes, max, mean over 0 and 20 filter rules: " in summary.describe_claim(
        pooled
    )
    (filters,) = [each for each in summary.compared if each.what == "filters" and len(each.pairs) == 2]
    assert (filters.word, filters.crossed) == ("different", "0 and 100000 routes")
    assert "20 filter rules against 0 filter rules" in summary.describe_claim(filters)
    assert summary.describe_claim(filters).endswith(": different on the average")
    assert {each.what: each.equivalent_p is None for each in summary.compared} == {"routes": False, "filters": True}


def test_routes_are_equivalent_on_the_average_and_by_how_much_their_changes_differ_is_told() -> None:
    summary = summarize_routes(crossed(0.004))
    (pooled,) = [each for each in summary.compared if each.what == "routes" and len(each.pairs) == 2]
    assert (pooled.word, pooled.untested) == ("equivalent", None)
    assert summary.describe_claim(pooled).endswith(": equivalent on the average (margin 2.0 %)")
    assert pooled.apart is not None and pooled.apart.ci_low is not None and pooled.apart.ci_high is not None
    assert pooled.apart.ci_low < 0 < pooled.apart.ci_high
    # Of three tests of equivalence, and no test of what rules cost.
    p_values = [equivalence_p(each.effect, 0.02) for each in summary.compared if each.what == "routes"]
    assert [each.equivalent_p for each in summary.compared if each.what == "routes"] == pytest.approx(
        adjusted(p_values)
    )


def test_changes_in_opposite_directions_are_told_beside_their_mean() -> None:
    summary = summarize_routes(crossed(0.004, tilt_ratio=0.03))
    single = [each for each in summary.compared if each.what == "routes" and len(each.pairs) == 1]
    (pooled,) = [each for each in summary.compared if each.what == "routes" and len(each.pairs) == 2]
    assert [each.word for each in single] == ["different", "different"]
    assert pooled.word == "equivalent" and pooled.apart is not None and pooled.apart.ci_high is not None
    assert pooled.apart.change == pytest.approx(1 / 1.03**2 - 1, abs=0.01)
    assert pooled.apart.ci_high < 0
    assert ", at 20 filter rules compared with 0: -5." in summary.describe_claim(pooled).replace("−", "-")


FEW = "(fewer than 3 blocks)"


def test_why_there_is_no_interval_is_told_once_beside_a_mean() -> None:
    summary = summarize_routes([each for each in crossed(0.02) if each.plan.block <= 2])
    (pooled,) = [each for each in summary.compared if each.what == "routes" and len(each.pairs) == 2]
    assert summary.describe_claim(pooled).count(FEW) == 2, "so it stands in tables, which are compared byte for byte"
    (said,) = [line for line in summary_lines(summary) if "100000 routes against 0 routes" in line and ", mean" in line]
    assert said.count(FEW) == 1 and f"{FEW}, 2 blocks, at 20 filter rules compared with 0: " in said, said


def test_one_route_is_one_route() -> None:
    record = route_record([200], routes=1, filters=1)
    others = [route_record([200]), route_record([200], routes=10)]
    told = "\n".join(summary_lines(summarize_routes([record, *others])))
    assert "1 router, 1 route, 1 filter rule, max" in told and not re.search(r"\b1 (routes|filter rules|blocks)", told)
    assert "1 block: " in told, told
    lines = "\n".join(trial_lines(ROUTE_KIND, changed(record, routes=1)))
    assert "1 router, 1 route, 1 filter rule, " in lines and "; 1 route" in lines and "1 routes" not in lines
    (planned,) = route_points(RouteFactors.model_validate({"routes": [1], "filters": [1]}), ["lxc"])
    assert planned.words().startswith("lxc: 1 router, 1 route, 1 filter rule, ")


def test_equivalence_is_not_tested_where_no_change_could_have_been_seen() -> None:
    def routes(records: list[RouteRecord]) -> Any:
        return next(each for each in summarize_routes(records).compared if each.what == "routes")

    assert routes(measured(0.05, 0.005)).untested is None, "the cost of the rules was found"
    blind = routes(measured(0.0, 0.005))  # whatever limits it, rules that cost nothing show nothing
    assert (blind.word, blind.equivalent_p) == ("inconclusive", None)
    assert "may be the source's" in blind.untested
    lossy = [route_record_with_loss(each) for each in measured(0.0, 0.005)]
    assert (routes(lossy).word, routes(lossy).untested) == ("equivalent", None), "the routers were what limited it"
    behind = [route_record_with_loss(each, inside=False) for each in measured(0.0, 0.005)]
    assert "may be the source's or the link's" in routes(behind).untested, "the link behind them limits what comes"
    hiccup = measured(0.0, 0.005)
    hiccup[0] = route_record_with_loss(hiccup[0])
    assert routes(hiccup).untested is not None, "one trial that lost something does not make a point"
    base = [route_record_with_loss(each) if each.requested.routes else each for each in measured(0.0, 0.005)]
    assert routes(base).untested.startswith("at one of the two points the routers lost no packets"), (
        "how much more would have gone through without routes, nobody knows"
    )
    undeclared = [declared(each, None) for each in measured(0.05, 0.005)]
    assert (routes(undeclared).word, routes(undeclared).untested) == ("inconclusive", "no margin is declared")


def route_record_with_loss(record: RouteRecord, *, inside: bool = True) -> RouteRecord:
    """As if a hundredth of what was sent had been lost in the router, or behind it."""
    counted = ("sent_packets", "to_packets") if inside else ("sent_packets", "to_packets", "from_packets")
    came = round((record.in_packets or 0) * 1.01)
    routers = tuple(
        each.model_copy(update={name: round((getattr(each, name) or 0) * 1.01) for name in counted})
        for each in record.routers
    )
    return record.model_copy(update={"routers": routers, "in_packets": came})


def test_a_machine_that_takes_too_little_loses_in_the_unit_under_test_though_its_interface_counts_what_it_took() -> (
    None
):
    record = route_record([200])
    assert lost_inside_ratio(record) == 0
    full = record.model_copy(update={"in_packets": 2 * (record.in_packets or 0)})
    assert lost_inside_ratio(full) == 0.5
    assert lost_inside_ratio(record.model_copy(update={"in_packets": None})) is None


def test_trials_left_out_by_what_they_came_to_leave_no_equivalence() -> None:
    records = measured(0.05, 0.005)
    place = next(n for n, each in enumerate(records) if each.requested.routes)
    short = Verdict(status="suspect", reasons=(Reason(code="offered_short", detail="d"),))
    records[place] = records[place].model_copy(update={"verdict": short})
    (routes,) = [each for each in summarize_routes(records).compared if each.what == "routes"]
    assert routes.effect.blocks == 9 and routes.equivalent_p is None
    assert routes.untested == "1 trial left out by offered_short"


def test_a_mean_says_which_of_its_points_never_came_to_a_valid_trial() -> None:
    void = Verdict(status="invalid", reasons=(Reason(code="routes_missing", detail="d"),))
    records = [
        each.model_copy(update={"verdict": void}) if each.requested.routes and each.requested.filters else each
        for each in crossed(0.004)
    ]
    pooled = [each for each in summarize_routes(records).compared if len(each.pairs) == 2]
    assert {each.effect.absent for each in pooled} == {"nothing valid with 100000 routes, 20 filter rules"}


def test_counts_move_in_steps_of_a_packet() -> None:
    """Seven blocks with one packet more, and three with none, prove nothing."""
    records = [
        declared(route_record([200 + (block <= 7 and routes > 0)], routes=routes, block=block))
        for block in range(1, 11)
        for routes in (0, 1000)
    ]
    (claim,) = summarize_routes(records).compared
    packets = 200 * 20
    assert claim.effect.sd_log == pytest.approx(max(2**0.5 / packets, claim.effect.sd_log or 0.0))
    assert summarize_routes([declared(route_record([200], routes=r, block=b)) for b in range(1, 5) for r in (0, 1000)])


@pytest.mark.parametrize("truth", [1.0, 1.02])
def test_reports_of_no_change_and_of_one_as_large_as_the_margin_are_seldom_wrong(truth: float) -> None:
    wrong = 0
    for seed in range(60):
        draw = random.Random(seed)
        records = []
        for block in range(1, 9):
            for routes in (0, 100_000):
                each = round(400_000 * (truth if routes else 1.0) * (1 + 0.006 * draw.gauss(0, 1)))
                records.append(route_record_with_loss(declared(route_record([each], routes=routes, block=block))))
        (claim,) = summarize_routes(records).compared
        wrong += claim.word.startswith("different") if truth == 1.0 else "equivalent" in claim.word
    assert wrong <= 8  # of 60 at 5 %: more than 8 is one in 300


def test_means_over_a_factor_say_how_many_destinations_they_are_of() -> None:
    def to(destinations: int) -> list[RouteRecord]:
        found = []
        for each in crossed(0.02):
            requested = each.requested.model_copy(update={"destinations": destinations})
            plan = each.plan.model_copy(update={"hash": f"{each.plan.hash}-{destinations}"})
            found.append(each.model_copy(update={"requested": requested, "plan": plan}))
        return found

    summary = summarize_routes([*to(1), *to(4096)])
    said = [summary.describe_claim(each) for each in summary.compared if len(each.pairs) == 2]
    assert len(said) == 4
    assert [", 4096 destinations against " in each for each in said] == [False, True, False, True]


def test_a_block_that_lacks_a_point_enters_no_mean_over_a_factor() -> None:
    summary = summarize_routes(crossed(0.02, whole=9))
    assert [each.effect.blocks for each in summary.compared if each.what == "routes"] == [12, 9, 9]


def test_a_measurement_that_is_too_coarse_claims_no_equivalence() -> None:
    summary = summarize_routes([route_record_with_loss(each) for each in measured(0.0, 0.05)])
    assert {each.word for each in summary.compared} == {"inconclusive"}
    assert {each.untested for each in summary.compared} == {None}


def test_a_fall_through_more_routers_is_found() -> None:
    records = [
        route_record([each] * guests, block=block)
        for block in range(1, 6)
        for guests, each in ((1, 1000 + block), (4, 175 + block))
    ]
    (claim,) = summarize_routes(records).compared
    assert (claim.what, claim.word) == ("guests", "different")
    assert claim.effect.change == pytest.approx(-0.29, abs=0.02)


def test_processors_are_read_between_two_times() -> None:
    before = "cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 1 1 1\ncpu1 1 1 1 1\nctxt 1000\n"
    after = "cpu  200 0 100 850 50 0 0 0 0 0\ncpu0 1 1 1 1\ncpu1 1 1 1 1\nctxt 3000\n"
    switches_per_s, busy_ratio = derive_processor_use(before, after)
    assert busy_ratio == pytest.approx(0.75)
    assert switches_per_s == pytest.approx(2000.0)
    assert derive_processor_use(after, before) == (None, None)
    assert derive_processor_use("", after) == (None, None)


def test_reports_draw_the_sum_over_routes_and_over_routers_and_list_every_router() -> None:
    records = [
        route_record([each] * guests, routes=routes, block=block)
        for block in range(1, 4)
        for routes in (0, 1000)
        for guests, each in ((1, 1000 + block), (4, 175 + block))
    ]
    found = {figure.name: figure for figure in build_kind_figures("route", records)}
    over_routes, over_routers = found["mattos-routes"], found["mattos-4b"]
    assert [panel.title for panel in over_routes.panels] == ["container, 1 router", "container, 4 routers"]
    assert [mark.x for mark in over_routes.panels[0].curves[0].marks] == [0.0, 1000.0]
    (panel,) = over_routers.panels
    labels = ["0 routes, max", "1000 routes, max"]
    assert [curve.label for curve in panel.curves] == [*labels, *(f"{label}: sent" for label in labels)]
    assert [mark.y for mark in panel.curves[0].marks] == [pytest.approx(10.02), pytest.approx(7.08)]
    lines = "\n".join(TEXT.summary_lines(TEXT.summarize(records)))
    assert "4 routers against 1, 0 routes, max" in lines
    assert "g4: 1\u2009770" in lines


def test_a_curve_of_one_panel_is_a_point_where_another_has_one_value_and_is_not_where_it_has_none() -> None:
    records = [route_record([1000] * guests, routes=routes) for guests, routes in ((1, 0), (2, 0), (2, 1000))]
    records += [route_record([900], routes=0, filters=20)]
    (one, two) = next(each for each in build_kind_figures("route", records) if each.name == "mattos-routes").panels
    assert (one.title, two.title) == ("container, 1 router", "container, 2 routers")
    assert [[mark.x for mark in curve.marks] for curve in one.curves] == [[0.0]], "rules are nowhere drawn over routes"
    assert [[mark.x for mark in curve.marks] for curve in two.curves] == [[0.0, 1000.0]]
    assert not [each for each in build_kind_figures("route", records[:2]) if each.name == "mattos-routes"]


@pytest.mark.parametrize("name", ["local-route-cost", "mattos-route"])
def test_shipped_plans_have_a_cost_that_is_to_be_found_beside_routes_that_cost_nothing(name: str) -> None:
    plan = load_plan(ROOT / "plans" / f"{name}.yaml")
    assert plan.guests is not None and plan.margin_ratio == 0.02
    by_rest: dict[Any, set[tuple[int, int]]] = {}
    for point in plan.guests.points:
        rest = (point.platform, point.guests, point.target, point.destinations)
        by_rest.setdefault(rest, set()).add((point.routes, point.filters))
    for crossed in by_rest.values():
        routes, filters = ({each[place] for each in crossed} for place in (0, 1))
        assert {0, 100_000} <= routes and filters == {0, 20} and len(crossed) == 2 * len(routes)
