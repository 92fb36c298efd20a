"""The files that guests start from, and their share of the UUT's page cache.

Other guests are started from copies, which no other program runs or reads, so that they can be dropped from memory: GNU
dd asks the kernel to drop a file's pages, and fincore (util-linux) counts the cached ones. The agent removes the
copies, as it does guests' disks. Installed guests have no copies: the pages of the files that hosts.yaml names
(``guest_files``) are dropped and read, and nothing is changed.
"""

from __future__ import annotations

import posixpath
import re
import secrets
from collections.abc import Sequence

from labconsole.contracts.crew import CrewOffer
from labconsole.contracts.ports import AgentLink
from labconsole.errors import NodeError
from labconsole.experiments.boot.record import CachedFiles
from labconsole.network.guest_disks import GuestDisk, GuestDisks
from labconsole.wire.changes import ApplyChanges, UndoChanges
from labconsole.wire.execution import Execute, Executed

TOKEN = "boot-files"
HOLDER = "files"
IN_MEMORY = ("tmpfs", "ramfs", "hugetlbfs")
MIB = 1024 * 1024

_LOOK_S, _COPY_S = 30.0, 600.0
_MEASURED = re.compile(r"^(\d{1,4}) (\d{1,15}) (/\S{1,400})$", re.MULTILINE)
_THEIRS = re.compile(r"^(\d{1,4}) (/\S{1,400}) (\S.{0,39})$", re.MULTILINE)
_COUNTED = re.compile(r"^(\d{1,4}) (\d{1,15}) (\d{1,15})$", re.MULTILINE)

# The search for a program works as in a shell; everything in a directory counts.
_MEASURE = """\
place=$0 number=0
stat -f -c %T "$place" || exit 3
for path; do
  case $path in */*) found=$path;; *) found=$(command -v "$path") || exit 4;; esac
  found=$(readlink -e "$found") || exit 4
  echo "$number $(du -s -B1 --apparent-size "$found" | cut -f1) $found"
  number=$((number + 1))
done"""

_LOOK_AT_THEIRS = """\
number=0
for path; do
  found=$(readlink -e "$path") || exit 4
  test -f "$found" || test -d "$found" || exit 6
  echo "$number $found $(stat -f -c %T "$found")"
  number=$((number + 1))
done"""

# The directory is the agent's; once it is gone, nothing may create it again.
_COPY = """\
while test "$1"; do
  test -d "$0" && mkdir -p "$(dirname "$2")" && cp -a -- "$1" "$2" || exit
  shift 2
done
find "$0" -type f -exec sync {} +"""

# Pages that a guest has written and the disk does not have yet cannot be dropped.
_DROP = """\
find "$@" -xdev -type f -exec sync {} +
find "$@" -xdev -type f -exec sh -c 'for f; do dd if="$f" iflag=nocache count=0 2>/dev/null; done' sh {} +"""
_READ = 'find "$@" -xdev -type f -exec cat {} + >/dev/null'
# find gives the size of the files, so that a file missing from fincore's output is noticed.
_COUNT = """\
command -v fincore >/dev/null || exit 5
page=$(getconf PAGESIZE) number=0
for path; do
  set -- $(find "$path" -xdev -type f -size +0c -printf '%s\\n' |
    awk -v page="$page" '{ all += int(($1 + page - 1) / page) } END { print NR, all + 0 }')
  files=$1 pages=$2
  set -- $(find "$path" -xdev -type f -size +0c -exec fincore -b -n -r -o PAGES {} + |
    awk '{ cached += $1 } END { print NR, cached + 0 }')
  test "$1" = "$files" || { echo "it tells of $1 of $files files in $path" >&2; exit 7; }
  echo "$number $pages $2"
  number=$((number + 1))
done"""


