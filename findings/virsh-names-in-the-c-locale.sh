#!/usr/bin/env bash
# What: virsh of libvirt 9.0.0 (Debian libvirt-clients and libvirt0 9.0.0-4+deb12u2), with libvirt's own test hypervisor.
#
# Behaviour: the table of `virsh list` escapes what the locale cannot print. Under LC_ALL=C, which scripts set to get
# English words, every byte beyond ASCII becomes the same four characters \xff, whatever it was. Two domains whose names
# differ only in such letters have the same row, and neither name can be given back to virsh. `virsh list --name` prints
# the bytes themselves in any locale. A backslash in a name is printed as \x5c. Blanks at the beginning of a name are
# kept, and those at its end cannot be told from the column's.
#
# Seen:
#   $ LC_ALL=C virsh 'list --all'                       ->  r\xff\xffle twice
#   $ LC_ALL=C virsh 'list --all --name'                ->  both names as they are
#   $ LC_ALL=C.UTF-8 virsh 'list --all'                 ->  both names as they are
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
apt-get download -qq libvirt-clients=9.0.0-4+deb12u2 libvirt0=9.0.0-4+deb12u2 2>/dev/null
for package in *.deb; do dpkg -x "$package" root; done
export LD_LIBRARY_PATH=$work/root/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || echo x86_64-linux-gnu)
virsh() { "$work/root/usr/bin/virsh" -c test:///default "$@"; }
[ "$(virsh --version)" = 9.0.0 ]

number=0
for name in rôle réle 'r\xffle' '  role ' ' role'; do
  number=$((number + 1))
  echo "<domain type='test'><name>$name</name><memory>8192</memory><os><type>hvm</type></os></domain>" > "$number.xml"
done
define='define 1.xml; define 2.xml; define 3.xml; define 4.xml; define 5.xml'

LC_ALL=C virsh "$define; list --all" | tee table
[ "$(grep -cF ' r\xff\xffle ' table)" = 2 ]
[ "$(grep -cF ' r\x5cxffle ' table)" = 1 ]
LC_ALL=C virsh "$define; list --all --name" | tee names
for name in rôle réle 'r\xffle' '  role ' ' role'; do grep -qxF "$name" names; done
LC_ALL=C.UTF-8 virsh "$define; list --all" | tee table
grep -qF ' rôle ' table
grep -qF ' réle ' table
echo "under LC_ALL=C the table has one word for two names"
