"""A job requested from outside: servers in the guests, clients at the timekeeper, timed by the timekeeper's clock.

Every request has its own server process and file, so that two requests to one guest are as independent as two copies of
any other job (Quétier et al., section 3, figure 1). A request includes the start of its client at the timekeeper; the
time of fetching an empty local file is subtracted for that.
"""

from __future__ import annotations

import re
import shlex
import statistics
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from labconsole.contracts.crew import StandingCrew
from labconsole.engine.crew_measurement import record_marks
from labconsole.errors import MeasurementError, NodeError
from labconsole.experiments.job.disks import DiskWatch
from labconsole.experiments.job.script import CopyAnswer, Window
from labconsole.measure.external_timing import MarkResult, Marks
from labconsole.model.jobs import JobRequests
from labconsole.model.record.kind import EmptyJobs, ProgramRecord
from labconsole.platforms.base.guest_shell import DONE, LOOP, start_all
from labconsole.wire.execution import Execute
from labconsole.wire.guests import MAX_WORK_S, AskGuests, GuestLine, StopGuest
from labconsole.wire.marks import StartMarks

CLIENT, PACKAGE = "curl", "curl"
FIRST_PORT = 8001
EMPTY_REQUESTS = 10
OK = 200
MIB = 2**20
LINE_S, CLIENT_S, READY_TRIES = 60.0, 30.0, 100
NOTHING = "file:///dev/null"
_SAID_CHARACTERS = 200

