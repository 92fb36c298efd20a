#!/bin/bash
# What: packets that an XDP program drops on a veth interface, in the counters of Linux (seen with 6.18) as ethtool
# 6.1 and iproute2 6.1 print them.
#
# Behaviour: ip -s link never says "dropped". In native mode (xdpdrv) a dropped packet counts as received, and only
# the driver's own statistic rx_queue_0_xdp_drops tells (ethtool -S). In generic mode (xdpgeneric) it counts as
# received, too, and no statistic of the interface or of its driver tells that it is gone.
#
# Output seen (100 frames sent each time):
#     native:  received 100, dropped 0, driver's xdp_drops 100
#     generic: received 100, dropped 0, driver's xdp_drops 0
# Needs root; the kernel is the machine's, so the script says which one it is. Ends with 1 if it behaves otherwise.
set -euo pipefail
place=$(mktemp -d)
ns=xdp-drops-$$
trap 'ip netns del "$ns" 2>/dev/null || true; rm -rf "$place"' EXIT
cd "$place"
apt-get -qq -o APT::Sandbox::User=root download ethtool=1:6.1-1
dpkg -x ethtool_*.deb tools
echo "kernel $(uname -r), $(tools/sbin/ethtool --version)"
ip netns add "$ns"
run() { ip netns exec "$ns" "$@"; }
cat > frames.py <<'PYTHON'
"""frames.py attach MODE (2 generic, 4 native) | send: a program that drops all, and 100 frames to be dropped."""
import ctypes, os, socket, struct, sys
if sys.argv[1] == "send":
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
        out.bind(("one", 0))
        for _ in range(100):
            out.send(b"\xff" * 6 + b"\x02" * 6 + b"\x88\xb5" + bytes(50))
    sys.exit()
code = ctypes.create_string_buffer(struct.pack("<BBhiBBhi", 0xB7, 0, 0, 1, 0x95, 0, 0, 0))  # r0 = XDP_DROP; exit
licence = ctypes.create_string_buffer(b"GPL")
words = struct.pack("<IIQQ", 6, 2, ctypes.addressof(code), ctypes.addressof(licence)) + bytes(96)
number = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
program = ctypes.CDLL(None).syscall(number, 5, ctypes.create_string_buffer(words), 120)
assert program >= 0, "the kernel does not load the program"
inner = struct.pack("<HHiHHI", 8, 1, program, 8, 3, int(sys.argv[2]))
body = struct.pack("<BxHiII", 0, 0, socket.if_nametoindex("two"), 0, 0) + struct.pack("<HH", 20, 0x8000 | 43) + inner
with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as route:
    route.send(struct.pack("<IHHII", 16 + len(body), 19, 5, 1, 0) + body)
    assert struct.unpack_from("<i", route.recv(4096), 16)[0] == 0, "the interface does not take the program"
PYTHON
counts() {
    run cat /proc/net/dev | awk -F'[: ]+' '$2 == "two" {printf "received %s, dropped %s, ", $4, $6}'
    run tools/sbin/ethtool -S two | awk '/rx_queue_0_xdp_drops/ {print "driver'"'"'s xdp_drops " $2}'
}
for mode in native:4:100 generic:2:0; do
    IFS=: read -r name flag expected <<< "$mode"
    run ip link add one numrxqueues 1 type veth peer name two numrxqueues 1
    run sysctl -qw net.ipv6.conf.one.disable_ipv6=1 net.ipv6.conf.two.disable_ipv6=1
    run ip link set one up; run ip link set two up
    run python3 frames.py attach "$flag"
    run python3 frames.py send; sleep 0.5
    seen=$(counts); echo "$name: $seen"
    [ "$seen" = "received 100, dropped 0, driver's xdp_drops $expected" ]
    run ip link del one
done
