"""A lab whose guests do something more in their start, so that how long it takes or what it needs is known beforehand."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from labconsole.lab.guests.guest_image import INIT
from labconsole.lab.images import Archive

MIB = 2**20
TOUCHED_BYTES = 64 * MIB
TOUCH = f"( head -c {TOUCHED_BYTES} /dev/zero; sleep 1000 ) | tail -c {TOUCHED_BYTES} >/dev/null &"
"""Its buffer holds all of it, and every byte of it is written."""

LEFT_KIB = 1536
FILL = f"""mount -o remount,size=100% /tmp
echo 256 >/proc/sys/vm/min_free_kbytes
for part in 1 2 3 4 5 6 7 8; do
while read name free unit; do [ $name = MemFree: ] && break; done </proc/meminfo
[ $free -gt {LEFT_KIB} ] && head -c $(( (free - {LEFT_KIB}) * 1024 )) /dev/zero >/tmp/filled$part
sleep 0.2
done"""
"""All memory but 1.5 MiB of a guest that has a kernel of its own. What a kernel freed in its start is still its host's, and
a file of a known size takes an unknown part of it: so only of a guest that has none left it is known what it holds."""


def inventory_of(hosts: Path) -> dict[str, Any]:
    """What hosts.yaml says."""
    data: dict[str, Any] = YAML(typ="safe").load(hosts.read_text())
    return data


def told_otherwise(hosts: Path, directory: Path, platform: str, **options: str) -> Path:
    """The testbed with other options of a platform."""
    data = inventory_of(hosts)
    data["platforms"][platform] |= options
    path = directory / f"{platform}.yaml"
    path.write_text(json.dumps(data))
    return path


def with_start(hosts: Path, directory: Path, platform: str, line: str, more_bytes: int = 0) -> Path:
    """The testbed with guests of a platform that run a line of shell before they say that they are there.

    ``more_bytes``: of a file in what a machine loads, all of which it reads.
    """
    key = "crew_root" if platform == "lxc" else "initrd"
    original = inventory_of(hosts)["platforms"][platform][key]
    made = hosts.parent / f"{directory.name}-{platform}-{key}"  # nodes have a /tmp of their own
    if platform == "lxc":
        shutil.copytree(original, made, symlinks=True)
        (made / "bin" / "sh").unlink()
        (made / "bin" / "sh").write_text(f'#!/bin/busybox sh\n{line}\nexec /bin/busybox sh "$@"\n')
        (made / "bin" / "sh").chmod(0o755)
    else:
        more = Archive()
        more.file("init", INIT.replace("stty -echo", f"{line}\nstty -echo").encode(), executable=True)
        if more_bytes:
            more.file("more", os.urandom(more_bytes))
        made.write_bytes(Path(original).read_bytes() + more.finish())
    return told_otherwise(hosts, directory, platform, **{key: str(made)})
