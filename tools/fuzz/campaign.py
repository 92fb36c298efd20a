"""One process that gives inputs to one target: bounded in memory and time, each crash kept with its traceback.

Half of the time goes to inputs that hypothesis makes of seeds. Where atheris is installed, they are the corpus from
which it looks for new paths through labconsole in the other half; elsewhere hypothesis has all of the time.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from fuzz.target import Target

ROOT = Path(__file__).resolve().parents[2]
OWN = (f"{ROOT}/labconsole/", f"{ROOT}/tools/")

MAY_GROW_BYTES = 512 << 20
"""By a target's process, once it has read its seeds."""

MAX_FINDINGS = 20
MAX_CORPUS_FILES = 2000
MAX_INPUT_BYTES = 1 << 18
BATCH = 50
"""Inputs that hypothesis makes of one number."""

CURRENT = "current"
"""The input that is being read; what a process that was killed leaves behind."""


class OutOfTime(BaseException):
    """Raised in a reader that has had its processor time; no ``except Exception`` of a reader catches it."""


@dataclass(kw_only=True)
class Outcome:
    """What came of a target. ``grown_bytes``: by which inputs raised the most memory that the process has had.
    ``findings``: by what went wrong and where, the file with the first such input.
    """

    target: str
    engine: str = "hypothesis"
    inputs: int = 0
    refused: int = 0
    seconds: float = 0.0
    slowest_s: float = 0.0
    grown_bytes: int = 0
    findings: dict[str, str] = field(default_factory=dict)


def has_atheris() -> bool:
    """Whether inputs can be chosen by the paths that they take."""
    return importlib.util.find_spec("atheris") is not None


