"""What guests use of the UUT's memory, by four witnesses: what is available, their processes, their control groups, and
the hypervisor's own word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from labconsole.contracts.crew import HypervisorWord
from labconsole.contracts.ports import AgentLink
from labconsole.wire.execution import Execute

KIB = 1024
_ASK_S = 60.0
_FIGURE = re.compile(r"^(MemAvailable|pswpin|pswpout|ksm_run|ksm_pages_sharing):?\s+(\d{1,19})\b", re.MULTILINE)
_USED = re.compile(r"^(\d{1,10}) (pss_kib|group_bytes) (\d{1,19})$", re.MULTILINE)

_LOOK = """\
cat /proc/meminfo /proc/vmstat
for file in run pages_sharing; do echo "ksm_$file $(cat /sys/kernel/mm/ksm/$file)"; done 2>/dev/null
:"""

# Pages that several processes share are divided among them. A group of the agent's, LXC's or libvirt's is the guest's
# own; of a container the program that made it comes first, and has another: the last one counts.
_OF_GUESTS = """\
for guest; do
  pids=$guest total= group=
  while test "$pids"; do
    next=
    for pid in $pids; do
      while read -r key value rest; do
        case $key in Pss:) total=$((total + value));; esac
      done <"/proc/$pid/smaps_rollup"
      while IFS=: read -r number controllers path; do
        case $number:$controllers:$path in
          0::*/labconsole-*|0::*/lxc.payload.*|0::*/machine-*) file=/sys/fs/cgroup$path/memory.current;;
          *:memory:*/labconsole-*|*:memory:*/lxc.payload.*|*:memory:*/lxc/*|*:memory:*/machine-*)
            file=/sys/fs/cgroup/memory$path/memory.usage_in_bytes;;
          *) continue;;
        esac
        read -r value <"$file" && group=$value
      done <"/proc/$pid/cgroup"
      next="$next $(cat /proc/$pid/task/*/children)"
    done
    pids=$(echo $next)
  done 2>/dev/null
  test "$total" && echo "$guest pss_kib $total"
  test "$group" && echo "$guest group_bytes $group"
done
:"""


@dataclass(frozen=True, slots=True)
class MemoryLook:
    """The UUT at one moment. None: it does not say. ``swapped_pages``: moved since it was started. ``word``: its
    hypervisor's.
    """

    available_bytes: int | None = None
    swapped_pages: int | None = None
    ksm_run: int | None = None
    ksm_pages_sharing: int | None = None
    word: HypervisorWord | None = None


@dataclass(frozen=True, slots=True)
class GuestsMemory:
    """Process to what it and its descendants use, in bytes."""

    pss_bytes: dict[int, int] = field(default_factory=dict)
    group_bytes: dict[int, int] = field(default_factory=dict)


async def look(uut: AgentLink) -> MemoryLook:
    """Raises NodeError."""
    return parse_look((await uut.ask(Execute(argv=["sh", "-c", _LOOK], timeout_s=_ASK_S))).stdout)


async def look_at_guests(uut: AgentLink, pids: Iterable[int]) -> GuestsMemory:
    """Raises NodeError."""
    argv = ["sh", "-c", _OF_GUESTS, "sh", *map(str, pids)]
    return parse_guests((await uut.ask(Execute(argv=argv, timeout_s=_ASK_S), timeout_s=_ASK_S + 10)).stdout)


def parse_look(text: str) -> MemoryLook:
    """Pure."""
    found = {key: int(value) for key, value in _FIGURE.findall(text)}
    swapped = [found.get("pswpin"), found.get("pswpout")]
    available = found.get("MemAvailable")
    return MemoryLook(
        available_bytes=None if available is None else available * KIB,
        swapped_pages=sum_known(swapped),
        ksm_run=found.get("ksm_run"),
        ksm_pages_sharing=found.get("ksm_pages_sharing"),
    )


def parse_guests(text: str) -> GuestsMemory:
    """Pure."""
    found = GuestsMemory()
    for pid, what, value in _USED.findall(text):
        if what == "pss_kib":
            found.pss_bytes[int(pid)] = int(value) * KIB
        else:
            found.group_bytes[int(pid)] = int(value)
    return found


def sum_known(values: Sequence[int | None]) -> int | None:
    """None where one of them is not known, or there are none."""
    known = [each for each in values if each is not None]
    return sum(known) if known and len(known) == len(values) else None
