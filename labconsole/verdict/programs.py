"""Checks whether all working guests had the same file of a program. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from labconsole.model.record.crew_trial import ProgramRecord
from labconsole.model.record.run import Reason
from labconsole.verdict.reasons import reason


def program_reasons(program: ProgramRecord | None) -> Iterator[Reason]:
    """Reasons: different files, or guests whose file is unknown."""
    if program is None:
        return
    if len(program.sha256) > 1:
        digests = ", ".join(each[:12] for each in program.sha256)
        detail = f"the guests that worked have {len(program.sha256)} different files of {program.name} ({digests})"
        yield reason("programs_differ", detail, sha256=list(program.sha256))
    if program.unknown:
        detail = f"the file of {program.name} is unknown for {program.unknown} of the guests that worked"
        yield reason("not_observed", detail, unknown=program.unknown)
