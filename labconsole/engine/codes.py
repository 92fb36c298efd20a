"""The codes of a verdict and what each weighs. docs/data-format.md explains them in the same words.

invalid: the numbers cannot be stood behind and enter no mean. suspect: they stand, with a doubt that is named.
"""

from __future__ import annotations

from typing import Any, Literal

from labconsole.model.record import Reason

WEIGHT: dict[str, Literal["invalid", "suspect"]] = {
    "aborted": "invalid",
    "link_lost": "invalid",
    "lease_taken": "invalid",
    "failed": "invalid",
    "not_measured": "invalid",
    "no_packets": "invalid",
    "generator_failed": "invalid",
    "counter_decreased": "invalid",
    "interface_gone": "invalid",
    "carrier_changed": "invalid",
    "mtu_changed": "invalid",
    "guest_changed": "invalid",
    "background_missed": "invalid",
    "negative_loss": "invalid",
    "witnesses_disagree": "invalid",
    "generator_errors": "suspect",
    "offered_short": "suspect",
    "offered_over": "suspect",
    "duration_stretched": "suspect",
    "duration_cut": "suspect",
    "sources_apart": "suspect",
    "counter_froze": "suspect",
    "settings_changed": "suspect",
    "clock_stepped": "suspect",
    "capture_missing": "suspect",
    "capture_incomplete": "suspect",
    "foreign_frames": "suspect",
    "duplicates": "suspect",
    "not_drained": "suspect",
    "samples_missed": "suspect",
    "other_cpu": "suspect",
    "cpu_stolen": "suspect",
    "guests_changed": "suspect",
    "not_observed": "suspect",
    "lost_at_source": "suspect",
    "lost_at_sink": "suspect",
    "instrument_limited": "suspect",
}


def reason(code: str, detail: str, **evidence: Any) -> Reason:
    """A reason with a known code; the sentence should say all that a person needs, the evidence what a program does."""
    if code not in WEIGHT:
        raise ValueError(f"{code} is no code of a verdict")
    return Reason(code=code, detail=detail, evidence=evidence or None)
