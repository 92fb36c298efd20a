"""Values that no boot trial can have: marks before their cause, times outside the trial, memory beyond the host's.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from labconsole.experiments.boot.record import BootRecord
from labconsole.measure.recompute import guest_trial as trial
from labconsole.measure.recompute.discrepancy import Discrepancy, against
from labconsole.measure.recompute.plausibility import SENDING_SLACK_RATIO, WALL_CLOCK_S, stepped

PAGE_BYTES = 4096
"""The size of a kernel's smallest pages."""


def find_implausible(record: BootRecord) -> Iterator[Discrepancy]:
    """Find the values of a record that no boot trial can have."""
    yield from trial.common_problems(record, is_start=True)
    yield from trial.duplicate_problems("guests", record.guests, {"guest": lambda each: each.guest})
    yield from trial.address_problems(record, "guests", record.guests)
    yield from _times(record)
    yield from _memory(record)
    requested = record.requested
    if requested.limit_s <= 0 or (requested.memory_mib is not None and requested.memory_mib < 1):
        yield against("requested", "asks for an impossible limit or memory")


def _times(record: BootRecord) -> Iterator[Discrepancy]:
    """Find times before their cause, or outside the trial."""
    error_s = record.clock_error_s or 0.0
    for place, each in enumerate(record.guests):
        where = f"guests[{place}]"
        if each.own_s is not None and each.own_s < -error_s and not stepped(record.verdict):
            yield against(f"{where}.mark_ns", "its mark came before its own start command", each.own_s)
        of = ((f"{where}.mark_s", each.mark_s), (f"{where}.ready_s", each.ready_s))
        yield from trial.duration_problems(record, of)
        yield from trial.duration_problems(
            record, [(f"{where}.way_in.joined_s", None if each.way_in is None else each.way_in.joined_s)]
        )
    if record.set_up is not None:
        if record.set_up.trial != 1:
            yield against("set_up.trial", "a set-up of guests is started once", record.set_up.trial)
        setup_s = record.set_up.setup_s * (1 + SENDING_SLACK_RATIO) + WALL_CLOCK_S
        if record.ready_s is not None and record.ready_s > setup_s:
            says = f"setting up took {record.set_up.setup_s:.3f} s, and its guests were up after {record.ready_s:.3f} s"
            yield against("set_up.setup_s", says, record.set_up.setup_s)
    yield from trial.duration_problems(record, _parts(record))
    clocks = record.clocks
    if clocks is not None:
        errors = (("uut_error_ns", clocks.uut_error_ns), ("timekeeper_error_ns", clocks.timekeeper_error_ns))
        yield from trial.sign_problems((f"clocks.{name}", value) for name, value in errors)


def _parts(record: BootRecord) -> Iterator[tuple[str, float | None]]:
    """Return (place, seconds) of the successive parts of a start."""
    idle, memory = record.idle, record.memory
    for side in ("before", "standing"):
        quiet = None if idle is None else getattr(idle, side)
        yield f"idle.{side}.took_ns", None if quiet is None else quiet.took_ns / 1e9
    if memory is not None:
        yield "memory.quiet_s", memory.quiet_s
        if record.ready_s is not None:
            yield "ready_s", record.ready_s + memory.quiet_s


def _memory(record: BootRecord) -> Iterator[Discrepancy]:
    """Find memory values above those of the unit under test's kernel."""
    memory = record.memory
    used: list[tuple[str, int | None]] = []
    if memory is not None:
        names = ("available_before_bytes", "available_after_bytes", "pss_bytes", "cgroup_bytes")
        used += [(f"memory.{name}", getattr(memory, name)) for name in names]
        yield from trial.sign_problems(
            (
                ("memory.quiet_s", memory.quiet_s),
                ("memory.ksm_run", memory.ksm_run),
                ("memory.ksm_pages_sharing", memory.ksm_pages_sharing),
            )
        )
    cached = sum(each.cached_pages for each in record.files or ())
    used.append(("files", cached * PAGE_BYTES))
    yield from trial.memory_problems(record, used)
    names_of = {"path": lambda each: (each.option, each.path)}
    yield from trial.duplicate_problems("files", record.files or (), names_of)
