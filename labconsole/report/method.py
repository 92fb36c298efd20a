"""What a report says of its method: every choice, and every departure from RFC 2544 and from the paper. Pure.

RFC 2544 (sections 4, 8, 26) asks a report to state its choices. What a run could have chosen otherwise is told from the
runs' own records, never from a default.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from labconsole.report.digest import Digest
from labconsole.report.evaluation import CPU_LOADS, FORWARDING, Point

Words = tuple[str, str]

CONVENTIONS = {
    "False": "without the frame check sequence, as pktgen counts and the paper does; the wire adds 24 bytes",
    "True": "with the frame check sequence, as RFC 2544 and RFC 1242 count; the wire adds 20 bytes",
}

OBSERVED = {
    "quiet": "quiet: it keeps its counters to itself while frames are counted, and sends nothing",
    "live": "live: it reports its counters over the network while frames are counted",
}

BACKGROUNDS = {
    "none": "no second guest",
    "idle": "a second guest that does nothing",
    "light": "stress --cpu 1 in the second guest",
    "heavy": "stress --cpu 8 --vm 4 in the second guest",
    "forwarding-50": "64-byte frames through the second guest, at 50 % of the platform's maximum beside an idle one",
    "forwarding-95": "64-byte frames through the second guest, at 95 % of the platform's maximum beside an idle one",
}


def one_of(held: Counter[str] | None) -> str:
    """Each word with the number of runs where there are several."""
    if not held:
        return "not known"
    if len(held) == 1:
        return next(iter(held))
    return ", ".join(f"{word} ({times})" for word, times in held.most_common())


def method(digest: Digest, points: Sequence[Point]) -> list[tuple[str, list[Words]]]:
    """Sections with their rows: what was sent, what was counted, how it was reckoned, what departs from what."""
    return [
        ("Load", _load(digest)),
        ("Trials", _trials(digest, points)),
        ("Quantities", _quantities(digest)),
        ("Statistics", _statistics(points)),
        ("Departures", _departures(digest)),
    ]


def _load(digest: Digest) -> list[Words]:
    said = digest.said.get
    conventions = Counter(
        {CONVENTIONS.get(word, word): n for word, n in (said("frame_size_includes_fcs") or {}).items()}
    )
    rows = [
        ("Frame sizes", one_of(said("size"))),
        ("Convention", one_of(conventions)),
        ("Targets per source", f"{one_of(said('target'))}; max: no delay between frames"),
        ("Sources at once", one_of(said("sources"))),
        (
            "Load stream",
            "UDP over IPv4, constant frame size and constant gap, one flow per source, one direction. The gap is "
            "8000 · (s + h) / b ns for s bytes and b Mbit/s, h what the wire adds. Each stream has NICs and cables of "
            "its own all the way, and shares none with another",
        ),
        (
            "Addresses",
            "source and destination from 198.18.0.0/15, the network that RFC 2544 appendix C sets aside; the "
            "destination MAC is that of the port that forwards: the unit under test's, its guest's behind a bridge, "
            "the sink's where the unit under test is itself the bridge",
        ),
        ("Generator", one_of(said("sender"))),
        ("Flow control", "layer 2, left as it was found; settings and pause counters are in the records"),
    ]
    kinds = said("background") or Counter()
    rows += [
        (
            "Background load",
            "; ".join(f"{kind} ({times}): {BACKGROUNDS.get(kind, kind)}" for kind, times in kinds.items()),
        )
    ]
    return rows


def _trials(digest: Digest, points: Sequence[Point]) -> list[Words]:
    counts = sorted({point.n for point in points})
    observed = digest.said.get("observe") or Counter()
    repetitions = "none" if not counts else str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return [
        ("Duration", one_of(digest.said.get("duration"))),
        ("Repetitions of a point", repetitions),
        (
            "Course",
            "platform attested, background load placed and proven, counters read, captures listening, sources started "
            "together, traffic, wait until the counters stand still, captures counted, counters read again, platform "
            "attested again. Learning frames go before the first trial of a set-up (RFC 2544 section 23)",
        ),
        ("Watching the unit under test", one_of(Counter({OBSERVED.get(w, w): n for w, n in observed.items()}))),
        ("Calibration of the instrument", one_of(digest.said.get("calibration"))),
        (
            "Verdicts",
            "every run is valid, suspect (it stands, with a doubt that is named) or invalid. Invalid runs enter no "
            "mean, suspect ones do; both are counted below with their reasons",
        ),
    ]


def _quantities(digest: Digest) -> list[Words]:
    return [
        ("Bandwidth", "on the wire (layer 1): frame, frame check sequence, preamble and inter-frame gap"),
        ("Offered", "frames that the generator reports as sent, over the time in which it sent them"),
        (
            "Measured",
            f"frames that arrived at the sink, over the same time; witness per stream: "
            f"{one_of(digest.said.get('witness'))}. capture: tcpdump's file where it dropped nothing, else the sink's "
            "NIC counters",
        ),
        ("Loss", "offered minus measured, over offered; what the generator did not send is not lost"),
        ("Sums", "rates of several sources are added up over the streams"),
    ]


def _statistics(points: Sequence[Point]) -> list[Words]:
    kinds = {point.background for point in points}
    rows = [
        ("Mean", "of the repetitions of a design point: same platform, frame size, sources, target and background"),
        ("Interval", "95 % confidence interval of the mean by Student's t; none below three repetitions"),
        (
            "Maximum",
            "the design point with the highest mean measured rate, over all offered loads: it need not be the highest "
            "load. It carries the interval of that point; that it was chosen as the highest is not in the interval",
        ),
        (
            "No detectable difference",
            "the 95 % interval of the difference (Welch) holds 0, that of the ratio (Fieller) holds 1. Many are "
            "compared, and none is corrected for their number: of those without any effect one in twenty shows one",
        ),
    ]
    if kinds & set(CPU_LOADS):
        rows.append(
            (
                "Baseline of table 1",
                "the same platform beside an idle second guest, as the shared scenario of the paper (section 3.4) "
                "starts from a second guest without load; beside none where no idle one was measured. The column "
                "against says which. Maxima are over the loads at which both were measured",
            )
        )
    if kinds & set(FORWARDING):
        rows += [
            (
                "Baseline of figure 5",
                "the dedicated maximum (no second guest) of the same platform, frame size and number of sources; "
                "beside an idle second guest where no dedicated one was measured. Maxima are over the loads at which "
                "both were measured",
            ),
            (
                "Tables 2 and 3",
                "the second guest's own streams, measured as all others are; mean over all runs of one frame size of "
                "the first guest, whatever it was offered, as in the paper",
            ),
        ]
    return rows


def _departures(digest: Digest) -> list[Words]:
    seconds = [float(word.split()[0]) for word in digest.said.get("duration") or ()]
    rows = [
        (
            "From RFC 2544",
            "a grid of offered loads instead of the search of section 26.1; one direction (section 14: both); no "
            "modifiers (section 11: broadcasts, management frames, routing updates, filters); flow control as found",
        ),
    ]
    if any(value < 60 for value in seconds):
        rows.append(
            ("", "trials shorter than the 60 s of section 24; the interval of the repetitions says what that cost")
        )
    if "False" in (digest.said.get("frame_size_includes_fcs") or {}):
        rows.append(("", "frame sizes are the paper's, without the frame check sequence, and not those of section 9.1"))
    if digest.emulated:
        rows.append(("", "emulated testbed: sources, unit under test and sinks share the processors of one machine"))
    rows.append(
        (
            "From Schlosser, Duelli and Goll",
            "the capture is counted, not only recorded, and held against the counters of every interface on the way; "
            "that the background load ran is measured; every change carries its interval",
        )
    )
    return rows
