"""OpenSSH's settings for one host, as printed by ``ssh -G``.

OpenSSH's own client reads the configuration, because every other reader differs from it: comments after values, time
units, the order of ``Include``, tokens, ``Match``. If this machine has no ``ssh``, only plain lines are read (see
_PLAIN), and any other line is refused.

The home directory is $HOME, as everywhere in this program, while OpenSSH takes it from the password database. If the
two differ, ssh reads copies of the files in which ``~`` and relative ``Include`` paths lead to $HOME.
"""

from __future__ import annotations

import contextlib
import functools
import getpass
import glob
import os
import pwd
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from labconsole.wire.clean import clean

Settings = Mapping[str, tuple[str, ...]]
"""Values by keyword in lower case: ``hostname``, ``user`` and ``port``, and every keyword that differs from OpenSSH's
default. ``conn_hash`` is the value of the token %C."""

LIMIT_S = 10.0
"""Time limit of ``ssh -G``, which runs commands of ``Match exec`` and may look up names (``CanonicalizeHostname``)."""
LIMIT_BYTES = 1 << 20
SYSTEM_CONFIG = "/etc/ssh/ssh_config"
_FILE_LISTS = {"userknownhostsfile", "globalknownhostsfile", "revokedhostkeys"}
"""``ssh -G`` prints each of these lists in one line."""

_ALLOWED = {
    "Bad configuration option": "the keywords in ssh_config(5) of this version, and those that IgnoreUnknown names",
    "time value": "seconds, or numbers with the units s, m, h, d, w such as 1m30s",
    "Bad port": "1 to 65535",
    "Bad number": "a whole number",
    "extra arguments": "one value; a value with blanks in double quotes, a comment after a blank and #",
    "invalid quotes": "quotes in pairs",
    "no argument": "a value after the keyword",
    "Missing argument": "a value after the keyword",
    "unknown key": "the tokens in ssh_config(5) of this version, and %% for a percent sign",
    "has no value": "environment variables that are set",
    "Bad Match condition": "the criteria of Match in ssh_config(5) of this version",
    "unsupported option": "the values of this keyword in ssh_config(5)",
}
"""Parts of ssh's messages, and what is allowed there."""

_PLAIN = {
    "hostname",
    "user",
    "port",
    "identityfile",
    "certificatefile",
    "identitiesonly",
    "identityagent",
    "proxyjump",
    "userknownhostsfile",
    "globalknownhostsfile",
    "hostkeyalias",
}
"""Keywords that can be read without ssh. Their values contain no quote except a pair around them, no =, # or $."""
_IGNORED = {
    "controlmaster",
    "controlpath",
    "controlpersist",
    "stricthostkeychecking",
    "forwardagent",
    "forwardx11",
    "sendenv",
    "setenv",
    "serveraliveinterval",
    "serveralivecountmax",
    "connecttimeout",
    "loglevel",
    "requesttty",
    "addkeystoagent",
    "hashknownhosts",
    "updatehostkeys",
    "visualhostkey",
    "batchmode",
}
_WORD = re.compile(r"""[ \t]*(?:"([^"\\]+)"|([^\s"'\\#$=]+))(?=[ \t]|$)""")


class ConfigRefused(ValueError):
    """Raised for an unusable configuration. ``part`` is the refused text if the message names no line."""

    def __init__(self, message: str, part: str = "") -> None:
        super().__init__(message)
        self.part = part

    def locate(self, path: str | None) -> str:
        """The message, after file and line if ``part`` is found in the file."""
        file = Path(path or "~/.ssh/config").expanduser()
        if self.part and file.is_file():
            lines = file.read_text(encoding="utf-8", errors="replace").split("\n")
            number = next((number for number, line in enumerate(lines, 1) if self.part in line), None)
            return f"{file} line {number}: {self}" if number else str(self)
        return str(self)


