"""Plan files of a few lines, and a testbed that they fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labconsole.model.inventory import Inventory
from labconsole.model.plan.loader import load_plan
from labconsole.model.plan.plan import Plan

BASE = """\
plan: dedicated
platforms: [raw, kvm]
frame_sizes:
  - 64
  - 1500
targets: [10Mbit, 1Gbit, max]
sources: [1, 2]
duration_s: 10
repetitions: 3
"""
INVENTORY = Inventory.model_validate(
    {
        "testbed": "t",
        "nodes": {
            "src": {"address": "a", "roles": ["source"]},
            "uut": {"address": "b", "roles": ["uut"]},
            "snk": {"address": "c", "roles": ["sink"]},
        },
        "streams": [
            {
                "name": f"s{i}",
                "source": f"src/eth{i}",
                "uut_in": f"eth{i}",
                "uut_out": f"eth{i + 4}",
                "sink": f"snk/eth{i}",
                "source_ip": f"198.18.{i}.1",
                "sink_ip": f"198.19.{i}.1",
                "link_speed": "1Gbit",
            }
            for i in (1, 2, 3)
        ],
        "platforms": {"raw": {"driver": "raw"}, "kvm": {"driver": "libvirt"}},
        "defaults": {"settle_s": 5, "drain_s": 2, "generator": "pktgen", "observe": "live"},
    }
)

LISTED = """\
plan: odd
duration_s: 10
repetitions: 2
points:
  - {platform: raw, frame_size: 64, target: 10Mbit}
  - {platform: kvm, frame_size: 64, target: 10Mbit, repetitions: 3}
  - {platform: raw, frame_size: 1500, target: max, sources: 2, duration_s: 2, generator: afpacket}
"""


def load(text: str, tmp_path: Path, **options: Any) -> Plan:
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    return load_plan(path, **options)


MATRIX = """\
plan: blocks
platforms: [raw, container]
frame_sizes: [64, 1500]
targets: [10Mbit, 20Mbit]
backgrounds: [none, idle, forwarding-50]
duration_s: 1
settle_s: 0
drain_s: 0.2
"""
