"""The route to a node: the logins on the way, with their users, keys and known_hosts files.

hosts.yaml takes precedence over ssh_config, and ssh_config over OpenSSH's defaults. asyncssh gets resolved values only
and reads no ssh_config. ProxyJump is resolved here, because asyncssh would open one login on the jump host per target;
a resolved route is hashable, so that routes with a common start share it.

Runs ``ssh -G``, which may run the commands of ``Match exec``: call it in a thread.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labconsole.errors import NodeUnreachable
from labconsole.model.inventory import Inventory
from labconsole.nodes.ssh_config import (
    ConfigRefused,
    Settings,
    expand,
    expand_home,
    expand_path,
    has_openssh_home,
    read_settings,
    tokens,
)
from labconsole.wire.clean import clean

DEFAULT_SSH_CONFIG = "~/.ssh/config"
MAX_HOPS = 8
_USER_KNOWN_HOSTS = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
_GLOBAL_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
SETTINGS = (
    "ciphers",
    "kexalgorithms",
    "macs",
    "hostkeyalgorithms",
    "pubkeyacceptedalgorithms",
    "addressfamily",
    "bindaddress",
    "rekeylimit",
    "tcpkeepalive",
    "pubkeyauthentication",
    "gssapiauthentication",
    "pkcs11provider",
)
"""Keywords of ssh_config that have an effect beyond the fields of JumpHost."""

CLIENT = ("ssh", "-a", "-x", "-k", "-o", "ClearAllForwardings=yes")
"""OpenSSH's client without what an ssh_config may lend to a host: agent, X display, GSSAPI credentials, ports."""

KNOWN_KEYS_ALONE = (
    "StrictHostKeyChecking=yes",
    "UpdateHostKeys=no",  # no key is added, none taken out
    "VerifyHostKeyDNS=no",
    "NoHostAuthenticationForLocalhost=no",
)
"""What makes OpenSSH's client accept the keys in known_hosts and no others, whatever an ssh_config says."""


@dataclass(frozen=True, slots=True)
class JumpHost:
    """One login. ``alias`` is the name that ssh_config's Host patterns match; ``host``, ``port``, ``user`` the result.

    ``given_user`` and ``given_port`` are None unless hosts.yaml or a jump specification named them. ``identities`` are
    the key files that would be used, or None for the usual ones in ~/.ssh. ``agent`` is the socket of an ssh-agent, or
    None. ``settings`` are further values of ssh_config by keyword that differ from OpenSSH's defaults.
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
    certificates: tuple[str, ...]
    identities_only: bool
    agent: str | None
    proxy_command: str | None
    revoked_keys: tuple[str, ...]
    settings: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


Route = tuple[JumpHost, ...]
"""The logins on the way, in order; the last one is the node."""


@dataclass(frozen=True, slots=True)
class _WantedRoute:
    """A login as named by hosts.yaml or a jump specification. ``jump`` None leaves the jump to ssh_config."""

    alias: str
    user: str | None = None
    port: int | None = None
    key: str | None = None
    jump: str | None = None
    follow_config_jump: bool = True


def find_route(name: str, inventory: Inventory) -> Route:
    """The logins that lead to node ``name``. Raises NodeUnreachable if the configuration cannot be used."""
    config = _config_file(name, inventory)
    try:
        return tuple(_resolve(name, inventory, config, _build_wanted_route(name, inventory), frozenset()))
    except ConfigRefused as exc:
        text = f"the SSH configuration cannot be used: {clean(exc.locate(config), 700)}"
        raise NodeUnreachable(name, text, operation="connect") from exc
    except OSError as exc:
        text = f"the SSH configuration {exc.filename or config} cannot be read: {exc.strerror}"
        raise NodeUnreachable(name, text, operation="connect") from exc
    except UnicodeDecodeError as exc:
        raise NodeUnreachable(name, f"the SSH configuration {config} is not text", operation="connect") from exc


def shell_argv(name: str, inventory: Inventory) -> list[str]:
    """The command line of OpenSSH's client for a shell on node ``name``, over the same route and as strict."""
    return [*CLIENT, *_client_options(inventory, find_route(name, inventory))]


def accept_command(name: str, inventory: Inventory, hop: JumpHost) -> str:
    """The command that an operator runs once to inspect and accept the key of ``hop``, on the route to ``name``."""
    route = find_route(name, inventory)
    upto = route[: route.index(hop) + 1] if hop in route else (hop,)
    options = _client_options(inventory, upto, strict=False)
    return shlex.join([*CLIENT, *options])


