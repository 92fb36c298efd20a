"""What a report is asked for survives a bundle's manifest, and a stranger's manifest asks for no more than that."""

from __future__ import annotations

from pathlib import Path

import pytest

from labconsole.report.request import ReportRequest, parse_arguments

FULL = ReportRequest(
    filter=("size=64", "loss<0.5"),
    plan_names=("sanity", "second=run"),
    platforms=("raw", "kvm"),
    testbed="bench",
    select_by_outcome=True,
    pool=("kernel", "method"),
    margin="2%",
    reference="schlosser",
    reference_map=("kvm=KVM", "vmw=VM-E1000"),
)


@pytest.mark.parametrize("asked", [ReportRequest(), FULL, ReportRequest(plan_files=(Path("a.yaml"),))])
def test_a_askedis_the_same_from_its_arguments(asked: ReportRequest):
    again = parse_arguments(asked.arguments(), filter=asked.filter, plan_files=asked.plan_files)
    assert again == asked


def test_the_arguments_are_those_of_format_1():
    assert FULL.arguments() == [
        "--reference=schlosser",
        "--reference-map=kvm=KVM,vmw=VM-E1000",
        "--platforms=raw,kvm",
        "--testbed=bench",
        "--plan=sanity",
        "--plan=second=run",
        "--pool=kernel,method",
        "--margin=2%",
        "--select-by-outcome",
    ]


def test_what_is_not_known_is_passed_over_and_a_name_stays_a_name():
    words = ["--out=/etc", "--bundle", "--store=x", "size=64", "--", "", "--plan=/etc/plan.yaml", "--platforms=,"]
    made = parse_arguments(words, filter=(), plan_files=())
    assert made == ReportRequest(plan_names=("/etc/plan.yaml",))
