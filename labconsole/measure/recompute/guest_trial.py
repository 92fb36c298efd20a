"""Impossible values in a record of a guest trial of any kind, and its verdict judged again by rules. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from labconsole.measure.paired_blocks import uut_facts
from labconsole.measure.recompute.discrepancy import Discrepancy, Number, against
from labconsole.measure.recompute.plausibility import (
    SENDING_SLACK_RATIO,
    WALL_CLOCK_S,
    in_force_problems,
    place_problems,
    set_up_problems,
    stepped,
    time_problems,
    trial_s,
)
from labconsole.measure.recompute.verdict import number
from labconsole.model.record.kind import GuestTrialRecord, ProgramRecord
from labconsole.model.record.run import InForce
from labconsole.model.record.verdict_codes import WEIGHT
from labconsole.model.tolerances import Tolerances

# -- impossible values -------------------------------------------------------------------------------------------------
# Impossible values in a record of a guest trial of any kind: its times, place, processors and memory.
#
# Contradictions between records are in cross_record_checks.py.

OWN_PORT = "raw"
"""The driver whose guests are processes of the unit under test, and share the address of its own NIC."""

RATIO_ERROR = 1.001
"""Shares of time are rounded, and read at two moments."""

LINK_ERROR, LINK_BURST_S = 1.005, 0.1
"""A link may seem this much too fast, and may carry queued packets for this much longer."""

CONTROL_PACKETS, CONTROL_RATIO = 100, 0.01
"""Packets on a guest's port in addition to its stream: address resolution, neighbours, a guest's own packets."""

SHA256 = re.compile(r"[0-9a-f]{64}")


def boot_of(record: GuestTrialRecord) -> str | None:
    """The boot of the unit under test, or None if unknown."""
    found = uut_facts(record).get("boot_id")
    return found if isinstance(found, str) else None


def common_problems(record: GuestTrialRecord, *, is_start: bool = False) -> Iterator[Discrepancy]:
    """Impossible values of a guest trial of any kind. ``is_start``: its set-up is within it, else before it."""
    yield from time_problems(record.started_at, record.finished_at, record.verdict)
    yield from place_problems(record.plan, least_block=1)
    if record.set_up is not None:
        until = (record.finished_at, "the end") if is_start else (record.started_at, "the trial")
        yield from set_up_problems(record.set_up, *until, record.verdict)
    if record.swapped_pages is not None and record.swapped_pages < 0:
        yield against("swapped_pages", "fewer pages were swapped after the trial than before it", record.swapped_pages)
    if record.status == "done" and record.failure is not None:
        yield against("failure", "says why nothing can be concluded from a trial that is done", record.failure[:80])
    yield from _processors(record)


def _processors(record: GuestTrialRecord) -> Iterator[Discrepancy]:
    """Processor activity beyond what is possible, in a window within the trial."""
    most_s = longest_s(record)
    for place, each in enumerate(record.influences):
        where = f"influences[{place}]"
        for name in ("busy_ratio", "interrupt_ratio", "steal_ratio"):
            if number(each.get(name)) > RATIO_ERROR:
                says = f"{number(each[name]):.0%} of the processors' time cannot have been used"
                yield against(f"{where}.{name}", says, number(each[name]))
        window_s, cpus = number(each.get("window_s")), number(each.get("cpus"))
        if each.get("kind") == "cpu" and most_s is not None and window_s > most_s:
            says = f"is of {window_s:.3f} s, and the trial took {most_s:.3f} s at most"
            yield against(f"{where}.window_s", says, window_s)
        if number(each.get("cpu_ratio")) > RATIO_ERROR * max(1.0, _cpus(record, each.get("node")) or 1e9):
            yield against(f"{where}.cpu_ratio", "is more than all processors of that node", number(each["cpu_ratio"]))
        used_s = each.get("used_s")
        if isinstance(used_s, Mapping) and window_s and cpus:
            total_s = sum(map(number, used_s.values()))
            if total_s > RATIO_ERROR * cpus * window_s + WALL_CLOCK_S * cpus:
                says = f"{total_s:.3f} s of processors were used in {window_s:.3f} s of {cpus:g}"
                yield against(f"{where}.used_s", says, total_s)


def _cpus(record: GuestTrialRecord, node: Any) -> float | None:
    found: Any = record.environment
    for key in ("nodes", str(node), "facts", "cpus"):
        found = found.get(key) if isinstance(found, Mapping) else None
    return number(found) or None


def memory_bytes(record: GuestTrialRecord) -> int | None:
    """The memory of the unit under test, or None if its kernel did not report it."""
    found = uut_facts(record).get("memory_bytes")
    return found if type(found) is int else None


def memory_problems(record: GuestTrialRecord, of: Iterable[tuple[str, int | None]]) -> Iterator[Discrepancy]:
    """Amounts of memory, as (place, bytes), that exceed the unit under test's."""
    has_bytes = memory_bytes(record)
    for where, found in of:
        if has_bytes is not None and found is not None and found > has_bytes:
            yield against(where, f"is {found} bytes, and the unit under test has {has_bytes}", found)


