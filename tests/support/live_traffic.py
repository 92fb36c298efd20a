"""What a trial's nodes would report of traffic whose truth is known: clocks that differ, reports that come late."""

from __future__ import annotations

import random
from collections.abc import Iterator

from labconsole.engine.live.samples import LiveStreams
from labconsole.engine.live.telemetry import Telemetry
from labconsole.model.inventory import Stream
from labconsole.wire.codec import STAT_NAMES
from labconsole.wire.counters import CountersSampled
from labconsole.wire.generator import GeneratorProgress, SentStream, StreamProgress

OFFSETS_NS = {"src1": 5_000_000_000_000, "src2": 77_000_000_000, "src3": 1, "snk1": 900_000_000, "snk2": 40, "snk3": 3}
"""Node's monotonic clock minus the console's, as the links know it."""

BEGUN_NS = 1_000_000_000_000
PATH_NS = 300_000


class KnownTraffic:
    """One stream sent at ``pps``, of which ``loss_ratio`` never arrives; ``clock_error_ns``: what a link has wrong."""

    def __init__(
        self,
        telemetry: Telemetry,
        live: LiveStreams,
        stream: Stream,
        *,
        pps: float,
        loss_ratio: float,
        seconds: float,
        clock_error_ns: int = 200_000,
        jitter_ns: int = 80_000_000,
        seed: int = 1,
    ) -> None:
        self._telemetry, self._live, self._stream = telemetry, live, stream
        self._pps, self._loss_ratio, self._end_ns = pps, loss_ratio, BEGUN_NS + round(seconds * 1e9)
        self._clock_error_ns, self._jitter_ns = clock_error_ns, jitter_ns
        self._random = random.Random(seed)

    def sent(self, at_ns: int) -> int:
        """How many packets have been sent at an instant of the console's clock."""
        return max(0, int((min(at_ns, self._end_ns) - BEGUN_NS) * self._pps / 1e9))

    def _progress(self, at_ns: int) -> None:
        source, theirs_ns = self._stream.source.node, at_ns + OFFSETS_NS[self._stream.source.node]
        said = StreamProgress(stream=self._stream.name, sent_packets=self.sent(at_ns), errors=0, monotonic_ns=theirs_ns)
        event = GeneratorProgress(monotonic_ns=theirs_ns + 50_000, streams=[said])
        self._live.add_progress(source, event)

    def _sample(self, at_ns: int) -> None:
        sink = self._stream.sink
        values = [0] * len(STAT_NAMES)
        values[0] = 4711 + round(self.sent(at_ns - PATH_NS) * (1 - self._loss_ratio))
        index = self._telemetry.interfaces[sink.node, "", sink.interface].link.index
        theirs_ns = at_ns + OFFSETS_NS[sink.node] + self._clock_error_ns
        event = CountersSampled(
            monotonic_ns=theirs_ns, wall_ns=theirs_ns, namespaces={"": [[index, values]]}, missed=0, late=False
        )
        self._telemetry.add_counters(sink.node, event)
        self._live.add_counters(sink.node, event)

    def _done(self) -> None:
        theirs_ns = self._end_ns + OFFSETS_NS[self._stream.source.node]
        said = SentStream(
            stream=self._stream.name,
            generator="afpacket",
            version=None,
            interface="eth1",
            sent_packets=self.sent(self._end_ns),
            errors=0,
            error_text=None,
            started_monotonic_ns=theirs_ns - 1,
            stopped_monotonic_ns=theirs_ns,
            started_wall_ns=1,
            elapsed_ns=1,
            idle_ns=0,
            delay_ns=0,
            burst_packets=1,
            requested_count=None,
            stopped_by="duration",
            raw=None,
        )
        self._live.finished(self._stream.source.node, [said])

    def reports(self) -> Iterator[float]:
        """Have everything arrive in its turn; gives the true time since the beginning after each."""
        what, late = self._random, self._jitter_ns
        arrivals = [(self._end_ns + late, 0, self._end_ns)]
        for kind, first_ns in ((1, BEGUN_NS + 70_000_000), (2, BEGUN_NS - 150_000_000)):
            at_ns, arrived_ns = first_ns, 0
            while at_ns < self._end_ns + (500_000_000 if kind == 2 else 0):
                arrived_ns = max(arrived_ns + 1, at_ns + what.randrange(late + 1))  # one link keeps its order
                arrivals.append((arrived_ns, kind, at_ns))
                at_ns += 100_000_000 + what.randrange(-15_000_000, 15_000_000)
        for arrived_ns, kind, at_ns in sorted(arrivals):
            (self._done, lambda t=at_ns: self._progress(t), lambda t=at_ns: self._sample(t))[kind]()
            yield (arrived_ns - BEGUN_NS) / 1e9
