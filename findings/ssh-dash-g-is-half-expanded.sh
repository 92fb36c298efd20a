#!/usr/bin/env bash
# What: `ssh -G`, openssh-client 1:9.2p1-2+deb12u10 (Debian 12).
#
# `ssh -G` prints "the configuration after evaluation", but only half of it is expanded, and it cannot be read back:
# - the same path comes out with ~ and tokens replaced in UserKnownHostsFile, ControlPath and IdentityAgent, and as it
#   is in the file in IdentityFile, CertificateFile, RevokedHostKeys and GlobalKnownHostsFile;
# - the files of UserKnownHostsFile are printed in one line without quotes: a path with a blank looks like two files;
# - ~ becomes the home directory of the password database, whatever $HOME says.
#
# Seen (as the user with the home directory HOMEDIR, for the host uut):
#   userknownhostsfile HOMEDIR/x/uut          identityfile ~/x/%h
#   controlpath HOMEDIR/x/uut                 certificatefile ~/x/%h
#   identityagent HOMEDIR/x/uut               revokedhostkeys ~/x/%h
#                                             globalknownhostsfile ~/x/%h
#   userknownhostsfile /my keys/a /b          (from two files: "/my keys/a" and /b)
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download openssh-client=1:9.2p1-2+deb12u10 >/dev/null 2>&1
dpkg -x openssh-client_*.deb deb
deb/usr/bin/ssh -V 2>&1
home=$(getent passwd "$(id -u)" | cut -d: -f6)
expanded="userknownhostsfile controlpath identityagent"
unexpanded="identityfile certificatefile revokedhostkeys globalknownhostsfile"
for keyword in $expanded $unexpanded; do
    printf '%s ~/x/%%h\n' "$keyword" >>config
done
HOME=/nonexistent deb/usr/bin/ssh -G -F config -- uut >printed 2>/dev/null </dev/null
for keyword in $expanded; do
    grep -x "$keyword $home/x/uut" printed
done
for keyword in $unexpanded; do
    grep -x "$keyword ~/x/%h" printed
done
printf 'UserKnownHostsFile "/my keys/a" /b\n' >config
deb/usr/bin/ssh -G -F config -- uut 2>/dev/null </dev/null | grep -x 'userknownhostsfile /my keys/a /b'
