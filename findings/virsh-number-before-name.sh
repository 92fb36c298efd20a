#!/usr/bin/env bash
# What: virsh of libvirt 9.0.0 (Debian libvirt-clients and libvirt0 9.0.0-4+deb12u2), with libvirt's own test hypervisor.
#
# Behaviour: every command that takes a domain reads a word of digits as the ID of a running domain, and a word of 36
# characters as a UUID, before it looks for a domain of that name. A domain may be called "1": while another domain has
# the ID 1, commands for "1" act on that other domain, and the one of that name cannot be named at all. When no domain
# has the ID, the same command acts on the domain of that name. No warning is printed. The same goes for a name that is
# the UUID of another domain.
#
# Seen:
#   $ virsh 'define one.xml; list --all; dominfo 1; suspend 1; list --all'
#   the row of "test" (ID 1) turns from "running" to "paused"; the row "-    1" stays "shut off"
#   $ virsh 'define uuid.xml; domstate UUID-OF-TEST'    -> running, though the domain of that name is shut off
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
apt-get download -qq libvirt-clients=9.0.0-4+deb12u2 libvirt0=9.0.0-4+deb12u2 2>/dev/null
for package in *.deb; do dpkg -x "$package" root; done
export LC_ALL=C LD_LIBRARY_PATH=$work/root/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || echo x86_64-linux-gnu)
virsh() { "$work/root/usr/bin/virsh" -c test:///default "$@"; }
[ "$(virsh --version)" = 9.0.0 ]

domain() {
  echo "<domain type='test'><name>$1</name><memory>8192</memory><os><type>hvm</type></os></domain>"
}
uuid=$(virsh domuuid test | grep .)
domain 1 > one.xml
domain "$uuid" > uuid.xml

virsh 'define one.xml; list --all; dominfo 1; suspend 1; list --all' | tee said
[ "$(grep -c '^ 1 *test *running$' said)" = 1 ]
[ "$(grep -c '^ 1 *test *paused$' said)" = 1 ]
[ "$(grep -c '^ - *1 *shut off$' said)" = 2 ]
grep -q '^Name: *test$' said

echo "With no domain of the ID 1:"
virsh 'define one.xml; destroy test; dominfo 1' | tee said
grep -q '^Name: *1$' said

echo "A domain that is called as another's UUID:"
virsh "define uuid.xml; list --all; domstate $uuid" | tee said
grep -q "^ - *$uuid *shut off$" said
[ "$(grep -v '^$' said | tail -1)" = running ]
echo "virsh acts on the ID or the UUID, not on the name"
