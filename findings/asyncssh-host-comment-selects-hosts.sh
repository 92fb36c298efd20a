#!/usr/bin/env bash
# What: asyncssh 2.24.1 (PyPI) and openssh-client 1:9.2p1-2+deb12u10 (Debian 12) on the same ssh_config lines.
#
# asyncssh takes every word after `Host` for a pattern, the words of a comment too, and a comma for a separator. The
# block then also applies to a host that only its comment mentions, without an error: another port, user or key file.
# On other lines the same kind of comment is an error, and so is a `=` within the quoted command of `Match exec`.
# OpenSSH ends a line at a word that starts with #, splits `Host` at blanks alone, and reads the quoted command as it is.
#
# Seen:
#   Host uut # not the gateway      for gateway: asyncssh 2204, ssh 22
#   Host a,uut                      for uut:     asyncssh 2204, ssh 22
#   Port 2204 # not 22              for uut:     asyncssh refused, ssh 2204
#   Match exec "test %n = uut"      for uut:     asyncssh refused, ssh 2204
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/pip install --quiet --disable-pip-version-check asyncssh==2.24.1
apt-get download openssh-client=1:9.2p1-2+deb12u10 >/dev/null 2>&1
dpkg -x openssh-client_*.deb deb
deb/usr/bin/ssh -V 2>&1

cat >read.py <<'PYTHON'
import sys

from asyncssh.config import ConfigParseError, SSHClientConfig

try:
    config = SSHClientConfig.load(None, "config", False, False, False, "me", (), sys.argv[1], ())
    print(config.get("Port", 22))
except ConfigParseError:
    print("refused")
PYTHON

check() { # host, expected of asyncssh, expected of ssh; the file comes from stdin
    cat >config
    local library client
    library=$(env/bin/python read.py "$1")
    client=$(deb/usr/bin/ssh -G -F config -- "$1" 2>/dev/null </dev/null | sed -n 's/^port //p')
    printf '%-34s for %-8s asyncssh %s, ssh %s\n' "$(head -n 1 config)" "$1:" "$library" "$client"
    [ "$library" = "$2" ] && [ "$client" = "$3" ]
}
printf 'Host uut # not the gateway\n Port 2204\n' | check gateway 2204 22
printf 'Host a,uut\n Port 2204\n' | check uut 2204 22
printf 'Port 2204 # not 22\n' | check uut refused 2204
printf 'Match exec "test %%n = uut"\n Port 2204\n' | check uut refused 2204
