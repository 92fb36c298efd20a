"""Guest jobs: fixed work by programs of the field, the same in every guest and on the bare host.

Sources: Mattos et al. section 3.3 (pi, allocation, files), Quétier et al. section 3.1 (square root of 2, matrices, a
file read, bulk TCP), Adamczyk and Chydzinski section IV (disk work while other guests send). docs/jobs.md explains each
job and how it differs from the paper's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Resource = Literal["cpu", "memory", "disk", "network", "none"]

JOB_PORT = 5001
"""iperf's default port, at the timekeeper's address."""


@dataclass(frozen=True, slots=True)
class JobServer:
    """A server that the timekeeper runs while a job works, and the line it prints once it is reachable. The address is
    appended to ``argv``.
    """

    argv: tuple[str, ...]
    ready: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequests:
    """A service that a job provides and the timekeeper requests. ``server``: its command line, which runs in the
    directory of ``file`` until it is killed; ``{place}`` becomes the listening address, the guest's own with a port.
    """

    scheme: Literal["http", "https"]
    server: str
    file: str = "file"


DISK_SHARE, DISK_OWN_MIB = 1.05, 64
"""File system overhead on a disk: a factor on its files, and MiB for its journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskWork:
    """A job's work on its guest's disk, in the directory it starts in.

    ``make``: the line that creates the files it needs, before its time begins. Per unit of its size the job occupies
    ``files_mib`` at its peak, has written ``writes_mib`` to the device by its end and has read ``reads_mib`` past every
    cache; None if only ``memory_reads_mib`` is known, which may come from memory. ``more_files_mib``: files of any
    size. ``tells``: the job prints its own counts of KiB, as ``READ n WRITTEN n``.
    """

    make: str = ""
    files_mib: int = 0
    more_files_mib: int = 0
    reads_mib: int | None = 0
    memory_reads_mib: int = 0
    writes_mib: int = 0
    tells: bool = False

    def needed_mib(self, size: int, copies: int) -> int:
        """Disk size of a guest that runs this number of copies."""
        return DISK_OWN_MIB + math.ceil(DISK_SHARE * copies * (self.files_mib * size + self.more_files_mib))


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job that a plan may request.

    ``line``: a guest's shell command, with ``{size}`` for the size and the timekeeper's address in the environment as
    TIMEKEEPER; it writes files only on its ``disk``. ``server``: the timekeeper's part of the job. ``requests``: the
    job is a service, which the timekeeper requests. ``program``: the required program, in Debian's ``package``.
    ``size``, in ``unit``, is the default; ``paper_size`` is the paper's. ``arrays``: number of arrays of that size, in
    MiB, that each copy keeps in memory, or 0 if its memory use is negligible.
    """

    name: str
    resource: Resource
    does: str
    line: str
    program: str
    package: str
    unit: str
    size: int
    paper_size: int | None
    source: str
    least_size: int = 1
    most_size: int = 2**31
    server: JobServer | None = None
    requests: JobRequests | None = None
    disk: DiskWork | None = None
    arrays: int = 0

    @property
    def dependencies(self) -> list[str]:
        """Everything else its time depends on: preparation, the remote end and its server."""
        made = [] if self.disk is None else [self.disk.make]
        served = [] if self.requests is None else [self.requests.scheme, self.requests.server, self.requests.file]
        return [line for line in (*made, *(self.server.argv if self.server else ()), *served) if line]

    def command(self, size: int) -> str:
        """The command line at this size."""
        return self.line.format(size=size)

    def words(self, size: int) -> str:
        """The display name used everywhere, such as ``cpu-sqrt2 (2000 digits)``."""
        return f"{self.name} ({size} {self.unit})"


_FILE = "busybox dd if=/dev/zero of=file bs=1M count={size} conv=fsync"
_KEY = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key -out cert -days 30 "
    "-subj /CN=labconsole -config /dev/null"
)

_JOBS = (
    Job(
        name="cpu-pi",
        resource="cpu",
        does="pi to a number of digits",
        line="pi {size} >/dev/null",
        program="pi",
        package="pi",
        unit="digits",
        size=2**18,
        paper_size=2**22,
        source="Mattos et al., 3.3.1",
        least_size=1000,
        most_size=2**26,
    ),
    Job(
        name="cpu-sqrt2",
        resource="cpu",
        does="the square root of 2 by iteration, next to no memory",
        line="echo 'scale={size}; sqrt(2)' | busybox bc >/dev/null",
        program="busybox",
        package="busybox-static",
        unit="digits",
        size=2000,
        paper_size=6000,
        source="Quétier et al., 3.1",
        least_size=10,
        most_size=100_000,
    ),
    Job(
        name="memory-set",
        resource="memory",
        does="allocates two arrays, sets one and copies it to the other",
        line="mbw -q -n 1 -t1 {size} >/dev/null",
        program="mbw",
        package="mbw",
        unit="MiB",
        size=32,  # also fits a lab guest of 128 MiB
        paper_size=1024,
        source="Mattos et al., 3.3.2",
        most_size=65536,
        arrays=2,
    ),
    Job(
        name="memory-sum",
        resource="memory",
        does="adds matrices that are larger than the cache",
        # Some guests have no sysfs that lists the caches. Killed by the out-of-memory killer, stress-ng still reports
        # success, so its own operation count decides.
        line="said=$(stress-ng --temp-path /tmp --cache-level 1 --metrics-brief --matrix 1 --matrix-method add "
        "--matrix-size 2048 --matrix-ops {size} 2>&1); status=$?; echo \"$said\" | busybox grep -Eq ' matrix +{size} ' "
        '&& exit $status; echo "not all operations were done: $said"; [ $status -ne 0 ] || status=70; exit $status',
        program="stress-ng",
        package="stress-ng",
        unit="operations",
        size=200,
        paper_size=None,
        source="Quétier et al., 3.1",
    ),
    Job(
        name="disk-zero",
        resource="disk",
        does="writes ten files of zeros, each and what is left of it to the disk before the next",
        line="for n in 0 1 2 3 4 5 6 7 8 9; do busybox dd if=/dev/zero of=zero$n bs=1M count={size} conv=fsync "
        "|| exit 1; busybox sync -f zero$n; done",
        program="busybox",
        package="busybox-static",
        unit="MiB each",
        size=64,
        paper_size=2048,
        source="Mattos et al., 3.3.3",
        most_size=65536,
        disk=DiskWork(files_mib=10, writes_mib=10),
    ),
    Job(
        name="disk-bonnie",
        resource="disk",
        does="Bonnie++ with files of this size, which is to be twice the guest's memory",
        line="bonnie++ -q -d . -r $(({size} / 2)) -s {size} -n 16 -u 0:0 >/dev/null",
        program="bonnie++",
        package="bonnie++",
        unit="MiB",
        size=512,
        paper_size=None,
        source="Mattos et al., 3.3.3",
        least_size=32,
        most_size=2**20,
        disk=DiskWork(files_mib=1, more_files_mib=32, reads_mib=None, memory_reads_mib=2, writes_mib=2),
    ),
    Job(
        name="disk-read",
        resource="disk",
        does="reads a file that was made before, past every cache of its own system",
        line="busybox dd if=read of=/dev/null bs=1M iflag=direct",
        program="busybox",
        package="busybox-static",
        unit="MiB",
        size=256,
        paper_size=2048,
        source="Quétier et al., 3.1",
        most_size=2**20,
        disk=DiskWork(make="busybox dd if=/dev/zero of=read bs=1M count={size} conv=fsync", files_mib=1, reads_mib=1),
    ),
    Job(
        name="disk-mixed",
        resource="disk",
        does="reads and writes blocks of 4 KiB at random in a file of 64 MiB, past every cache, for this time",
        line="fio --name=mixed --filename=mixed --size=64m --rw=randrw --bs=4k --direct=1 --ioengine=psync "
        "--time_based --runtime={size} --output-format=terse --terse-version=3 | "
        'busybox awk -F\';\' \'NF > 47 && $5 == 0 {{ print "READ " $6 " WRITTEN " $47; told = 1 }} '
        "END {{ exit !told }}'",
        program="fio",
        package="fio",
        unit="s",
        size=10,
        paper_size=10,
        source="Adamczyk and Chydzinski, IV",
        most_size=3600,
        disk=DiskWork(make="busybox dd if=/dev/zero of=mixed bs=1M count=64 conv=fsync", more_files_mib=64, tells=True),
    ),
    Job(
        name="tcp",
        resource="network",
        does="sends to the timekeeper over one TCP connection",
        # iperf exits with status 0 even if the connection failed, so the amount it reports as sent is checked.
        line=f"iperf -c $TIMEKEEPER -p {JOB_PORT} -n {{size}}M -y C | "
        "busybox awk -F, '$8 >= {size} * 1048576 {{ sent = 1 }} END {{ exit !sent }}'",
        program="iperf",
        package="iperf",
        unit="MiB",
        size=256,
        paper_size=None,
        source="Quétier et al., 3.1",
        most_size=2**20,
        server=JobServer(("iperf", "-s", "-p", str(JOB_PORT), "-B"), ready="Server listening"),
    ),
    Job(
        name="serve-http",
        resource="network",
        does="serves a file of zeros over HTTP, for which the timekeeper asks",
        line="busybox httpd -f -p ADDRESS:PORT -h .",
        program="busybox",
        package="busybox-static",
        unit="MiB",
        size=64,
        paper_size=600,
        source="Quétier et al., 3",
        most_size=65536,
        requests=JobRequests(scheme="http", server="busybox httpd -f -p {place} -h ."),
        disk=DiskWork(make=_FILE, files_mib=1, reads_mib=None, memory_reads_mib=1),
    ),
    Job(
        name="serve-https",
        resource="network",
        does="serves a file of zeros over HTTPS, for which the timekeeper asks",
        line="openssl s_server -accept ADDRESS:PORT -cert cert -key key -WWW",
        program="openssl",
        package="openssl",
        unit="MiB",
        size=64,
        paper_size=600,
        source="Quétier et al., 3",
        most_size=65536,
        requests=JobRequests(scheme="https", server="openssl s_server -accept {place} -cert cert -key key -WWW"),
        disk=DiskWork(make=f"{_FILE} && {_KEY}", files_mib=1, more_files_mib=1, reads_mib=None, memory_reads_mib=1),
    ),
    Job(
        name="wait",
        resource="none",
        does="waits, and uses nothing: what it takes is known",
        line="sleep {size}",
        program="busybox",
        package="busybox-static",
        unit="s",
        size=5,
        paper_size=None,
        source="no paper's: a test of the clock",
        most_size=3600,
    ),
)
JOBS: dict[str, Job] = {job.name: job for job in _JOBS}
