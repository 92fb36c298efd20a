"""Xen's store, through the first domain's kernel: a key read, written or removed.

Messages follow Xen's documentation (docs/misc/xenstore.txt, xen/io/xs_wire.h): a header of four words, then the
arguments, each ending with a NUL except a value that is written.
"""

from __future__ import annotations

import os
import select
import struct
from typing import Any, Optional

from labconsole.wire.clean import clean
from labconsole.wire.codec import WireError

DEVICE = "/dev/xen/xenbus"
_HEADER = struct.Struct("=IIII")
_READ, _WRITE, _REMOVE, _ERROR = 2, 11, 13, 16
ANSWER_S = 0.4
"""How long an undo may wait for an answer; one takes well below a millisecond."""

MOST_BYTES = 4096
"""The store's limit on arguments and answers."""


class XenStore:
    """A connection to Xen's store, used as a context manager. Every method raises WireError."""

    def __enter__(self) -> "XenStore":
        try:
            self._descriptor = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            raise WireError("not_supported", "this node has no Xen store (%s)" % DEVICE) from None
        except OSError as exc:
            code = "no_permission" if isinstance(exc, PermissionError) else "failed"
            raise WireError(code, "cannot ask Xen's store: %s: %s" % (DEVICE, exc.strerror)) from exc
        return self

    def __exit__(self, *exc: Any) -> None:
        os.close(self._descriptor)

    def read(self, path: str) -> Optional[str]:
        """Return the value, or None if there is no such key."""
        found = self._ask(_READ, path, b"", "read")
        return None if found is None else found.decode("utf-8", "replace")

    def write(self, path: str, value: str) -> None:
        """Set the key, making it if it does not exist."""
        if self._ask(_WRITE, path, value.encode(), "write") is None:
            raise WireError("failed", "Xen's store has no place for %s" % path)

    def remove(self, path: str) -> None:
        """Remove the key; does nothing if it does not exist."""
        self._ask(_REMOVE, path, b"", "remove")

    def _ask(self, kind: int, path: str, value: bytes, what: str) -> Optional[bytes]:
        """Send a request and return the answer, or None if there is no such key."""
        payload = path.encode() + b"\0" + value
        try:
            os.write(self._descriptor, _HEADER.pack(kind, 0, 0, len(payload)) + payload)
            answered, _, _, length = _HEADER.unpack(self._exactly(_HEADER.size))
            answer = self._exactly(min(length, MOST_BYTES))
        except (OSError, struct.error) as exc:
            raise WireError("failed", "Xen's store did not answer on %s: %s" % (path, exc)) from exc
        if answered != _ERROR:
            return answer
        said = answer.rstrip(b"\0").decode("ascii", "replace")
        if said == "ENOENT":
            return None
        raise WireError("failed", "Xen's store would not %s %s: %s" % (what, path, clean(said, 40)))

    def _exactly(self, length: int) -> bytes:
        found, answers = b"", select.poll()
        answers.register(self._descriptor, select.POLLIN)
        while len(found) < length:
            if not answers.poll(ANSWER_S * 1000):
                raise OSError("nothing within %g s" % ANSWER_S)
            more = os.read(self._descriptor, length - len(found))
            if not more:
                raise OSError("it ended")
            found += more
        return found
