"""Opens SSH connections: jump hosts are shared, attempts repeated if that helps, and each failure is one sentence.

A jump connection belongs to all targets behind it: the first that needs it opens it, the last that leaves closes it. If
it cannot be opened, all waiting targets learn that at once instead of trying one after another.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncssh
from asyncssh.encryption import get_encryption_algs
from asyncssh.kex import get_kex_algs
from asyncssh.mac import get_mac_algs
from asyncssh.public_key import get_certificate_algs, get_public_key_algs

from labconsole.errors import NodeUnreachable
from labconsole.model.inventory import Inventory
from labconsole.nodes.hostkeys import HostKeyClient, KnownHosts, key_algorithms, read_known_hosts, refusal
from labconsole.nodes.ssh_route import JumpHost, Route, accept_command
from labconsole.wire.clean import clean

log = logging.getLogger("labconsole.nodes")

ATTEMPTS = 3
"""sshd's MaxStartups (10:30:100) drops logins at random when many arrive at once; limiting ours is not sufficient."""
BACK_OFF_S = 0.25
KEEPALIVE_S = 1.0
KEEPALIVE_MISSED = 3
"""asyncssh gives up after interval x (missed + 1) = 4 s."""
CLOSE_S = 2.0


class ConcurrencyLimit:
    """At most ``number`` at once, per event loop. After ``longest_s`` a slow one continues without its slot.

    Thus a node that does not answer delays others for at most that long.
    """

    def __init__(self, number: int, longest_s: float) -> None:
        self._number, self._longest_s = number, longest_s
        self._free: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            weakref.WeakKeyDictionary()
        )

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Wait for a slot, and keep it until the block ends or has taken too long."""
        loop = asyncio.get_running_loop()
        free = self._free.setdefault(loop, asyncio.Semaphore(self._number))
        await free.acquire()
        kept = ExitStack()
        kept.callback(free.release)
        timer = loop.call_later(self._longest_s, kept.close)
        try:
            yield
        finally:
            timer.cancel()
            kept.close()


LOGINS = ConcurrencyLimit(16, 1.0)
"""A login costs the console 20 ms of processor time: a hundred at once would all be slow."""

STARTS = ConcurrencyLimit(16, 3.0)
"""Starting an agent costs its node 0.2 s of processor time, all on one machine if the nodes are its guests."""


@dataclass(slots=True, eq=False)
class _Jump:
    """A shared connection to a jump host, open or being opened; ``users`` counts those that use or await it."""

    opening: asyncio.Future[asyncssh.SSHClientConnection]
    users: int = 0
    outer: _Jump | None = None

    @property
    def usable(self) -> bool:
        if not self.opening.done():
            return True
        # users: a jump without users is closing, which is_closed() reports only once it is done.
        return self.users > 0 and self.opened is not None and not self.opened.is_closed()

    @property
    def opened(self) -> asyncssh.SSHClientConnection | None:
        if not self.opening.done() or self.opening.cancelled() or self.opening.exception() is not None:
            return None
        return self.opening.result()

    def leave(self) -> None:
        """Remove one user; the last one closes the connection, and leaves the jump before this one."""
        self.users -= 1
        if self.users == 0 and (connection := self.opened) is not None:
            # close() flushes the targets' remaining data; the transport ends by itself afterwards.
            connection.close()
            if self.outer is not None:
                self.outer.leave()
                self.outer = None


@dataclass(slots=True)
class SshConnection:
    """An open connection and, if it leads through a jump host, its share of that one."""

    connection: asyncssh.SSHClientConnection
    _jump: _Jump | None = None

    async def close(self) -> None:
        """Close properly within CLOSE_S, else abort; release the jump."""
        try:
            self.connection.close()
            async with asyncio.timeout(CLOSE_S):
                await self.connection.wait_closed()
        except TimeoutError:
            log.debug("a connection did not close within %g s: aborted", CLOSE_S)
        finally:
            self.abort()

    def abort(self) -> None:
        """Drop the connection now and release the jump."""
        self.connection.abort()
        jump, self._jump = self._jump, None
        if jump is not None:
            jump.leave()


_jumps: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Route, _Jump]] = weakref.WeakKeyDictionary()


async def dial(name: str, inventory: Inventory, route: Route) -> SshConnection:
    """Open the connection at the end of ``route``. Raises NodeUnreachable."""
    jump = await _enter_jump(name, inventory, route[:-1])
    try:
        return SshConnection(await _open(name, inventory, route[-1], jump.opened if jump else None), jump)
    except BaseException:
        if jump is not None:
            jump.leave()
        raise


async def _enter_jump(name: str, inventory: Inventory, route: Route) -> _Jump | None:
    """The shared, open jump at the end of ``route``, to be left once; None if the route is empty."""
    if not route:
        return None
    jumps = _jumps.setdefault(asyncio.get_running_loop(), {})
    while True:
        jump = jumps.get(route)
        if jump is None or not jump.usable:
            return await _open_jump(name, inventory, route, jumps)
        jump.users += 1
        try:
            await asyncio.shield(jump.opening)
        except NodeUnreachable as exc:
            jump.leave()
            raise _unreachable(name, exc.message) from exc
        except asyncio.CancelledError:
            jump.leave()
            task = asyncio.current_task()
            if not jump.opening.cancelled() or (task is not None and task.cancelling()):
                raise
            # The opening task was cancelled, not this one: this one opens it now.
        else:
            return jump


async def _open_jump(name: str, inventory: Inventory, route: Route, jumps: dict[Route, _Jump]) -> _Jump:
    jump = jumps[route] = _Jump(asyncio.get_running_loop().create_future(), users=1)
    outer = None
    try:
        outer = await _enter_jump(name, inventory, route[:-1])
        connection = await _open(name, inventory, route[-1], outer.opened if outer else None)
    except BaseException as exc:
        if jumps.get(route) is jump:
            del jumps[route]
        if outer is not None:
            outer.leave()
        if not isinstance(exc, NodeUnreachable):
            jump.opening.cancel()
            raise
        failure = _unreachable(name, f"jump host {route[-1].alias}: {exc.message}")
        jump.opening.set_exception(failure)
        jump.opening.exception()  # marks it as retrieved, since there may be no other waiter
        raise failure from exc
    jump.outer = outer
    jump.opening.set_result(connection)
    return jump


async def _open(
    name: str, inventory: Inventory, hop: JumpHost, tunnel: asyncssh.SSHClientConnection | None
) -> asyncssh.SSHClientConnection:
    timeout_s = inventory.defaults.connect_timeout_s
    for attempt in range(1, ATTEMPTS + 1):
        witness = HostKeyClient()
        try:
            async with LOGINS.one(), asyncio.timeout(timeout_s):
                return await _login(name, hop, tunnel, witness)
        except TimeoutError as exc:
            raise _unreachable(name, f"{hop} did not answer within {timeout_s:g} s") from exc
        except (asyncssh.ConnectionLost, ConnectionResetError, BrokenPipeError) as exc:
            if attempt == ATTEMPTS or (tunnel is not None and tunnel.is_closed()):
                text = f"{hop} closed the connection during login, {attempt} times ({clean(exc, 120)})"
                raise _unreachable(name, text) from exc
            log.debug("%s: attempt %d: %s", name, attempt, clean(exc))
        except Exception as exc:
            text = await asyncio.to_thread(_sentence, name, inventory, hop, witness, exc)
            raise _unreachable(name, text) from exc
        await asyncio.sleep(BACK_OFF_S * 2**attempt * random.uniform(0.5, 1.0))
    raise AssertionError("the last attempt returns or raises")


async def _login(
    name: str, hop: JumpHost, tunnel: asyncssh.SSHClientConnection | None, witness: HostKeyClient
) -> asyncssh.SSHClientConnection:
    known, keys, public, certificates = await asyncio.to_thread(_credentials, name, hop)
    options: dict[str, object] = {
        "config": None,  # all relevant settings are in ``hop``; the environment, X11 and the like never reach a node
        "username": hop.user,
        "tunnel": tunnel,
        "known_hosts": known.trusted,
        "host_key_alias": hop.host_key_alias,
        "x509_trusted_certs": None,  # otherwise ~/.ssh/ca-bundle.crt would vouch for host keys as well
        "client_factory": lambda: witness,
        "agent_path": hop.agent,
        "agent_forwarding": False,
        "request_pty": False,
        "password_auth": False,
        "kbdint_auth": False,
        "gss_auth": False,
        "gss_kex": False,
        "compression_algs": None,  # else a packet of a node might unpack to a thousand times as much
        "ignore_encrypted": True,
        "keepalive_interval": KEEPALIVE_S,
        "keepalive_count_max": KEEPALIVE_MISSED,
        "connect_timeout": None,
        "encoding": None,
        "encryption_algs": "^aes128-gcm@openssh.com",  # measured: 582 MB/s, the default chacha20 306 MB/s
    }
    if algorithms := key_algorithms(known):
        options["server_host_key_algs"] = algorithms
    options |= _configured(name, hop)
    if hop.proxy_command and tunnel is None:
        options["proxy_command"] = [os.environ.get("SHELL") or "/bin/sh", "-c", f"exec {hop.proxy_command}"]
    if hop.identities is not None:
        # For asyncssh an empty list means "the usual keys", and an empty iterator only the agent's.
        options["client_keys"] = keys or iter(())
    if certificates:
        options["client_certs"] = certificates
    if hop.identities_only:
        # Otherwise every key of a full ssh-agent is offered first, and sshd hangs up after six.
        options |= {"agent_identities": public} if public else {"agent_path": None}
    return await asyncssh.connect(hop.host, hop.port, **options)


_ALGORITHMS: dict[str, tuple[str, Callable[[], list[bytes]]]] = {
    "ciphers": ("encryption_algs", get_encryption_algs),
    "kexalgorithms": ("kex_algs", get_kex_algs),
    "macs": ("mac_algs", get_mac_algs),
    "hostkeyalgorithms": ("server_host_key_algs", lambda: get_certificate_algs() + get_public_key_algs()),
    "pubkeyacceptedalgorithms": ("signature_algs", get_public_key_algs),
}
"""The option of asyncssh and the names that asyncssh supports, by keyword of ssh_config."""


def _configured(name: str, hop: JumpHost) -> dict[str, object]:
    """Options of asyncssh for the settings in ssh_config that differ from OpenSSH's defaults."""
    options: dict[str, object] = {}
    for keyword, value in hop.settings:
        if keyword in _ALGORITHMS:
            option, supported = _ALGORITHMS[keyword]
            known = {algorithm.decode("ascii") for algorithm in supported()}
            options[option] = [algorithm for algorithm in value.split(",") if algorithm in known]
            if not options[option]:
                allowed = ", ".join(sorted(known))
                raise _unreachable(
                    name, f"{keyword} {clean(value)} in ssh_config: none is supported; allowed: {allowed}"
                )
        elif keyword == "addressfamily":
            options["family"] = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}.get(value, socket.AF_UNSPEC)
        elif keyword == "bindaddress":
            options["local_addr"] = (value, 0)
        elif keyword == "rekeylimit":
            limits = zip(("rekey_bytes", "rekey_seconds"), map(int, value.split()), strict=True)
            options |= {option: limit for option, limit in limits if limit}
        elif keyword == "tcpkeepalive":
            options["tcp_keepalive"] = value == "yes"
        elif keyword == "pubkeyauthentication":
            options["public_key_auth"] = value not in ("no", "false")
        elif keyword == "gssapiauthentication":
            options["gss_auth"] = value == "yes"
        elif keyword == "pkcs11provider":
            options["pkcs11_provider"] = value
    return options


