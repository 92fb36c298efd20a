"""Why a kernel refuses a program, as one of three codes."""

from __future__ import annotations

import errno

from labconsole.wire.codec import WireError

LOCKDOWN = "/sys/kernel/security/lockdown"


def build_load_error(exc: OSError) -> WireError:
    """Build the reply to a request whose program the kernel refused."""
    said = {"errno": exc.errno}
    if exc.errno in (errno.EPERM, errno.EINVAL, errno.EACCES) and _locked_down():
        return WireError("locked_down", "the kernel is locked down and accepts no such program", said)
    if exc.errno == errno.EPERM:
        return WireError(
            "no_permission", "programs in the kernel are for root in the first user namespace: %s" % exc.strerror, said
        )
    return WireError("not_supported", "the kernel refuses the program: %s" % exc.strerror, said)


def _locked_down() -> bool:
    try:
        with open(LOCKDOWN, encoding="ascii") as source:
            return "[confidentiality]" in source.read()
    except OSError:
        return False