class DiskImages:
    """The files that the guests of one trial start from. All methods raise NodeError."""

    def __init__(self, uut: AgentLink, platform: str, offer: CrewOffer) -> None:
        self._uut, self._platform, self._offer = uut, platform, offer
        self._name = f"labconsole-disks-{secrets.token_hex(4)}"
        self.options: dict[str, str] = {}
        """Option of the platform to the copy that is used for it."""

        self.paths: dict[str, str] = {}
        """Option of the platform to each file that the guests start from, copied or not."""

        self.file_system: str | None = None

    async def make(self, *, on_disk: bool) -> None:
        """Copy the files, or find them in place. ``on_disk``: refuse a file system that is in memory."""
        if self._offer.installed:
            await self._find_theirs(on_disk=on_disk)
            return
        originals = list(self._offer.files.items())
        said = await self._run(_MEASURE, self._offer.place, *(path for _, path in originals))
        self.file_system = said.stdout.partition("\n")[0].strip()[:40] or None
        found = {int(number): (int(size), path) for number, size, path in _MEASURED.findall(said.stdout)}
        if said.exit_status == 3:
            raise self._problem(f"there is no directory {self._offer.place} on the UUT (guest_disk)")
        if said.exit_status != 0 or len(found) != len(originals):
            missing = [path for number, (_, path) in enumerate(originals) if number not in found]
            raise self._problem(f"cannot read {', '.join(missing)} on the UUT")
        if on_disk and self.file_system in IN_MEMORY:
            raise self._problem(
                f"{self._offer.place} on the UUT is on {self.file_system}, which is memory: nothing there is ever "
                "cold; set `guest_disk:` in hosts.yaml to a directory on a disk"
            )
        top = posixpath.join(self._offer.place, self._name)
        mib = 1 + sum(size for size, _ in found.values()) // MIB
        room = GuestDisks(
            place=self._offer.place, name=self._name, disks=[GuestDisk(guest=HOLDER, mib=mib)], files=False
        )
        await self._uut.ask(ApplyChanges(token=TOKEN, changes=[room]), timeout_s=_COPY_S)
        pairs: list[str] = []
        for number, (option, _) in enumerate(originals):
            source = found[number][1]
            # A copy keeps its name, by which a guest's process is recognized.
            self.options[option] = posixpath.join(top, HOLDER, option, posixpath.basename(source))
            pairs += [source, self.options[option]]
        copied = await self._run(_COPY, top, *pairs, limit_s=_COPY_S)
        if copied.exit_status != 0:
            raise self._problem(f"copying the guests' files failed: {' '.join(copied.stderr.split())[-200:]}")
        self.paths = dict(self.options)

    async def _find_theirs(self, *, on_disk: bool) -> None:
        originals = self._offer.files
        said = await self._run(_LOOK_AT_THEIRS, "sh", *originals.values())
        found = [(path, system.strip()) for _, path, system in _THEIRS.findall(said.stdout)]
        if said.exit_status != 0 or len(found) != len(originals):
            wrong = list(originals.values())[min(len(found), len(originals) - 1)]
            why = "is neither a file nor a directory" if said.exit_status == 6 else "cannot be read"
            raise self._problem(f"{wrong} of guest_files {why} on the UUT")
        for path, system in found:
            if on_disk and system in IN_MEMORY:
                raise self._problem(f"{path} on the UUT is on {system}, which is memory: nothing there is ever cold")
        self.file_system = ", ".join(dict.fromkeys(system for _, system in found)) or None
        self.paths = {option: path for option, (path, _) in zip(originals, found, strict=True)}

    async def drop(self) -> None:
        """Drop the files from the page cache."""
        await self._run(_DROP, "sh", *self.paths.values(), limit_s=_COPY_S)

    async def read(self) -> None:
        """Read all files into the page cache."""
        await self._run(_READ, "sh", *self.paths.values(), limit_s=_COPY_S)

    async def look(self) -> tuple[CachedFiles, ...]:
        """Return how much of each file is in the page cache."""
        said = await self._run(_COUNT, "sh", *self.paths.values(), limit_s=_COPY_S)
        if said.exit_status == 5:
            raise self._problem("the page cache is read by fincore; install util-linux-extra on the UUT (Debian)")
        counted = counted_pages(said.stdout)
        if said.exit_status != 0 or len(counted) != len(self.paths):
            raise self._problem(f"fincore did not report the page cache: {' '.join(said.stderr.split())[-200:]}")
        return tuple(
            CachedFiles(option=option, path=path, pages=pages, cached_pages=cached)
            for (option, path), (pages, cached) in zip(self.paths.items(), counted, strict=True)
        )

    async def remove(self) -> None:
        """Remove the copies. Does nothing if there are none; nothing else is ever removed."""
        failed = (await self._uut.ask(UndoChanges(token=TOKEN), timeout_s=_COPY_S)).failed
        if failed:
            raise NodeError(self._uut.name, f"not undone: {'; '.join(failed)}")

    async def _run(self, script: str, name: str, *arguments: str, limit_s: float = _LOOK_S) -> Executed:
        argv = ["sh", "-c", script, name, *arguments]
        return await self._uut.ask(Execute(argv=argv, timeout_s=limit_s), timeout_s=limit_s + 10)

    def _problem(self, what: str) -> NodeError:
        return NodeError(self._uut.name, f"platform {self._platform}: {what}")


def counted_pages(text: str) -> list[tuple[int, int]]:
    """Parse (pages, cached pages) of each path, in order. Pure."""
    found = {int(number): (int(pages), int(cached)) for number, pages, cached in _COUNTED.findall(text)}
    return [found[number] for number in range(len(found))] if sorted(found) == list(range(len(found))) else []


def sum_cached_pages(files: Sequence[CachedFiles]) -> tuple[int, int]:
    """Return (pages, cached pages) summed over all files."""
    return sum(each.pages for each in files), sum(each.cached_pages for each in files)