def _credentials(name: str, hop: JumpHost) -> tuple[KnownHosts, list[str], list[str], list[str]]:
    """Files with (known hosts, private keys, public halves of keys in an ssh-agent, certificates). Blocking."""
    try:
        known = read_known_hosts(hop)
    except (OSError, ValueError) as exc:
        raise _unreachable(name, f"the host key of {hop} cannot be checked: {clean(exc)}") from exc
    if hop.key and not Path(hop.key).is_file():
        raise _unreachable(name, f"the key {hop.key} (nodes.{name}.key in hosts.yaml) does not exist")
    keys: list[str] = []
    public: list[str] = []
    for path in hop.identities or ():
        if path.endswith(".pub"):
            public.append(path)
            continue
        # As in OpenSSH, a missing key that ssh_config names is not an error.
        if Path(path).is_file():
            keys.append(path)
        public.extend(each for each in (f"{path}-cert.pub", f"{path}.pub") if Path(each).is_file())
    public, certificates = ([file for file in files if Path(file).is_file()] for files in (public, hop.certificates))
    return known, keys, public, certificates


def _unreachable(name: str, text: str) -> NodeUnreachable:
    return NodeUnreachable(name, text, operation="connect")


def _sentence(name: str, inventory: Inventory, hop: JumpHost, witness: HostKeyClient, exc: Exception) -> str:
    """The sentence for a failure to open ``hop``, with the remedy. Blocking: may read key files."""
    if isinstance(exc, NodeUnreachable):
        return exc.message
    if isinstance(exc, asyncssh.HostKeyNotVerifiable):
        accept = accept_command(name, inventory, hop)
        return refusal(hop, witness.shown, accept, revoked="revoked" in str(exc))
    if isinstance(exc, asyncssh.KeyExchangeFailed) and "host key" in str(exc).lower():
        # The file has a key for this host, of a type that the server no longer offers.
        return refusal(hop, witness.shown, accept_command(name, inventory, hop))
    if isinstance(exc, asyncssh.PermissionDenied):
        return f"{hop.user}@{hop} refused the login; tried: {_describe_credentials(hop)}{_locked(hop)}"
    if isinstance(exc, asyncssh.DisconnectError):
        return f"{hop} ended the login of {hop.user}: {clean(exc.reason)}"
    if isinstance(exc, asyncssh.ChannelOpenError):
        return f"the jump host cannot reach {hop}: {clean(exc.reason)}"
    if isinstance(exc, (asyncssh.KeyImportError, asyncssh.KeyEncryptionError)):
        return f"a key for {hop.user}@{hop} cannot be read: {clean(exc)}"
    if isinstance(exc, ConnectionRefusedError):
        return f"{hop} refuses connections: no SSH server listens there"
    if isinstance(exc, socket.gaierror):
        return f"{hop}: the name {hop.host} is not known ({exc.strerror})"
    if isinstance(exc, OSError):
        return f"{hop} cannot be reached: {os.strerror(exc.errno) if exc.errno else clean(exc)}"
    return f"{hop}: {type(exc).__name__}: {clean(exc)}"


def _describe_credentials(hop: JumpHost) -> str:
    files = list(hop.identities) if hop.identities is not None else ["the keys in ~/.ssh"]
    agent = ["ssh-agent"] if hop.agent else []
    return ", ".join([*files, *agent]) or "no key"


def _locked(hop: JumpHost) -> str:
    """A note on keys that could not be used because they need a passphrase, which this program does not request."""
    locked = []
    for path in hop.identities or sorted(str(p) for p in Path("~/.ssh").expanduser().glob("id_*")):
        if path.endswith(".pub") or not Path(path).is_file():
            continue
        try:
            asyncssh.read_private_key(path)
        except asyncssh.KeyEncryptionError:
            locked.append(path)
        except asyncssh.KeyImportError as exc:
            if "passphrase" in str(exc).lower():
                locked.append(path)
        except OSError:
            continue  # unreadable keys were not tried either; the list above still names them
    if not locked:
        return ""
    return f"; {', '.join(locked)} has a passphrase, which is not asked for here: ssh-add {locked[0]}"
