"""What a run's record keeps of what the unit under test's processors did while its traffic ran. Pure."""

from __future__ import annotations

from pydantic import ValidationError

from labconsole.model.record.run import Figures
from labconsole.model.record.telemetry import EXTENSION, WorkRecord, WorkRefusal, WorkRefused
from labconsole.verdict.observations import WorkWitness


def telemetry_extension(work: WorkWitness | None) -> dict[str, Figures]:
    """Empty where the trial was none for telemetry, or the node said nothing."""
    if work is None:
        return {}
    code, message = work.refused or ("failed", "the node did not tell it")
    if work.done is not None:
        try:
            told = WorkRecord.model_validate({"node": work.node, **work.done.to_wire()})
        except ValidationError as exc:
            code, message = "failed", f"what the node told cannot be kept: {exc.errors()[0]['msg']}"
        else:
            return {EXTENSION: told.model_dump(mode="json")}
    refused = WorkRefused(node=work.node, refused=WorkRefusal(code=code, message=message[:400]))
    return {EXTENSION: refused.model_dump(mode="json")}
