"""``make evaluation``: docs/evaluation.md, from the plan that cuts the paper's evaluation to what the local lab does.

Through the real commands only: lab up, replay, report, verify, lab down; `labconsole replay --dry-run` says how long the plan's
blocks take, and --set-ups N takes the first N of them only. Nothing of the user's is touched: state and store lie in a
temporary directory. With --store and --hosts, an evaluation that was measured already is written down instead.
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
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "evaluation.md"
PICTURES = ROOT / "docs" / "evaluation"
PLAN = ROOT / "plans" / "local-evaluation.yaml"
PLATFORMS = "raw,container,lxc,uml,qemu-virtio,qemu-vmxnet3,qemu-e1000"
IN_THE_PAPER = "qemu-virtio=kvm,qemu-e1000=esxi-e1000,qemu-vmxnet3=esxi-vmxnet3,lxc=openvz"
BEGIN, END = "<!-- evaluation: begin -->\n", "<!-- evaluation: end -->\n"
FIGURES = ("figure-3", "figure-4", "figure-5")
TABLES = (
    "ranking", "table-1", "figure-5-numbers", "collapse", "table-2", "table-3", "runs-by-point", "spread"
)  # fmt: skip


def labconsole(words: Sequence[str | Path], environment: dict[str, str], *, allowed: tuple[int, ...] = (0,)) -> str:
    """One real command; what it says on stderr is shown. Raises SystemExit when it does not end as it should."""
    argv = [sys.executable, "-m", "labconsole", *map(str, words)]
    print("$ labconsole", *map(str, words), flush=True)
    done = subprocess.run(argv, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in allowed:
        raise SystemExit(f"that ended with {done.returncode}")
    return done.stdout


def measure(directory: Path, environment: dict[str, str], set_ups: int | None) -> tuple[Path, Path]:
    """Replay the plan on a lab of its own; returns store and hosts.yaml. Exit status 1: a run stayed invalid.

    ``set_ups``: the first blocks only.
    """
    store = directory / "runs.sqlite"
    labconsole(["lab", "up", "--name", "evaluation", "--platforms", PLATFORMS], environment)
    try:
        lab = directory / "state" / "labconsole" / "labs" / "evaluation" / "hosts.yaml"
        blocks = [] if set_ups is None else ["--set-ups", str(set_ups)]
        labconsole(["replay", PLAN, "--hosts", lab, "--store", store, *blocks], environment, allowed=(0, 1))
        return store, Path(shutil.copy(lab, directory / "hosts.yaml"))
    finally:
        labconsole(["lab", "down", "--name", "evaluation"], environment)


def write_down(store: Path, hosts: Path, directory: Path, environment: dict[str, str]) -> None:
    """Report, bundle, verify; pictures and tables into docs/."""
    out, bundle = directory / "out", directory / "evaluation.tar.gz"
    words: list[str | Path] = [
        "report",
        "--plan",
        PLAN,
        "--store",
        store,
        "--hosts",
        hosts,
        "--out",
        out,
        "--bundle",
        bundle,
    ]
    labconsole([*words, "--reference", "schlosser", "--reference-map", IN_THE_PAPER], environment)
    verified = labconsole(["verify", bundle], environment).strip().splitlines()
    PICTURES.mkdir(exist_ok=True)
    for name in FIGURES:
        shutil.copy(out / f"{name}.png", PICTURES / f"{name}.png")
    parts = [
        f"Measured {datetime.datetime.now(datetime.UTC).date()} on Linux {platform.release()}, {os.cpu_count()} CPUs; "
        f"`labconsole verify` of its bundle says: {verified[-1]}.\n"
    ]
    parts += [f"![{name}](evaluation/{name}.png)\n" for name in FIGURES]
    parts += [(out / f"{name}.md").read_text() for name in TABLES if (out / f"{name}.md").exists()]
    load = out / "background-load.md"
    parts += [asked_for(load.read_text())] if load.exists() else []
    parts += [path.read_text() for path in sorted(out.glob("*-beside-schlosser.md"))]
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    DOCUMENT.write_text(before + BEGIN + "\n" + "\n".join(parts) + "\n" + END + rest.partition(END)[2])


def asked_for(table: str) -> str:
    """Of the table of background loads the quantities that were asked for; the rest is in the report."""
    return "\n".join(line for line in table.splitlines() if not line.startswith("| ") or "| – |" not in line) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, help="runs that were measured already")
    parser.add_argument("--hosts", type=Path, help="the testbed that they were measured on")
    parser.add_argument("--set-ups", type=int, metavar="N", help="measure the first N blocks of the plan only")
    told = parser.parse_args()
    if (told.store is None) is not (told.hosts is None):
        parser.error("--store needs --hosts, and --hosts needs --store")
    if told.store is not None and told.set_ups is not None:
        parser.error("--set-ups is about measuring, and --store holds what was measured already")
    with tempfile.TemporaryDirectory(prefix="labconsole-evaluation-") as name:
        directory = Path(name)
        environment = {**os.environ, "XDG_STATE_HOME": str(directory / "state"), "PYTHONPATH": str(ROOT)}
        store, hosts = told.store, told.hosts
        if store is None:
            store, hosts = measure(directory, environment, told.set_ups)
        write_down(store, hosts, directory, environment)
    print(f"wrote {DOCUMENT.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
