"""The way to a node: which hosts are logged in to, as whom, with which keys, checked against which known_hosts.

hosts.yaml over ssh_config over the defaults of OpenSSH. ProxyJump is resolved here and not by asyncssh, which would
open one login on the jump host per target; a resolved way is hashable, so that ways with a common start share it.
UserKnownHostsFile is resolved here too, because asyncssh takes ``none`` as "do not check".

Reads files and may run the commands of ``Match exec``: call it in a thread.
"""

from __future__ import annotations

import getpass
import shlex
from dataclasses import dataclass
from pathlib import Path

from asyncssh.config import ConfigParseError, SSHClientConfig, SSHConfig

from labconsole.errors import NodeUnreachable
from labconsole.model.inventory import Inventory
from labconsole.wire.clean import clean

DEFAULT_SSH_CONFIG = "~/.ssh/config"
MAX_HOPS = 8
_USER_KNOWN_HOSTS = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
_GLOBAL_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")


@dataclass(frozen=True, slots=True)
class JumpHost:
    """One login. ``alias`` is what ssh_config's Host patterns saw; ``host``, ``port`` and ``user`` are what it became.

    ``given_user`` and ``given_port`` are None unless hosts.yaml or a jump specification named them.
    ``identities`` are the key files that would be used, None for the usual ones in ~/.ssh.
    """

    alias: str
    host: str
    port: int
    user: str
    given_user: str | None
    given_port: int | None
    config: str | None
    known_hosts: tuple[str, ...]
    host_key_alias: str | None
    key: str | None
    identities: tuple[str, ...] | None
    identities_only: bool
    chooses_ciphers: bool
    chooses_key_algorithms: bool

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


Route = tuple[JumpHost, ...]
"""The logins on the way, in order; the last one is the node."""


@dataclass(frozen=True, slots=True)
class _WantedRoute:
    """A login as hosts.yaml or a jump specification names it. ``jump`` None leaves the jump to ssh_config."""

    alias: str
    user: str | None = None
    port: int | None = None
    key: str | None = None
    jump: str | None = None
    follow_config_jump: bool = True


def find_route(name: str, inventory: Inventory) -> Route:
    """The logins that lead to node ``name``. Raises NodeUnreachable when the configuration cannot be used."""
    config = _config_file(name, inventory)
    try:
        return tuple(_resolve(name, inventory, config, _of_node(name, inventory), frozenset()))
    except ConfigParseError as exc:
        raise NodeUnreachable(name, f"the SSH configuration cannot be used: {clean(exc)}", operation="connect") from exc
    except OSError as exc:
        text = f"the SSH configuration {exc.filename or config} cannot be read: {exc.strerror}"
        raise NodeUnreachable(name, text, operation="connect") from exc
    except UnicodeDecodeError as exc:
        raise NodeUnreachable(name, f"the SSH configuration {config} is not text", operation="connect") from exc


def shell_argv(name: str, inventory: Inventory) -> list[str]:
    """The command line of OpenSSH's client that opens a shell on node ``name`` by the same way and as strictly."""
    return ["ssh", *_client_options(name, inventory, find_route(name, inventory))]


def accept_command(name: str, inventory: Inventory, hop: JumpHost) -> str:
    """What an operator types once to look at and accept the key of ``hop``, on the way to ``name``."""
    route = find_route(name, inventory)
    upto = route[: route.index(hop) + 1] if hop in route else (hop,)
    options = _client_options(name, inventory, upto, strict=False)
    return shlex.join(["ssh", *options])


def _client_options(name: str, inventory: Inventory, route: Route, *, strict: bool = True) -> list[str]:
    hop = route[-1]
    options = ["-F", hop.config] if hop.config and hop.config != str(Path(DEFAULT_SSH_CONFIG).expanduser()) else []
    if strict:
        options += ["-o", "StrictHostKeyChecking=yes"]
    if inventory.defaults.known_hosts is not None:
        options += ["-o", f'UserKnownHostsFile="{hop.known_hosts[0]}"']
    if hop.key:
        options += ["-i", hop.key]
    if hop.given_port:
        options += ["-p", str(hop.given_port)]
    if hop.given_user:
        options += ["-l", hop.given_user]
    if len(route) > 1 and _jump_is_ours(name, inventory):
        # Not -J: that would use neither the jump's own key nor this strictness.
        jump = [word.replace("%", "%%") for word in _client_options(name, inventory, route[:-1], strict=strict)]
        options += ["-o", f"ProxyCommand={shlex.join(['ssh', '-W'])} '[%h]:%p' {shlex.join(jump)}"]
    return [*options, "--", hop.alias]


def _jump_is_ours(name: str, inventory: Inventory) -> bool:
    return inventory.nodes[name].jump is not None or inventory.defaults.known_hosts is not None


