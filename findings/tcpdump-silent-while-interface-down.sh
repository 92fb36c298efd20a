#!/bin/bash
# Tool: tcpdump 4.99.3 with libpcap 1.10.3 (Debian packages tcpdump 4.99.3-1 and libpcap0.8 1.10.3-1), on Linux.
# Behaviour: a live capture whose interface is set down and up again goes on. Neither what tcpdump prints nor its exit
# status says that the interface was down in between. It ends by itself only when the interface is deleted: then with
# "The interface disappeared", exit status 1, and its usual counts behind that.
# Output seen:
#   down and up:  "listening on ...", then "3 packets captured" and the other counts, exit status 0
#   deleted:      "pcap_loop: The interface disappeared" before the counts, exit status 1
# Needs root for a network namespace of its own; no interface of the machine is touched.
set -euo pipefail

folder=$(mktemp -d)
space=lcfind-$$
cleanup() {
  ip netns del "$space" 2>/dev/null || true
  rm -rf "$folder"
}
trap cleanup EXIT
cd "$folder"

apt-get download tcpdump=4.99.3-1 libpcap0.8=1.10.3-1 >/dev/null 2>&1
for file in ./*.deb; do dpkg -x "$file" "$folder"; done
inside() { ip netns exec "$space" "$@"; }
capture() { LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu exec ip netns exec "$space" "$folder/usr/bin/tcpdump" "$@"; }

ip netns add "$space"
inside sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
inside ip link add one type veth peer name two
inside ip addr add 198.18.0.1/24 dev two
inside ip neigh add 198.18.0.2 lladdr 02:00:00:00:00:02 dev two
inside ip link set two up

start() { # FILE: a capture in the background that listens
  capture -nn -i one -w /dev/null -Z root udp 2>"$1" &
  pid=$!
  for _ in $(seq 100); do grep -q 'listening on' "$1" && return; sleep 0.1; done
  exit 1
}
inside ip link set one up
start first
inside ip link set one down
sleep 1
inside ip link set one up
inside ip neigh replace 198.18.0.2 lladdr 02:00:00:00:00:02 dev two
for _ in 1 2 3; do inside bash -c 'echo x >/dev/udp/198.18.0.2/9'; done
sleep 1.5
kill -INT "$pid"; status=0; wait "$pid" || status=$?
echo "down and up, exit status $status:"; cat first
[ "$status" = 0 ]
grep -qx '3 packets captured' first
[ "$(wc -l <first)" = 4 ]

start second
inside ip link del one
status=0; wait "$pid" || status=$?
echo "deleted, exit status $status:"; cat second
[ "$status" = 1 ]
grep -qx 'tcpdump: pcap_loop: The interface disappeared' second
grep -qx '0 packets captured' second
echo "as stated: only an interface that is deleted ends a capture"
