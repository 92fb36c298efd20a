"""What a report needs of the records beyond the columns of a list of runs. Pure; takes one record at a time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from labconsole.measure.comparison import VOLATILE
from labconsole.measure.drop_causes import find_off_path_drops, is_kernels, lower_bounds
from labconsole.measure.groups import SIDES, WHY
from labconsole.measure.processor_time import ProcessorTime, processor_time, read_work
from labconsole.measure.statistics.repetitions import jain_index
from labconsole.model.design_point import INCLUDES_FCS, FrameSize
from labconsole.model.record.run import Requested, RunRecord, StreamRecord
from labconsole.model.tolerances import Tolerances
from labconsole.report.formatting import format_noun_count
from labconsole.report.points import RunFacts, list_kernel_probes, read_packet_delays
from labconsole.report.sample import PlanFacts
from labconsole.units import format_rate_bps

# -- fact history ------------------------------------------------------------------------------------------------------
# Facts that successive runs report of one thing such as a node: the newest and the earlier ones.

VALUES_KEPT: Final = 6
"""Most values kept of a fact that differs from run to run."""

_NOTHING: Final = object()


@dataclass(slots=True)
class FactHistory:
    """Facts about one thing: the newest values, and also the earlier ones of those that differed among runs."""

    newest: dict[str, Any] = field(default_factory=dict)
    seen: dict[str, list[Any]] = field(default_factory=dict)
    told: frozenset[str] = frozenset()
    """The facts in the newest whole reading; the state of the others at that time is unknown."""

    def add(self, values: Mapping[str, Any]) -> None:
        """Add a newer reading."""
        for name, value in values.items():
            newest = self.newest.get(name, _NOTHING)
            if newest == value:
                continue
            self.newest[name] = value
            if name in VOLATILE:
                continue
            kept = self.seen.setdefault(name, [])
            if value not in kept and len(kept) < VALUES_KEPT:
                kept.append(value)

    def add_whole(self, values: Mapping[str, Any]) -> None:
        """Add a newer reading of everything."""
        self.add(values)
        self.told = frozenset(values)

    def values(self, name: str) -> list[Any]:
        """All values kept of a known fact, with the newest."""
        kept, newest = self.seen.get(name, []), self.newest[name]
        return kept if newest in kept else [*kept, newest]

    def changed(self) -> dict[str, list[Any]]:
        """Facts that were not the same in all runs."""
        return {name: values for name, values in self.seen.items() if len(values) > 1}


# -- kernel drops ------------------------------------------------------------------------------------------------------
# Reasons that the kernel of the unit under test gave for dropped packets, in all runs of a report.


@dataclass(slots=True)
class DropCount:
    """Packets of one reason at one hop, with the number of runs; ``partly_counted_runs`` of them may have more."""

    packets: int = 0
    run_ids: list[str] = field(default_factory=list)
    partly_counted_runs: int = 0


class KernelDropCounts:
    """``found``: by platform, interface (``uut/eth2``) and the kernel's word in the ledger. ``off_path``: the same for
    packets dropped off every stream's path, by the interface at which they were dropped.
    """

    def __init__(self) -> None:
        self.found: dict[tuple[str, str, str], DropCount] = {}
        self.off_path: dict[tuple[str, str, str], DropCount] = {}

    def add(self, record: Mapping[str, Any]) -> None:
        """Add one record."""
        background_streams = (record["background"] or {}).get("streams") or []
        for stream in (*record["streams"], *background_streams):
            for hop in stream["ledger"]:
                for label, packets in (hop.get("drops") or {}).items():
                    if is_kernels(label):
                        _add(self.found, record, f"{hop['node']}/{hop['interface']}", label, packets)
        for row in find_off_path_drops(record.get("extensions") or {}):
            _add(self.off_path, record, row.place, row.label, row.packets)


def _add(
    found: dict[tuple[str, str, str], DropCount], record: Mapping[str, Any], place: str, label: str, packets: int
) -> None:
    kept = found.setdefault((record["requested"]["platform"], place, label), DropCount())
    kept.packets += packets
    if record["run_id"] not in kept.run_ids:
        kept.run_ids.append(record["run_id"])
        kept.partly_counted_runs += lower_bounds(record.get("extensions") or {})


# -- telemetry trials --------------------------------------------------------------------------------------------------
# Telemetry trials as reported: what packets cost the unit under test's processors, and why some were dropped.
#
# They enter no mean. Pure.


@dataclass(frozen=True, slots=True)
class TelemetryTrial:
    """``rate_pps``: forwarded, without a second guest's own streams. ``doubts``: the codes of its verdict.
    ``processes``: the busiest, by name, with their time. ``drops``: the kernel's words for what the unit under test
    dropped, the commonest first.
    """

    run_id: str
    requested: Requested
    doubts: tuple[str, ...]
    rate_pps: float | None
    time: ProcessorTime
    processes: tuple[tuple[str, int], ...]
    drops: tuple[tuple[str, int], ...]


def read_telemetry_trials(record: Mapping[str, Any]) -> list[TelemetryTrial]:
    """One trial, or none if the record reports nothing. Raises ValueError for something that is not a record."""
    run = RunRecord.model_validate_json(json.dumps(record), strict=True)
    work, time = read_work(run), processor_time(run)
    if run.verdict.status == "invalid" or work is None or time is None:
        return []
    used: Counter[str] = Counter()
    for each in work.processes:
        used[clean_name(each.name)] += each.cpu_ns
    total = run.total
    rate_pps = total.measured_pps if total.forwarding_pps is None else total.forwarding_pps
    doubts = tuple(reason.code for reason in run.verdict.reasons)
    return [TelemetryTrial(run.run_id, run.requested, doubts, rate_pps, time, tuple(used.most_common()), _drops(run))]


def _drops(run: RunRecord) -> tuple[tuple[str, int], ...]:
    second: tuple[StreamRecord, ...] = run.background.streams if run.background is not None else ()
    found: Counter[str] = Counter()
    for stream in (*run.streams, *second):
        for hop in stream.ledger:
            found.update({name: packets for name, packets in hop.drops.items() if is_kernels(name)})
    return tuple((clean_name(name), packets) for name, packets in found.most_common())


def clean_name(name: str) -> str:
    """A node's word without characters that a table in any format would interpret."""
    return " ".join("".join("·" if char in "|\\<>`" else char for char in name).split())