def longest_s(record: GuestTrialRecord) -> float | None:
    """The longest possible duration of anything in a trial, by any clock, or None if its own times do not show it."""
    took_s = trial_s(record.started_at, record.finished_at)
    if took_s is None or took_s < 0 or stepped(record.verdict):
        return None
    return took_s * (1 + SENDING_SLACK_RATIO) + WALL_CLOCK_S


def duration_problems(record: GuestTrialRecord, of: Iterable[tuple[str, float | None]]) -> Iterator[Discrepancy]:
    """Durations, as (place, seconds), that are within the trial but exceed it."""
    most_s = longest_s(record)
    for where, found_s in of:
        if found_s is not None and most_s is not None and found_s > most_s:
            yield against(where, f"is {found_s:.3f} s, in a trial of {most_s:.3f} s at most", found_s)


def sign_problems(of: Iterable[tuple[str, float | None]]) -> Iterator[Discrepancy]:
    """Numbers, as (place, number), that are below zero but must not be."""
    for where, found in of:
        if found is not None and found < 0:
            yield against(where, "is below zero", found)


def duplicate_problems(
    where: str, of: Sequence[Any], keys: Mapping[str, Callable[[Any], Any]]
) -> Iterator[Discrepancy]:
    """Values that two elements share but must not. ``keys``: by name, the function that returns the value."""
    for name, key in keys.items():
        first: dict[Any, int] = {}
        for place, each in enumerate(of):
            value = key(each)
            other = first.setdefault(value, place)
            if value is not None and other != place:
                yield against(f"{where}[{place}].{name}", f"is that of {where}[{other}] too", str(value)[:80])


def numbering_problems(where: str, name: str, of: Sequence[Any]) -> Iterator[Discrepancy]:
    """Elements of a guest that are not numbered from 1 to their count."""
    by_guest: dict[str, list[int]] = {}
    for each in of:
        by_guest.setdefault(each.guest, []).append(getattr(each, name))
    for guest, found in by_guest.items():
        if sorted(found) != list(range(1, len(found) + 1)):
            numbers = ", ".join(map(str, sorted(found)[:10]))
            yield against(where, f"of {guest[:80]} have {name} {numbers}, which does not count from 1")


def address_problems(
    record: GuestTrialRecord, where: str, of: Sequence[Any], names: Sequence[str] = ("mac", "address")
) -> Iterator[Discrepancy]:
    """Guests with several addresses of a kind, or with another guest's, except on the unit under test's own port."""
    is_shared = record.attestation.get("driver") == OWN_PORT
    for name in names:
        addresses: dict[str, str] = {}
        guests: dict[str, str] = {}
        for place, each in enumerate(of):
            address = getattr(each, name)
            if address is None:
                continue
            if addresses.setdefault(each.guest, address) != address:
                yield against(f"{where}[{place}].{name}", f"is not the other one of {each.guest}", address[:80])
            elif guests.setdefault(address.lower(), each.guest) != each.guest and not is_shared:
                yield against(f"{where}[{place}].{name}", f"is that of {guests[address.lower()]}, too", address[:80])


def link_problems(
    where: str, packets: int | None, frame_bytes: int, took_s: float | None, link_bps: int
) -> Iterator[Discrepancy]:
    """More frames, with their check sequence, than a link of this speed carries in this time."""
    if packets is None or not took_s or took_s <= 0 or link_bps <= 0:
        return
    wire_bits = packets * 8 * (frame_bytes + 20)  # preamble and gap
    if wire_bits > LINK_ERROR * link_bps * (took_s + LINK_BURST_S):
        frames = f"{packets} frames of {frame_bytes} bytes in {took_s:.3f} s"
        says = f"{frames} are {wire_bits / took_s:.0f} bit/s on a link of {link_bps}"
        yield against(where, says, packets)


