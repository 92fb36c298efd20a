"""The command line: parses, imports what a command needs, calls it, turns errors into one sentence and an exit code.

Imports of the package happen inside the commands, so that ``--help`` stays fast.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from labconsole import __version__
from labconsole.errors import Aborted, LabError
from labconsole.terminal import harmless, harmless_output

EPILOG = """\
exit status: 0 done; 1 done, but a run is invalid or a check failed; 2 bad usage or bad file;
             3 testbed unreachable or lost; 130 interrupted
"""


GENERATORS = ("auto", "pktgen", "afpacket")
TAKE_OVER = "take the testbed from an operator who is measuring on it: their run ends, both records say so"


def build_parser() -> argparse.ArgumentParser:
    """The parser of every command."""
    parser = argparse.ArgumentParser(
        prog="labconsole",
        description="Measure how well a machine forwards packets when it is virtualized. No command: the console.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"labconsole {__version__}")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("-v", "--verbose", action="count", default=0, help="say more on stderr; -vv also tracebacks")
    testbed = argparse.ArgumentParser(add_help=False)
    testbed.add_argument("--hosts", type=Path, metavar="FILE", help="the testbed (default: ./hosts.yaml)")
    stored = argparse.ArgumentParser(add_help=False)
    stored.add_argument(
        "--store",
        metavar="URL",
        help="where runs are saved: a file, or postgresql://user@host/database (default: the user's data directory)",
    )
    machine = argparse.ArgumentParser(add_help=False)
    taking = argparse.ArgumentParser(add_help=False)
    taking.add_argument("--take-over", action="store_true", help=TAKE_OVER)
    machine.add_argument("--json", action="store_true", help="JSON lines on stdout, nothing else there")

    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    console = commands.add_parser("console", help="the console (default)", parents=[common, testbed, stored])
    console.add_argument("--read-only", action="store_true", help="watch what others measure; takes no run")
    demo = commands.add_parser(
        "demo", help="local lab up, console on it, lab down on leaving", parents=[common, stored]
    )
    demo.add_argument("--sources", type=int, default=3, metavar="N", help="sources of the lab (default: 3)")
    _add_lab(commands, common, machine)
    _add_run(commands, [common, testbed, stored, machine, taking])
    _add_search(commands, [common, testbed, stored, machine])
    _add_replay(commands, [common, testbed, stored, machine, taking])
    _add_plan(commands, [common, testbed, stored, machine])
    _add_calibrate(commands, [common, testbed, stored, machine])
    check = commands.add_parser(
        "check", help="is the testbed fit to measure on: every check with evidence and a hint",
        parents=[common, testbed, stored, machine],
        description="Check every node, cable and platform path. Sends a few marked frames down every cable and a small "
        "flow through the unit under test; keeps no run. Exit status: 0 no check failed; 1 some did; 2 bad usage or "
        "bad file; 3 no node could be reached.",
    )  # fmt: skip
    check.add_argument(
        "--plan", type=Path, metavar="FILE",
        help="also whether this plan can be carried out: rates, calibration, disk, time, its platforms",
    )  # fmt: skip
    check.add_argument("--fix", action="store_true", help="put right what is safe to; undone at the end unless it says")
    check.add_argument("--brief", action="store_true", help="print only what is not a pass")
    _add_observer_effect(check)
    runs = commands.add_parser("runs", help="saved runs", parents=[common, stored, machine])
    runs.add_argument(
        "action", nargs="?", choices=("list", "show", "note", "export", "import"), default="list",
        help="what to do (default: list)",
    )  # fmt: skip
    runs.add_argument(
        "what", nargs="?",
        help="show, note: a run's id or its beginning; import: a file that export or report --bundle wrote, or another "
        "store; everything is taken over without doubles",
    )  # fmt: skip
    runs.add_argument("text", nargs="?", help='note: what to write on the run ("" removes it); without: show the note')
    runs.add_argument("--limit", type=int, default=20, metavar="N", help="list: newest N runs (default: 20)")
    runs.add_argument(
        "--where",
        metavar="FILTER",
        help="list, export: as in the console, such as 'platform=raw size=64 verdict!=invalid'",
    )
    runs.add_argument(
        "--format", choices=("jsonl", "csv", "parquet"),
        help="export: all of a run, or a row of a table (default: by the file's name, else jsonl)",
    )  # fmt: skip
    runs.add_argument("--out", type=Path, metavar="FILE", help="export: where to write (default: stdout)")
    _add_report(commands, [common, stored, machine])
    verify = commands.add_parser(
        "verify",
        help="recompute and judge the saved runs again, and hold them against each other; of a bundle its report, too",
        parents=[common, stored, machine],
    )  # fmt: skip
    verify.add_argument(
        "bundle", nargs="?", type=Path, metavar="FILE.tar.gz",
        help="what report --bundle wrote: check its files, verify its runs, make its report again",
    )  # fmt: skip
    schema = commands.add_parser("schema", help="JSON Schema of a file, for editors", parents=[common])
    schema.add_argument("file", choices=("hosts", "plan", "settings"), help="hosts.yaml, a plan, settings.yaml")
    settings = commands.add_parser(
        "settings", help="the console's settings file: where it is, what it can hold", parents=[common, machine]
    )
    settings.add_argument("--keys", action="store_true", help="list every key with the name that a keymap uses")
    analyze = commands.add_parser("analyze", help="count a capture the way a trial does", parents=[common, machine])
    analyze.add_argument("file", type=Path, help="pcap or pcapng")
    return parser


def _names(text: str) -> list[str]:
    return [name for name in (part.strip() for part in text.split(",")) if name]


def _add_lab(commands: Any, common: argparse.ArgumentParser, machine: argparse.ArgumentParser) -> None:
    lab = commands.add_parser("lab", help="the local testbed, real in every part")
    actions = lab.add_subparsers(dest="lab_action", metavar="ACTION", required=True)
    up = actions.add_parser("up", help="build it and leave it running", parents=[common, machine])
    up.add_argument("--name", default="local", help="several labs may run under different names (default: local)")
    up.add_argument("--sources", type=int, default=3, metavar="N", help="sources, and as many sinks (default: 3)")
    up.add_argument("--link-speed", default="1Gbit", metavar="RATE", help="of every link, or none (default: 1Gbit)")
    up.add_argument(
        "--loss", action="append", default=[], metavar="HOP=RATIO",
        help="drop a known share at a known place, such as uut/out=0.07; may be given again",
    )  # fmt: skip
    up.add_argument(
        "--generator", choices=("afpacket", "pktgen"), default="afpacket",
        help="pktgen: the whole lab inside a machine whose kernel has pktgen, by qemu (default: afpacket)",
    )  # fmt: skip
    up.add_argument(
        "--uut", choices=("namespace", "machine"), default="namespace",
        help="machine: the UUT is a machine of its own, by qemu, on which platforms can be compared "
        "(default: namespace)",
    )  # fmt: skip
    up.add_argument(
        "--boot", choices=("linux", "xen"), default="linux",
        help="what that machine boots; xen: the UUT is Xen's first domain (default: linux). A lab that is up reboots",
    )  # fmt: skip
    up.add_argument(
        "--ssh-server", choices=("builtin", "openssh"), default="builtin",
        help="what the nodes are logged in to by; openssh needs sshd (default: builtin)",
    )  # fmt: skip
    up.add_argument(
        "--platforms", type=_names, metavar="A,B",
        help="what the UUT offers: raw, raw-bridge, container, lxc, uml, qemu-virtio, qemu-e1000, qemu-vmxnet3, and if "
        "it is a machine kvm, xen (default: the first three; on a machine raw, raw-bridge, lxc, kvm, xen)",
    )  # fmt: skip
    up.add_argument("--accel", choices=("tcg", "kvm"), default="tcg", help="of a machine, and of qemu-* (default: tcg)")
    up.add_argument("--install", action="store_true", help="install the Debian packages that are missing")
    wire = actions.add_parser("wire", help="take the UUT out from between sources and sinks", parents=[common, machine])
    wire.add_argument("how", choices=("direct", "through"), help="direct: source to sink; through: the UUT, as built")
    wire.add_argument("--name", default="local", help="which lab (default: local)")
    for action, text in (("down", "remove it"), ("status", "what is running, and the drops it injected")):
        sub = actions.add_parser(action, help=text, parents=[common, machine])
        only = "local" if action == "down" else None
        sub.add_argument("--name", default=only, help=f"which lab (default: {only or 'all of them'})")


def _add_observer_effect(check: argparse.ArgumentParser) -> None:
    # No defaults here: what is given without --observer-effect would do nothing, and is refused (observer_command.py).
    group = check.add_argument_group("the observer effect, instead of the checks")
    group.add_argument(
        "--observer-effect", type=int, nargs="?", const=5, metavar="PAIRS",
        help="take runs with the UUT watched quietly and live, in pairs (default: 5), and compare; none is stored",
    )  # fmt: skip
    group.add_argument("--platform", help="one of the inventory's (default: its first)")
    group.add_argument("--frame-size", type=int, metavar="BYTES", help="without FCS (default: 64)")
    group.add_argument("--includes-fcs", action="store_true", help="the frame size includes the FCS, as in RFC 2544")
    group.add_argument("--sources", type=int, metavar="N", help="sources at once (default: 1)")
    group.add_argument(
        "--target", metavar="RATE",
        help="bandwidth on the wire per source, such as 100Mbit, or max (default: 100Mbit)",
    )  # fmt: skip
    group.add_argument("--duration", type=float, metavar="S", help="seconds of traffic of each run (default: 1)")
    group.add_argument("--take-over", action="store_true", help=TAKE_OVER)


def _add_calibrate(commands: Any, parents: list[argparse.ArgumentParser]) -> None:
    calibrate = commands.add_parser(
        "calibrate", help="what generators, sinks and captures can do, with the UUT bypassed", parents=parents,
        description="Measure the instrument itself. The UUT must be out of the way: a local lab is rewired and wired "
        "back by itself, on any other testbed this says what to connect and checks that it is so.",
    )  # fmt: skip
    calibrate.add_argument("--show", action="store_true", help="print the last calibration; touch nothing")
    calibrate.add_argument(
        "--wired", action="store_true", help="the UUT is out of the way already: rewire and ask nothing"
    )
    calibrate.add_argument(
        "--frame-size", type=int, action="append", metavar="BYTES",
        help="may be given again (default: the plan's, else 64, 500, 1000 and 1500)",
    )  # fmt: skip
    calibrate.add_argument("--includes-fcs", action="store_true", help="frame sizes include the FCS, as in RFC 2544")
    calibrate.add_argument("--plan", type=Path, metavar="FILE", help="frame sizes and numbers of sources of this plan")
    calibrate.add_argument(
        "--sources", type=int, action="append", metavar="N",
        help="sources at once; may be given again (default: all, in an emulated testbed 1 and all)",
    )  # fmt: skip
    calibrate.add_argument("--duration", type=float, default=0.5, metavar="S", help="of each trial (default: 0.5)")
    calibrate.add_argument(
        "--time-limit", type=float, default=120.0, metavar="S",
        help="no search for closer bounds beyond this (default: 120)",
    )  # fmt: skip
    calibrate.add_argument(
        "--generator", choices=GENERATORS, help="what sends (default: the plan's, else the inventory's)"
    )
    calibrate.add_argument("--take-over", action="store_true", help=TAKE_OVER)


def _add_run(commands: Any, parents: list[argparse.ArgumentParser]) -> None:
    run = commands.add_parser("run", help="take one design point now", parents=parents)
    run.add_argument("--platform", help="one of the inventory's (default: its first)")
    run.add_argument("--frame-size", type=int, default=64, metavar="BYTES", help="without FCS (default: 64)")
    run.add_argument("--includes-fcs", action="store_true", help="the frame size includes the FCS, as in RFC 2544")
    run.add_argument("--sources", type=int, default=1, metavar="N", help="sources at once (default: 1)")
    run.add_argument(
        "--target", default="10Mbit", metavar="RATE",
        help="bandwidth on the wire per source, such as 100Mbit, or max (default: 10Mbit)",
    )  # fmt: skip
    run.add_argument(
        "--background", default="none", metavar="KIND",
        help="a second guest beside the first: idle, light, heavy, forwarding-50, forwarding-95 (default: none)",
    )  # fmt: skip
    run.add_argument("--duration", type=float, default=10.0, metavar="S", help="seconds of traffic (default: 10)")
    run.add_argument("--repetitions", type=int, default=1, metavar="N", help="how often it is taken (default: 1)")
    run.add_argument("--generator", choices=GENERATORS, help="what sends (default: the inventory's)")
    run.add_argument(
        "--observe", choices=("quiet", "live"), help="sample the UUT quietly or live (default: the inventory's)"
    )
    run.add_argument(
        "--dry-run", action="store_true", help="list the commands that would set the platform up; touch nothing"
    )


def _add_replay(commands: Any, parents: list[argparse.ArgumentParser]) -> None:
    replay = commands.add_parser(
        "replay", help="execute or resume plans headless", parents=parents,
        description="Measure what is still missing of every plan, one after the other, holding the testbed once. TERM "
        "lets the running trial end and leaves; Ctrl-C stops it. Exit status: 0 everything is there; 1 not everything, "
        "or a run is invalid; 2 bad usage or bad file; 3 testbed unreachable, lost or held; 130 interrupted.",
    )  # fmt: skip
    replay.add_argument("plan", type=Path, nargs="+", help="plan files, such as plans/sanity.yaml")
    replay.add_argument(
        "--dry-run", action="store_true", help="list the trials, time, room and what needs what; touch nothing"
    )
    replay.add_argument(
        "--platforms", type=_names, metavar="A,B",
        help="of the plans' points only these platforms'; the report compares platforms by blocks that are taken in "
        "one go and in the order that the plan draws",
    )  # fmt: skip
    replay.add_argument("--points", metavar="N,N-M", help="of one plan only these points, by number")
    replay.add_argument(
        "--set-ups", type=int, metavar="N",
        help="of plans in blocks only the first N blocks, as if they said `set_ups: N`: for one block in each boot",
    )  # fmt: skip


def _add_plan(commands: Any, parents: list[argparse.ArgumentParser]) -> None:
    plan = commands.add_parser("plan", help="advice on plans")
    actions = plan.add_subparsers(dest="action", metavar="ACTION", required=True)
    advise = actions.add_parser(
        "advise", help="how many set-ups and repetitions a plan needs", parents=parents,
        description="From the plan's own stored blocks, three of two repetitions or more: what varies between set-ups "
        "and within them, how many of both make a mean so accurate in the least time, and which differences they show.",
    )  # fmt: skip
    advise.add_argument("plan", type=Path, help="a plan file with set_ups")
    advise.add_argument(
        "--accuracy", default="2%", metavar="RATIO", help="of a mean, either way (default: %(default)s)"
    )


def _add_report(commands: Any, parents: list[argparse.ArgumentParser]) -> None:
    report = commands.add_parser(
        "report", help="figures, tables and a page for a reviewer, from the saved runs", parents=parents,
        description="Figures, tables and findings from the saved runs: in the terminal, or with --out in files. "
        "FILTER: words as in the console's list of runs, of the factors of the design and the conditions, such as "
        "size=64 background=none; what can choose by the outcome (loss, rates, verdict, block) needs "
        "--select-by-outcome.",
    )  # fmt: skip
    report.add_argument("filter", nargs="*", metavar="FILTER", help="only runs for which all of these words hold")
    report.add_argument("--out", type=Path, metavar="DIR", help="write files there (default: show in the terminal)")
    report.add_argument(
        "--bundle", type=Path, metavar="FILE.tar.gz",
        help="pack the report with its runs, series, plans, inventory and versions, for `labconsole verify` elsewhere",
    )  # fmt: skip
    report.add_argument(
        "--hosts", type=Path, metavar="FILE", help="of --bundle: the runs' inventory (default: ./hosts.yaml if it is)"
    )
    report.add_argument("--terminal", action="store_true", help="show in the terminal as well as --out")
    report.add_argument(
        "--formats", type=_names, metavar="A,B", help="of --out: svg, pdf, png, csv, md, tex, html (default: all)"
    )
    report.add_argument(
        "--plan", action="append", metavar="NAME|FILE",
        help="runs of the plan of this name, or of exactly the plan in this .yaml file; may be given again",
    )  # fmt: skip
    report.add_argument("--platforms", type=_names, metavar="A,B", help="these platforms only")
    report.add_argument("--testbed", metavar="NAME", help="runs of this testbed only")
    report.add_argument(
        "--select-by-outcome", action="store_true",
        help="let FILTER choose runs by how they came out; page, captions and manifest then say so",
    )  # fmt: skip
    report.add_argument(
        "--pool", type=_names, metavar="A,B",
        help="take runs together although these differ: duration, testbed, fingerprint, kernel, hypervisor, generator, "
        "method",
    )  # fmt: skip
    report.add_argument(
        "--margin", metavar="RATIO", help="a difference that does not matter, such as 2%% (default: the plan's)"
    )
    report.add_argument("--reference", metavar="PAPER", help="a paper's published tables beside these: schlosser")
    report.add_argument(
        "--reference-map", type=_names, metavar="OWN=PAPER'S",
        help="platforms that the paper calls otherwise, such as qemu-virtio=KVM,vmw=VM-E1000",
    )  # fmt: skip


def _add_search(commands: Any, parents: list[argparse.ArgumentParser]) -> None:
    search = commands.add_parser(
        "search", help="find the highest load that meets a loss goal", parents=parents,
        description="Find the highest load per source that meets each goal, with its bounds and whose limit it is; "
        "RFC 2544's frame loss, back-to-back and latency tests with it. Every trial is an ordinary run, the result is "
        "stored. The key search of a plan does the same at every configuration, and is resumed. Exit status: 0 found; "
        "1 a goal has no lower bound, or the search did not come to its end; 2 bad usage; 3 testbed unreachable; "
        "130 interrupted.",
    )  # fmt: skip
    search.add_argument("--platform", help="one of the inventory's (default: its first)")
    search.add_argument("--frame-size", type=int, default=64, metavar="BYTES", help="without FCS (default: 64)")
    search.add_argument("--includes-fcs", action="store_true", help="the frame size includes the FCS, as in RFC 2544")
    search.add_argument("--sources", type=int, default=1, metavar="N", help="sources at once (default: 1)")
    search.add_argument("--background", default="none", help="load on a second guest, as in run (default: none)")
    search.add_argument(
        "--goals", type=_names, default=["ndr"], metavar="A,B",
        help="ndr, pdr-X%% such as pdr-0.5%%, rfc2544, tst009; beside them frame-loss, back-to-back, latency "
        "(default: ndr)",
    )  # fmt: skip
    search.add_argument(
        "--trial-duration", type=float, metavar="S",
        help="of one trial, and of the longest burst (default: the goal's; frame loss 60 s, a burst 2 s, "
        "latency 120 s)",
    )  # fmt: skip
    search.add_argument(
        "--duration-sum", type=float, metavar="S", help="trial time that decides on one load (default: the goal's)"
    )
    search.add_argument("--width", type=float, metavar="RATIO", help="how close the bounds come (default: the goal's)")
    search.add_argument(
        "--repetitions", type=int, dest="times", metavar="N",
        help="of back-to-back and latency (default: RFC 2544's 50 and 20)",
    )  # fmt: skip
    search.add_argument("--max-trials", type=int, metavar="N", help="end after so many (default: 2000)")
    search.add_argument("--generator", choices=GENERATORS, help="what sends (default: the inventory's)")
    search.add_argument(
        "--observe", choices=("quiet", "live"), help="sample the UUT quietly or live (default: the inventory's)"
    )
    search.add_argument("--take-over", action="store_true", help=TAKE_OVER)
    search.add_argument("--list", action="store_true", help="print the searches of the store; touch nothing")
    search.add_argument("--show", metavar="ID", help="print one search of the store with its trials; touch nothing")
    search.set_defaults(target="max", duration=1.0, repetitions=1)


def main(argv: list[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    args = build_parser().parse_args(argv)
    verbose = getattr(args, "verbose", 0)
    if args.command in (None, "console", "demo"):
        _set_up_logging(0)
        return _run_command(args, verbose)  # Textual draws with escape sequences of its own, and cleans what it shows
    with harmless_output():
        _set_up_logging(verbose)
        return _run_command(args, verbose)


def _run_command(args: argparse.Namespace, verbose: int) -> int:
    try:
        return _dispatch(args)
    except LabError as exc:
        if verbose >= 2:
            raise
        sys.stderr.write(harmless(f"labconsole: {exc}\n"))
        return exc.exit_code
    except KeyboardInterrupt:
        return Aborted.exit_code
    except BrokenPipeError:
        # The reader (head, less) went away: not an error; keep Python from complaining while it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as exc:
        if verbose >= 2:
            raise
        sys.stderr.write(
            harmless(f"labconsole: internal error: {type(exc).__name__}: {exc}\n")
            + "This is a fault of the program, not of your input; -vv shows where.\n"
        )
        return 1


def _set_up_logging(verbose: int) -> None:
    """Log lines go to stderr on request only, and never where a console draws."""
    import logging

    if verbose:
        level = logging.DEBUG if verbose > 1 else logging.INFO
        logging.basicConfig(stream=sys.stderr, format="  %(name)s: %(message)s", level=logging.WARNING)
        logging.getLogger("labconsole").setLevel(level)
    else:
        logging.basicConfig(handlers=[logging.NullHandler()])


def _dispatch(args: argparse.Namespace) -> int:
    command = args.command or "console"
    if args.command is None:
        args.hosts, args.store, args.verbose, args.read_only = None, None, 0, False
    if command == "analyze":
        return _analyze(args)
    if command == "schema":
        return _schema(args)
    if command == "report":
        from labconsole import report_command

        return report_command.report(args)
    if command == "verify":
        from labconsole import verification

        return verification.verify(args)
    if command == "settings":
        from labconsole import settings_command

        return settings_command.settings(args)
    if command == "lab":
        from labconsole import lab_commands

        return lab_commands.dispatch(args)
    if command == "runs":
        from labconsole import runs_command

        return runs_command.runs(args)
    if command == "run":
        from labconsole import headless

        return headless.run(args)
    if command == "check":
        from labconsole import check_command, observer_command

        observer_command.refuse_strays(args)
        return (check_command.check if args.observer_effect is None else observer_command.observe)(args)
    if command == "calibrate":
        from labconsole import calibrate_commands

        return calibrate_commands.run(args)
    if command == "search":
        from labconsole import search_command

        return search_command.search(args)
    if command == "plan":
        from labconsole import plan_command

        return plan_command.advise(args)
    if command == "replay":
        from labconsole import replay_command

        return replay_command.replay(args)
    from labconsole import interactive

    return interactive.demo(args) if command == "demo" else interactive.console(args)


def _schema(args: argparse.Namespace) -> int:
    import json

    from pydantic import BaseModel

    from labconsole.model.inventory import Inventory
    from labconsole.model.plan_file import PlanFile
    from labconsole.tui.settings import Settings

    models: dict[str, type[BaseModel]] = {"hosts": Inventory, "plan": PlanFile, "settings": Settings}
    model = models[args.file]
    sys.stdout.write(json.dumps(model.model_json_schema(), indent=2) + "\n")
    return 0


def _analyze(args: argparse.Namespace) -> int:
    import json

    from labconsole.captures import analyze_path, format_analysis

    report = analyze_path(args.file)
    sys.stdout.write(json.dumps(report) + "\n" if args.json else format_analysis(report) + "\n")
    return 0
