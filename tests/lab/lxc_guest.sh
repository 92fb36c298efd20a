# What an operator would have done on the UUT: two bridges, and a container of LXC's that routes from one to the other.
# Arguments: the containers' directory, the sink's MAC.
set -e
path=$1 sink=$2 root=$1/fw/rootfs
for side in in:eth1 out:eth5; do
  bridge=br-${side%%:*}
  ip link add "$bridge" type bridge mcast_snooping 0
  echo 1 > "/proc/sys/net/ipv6/conf/$bridge/disable_ipv6" 2>/dev/null || true
  ip link set "$bridge" up
  ip link set "${side##*:}" master "$bridge"
done
mkdir -p "$root/bin" "$root/proc" "$root/sys" "$root/dev" "$root/tmp" "$root/etc"
cp /bin/busybox "$root/bin/busybox"
for applet in sh sleep uname ip arp; do ln -s busybox "$root/bin/$applet"; done
cat > "$root/bin/rc" <<END
#!/bin/sh
trap 'exit 0' TERM PWR INT
ip route add 198.18.1.1/32 dev eth0
ip route add 198.19.1.1/32 dev eth1
arp -i eth1 -s 198.19.1.1 $sink
while :; do sleep 1; done
END
chmod 755 "$root/bin/rc"
cat > "$path/fw/config" <<END
lxc.uts.name = fw
lxc.rootfs.path = dir:$root
lxc.init.cmd = /bin/rc
lxc.mount.auto = proc:rw sys:ro
lxc.apparmor.profile = unconfined
lxc.sysctl.net.ipv4.ip_forward = 1
lxc.sysctl.net.ipv6.conf.all.disable_ipv6 = 1
lxc.net.0.type = veth
lxc.net.0.link = br-in
lxc.net.0.veth.pair = vc-in
lxc.net.0.name = eth0
lxc.net.0.hwaddr = 02:00:00:00:0a:01
lxc.net.0.flags = up
lxc.net.1.type = veth
lxc.net.1.link = br-out
lxc.net.1.name = eth1
lxc.net.1.hwaddr = 02:00:00:00:0a:02
lxc.net.1.flags = up
END