# -- tolerances used ---------------------------------------------------------------------------------------------------
# Tolerances used to judge trials, if not the defaults: a reader takes "valid" for the default word.

MOST = 1e15
NonDefaultTolerances = tuple[tuple[str, str], ...]
"""Non-default tolerances of one trial: names and values, by name; empty if there are none."""


def find_non_default_tolerances(tolerances: Mapping[str, Any]) -> NonDefaultTolerances:
    """Tolerances that a plan changed; names that this version does not know are left out."""
    usual = Tolerances().model_dump()
    return tuple(
        (name, _format_value(value))
        for name, value in sorted(tolerances.items())
        if name in usual and value != usual[name]
    )


def _format_value(value: Any) -> str:
    usable = type(value) in (int, float) and abs(value) <= MOST
    return f"{value:.10g}" if usable else "no usable number"


def describe_tolerances(trials: Iterable[NonDefaultTolerances]) -> list[str]:
    """A sentence on them; trials with the same tolerances are counted together. ``trials``: all that are reported."""
    usual = Tolerances().model_dump()
    judgements = []
    for alike, many in sorted(Counter(filter(None, trials)).items(), key=lambda each: (-each[1], each[0])):
        values = ", ".join(f"{name} {value} instead of {_format_value(usual[name])}" for name, value in alike)
        judgements.append(f"{format_noun_count(many, 'trial')} by {values}")
    return [f"Judged by other tolerances than the usual: {'; '.join(judgements)}."] if judgements else []


# -- digest ------------------------------------------------------------------------------------------------------------
# Records are plain JSON, oldest first, and are not kept: memory grows with the findings, not with the number of runs.
# The caller turns a missing part of a record (KeyError, TypeError) into an error that names the run.

BEFORE_UUT = ("uut_in",)
BEFORE_GUEST = ("uut_in", "to_guest", "guest_in")
"""Hops of the ledger where loss happens before the guest sees the packet."""

GUEST_HOPS = frozenset({"to_guest", "guest_in", "guest_out", "from_guest"})

