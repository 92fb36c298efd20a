"""Queueing disciplines and the kernel's own options as the agent tells them."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from labconsole.agent.reading.ethtool import Ethtool
from labconsole.agent.reading.settings import _offloads, boot_options, parse_disciplines
from labconsole.network import port_features

ROOT = 0xFFFFFFFF


class Discipline(dict[str, Any]):
    """As the netlink library decodes one."""

    def __init__(self, index: int, parent: int, kind: str, options: Any) -> None:
        super().__init__(index=index, parent=parent)
        self._attributes = {"TCA_KIND": kind, "TCA_OPTIONS": options}

    def get_attr(self, name: str) -> Any:
        return self._attributes[name]


def test_a_discipline_is_told_with_its_options_and_alike_children_are_counted():
    limits = {"rate_cell_log": 0, "rate___reserved": 1, "rate": 12_500_000, "limit": 157_768, "mtu": 0}
    told = parse_disciplines([
        Discipline(2, ROOT, "noqueue", None),
        Discipline(3, 0x10000, "pfifo_fast", {"bands": 3, "priomap": (1, 2)}),
        Discipline(3, ROOT, "mq", None),
        Discipline(3, 0x10001, "pfifo_fast", {"bands": 3, "priomap": (1, 2)}),
        Discipline(4, ROOT, "tbf", {"attrs": [("TCA_TBF_PARMS", limits)]}),
        Discipline(5, ROOT, "htb", {"attrs": [("TCA_HTB_INIT", {"defcls": 1, "direct_pkts": 77})]}),
        Discipline(6, ROOT, "fq_codel", {"attrs": [("TCA_FQ_CODEL_TARGET", 4999), ("TCA_FQ_CODEL_ECN", 0)]}),
    ])  # fmt: skip
    assert told == {
        2: "noqueue", 3: "mq; 2 times pfifo_fast bands 3 priomap 1,2", 4: "tbf rate 12500000 limit 157768",
        5: "htb defcls 1", 6: "fq_codel target 4999",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        (None, None),
        ("quiet root=/dev/sda1 rd.iscsi.password=secret", "none"),
        (
            "mitigations=off isolcpus=1-3 nosmt intel_idle.max_cstate=0",
            "mitigations=off isolcpus=1-3 nosmt intel_idle.max_cstate=0",
        ),
        ("ip=10.0.0.1 hugepagesz=2M hugepages=64 memtest", "hugepagesz=2M hugepages=64"),
    ],
)
def test_of_the_kernels_options_only_those_that_decide_how_it_forwards_are_told(line, kept):
    assert boot_options(line) == kept


def test_features_by_name_are_what_the_older_questions_say():
    with closing(Ethtool()) as tool:
        named, asked = port_features.read("lo"), _offloads(tool, "lo")
        assert (named["rx-gro"], named["tx-tcp-segmentation"]) == (asked["gro"], asked["tso"])
        assert asked["rx_hash"] is named["rx-hashing"]
        assert port_features.read("nobody0") == {}
