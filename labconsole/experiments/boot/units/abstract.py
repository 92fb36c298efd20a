"""What the abstract of Quétier, Neri and Cappello concludes of what guests occupy, beside one's own findings."""

from __future__ import annotations

from collections.abc import Iterator

from labconsole.experiments.boot.units.starts import summary_of
from labconsole.report.abstracts import Concluded, KnownInterval, abstract_unit, apart, each_words
from labconsole.report.material import Material
from labconsole.report.words import UNKNOWN, number

MIB = 2**20


def _conclude(material: Material) -> Iterator[Concluded]:
    """For each way to start that several platforms were measured for."""
    summary = summary_of(material)
    of: dict[tuple[object, ...], dict[str, KnownInterval | None]] = {}
    words: dict[tuple[object, ...], dict[str, str]] = {}
    for each in summary.lines:
        line, found = each.used_bytes, None
        if line is not None and line.slope.low is not None and line.slope.high is not None:
            found = KnownInterval(line.slope.mean, line.slope.low, line.slope.high)
        group = (each.key.testbed_fingerprint, each.key.start, each.key.crew, each.key.kernel)
        of.setdefault(group, {})[summary.names[each.key]] = found
        absent = UNKNOWN if line is None or line.absent is None else line.absent
        words.setdefault(group, {})[summary.names[each.key]] = absent if found is None else _words(found)
    for about, slopes in of.items():
        if len(slopes) > 1:
            yield Concluded(
                "the tools behave differently in resource occupation", f"memory of each guest, {about[1]} start",
                each_words(words[about]), apart(slopes.values()),
            )  # fmt: skip


def _words(found: KnownInterval) -> str:
    mean, low, high = (number(value / MIB) for value in found)
    return f"{mean} MiB ({low} to {high})"


UNITS = (
    abstract_unit(
        "quetier", "quetier-abstract-memory", 168, _conclude,
        "By how much less memory is available with each guest (quetier-memory): confirmed where the intervals of two "
        "platforms lie wholly apart; that none differ, intervals do not show.",
    ),
)  # fmt: skip
