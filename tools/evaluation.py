"""``make evaluation``: docs/evaluation.md and the other pages of EVALUATIONS.

From the plans that cut the papers' evaluations to what the local lab does, and through the real commands only: lab up,
replay, report, verify, lab down; `labconsole replay --dry-run` prints how long a plan's blocks take, and --set-ups N
takes the first N of them only. Nothing of the user's is touched: state and store are in a temporary directory. With
--store and --hosts, an evaluation that was measured already is written down instead.

A page has the figures with the report's captions, and links to the tables, which are CSV files in the directory of the
page's name; tables.csv lists them with their notes. The findings above the figures are written by hand.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import html
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from labconsole.text.sanitize import escape_markdown  # noqa: E402

DOCS = ROOT / "docs"
BEGIN, END = "<!-- evaluation: begin -->\n", "<!-- evaluation: end -->\n"


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What is measured on a lab of its own, and written to ``document``, with its files in a directory of that name.

    ``figures``: each with its alternative text, which says what is drawn and not what was found. ``references``: the
    papers that results are compared with, each with one's own platforms matched to its own; None: no paper.
    """

    document: str
    plans: tuple[str, ...]
    platforms: str
    lab: tuple[str, ...]
    figures: Mapping[str, str]
    tables: tuple[str, ...]
    references: tuple[tuple[str | None, str | None], ...]

    @property
    def path(self) -> Path:
        return DOCS / f"{self.document}.md"

    @property
    def directory(self) -> Path:
        return DOCS / self.document

    @property
    def plan_files(self) -> list[Path]:
        return [ROOT / "plans" / f"{plan}.yaml" for plan in self.plans]


