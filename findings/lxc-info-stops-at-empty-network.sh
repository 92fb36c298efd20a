#!/bin/bash
# Tool: lxc-info of LXC 5.0.2 (Debian packages lxc and liblxc1 1:5.0.2-1+deb12u4).
# Behaviour: `lxc-info -n NAME` of a running container prints a line "Link:" for each of its networks, by number, and
# ends the list without a word at the first one of type "empty". The veth NICs behind it exist and carry frames, and
# are not shown: who takes the lines for all NICs of the container gives later ones no end on the host.
# Output seen:
#   networks veth, empty, veth: one line Link:  (lcfind0)
#   networks veth, veth, empty: two lines Link: (lcfind0, lcfind1)
# Needs root, control groups that can be written to, and busybox (any version) as what runs inside.
set -euo pipefail

folder=$(mktemp -d)
tool() { LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu "$folder/usr/bin/$1" -P "$folder/lxc" "${@:2}"; }
cleanup() {
  for name in middle last; do tool lxc-stop -n "$name" -k >/dev/null 2>&1 || true; done
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

links() { # NAME TYPE TYPE TYPE: the ends on the host that lxc-info shows
  local name=$1 number=0 veths=0 type
  mkdir "lxc/$name"
  {
    printf '%s\n' "lxc.rootfs.path = dir:$folder/root" "lxc.rootfs.mount = $folder/rootfs"
    for type in "${@:2}"; do
      echo "lxc.net.$number.type = $type"
      if [ "$type" = veth ]; then echo "lxc.net.$number.veth.pair = lcfind$((veths++))"; fi
      number=$((number + 1))
    done
  } >"lxc/$name/config"
  tool lxc-start -n "$name" -d -- /bin/sh -c 'while :; do sleep 1; done'
  tool lxc-wait -n "$name" -s RUNNING -t 20
  ip link show lcfind0 >/dev/null && ip link show lcfind1 >/dev/null
  tool lxc-info -n "$name" | sed -n 's/^Link: *//p' | tr '\n' ' '
  tool lxc-stop -n "$name" -k
}

middle=$(links middle veth empty veth)
last=$(links last veth veth empty)
echo "veth, empty, veth: Link: $middle"
echo "veth, veth, empty: Link: $last"
[ "$middle" = 'lcfind0 ' ]
[ "$last" = 'lcfind0 lcfind1 ' ]
echo "as stated: the list ends at the empty network"
