"""What a report needs of the records beyond the columns of a list of runs. Pure; one record after the other.

Records come as plain JSON, oldest first, and are let go of again: so memory grows with what is found, not with the
number of runs. Who feeds the digest turns what is missing in a record (KeyError, TypeError) into an error that names
the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from labconsole.measure.comparison import VOLATILE
from labconsole.measure.statistics import jain_index
from labconsole.report.evaluation import SecondGuestRun
from labconsole.units import format_rate_bps

BEFORE_UUT = ("uut_in",)
BEFORE_GUEST = ("uut_in", "to_guest", "guest_in")
"""Hops of the ledger up to which loss happened before the guest saw the packet."""

GUEST_HOPS = frozenset({"to_guest", "guest_in", "guest_out", "from_guest"})

WORTH_TELLING_RATIO = 0.001
"""Of what was offered; whose loss is below that needs no place."""

VALUES_KEPT = 6
"""Of a fact that differs from run to run."""

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One run that shows something: what was asked of it, a sentence, and the figure that a finding tells of."""

    run_id: str
    asked: str
    load: str
    detail: str = ""
    value: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A run that enters no mean, and why: codes with their sentences."""

    run_id: str
    asked: str
    reasons: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Influence:
    """Entries of one kind at one node: in how many runs, and the newest sentence."""

    runs: int = 0
    detail: str = ""


@dataclass(slots=True)
class Load:
    """Background load of one kind on one platform: what was asked for and reached, run by run."""

    guests: Counter[str] = field(default_factory=Counter)
    run_ids: list[str] = field(default_factory=list)
    requested: dict[str, list[float]] = field(default_factory=dict)
    achieved: dict[str, list[float]] = field(default_factory=dict)


@dataclass(slots=True)
class Facts:
    """What was found about one thing: the newest values, and for what differed among runs the earlier ones too."""

    newest: dict[str, Any] = field(default_factory=dict)
    seen: dict[str, list[Any]] = field(default_factory=dict)

    def add(self, values: Json) -> None:
        """Take a newer reading."""
        for name, value in values.items():
            held = self.newest.get(name, _NOTHING)
            if held == value:
                continue
            self.newest[name] = value
            if name in VOLATILE:
                continue
            kept = self.seen.setdefault(name, [])
            if value not in kept and len(kept) < VALUES_KEPT:
                kept.append(value)

    def changed(self) -> dict[str, list[Any]]:
        """Facts that were not the same in all runs."""
        return {name: values for name, values in self.seen.items() if len(values) > 1}


_NOTHING = object()


def asked_words(record: Json) -> tuple[str, str]:
    """What was asked for, as findings name it: platform and frame size, and what they were measured with."""
    asked = record["requested"]
    size = f"{asked['frame_size_bytes']} B" + (" with FCS" if asked["frame_size_includes_fcs"] else "")
    beside = "" if asked["background"] == "none" else f" beside {asked['background']}"
    target = asked["target_bps"]
    load = "max" if target == "max" else format_rate_bps(target)
    return f"{asked['platform']}, {size}", f"{asked['sources']} × {load}{beside}"


class Digest:
    """``add`` takes the records, oldest first; the fields hold what was seen in them.

    ``entering``: ids of the runs that enter a mean. The others only say why they do not: an aborted run has unequal
    streams, and that says nothing of a platform.
    """

    def __init__(self, entering: Collection[str]) -> None:
        self._entering = entering
        self.runs = 0
        self.emulated = False
        self.first = self.last = ""
        self.said: dict[str, Counter[str]] = {}
        self.plans: dict[str, tuple[str, Counter[int]]] = {}
        self.doubts: dict[str, Evidence] = {}
        self.left_out: list[LeftOut] = []
        self.missed: list[Evidence] = []
        self.short: list[Evidence] = []
        self.throttled: list[Evidence] = []
        self.unequal: list[Evidence] = []
        self.before_guest: list[Evidence] = []
        self.before_uut: list[Evidence] = []
        self.limited: list[Evidence] = []
        self.second: list[SecondGuestRun] = []
        self.loads: dict[tuple[str, str], Load] = {}
        self.influences: dict[tuple[str, str], Influence] = {}
        self.nodes: dict[str, Facts] = {}
        self.platforms: dict[str, Facts] = {}
        self.paths: dict[tuple[str, str], str] = {}

    def add(self, record: Json) -> None:
        """Take one record."""
        self.runs += 1
        self.emulated = self.emulated or record["emulated"]
        self.first = min(self.first or record["started_at"], record["started_at"])
        self.last = max(self.last, record["finished_at"])
        self._choices(record)
        self._surroundings(record)
        asked, load = asked_words(record)
        shows = partial(Evidence, run_id=record["run_id"], asked=asked, load=load)
        reasons = record["verdict"]["reasons"]
        for each in reasons:
            if each["code"] == "background_missed":
                self.missed.append(shows(detail=each["detail"]))
        if record["run_id"] not in self._entering:
            words = tuple((each["code"], each["detail"]) for each in reasons) or (("no_rate", "a rate is not known"),)
            self.left_out.append(LeftOut(run_id=record["run_id"], asked=f"{asked}, {load}", reasons=words))
            return
        self._reasons(shows, reasons)
        self._streams(record, shows)
        if record["background"] is not None:
            self._background(record, record["background"])

    def _say(self, what: str, word: object, times: int = 1) -> None:
        self.said.setdefault(what, Counter())[str(word)] += times

    def _choices(self, record: Json) -> None:
        asked, plan = record["requested"], record["plan"]
        for name in ("testbed", "testbed_fingerprint", "operator", "labconsole_version"):
            self._say(name, record[name])
        for name in ("platform", "frame_size_includes_fcs", "background", "observe", "generator", "sources"):
            self._say(name, asked[name])
        self._say("size", f"{asked['frame_size_bytes']} B")
        self._say("duration", f"{asked['duration_s']:g} s")
        target = asked["target_bps"]
        self._say("target", target if target == "max" else format_rate_bps(target))
        if plan is not None:
            self.plans.setdefault(plan["hash"], (plan["name"], Counter()))[1][plan["seed"]] += 1
        else:
            self._say("without a plan", "runs")
        for stream in record["streams"]:
            self._say("witness", stream["measured_from"] or "neither")
            self._say("sender", f"{stream['generator']} {stream['generator_version'] or ''}".strip())

    def _surroundings(self, record: Json) -> None:
        for kind, node, detail in {
            (str(entry.get("kind", "note")), str(entry.get("node") or "console"), str(entry.get("detail") or ""))
            for entry in record["influences"]
        }:
            held = self.influences.setdefault((kind, node), Influence())
            held.runs, held.detail = held.runs + 1, detail
        environment = record["environment"]
        for name, said in (environment.get("nodes") or {}).items():
            if isinstance(said, dict):
                facts = self.nodes.setdefault(name, Facts())
                facts.add(said.get("facts") or {})
                facts.add({key: value for key, value in said.items() if key != "facts"})
        attested = environment.get("platform")
        if isinstance(attested, dict):
            name = record["requested"]["platform"] + (", with a second guest" if record["background"] else "")
            self.platforms.setdefault(name, Facts()).add(attested)
        calibration = environment.get("calibration")
        if isinstance(calibration, dict):
            self._say("calibration", f"{calibration.get('id')} of {calibration.get('finished_at')}")
        else:
            self._say("calibration", "none")

    def _reasons(self, shows: partial[Evidence], reasons: list[Json]) -> None:
        for each in reasons:
            self.doubts[each["code"]] = shows(detail=each["detail"])
        for code, found in (("offered_short", None), ("instrument_limited", self.limited)):
            same = [each for each in reasons if each["code"] == code]
            if not same:
                continue
            evidence = shows(detail=same[0]["detail"])
            if found is not None:
                found.append(evidence)
            else:
                (self.throttled if any(map(_by_flow_control, same)) else self.short).append(evidence)

    def _streams(self, record: Json, shows: partial[Evidence]) -> None:
        streams = record["streams"]
        offered = [stream["offered_pps"] for stream in streams]
        measured = [stream["measured_pps"] for stream in streams]
        if len(streams) > 1 and None not in offered and None not in measured and any(measured):
            index, given = jain_index(measured), jain_index(offered)
            if index is not None and index < UNEQUAL_BELOW <= (given or 0.0):
                self.unequal.append(shows(value=index))
        for stream in streams:
            self._path(record["requested"]["platform"], stream)
        lost = sum(stream["loss_packets"] or 0 for stream in streams)
        sent = sum(stream["offered_packets"] or 0 for stream in streams)
        if lost <= 0 or lost < WORTH_TELLING_RATIO * sent:
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
            held = getattr(load, name)
            for quantity, value in background[name].items():
                if value is not None:
                    held.setdefault(quantity, []).append(float(value))
        streams = background["streams"]
        if streams:
            rates = [(stream["offered_bps"], stream["offered_pps"]) for stream in streams]
            sizes = {round(bps / pps / 8) for bps, pps in rates if bps and pps}
            self.second.append(
                SecondGuestRun(
                    run_id=record["run_id"],
                    offered_bps=_sum([stream["offered_bps"] for stream in streams]),
                    measured_bps=_sum([stream["measured_bps"] for stream in streams]),
                    wire_bytes=sizes.pop() if len(sizes) == 1 else None,
                )
            )


UNEQUAL_BELOW = 0.95
"""Jain's index of the streams' measured rates; 1 is perfectly equal."""


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _by_flow_control(reason: Json) -> bool:
    """By the verdict's evidence, not by its words."""
    evidence = reason.get("evidence") or {}
    places = evidence.get("places")  # of a reason that was seen at several
    return any(
        isinstance(cause, dict) and cause.get("cause") == "flow_control"
        for place in (places if isinstance(places, list) else [evidence])
        if isinstance(place, dict) and isinstance(place.get("causes"), list)
        for cause in place["causes"]
    )
