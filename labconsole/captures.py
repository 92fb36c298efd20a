"""Counting capture files at the console: opens the file, picks the way to count, words the errors.

Small files are counted the node's way, with the standard library: loading numpy takes longer than they do. Both ways
give the same report.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from labconsole.agent.analysis import CaptureAnalysis, CaptureFollower
from labconsole.agent.pcap import NotACapture
from labconsole.errors import CaptureFormatError

NUMPY_PAYS_FROM_BYTES = 160_000_000
"""Measured: loading numpy costs 0.1 s, in which the standard library counts some 2 million packets."""


def analyze_path(path: str | os.PathLike[str], *, use_numpy: bool | None = None) -> dict[str, Any]:
    """Count a capture file: the object that ``labconsole analyze --json`` prints (docs/analyze.md).

    ``use_numpy`` None picks by the size of the file. Raises CaptureFormatError.
    """
    name = os.fspath(path)
    try:
        if use_numpy is None:
            use_numpy = Path(name).stat().st_size >= NUMPY_PAYS_FROM_BYTES
        follower = CaptureFollower(name, _numpy_runs() if use_numpy else None)
        report = follower.finish()
    except NotACapture as exc:
        raise CaptureFormatError(f"{name} {exc}; allowed: pcap (micro- or nanoseconds), pcapng, not compressed") from exc
    except OSError as exc:
        raise CaptureFormatError(f"{name} cannot be read: {exc.strerror or exc}") from exc
    return {"file": name, **report}


def analyze_buffer(chunks: bytes | memoryview | list[bytes], *, use_numpy: bool = True) -> dict[str, Any]:
    """Count a capture that is in memory, whole or in pieces. Raises NotACapture."""
    analysis = CaptureAnalysis(_numpy_runs() if use_numpy else None)
    kept = b""
    for chunk in [chunks] if isinstance(chunks, (bytes, bytearray, memoryview)) else chunks:
        kept += bytes(chunk)
        kept = kept[analysis.feed(kept) :]
    return analysis.report(unread=kept[:16])


def _numpy_runs() -> Any:
    from labconsole.measure.capture import NumpyRuns

    return NumpyRuns()