_RESULT = re.compile(r"^LCGET (\d{19}) (\d{19}) (.*) ST (\d{1,3})\|?$", re.MULTILINE)
_GOT = re.compile(r" GOT (\d{3}) (\d{1,15}) ")
_SHA256 = re.compile(r"^([0-9a-f]{64})\s", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """The result of a request, by the timekeeper's wall clock. ``status``: the client's exit status, 0 for an
    answer.
    """

    begun_ns: int
    ended_ns: int
    http_status: int
    got_bytes: int
    status: int
    said: str


def request_line(url: str, limit_s: float) -> str:
    """Return the shell line of a client: one request, and its printed result."""
    curl = f"{CLIENT} -q -s -S -k --noproxy '*' -m {limit_s:g} -o /dev/null"
    options = f"-w ' GOT %{{http_code}} %{{size_download}} ' {shlex.quote(url)}"
    return (
        f'b=$(date +%s%N); o=$({curl} {options} 2>&1; echo " ST $?"); e=$(date +%s%N); '
        "printf '%s\\n' \"LCGET $b $e $(printf %s \"$o\" | tr '\\n' '|')\""
    )


def parse_responses(printed: str) -> list[HttpResponse]:
    """Parse the complete results in this output."""
    found = []
    for begun, ended, result, status in _RESULT.findall(printed.replace("\r", "")):
        # A pattern for the whole line would search the rest of it again at each GOT.
        if (got := _GOT.search(result)) is not None:
            description = f"{result[: got.start()]} {result[got.end() :]}".strip(" |")
            found.append(HttpResponse(int(begun), int(ended), int(got[1]), int(got[2]), int(status), description))
    return found


def build_answer(got: HttpResponse | None, size_mib: int) -> CopyAnswer:
    """Return the result in the form of any job's copy, with status 0 only for the whole file."""
    if got is None:
        return CopyAnswer()
    whole = got.http_status == OK and got.got_bytes == size_mib * MIB
    summary = f"HTTP status {got.http_status:03}, {got.got_bytes} of {size_mib * MIB} byte"
    output = "" if whole else f"{summary}: {got.said}"[:_SAID_CHARACTERS] if got.said else summary
    return CopyAnswer(exit_status=got.status or (0 if whole else 1), output=output)


class HttpRequests:
    """The requests of one trial.

    ``problems`` collects servers that ended too early. ``empty``, ``client``: set once take() has returned.
    """

    def __init__(
        self,
        wanted: JobRequests,
        size_mib: int,
        limit_s: float,
        crew: StandingCrew,
        disks: DiskWatch | None,
        problems: list[str],
    ) -> None:
        if disks is None:
            raise MeasurementError("guests were to serve files, but they have no disks")
        self._wanted, self._size_mib, self._limit_s = wanted, size_mib, limit_s
        self._crew, self._disks, self._problems = crew, disks, problems
        self._copies: dict[str, tuple[str, int]] = {}
        self.empty: EmptyJobs | None = None
        self.client: ProgramRecord | None = None

    async def take(self, copies: Mapping[str, int], addresses: Mapping[str, str], marks: str) -> Window:
        """Make all requests at once. Raises NodeError, or MeasurementError if a server or a client cannot be
        started.
        """
        crew = self._crew
        self._copies = {f"{guest}/{n}": (guest, n) for guest, count in copies.items() for n in range(1, count + 1)}
        places = {
            name: f"{addresses[guest]}:{FIRST_PORT + number}"
            for number, (name, (guest, _)) in enumerate(self._copies.items())
        }
        urls = {name: f"{self._wanted.scheme}://{place}/{self._wanted.file}" for name, place in places.items()}
        self.client = await self._client()
        async with self._clients(), self._servers(places):
            await self._reach(urls)
            self.empty = await self._fetch_nothing()
            start = StartMarks(marks=marks, interface=crew.stream.sink.interface, address=crew.address)
            async with record_marks(crew.timekeeper, start) as kept:
                said = await self._ask({name: request_line(url, self._limit_s) for name, url in urls.items()})
            (seen,) = kept
        got = {name: next(iter(parse_responses(printed)), None) for name, printed in said.items()}
        return Window(
            MarkResult(
                of={name: _marks(each) for name, each in got.items()}, doubled=(), strange_packets=len(seen.marks)
            ),
            seen,
            self._copies,
            {name: build_answer(each, self._size_mib) for name, each in got.items()},
        )

    # The clients ------------------------------------------------------------------------------------------------------

    async def _client(self) -> ProgramRecord:
        keeper = self._crew.timekeeper
        line = f"p=$(command -v {CLIENT}) && sha256sum $p"
        found = _SHA256.search((await keeper.ask(Execute(argv=["sh", "-c", line], timeout_s=10))).stdout)
        if found is None:
            raise MeasurementError(f"{CLIENT}, which makes the requests, is not installed at {keeper.name} ({PACKAGE})")
        return ProgramRecord(name=CLIENT, sha256=(found[1],))

    def _shell(self, name: str) -> str:
        """Return the agent's name of the timekeeper's shell for this request."""
        return f"client{list(self._copies).index(name) + 1}"

    @asynccontextmanager
    async def _clients(self) -> AsyncIterator[None]:
        """Run a shell for each request, so that all begin together and the output of each is bounded."""
        keeper, shells = self._crew.timekeeper, [self._shell(name) for name in self._copies]
        try:
            await start_all(keeper, {shell: ["sh", "-c", LOOP] for shell in shells}, timeout_s=CLIENT_S)
            yield
        finally:
            for shell in shells:
                with suppress(NodeError):  # it never existed, or is gone already
                    await keeper.ask(StopGuest(guest=shell))

    async def _ask(self, lines: Mapping[str, str]) -> dict[str, str]:
        """Send a line to the shell of each request; return their output."""
        shells = {self._shell(name): name for name in lines}
        guest_lines = [GuestLine(guest=self._shell(name), line=line) for name, line in lines.items()]
        limit_s = min(self._limit_s + CLIENT_S, MAX_WORK_S)
        answered = await self._crew.timekeeper.ask(
            AskGuests(asked=guest_lines, until=DONE, timeout_s=limit_s), timeout_s=limit_s + CLIENT_S
        )
        return {shells[each.guest]: each.printed or "" for each in answered.guests}

    async def _reach(self, urls: Mapping[str, str]) -> None:
        """Wait until every server answers. Raises MeasurementError for those that do not."""
        fetch = f"{CLIENT} -q -s -k --noproxy '*' -m 5 -o /dev/null"
        lines = {
            name: f"for n in $(seq {READY_TRIES}); do {fetch} {shlex.quote(url.rpartition('/')[0] + '/none')} && "
            "{ echo LCREACHED; break; }; sleep 0.1; done"
            for name, url in urls.items()
        }
        said = await self._ask(lines)
        if lost := [name for name, printed in said.items() if "LCREACHED" not in printed]:
            why = await self._logs(lost[0])
            raise MeasurementError(f"the server in {', '.join(lost[:3])} does not answer the timekeeper{why}")

    async def _fetch_nothing(self) -> EmptyJobs:
        first = next(iter(self._copies))
        line = f"for n in $(seq {EMPTY_REQUESTS}); do {request_line(NOTHING, self._limit_s)}; done"
        got = parse_responses((await self._ask({first: line}))[first])
        if len(got) != EMPTY_REQUESTS or any(each.status for each in got):
            raise MeasurementError(f"{CLIENT} at {self._crew.timekeeper.name} does not fetch {NOTHING}")
        times = tuple((each.ended_ns - each.begun_ns) / 1e9 for each in got)
        return EmptyJobs(each_s=times, mean_s=statistics.fmean(times), sd_s=statistics.stdev(times))

    # The servers ------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _servers(self, places: Mapping[str, str]) -> AsyncIterator[None]:
        servers = {name: self._wanted.server.format(place=place) for name, place in places.items()}
        begin = {
            name: f"{{ {server} </dev/null >.said 2>&1 & }}; echo $! >.pid; echo LCDONE"
            for name, server in servers.items()
        }
        running = True
        try:
            await self._run_lines(begin, "the server could not be started")
            yield
            running = False
            await self._run_lines(dict.fromkeys(places, "kill $(cat .pid) && echo LCDONE"), None)
        finally:
            if running:
                with suppress(NodeError, MeasurementError):
                    await self._run_lines(dict.fromkeys(places, "kill $(cat .pid) && echo LCDONE"), None)

    async def _run_lines(self, lines: Mapping[str, str], failure: str | None) -> None:
        """Run a line in the directory of each copy.

        A line that fails raises MeasurementError, or is added to the problems if ``failure`` is None.
        """
        of_guest: dict[str, list[str]] = {}
        for name, line in lines.items():
            guest, number = self._copies[name]
            place = self._disks.of(guest)
            assert place is not None
            of_guest.setdefault(guest, []).append(f"( cd {place[0]}/{number} && {{ {line}; }} )")
        guest_lines = [GuestLine(guest=guest, line="; ".join(each)) for guest, each in of_guest.items()]
        answered = await self._crew.uut.ask(
            AskGuests(asked=guest_lines, until=DONE, timeout_s=LINE_S), timeout_s=LINE_S + 10
        )
        for each in answered.guests:
            printed = each.printed or each.message or ""
            if printed.count("LCDONE") == len(of_guest[each.guest]):
                continue
            said = " ".join(printed.replace("LCDONE", "").split())[-_SAID_CHARACTERS:]
            if failure is not None:
                raise MeasurementError(f"{each.guest}: {failure}: {said}")
            self._problems.append(f"{each.guest}: its server ended early: {said}")

    async def _logs(self, name: str) -> str:
        """Return a server's output, for people."""
        guest, number = self._copies[name]
        place = self._disks.of(guest)
        assert place is not None
        line = GuestLine(guest=guest, line=f"tail -c {_SAID_CHARACTERS} {place[0]}/{number}/.said")
        (said,) = (await self._crew.uut.ask(AskGuests(asked=[line], until=DONE, timeout_s=LINE_S))).guests
        text = " ".join((said.printed or "").partition(DONE)[0].split())
        return f": {text}" if text else ""


def _marks(got: HttpResponse | None) -> Marks:
    """Return the begin and end of a request, both by the client's clock."""
    if got is None:
        return Marks()
    return Marks(
        start_request_ns=got.begun_ns,
        start_reply_ns=got.begun_ns,
        end_request_ns=got.ended_ns,
        end_reply_ns=got.ended_ns,
    )
