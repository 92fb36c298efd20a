"""Queueing disciplines and the kernel's own options as the agent tells them."""

from __future__ import annotations

import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from labconsole.agent import netlink
from labconsole.agent.reading import settings
from labconsole.agent.reading.ethtool import Ethtool
from labconsole.agent.reading.settings import MAX_WORDS, _offloads, boot_options, parse_disciplines
from labconsole.network import nic_features

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
    told = parse_disciplines(
        [
            Discipline(2, ROOT, "noqueue", None),
            Discipline(3, 0x10000, "pfifo_fast", {"bands": 3, "priomap": (1, 2)}),
            Discipline(3, ROOT, "mq", None),
            Discipline(3, 0x10001, "pfifo_fast", {"bands": 3, "priomap": (1, 2)}),
            Discipline(4, ROOT, "tbf", {"attrs": [("TCA_TBF_PARMS", limits)]}),
            Discipline(5, ROOT, "htb", {"attrs": [("TCA_HTB_INIT", {"defcls": 1, "direct_pkts": 77})]}),
            Discipline(6, ROOT, "fq_codel", {"attrs": [("TCA_FQ_CODEL_TARGET", 4999), ("TCA_FQ_CODEL_ECN", 0)]}),
        ]
    )
    assert told == {
        2: "noqueue",
        3: "mq; 2 times pfifo_fast bands 3 priomap 1,2",
        4: "tbf rate 12500000 limit 157768",
        5: "htb defcls 1",
        6: "fq_codel target 4999",
    }


def attribute(number: int, content: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(content), number) + content + bytes(-len(content) % 4)


def netem(*, loss: bytes = b"", seed: int = 1, delay_ns: int = 0) -> str:
    """What is told of one as the kernel dumps it, decoded by the netlink library itself."""
    netlink.load()
    from pyroute2.netlink.rtnl.tcmsg import tcmsg

    options = struct.pack("=6I", 0, 1000, 0, 0, 0, 0) + attribute(5, loss)
    options += attribute(10, struct.pack("=q", delay_ns)) + attribute(14, struct.pack("=Q", seed))
    body = struct.pack("=BBHiIII", 0, 0, 0, 3, 0x80010000, ROOT, 2) + attribute(1, b"netem\0") + attribute(2, options)
    message = tcmsg(struct.pack("=IHHII", 16 + len(body), 36, 0, 0, 0) + body)
    message.decode()
    return parse_disciplines([message])[3]


def test_options_that_the_netlink_library_does_not_decode_tell_two_disciplines_apart():
    gilbert = [attribute(2, struct.pack("=4I", percent, 2, 3, 4)) for percent in (1, 9)]
    assert netem() == netem(seed=2) == "netem limit 1000"  # a seed is drawn anew and no setting
    assert len({netem(), netem(loss=gilbert[0]), netem(loss=gilbert[1])}) == 3
    assert netem(delay_ns=1_000_000) != netem(delay_ns=1_000_001)


def test_what_is_too_long_to_be_told_differs_where_the_whole_differs():
    def told(last: int, bursts: int = 0) -> str:
        schedule = [(f"TCA_TAPRIO_X{each}", {"interval": 1_000_000 + each}) for each in range(40)]
        return parse_disciplines(
            [
                Discipline(3, ROOT, "taprio", {"attrs": [*schedule, ("TCA_TAPRIO_LAST", last)]}),
                *(Discipline(3, each, "tbf", {"rate": each, "burst": "x" * 300}) for each in range(bursts)),
            ]
        )[3]

    assert told(1) == told(1) != told(2) and len(told(1)) <= MAX_WORDS + len("taprio ")
    assert told(1, 20) == told(1, 20) != told(1, 21) and len(told(1, 20)) <= settings.MAX_DISCIPLINES


def test_of_a_devices_queues_all_are_told_or_none(monkeypatch, tmp_path: Path):
    queues = [tmp_path / f"tx-{number}" for number in range(70)]
    files = {str(path / "xps_cpus"): f"{1 << number:064x}" for number, path in enumerate(queues)}
    monkeypatch.setattr("glob.glob", lambda pattern: list(map(str, queues)) if "tx-" in pattern else [])
    monkeypatch.setattr(settings, "read_number", lambda path: 3)
    monkeypatch.setattr(settings, "read_text", files.get)

    def told() -> Any:
        held = settings.read_device_settings("eth1", 3)
        assert held is not None
        return held["xps_cpus"]

    first, last = told(), str(queues[-1] / "xps_cpus")
    files[last] = "0" * 64
    assert first != told() and len(told()) <= MAX_WORDS + 1
    del files[last]
    assert told() is None  # of one it is not known
    queues[:] = queues[:1] * (settings.MAX_QUEUES + 1)
    assert told() is None  # more than are read


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
        named, asked = nic_features.read_features("lo"), _offloads(tool, "lo")
        assert (named["rx-gro"], named["tx-tcp-segmentation"]) == (asked["gro"], asked["tso"])
        assert asked["rx_hash"] is named["rx-hashing"]
        assert nic_features.read_features("nobody0") == {}