def excess_problems(
    where: str, packets: int | None, given: int | None, says: str, ports: int = 1
) -> Iterator[Discrepancy]:
    """More packets at a place than were sent to it, beyond the guests' own packets."""
    if packets is None or given is None:
        return
    if packets > (1 + CONTROL_RATIO) * given + CONTROL_PACKETS * ports:
        yield against(where, f"{packets} packets {says}, of {given}", packets)


def program_problems(where: str, program: ProgramRecord | None, guests: int) -> Iterator[Discrepancy]:
    """Invalid digests, or more of them than guests that could have had the file."""
    if program is None:
        return
    if any(SHA256.fullmatch(each) is None for each in program.sha256) or len(set(program.sha256)) < len(program.sha256):
        yield against(f"{where}.sha256", "is not a digest of each file once")
    if program.unknown < 0 or len(program.sha256) + program.unknown > guests:
        says = (
            f"{len(program.sha256)} files and {program.unknown} that are not known are more than {guests} guests have"
        )
        yield against(where, says, program.unknown)


def sink_problems(where: str, sink: Any) -> Iterator[Discrepancy]:
    """Parts of a sink's captured packets that exceed their total."""
    if sink is None:
        return
    fragments = getattr(sink, "fragments", 0)
    of: tuple[tuple[str, Number, Number], ...] = (
        ("control_packets", sink.control_packets, sink.other_packets),
        ("fragments", fragments, sink.captured_packets),
    )
    for name, part, whole in of:
        if isinstance(part, int) and isinstance(whole, int) and part > whole:
            yield against(f"{where}.{name}", f"is {part} of {whole} packets", part)


def bin_problems(where: str, flow: Any, origin_ns: int | None, bin_s: float) -> Iterator[Discrepancy]:
    """Contradictions between a flow's first and last packet, its count, and its bins."""
    first_ns, last_ns, packets = flow.first_at_ns, flow.last_at_ns, flow.packets
    if (first_ns is None) != (packets == 0) or (last_ns is None) != (packets == 0):
        yield against(f"{where}.packets", "has no times, or times without packets", packets)
        return
    if first_ns is None or last_ns is None:
        return
    if last_ns < first_ns:
        yield against(f"{where}.last_at_ns", "is before its first packet", last_ns)
    if origin_ns is None or not any(flow.bin_packets):
        return
    if first_ns < origin_ns:
        yield against(f"{where}.first_at_ns", "is before the first packet of all", first_ns)
    bin_ns = round(bin_s * 1e9)
    filled = [place for place, count in enumerate(flow.bin_packets) if count]
    if not flow.outside_packets and (
        filled[0] < (first_ns - origin_ns) // bin_ns or filled[-1] > (last_ns - origin_ns) // bin_ns
    ):
        yield against(f"{where}.bin_packets", "are not where its first and its last packet are")


# -- the verdict -------------------------------------------------------------------------------------------------------
# Judges the verdict on a guest trial again, by rules stated a second time: code to condition.
#
# A kind's rules are in the module that checks its record. They share no code with those that judged the trial
# (verdict/, and each kind's verdict.py), so that errors in those show. A reason without a rule rests on what the record
# does not contain.

R = TypeVar("R", bound=GuestTrialRecord)
Condition = Callable[[R, Tolerances], bool]

EMPTY_TRIAL_CODES = frozenset({"guests_missing", "not_measured", "no_memory", "no_space"})
"""Codes of a trial whose guests are missing, or in which no attempt gave a result."""

INVALID_CODES = frozenset(code for code, weight in WEIGHT.items() if weight == "invalid")

SINK_CONTROL_PACKETS, SINK_CONTROL_RATIO = 20, 1e-4
"""Control traffic at a sink that causes no doubt, in packets or as a share of all."""

LEAST_STEP_S, STEP_RATIO = 0.001, 0.001
"""The allowed change of a clock, absolute or as a share of the shortest measured time."""

ROUNDED = 1.05
"""A process's time is rounded to thousandths of a second."""

NOT_OURS = ("other", "labconsole", "guest")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRules(Generic[R]):
    """The rules for one kind of record.

    ``only``: codes that follow from the record alone: one is there if and only if its condition is true. ``also``:
    codes that other observations cause as well: one is there if its condition is true. ``excused``: codes of ``only``
    that a record may have without it, because it gives the reason itself.
    """

    only: Mapping[str, Condition[R]]
    also: Mapping[str, Condition[R]]
    excused: Mapping[str, Condition[R]]


