"""The method as a report states it: every choice, and every departure from RFC 2544 and from the paper. Pure.

RFC 2544 (sections 4, 8, 26) requires a report to state its choices. Choices that runs may make differently are read
from the runs' own records, never from a default.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from labconsole.contracts.report import MethodNote
from labconsole.model.design_point import INCLUDES_FCS
from labconsole.report.claims import Family
from labconsole.report.digest import LEFT_UNCHANGED, Digest
from labconsole.report.formatting import format_span
from labconsole.report.points import PointSummary

NoteRow = tuple[str, str]

CONVENTIONS = {
    "False": "without the frame check sequence, as pktgen counts and the paper does; the wire adds 24 bytes",
    "True": "with the frame check sequence, as RFC 2544 and RFC 1242 count; the wire adds 20 bytes",
}

OBSERVED = {
    "quiet": "quiet: it does not report its counters while frames are counted, and sends nothing",
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


def format_tally(tally: Counter[str] | None) -> str:
    """Each word, with its number of runs if there are several."""
    if not tally:
        return "not known"
    if len(tally) == 1:
        return next(iter(tally))
    return ", ".join(f"{word} ({times})" for word, times in tally.most_common())


def describe_method(
    digest: Digest, points: Sequence[PointSummary], family: Family, notes: Sequence[MethodNote], *, of_runs: bool
) -> list[tuple[str, list[NoteRow]]]:
    """Sections with their rows: packets sent, packets counted, computation, departures from the standards.

    ``notes``: how the units compute their own values; without any run there is nothing else to state.
    """
    if not of_runs:
        claims = (
            "Claims",
            f"{_one_family(family)}; ratios are paired by block, on the logarithm (Student's t). Only valid trials "
            "enter",
        )
        return [("Trials", [*((note.heading, note.words) for note in notes), claims])]
    return [
        ("Load", _load(digest)),
        ("Trials", _trials(digest, points)),
        ("Quantities", _quantities(digest, points)),
        ("Statistics", _statistics(family, notes)),
        ("Departures", _departures(digest)),
    ]


def _one_family(family: Family) -> str:
    size = f"one family of {family.size}" if family.size else "none was tested; they would be one family"
    return f"{size} for the whole report, adjusted by Holm (Scand. J. Statist. 6, 1979) at 0.05"


def _load(digest: Digest) -> list[NoteRow]:
    said = digest.said.get
    conventions = Counter({CONVENTIONS.get(word, word): n for word, n in (said(INCLUDES_FCS) or {}).items()})
    rows = [
        ("Frame sizes", format_tally(said("size"))),
        ("Convention", format_tally(conventions)),
        ("Targets per source", f"{format_tally(said('target'))}; max: no delay between frames"),
        ("Sources at once", format_tally(said("sources"))),
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
        ("Generator", format_tally(said("sender"))),
        (
            "Flow control",
            f"layer 2, {format_tally(said('flow control'))}; settings and pause counters are in the records",
        ),
    ]
    kinds = said("background") or Counter()
    rows += [
        (
            "Background load",
            "; ".join(f"{kind} ({times}): {BACKGROUNDS.get(kind, kind)}" for kind, times in kinds.items()),
        )
    ]
    return rows


def _trials(digest: Digest, points: Sequence[PointSummary]) -> list[NoteRow]:
    observed = digest.said.get("observe") or Counter()
    return [
        ("Duration", format_tally(digest.said.get("duration"))),
        ("Set-ups of a point", format_span([point.set_ups for point in points])),
        *_describe_planned_set_ups(digest),
        ("Trials of a point", format_span([point.n for point in points])),
        (
            "Set-up and block",
            "a set-up is one actual setting-up of a platform with a background (one boot of its guests); a block holds "
            "each of them once, set up anew, in a random order, and every second block in that of the block before it "
            "backwards. Trials without a block are one set-up",
        ),
        (
            "Course",
            "platform attested, background load placed and proven, counters read, captures listening, sources started "
            "together, traffic, wait until the counters stand still, captures counted, counters read again, platform "
            "attested again. Learning frames go before the first trial of a set-up (RFC 2544 section 23)",
        ),
        ("Watching the unit under test", format_tally(Counter({OBSERVED.get(w, w): n for w, n in observed.items()}))),
        ("Calibration of the instrument", format_tally(digest.said.get("calibration"))),
        (
            "Verdicts",
            "every run is valid, suspect (it stands, with a named doubt) or invalid. Invalid runs enter no mean, "
            "suspect ones do; both are counted below with their reasons",
        ),
    ]


def _describe_planned_set_ups(digest: Digest) -> list[NoteRow]:
    """Set-ups that plans requested, then and now: with set-ups added after a look it is no test at 5 %."""
    changes = [
        f"plan {each.name}: {each.first_set_ups} by the oldest of these runs, {each.set_ups} by the newest"
        for each in digest.planned.values()
        if each.first_set_ups is not None and each.set_ups is not None
    ]
    if not changes:
        return []
    changes.append(
        "runs do not show whether set-ups were added, or measuring was stopped, because of the results; that would "
        "make false findings more frequent than stated here"
    )
    return [("Set-ups asked for", "; ".join(changes))]


def _quantities(digest: Digest, points: Sequence[PointSummary]) -> list[NoteRow]:
    rows = [("Bandwidth", "on the wire (layer 1): frame, frame check sequence, preamble and inter-frame gap")]
    methods = {point.design.conditions.method for point in points}
    witness = format_tally(digest.said.get("witness"))
    if methods - {1, None}:
        rows += [
            (
                "Offered",
                "as an external observer sees it (RFC 2285, section 3.5.2): the smaller of the generator's count and "
                "what the source's NIC sent, over the time in which it was sent",
            ),
            (
                "Forwarding rate",
                "frames that arrived at the sink over the sink's own window of arrivals, never over less than the "
                "sending time (RFC 2285, section 3.6.1): N / max(T, W · N / (N − 1)). Figures and maxima use it. "
                f"Witness per stream: {witness}",
            ),
            (
                "Loss",
                "the unit under test's: frames that left the source and did not leave its port. A trial in which up to "
                "20 frames, or 10⁻⁴ of those offered, more left it than came in, by frames of its own (spanning tree, "
                "LLDP, ARP), lost none; more in any trial make the loss of its whole point unknown. A trial of which a "
                "counter was not read is left out of the loss. "
                "Runs that lost at source or sink beyond tolerance, or went beyond the calibration, enter no mean and "
                "are listed",
            ),
        ]
    if methods & {1, None}:
        rows += [
            ("Offered (method 1)", "frames that the generator reports as sent, over the time in which it sent them"),
            (
                "Measured (method 1)",
                f"frames that arrived at the sink, over the same time; witness per stream: {witness}. capture: "
                "tcpdump's file where it dropped nothing, else the sink's NIC counters",
            ),
            ("Loss (method 1)", "offered minus measured, over offered; what the generator did not send is not lost"),
        ]
    return [*rows, ("Sums", "rates of several sources are summed over the streams")]


def _statistics(family: Family, notes: Sequence[MethodNote]) -> list[NoteRow]:
    rows = [
        (
            "Repetitions",
            "runs of one design point (platform, frame size, sources, target, background) under the same conditions: "
            "duration, testbed, kernel, hypervisor, generator, method. Points that differ in one of these are listed "
            "separately, with the difference in their name",
        ),
        (
            "Mean and interval",
            "mean of the set-ups' means with Student's t over set-ups, from three on (Kalibera and Jones, Rigorous "
            "benchmarking in reasonable time, ISMM 2013); with one set-up, over its trials and for this set-up only",
        ),
        (
            "Loss",
            "pooled counts with Wilson's bounds (1927), Student's t, and as many times fewer packets as set-ups "
            "scatter more than chance (design effect: Kish, Survey Sampling, 1965); of none lost the upper bound",
        ),
        (
            "Maximum",
            "the rate at the load that the pilot chose before the first block; without one, chosen on block 1 and read "
            "from the others (Cox, Biometrika 62, 1975). A setting with one load has a rate and no maximum. At least: "
            "less than 0.1 % lost or late at the highest load; then nothing is compared with it",
        ),
        (
            "Effects",
            "the ratio within each block, over blocks (Student's t on its logarithm); where no blocks are shared, over "
            "boots (Welch, Biometrika 34, 1947), three a side or no claim. A deviation is at least one packet's",
        ),
        (
            "Claims",
            f"{_one_family(family)}: backgrounds, pairs of platforms, "
            "collapses (one-sided, 2 %), second guests that lose (one-sided, 1 %), "
            "unequal streams, what guests add to jobs, starts and routers compared. Equivalence: two one-sided tests "
            "(Schuirmann, J. Pharmacokinet. Biopharm. 15, 1987) within the declared margin, Holm over the rows so "
            "tested",
        ),
    ]
    return rows + [(note.heading, note.words) for note in notes]


def _departures(digest: Digest) -> list[NoteRow]:
    seconds = [float(word.split()[0]) for word in digest.said.get("duration") or ()]
    found = not set(digest.said.get("flow control") or ()) - {LEFT_UNCHANGED}
    rows = [
        (
            "From RFC 2544",
            "a grid of offered loads instead of the search of section 26.1; one direction (section 14: both); no "
            "modifiers (section 11: broadcasts, management frames, routing updates, filters); flow control as "
            f"{'found' if found else 'its platform asks'}",
        ),
    ]
    if any(value < 60 for value in seconds):
        rows.append(
            ("", "trials shorter than the 60 s of section 24; the interval of the set-ups shows what that costs")
        )
    if "False" in (digest.said.get(INCLUDES_FCS) or {}):
        rows.append(("", "frame sizes are the paper's, without the frame check sequence, and not those of section 9.1"))
    if digest.emulated:
        rows.append(("", "emulated testbed: sources, unit under test and sinks share the processors of one machine"))
    rows.append(
        (
            "From Schlosser, Duelli and Goll",
            "the capture is counted, not only recorded, and compared with the counters of every interface on the "
            "path; that the background load ran is measured; every change has an interval",
        )
    )
    return rows