class Campaign:
    """Reads inputs until ``end_s`` (of the monotonic clock), and then ends the process with its outcome written."""

    def __init__(self, target: Target, directory: Path, seconds: float) -> None:
        self.target, self.directory = target, directory
        self.outcome = Outcome(target=target.name)
        work = directory / "files"
        work.mkdir(parents=True, exist_ok=True)
        self.seeds: Sequence[bytes] = target.load_seeds()
        self._read = target.open_reader(work)
        self._current = os.open(directory / CURRENT, os.O_CREAT | os.O_RDWR | os.O_TRUNC, 0o600)
        signal.signal(signal.SIGVTALRM, self._interrupt)
        for content in self.seeds:
            self.take(content)
        self._began_s = time.monotonic()
        self.end_s = self._began_s + seconds
        self.outcome.grown_bytes = 0
        limit_memory(MAY_GROW_BYTES)

    def _interrupt(self, *_: object) -> NoReturn:
        raise OutOfTime(f"took more than {self.target.input_s:g} s")

    def take(self, content: bytes) -> None:
        """Read one input. What is neither taken nor refused is kept as a finding."""
        os.ftruncate(self._current, 0)
        os.pwrite(self._current, content, 0)
        self.outcome.inputs += 1
        began_s, before_bytes = time.process_time(), read_peak_bytes()
        signal.setitimer(signal.ITIMER_VIRTUAL, self.target.input_s)
        try:
            self._read(content)
        except self.target.refusals as refusal:
            self.outcome.refused += 1
            if len(str(refusal)) > 50_000:
                self._keep(content, AssertionError("a refusal has more than 50 000 characters"))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            self._keep(content, error)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            self.outcome.slowest_s = max(self.outcome.slowest_s, time.process_time() - began_s)
            self.outcome.grown_bytes += read_peak_bytes() - before_bytes

    def take_bytes(self, content: bytes) -> None:
        """The same for atheris, which never comes back."""
        if time.monotonic() >= self.end_s or len(self.outcome.findings) >= MAX_FINDINGS:
            self.end()
        self.take(content)

    def _keep(self, content: bytes, error: BaseException) -> None:
        kind = describe_error(error)
        if kind in self.outcome.findings:
            return
        path = self.directory / "findings" / hashlib.sha256(content).hexdigest()[:16]
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        path.with_suffix(".txt").write_text("".join(traceback.format_exception(error)), errors="backslashreplace")
        self.outcome.findings[kind] = str(path)

    def run(self, number: int, *, use_atheris: bool) -> NoReturn:
        """Read inputs to the end. ``number``: what hypothesis begins with."""
        corpus = self.directory / "corpus"
        corpus.mkdir(exist_ok=True)
        until_s = self._began_s + (self.end_s - self._began_s) / (2 if use_atheris else 1)
        room = MAX_CORPUS_FILES - len(list(corpus.iterdir()))
        for each in self.seeds:
            (corpus / hashlib.sha256(each).hexdigest()[:16]).write_bytes(each)
        for content in self._drawn(number, until_s):
            self.take(content)
            if use_atheris and room > 0:
                room -= 1
                (corpus / hashlib.sha256(content).hexdigest()[:16]).write_bytes(content)
        if use_atheris:
            self.outcome.engine = "hypothesis, atheris"
            self._run_atheris(corpus)
        self.end()

    def _drawn(self, number: int, until_s: float) -> Iterator[bytes]:
        while True:
            number += 1
            for content in self._draw_batch(number):
                if time.monotonic() >= until_s or len(self.outcome.findings) >= MAX_FINDINGS:
                    return
                yield content
            if time.monotonic() >= until_s:
                return

    def _draw_batch(self, number: int) -> list[bytes]:
        batch: list[bytes] = []

        @seed(number)
        @settings(
            max_examples=BATCH,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(st.data())
        def draw(data: st.DataObject) -> None:
            batch.append(self.target.draw(data, data.draw(st.sampled_from(self.seeds))))

        draw()
        return batch

    def _run_atheris(self, corpus: Path) -> None:
        import atheris

        words = self.directory / "words"
        words.write_text("".join(f'"{quote_word(word)}"\n' for word in self.target.words if word))
        options = [f"-max_len={MAX_INPUT_BYTES}", "-rss_limit_mb=0", "-timeout=1000", "-verbosity=0"]
        options += [f"-artifact_prefix={self.directory}/", *([f"-dict={words}"] if self.target.words else [])]
        atheris.Setup([sys.argv[0], *options, str(corpus)], self.take_bytes)
        atheris.Fuzz()

    def end(self) -> NoReturn:
        """Write the outcome and end the process: atheris does not return to its caller."""
        self.outcome.seconds = time.monotonic() - self._began_s
        (self.directory / "outcome.json").write_text(json.dumps(asdict(self.outcome)))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1 if self.outcome.findings else 0)


def describe_error(error: BaseException) -> str:
    """What went wrong, and the innermost place in labconsole or in a target."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(OWN)]
    place = f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else "unknown place"
    words = " ".join("".join(c if c.isprintable() else " " for c in str(error)[:200]).split())
    return f"{type(error).__name__} at {place}" + (f": {words}" if isinstance(error, AssertionError) else "")


def quote_word(word: str) -> str:
    """A word as a dictionary of libFuzzer has it."""
    return "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b'\\"' else f"\\x{byte:02x}"
        for byte in word.encode("utf-8", "surrogatepass")[:64]
    )


def read_peak_bytes() -> int:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def limit_memory(more_bytes: int) -> None:
    """Refuse this process more address space than it has now, and so much."""
    now_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now_bytes + more_bytes,) * 2)


@contextmanager
def traced_imports(use_atheris: bool) -> Iterator[None]:
    """While labconsole is imported: for atheris, with what tells it which branches were taken."""
    if not use_atheris:
        yield
        return
    import atheris

    with atheris.instrument_imports(include=["labconsole"]):
        yield


def run_campaign(name: str, directory: Path, seconds: float, number: int, *, use_atheris: bool) -> NoReturn:
    """Give inputs to the target of this name. Ends the process: 0 for no finding, 1 for some."""
    with traced_imports(use_atheris):
        targets = importlib.import_module("fuzz.targets").TARGETS
        campaign = Campaign(targets[name], directory, seconds)  # reads its seeds: everything is imported then
    campaign.run(number, use_atheris=use_atheris)