MIN_REPORTED_LOSS_RATIO = 0.001
"""As a share of offered packets; a smaller loss is not attributed to a hop."""

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One run that supports a finding: its request, a sentence, and the figure that the finding reports."""

    run_id: str
    asked: str
    load: str
    detail: str = ""
    value: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludedRun:
    """A run that enters no mean, with the reasons: codes with their sentences."""

    run_id: str
    asked: str
    reasons: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Influence:
    """Entries of one kind at one node: the number of runs, and the newest sentence."""

    runs: int = 0
    detail: str = ""


@dataclass(slots=True)
class Load:
    """Background load of one kind on one platform: requested and achieved, run by run."""

    guests: Counter[str] = field(default_factory=Counter)
    run_ids: list[str] = field(default_factory=list)
    requested: dict[str, list[float]] = field(default_factory=dict)
    achieved: dict[str, list[float]] = field(default_factory=dict)


def _format_target(requested: Json) -> str:
    target, size_bytes = requested["target_bps"], requested["frame_size_bytes"]
    if size_bytes is not None:
        target = FrameSize(size_bytes, requested[INCLUDES_FCS]).wish(target)
    return target if isinstance(target, str) else format_rate_bps(target)


def format_request(record: Json) -> tuple[str, str]:
    """The request as findings name it: platform and frame size, and the means of measurement."""
    requested = record["requested"]
    size = _format_size(requested) + (" with FCS" if requested[INCLUDES_FCS] else "")
    background = "" if requested["background"] == "none" else f", background {requested['background']}"
    load = _format_target(requested)
    return f"{requested['platform']}, {size}", f"{requested['sources']} × {load}{background}"


def _format_size(requested: Json) -> str:
    size = requested["frame_size_bytes"]
    return "mixed sizes" if size is None else f"{size} B"


LEFT_UNCHANGED = "left as it was found"
"""Flow control for which no platform requested anything."""


class Digest:
    """``add`` takes the records, oldest first; the fields collect what they contain.

    ``entering``: ids of the runs that enter a mean. The others only give the reason why not (``why``, a key of WHY by
    run id): an aborted run has unequal streams, and that says nothing about a platform.
    """

    def __init__(self, entering: Collection[str], why: Mapping[str, str] | None = None) -> None:
        self._entering = entering
        self._why = why or {}
        self.runs = 0
        self.emulated = False
        self.first = self.last = ""
        self.said: dict[str, Counter[str]] = {}
        self.plans: dict[str, tuple[str, Counter[int]]] = {}
        self.doubts: dict[str, Evidence] = {}
        self.left_out: list[ExcludedRun] = []
        self.unreadable: list[str] = []
        self.missed: list[Evidence] = []
        self.short: list[Evidence] = []
        self.throttled: list[Evidence] = []
        self.before_guest: list[Evidence] = []
        self.before_uut: list[Evidence] = []
        self.beside: dict[str, list[Evidence]] = {}
        self.facts: dict[str, RunFacts] = {}
        self.planned: dict[tuple[str, str], PlanFacts] = {}
        self.loads: dict[tuple[str, str], Load] = {}
        self.influences: dict[tuple[str, str], Influence] = {}
        self.nodes: dict[str, FactHistory] = {}
        self.settings: dict[str, FactHistory] = {}
        self.platforms: dict[str, FactHistory] = {}
        self.paths: dict[tuple[str, str], str] = {}
        self.unusual: list[NonDefaultTolerances] = []
        self.telemetry: list[TelemetryTrial] = []
        self.untold_telemetry = 0
        self.dropped = KernelDropCounts()

    def add(self, record: Json) -> None:
        """Add one record."""
        self.runs += 1
        self.emulated = self.emulated or record["emulated"]
        self.first = min(self.first or record["started_at"], record["started_at"])
        self.last = max(self.last, record["finished_at"])
        self.unusual.append(find_non_default_tolerances((record.get("in_force") or {}).get("tolerances", {})))
        self._choices(record)
        self._surroundings(record)
        request, load = format_request(record)
        shows = partial(Evidence, run_id=record["run_id"], asked=request, load=load)
        reasons = record["verdict"]["reasons"]
        for each in reasons:
            if each["code"] == "background_missed":
                self.missed.append(shows(detail=each["detail"]))
        if record.get("role") == "telemetry":
            trials = read_telemetry_trials(record)
            self.telemetry += trials
            self.untold_telemetry += not trials
            if trials:
                self.dropped.add(record)
        if record["run_id"] not in self._entering:
            self._add_exclusion(record, shows, f"{request}, {load}")
            return
        self._reasons(shows, reasons)
        self._streams(record, shows)
        self.dropped.add(record)
        self.facts[record["run_id"]] = build_run_facts(record)
        if record["background"] is not None:
            self._background(record, record["background"])

    def _add_exclusion(self, record: Json, shows: partial[Evidence], request: str) -> None:
        reasons = record["verdict"]["reasons"]
        why = self._why.get(record["run_id"], "invalid")
        details = tuple((each["code"], each["detail"]) for each in reasons if why in ("invalid", each["code"]))
        if why in SIDES:
            detail = next((each["detail"] for each in reasons if each["code"] == why), "")
            self.beside.setdefault(why, []).append(shows(detail=detail))
        if why == "telemetry":
            return  # has a table of its own
        self.left_out.append(
            ExcludedRun(run_id=record["run_id"], asked=request, reasons=details or ((why, WHY.get(why, why)),))
        )

    def _say(self, what: str, word: object, times: int = 1) -> None:
        self.said.setdefault(what, Counter())[str(word)] += times

    def _choices(self, record: Json) -> None:
        requested, plan = record["requested"], record["plan"]
        for name in ("testbed", "testbed_fingerprint", "operator", "labconsole_version"):
            self._say(name, record[name])
        for name in ("platform", INCLUDES_FCS, "background", "observe", "generator", "sources"):
            self._say(name, requested[name])
        self._say("size", _format_size(requested))
        self._say("duration", f"{requested['duration_s']:g} s")
        self._say("target", _format_target(requested))
        if plan is not None and record.get("role") != "telemetry":
            self.plans.setdefault(plan["hash"], (plan["name"], Counter()))[1][plan["seed"]] += 1
            key, set_ups = (plan["hash"], record["testbed_fingerprint"]), plan.get("set_ups")
            before = self.planned.get(key)
            first = None if before is None else before.first_set_ups
            self.planned[key] = PlanFacts(
                name=plan["name"],
                set_ups=set_ups,
                repetitions=plan.get("repetitions"),
                first_set_ups=set_ups if first is None else first,
            )
        elif plan is None:
            self._say("without a plan", "runs")
        for stream in record["streams"]:
            self._say("witness", stream["measured_from"] or "neither")
            self._say("sender", f"{stream['generator']} {stream['generator_version'] or ''}".strip())

    def _surroundings(self, record: Json) -> None:
        entries = dict.fromkeys(  # each once, in the record's order: the last stays as the newest
            (str(entry.get("kind", "note")), str(entry.get("node") or "console"), str(entry.get("detail") or ""))
            for entry in record["influences"]
        )
        for kind, node, detail in entries:
            influence = self.influences.setdefault((kind, node), Influence())
            influence.runs, influence.detail = influence.runs + 1, detail
        environment = record["environment"]
        self.add_nodes(environment.get("nodes") or {})
        attested = environment.get("platform")
        if isinstance(attested, dict):
            name = record["requested"]["platform"] + (", with a second guest" if record["background"] else "")
            self.platforms.setdefault(name, FactHistory()).add(attested)
        self._say("flow control", _flow_control(attested))
        calibration = environment.get("calibration")
        if isinstance(calibration, dict):
            self._say("calibration", f"{calibration.get('id')} of {calibration.get('finished_at')}")
        else:
            self._say("calibration", "none")

    def add_nodes(self, nodes: Json) -> None:
        """Add what a record says of its nodes, even if it is not a run or is otherwise excluded."""
        for name, said in nodes.items():
            if isinstance(said, dict):
                facts = self.nodes.setdefault(name, FactHistory())
                facts.add(said.get("facts") or {})
                facts.add({key: value for key, value in said.items() if key not in ("facts", "settings")})
                settings = said["settings"] if isinstance(said.get("settings"), dict) else {}
                if settings or name in self.settings:
                    self.settings.setdefault(name, FactHistory()).add_whole(settings)

    def _reasons(self, shows: partial[Evidence], reasons: list[Json]) -> None:
        for each in reasons:
            self.doubts[each["code"]] = shows(detail=each["detail"])
        same = [each for each in reasons if each["code"] == "offered_short"]
        if same:
            found = self.throttled if any(map(_is_caused_by_flow_control, same)) else self.short
            found.append(shows(detail=same[0]["detail"]))

    def _streams(self, record: Json, shows: partial[Evidence]) -> None:
        streams = record["streams"]
        for stream in streams:
            self._path(record["requested"]["platform"], stream)
        lost = sum(stream["loss_packets"] or 0 for stream in streams)
        sent = sum(stream["offered_packets"] or 0 for stream in streams)
        if lost <= 0 or lost < MIN_REPORTED_LOSS_RATIO * sent:
            return
        hops = [hop for stream in streams for hop in stream["ledger"]]
        guest = any(hop["hop"] in GUEST_HOPS for hop in hops)
        early = sum(hop["lost_packets"] or 0 for hop in hops if hop["hop"] in (BEFORE_GUEST if guest else BEFORE_UUT))
        if early > lost / 2:
            found = self.before_guest if guest else self.before_uut
            found.append(shows(value=early / lost))

    def _path(self, platform: str, stream: Json) -> None:
        key = (platform, stream["name"])
        if key not in self.paths and stream["ledger"]:
            ports = [f"{hop['node']}/{hop['interface']}" for hop in stream["ledger"] if hop["hop"] != "capture"]
            self.paths[key] = " → ".join(dict.fromkeys(ports))

    def _background(self, record: Json, background: Json) -> None:
        load = self.loads.setdefault((record["requested"]["platform"], background["kind"]), Load())
        load.run_ids.append(record["run_id"])
        cpus = background["cpus"]
        load.guests[f"{background['guest'] or 'no guest'}, {f'CPU {cpus}' if cpus else 'not pinned'}"] += 1
        for name in ("requested", "achieved"):
            values = getattr(load, name)
            for quantity, value in background[name].items():
                if value is not None:
                    values.setdefault(quantity, []).append(float(value))


EQUAL_OFFER_JAIN = 0.95
"""Jain's index of what the streams were offered; from here on their shares of the output are compared."""


