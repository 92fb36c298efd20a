"""Limits of guests that the agent started: allowed CPUs and control group limits, from the UUT's kernel."""

from __future__ import annotations

import re
from collections.abc import Sequence

from labconsole.contracts.ports import AgentLink
from labconsole.wire.execution import Execute

_ASK_S = 10.0
_SEEN = re.compile(r"^(\d{1,10}) ([a-z_.]{1,40}) ([\w ,-]{1,200})$", re.MULTILINE)

_LOOK = """\
for guest; do
  pid=$guest
  for child in $(cat "/proc/$guest/task/$guest/children" 2>/dev/null); do pid=$child; break; done
  while read -r key value; do
    case $key in Cpus_allowed_list:) echo "$guest cpus $value";; esac
  done <"/proc/$pid/status"
  while IFS=: read -r number controllers path; do
    case $number:$controllers in
      0:) group=/sys/fs/cgroup$path;;
      *:cpu|*:cpu,cpuacct|*:memory) group=/sys/fs/cgroup/$controllers$path;;
      *) continue;;
    esac
    for file in cpu.shares cpu.cfs_quota_us memory.limit_in_bytes cpu.weight cpu.max memory.max; do
      if read -r value 2>/dev/null <"$group/$file"; then echo "$guest $file $value"; fi
    done
  done <"/proc/$pid/cgroup"
done"""
"""Limits of a guest or of its first child: a container's first process is below the program that made it."""


async def read_limits(uut: AgentLink, pids: Sequence[str]) -> dict[str, dict[str, str]]:
    """Contents of each file by process (``cpus``: the allowed CPUs). Raises NodeError."""
    read = await uut.ask(Execute(argv=["sh", "-c", _LOOK, "sh", *pids], timeout_s=_ASK_S))
    seen: dict[str, dict[str, str]] = {pid: {} for pid in pids}
    for pid, key, value in _SEEN.findall(read.stdout):
        seen.setdefault(pid, {}).setdefault(key, value)
    return seen