def read_settings(host: str, user: str | None, port: int | None, path: str | None) -> Settings:
    """The settings for ``host``; ``user`` and ``port`` take precedence over the files.

    ``path`` replaces both usual files, or is None for ~/.ssh/config and /etc/ssh/ssh_config. Blocking. Raises
    ConfigRefused, OSError.
    """
    ssh = shutil.which("ssh")
    if ssh is None or _openssh_home() is None:
        return _read_plain_lines(host, user, port, path)
    with _files(path) as (options, copies):
        try:
            printed = _print_settings(ssh, options, host, user, port)
        except ConfigRefused as exc:
            text = str(exc)
            for original, copy in copies.items():
                text = text.replace(str(copy), original)
            raise ConfigRefused(text, exc.part) from None
    defaults = _defaults(ssh)
    always = {"hostname", "user", "port", "conn_hash"}
    return {key: value for key, value in printed.items() if key in always or value != defaults.get(key)}


def tokens(host: str, settings: Settings) -> dict[str, str]:
    """The values of the %-tokens for ``host``."""
    local, alias = socket.gethostname(), settings.get("hostkeyalias")
    last_jump = settings.get("proxyjump", ("",))[0].rpartition(",")[2]
    jump = re.fullmatch(r"(?:ssh://)?(?:.*@)?\[?(.*?)\]?(?::\d+)?/?", last_jump)
    values = {
        "%": "%",
        "d": str(Path.home()),
        "h": settings["hostname"][0],
        "i": str(os.getuid()),
        "j": jump[1] if jump else "",
        "k": alias[0] if alias else host,
        "L": local.partition(".")[0],
        "l": local,
        "n": host,
        "p": settings["port"][0],
        "r": settings["user"][0],
        "u": _local_user(),
    }
    return values | ({"C": settings["conn_hash"][0]} if "conn_hash" in settings else {})


def expand(keyword: str, value: str, values: Mapping[str, str], *, variables: bool = True) -> str:
    """``value`` with its tokens and ``${VARIABLE}`` replaced. Raises ConfigRefused for unknown ones."""

    def replacement(match: re.Match[str]) -> str:
        if match[2] is not None:
            if match[2] not in os.environ:
                raise ConfigRefused(f"{keyword} {value}: the environment variable {match[2]} is not set", match[0])
            return os.environ[match[2]]
        if match[1] not in values:
            known = " ".join(f"%{token}" for token in sorted(values))
            raise ConfigRefused(f"{keyword} {value}: %{match[1]} is not a token; allowed: {known}", match[0])
        return values[match[1]]

    return re.sub(r"%(.?)|\$\{([^}]*)\}" if variables else r"%(.?)()??", replacement, value)


def expand_path(keyword: str, value: str, values: Mapping[str, str]) -> str:
    """``value`` expanded as by ``expand``, after replacing a leading ``~``."""
    return str(Path(expand(keyword, expand_home(keyword, value), values)))


def expand_home(keyword: str, value: str) -> str:
    """``value`` with a leading ``~`` or ``~user`` replaced. Raises ConfigRefused for an unknown user."""
    try:
        return str(Path(value).expanduser())
    except RuntimeError:
        raise ConfigRefused(f"{keyword} {value}: there is no such user; allowed: ~/ and known users", value) from None


@functools.cache
def _defaults(ssh: str) -> Settings:
    return _print_settings(ssh, ["-F", os.devnull], "localhost", None, None)


def _print_settings(
    ssh: str, files: list[str], host: str, user: str | None, port: int | None
) -> dict[str, tuple[str, ...]]:
    argv = [ssh, "-G", "-T", *files, "-o", "ControlPath=%C"]  # what %C hashes differs by version
    argv += ["-l", user] if user else []
    argv += ["-p", str(port)] if port else []
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [*argv, "--", host], stdin=subprocess.DEVNULL, stdout=output, stderr=errors, start_new_session=True
        )
        try:
            status = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            problem = f"`ssh -G {clean(host)}` took more than {LIMIT_S:g} s: a command of Match exec, or a name server"
            raise ConfigRefused(problem) from None
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # owned by another user
                os.killpg(process.pid, signal.SIGKILL)  # including what Match exec has left
            process.wait()
        output.seek(0)
        errors.seek(0)
        text, complaint = (file.read(LIMIT_BYTES).decode("utf-8", "surrogateescape") for file in (output, errors))
    if status:
        part = re.search(r"unknown key (%.)|env var (\$\{.*?\})", complaint)
        raise ConfigRefused(_explain(complaint), (part[1] or part[2]) if part else "")
    found: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key in _FILE_LISTS:
            found[key] = _split_paths(key, value)
        else:
            found[key] = (*found.get(key, ()), value)
    if not {"hostname", "user", "port"} <= set(found):
        raise ConfigRefused(f"`{ssh} -G` printed no hostname, user and port; allowed: the client of OpenSSH")
    conn_hash = found.pop("controlpath", ("%",))
    return found if "%" in conn_hash[0] else found | {"conn_hash": conn_hash}


