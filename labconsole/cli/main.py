"""The command line: parses, runs the named command, turns errors into one sentence and an exit code."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress

from labconsole.cli import commands
from labconsole.cli.options import Parser
from labconsole.cli.output import print_error
from labconsole.errors import Aborted, ConfigError, LabError
from labconsole.text.sanitize import sanitize, sanitized_output, single_line
from labconsole.wire.version import __version__

EPILOG = """\
exit status: 0 done; 1 done, but a run is invalid or a check failed; 2 bad usage or bad file;
             3 a node is out of reach, lost, or cannot do its part;
             4 a gate is undecided or not fully measured; 130 interrupted
"""


HELP = ("-h", "--help")


def build_parser(first: str | None = None) -> argparse.ArgumentParser:
    """The parser of every command. If ``first``, the first word, is a command, only that one is imported.

    If it requests help, the commands are listed without their options.
    """
    parser = Parser(
        prog="labconsole",
        description="Measure how well a machine forwards packets when it is virtualized. Without a command, the "
        "console opens.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"labconsole {__version__}")
    parser.set_defaults(verbose=0, build_parser=build_parser)
    choices = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    known = commands.names()
    found = [(name, commands.load(name)) for name in ([first] if first in known else known)]
    for name, command in sorted(found, key=lambda each: (each[1].about.place, each[0])):
        about = command.about
        parser_of_command = choices.add_parser(name, help=about.summary, description=about.description)
        if first not in HELP:
            command.add_arguments(parser_of_command)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    arguments = sys.argv[1:] if argv is None else argv
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in (*HELP, "--version")):
        arguments = ["console", *arguments]
    args = build_parser(arguments[0]).parse_args(arguments)
    command = commands.load(args.command)
    with sanitized_output():  # drawing commands write to the terminal themselves
        _set_up_logging(0 if command.about.draws else args.verbose)
        return _run_drawing(command, args) if command.about.draws else _run(command, args)


TERMINAL_GONE = 128 + 1
"""Exit status that a shell reports for SIGHUP."""


def _run_drawing(command: commands.Command, args: argparse.Namespace) -> int:
    """Run a command that draws.

    Once its terminal is gone, the threads that read and write there never end: the interpreter would wait for them
    forever, and one of them would spin on end of file.
    """
    import threading

    status = TERMINAL_GONE
    try:
        status = _run(command, args)
        return status
    except OSError:  # even the error could not be written
        return status
    finally:
        if any(thread.name.startswith(DRAWING) and not thread.daemon for thread in threading.enumerate()):
            with suppress(OSError, ValueError):
                sys.stdout.flush()
            os._exit(status)


DRAWING = "textual-"
"""Prefix of the names of textual's threads."""

PIPE_CLOSED = 128 + 13
"""Exit status that a shell reports for SIGPIPE."""


def _run(command: commands.Command, args: argparse.Namespace) -> int:
    try:
        return command.run(args)
    except LabError as exc:
        _trace(args)
        for sentence in exc.sentences if isinstance(exc, ConfigError) else [str(exc)]:
            print_error(sentence)
        return exc.exit_code
    except KeyboardInterrupt:
        return Aborted.exit_code
    except BrokenPipeError:
        # The reader (head, less) went away: the program ends as usual then, and drops the rest. This also keeps Python
        # from complaining when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except Exception as exc:
        _trace(args)
        print_error(f"internal error: {type(exc).__name__}: {exc}")
        sys.stderr.write("This is a bug in labconsole, not a problem with your input; use -vv for a traceback.\n")
        return 1


def _trace(args: argparse.Namespace) -> None:
    """With -vv, print the traceback of a handled exception, which quotes foreign words, on stderr."""
    if args.verbose >= 2:
        import traceback

        sys.stderr.write(sanitize(traceback.format_exc()))


def _set_up_logging(verbose: int) -> None:
    """Log lines go to stderr on request only, and never from a command that draws."""
    import logging

    if verbose:
        level = logging.DEBUG if verbose > 1 else logging.INFO

        class LineFormatter(logging.Formatter):
            """Keeps a message, which may quote a node, to one line; a traceback has its own."""

            def formatMessage(self, record: logging.LogRecord) -> str:
                record.message = single_line(record.message)
                return super().formatMessage(record)

        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(LineFormatter("  %(name)s: %(message)s"))
        logging.basicConfig(handlers=[handler], level=logging.WARNING)
        logging.getLogger("labconsole").setLevel(level)
    else:
        logging.basicConfig(handlers=[logging.NullHandler()])
