"""Guests of hypervisors on this node: processes that match the console's patterns, and their names."""

from __future__ import annotations

import os
import re
from typing import List, Optional, Pattern, Sequence

from labconsole.wire.codec import WireError

MAX_PATTERNS = 100
MAX_PATTERN_CHARACTERS = 200

MAX_NAME_CHARACTERS = 200
MAX_ARGUMENTS = 4096
"""Most arguments of a command line that are searched for a name: any user may start a process with a guest's name and
tens of thousands of arguments.
"""

_NAMING = (
    ("-name", "guest"),
    ("--name", "guest"),
    ("--comment", None),
    ("-comment", None),
    ("--startvm", None),
    ("-startvm", None),
    ("--id", None),
    ("--api-sock", None),
    ("--api-socket", "path"),
)
"""Options of QEMU, crosvm, VirtualBox (any version takes one dash or two), Firecracker and Cloud Hypervisor that
identify guests, in order of preference; and the key within the value, if that is a list of settings.
"""
_XL_GLOBAL = re.compile(r"-[vftTN]+\Z")
_XL_FILE = ("-f", "--defconfig")
_XL_NAME = re.compile(r"""(?:\A|[;\n])[^\S\n]*name\s*=\s*(["']?)([^"';\n]+)\1""")
_LXC_MONITOR = "[lxc monitor] "
_LXC_VALUES = (
    "-f",
    "-s",
    "-c",
    "-L",
    "-p",
    "-o",
    "-l",
    "-P",
    "-g",
    "-u",
    "--rcfile",
    "--define",
    "--console",
    "--console-log",
    "--pidfile",
    "--share-net",
    "--share-ipc",
    "--share-uts",
    "--share-pid",
    "--logfile",
    "--logpriority",
    "--lxcpath",
    "--uid",
    "--gid",
)
"""Options of lxc-start and lxc-execute, LXC 1 to 6, whose value is a separate argument."""


def matching(patterns: Sequence[str]) -> Pattern[str]:
    """Compile a pattern that fully matches the names of guests' processes and no others. Raises WireError."""
    if len(patterns) > MAX_PATTERNS or max(map(len, patterns), default=0) > MAX_PATTERN_CHARACTERS:
        raise WireError("bad_request", "guests has too many or too long patterns")
    try:
        return re.compile("|".join("(?:%s)" % pattern for pattern in patterns))
    except re.error as exc:
        raise WireError("bad_request", "guests has a pattern that is not a regular expression: %s" % exc) from exc


def find_guest_name(command_line: bytes) -> Optional[str]:
    """Return a guest's name by its command line (null-terminated arguments), or None if it has none.

    A program may be named by a path, and follow an interpreter or a loader and their options.
    """
    arguments = command_line.decode("utf-8", "replace").rstrip("\0").split("\0", MAX_ARGUMENTS)[:MAX_ARGUMENTS]
    names = [word.rpartition("/")[2] for word in arguments]
    if "xl" in names[:4]:
        found = _xl_name(arguments[names.index("xl") + 1 :])
    else:
        started = next((at for at, name in enumerate(names[:4]) if name in ("lxc-start", "lxc-execute")), None)
        if arguments[0].startswith(_LXC_MONITOR):
            found = _monitored(arguments[0][len(_LXC_MONITOR) :].rstrip())
        elif started is not None:
            found = _lxc_name(arguments[started + 1 :])
        else:
            found = _option(arguments)
    return found[:MAX_NAME_CHARACTERS] if found else None


def _option(arguments: List[str]) -> Optional[str]:
    """Return the name by the options of hypervisors whose guests are programs, and by User-mode Linux's arguments."""
    for naming, key in _NAMING:
        for at, word in enumerate(arguments[1:], 1):
            value = arguments[at + 1] if word == naming and at + 1 < len(arguments) else None
            if value is None and word.startswith(naming + "="):
                value = word[len(naming) + 1 :]
            if value:
                return value if key is None else _first_key(value, key)
    return next((word[len("umid=") :] for word in arguments[1:] if word.startswith("umid=")), None)


def _first_key(value: str, key: str) -> Optional[str]:
    """Return one of the settings ``a=b,c=d``, whose first may have no key; a doubled comma means one."""
    parts = value.replace(",,", "\0").split(",")
    for at, part in enumerate(parts):
        name, equals, said = part.partition("=")
        if (equals and name == key) or (not equals and at == 0):
            return (said if equals else part).replace("\0", ",")
    return None


def _xl_name(arguments: List[str]) -> Optional[str]:
    """Parse ``xl [-v] create [OPTIONS] [FILE] [SETTING=VALUE ...]``: a setting ``name``, or the name of the file."""
    while arguments and _XL_GLOBAL.match(arguments[0]):
        arguments = arguments[1:]
    if not arguments or arguments[0] != "create":
        return None
    name: Optional[str] = None
    config: Optional[str] = None
    rest = iter(arguments[1:])
    for word in rest:
        if word in _XL_FILE or re.match(r"-[AFVcdeinpq]+f\Z", word):
            config = next(rest, None)
        elif word.startswith("--defconfig="):
            config = word.partition("=")[2]
        elif re.match(r"-[AFVcdeinpq]*f.", word):
            config = word.partition("f")[2]
        elif word.startswith("-"):
            continue
        elif "=" in word:
            settings = _XL_NAME.findall(word)
            name = settings[-1][1].strip() if settings else name
        elif config is None:
            config = word
    if name is None and config:
        name = re.sub(r"\.cfg\Z", "", config.rpartition("/")[2])
    return name or None


def _monitored(title: str) -> Optional[str]:
    """Parse LXC's directory and container. If both may contain blanks, the container's directory decides.

    Only names of at most MAX_NAME_CHARACTERS are tried: a copy of the title for each of its blanks may be gigabytes.
    """
    last = range(max(title.rfind("/") + 1, len(title) - 1 - MAX_NAME_CHARACTERS), len(title) - 1)
    possible = [(title[:at], title[at + 1 :]) for at in last if title[at] == " "]
    if len(possible) > 1:
        possible = [(path, name) for path, name in possible if os.path.isdir(os.path.join(path, name))]
    return possible[0][1] if len(possible) == 1 else None


def _lxc_name(arguments: List[str]) -> Optional[str]:
    """Parse ``lxc-start [-n NAME] [OPTIONS] [NAME] [-- PROGRAM]``."""
    rest = iter(arguments)
    for word in rest:
        if word in ("-n", "--name"):
            return next(rest, None)
        if word.startswith("--name="):
            return word.partition("=")[2]
        if re.match(r"-n.", word):
            return word[2:]
        if word == "--":
            return next(rest, None)
        if word in _LXC_VALUES:
            next(rest, None)
        elif not word.startswith("-"):
            return word
    return None
