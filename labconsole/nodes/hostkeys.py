"""Which host keys are trusted, and the explanation to an operator for an untrusted one.

Always strict: no key is accepted that is not in a known_hosts file. The files are read here because asyncssh differs
from OpenSSH: it rejects a whole file for one bad line, also accepts a key known for the peer's address, and looks up a
HostKeyAlias with the port. It also accepts a certificate signed with SHA-1, and refuses a certificate that is not valid
even if its key is known.
"""

from __future__ import annotations

import binascii
import hmac
import logging
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha1
from pathlib import Path

import asyncssh
from asyncssh.packet import String
from asyncssh.public_key import (
    SSHOpenSSHCertificate,
    decode_ssh_certificate,
    get_default_certificate_algs,
    get_default_public_key_algs,
)

from labconsole.nodes.ssh_config import pattern_list_matches
from labconsole.nodes.ssh_route import JumpHost
from labconsole.wire.clean import clean

log = logging.getLogger("labconsole.nodes")

_MARKERS = {"": "keys", "@cert-authority": "authorities", "@revoked": "revoked"}
_named: set[str] = set()
"""Bad lines that were already logged."""


@dataclass(frozen=True, slots=True)
class UntrustedKey:
    """The untrusted key that a server presented."""

    address: str
    algorithm: str
    fingerprint: str

    def __str__(self) -> str:
        return f"{self.algorithm} {self.fingerprint}"


class HostKeyClient(asyncssh.SSHClient):
    """Refuses keys that are not in known_hosts, and remembers the refused one."""

    def __init__(self) -> None:
        self.shown: UntrustedKey | None = None

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        """Called before key exchange: makes certificates be judged as by OpenSSH."""
        validate = conn.validate_server_host_key
        conn.validate_server_host_key = lambda key_data: judge_host_key(key_data, validate)  # type: ignore[method-assign]

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Called for keys that are not in known_hosts: note the key, and refuse it."""
        self.shown = UntrustedKey(addr, key.get_algorithm(), key.get_fingerprint())
        return False


def judge_host_key(data: bytes, validate: Callable[[bytes], asyncssh.SSHKey]) -> asyncssh.SSHKey:
    """The key that a server presented, alone or in a certificate, once ``validate`` trusts it.

    If a certificate is not valid, its key itself must be known, unless a part of the certificate is revoked. Raises
    asyncssh.HostKeyNotVerifiable.
    """
    try:
        certificate = decode_ssh_certificate(data)
    except asyncssh.KeyImportError:
        return validate(data)  # a plain key, or unreadable data
    if isinstance(certificate, SSHOpenSSHCertificate) and not _is_signed_by_sha1(data, certificate):
        try:
            return validate(data)
        except asyncssh.HostKeyNotVerifiable as exc:
            if "revoked" in str(exc):
                raise
    return validate(certificate.key.public_data)


def _is_signed_by_sha1(data: bytes, certificate: SSHOpenSSHCertificate) -> bool:
    """Whether the signature, the last field after the authority's key, begins with the name of the SHA-1 algorithm."""
    _, _, field = data.rpartition(String(certificate.signing_key.public_data))
    return field[4:].startswith(String("ssh-rsa"))


@dataclass(slots=True)
class KnownHosts:
    """The entries for one host in the known_hosts files. ``lines``: (file, line number) of each key.

    ``bad_lines`` are sentences about ignored lines that cannot be read.
    """

    keys: list[asyncssh.SSHKey] = field(default_factory=list)
    authorities: list[asyncssh.SSHKey] = field(default_factory=list)
    revoked: list[asyncssh.SSHKey] = field(default_factory=list)
    lines: list[tuple[str, int]] = field(default_factory=list)
    bad_lines: list[str] = field(default_factory=list)

    @property
    def trusted(self) -> tuple[list[asyncssh.SSHKey], list[asyncssh.SSHKey], list[asyncssh.SSHKey]]:
        """The form that asyncssh uses directly, without a lookup of its own."""
        return self.keys, self.authorities, self.revoked


def read_known_hosts(hop: JumpHost) -> KnownHosts:
    """The keys for ``hop`` in all its files. Blocking. Raises OSError, ValueError for unusable RevokedHostKeys.

    As in OpenSSH, a HostKeyAlias is looked up alone; a name is looked up with its port, and without it only if that
    finds no key.
    """
    texts = [(path, _text(path)) for path in hop.known_hosts if Path(path).is_file()]
    host = hop.host_key_alias or hop.host
    known = _look_up(texts, host if hop.host_key_alias or hop.port == 22 else f"[{host}]:{hop.port}")
    if not (known.keys or known.authorities or hop.host_key_alias or hop.port == 22):
        at_port, known = known, _look_up(texts, host)
        known.revoked += at_port.revoked
        known.bad_lines = list(dict.fromkeys(at_port.bad_lines + known.bad_lines))
    for path in hop.revoked_keys:
        known.revoked += _revoked_keys(path)
    for sentence in known.bad_lines:
        if sentence not in _named:
            _named.add(sentence)
            log.warning("%s", sentence)
    return known


