"""Which host keys are trusted, and what to tell an operator about one that is not.

Always strict: nothing here accepts a key that no known_hosts file has. asyncssh knows no StrictHostKeyChecking, and
an *empty* known_hosts argument makes it look at ~/.ssh/known_hosts instead, which is why the files are read here.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

import asyncssh
from asyncssh.public_key import get_default_public_key_algs

from labconsole.nodes.route import JumpHost


@dataclass(frozen=True, slots=True)
class ShownKey:
    """The key a server showed and which was not trusted."""

    address: str
    algorithm: str
    fingerprint: str

    def __str__(self) -> str:
        return f"{self.algorithm} {self.fingerprint}"


class Witness(asyncssh.SSHClient):
    """Remembers the key that was refused; refuses all that known_hosts does not have."""

    def __init__(self) -> None:
        self.shown: ShownKey | None = None

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Called for keys that are not in known_hosts: note it, and refuse."""
        self.shown = ShownKey(addr, key.get_algorithm(), key.get_fingerprint())
        return False


def read_known_hosts(hop: JumpHost) -> asyncssh.SSHKnownHosts:
    """Every key of the files that exist. Blocking."""
    known = asyncssh.import_known_hosts("")
    for path in hop.known_hosts:
        if Path(path).is_file():
            known.load(Path(path).read_text(encoding="utf-8", errors="replace"))
    return known


def key_algorithms(hop: JumpHost, known: asyncssh.SSHKnownHosts) -> list[str] | None:
    """Host key algorithms to ask for, those of the known keys first; None leaves the choice to asyncssh.

    asyncssh asks for nothing but the known types. A server that no longer has one then ends the connection, which
    looks like a lost one; asked for the others as well, it shows a key, and the change can be told.
    """
    keys, authorities, *_ = known.match(hop.host_key_alias or hop.host, "", hop.port if hop.port != 22 else None)
    if not keys or authorities:
        return None
    algorithms = [name for key in keys for name in key.sig_algorithms] + get_default_public_key_algs()
    return list(dict.fromkeys(name.decode("ascii") for name in algorithms))


def refusal(hop: JumpHost, shown: ShownKey | None, accept: str, *, revoked: bool = False) -> str:
    """The sentence for a host key that was refused: unknown, changed or revoked, and what to do. Blocking."""
    where = hop.host_key_alias or (hop.host if hop.port == 22 else f"[{hop.host}]:{hop.port}")
    showed = f" (it showed {shown})" if shown else ""
    if revoked:
        return f"the host key of {where} is marked as revoked in known_hosts: this is not a host to log in to"
    lines = _lines_about(hop, shown.address if shown else "")
    if not lines:
        return (
            f"the host key of {where} is in no known_hosts file{showed}; compare its fingerprint, "
            f"then accept it once by: {accept}"
        )
    path, number = lines[0]
    remove = shlex.join(["ssh-keygen", "-R", where, "-f", path])
    return (
        f"the host key of {where} is not the one in {path} line {number}{showed}: the host was installed anew, or "
        f"another one answers in its place; if you know why, forget the old key by: {remove}"
    )


def _lines_about(hop: JumpHost, address: str) -> list[tuple[str, int]]:
    """(file, line) of every entry for this host. One line is parsed at a time to learn its number."""
    found = []
    host, port = hop.host_key_alias or hop.host, hop.port if hop.port != 22 else None
    for path in hop.known_hosts:
        try:
            text = Path(path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # an absent file says nothing about the host
        for number, line in enumerate(text.splitlines(), 1):
            try:
                keys = asyncssh.import_known_hosts(line).match(host, address, port)
            except ValueError:
                continue  # asyncssh refuses the file as a whole before a line of it could be of use here
            if keys[0]:
                found.append((path, number))
    return found