EVALUATIONS = {
    "forwarding": Evaluation(
        document="evaluation",
        plans=("local-evaluation",),
        platforms="raw,container,lxc,uml,qemu-virtio,qemu-vmxnet3,qemu-e1000",
        lab=(),
        figures={
            "figure-3": (
                "Curves of the forwarding rate over the offered bandwidth, in Mbit/s: one panel for each frame "
                "size, one curve for each of seven platforms, with a line where nothing is lost."
            ),
            "figure-4": (
                "Bars of the maximum forwarding rate, in Mbit/s, by number of sources: one panel for each frame "
                "size, one bar for each of seven platforms."
            ),
            "figure-5": (
                "Bars of the maximum with a forwarding second guest relative to the maximum without, by platform: "
                "one panel for each frame size, two loads of the second guest."
            ),
        },
        tables=("ranking", "table-1", "figure-5-numbers", "collapse", "table-2", "table-3", "runs-by-point", "spread"),
        references=(("schlosser", "qemu-virtio=kvm,qemu-e1000=esxi-e1000,qemu-vmxnet3=esxi-vmxnet3,lxc=openvz"),),
    ),
    "delay": Evaluation(
        document="evaluation-delay",
        plans=("local-delay",),
        platforms="raw,container,lxc,uml,qemu-virtio,qemu-vmxnet3,qemu-e1000",
        lab=(),
        figures={
            "packet-delay-load": (
                "Curves of the one-way delay, on a logarithmic axis, over the offered bandwidth: one panel for "
                "the median and one for the 99th percentile, one curve for each of seven platforms."
            ),
            "packet-delay-quantiles": (
                "Curves of the one-way delay, on a logarithmic axis, over its quantile: one panel for each of "
                "three loads, one curve for each platform that has such a load."
            ),
        },
        tables=("packet-delay",),
        references=((None, None),),
    ),
    "guests": Evaluation(
        document="evaluation-guests",
        plans=("local-papers", "local-mattos", "local-serve", "local-qemu", "local-boot"),
        platforms="raw,lxc,uml,qemu-virtio",
        lab=("--jobs",),
        figures={
            "mattos-1": (
                "Bars of the execution time, in seconds, of programs that use the processor or memory in one "
                "guest: one panel for each program, one bar for each platform."
            ),
            "mattos-2": (
                "Bars of the execution time, in seconds, of programs that use the disk in one guest: one panel "
                "for each program, one bar for each platform."
            ),
            "quetier-1": (
                "Bars of the seconds that each of three requests for a file takes, over HTTP and over HTTPS, one "
                "bar for each platform."
            ),
            "quetier-2": (
                "Curves of the seconds until the last guest is up over the number of guests: a panel for cold and "
                "one for hot starts, one curve for each platform."
            ),
            "quetier-3": (
                "Curves of the seconds that a processor-bound program takes in one guest over the number of "
                "guests running, one for each platform, with a line for the bare host alone."
            ),
            "quetier-4": (
                "Curves of the seconds that a memory-bound program takes in one guest over the number of guests "
                "running, one for each platform, with a line for the bare host alone."
            ),
            "quetier-5-disk": (
                "Curves of the seconds that reading a disk takes in one guest over the number of guests running, "
                "one for each platform, with a line for the bare host alone."
            ),
            "quetier-5-network": (
                "Curves of the seconds that a TCP transfer takes in one guest over the number of guests running, "
                "one for each platform, with a line for the bare host alone."
            ),
            "quetier-7": (
                "Curves of the seconds that a processor-bound program takes in all guests at once over their "
                "number: mean and slowest guest of each platform, with a line for the bare host times the guests."
            ),
            "quetier-8": (
                "Curves of the seconds that a memory-bound program takes in all guests at once over their number: "
                "mean and slowest guest of each platform, with a line for the bare host times the guests."
            ),
            "quetier-9": (
                "Curves of the seconds that reading a disk takes in all guests at once over their number: mean "
                "and slowest guest of each platform, with a line for the bare host times the guests."
            ),
            "quetier-10": (
                "Curves of the seconds that a TCP transfer takes in all guests at once over their number: mean "
                "and slowest guest of each platform, with a line for the bare host times the guests."
            ),
            "quetier-11": (
                "Bars of how many times as long as one copy alone a processor-bound program takes in the guest "
                "with one copy and in the guest with two, one bar for each platform."
            ),
            "quetier-12": (
                "Bars of how many times as long as one copy alone a memory-bound program takes in the guest with "
                "one copy and in the guest with two, one bar for each platform."
            ),
            "quetier-13": (
                "Bars of how many times as long as one copy alone reading a disk takes in the guest with one copy "
                "and in the guest with two, one bar for each platform."
            ),
            "quetier-14": (
                "Bars of how many times as long as one copy alone a TCP transfer takes in the guest with one copy "
                "and in the guest with two, one bar for each platform."
            ),
        },
        tables=(
            "job-overheads",
            "job-guests",
            "job-isolation",
            "quetier-1-times",
            "quetier-2-times",
            "quetier-2-compared",
            "quetier-memory",
            "boot-idle",
            "clock-ratio",
            "quetier-abstract-jobs",
            "quetier-abstract-memory",
        ),
        references=(("quetier", None), ("mattos", None)),
    ),
    "weights": Evaluation(
        document="evaluation-weights",
        plans=("local-weights", "local-improved"),
        platforms="container,lxc,uml",
        lab=("--link-speed", "4Mbit", "--jobs"),
        figures={
            "adamczyk-10": (
                "Curves of the payload rate of two guests over time while their weights change in nine steps from "
                "30:1 to 1:30: one panel for each platform."
            ),
            "adamczyk-11": (
                "Curves of the payload rate of two guests over time with equal weights and equal limits: one "
                "panel for each platform, limit and number of flows."
            ),
            "adamczyk-12": (
                "Curves of the payload rate of two guests over time with equal weights and no limits, in one "
                "trial each: one panel for each platform and number of flows."
            ),
        },
        tables=("flow-weights", "flow-sharing"),
        references=(("adamczyk", None),),
    ),
    "flows": Evaluation(
        document="evaluation-flows",
        plans=("local-flow", "local-inbound"),
        platforms="raw,container,lxc,uml",
        lab=("--link-speed", "100Mbit", "--jobs"),
        figures={
            "mattos-3": (
                "Bars of the payload rate, in Mbit/s, that one guest sends and that one guest receives, one bar "
                "for each platform, with a line for what the link carries."
            ),
            "mattos-4a": (
                "Curves of the payload rate over the number of guests that send: all together and each, one panel "
                "for each platform, with a line for what the link carries."
            ),
            "adamczyk-5": (
                "Curves of the payload rate of each guest over time under equal limits: one panel for each "
                "platform and number of guests, with a line for the limit."
            ),
            "adamczyk-6": (
                "Curves of the payload rate of each guest over time under different limits: one panel for each "
                "platform and number of guests, with a line for each limit."
            ),
            "adamczyk-7": (
                "Curves of the payload rate of each guest over time without limits, in one trial each: one panel "
                "for each platform and number of guests, with lines for the link and an equal share."
            ),
        },
        tables=("flow-sharing", "flow-received", "mattos-abstract-network"),
        references=(("mattos", None), ("adamczyk", None)),
    ),
    "isolation": Evaluation(
        document="evaluation-isolation",
        plans=("local-isolation", "local-late", "local-greedy", "local-disk"),
        platforms="container,lxc,uml,qemu-virtio",
        lab=("--link-speed", "100Mbit", "--jobs"),
        figures={
            "adamczyk-5": (
                "Curves of the payload rate of two guests over time under equal limits, the second beginning "
                "after five seconds: one panel for each platform and limit."
            ),
            "adamczyk-6": (
                "Curves of the payload rate of two guests over time under different limits, the second beginning "
                "after five seconds: one panel for each platform."
            ),
            "adamczyk-7": (
                "Curves of the payload rate of two guests over time without limits, in one trial each: one panel "
                "for each platform, with the second beginning later and with both beginning together."
            ),
            "adamczyk-8": (
                "Curves of the payload rate of two guests over time, one with two or three flows and the other "
                "with one: one panel for each platform and number of flows."
            ),
            "adamczyk-9": (
                "Curves of the payload rate of a guest that sends while another works on its disk from the fourth "
                "to the eighth second: one panel for each platform and placement on CPUs."
            ),
        },
        tables=("flow-sharing",),
        references=(("adamczyk", None),),
    ),
    "ring": Evaluation(
        document="evaluation-ring",
        plans=("local-ring",),
        platforms="container,lxc,uml",
        lab=("--jobs",),
        figures={
            "quetier-15": (
                "Bars of the rate, in MB/s, that each guest of a ring sends to the next: one panel for two and "
                "one for four guests, one bar for each platform."
            ),
        },
        tables=("flow-ring",),
        references=(("quetier", None),),
    ),
    "routes": Evaluation(
        document="evaluation-routes",
        plans=("local-route",),
        platforms="container,lxc",
        lab=("--jobs",),
        figures={
            "mattos-routes": (
                "Curves of the packets a second that all routers forward over the number of routes in each, with "
                "0 and 100 000: one panel for each platform and number of routers."
            ),
            "mattos-4b": (
                "Curves of the packets a second that all routers forward, and that they are sent, over the number "
                "of routers: one panel for each platform."
            ),
        },
        tables=("routers", "route-changes", "mattos-abstract-routers"),
        references=(("mattos", None),),
    ),
}