def _of_node(name: str, inventory: Inventory) -> _WantedRoute:
    node = inventory.nodes[name]
    return _WantedRoute(node.address, node.user, node.port, node.key, node.jump)


def _config_file(name: str, inventory: Inventory) -> str | None:
    """ssh_config's path; None when it is the usual one and absent, which is no error."""
    given = inventory.defaults.ssh_config
    path = Path(given).expanduser()
    if path.is_file():
        return str(path)
    if given == DEFAULT_SSH_CONFIG:
        return None
    raise NodeUnreachable(
        name,
        f"the SSH configuration {given} (defaults.ssh_config in hosts.yaml) does not exist: is the lab up? (run "
        f"`labconsole lab up`)",
        operation="connect",
    )


def _resolve(
    name: str, inventory: Inventory, config: str | None, wanted: _WantedRoute, seen: frozenset[_WantedRoute]
) -> list[JumpHost]:
    if wanted in seen or len(seen) >= MAX_HOPS:
        raise NodeUnreachable(name, f"the jump hosts form a loop at {wanted.alias}", operation="connect")
    hop, config_jump = _resolve_one(wanted, config, inventory.defaults.known_hosts)
    jump = wanted.jump if wanted.jump is not None else config_jump if wanted.follow_config_jump else None
    if jump is None or jump.lower() == "none":
        return [hop]
    before: list[JumpHost] = []
    for position, text in enumerate(jump.split(",")):
        via = _jump(name, text.strip(), inventory, first=position == 0)
        # Of several jumps only the first is reached by its own configuration; the others by the one before.
        hops = _resolve(name, inventory, config, via, seen | {wanted})
        before.extend(hops)
    return [*before, hop]


def _jump(name: str, text: str, inventory: Inventory, *, first: bool) -> _WantedRoute:
    if text in inventory.nodes:
        node = _of_node(text, inventory)
        return node if first else _WantedRoute(node.alias, node.user, node.port, node.key, None, False)
    user, at, host = text.removeprefix("ssh://").rstrip("/").rpartition("@")
    port: str | None = None
    if host.startswith("["):
        host, _, rest = host[1:].partition("]")
        port = rest.removeprefix(":") or None
    elif host.count(":") == 1:
        host, _, port = host.partition(":")
    if not host or host.startswith("-") or (port is not None and not (port.isdecimal() and 0 < int(port) < 65536)):
        told = f"{clean(text)!r} is not a jump host; allowed: [user@]host[:port]"
        raise NodeUnreachable(name, told, operation="connect")
    return _WantedRoute(host, user if at else None, int(port) if port else None, follow_config_jump=first)


def _resolve_one(wanted: _WantedRoute, path: str | None, known_hosts: str | None) -> tuple[JumpHost, str | None]:
    local_user = getpass.getuser()
    asked = (local_user, wanted.user or (), wanted.alias, wanted.port or ())
    loaded = SSHClientConfig.load(None, path, False, False, False, *asked)
    if loaded.has_match_final():
        loaded = SSHClientConfig.load(loaded, path, True, False, True, *asked)
    host = str(loaded.get("Hostname", wanted.alias))
    listed = loaded.get("IdentityFile")
    identities = tuple(str(Path(str(p)).expanduser()) for p in listed) if isinstance(listed, list) else None
    key = str(Path(wanted.key).expanduser()) if wanted.key else None
    alias = loaded.get("HostKeyAlias")
    jump = loaded.get("ProxyJump")
    hop = JumpHost(
        alias=wanted.alias,
        host=host,
        port=int(str(loaded.get("Port", 22))),
        user=str(loaded.get("User", local_user)),
        given_user=wanted.user,
        given_port=wanted.port,
        config=path,
        known_hosts=_known_hosts_files(loaded, known_hosts),
        host_key_alias=str(alias) if alias else None,
        key=key,
        identities=(key,) if key else identities,
        identities_only=bool(key) or bool(loaded.get("IdentitiesOnly")),
        chooses_ciphers=loaded.get("Ciphers") is not None,
        chooses_key_algorithms=loaded.get("HostKeyAlgorithms") is not None,
    )
    return hop, str(jump) if jump else None


def _known_hosts_files(loaded: SSHConfig, given: str | None) -> tuple[str, ...]:
    if given is not None:
        return (str(Path(given).expanduser()),)
    files: list[str] = []
    for option, usual in (("UserKnownHostsFile", _USER_KNOWN_HOSTS), ("GlobalKnownHostsFile", _GLOBAL_KNOWN_HOSTS)):
        listed = loaded.get(option)
        files.extend(str(path) for path in listed) if isinstance(listed, list) else files.extend(usual)
    home = str(Path.home())
    return tuple(str(Path(path.replace("%d", home)).expanduser()) for path in files)
