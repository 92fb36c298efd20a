"""hosts.yaml of a small testbed."""

from __future__ import annotations

GOOD = """\
testbed: bench
nodes:
  src1: {address: src1.lab, roles: [source]}
  uut: {address: uut.lab, roles: [uut], become: sudo}
  snk1: {address: snk1.lab, roles: [sink]}
streams:
  - {name: s1, source: src1/eth1, uut_in: eth1, uut_out: eth5, sink: snk1/eth1,
     source_ip: 198.18.1.1, sink_ip: 198.19.1.1, link_speed: 1Gbit}
platforms:
  raw: {driver: raw, forwarding: route}
defaults: {settle_s: 0}
"""