def build_run_facts(record: Json) -> RunFacts:
    """Extract from one record what conclusions need."""
    plan, streams = record["plan"] or {}, record["streams"]
    fixed = plan.get("fixed")
    background_streams = (record["background"] or {}).get("streams") or []
    second = tuple(_sum([stream[name] for stream in background_streams]) for name in ("offered_bps", "measured_bps"))
    claims = plan.get("claims")
    return RunFacts(
        fixed=fixed is not None,
        maximum_target_bps=None if fixed is None else fixed["maximum_target_bps"],
        margin_ratio=plan.get("margin_ratio"),
        claims=None if claims is None else tuple(claims),
        shares=_shares(streams),
        second_bps=None if not background_streams or None in second else second,  # type: ignore[arg-type]
        second_packets=sum(stream["measured_packets"] or 0 for stream in background_streams) or None,
        one_way_ns=_delays(streams, "one_way_ns"),
        pdv_ns=_delays(streams, "pdv_ns"),
        witnesses=tuple(sorted({stream["measured_from"] or "neither" for stream in streams})),
        place=_place(plan),
        packet_delays=read_packet_delays(streams),
        delays_since_due=read_packet_delays(streams, since_due=True),
        kernels_asked=list_kernel_probes(record),
    )


def _place(plan: Json) -> tuple[int, str | None, int, int | None] | None:
    position = plan.get("position") if plan.get("block") else None
    return None if position is None else (plan["seed"], plan.get("order"), position, plan.get("repetitions"))


