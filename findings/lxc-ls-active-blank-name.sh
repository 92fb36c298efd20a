#!/bin/bash
# Tool: lxc-ls of LXC 5.0.2 (Debian packages lxc and liblxc1 1:5.0.2-1+deb12u4).
# Behaviour: a running container whose name holds a blank is missing in `lxc-ls --active`. `lxc-ls --running`,
# `lxc-ls` and `lxc-info` have it. So "active" is no superset of "running": --active reads names from the list of
# UNIX sockets of the kernel, the others ask each container.
# Output seen:
#   --active:  plain
#   --running: plain, web server
# Needs root, control groups that can be written to, and busybox (any version) as what runs inside.
set -euo pipefail

folder=$(mktemp -d)
tool() { LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu "$folder/usr/bin/$1" -P "$folder/lxc" "${@:2}"; }
cleanup() {
  for name in plain 'web server'; do tool lxc-stop -n "$name" -k >/dev/null 2>&1 || true; done
  rm -rf "$folder"
}
trap cleanup EXIT
cd "$folder"

for package in lxc liblxc1; do
  apt-get download "$package=1:5.0.2-1+deb12u4" >/dev/null 2>&1
done
for file in ./*.deb; do dpkg -x "$file" "$folder"; done

mkdir -p root/bin root/proc root/sys root/dev root/tmp rootfs lxc
cp "$(command -v busybox)" root/bin/sh
for name in plain 'web server'; do
  mkdir "lxc/$name"
  printf '%s\n' "lxc.rootfs.path = dir:$folder/root" "lxc.rootfs.mount = $folder/rootfs" 'lxc.net.0.type = empty' \
    >"lxc/$name/config"
  tool lxc-start -n "$name" -d -- /bin/sh -c 'while :; do sleep 1; done'
  tool lxc-wait -n "$name" -s RUNNING -t 20
done

active=$(tool lxc-ls -1 --active)
running=$(tool lxc-ls -1 --running)
echo "lxc-ls --active:  ${active//$'\n'/, }"
echo "lxc-ls --running: ${running//$'\n'/, }"
echo "lxc-info:         $(tool lxc-info -n 'web server' -sH)"

[ "$active" = plain ]
[ "$running" = $'plain\nweb server' ]
[ "$(tool lxc-info -n 'web server' -sH)" = RUNNING ]
echo "as stated: a running container with a blank in its name is not active"
