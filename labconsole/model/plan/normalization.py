"""Completes a plan's file without targets (searches, guest experiments) to an ordinary matrix."""

from __future__ import annotations

from labconsole.errors import ConfigError
from labconsole.model.plan.file import GUEST_KINDS, NON_GUEST_KEYS, PlanFile

ANY_FRAME_BYTES = 64
"""Placeholder frame size of guest experiments, which forward no frames."""


def searches_only(file: PlanFile) -> bool:
    """Whether no point of the matrix is measured, because the search or a plug-in's experiment chooses the loads."""
    return (
        (file.search is not None or bool(file.experiments))
        and file.points is None
        and "targets" not in file.model_fields_set
    )


def has_no_grid(file: PlanFile) -> bool:
    """Whether no point is measured."""
    return find_guest_kind(file) is not None or searches_only(file)


def normalize_file(file: PlanFile) -> PlanFile:
    """Complete a file that measures no grid to a matrix: for a search, with its maximum loads and durations."""
    if (kind := find_guest_kind(file)) is not None:
        return _normalize_guests(file, kind)
    if not searches_only(file):
        return file
    longest_s = 1.0 if file.search is None else file.search.longest_trial_s
    # fields_set stays as written: model_copy would include the updated keys.
    made = file.model_copy(update={"targets": ("max",), "duration_s": file.duration_s or longest_s})
    made.model_fields_set.discard("targets")
    return made


def find_guest_kind(file: PlanFile) -> str | None:
    """The key of the file's guest experiment, or None if it forwards frames."""
    return next((kind for kind in GUEST_KINDS if getattr(file, kind) is not None), None)


def _normalize_guests(file: PlanFile, kind: str) -> PlanFile:
    """Raises ConfigError for a key of forwarding plans or of another kind."""
    wrong = next((key for key in NON_GUEST_KEYS if key in file.model_fields_set), None)
    if wrong is not None:
        raise ConfigError(
            f"cannot be combined with {kind}: a plan has frames to forward or {GUEST_KINDS[kind].instead}; write one "
            "for each",
            key=wrong,
        )
    other = next((key for key in GUEST_KINDS if key != kind and getattr(file, key) is not None), None)
    if other is not None:
        raise ConfigError(f"cannot be combined with {kind}: a plan has one of them", key=other)
    written = set(file.model_fields_set)
    made = file.model_copy(
        update={"frame_sizes": (ANY_FRAME_BYTES,), "targets": ("max",), "duration_s": 1.0, "set_ups": None}
    )
    made.model_fields_set.clear()
    made.model_fields_set.update(written)
    return made