def _explain(complaint: str) -> str:
    lines = [line for line in complaint.splitlines() if ": terminating," not in line]
    allowed = next((f"; allowed: {value}" for part, value in _ALLOWED.items() if part in complaint), "")
    return (clean("; ".join(lines)).rstrip(".") or "ssh -G failed without a message") + allowed


def _split_paths(keyword: str, line: str) -> tuple[str, ...]:
    """Split paths joined by ``ssh -G``, which quotes no blanks: a part that starts no path continues the last one."""
    paths: list[str] = []
    for part in line.split(" "):
        if part.startswith(("/", "~")) or part == "none":
            paths.append(part)
        elif paths:
            paths[-1] += f" {part}"
        else:
            raise ConfigRefused(f"{keyword} {line}: a relative path; allowed: paths that start with / or ~")
    return tuple(paths)


# --- a home directory that differs from OpenSSH's


def _openssh_home() -> str | None:
    """The home directory in the password database, or None for an unknown user, for whom ssh refuses to run."""
    try:
        return str(Path(pwd.getpwuid(os.getuid()).pw_dir))
    except KeyError:
        return None


def _local_user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return getpass.getuser()


def has_openssh_home() -> bool:
    """Whether $HOME is the home directory that OpenSSH uses."""
    return str(Path.home()) == _openssh_home()


@contextlib.contextmanager
def _files(path: str | None) -> Iterator[tuple[list[str], dict[str, Path]]]:
    """Options that name the files, and the copies that ssh reads instead of them."""
    home = str(Path.home())
    if has_openssh_home():
        yield (["-F", path] if path else []), {}
        return
    if re.fullmatch(r"[\w./+@:,-]+", home) is None:
        raise ConfigRefused(f"HOME {home!r} is not the password database's; allowed then: letters, digits and ./+@:,-_")
    with tempfile.TemporaryDirectory(prefix="labconsole-ssh-") as directory:
        copies: dict[str, Path] = {}
        files = (
            [(Path(path), f"{home}/.ssh")]
            if path is not None
            else [
                (file, base)
                for file, base in ((Path(home, ".ssh/config"), f"{home}/.ssh"), (Path(SYSTEM_CONFIG), "/etc/ssh"))
                if file.is_file()
            ]
        )
        main = Path(directory, "main")
        main.write_text("".join(f'Include "{_copy(*file, home, Path(directory), copies)}"\n' for file in files))
        yield ["-F", str(main)], copies


