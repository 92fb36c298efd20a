"""What a run's record keeps of what the unit under test's processors did while its traffic ran. Pure."""

from __future__ import annotations

from labconsole.model.record.run import Figures
from labconsole.model.record.telemetry import EXTENSION, WhyUntold, WorkRefused, WorkTold
from labconsole.verdict.observed import WorkWitness


def telemetry_extension(work: WorkWitness | None) -> dict[str, Figures]:
    """Empty where the trial was none for telemetry, or the node said nothing."""
    if work is None:
        return {}
    if work.done is not None:
        told = WorkTold.model_validate({"node": work.node, **work.done.to_wire()})
        return {EXTENSION: told.model_dump(mode="json")}
    code, message = work.refused or ("failed", "the node did not tell it")
    refused = WorkRefused(node=work.node, refused=WhyUntold(code=code, message=message[:400]))
    return {EXTENSION: refused.model_dump(mode="json")}
