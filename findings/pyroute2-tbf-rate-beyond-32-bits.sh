#!/usr/bin/env bash
# What: pyroute2 0.9.7 and the kernel's token bucket filter (tbf), beside its class of htb, which has rates of 64 bits.
# Behaviour: tbf's rate is the old field of 32 bits only. From 4 294 967 296 bytes/s (34.36 Gbit/s) on, to set one ends
#   in struct.error before anything is sent. A faster filter that tc has made is read back as exactly 4294967295, and
#   the attribute with the true rate (TCA_TBF_RATE64, kernel 3.13) is shown as UNKNOWN: no error, a wrong number.
#   For htb the same rate can be set; parms.rate then says 4294967295 too, and TCA_HTB_RATE64 the truth.
# Needs: root, or user namespaces; iproute2 (tc) on the machine.
# Output seen (Linux 6.18, iproute2 6.1):
#   tbf set 5000000000: struct.error
#   tbf made by tc with 40Gbit: tc says 5000000000, pyroute2 says 4294967295, unknown attributes 1
#   htb set 5000000000: rate 4294967295, rate64 5000000000
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --root-user-action ignore --no-deps --target "$folder/lib" pyroute2==0.9.7
cat > "$folder/try.py" <<'PY'
import json, struct, subprocess, sys
from pyroute2 import IPRoute

RATE, FIELD = 5_000_000_000, 2**32 - 1
subprocess.run("ip link add name a0 type veth peer name a1".split(), check=True)
with IPRoute() as route:
    index = route.link_lookup(ifname="a0")[0]
    try:
        route.tc("add", "tbf", index, 0x10000, rate=RATE, burst=5_000_000, limit=250_000_000)
        refused = "none"
    except struct.error:
        refused = "struct.error"
    print(f"tbf set {RATE}: {refused}")
    subprocess.run("tc qdisc add dev a0 root tbf rate 40Gbit burst 5000000 limit 250000000".split(), check=True)
    shown = json.loads(subprocess.check_output("tc -j qdisc show dev a0".split()))[0]["options"]["rate"]
    (found,) = (each for each in route.get_qdiscs(index=index) if each.get_attr("TCA_KIND") == "tbf")
    options = found.get_attr("TCA_OPTIONS")
    rate = options.get_attr("TCA_TBF_PARMS")["rate"]
    unknown = sum(each[0] == "UNKNOWN" for each in options["attrs"])
    print(f"tbf made by tc with 40Gbit: tc says {shown}, pyroute2 says {rate}, unknown attributes {unknown}")
    subprocess.run("tc qdisc del dev a0 root".split(), check=True)
    route.tc("add", "htb", index, 0x10000, default=0)
    route.tc("add-class", "htb", index, 0x10001, parent=0x10000, rate=RATE, ceil=RATE, burst=5_000_000)
    (kept,) = (each.get_attr("TCA_OPTIONS") for each in route.get_classes(index=index))
    old, new = kept.get_attr("TCA_HTB_PARMS")["rate"], kept.get_attr("TCA_HTB_RATE64")
    print(f"htb set {RATE}: rate {old}, rate64 {new}")
same = (refused, shown, rate, unknown, old, new) == ("struct.error", RATE, FIELD, 1, FIELD, RATE)
sys.exit(0 if same else 1)
PY
echo "Linux $(uname -r), $(tc -V)"
new=(unshare -n); [ "$(id -u)" = 0 ] || new=(unshare -rn)
PYTHONPATH="$folder/lib" "${new[@]}" python3 "$folder/try.py"