def recompute_verdict(record: R, rules: VerdictRules[R]) -> Iterator[Discrepancy]:
    """Parts of the verdict that do not follow by these rules, and a status that does not match its codes."""
    if record.in_force is not None:
        yield from in_force_problems(record.in_force)
    codes, limits = codes_of(record), limits_of(record.in_force)
    shown = {code for of in (HOST_ACTIVITY, rules.also) for code, holds in of.items() if holds(record, limits)}
    shown |= {code for code, holds in rules.only.items() if holds(record, limits)}
    excused = {code for code, holds in rules.excused.items() if holds(record, limits)}
    for code in sorted(shown - codes):
        yield against("verdict.reasons", f"lacks {code}, which the record shows")
    for code in sorted((codes & set(rules.only)) - shown - excused):
        yield against("verdict.reasons", f"has {code}, which the record does not show")
    yield from status_problems(record)


def status_problems(record: GuestTrialRecord) -> Iterator[Discrepancy]:
    """The status must be the worst that its reasons cause; each code occurs once, with all its places."""
    codes = [each.code for each in record.verdict.reasons]
    for place, code in enumerate(codes):
        if code not in WEIGHT:
            yield against(f"verdict.reasons[{place}].code", "is not a code known to this version", code[:80])
        if code in codes[:place]:
            yield against("verdict.reasons", f"{code} appears more than once: one reason lists all its places")
        follows = record.verdict.reasons[place].follows
        if follows is not None and (follows == code or follows not in codes):
            says = "does not name another reason of this verdict"
            yield against(f"verdict.reasons[{place}].follows", says, follows[:80])
    status = "invalid" if set(codes) & INVALID_CODES else "suspect" if codes else "valid"
    if record.verdict.status != status:
        yield Discrepancy(where="verdict.status", stored=record.verdict.status, recomputed=status)
    if (record.status == "failed") != (status == "invalid"):
        yield against("status", f"is {record.status}, but the verdict is {status}")


def unjudged_reasons(record: R, rules: VerdictRules[R]) -> Iterator[str]:
    """The parts of the verdict that cannot be judged again, with the same description for similar records."""
    if record.in_force is None:
        yield "the verdict by its tolerances, which are not recorded"
    limits = limits_of(record.in_force)
    shown = {code for of in (HOST_ACTIVITY, rules.also) for code, holds in of.items() if holds(record, limits)}
    for code in sorted(codes_of(record) - set(rules.only)):
        if code not in shown:
            yield f"the reason {code[:80]}, which rests on what the record does not hold"


def limits_of(in_force: InForce | None) -> Tolerances:
    """The record's tolerances; the default ones if a record lacks them, or has impossible ones."""
    if in_force is None or any(in_force_problems(in_force)):
        return Tolerances()
    return Tolerances.model_validate(in_force.tolerances)


def codes_of(record: GuestTrialRecord) -> set[str]:
    """The codes of its verdict's reasons."""
    return {each.code for each in record.verdict.reasons}


def empty_trial_problems(record: GuestTrialRecord, seen: Collection[object]) -> Iterator[Discrepancy]:
    """A guest trial without a set-up must have nothing ``seen``, and a verdict that gives the reason."""
    if seen or not codes_of(record) & EMPTY_TRIAL_CODES:
        yield against("set_up", "is missing, and so is the reason why nothing was observed")


# Formulas that several kinds have -------------------------------------------------------------------------------------


def find_shared_bins(flows: Sequence[Any], origin_ns: int | None, bin_s: float) -> range | None:
    """The bins that begin after the first packet of every flow and end before the last of every one, or None without
    any.
    """
    bin_ns, begun, ended = round(bin_s * 1e9), [each.first_at_ns for each in flows], [each.last_at_ns for each in flows]
    if origin_ns is None or not begun or None in begun or None in ended:
        return None
    inside = [
        number
        for number in range(max(len(each.bin_packets) for each in flows))
        if all(origin_ns + number * bin_ns >= first for first in begun)
        and all(origin_ns + (number + 1) * bin_ns <= last for last in ended)
    ]
    return range(inside[0], inside[-1] + 1) if inside else None


def compute_jain(rates: Collection[float]) -> float | None:
    """Jain's index of the guests' rates, or None if none of them has any."""
    total, squares = sum(rates), sum(rate * rate for rate in rates)
    return total * total / (len(rates) * squares) if squares else None