def labconsole(words: Sequence[str | Path], environment: dict[str, str], *, allowed: tuple[int, ...] = (0,)) -> str:
    """One real command; what it says on stderr is shown. Raises SystemExit when it does not end as it should."""
    argv = [sys.executable, "-m", "labconsole", *map(str, words)]
    print("$ labconsole", *map(str, words), flush=True)
    done = subprocess.run(argv, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in allowed:
        raise SystemExit(f"that ended with {done.returncode}")
    return done.stdout


def measure(what: Evaluation, directory: Path, environment: dict[str, str], set_ups: int | None) -> tuple[Path, Path]:
    """Replay the plans on a lab of its own; returns store and hosts.yaml. Exit status 1: a trial stayed invalid.

    ``set_ups``: the first blocks only.
    """
    store = directory / "runs.sqlite"
    labconsole(["lab", "up", "--name", "evaluation", "--platforms", what.platforms, *what.lab], environment)
    try:
        lab = directory / "state" / "labconsole" / "labs" / "evaluation" / "hosts.yaml"
        blocks = [] if set_ups is None else ["--set-ups", str(set_ups)]
        for plan in what.plan_files:
            labconsole(["replay", plan, "--hosts", lab, "--store", store, *blocks], environment, allowed=(0, 1))
        return store, Path(shutil.copy(lab, directory / "hosts.yaml"))
    finally:
        labconsole(["lab", "down", "--name", "evaluation"], environment)


def write_down(what: Evaluation, store: Path, hosts: Path, directory: Path, environment: dict[str, str]) -> None:
    """Report, bundle, verify; figures and tables into docs/."""
    bundle = directory / "evaluation.tar.gz"
    words: list[str | Path] = ["report", "--store", store]
    for plan in what.plan_files:
        words += ["--plan", plan]
    outs: list[Path] = []
    for paper, names in what.references:
        outs.append(directory / ("out" if paper is None else f"out-{paper}"))
        arguments = [*words, "--out", outs[-1]]
        arguments += [] if paper is None else ["--reference", paper]
        arguments += [] if names is None else ["--reference-map", names]
        arguments += ["--hosts", hosts, "--bundle", bundle] if len(outs) == 1 else []
        labconsole(arguments, environment)
    verified = labconsole(["verify", bundle], environment).strip().splitlines()
    measured = (
        f"Measured {datetime.datetime.now(datetime.UTC).date()} on Linux {platform.release()}, {os.cpu_count()} CPUs; "
        f"`labconsole verify` of its bundle says: {verified[-1]}."
    )
    write_page(what, outs, measured)


def write_page(what: Evaluation, outs: Sequence[Path], measured: str) -> None:
    """Copy the figures and tables of reports to the evaluation's directory, and write the page's part about them.

    ``outs``: the files of a report for each paper. The first has all figures and tables; of the others only what
    compares with their paper is taken.
    """
    first, (text, marker, rest) = outs[0], what.path.read_text().partition(BEGIN)
    if not marker or END not in rest:
        raise SystemExit(f"{what.path} has no markers to write between")
    figures = {name: what.figures[name] for name in what.figures if (first / f"{name}.png").exists()}
    if missing := sorted(set(what.figures) - set(figures)):
        print(f"the report has no {', '.join(missing)}", file=sys.stderr)
    tables = find_tables(what, outs)
    what.directory.mkdir(exist_ok=True)
    for old in [*what.directory.glob("*.png"), *what.directory.glob("*.csv")]:
        old.unlink()
    for name in figures:
        shutil.copy(first / f"{name}.png", what.directory)
    for table in tables:
        shutil.copy(table.file, what.directory)
    write_list_of_tables(what.directory / "tables.csv", tables)
    captions = read_captions((first / "report.html").read_text())
    parts = [f"## Figures\n\n{measured}\n"]
    parts += [format_figure(what.document, name, alt, captions[name]) for name, alt in figures.items()]
    parts += [format_links(what.document, tables)]
    what.path.write_text(text + BEGIN + "\n" + "\n".join(parts) + "\n" + END + rest.partition(END)[2])


class TableFile(NamedTuple):
    """A table of a report: its CSV file, its title and its note, as printed, and how many rows it has."""

    file: Path
    title: str
    note: str
    rows: int


def find_tables(what: Evaluation, outs: Iterable[Path]) -> list[TableFile]:
    """The evaluation's tables that the first report has, then those of every report that compare with a paper."""
    first, *_ = outs = list(outs)
    files = [first / f"{name}.csv" for name in (*what.tables, "background-load")]
    files += [path for out in outs for path in sorted(out.glob("*-beside*.csv"))]
    return [read_table(path) for path in files if path.exists()]


def read_table(file: Path) -> TableFile:
    """A table by its CSV, and its title and note by what the report printed next to it."""
    lines = [line for line in file.with_suffix(".md").read_text().splitlines() if line]
    note = "" if lines[-1].startswith("|") else unescape(lines[-1])
    with file.open(newline="") as opened:
        return TableFile(file, unescape(lines[0].strip("*")), note, sum(1 for _ in csv.reader(opened)) - 1)


def unescape(text: str) -> str:
    """The text of a line of Markdown in which the report escaped what Markdown would read."""
    return re.sub(r"\\(?=_|[^\w\s])", "", text)


def write_list_of_tables(path: Path, tables: Iterable[TableFile]) -> None:
    """A row for each table: what its columns mean is in its note."""
    with path.open("w", newline="") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(("file", "title", "rows", "note"))
        writer.writerows((table.file.name, table.title, table.rows, table.note) for table in tables)


def read_captions(page: str) -> dict[str, str]:
    """The caption of each figure of a report's page, as plain text."""
    found = re.findall(r'<figure id="([^"]+)">.*?<figcaption>(.*?)</figcaption>', page, re.DOTALL)
    return {name: html.unescape(re.sub(r"<[^>]+>", "", caption)) for name, caption in found}


def format_figure(document: str, name: str, alt: str, caption: str) -> str:
    """A figure with its caption below, as Markdown."""
    return f"![{alt}]({document}/{name}.png)\n\n*{escape_markdown(caption)}*\n"


def format_links(document: str, tables: Iterable[TableFile]) -> str:
    """The list of the tables, as Markdown."""
    lines = ["## Tables", "", f"What their columns mean is in the notes of [tables.csv]({document}/tables.csv).", ""]
    for table in tables:
        rows = "1 row" if table.rows == 1 else f"{table.rows} rows"
        lines.append(f"- [{table.file.name}]({document}/{table.file.name}), {rows}: {escape_markdown(table.title)}")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=EVALUATIONS, default="forwarding", help="default: forwarding")
    parser.add_argument("--store", type=Path, help="runs that were measured already")
    parser.add_argument("--hosts", type=Path, help="the testbed that they were measured on")
    parser.add_argument("--set-ups", type=int, metavar="N", help="measure the first N blocks of the plan only")
    options = parser.parse_args()
    if (options.store is None) is not (options.hosts is None):
        parser.error("--store needs --hosts, and --hosts needs --store")
    if options.store is not None and options.set_ups is not None:
        parser.error("--set-ups is about measuring, and --store holds what was measured already")
    what = EVALUATIONS[options.what]
    with tempfile.TemporaryDirectory(prefix="labconsole-evaluation-") as name:
        directory = Path(name)
        environment = {**os.environ, "XDG_STATE_HOME": str(directory / "state"), "PYTHONPATH": str(ROOT)}
        store, hosts = options.store, options.hosts
        if store is None:
            store, hosts = measure(what, directory, environment, options.set_ups)
        write_down(what, store, hosts, directory, environment)
    print(f"wrote {what.path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
