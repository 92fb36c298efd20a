"""A hosts.yaml to be filled in: every key with its unit and an example. Pure."""

from __future__ import annotations

from labconsole.engine.discovery.hosts_text import PLATFORMS

BLANK = f"""\
# A testbed for labconsole, to be filled in: every line that ends in a colon needs a value. Lines with a `#` before them
# are optional, and say what is assumed without them.
#
#     src1/eth1 ── uut/eth1   uut/eth2 ── snk1/eth1        stream s1
#
# `labconsole check --hosts FILE` reads this file, names the first line that is wrong, and says whether the testbed is
# fit to measure on. `labconsole discover` writes such a file by itself, from the cables that it finds.

# A name for this testbed: letters, digits, '.', '_', '-'. It stands in every record, and a report never averages runs
# of different testbeds.
testbed:

# true where this is not hardware: every run then says so.
# emulated: false

# Every machine that takes part, by a name that you choose. There is exactly one with the role uut, the unit under test.
nodes:
  uut:
    # What you type after `ssh`: a host name, an address or a Host alias of ~/.ssh/config. The agent needs root there
    # and Python 3.9 or newer; nothing is installed.
    address:
    roles: [uut]
    # user: root                  # else as ~/.ssh/config says
    # port: 22                    # 1 to 65535; else as ~/.ssh/config says
    # key: ~/.ssh/lab_ed25519     # file of the private key; else as ~/.ssh/config says
    # jump: gateway.example.org   # log in by way of this host, or of another node
    # become: sudo                # the user is not root: sudo must not ask for a password
    # python: python3             # command of the interpreter
  src1:
    address:
    roles: [source]               # a machine may be [source, sink], and serve several streams
    # generator_cpus: [2, 3]      # CPUs of a source that may send; else any
  snk1:
    address:
    roles: [sink]                 # needs tcpdump
    # capture_dir: /var/tmp       # where a capture is kept until it is counted; needs room

# The paths of test frames: from a source's interface into the UUT by uut_in, out of it by uut_out, to a sink's
# interface. No two streams share an interface, and none may be the one that SSH uses.
streams:
  - name: s1
    source:                       # node/interface, such as src1/eth1
    uut_in:                       # interface of the UUT, such as eth1
    uut_out:                      # interface of the UUT, such as eth2
    sink:                         # node/interface, such as snk1/eth1
    source_ip: 198.18.1.1         # in 198.18.0.0/15, which RFC 2544 sets aside for tests; need not be configured
    sink_ip: 198.19.1.1
    # link_speed: 1Gbit           # of the slowest link, bit/s: 100Mbit, 1Gbit, 10Gbit …; a target above it is refused

{PLATFORMS}
# What a request does not say. Each line shows what is assumed without it.
defaults:
  # Seconds of rest between two trials (0 to 600), and how many seconds counters have to stand still before a trial is
  # closed (0.1 to 60).
  settle_s: 5
  drain_s: 2
  # auto: the kernel's pktgen where a source has it, else labconsole's own sender. Or: pktgen, afpacket.
  # generator: auto
  # quiet: the UUT says nothing over the network while frames are counted. live: it keeps reporting, which costs it.
  # observe: quiet
  # auto: the UUT's kernel is asked why it drops test packets. on: whatever that costs.
  # drop_reasons: off
  # on: the sinks' kernels count and time every packet.
  # packet_times: off
  # true: frame sizes include the 4 bytes of the frame check sequence, as in RFC 2544.
  # frame_size_includes_fcs: false
  # The stream of a second guest beside the measured one, by its name; else the last one.
  # background_stream: s2
  # SSH's configuration, and its file of known host keys (else as the configuration says). Host keys are always checked:
  # log in once with `ssh` first.
  # ssh_config: ~/.ssh/config
  # known_hosts: ~/.ssh/known_hosts
  # Seconds within which a node has to be reached (up to 120).
  # connect_timeout_s: 10
  # Seconds between two readings of counters (0.02 to 10).
  # sample_interval_s: 0.1
  # Buffer of a sink's capture, KiB (64 to 4194304).
  # capture_buffer_kib: 65536
"""
