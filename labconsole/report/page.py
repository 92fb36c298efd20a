"""report.html, one self-contained file: results, method with every choice, testbed, excluded runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from labconsole.contracts.report import MethodNote
from labconsole.errors import ConfigError
from labconsole.model.design_point import INCLUDES_FCS
from labconsole.model.record.kind import record_kinds
from labconsole.report.assembly import Report
from labconsole.report.claims import Family
from labconsole.report.digest import LEFT_UNCHANGED, Digest, Evidence, FactHistory
from labconsole.report.formatting import format_note, format_noun_count, format_span
from labconsole.report.material import Material
from labconsole.report.points import PointSummary
from labconsole.report.sample import RunSample
from labconsole.report.tables import labelled
from labconsole.text.extras import build_install_command
from labconsole.text.sanitize import sanitize
from labconsole.wire.version import __version__

# -- method notes ------------------------------------------------------------------------------------------------------
# The method as a report states it: every choice, and every departure from RFC 2544 and from the paper. Pure.
#
# RFC 2544 (sections 4, 8, 26) requires a report to state its choices. Choices that runs may make differently are read
# from the runs' own records, never from a default.

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
    "forwarding-50": "64-byte frames through the second guest, at 50 % of the platform's maximum with an idle one",
    "forwarding-95": "64-byte frames through the second guest, at 95 % of the platform's maximum with an idle one",
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
            "each of them once, set up again, in a random order, and every second block in that of the block before it "
            "backwards. Trials without a block are one set-up",
        ),
        (
            "Course",
            "platform attested, background load placed and proven, counters read, captures listening, sources started "
            "together, traffic, wait until the counters no longer change, captures counted, counters read again, "
            "platform attested again. Learning frames go before the first trial of a set-up (RFC 2544 section 23)",
        ),
        ("Watching the unit under test", format_tally(Counter({OBSERVED.get(w, w): n for w, n in observed.items()}))),
        ("Calibration of the instrument", format_tally(digest.said.get("calibration"))),
        (
            "Verdicts",
            "every run is valid, suspect (it counts, with a named doubt) or invalid. Invalid runs enter no mean, "
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
    return [("Requested set-ups", "; ".join(changes))]


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


# -- the page ----------------------------------------------------------------------------------------------------------
# All text is sanitized and escaped: nodes and operators wrote the names and facts. The page loads nothing from
# elsewhere and needs no script.

TEMPLATE = Path(__file__).parent / "templates" / "report.html"

MOST_LISTED = 500
"""Most excluded runs that the page lists individually; runs.csv has them all."""

MANY = 8
"""Findings of one kind above which they are folded."""

LONG_TABLE = 60
"""Rows above which a table is folded."""

ENTERS_NO_FACTS = frozenset(
    {"clock_offset_ns", "clock_error_ns", "clock_stated", "round_trip_s", "load", "uptime_s", "logins"}
)
"""Facts that change at every reading: the record of a run has them, a description of the testbed needs none."""


def require_jinja() -> Any:
    """jinja2's Environment. Raises ConfigError naming what to install."""
    try:
        from jinja2 import Environment
    except ImportError:
        raise ConfigError(
            f"report.html needs jinja2: {build_install_command('report')}; figures and tables in the terminal do not "
            "(labconsole report without --out)"
        ) from None
    return Environment