def _client_options(inventory: Inventory, route: Route, *, strict: bool = True) -> list[str]:
    hop = route[-1]
    usual = has_openssh_home() and hop.config == str(Path(DEFAULT_SSH_CONFIG).expanduser())
    options = ["-F", hop.config] if hop.config and not usual else []
    if strict:
        options += [word for setting in KNOWN_KEYS_ALONE for word in ("-o", setting)]
    if inventory.defaults.known_hosts is not None:
        options += ["-o", f'UserKnownHostsFile="{hop.known_hosts[0]}"']
    if hop.key:
        options += ["-i", hop.key]
    if hop.given_port:
        options += ["-p", str(hop.given_port)]
    if hop.given_user:
        options += ["-l", hop.given_user]
    if len(route) > 1:
        # Neither -J nor ssh_config's ProxyJump, which would use neither the jump's own key nor this strictness.
        jump = [word.replace("%", "%%") for word in _client_options(inventory, route[:-1], strict=strict)]
        options += ["-o", f"ProxyCommand={shlex.join([*CLIENT, '-W'])} '[%h]:%p' {shlex.join(jump)}"]
    return [*options, "--", hop.alias]


def _build_wanted_route(name: str, inventory: Inventory) -> _WantedRoute:
    node = inventory.nodes[name]
    return _WantedRoute(node.address, node.user, node.port, node.key, node.jump)


def _config_file(name: str, inventory: Inventory) -> str | None:
    """ssh_config's path, or None if it is the usual one and absent, which is not an error."""
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
        # Only the first of several jumps is reached by its own configuration; the others are reached from the one
        # before.
        hops = _resolve(name, inventory, config, via, seen | {wanted})
        before.extend(hops)
    return [*before, hop]


def _jump(name: str, text: str, inventory: Inventory, *, first: bool) -> _WantedRoute:
    if text in inventory.nodes:
        node = _build_wanted_route(text, inventory)
        return node if first else _WantedRoute(node.alias, node.user, node.port, node.key, None, False)
    user, at, host = text.removeprefix("ssh://").rstrip("/").rpartition("@")
    port: str | None = None
    if host.startswith("["):
        host, _, rest = host[1:].partition("]")
        port = rest.removeprefix(":") or None
    elif host.count(":") == 1:
        host, _, port = host.partition(":")
    if not host or host.startswith("-") or (port is not None and not (port.isdecimal() and 0 < int(port) < 65536)):
        problem = f"{clean(text)!r} is not a jump host; allowed: [user@]host[:port]"
        raise NodeUnreachable(name, problem, operation="connect")
    return _WantedRoute(host, user if at else None, int(port) if port else None, follow_config_jump=first)


def _resolve_one(wanted: _WantedRoute, path: str | None, known_hosts: str | None) -> tuple[JumpHost, str | None]:
    usual = path is None or path == str(Path(DEFAULT_SSH_CONFIG).expanduser())
    settings = read_settings(wanted.alias, wanted.user, wanted.port, None if usual else path)
    values = tokens(wanted.alias, settings)
    # ssh -G leaves the tokens of these keywords unexpanded.
    paths = {
        keyword: tuple(expand_path(keyword, file, values) for file in settings[keyword] if file.lower() != "none")
        for keyword in ("identityfile", "certificatefile", "revokedhostkeys")
        if keyword in settings
    }
    remote = {token: values[token] for token in "%hknpr"}
    jump, command = (
        expand(keyword, settings[keyword][0], remote, variables=False) if keyword in settings else None
        for keyword in ("proxyjump", "proxycommand")
    )
    key = str(Path(wanted.key).expanduser()) if wanted.key else None
    hop = JumpHost(
        alias=wanted.alias,
        host=settings["hostname"][0],
        port=int(settings["port"][0]),
        user=settings["user"][0],
        given_user=wanted.user,
        given_port=wanted.port,
        config=path,
        known_hosts=_known_hosts_files(settings, known_hosts),
        host_key_alias=settings["hostkeyalias"][0] if "hostkeyalias" in settings else None,
        key=key,
        identities=(key,) if key else paths.get("identityfile"),
        certificates=() if key else paths.get("certificatefile", ()),
        identities_only=bool(key) or settings.get("identitiesonly") == ("yes",),
        agent=_agent(settings.get("identityagent", ("SSH_AUTH_SOCK",))[0]),
        proxy_command=command if command and command.lower() != "none" else None,
        revoked_keys=paths.get("revokedhostkeys", ()),
        settings=tuple((keyword, settings[keyword][0]) for keyword in SETTINGS if keyword in settings),
    )
    return hop, jump


def _agent(value: str) -> str | None:
    if value.lower() == "none":
        return None
    if value == "SSH_AUTH_SOCK" or value.startswith("$"):
        return os.environ.get(value.lstrip("$").strip("{}")) or None
    return expand_home("identityagent", value)


def _known_hosts_files(settings: Settings, given: str | None) -> tuple[str, ...]:
    if given is not None:
        return (str(Path(given).expanduser()),)
    files: list[str] = []
    usual: Sequence[tuple[str, tuple[str, ...]]] = (
        ("userknownhostsfile", _USER_KNOWN_HOSTS),
        ("globalknownhostsfile", _GLOBAL_KNOWN_HOSTS),
    )
    for keyword, default in usual:
        files.extend(file for file in settings.get(keyword, default) if file != "none")
    return tuple(str(Path(file).expanduser()) for file in files)
