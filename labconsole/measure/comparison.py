"""Two runs side by side: every quantity of both, and whether it differs. Pure; callers format the values.

Requests and results are listed completely. Facts found on the nodes (environment, counters of influences) are listed
only if they differ, since they are long and mostly equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from labconsole.measure.ledger import format_hop
from labconsole.model.design_point import INCLUDES_FCS
from labconsole.model.record.run import Requested, RunRecord, StreamRecord

Kind = Literal["text", "packets", "pps", "bps", "ratio", "seconds", "bytes", "count"]

VOLATILE = frozenset(
    {
        "load",
        "uptime_s",
        "clock_error_ns",
        "clock_offset_ns",
        "clock_stated",
        "round_trip_s",
        "network_namespace",
        "boot_id",
        "learning",
        "age_s",
    }
)
"""Facts of a node that change every time. They are listed, but are no difference between two set-ups."""


NOT_LOADED: Final = "module not loaded"
"""The value of a setting that is known not to exist (null)."""

NOT_COMPARED = ("series_interfaces", "series_rows_not_kept")
"""Settings that only the file of time series needs."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One quantity of both runs. ``expected`` marks differences that two runs of one set-up have as well."""

    section: str
    label: str
    left: Any
    right: Any
    kind: Kind = "text"
    expected: bool = False

    @property
    def words(self) -> str:
        """The pair in one line, with its section."""
        left, right = ("unknown" if value is None else value for value in (self.left, self.right))
        return f"{self.section}: {self.label} {left} → {right}"

    @property
    def differs(self) -> bool:
        """True if the two are not equal; None on one side counts as a difference."""
        return bool(self.left != self.right)

    @property
    def change(self) -> float | None:
        """The right value's relative change from the left one, or None for quantities where that makes no sense."""
        if self.kind in ("text", "ratio") or not self.left or self.right is None:
            return None
        return float(self.right / self.left - 1)


def compare(left: RunRecord, right: RunRecord) -> list[Pair]:
    """The common and the different quantities of two runs, section by section."""
    pairs = [*_requested(left, right), *_result(left, right)]
    pairs += _streams(left, right)
    environments = [_drop_settings(r.environment) for r in (left, right)]
    for section, a, b in (
        ("Background load", left.background, right.background),
        ("Influences", list(left.influences) or None, list(right.influences) or None),
        ("Environment", environments[0], environments[1]),
    ):
        pairs += different(section, a, b)
    settings = [_settings(r.environment) for r in (left, right)]
    for name, reported in settings[0].items():
        for setting, value in reported.items():
            other = settings[1].get(name, {})
            if setting in other:
                pairs += setting_pair("Environment", f"nodes.{name}.settings.{setting}", [value], [other[setting]])
    return pairs


def setting_pair(section: str, name: str, left: Sequence[Any], right: Sequence[Any]) -> Iterator[Pair]:
    """Yield a node's setting if its values differ between the sides.

    A setting that a side does not report is unknown, which is no difference.
    """
    if any(value not in right for value in left) or any(value not in left for value in right):
        yield Pair(section, name, _setting(left), _setting(right))


def _setting(values: Sequence[Any]) -> Any:
    plain = [NOT_LOADED if value is None else _plain(value) for value in values]
    return plain[0] if len(plain) == 1 else f"varies: {', '.join(sorted(map(str, plain)))}"


def _drop_settings(environment: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in environment.items() if name not in NOT_COMPARED}
    if isinstance(nodes := found.get("nodes"), dict):
        found["nodes"] = {
            name: {key: value for key, value in said.items() if key != "settings"} if isinstance(said, dict) else said
            for name, said in nodes.items()
        }
    return found