def _shares(streams: list[Json]) -> dict[str, float] | None:
    """Each stream's share of the forwarded packets, or None if there is one stream or their offered loads differ."""
    if len(streams) < 2:
        return None
    offered = [stream["offered_pps"] for stream in streams]
    rates = [_rate(stream) for stream in streams]
    if None in offered or None in rates or not any(rates) or (jain_index(offered) or 0.0) < EQUAL_OFFER_JAIN:
        return None
    total = sum(rate or 0.0 for rate in rates)
    return {stream["name"]: (rate or 0.0) / total for stream, rate in zip(streams, rates, strict=True)}


def _rate(stream: Json) -> float | None:
    known = stream.get("forwarding_pps")
    rate: float | None = stream["measured_pps"] if known is None else known
    return rate


def _delays(streams: list[Json], kind: str) -> tuple[float, float] | None:
    """p50 and p99, averaged over the streams, or None if one of them does not report its delay."""
    delays = [(stream.get("delay") or {}).get(kind) for stream in streams]
    if not delays or None in delays:
        return None
    p50, p99 = (sum(each[name] for each in delays if each) / len(delays) for name in ("p50", "p99"))
    return p50, p99


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _is_caused_by_flow_control(reason: Json) -> bool:
    """Judge by the verdict's evidence, not by its text."""
    evidence = reason.get("evidence") or {}
    places = evidence.get("places")  # of a reason that was seen at several places
    return any(
        isinstance(cause, dict) and cause.get("cause") == "flow_control"
        for place in (places if isinstance(places, list) else [evidence])
        if isinstance(place, dict) and isinstance(place.get("causes"), list)
        for cause in place["causes"]
    )


def _flow_control(attested: object) -> str:
    """The effect of a platform's option on flow control (platforms/base/driver_wrapper.py)."""
    nics = attested.get("flow_control") if isinstance(attested, dict) else None
    if not isinstance(nics, dict) or not nics:
        return LEFT_UNCHANGED
    on = any(isinstance(nic, dict) and nic.get("rx") for nic in nics.values())
    return f"{'on' if on else 'off'} at the unit under test, as its platform asks"
