"""report.html, one self-contained file: results, method with every choice, testbed, excluded runs.

All text is sanitized and escaped: nodes and operators wrote the names and facts. The page loads nothing from elsewhere
and needs no script.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from labconsole.errors import ConfigError
from labconsole.model.record.kinds import record_kinds
from labconsole.report.assembly import Report
from labconsole.report.digest import Digest, Evidence
from labconsole.report.fact_history import FactHistory
from labconsole.report.formatting import format_note, format_noun_count
from labconsole.report.material import Material
from labconsole.report.method_notes import NoteRow, describe_method, format_tally
from labconsole.report.sample import RunSample
from labconsole.report.tables import labelled
from labconsole.text.extras import build_install_command
from labconsole.text.sanitize import sanitize
from labconsole.wire.version import __version__

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
    """Render the page. ``drawings``: a figure's name to its SVG text, as draw.py wrote it."""
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
