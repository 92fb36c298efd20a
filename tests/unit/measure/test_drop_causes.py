"""What the kernel's words mean: found by the word or by the function, and told in the docs as on the screen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labconsole.measure.drop_causes import CAUSES, cause_of, causes_of, kernel_doubt
from labconsole.model.record.run import RunRecord

FORMAT = (Path(__file__).parents[3] / "docs" / "data-format.md").read_text()
EXAMPLE = RunRecord.model_validate(json.loads(FORMAT.partition("```json\n")[2].partition("```")[0]))
DOCS = (Path(__file__).parents[3] / "docs" / "drop-reasons.md").read_text()


@pytest.mark.parametrize(
    ("label", "happened"),
    [
        ("kernel.NETFILTER_DROP@nft_do_chain", "a firewall rule dropped it"),
        ("eth1.kernel.NETFILTER_DROP@nft_do_chain", "a firewall rule dropped it"),
        ("eth1.100.kernel.NETFILTER_DROP", "a firewall rule dropped it"),
        ("kernel.NOT_SPECIFIED@ip_error", "a route forbids it"),
        ("kernel.NOT_TOLD@ip_error", "a route forbids it"),
        ("eth1.kernel.DEV_READY@enqueue_to_backlog", "the input port was down"),
        ("kernel.DEV_READY@__dev_queue_xmit", "the output port was not up"),
        ("kernel.IP_INHDR@ip_forward", "its time to live expired here"),
        ("kernel.IP_INHDR@ip_rcv_core", "its IP header is broken"),
    ],
)
def test_a_word_is_found_with_its_function_or_without(label: str, happened: str):
    found = cause_of(label)
    assert found is not None and found.happened == happened


@pytest.mark.parametrize(
    "label",
    [
        "tx_dropped",
        "nft.kernel",
        "nft.kernel.XDP",
        "node.nft.kernel.XDP",
        "eth1.nft.kernel.XDP",
        "kernel.NOT_SPECIFIED@icmp_rcv",
        "kernel.NEW_WORD@f",
        "kernel.",
        "kernel",
        "",
    ],
)
def test_nothing_is_made_up_for_other_counters_and_words(label: str):
    assert cause_of(label) is None


def test_two_words_for_one_cause_tell_it_once():
    labels = ["kernel.NEIGH_QUEUEFULL@__neigh_event_send", "tx_dropped", "kernel.NEIGH_FAILED@neigh_invalidate"]
    assert len(causes_of(labels)) == 1


def test_the_docs_show_every_word():
    rows = [line.strip("| ").split(" | ") for line in DOCS.splitlines() if line.startswith("| `")]
    words = {reason for reason, _ in CAUSES}
    shown = {
        (reason.strip("`"), function.strip("`") if "`" in function else None): (happened, look)
        for reason, function, happened, look in (row for row in rows if len(row) == 4)
    }
    assert shown == {key: tuple(cause) for key, cause in CAUSES.items()}
    assert len(words) >= 20


@pytest.mark.parametrize(
    ("told", "doubt"),
    [
        ({}, None),
        ({"kernel_drops": {"version": 1, "asked": "on", "complete": True}}, None),
        ({"kernel_drops": {"version": 1, "asked": "auto", "complete": False}}, "there may be more than are shown"),
        ({"kernel_drops": {"version": 1, "asked": "auto"}}, "there may be more than are shown"),
        ({"kernel_drops": {"version": 1, "refused": {"code": "no_permission", "message": "needs root"}}}, "needs root"),
        (
            {"kernel_drops": {"version": 1, "asked": "auto", "complete": False, "ended_early": True}},
            "tracing ended when its budget was spent (drop_reasons: auto); there may be more than are shown",
        ),
        ({"kernel_drops": {"version": 1, "refused": "what"}}, "there may be more than are shown"),
    ],
)
def test_what_was_not_told_or_not_to_the_end_is_said(told: dict[str, dict[str, object]], doubt: str | None):
    said = kernel_doubt(EXAMPLE.model_copy(update={"extensions": told}))
    assert said is None if doubt is None else said is not None and said.endswith(doubt)