def _settings(environment: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The settings by node, for nodes that report them; a record may come from elsewhere."""
    nodes = environment.get("nodes")
    reported = {
        name: said.get("settings")
        for name, said in (nodes if isinstance(nodes, dict) else {}).items()
        if isinstance(said, dict)
    }
    return {name: settings for name, settings in reported.items() if isinstance(settings, dict)}


def _requested(left: RunRecord, right: RunRecord) -> Iterator[Pair]:
    kinds: dict[str, Kind] = {"frame_size_bytes": "bytes", "sources": "count", "duration_s": "seconds"}
    for name in type(left.requested).model_fields:
        a, b = getattr(left.requested, name), getattr(right.requested, name)
        kind = kinds.get(name, "text")
        if name == "target_bps":
            a, b = (_target(each.requested) for each in (left, right))
            kind = "text" if isinstance(a, str) or isinstance(b, str) else "bps"
        label = "with_fcs" if name == INCLUDES_FCS else name
        yield Pair("Requested", label.removesuffix("_bytes").removesuffix("_bps").removesuffix("_s"), a, b, kind)
    for name in ("testbed", "testbed_fingerprint", "operator", "labconsole_version"):
        yield Pair("Requested", name, getattr(left, name), getattr(right, name))
    plans = [None if r.plan is None else f"{r.plan.name} {r.plan.hash}" for r in (left, right)]
    yield Pair("Requested", "plan", plans[0], plans[1])
    yield Pair("Requested", "started", left.started_at, right.started_at, expected=True)


def _target(requested: Requested) -> int | str:
    return requested.target_bps if requested.frame is None else requested.frame.wish(requested.target_bps)


def _result(left: RunRecord, right: RunRecord) -> Iterator[Pair]:
    yield Pair("Result", "verdict", left.verdict.status, right.verdict.status)
    codes = [", ".join(dict.fromkeys(reason.code for reason in r.verdict.reasons)) or None for r in (left, right)]
    yield Pair("Result", "reasons", codes[0], codes[1])
    yield from _quantities("Result", left.total, right.total, expected=True)
    failures = [None if r.failure is None else r.failure.message for r in (left, right)]
    yield Pair("Result", "failure", failures[0], failures[1])


def _quantities(section: str, left: Any, right: Any, *, expected: bool) -> Iterator[Pair]:
    """Rates and counts, which are never exactly equal twice."""
    names: tuple[tuple[str, Kind], ...] = (
        ("offered_packets", "packets"),
        ("offered_pps", "pps"),
        ("offered_bps", "bps"),
        ("measured_packets", "packets"),
        ("measured_pps", "pps"),
        ("measured_bps", "bps"),
        ("loss_packets", "packets"),
        ("loss_ratio", "ratio"),
    )
    for name, kind in names:
        quantity = name.rpartition("_")[0]
        loss = quantity == "loss"
        yield Pair(section, quantity, getattr(left, name), getattr(right, name), kind, expected=expected and not loss)


def _streams(left: RunRecord, right: RunRecord) -> list[Pair]:
    ours = {stream.name: stream for stream in left.streams}
    theirs = {stream.name: stream for stream in right.streams}
    pairs: list[Pair] = []
    for name in [*ours, *(name for name in theirs if name not in ours)]:
        a, b, section = ours.get(name), theirs.get(name), f"Stream {name}"
        if a is None or b is None:
            pairs.append(
                Pair(section, "stream", "there" if a is not None else None, "there" if b is not None else None)
            )
            continue
        for field, kind in (("generator", "text"), ("generator_version", "text"), ("delay_ns", "count")):
            pairs.append(Pair(section, field, getattr(a, field), getattr(b, field), kind))  # type: ignore[arg-type]
        pairs += _quantities(section, a, b, expected=True)
        pairs.append(Pair(section, "measured by", a.measured_from, b.measured_from))
        pairs += _lost_where(section, a, b)
    return pairs


def _lost_where(section: str, a: StreamRecord, b: StreamRecord) -> Iterator[Pair]:
    """Loss by hop, for the hops at which either run lost something."""
    ours = {hop.hop: hop.lost_packets for hop in a.ledger}
    theirs = {hop.hop: hop.lost_packets for hop in b.ledger}
    for hop in [*ours, *(hop for hop in theirs if hop not in ours)]:
        if ours.get(hop) or theirs.get(hop):
            yield Pair(section, f"lost before {format_hop(hop)}", ours.get(hop), theirs.get(hop), "packets")
    if a.unplaced_packets or b.unplaced_packets:
        yield Pair(section, "lost, unplaced", a.unplaced_packets, b.unplaced_packets, "packets")


def different(section: str, left: Any, right: Any, path: str = "") -> Iterator[Pair]:
    """Where two pieces of JSON differ. A part that one of them lacks is one difference, not one per leaf."""
    left, right = _keyed(left), _keyed(right)
    if isinstance(left, dict) and isinstance(right, dict):
        for key in [*left, *(key for key in right if key not in left)]:
            yield from different(section, left.get(key), right.get(key), f"{path}.{key}" if path else str(key))
        return
    if left != right:
        shown = ["there" if isinstance(value, dict) else value for value in (left, right)]
        name = path or "all"
        yield Pair(section, name, _plain(shown[0]), _plain(shown[1]), expected=bool(VOLATILE & set(name.split("."))))


def _keyed(value: Any) -> Any:
    """A list of objects as an object by number, so that both are compared in the same way."""
    if isinstance(value, list | tuple) and any(isinstance(inner, dict | list) for inner in value):
        return {str(index): inner for index, inner in enumerate(value)}
    return value


def _plain(value: Any) -> Any:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
