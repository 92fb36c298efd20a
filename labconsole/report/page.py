"""report.html: one file that stands alone: results, method with every choice, testbed, what was left out.

RFC 2544 (sections 4, 8, 26) asks a report to state its choices; where the method departs from it, that is said. All
text comes escaped: names and facts are what nodes and operators wrote.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from labconsole import __version__
from labconsole.errors import ConfigError
from labconsole.model.record import RunRecord
from labconsole.report.figures import Figure
from labconsole.report.findings import Finding
from labconsole.report.frame import Sample
from labconsole.report.tables import Table

TEMPLATE = Path(__file__).parent / "templates" / "report.html"

Words = tuple[str, str]


def render(
    *,
    title: str,
    records: Sequence[RunRecord],
    kept: Sample,
    figures: Sequence[Figure],
    drawings: Mapping[str, str],
    tables: Sequence[Table],
    findings: Sequence[Finding],
) -> str:
    """The page. ``drawings``: a figure's name to its SVG text, as draw.py wrote it."""
    try:
        from jinja2 import Environment
        from markupsafe import Markup
    except ImportError:
        raise ConfigError("report.html needs jinja2: pip install 'labconsole[report]'") from None
    template = Environment(autoescape=True).from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(
        title=title,
        summary=_summary(records, kept),
        emulated=any(record.emulated for record in records),
        findings=findings,
        figures=[
            {"name": f.name, "title": f.title, "caption": f.caption, "svg": Markup(_inline(drawings[f.name], f.name))}
            for f in figures
            if f.name in drawings
        ],
        tables=tables,
        method=_method(records),
        exclusions=_exclusions(kept),
        excluded=[(code, f"{count} runs") for code, count in kept.excluded_by_reason],
        influences=_influences(records),
        nodes=_nodes(records),
        provenance=_provenance(records),
    )


def _inline(svg: str, name: str) -> str:
    """An SVG file as part of a page: without its XML head, its ids made unique among several figures."""
    body = svg[svg.index("<svg") :]
    for mark in ('id="', 'href="#', "url(#"):
        body = body.replace(mark, f"{mark}{name}-")
    return body


def _summary(records: Sequence[RunRecord], kept: Sample) -> str:
    if not records:
        return "No runs."
    testbeds = ", ".join(sorted({record.testbed for record in records}))
    first, last = min(r.started_at for r in records), max(r.finished_at for r in records)
    operators = ", ".join(sorted({record.operator for record in records}))
    return (
        f"{len(kept.runs)} runs on testbed {testbeds}, taken from {first} to {last} by {operators}. "
        f"Every number follows from the raw counts of these runs; labconsole verify computes them again."
    )


def _exclusions(kept: Sample) -> str:
    total = len(kept.runs) + len(kept.excluded)
    return (
        f"{len(kept.excluded)} of {total} runs are invalid or have no rate; they enter no mean. "
        f"{kept.suspect} of those that enter are suspect: they stand, with a doubt that their record names."
    )


def _one_of(values: Sequence[object]) -> str:
    return ", ".join(str(value) for value in dict.fromkeys(values))


def _method(records: Sequence[RunRecord]) -> list[Words]:
    asked = [record.requested for record in records]
    streams = [stream for record in records for stream in record.streams]
    conventions = {
        False: "s without the frame check sequence, as pktgen counts; the wire adds 24 bytes",
        True: "s with the frame check sequence, as RFC 2544 counts; the wire adds 20 bytes",
    }
    witnesses = Counter(stream.measured_from or "neither" for stream in streams)
    return [
        ("Frame size", _one_of([conventions[r.frame_size_includes_fcs] for r in asked])),
        ("Bandwidth", "on the wire (layer 1): frame, frame check sequence, preamble and inter-frame gap"),
        ("Offered load", "packets that the generator reports as sent, over the time in which it sent them"),
        ("Measured", "; ".join(f"from {name} in {count} streams" for name, count in witnesses.most_common())),
        ("Loss", "offered minus measured, over offered; what the generator did not send is not lost"),
        ("Generator", _one_of([f"{s.generator} {s.generator_version or ''}".strip() for s in streams])),
        ("Traffic", "UDP over IPv4 of constant frame size and gap, one flow per source, one direction"),
        ("Duration of a trial", _one_of([f"{r.duration_s:g} s" for r in asked]) + " (RFC 2544 section 24: 60 s)"),
        ("Observation of the unit under test", _one_of([r.observe for r in asked])),
        ("Interval", "95 % confidence interval of the mean by Student's t over the repetitions of a design point"),
        ("Differences", "Welch's interval; ratios by Fieller's; below three repetitions none is given"),
        ("Maximum", "the design point with the highest mean measured rate, over all offered loads"),
        ("Background load", _one_of([r.background for r in asked])),
        (
            "Departures from RFC 2544",
            "fixed grid of offered loads instead of its search; one direction; flow control left as it was found",
        ),
    ]


def _influences(records: Sequence[RunRecord]) -> list[Words]:
    seen: Counter[Words] = Counter()
    for record in records:
        for kind, detail in {
            (str(i.get("kind", "note")), f"{i.get('node') or ''} {i.get('detail') or ''}".strip())
            for i in record.influences
        }:
            seen[kind, detail] += 1
    return [(kind, f"{detail} ({count} runs)") for (kind, detail), count in seen.most_common(100)]


def _nodes(records: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """Each node as the newest run found it."""
    newest: dict[str, Mapping[str, Any]] = {}
    for record in sorted(records, key=lambda r: r.started_at):
        for name, said in (record.environment.get("nodes") or {}).items():
            if isinstance(said, dict):
                newest[name] = said
    found = []
    for name, said in newest.items():
        facts = said.get("facts") or {}
        words = [str(facts[key]) for key in ("os", "kernel", "cpu_model") if facts.get(key)]
        rows = [(key, _plain(value)) for key, value in [*facts.items(), *said.items()] if key != "facts"]
        found.append({"name": name, "summary": ", ".join(words), "facts": rows})
    return found


def _plain(value: object) -> str:
    if value is None:
        return "not known"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_plain(each)}" for key, each in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(_plain(each) for each in value) or "none"
    return str(value)


def _provenance(records: Sequence[RunRecord]) -> list[Words]:
    plans = {record.plan.hash: record.plan for record in records if record.plan is not None}
    rows = [(f"Plan {plan.name}", f"hash {plan.hash}, seed {plan.seed}") for plan in plans.values()]
    alone = sum(record.plan is None for record in records)
    if alone:
        rows.append(("Without a plan", f"{alone} runs"))
    rows.append(("Testbed fingerprint", _one_of([record.testbed_fingerprint for record in records])))
    rows.append(("Measured with", _one_of([f"labconsole {record.labconsole_version}" for record in records])))
    rows.append(("Reported with", f"labconsole {__version__}"))
    return rows
