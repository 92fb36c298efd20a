"""A plan's file that searches and has no targets: what stands in their place, so that it is a matrix like any other."""

from __future__ import annotations

from labconsole.model.plan.file import PlanFile


def searches_only(file: PlanFile) -> bool:
    """Whether no point of the matrix is measured: the search alone says which loads are."""
    return file.search is not None and file.points is None and "targets" not in file.model_fields_set


def as_searched(file: PlanFile) -> PlanFile:
    """The file with the loads and the durations that a search may use at most, where it measures no grid."""
    if not searches_only(file):
        return file
    assert file.search is not None
    # fields_set stays as written: model_copy would add what is put in.
    made = file.model_copy(update={"targets": ("max",), "duration_s": file.duration_s or file.search.longest_trial_s})
    made.model_fields_set.discard("targets")
    return made
