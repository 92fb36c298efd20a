"""The part of a run's record on the unit under test's processor activity during traffic. Pure."""

from __future__ import annotations

from pydantic import ValidationError

from labconsole.model.record.run import Figures
from labconsole.model.record.telemetry import EXTENSION, WorkRecord, WorkRefusal, WorkRefused
from labconsole.verdict.observations import WorkWitness


def telemetry_extension(work: WorkWitness | None) -> dict[str, Figures]:
    """The record's extension; empty if the trial was no telemetry trial, or the node reported nothing."""
    if work is None:
        return {}
    code, message = work.refused or ("failed", "the node did not report it")
    if work.done is not None:
        try:
            recorded = WorkRecord.model_validate({"node": work.node, **work.done.to_wire()})
        except ValidationError as exc:
            code, message = "failed", f"the values that the node reported are invalid: {exc.errors()[0]['msg']}"
        else:
            return {EXTENSION: recorded.model_dump(mode="json")}
    refused = WorkRefused(node=work.node, refused=WorkRefusal(code=code, message=message[:400]))
    return {EXTENSION: refused.model_dump(mode="json")}