def _copy(path: Path, base: str, home: str, directory: Path, copies: dict[str, Path]) -> Path:
    """Copy a file, with ``~`` replaced by ``home`` and every Include naming the copy of a file."""
    if str(path) in copies:
        return copies[str(path)]
    copy = copies[str(path)] = directory / f"{len(copies):06}"
    lines = []
    for line in path.read_text(encoding="utf-8", errors="surrogateescape").split("\n"):
        include = re.match(r"""\s*include(?:\s*=\s*|\s+|(?=["']))(.*)""", line, re.IGNORECASE)
        if include is not None:
            try:
                parts = shlex.split(include[1])
            except ValueError:
                parts = []  # ssh reports the line
            end = next((index for index, part in enumerate(parts) if part.startswith("#")), len(parts))
            found: list[str] = []
            for part in parts[:end]:
                pattern = part if part.startswith("${") else str(Path(base, Path(part).expanduser()))
                if "${" in part or "%" in part:
                    found.append(pattern)  # left to ssh, as far as its version expands it
                    continue
                names = sorted(glob.glob(pattern))  # noqa: PTH207  Path.glob takes no absolute pattern
                found += [
                    str(_copy(Path(name), base, home, directory, copies)) for name in names if Path(name).is_file()
                ]
            if end:
                line = "Include " + " ".join(f'"{name}"' for name in found or [str(directory / "none")])
        else:
            line = re.sub(r"""(?<=[\s"'=])~(?=/)""", home, line)
            line = re.sub(r"(?<!%)((?:%%)*)%d", rf"\1{home}", line)
        lines.append(line)
    copy.write_text("\n".join(lines), encoding="utf-8", errors="surrogateescape")
    return copy


# --- without ssh


def _read_plain_lines(host: str, user: str | None, port: int | None, path: str | None) -> Settings:
    found: dict[str, tuple[str, ...]] = {}
    if user:
        found["user"] = (user,)
    if port:
        found["port"] = (str(port),)
    file = Path(path) if path else Path("~/.ssh/config").expanduser()
    active = True
    lines = file.read_text(encoding="utf-8").split("\n") if path or file.is_file() else []
    for number, line in enumerate(lines, 1):
        line = line.strip(" \t\r")
        if not line or line.startswith("#"):
            continue
        keyword, _, rest = line.replace("\t", " ").partition(" ")
        key, parts = keyword.lower(), _split_value(rest)
        if key == "host" and parts:
            active = pattern_list_matches(host, parts)
        elif key not in _PLAIN | _IGNORED or (active and key in _PLAIN and not _readable(key, parts)):
            raise ConfigRefused(
                f"{file} line {number}: {clean(line, 80)}: this line is read only where OpenSSH's ssh is installed; "
                f"allowed without: Host, {', '.join(sorted(_PLAIN))}, plain values, no comment after a value"
            )
        elif active and key in ("identityfile", "certificatefile"):
            found[key] = (*found.get(key, ()), *parts)
        elif active and key in _PLAIN:
            found.setdefault(key, tuple(parts))
    found.setdefault("user", (_local_user(),))
    found.setdefault("port", ("22",))
    name = found.get("hostname", (host,))[0].replace("%h", host)
    found["hostname"] = (name if ":" in name else name.lower(),)
    values = tokens(host, found)
    for key in ("userknownhostsfile",):
        if key in found:
            found[key] = tuple(expand_path(key, value, values) for value in found[key])
    return found


def _split_value(text: str) -> list[str]:
    """The parts of a value; [] if there are none, or if they are not plain."""
    parts, end = [], 0
    while match := _WORD.match(text, end):
        parts.append(match[1] or match[2])
        end = match.end()
    return parts if not text[end:].strip() else []


def _readable(key: str, parts: list[str]) -> bool:
    if not parts or (len(parts) > 1 and key not in _FILE_LISTS):
        return False
    if key == "port":
        return parts[0].isdecimal() and 0 < int(parts[0]) < 65536
    if key == "identitiesonly":
        return parts[0] in ("yes", "no")
    if key in _FILE_LISTS:
        return all(part.startswith(("/", "~/")) or parts == ["none"] for part in parts)
    if key in ("identityfile", "certificatefile"):
        return True  # tokens are expanded even where ssh -G leaves them
    return "%" not in parts[0].replace("%h", "") if key == "hostname" else "%" not in parts[0]


def pattern_list_matches(text: str, patterns: list[str]) -> bool:
    """Whether a pattern matches and no negated one does. OpenSSH's patterns have ``*`` and ``?``, but no ``[``."""

    def matches(pattern: str) -> bool:
        return fnmatchcase(text, pattern.replace("[", "[[]"))

    if any(pattern.startswith("!") and matches(pattern[1:]) for pattern in patterns):
        return False
    return any(matches(pattern) for pattern in patterns if not pattern.startswith("!"))