def compute_skew_s(times_ns: Iterable[int | None]) -> float | None:
    """Time between the first and the last of these, or None if there are not two."""
    known = [each for each in times_ns if each is not None]
    return (max(known) - min(known)) / 1e9 if len(known) > 1 else None


# Conditions that several kinds have -----------------------------------------------------------------------------------


def is_swapped(record: GuestTrialRecord, limits: Tolerances) -> bool:
    """Whether pages went in or out of swap."""
    return bool(record.swapped_pages)


def is_start_apart(record: Any, limits: Tolerances) -> bool:
    """Whether guests that were to begin together began more than a hundredth of the duration apart."""
    return record.start_skew_s is not None and record.start_skew_s > 0.01 * record.requested.duration_s


def is_program_unlike(program: ProgramRecord | None) -> bool:
    """Whether guests had several files of one program."""
    return program is not None and len(program.sha256) > 1


def is_program_unknown(program: ProgramRecord | None) -> bool:
    """Whether the program's file is unknown for a guest."""
    return program is not None and program.unknown > 0


def is_capture_short(sink: Any) -> bool:
    """Whether the sink's kernel dropped packets, or the capture lacks packets that its NIC received."""
    if sink is None:
        return False
    seen = sink.captured_packets + (sink.dropped_packets or 0)
    return bool(sink.dropped_packets) or (sink.nic_packets is not None and sink.nic_packets > seen)


def is_beyond_nic(sink: Any) -> bool:
    """Whether more of the crew's packets were captured than the sink's NIC received in all."""
    if sink is None or sink.nic_packets is None:
        return False
    return bool(sink.captured_packets - sink.foreign_packets - sink.other_packets > sink.nic_packets)


def has_foreign_packets(sink: Any, limits: Tolerances) -> bool:
    """Whether there are more foreign packets than usual control traffic and the tolerance."""
    if sink is None:
        return False
    control = min(sink.control_packets or 0, sink.other_packets)
    usual = int(max(SINK_CONTROL_PACKETS, SINK_CONTROL_RATIO * sink.captured_packets))
    strange = sink.foreign_packets + sink.other_packets - control
    return bool(strange + max(0, control - usual) > limits.foreign_packets)


def is_nic_unread(sink: Any) -> bool:
    """Whether the sink NIC's count is missing."""
    return sink is not None and sink.nic_packets is None


def is_mark_forged(timekeeper: Any) -> bool:
    """Whether there are duplicate marks, or pings that match no sender."""
    return timekeeper is not None and bool(timekeeper.doubled or timekeeper.strange_packets)


def is_mark_dropped(timekeeper: Any) -> bool:
    """Whether the timekeeper's kernel dropped packets that may have been marks."""
    return timekeeper is not None and bool(timekeeper.dropped_packets)


def is_clock_set(timekeeper: Any, times_s: Collection[float], limits: Tolerances) -> bool:
    """Whether the timekeeper's wall clock was set by more than the shortest of these times allows."""
    if timekeeper is None:
        return False
    allowed_s = max(LEAST_STEP_S, STEP_RATIO * min(map(abs, times_s), default=0.0))
    return bool(abs(timekeeper.wall_moved_ns) > min(limits.clock_step_s, allowed_s) * 1e9)


def _is_silent(record: GuestTrialRecord, limits: Tolerances) -> bool:
    return any(each.get("kind") == "not_observed" for each in record.influences)


def _is_stolen(record: GuestTrialRecord, limits: Tolerances) -> bool:
    ratios = [number(each.get("steal_ratio")) for each in record.influences if each.get("kind") == "cpu"]
    return not record.emulated and any(each > limits.steal_ratio for each in ratios)


def _is_busy(record: GuestTrialRecord, limits: Tolerances) -> bool:
    processes = [each for each in record.influences if each.get("kind") == "process" and each.get("whose") in NOT_OURS]
    return any(number(each.get("cpu_ratio")) > ROUNDED * limits.other_cpu_ratio for each in processes)


def _is_hidden(record: GuestTrialRecord, limits: Tolerances) -> bool:
    ratios = [number(each.get("unseen_ratio")) for each in record.influences if each.get("kind") == "cpu"]
    return any(each > limits.other_cpu_ratio for each in ratios)


HOST_ACTIVITY: Mapping[str, Condition[Any]] = {
    "not_observed": _is_silent,
    "cpu_stolen": _is_stolen,
    "other_cpu": _is_busy,
    "unseen_cpu": _is_hidden,
}
"""Rules for the influences of guest trials of any kind. Rules of a kind for the same code apply in addition."""
