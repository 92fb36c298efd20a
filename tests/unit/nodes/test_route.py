"""The way to a node, from hosts.yaml and ssh_config."""

from __future__ import annotations

import os
import pwd
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from labconsole.errors import NodeUnreachable
from labconsole.model.inventory import Inventory
from labconsole.nodes.ssh_route import find_route, shell_argv
from support.requirements import require

ME = pwd.getpwuid(os.getuid()).pw_name
"""OpenSSH's default user: the password database's, whatever $LOGNAME says."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    return tmp_path


def inventory(nodes: dict[str, dict[str, Any]], **defaults: Any) -> Inventory:
    ends = {"source": "a/e1", "uut_in": "e1", "uut_out": "e2", "sink": "b/e1"}
    return Inventory.model_validate(
        {
            "testbed": "t",
            "nodes": {name: {"roles": ["uut"], **node} for name, node in nodes.items()},
            "streams": [{"name": "s1", **ends, "source_ip": "198.18.0.1", "sink_ip": "198.19.0.1"}],
            "platforms": {"raw": {"driver": "raw"}},
            "defaults": defaults,
        }
    )


def logins(nodes: dict[str, dict[str, Any]]) -> list[str]:
    return [f"{hop.user}@{hop}" for hop in find_route("uut", inventory(nodes))]


def client_settings(home: Path, argv: list[str]) -> set[str]:
    """What OpenSSH's client makes of a command line, with this home's ssh_config."""
    argv = ["ssh", "-F", str(home / ".ssh" / "config"), "-G", *argv[1:]]
    return set(subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines())


def test_without_any_configuration_openssh_defaults_hold(home: Path) -> None:
    (hop,) = find_route("uut", inventory({"uut": {"address": "h"}}))
    assert (hop.user, str(hop), hop.config, hop.identities) == (ME, "h:22", None, None)
    assert hop.known_hosts[0] == str(home / ".ssh/known_hosts")
    assert "/etc/ssh/ssh_known_hosts" in hop.known_hosts


def test_hosts_yaml_wins_over_ssh_config(home: Path) -> None:
    config = home / ".ssh" / "config"
    config.write_text("Host h\n HostName h.lab\n User you\n Port 2200\n IdentityFile ~/.ssh/id_lab\n")
    assert logins({"uut": {"address": "h"}}) == ["you@h.lab:2200"]
    assert logins({"uut": {"address": "h", "user": "root", "port": 22}}) == ["root@h.lab:22"]
    (hop,) = find_route("uut", inventory({"uut": {"address": "h", "key": "~/k"}}))
    assert hop.identities == (str(home / "k"),) and hop.identities_only
    assert logins({"uut": {"address": "fe80::1", "user": "u"}}) == ["u@[fe80::1]:22"]


def test_jumps_come_from_the_inventory_or_ssh_config_and_may_be_chained(home: Path) -> None:
    config = home / ".ssh" / "config"
    config.write_text("Host t\n ProxyJump b:1,x@c\nHost b\n ProxyJump a\nHost c\n ProxyJump never\n")
    assert logins({"uut": {"address": "t"}}) == [f"{ME}@a:22", f"{ME}@b:1", "x@c:22", f"{ME}@t:22"]
    assert logins({"uut": {"address": "t", "jump": "none."}}) == [f"{ME}@none.:22", f"{ME}@t:22"]
    nodes: dict[str, dict[str, Any]] = {
        "uut": {"address": "t", "jump": "gw"},
        "gw": {"address": "g", "port": 5, "jump": "u@[fe80::2]:7"},
    }
    assert logins(nodes) == ["u@[fe80::2]:7", f"{ME}@g:5", f"{ME}@t:22"]


def test_a_jump_that_is_none_is_told(home: Path) -> None:
    for jump in ("@", "u@h:x", "u@h:0", "u@-oProxyCommand=x"):
        with pytest.raises(NodeUnreachable, match="is not a jump host"):
            find_route("uut", inventory({"uut": {"address": "t", "jump": jump}}))


def test_the_final_match_of_ssh_config_sees_the_real_host_name(home: Path) -> None:
    (home / ".ssh" / "config").write_text("Host t\n HostName t.lab\nMatch final host t.lab\n User last\n")
    assert logins({"uut": {"address": "t"}}) == ["last@t.lab:22"]


def test_a_shell_is_as_strict_and_goes_the_same_way(home: Path) -> None:
    config = home / "lab_config"
    config.write_text("")
    nodes: dict[str, dict[str, Any]] = {
        "uut": {"address": "h", "user": "u", "port": 5, "key": "/k 1", "jump": "gw"},
        "gw": {"address": "g"},
    }
    argv = shell_argv("uut", inventory(nodes, ssh_config=str(config)))
    known_alone = ("StrictHostKeyChecking=yes", "UpdateHostKeys=no", "VerifyHostKeyDNS=no")
    strict = [word for each in (*known_alone, "NoHostAuthenticationForLocalhost=no") for word in ("-o", each)]
    client = ["ssh", "-a", "-x", "-k", "-o", "ClearAllForwardings=yes"]
    proxy = f"ProxyCommand={' '.join(client)} -W '[%h]:%p' -F {config} {' '.join(strict)} -- g"
    assert argv == [*client, "-F", str(config), *strict, "-i", "/k 1", "-p", "5", "-l", "u", "-o", proxy, "--", "h"]


def test_a_shell_lends_the_host_nothing_whatever_ssh_config_says(home: Path) -> None:
    """As the client itself reads the command line."""
    require("ssh")
    (home / ".ssh" / "config").write_text(
        "Host *\n ForwardAgent yes\n ForwardX11 yes\n ForwardX11Trusted yes\n GSSAPIDelegateCredentials yes\n"
        " RemoteForward 2222 localhost:22\n"
    )
    lent = {"forwardagent yes", "forwardx11 yes", "gssapidelegatecredentials yes", "clearallforwardings no"}
    assert lent <= client_settings(home, ["ssh", "h"])
    kept = client_settings(home, shell_argv("uut", inventory({"uut": {"address": "h"}})))
    assert not lent & kept and {"forwardagent no", "forwardx11 no", "clearallforwardings yes"} <= kept


def test_a_shell_trusts_known_keys_alone_and_adds_none_at_any_host_on_the_way(home: Path) -> None:
    """As the client itself reads the command line, and that of the client that it starts for ssh_config's jump host."""
    require("ssh")
    (home / ".ssh" / "config").write_text(
        "Host t\n ProxyJump gw\nHost *\n StrictHostKeyChecking accept-new\n UpdateHostKeys yes\n"
        " VerifyHostKeyDNS yes\n NoHostAuthenticationForLocalhost yes\n"
    )
    weak = {"stricthostkeychecking accept-new", "updatehostkeys true", "verifyhostkeydns true"}
    weak.add("nohostauthenticationforlocalhost yes")
    assert weak <= client_settings(home, ["ssh", "t"])
    argv = shell_argv("uut", inventory({"uut": {"address": "t"}}))
    (proxy,) = (word.partition("=")[2] for word in argv if word.startswith("ProxyCommand="))
    for each in (argv, [word for word in shlex.split(proxy) if word not in ("-W", "[%h]:%p")]):
        kept = client_settings(home, each)
        assert "stricthostkeychecking true" in kept and not weak & kept, each
    assert shlex.split(proxy)[-1] == "gw"
