#!/usr/bin/env bash
# What: Linux UDP (6.18), and how it counts datagrams for an address of the machine that no program wants.
# Behaviour: without a socket on their port the kernel answers with ICMP port unreachable (over loopback each of them: the
#   rate limit is for other interfaces). A bound socket that nobody reads ends the answers, fills, and counts
#   RcvbufErrors and InErrors. A bound socket whose filter drops everything queues nothing, but each datagram counts as
#   InErrors, "packet receive errors" of netstat, as damaged ones do: a healthy sink looks faulty. A capture sees all.
# Needs: root, or user namespaces.
# Output seen:
#   no socket: answers 300, NoPorts 300, InErrors 0, RcvbufErrors 0, captured 300
#   not read: answers 0, NoPorts 0, InErrors 291, RcvbufErrors 291, captured 300
#   drops all: answers 0, NoPorts 0, InErrors 300, RcvbufErrors 0, captured 300
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
cat > "$folder/try.py" <<'PY'
import ctypes, socket, struct, subprocess, sys

SO_ATTACH_FILTER, TO = 26, ("192.0.2.1", 9)

def counts():
    rows = [row.split() for row in open("/proc/net/snmp") if row.startswith(("Icmp:", "Udp:"))]
    found = {(names[0], name): int(n) for names, ns in zip(rows[::2], rows[1::2]) for name, n in zip(names[1:], ns[1:])}
    keys = ("Icmp:", "OutDestUnreachs"), ("Udp:", "NoPorts"), ("Udp:", "InErrors"), ("Udp:", "RcvbufErrors")
    return [found[key] for key in keys]

def holder(how):
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    if how == "drops all":
        line = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0))
        opened.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(line)))
    opened.bind(("0.0.0.0", 0) if how == "no socket" else TO)
    return opened

subprocess.run("ip link set lo up; ip address add 192.0.2.1/32 dev lo", shell=True, check=True)
sender, seen = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), {}
for how in ("no socket", "not read", "drops all"):
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
    tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    tap.setblocking(False)
    captured = 0
    with holder(how):
        before = counts()
        for _ in range(300):
            sender.sendto(bytes(18), TO)
            while True:
                try:
                    packet, origin = tap.recvfrom(64)
                except BlockingIOError:
                    break
                captured += origin[2] != socket.PACKET_OUTGOING and packet[9] == socket.IPPROTO_UDP
        answers, no_ports, errors, full = seen[how] = [new - old for new, old in zip(counts(), before)]
    print(f"{how}: answers {answers}, NoPorts {no_ports}, InErrors {errors}, RcvbufErrors {full}, captured {captured}")
    seen[how].append(captured)
filled = seen.pop("not read")
right = {"no socket": [300, 300, 0, 0, 300], "drops all": [0, 0, 300, 0, 300]}
sys.exit(0 if seen == right and filled[:2] == [0, 0] and filled[2] == filled[3] > 0 and filled[4] == 300 else 1)
PY
echo "Linux $(uname -r)"
new=(unshare -n); [ "$(id -u)" = 0 ] || new=(unshare -rn)
"${new[@]}" python3 "$folder/try.py"