def render_page(report: Report, *, drawings: Mapping[str, str]) -> str:
    """Render the page. ``drawings``: a figure's name to its SVG text, as figure_drawing.py wrote it."""
    environment = require_jinja()
    from markupsafe import Markup

    def clean(value: object) -> object:
        return sanitize(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    template = environment(autoescape=True, finalize=clean, trim_blocks=True, lstrip_blocks=True).from_string(
        TEMPLATE.read_text(encoding="utf-8")
    )
    material = report.material
    digest, kept = material.digest, material.kept
    page: str = template.render(
        title=report.title,
        summary=_summary(digest, kept) if kept.run_ids else _experiments_summary(material),
        emulated=digest.emulated,
        selection=report.selection,
        conclusions=report.conclusions,
        claims=[(each.heading, each.found, each.evidence) for each in report.findings if each.claims],
        marks=[(each.heading, each.found, each.evidence) for each in report.findings if not each.claims],
        many=MANY,
        long=LONG_TABLE,
        figures=[
            {
                "name": f.name,
                "title": labelled(f),
                "caption": f.caption,
                "svg": Markup(inline_svg(drawings[f.name], f.name, f.title)),
            }
            for f in report.figures
            if f.name in drawings
        ],
        tables=report.tables,
        failures=report.failures,
        labelled=labelled,
        references=report.references,
        tested=report.material.evaluation.claims.size,
        method=describe_method(
            digest,
            material.evaluation.points,
            material.evaluation.claims,
            report.method_notes,
            of_runs=bool(kept.run_ids),
        ),
        exclusions=_exclusions(kept),
        excluded=[(code, count) for code, count in kept.excluded_by_reason],
        left_out=digest.left_out[:MOST_LISTED],
        not_listed=max(0, len(digest.left_out) - MOST_LISTED),
        doubts=_doubts(kept, digest),
        influences=sorted((kind, node, entry.runs, entry.detail) for (kind, node), entry in digest.influences.items()),
        paths=sorted((platform, stream, way) for (platform, stream), way in digest.paths.items()),
        platforms=[_build_fact_table(name, facts, ("driver",)) for name, facts in sorted(digest.platforms.items())],
        nodes=[
            _build_fact_table(name, facts, ("os", "kernel", "cpu_model"))
            for name, facts in sorted(digest.nodes.items())
        ],
        settings=[_build_fact_table(name, entry, ()) for name, entry in sorted(digest.settings.items())],
        provenance=_provenance(digest, report),
        of_runs=bool(kept.run_ids),
        plans=report.plans,
        searched=sum(len(search.trials) for search in material.searches),
    )
    return page


def inline_svg(svg: str, name: str, title: str) -> str:
    """An SVG file as part of a page: no XML head, no name spaces or metadata, its ids unique among several figures."""

    def adapted(tag: re.Match[str]) -> str:
        """A tag without name spaces, its ids prefixed with the figure's name. Text between tags stays."""
        text = re.sub(r'\s+xmlns(:\w+)?="[^"]*"', "", tag[0]).replace("xlink:href=", "href=")
        for mark in ('id="', 'href="#', "url(#"):
            text = text.replace(mark, f"{mark}{escape(name)}-")
        return text

    body = re.sub(r"<metadata>.*?</metadata>\s*", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    body = re.sub(r"<[^<>]+>", adapted, body)
    return body.replace("<svg", f'<svg role="img" aria-label="{escape(sanitize(title))}"', 1)


def _summary(digest: Digest, kept: RunSample) -> str:
    runs = len(kept.entered)
    return (
        f"{runs} run{'' if runs == 1 else 's'} on testbed {format_names(digest, 'testbed')}, measured from "
        f"{digest.first} to {digest.last} by {format_names(digest, 'operator')}. Every number follows from the raw "
        f"counts of these runs; `labconsole verify` computes them again."
    )


def _experiments_summary(material: Material) -> str:
    """Summary of a report without runs."""
    counted = [
        f"{len(records)} {record_kinds()[kind].plural if len(records) > 1 else kind}"
        for kind, records in material.experiments.items()
        if records
    ]
    every = [
        columns
        for kind, records in material.experiments.items()
        for columns in map(record_kinds()[kind].columns, records)
    ]
    begun = sorted(each.started_at for each in every)
    testbeds = ", ".join(sorted({each.testbed for each in every}))
    return (
        f"{', '.join(counted)} on testbed {testbeds}, measured from {begun[0]} to {begun[-1]}. Every number follows "
        "from what these records say was seen; `labconsole verify` computes them again."
    )


def format_names(digest: Digest, what: str) -> str:
    """The words without their numbers of occurrences."""
    return ", ".join(sorted(digest.said.get(what) or {}))


def _exclusions(kept: RunSample) -> str:
    total = len(kept.entered) + len(kept.excluded)
    return (
        f"{len(kept.excluded)} of {format_noun_count(total, 'run')} enter no mean: invalid, without a rate, "
        "from a pilot, for telemetry, of a set-up that was interrupted or contradicts itself, or beyond what the "
        f"instrument can measure. {kept.suspect} of those that enter are suspect: they count, "
        f"with a doubt named in their record."
    )


def _doubts(kept: RunSample, digest: Digest) -> list[tuple[str, int, str]]:
    """Why runs that enter are suspect: code, number of runs, an example."""
    counts: dict[str, int] = {}
    for run in kept.entered:
        for code in run.reason_codes:
            counts[code] = counts.get(code, 0) + 1
    examples = digest.doubts
    found = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [(code, n, _example(examples[code])) for code, n in found if code in examples]


def _example(evidence: Evidence) -> str:
    return f"{evidence.asked}, {evidence.load}: {evidence.detail}"


def _build_fact_table(name: str, facts: FactHistory, summary: Sequence[str]) -> dict[str, Any]:
    """A node or a platform: its newest facts, with the earlier values of those that changed among the runs."""
    changed = facts.changed()
    texts = [format_fact(facts.newest[key]) for key in summary if facts.newest.get(key)]
    rows = []
    for key, value in facts.newest.items():
        if key in ENTERS_NO_FACTS:
            continue
        earlier = [format_fact(each) for each in changed.get(key, ()) if each != value]
        rows.append((key, format_fact(value), f"earlier: {'; '.join(earlier)}" if earlier else ""))
    return {"name": name, "summary": ", ".join(texts), "facts": rows}


def format_fact(value: object) -> str:
    """A fact as text."""
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {format_fact(each)}" for key, each in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(format_fact(each) for each in value) or "none"
    return str(value)


def _provenance(digest: Digest, report: Report) -> list[NoteRow]:
    rows = [
        (
            f"Plan {name}",
            f"hash {plan}, seed {', '.join(map(str, sorted(seeds)))}, {format_noun_count(sum(seeds.values()), 'run')}",
        )
        for plan, (name, seeds) in digest.plans.items()
    ]
    rows += [(f"Note on plan {name}", format_note(each)) for name, each in report.plan_notes]
    said: dict[str, Counter[str]] = {name: Counter(tally) for name, tally in digest.said.items()}
    for kind, records in report.material.experiments.items():
        for columns in map(record_kinds()[kind].columns, records):
            said.setdefault("testbed_fingerprint", Counter())[columns.testbed_fingerprint] += 1
        plans = Counter(record_kinds()[kind].columns(record).plan_name for record in records)
        rows += [(f"Plan {name}", f"{times} {record_kinds()[kind].plural}") for name, times in plans.items()]
        for record in records:
            said.setdefault("labconsole_version", Counter())[
                str(getattr(record, "labconsole_version", "not known"))
            ] += 1
    if "without a plan" in digest.said:
        rows.append(("Without a plan", format_noun_count(digest.said["without a plan"].total(), "run")))
    rows.append(("Testbed fingerprint", format_tally(said.get("testbed_fingerprint"))))
    versions = said.get("labconsole_version", Counter())
    rows.append(
        (
            "Measured with",
            ", ".join(f"labconsole {name} ({format_noun_count(times, 'trial')})" for name, times in versions.items()),
        )
    )
    rows.append(("Reported with", f"labconsole {__version__}"))
    return rows
