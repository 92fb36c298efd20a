"""``make evaluation``: docs/evaluation.md and the other pages of EVALUATIONS.

From the plans that cut the papers' evaluations to what the local lab does, and through the real commands only: lab up,
replay, report, verify, lab down; `labconsole replay --dry-run` prints how long a plan's blocks take, and --set-ups N
takes the first N of them only. Nothing of the user's is touched: state and store are in a temporary directory. With
--store and --hosts, an evaluation that was measured already is written down instead.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
BEGIN, END = "<!-- evaluation: begin -->\n", "<!-- evaluation: end -->\n"


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What is measured on a lab of its own and written down in ``document``, with pictures in a directory of its name.

    ``references``: the papers that stand beside, each with one's own platforms to its own; None: no paper.
    """

    document: str
    plans: tuple[str, ...]
    platforms: str
    lab: tuple[str, ...]
    figures: tuple[str, ...]
    tables: tuple[str, ...]
    references: tuple[tuple[str | None, str | None], ...]

    @property
    def path(self) -> Path:
        return DOCS / f"{self.document}.md"

    @property
    def plan_files(self) -> list[Path]:
        return [ROOT / "plans" / f"{plan}.yaml" for plan in self.plans]


EVALUATIONS = {
    "forwarding": Evaluation(
        document="evaluation",
        plans=("local-evaluation",),
        platforms="raw,container,lxc,uml,qemu-virtio,qemu-vmxnet3,qemu-e1000",
        lab=(),
        figures=("figure-3", "figure-4", "figure-5"),
        tables=("ranking", "table-1", "figure-5-numbers", "collapse", "table-2", "table-3", "runs-by-point", "spread"),
        references=(("schlosser", "qemu-virtio=kvm,qemu-e1000=esxi-e1000,qemu-vmxnet3=esxi-vmxnet3,lxc=openvz"),),
    ),
    "delay": Evaluation(
        document="evaluation-delay",
        plans=("local-delay",),
        platforms="raw,container,lxc,uml,qemu-virtio,qemu-vmxnet3,qemu-e1000",
        lab=(),
        figures=("packet-delay-load", "packet-delay-quantiles"),
        tables=("packet-delay",),
        references=((None, None),),
    ),
    "guests": Evaluation(
        document="evaluation-guests",
        plans=("local-papers", "local-mattos", "local-serve", "local-qemu", "local-boot"),
        platforms="raw,lxc,uml,qemu-virtio",
        lab=("--jobs",),
        figures=(
            "mattos-1",
            "mattos-2",
            "quetier-1",
            "quetier-2",
            "quetier-3",
            "quetier-4",
            "quetier-5-disk",
            "quetier-5-network",
            "quetier-7",
            "quetier-8",
            "quetier-9",
            "quetier-10",
            "quetier-11",
            "quetier-12",
            "quetier-13",
            "quetier-14",
        ),
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
        figures=("adamczyk-10", "adamczyk-11", "adamczyk-12"),
        tables=("flow-weights", "flow-sharing"),
        references=(("adamczyk", None),),
    ),
    "flows": Evaluation(
        document="evaluation-flows",
        plans=("local-flow", "local-inbound"),
        platforms="raw,container,lxc,uml",
        lab=("--link-speed", "100Mbit", "--jobs"),
        figures=("mattos-3", "mattos-4a", "adamczyk-5", "adamczyk-6", "adamczyk-7"),
        tables=("flow-sharing", "flow-received", "mattos-abstract-network"),
        references=(("mattos", None), ("adamczyk", None)),
    ),
    "isolation": Evaluation(
        document="evaluation-isolation",
        plans=("local-isolation", "local-late", "local-greedy", "local-disk"),
        platforms="container,lxc,uml,qemu-virtio",
        lab=("--link-speed", "100Mbit", "--jobs"),
        figures=("adamczyk-5", "adamczyk-6", "adamczyk-7", "adamczyk-8", "adamczyk-9"),
        tables=("flow-sharing",),
        references=(("adamczyk", None),),
    ),
    "ring": Evaluation(
        document="evaluation-ring",
        plans=("local-ring",),
        platforms="container,lxc,uml",
        lab=("--jobs",),
        figures=("quetier-15",),
        tables=("flow-ring",),
        references=(("quetier", None),),
    ),
    "routes": Evaluation(
        document="evaluation-routes",
        plans=("local-route",),
        platforms="container,lxc",
        lab=("--jobs",),
        figures=("mattos-routes", "mattos-4b"),
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
    """Report, bundle, verify; pictures and tables into docs/."""
    bundle = directory / "evaluation.tar.gz"
    words: list[str | Path] = ["report", "--store", store]
    for plan in what.plan_files:
        words += ["--plan", plan]
    outs = []
    for paper, names in what.references:
        outs.append(directory / ("out" if paper is None else f"out-{paper}"))
        told = [*words, "--out", outs[-1]]
        told += [] if paper is None else ["--reference", paper]
        told += [] if names is None else ["--reference-map", names]
        told += ["--hosts", hosts, "--bundle", bundle] if len(outs) == 1 else []
        labconsole(told, environment)
    out, pictures = outs[0], DOCS / what.document
    verified = labconsole(["verify", bundle], environment).strip().splitlines()
    pictures.mkdir(exist_ok=True)
    figures = [name for name in what.figures if (out / f"{name}.png").exists()]
    if missing := sorted(set(what.figures) - set(figures)):
        print(f"the report has no {', '.join(missing)}", file=sys.stderr)
    for name in figures:
        shutil.copy(out / f"{name}.png", pictures / f"{name}.png")
    parts = [
        f"Measured {datetime.datetime.now(datetime.UTC).date()} on Linux {platform.release()}, {os.cpu_count()} CPUs; "
        f"`labconsole verify` of its bundle says: {verified[-1]}.\n"
    ]
    parts += [f"![{name}]({what.document}/{name}.png)\n" for name in figures]
    parts += [(out / f"{name}.md").read_text() for name in what.tables if (out / f"{name}.md").exists()]
    load = out / "background-load.md"
    parts += [asked_for(load.read_text())] if load.exists() else []
    parts += [path.read_text() for each in outs for path in sorted(each.glob("*-beside*.md"))]
    before, _, rest = what.path.read_text().partition(BEGIN)
    what.path.write_text(before + BEGIN + "\n" + "\n".join(parts) + "\n" + END + rest.partition(END)[2])


def asked_for(table: str) -> str:
    """Of the table of background loads the quantities that were asked for; the rest is in the report."""
    return "\n".join(line for line in table.splitlines() if not line.startswith("| ") or "| – |" not in line) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=EVALUATIONS, default="forwarding", help="default: forwarding")
    parser.add_argument("--store", type=Path, help="runs that were measured already")
    parser.add_argument("--hosts", type=Path, help="the testbed that they were measured on")
    parser.add_argument("--set-ups", type=int, metavar="N", help="measure the first N blocks of the plan only")
    told = parser.parse_args()
    if (told.store is None) is not (told.hosts is None):
        parser.error("--store needs --hosts, and --hosts needs --store")
    if told.store is not None and told.set_ups is not None:
        parser.error("--set-ups is about measuring, and --store holds what was measured already")
    what = EVALUATIONS[told.what]
    with tempfile.TemporaryDirectory(prefix="labconsole-evaluation-") as name:
        directory = Path(name)
        environment = {**os.environ, "XDG_STATE_HOME": str(directory / "state"), "PYTHONPATH": str(ROOT)}
        store, hosts = told.store, told.hosts
        if store is None:
            store, hosts = measure(what, directory, environment, told.set_ups)
        write_down(what, store, hosts, directory, environment)
    print(f"wrote {what.path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