def _text(path: str) -> str:
    return Path(path).read_text(encoding="utf-8", errors="replace")


def _look_up(texts: list[tuple[str, str]], name: str) -> KnownHosts:
    known = KnownHosts()
    for path, text in texts:
        for number, line in enumerate(text.split("\n"), 1):
            fields = line.split()
            if not fields or fields[0].startswith("#"):
                continue
            marker = fields.pop(0) if fields[0].startswith("@") else ""
            try:
                key = _read_key(marker, fields, name)
            except ValueError as exc:
                known.bad_lines.append(f"{path} line {number} cannot be read and is ignored: {clean(exc, 200)}")
                continue
            if key is not None:
                getattr(known, _MARKERS[marker]).append(key)
                if not marker:
                    known.lines.append((path, number))
    return known


def _read_key(marker: str, fields: list[str], name: str) -> asyncssh.SSHKey | None:
    """The key of a line, or None for another host. Raises ValueError."""
    if marker not in _MARKERS:
        raise ValueError(f"{marker} is not a marker; allowed: {', '.join(filter(None, _MARKERS))}")
    if len(fields) < 3:
        raise ValueError("fields are missing; allowed: [marker] names key-type key")
    if not _names_match(fields[0], name):
        return None
    try:
        return asyncssh.import_public_key(" ".join(fields[1:3]))
    except asyncssh.KeyImportError:
        raise ValueError(f"{fields[1]} is not a supported key type, or its key is damaged") from None


def _names_match(names: str, name: str) -> bool:
    """Whether the first field of a line, plain or hashed, names this host. Case does not matter."""
    if not names.startswith("|"):
        return pattern_list_matches(name.lower(), names.lower().split(","))
    kind, _, rest = names[1:].partition("|")
    salt, separator, digest = rest.partition("|")
    if kind != "1" or not separator:
        raise ValueError("the hashed name is not of the form |1|salt|digest")
    try:
        salt_bytes, digest_bytes = (binascii.a2b_base64(part, strict_mode=True) for part in (salt, digest))
    except binascii.Error as exc:
        raise ValueError(f"the hashed name is not base64: {exc}") from None
    return hmac.compare_digest(hmac.new(salt_bytes, name.lower().encode(), sha1).digest(), digest_bytes)


def _revoked_keys(path: str) -> list[asyncssh.SSHKey]:
    """The keys in a RevokedHostKeys file. An unusable file makes every key unusable, as in OpenSSH."""
    data = Path(path).read_bytes()
    if data.startswith(b"SSHKRL"):
        raise ValueError(f"RevokedHostKeys {path} is a key revocation list; allowed here: one public key a line")
    keys = []
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                keys.append(asyncssh.import_public_key(line))
            except asyncssh.KeyImportError as exc:
                raise ValueError(f"RevokedHostKeys {path} line {number}: {clean(exc, 200)}") from None
    return keys


def key_algorithms(known: KnownHosts) -> list[str] | None:
    """Host key algorithms to request, those of the known keys first, or None to leave the choice to asyncssh.

    By itself asyncssh requests only the known types, and only certificates if an authority is known. A server without
    such a key then ends the connection, which looks like a lost one; if the other types are requested as well, the
    server presents its key.
    """
    if not known.keys and not known.authorities:
        return None
    certificates = get_default_certificate_algs() if known.authorities else []
    keys = [name for key in known.keys for name in key.sig_algorithms]
    algorithms = certificates + keys + get_default_public_key_algs()
    return list(dict.fromkeys(name.decode("ascii") for name in algorithms))


def refusal(hop: JumpHost, shown: UntrustedKey | None, accept: str, *, revoked: bool = False) -> str:
    """The sentence for a refused host key: unknown, changed or revoked, and what to do. Blocking."""
    where = hop.host_key_alias or (hop.host if hop.port == 22 else f"[{hop.host}]:{hop.port}")
    showed = f" (it showed {shown})" if shown else ""
    if revoked:
        files = "known_hosts or RevokedHostKeys"
        return f"the host key of {where} is marked as revoked in {files}: this is not a host to log in to"
    known = read_known_hosts(hop)
    bad = "".join(f"; {sentence}" for sentence in known.bad_lines[:3])
    if not known.lines:
        return (
            f"the host key of {where} is not in any known_hosts file{showed}; compare its fingerprint, "
            f"then accept it once by: {accept}{bad}"
        )
    path, number = known.lines[0]
    remove = shlex.join(["ssh-keygen", "-R", where, "-f", path])
    return (
        f"the host key of {where} is not the one in {path} line {number}{showed}: the host was reinstalled, or "
        f"another one answers in its place; if you know why, remove the old key by: {remove}{bad}"
    )
