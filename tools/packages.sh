#!/bin/sh
# Make sure that Debian packages are there: names what is missing, installs it when root, says what to type when not.
set -eu
missing=""
for package in "$@"; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" -eq 0 ]; then
    echo "installing Debian packages:$missing"
    # A list may be there already; an old one only fails at the install, so try that first.
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1 || {
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
    }
else
    echo "these Debian packages are missing:$missing" >&2
    echo "you are not root; type:  sudo apt-get install$missing" >&2
    exit 1
fi
