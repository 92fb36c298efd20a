"""``labconsole analyze``: count a capture file at the console, as a trial does. docs/analyze.md.

Small files are counted as on a node, with the standard library: loading numpy would take longer. Both ways give the
same report.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from labconsole.cli.commands import About
from labconsole.cli.options import add_common, number
from labconsole.cli.output import answer
from labconsole.errors import CaptureFormatError, ConfigError

NUMPY_PAYS_FROM_BYTES = 160_000_000
"""Measured: loading numpy takes 0.1 s, in which the standard library counts some 2 million packets."""

LEAST_BIN_S, MOST_BIN_S = 0.001, 3600.0

about = About(150, "count the packets of a capture as a trial would")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_common(parser, "--json")
    parser.add_argument("file", type=Path, help="pcap or pcapng")
    parser.add_argument(
        "--flows",
        type=number,
        metavar="S",
        help="count UDP flows, too, by source MAC and ports, in bins of S seconds",
    )


def run(args: argparse.Namespace) -> int:
    """Print the contents of the file."""
    from labconsole.cli.text.analysis import analysis_lines

    if args.flows is not None and not LEAST_BIN_S <= args.flows <= MOST_BIN_S:
        allowed = f"{LEAST_BIN_S:g} to {MOST_BIN_S:g}"
        raise ConfigError("is not a length for bins", key="--flows", value=args.flows, allowed=allowed)
    report = analyze_path(args.file, flow_bin_s=args.flows)
    answer(report, analysis_lines(report), as_json=args.json)
    return 0


def analyze_path(
    path: str | os.PathLike[str], *, use_numpy: bool | None = None, flow_bin_s: float | None = None
) -> dict[str, Any]:
    """Count a capture file and return the object that ``labconsole analyze --json`` prints (docs/analyze.md).

    ``use_numpy``: None chooses by the size of the file. ``flow_bin_s``: also count flows. Raises CaptureFormatError.
    """
    from labconsole.packets.flows import MAX_BINS, FlowBins
    from labconsole.packets.follower import CaptureFollower
    from labconsole.packets.pcap import NotACapture

    name = os.fspath(path)
    try:
        if use_numpy is None:
            use_numpy = Path(name).stat().st_size >= NUMPY_PAYS_FROM_BYTES
        runs = _numpy_runs() if use_numpy else None
        flows = None if flow_bin_s is None else FlowBins(round(flow_bin_s * 1e9), MAX_BINS, runs)
        report = CaptureFollower(name, runs, flows=flows).finish()
    except NotACapture as exc:
        raise CaptureFormatError(f"{name} {exc}; allowed: pcap (µs or ns) and pcapng, not compressed") from exc
    except OSError as exc:
        raise CaptureFormatError(f"{name} cannot be read: {exc.strerror or exc}") from exc
    return {"file": name, **report, **({} if flows is None else {"flows": flows.report()})}


def _numpy_runs() -> Any:
    # Loading numpy's OpenBLAS starts a thread per processor. Nothing here multiplies matrices, and without the threads
    # loading takes half the processor time (0.06 s instead of 0.11 s).
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from labconsole.measure.numpy_columns import NumpyRuns

    return NumpyRuns()
