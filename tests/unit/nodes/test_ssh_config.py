"""ssh_config as OpenSSH reads it. Expected values: `ssh -G` of OpenSSH 9.2p1, and ssh_config(5).

OpenSSH 10.5p1 gives the same values.
"""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labconsole.errors import NodeUnreachable
from labconsole.model.inventory import Inventory
from labconsole.nodes import ssh_config, ssh_connection
from labconsole.nodes.hostkeys import read_known_hosts
from labconsole.nodes.ssh_route import JumpHost, find_route
from support.fuzzing import tries
from support.requirements import require

OWN_HOME = pwd.getpwuid(os.getuid()).pw_dir
ME = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir(mode=0o700)
    return tmp_path


@pytest.fixture
def no_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


def lab_of(node: dict[str, Any], **defaults: Any) -> Inventory:
    ends = {"source": "a/e1", "uut_in": "e1", "uut_out": "e2", "sink": "b/e1"}
    return Inventory.model_validate(
        {
            "testbed": "t",
            "nodes": {"uut": {"roles": ["uut"], "address": "uut", **node}},
            "streams": [{"name": "s1", **ends, "source_ip": "198.18.0.1", "sink_ip": "198.19.0.1"}],
            "platforms": {"raw": {"driver": "raw"}},
            "defaults": defaults,
        }
    )


def find_hop(home: Path, config: str, **node: Any) -> JumpHost:
    (home / ".ssh/config").write_text(config)
    (home / ".ssh/config").chmod(0o600)
    return find_route("uut", lab_of(node))[-1]


def login(hop: JumpHost) -> str:
    return f"{hop.user}@{hop}"


def refusal(home: Path, config: str, **node: Any) -> str:
    with pytest.raises(NodeUnreachable) as caught:
        find_hop(home, config, **node)
    return str(caught.value)


# --- lines, blocks and files ---------------------------------------------------------------------------------------

LOGINS = {
    "comments after values": (
        "Host uut # a\n HostName 192.0.2.10 # b\n User root # c\n Port 2204 # d\n",
        "root@192.0.2.10:2204",
    ),
    "comment after Match": ("Match all # TOOL SETUP\n Port 2209\n", f"{ME}@uut:2209"),
    "# inside a word": ("User a#b\n", "a#b@uut:22"),
    "quoted #": ('User "a #b"\n', "a #b@uut:22"),
    "quoted host and value": ('Host "uut" x\n Port "5"\n', f"{ME}@uut:5"),
    "key=value": ("Port=5\nUser = you # c\n", "you@uut:5"),
    "tabs, carriage returns, upper case": ("  \tPORT\t5  \r\nuSER you\r\n", "you@uut:5"),
    "first of two": ("Port 1\nPort 2\n", f"{ME}@uut:1"),
    "first block wins": ("Host u*\n Port 1\nHost *\n Port 2\n User you\n", "you@uut:1"),
    "negated pattern": ("Host * !uut\n Port 5\n", f"{ME}@uut:22"),
    "a comma is no separator in Host": ("Host a,uut\n Port 5\n", f"{ME}@uut:22"),
    "brackets are no class": ("Host uu[t]\n Port 5\n", f"{ME}@uut:22"),
    "HostName with %h": ("HostName %h.Lab\n", f"{ME}@uut.lab:22"),
    "Match host sees HostName": ("HostName uut.lab\nMatch host uut.lab\n Port 5\n", f"{ME}@uut.lab:5"),
    "Match originalhost": ("HostName x\nMatch originalhost uut\n Port 5\n", f"{ME}@x:5"),
    "Match negated host": ("Match !host x\n Port 5\n", f"{ME}@uut:5"),
    "Match user and localuser": (f"Match user {ME} localuser {ME}\n Port 5\n", f"{ME}@uut:5"),
    "Match exec": ("Match exec true\n Port 5\nMatch exec false\n User you\n", f"{ME}@uut:5"),
    "Match exec with a token": ('Match exec "test %n = uut"\n Port 5\n', f"{ME}@uut:5"),
    "Match final": ("HostName x\nMatch final host x\n Port 5\n", f"{ME}@x:5"),
    "Match canonical is off": ("Match canonical all\n Port 5\n", f"{ME}@uut:22"),
    "IgnoreUnknown": ("IgnoreUnknown UseKey*\nUseKeychain yes\nPort 5\n", f"{ME}@uut:5"),
    "time units": ("ConnectTimeout 1m30s\nServerAliveInterval 2m\nPort 5\n", f"{ME}@uut:5"),
    "IPv6": ("HostName fe80::1%%eth0\n", f"{ME}@[fe80::1%eth0]:22"),
}


@pytest.mark.parametrize("config,expected", LOGINS.values(), ids=LOGINS)
def test_a_login_is_the_one_of_openssh(home: Path, config: str, expected: str) -> None:
    require("ssh")
    assert login(find_hop(home, config)) == expected


def test_values_of_the_inventory_are_seen_by_match_and_win(home: Path) -> None:
    require("ssh")
    config = "Match user you\n HostName y\n Port 5\n User me\n"
    assert login(find_hop(home, config, user="you")) == "you@y:5"
    assert login(find_hop(home, config, user="you", port=7)) == "you@y:7"


def test_includes_are_read_in_the_order_of_their_names_and_within_their_block(home: Path) -> None:
    require("ssh")
    parts = home / ".ssh/conf.d"
    parts.mkdir()
    for name, text in {"20.conf": "Port 20\nUser b", "10.conf": "Port 10 # first", "9.off": "User never"}.items():
        (parts / name).write_text(text + "\n")
    (home / "more").write_text("Include ~/.ssh/conf.d/20.conf\nHost *\n HostName more\n")
    assert login(find_hop(home, "Include conf.d/*.conf # all\n")) == "b@uut:10"
    assert login(find_hop(home, "Host x\n Include conf.d/*.conf\nHost *\n Port 5\n")) == f"{ME}@uut:5"
    # Blocks of an included file end with it.
    assert login(find_hop(home, 'Match host uut\n Include "~/more"\n Port 5\n User you\n')) == "b@more:20"
    # Newer versions expand variables and tokens here, older ones find no such file.
    assert login(find_hop(home, "Include ${HOME}/more\nUser b\n")).startswith("b@")
    assert login(find_hop(home, f"Include conf.d/none {home}/more\nHost x\n Include {home}/nothing\n")) == "b@more:20"


def test_a_missing_usual_file_and_the_systems_file_are_read(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    require("ssh")
    system = tmp_path / "system"
    system.write_text("Port 7\n")
    monkeypatch.setattr(ssh_config, "SYSTEM_CONFIG", str(system))
    assert login(find_route("uut", lab_of({}))[-1]) == f"{ME}@uut:7"
    assert login(find_hop(home, "User you\n")) == "you@uut:7"
    other = tmp_path / "other"
    other.write_text("User you\n")
    assert login(find_route("uut", lab_of({}, ssh_config=str(other)))[-1]) == "you@uut:22"


# --- tokens, paths and lists ---------------------------------------------------------------------------------------


def test_each_token_is_replaced_in_known_hosts_and_key_files(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """UserKnownHostsFile is expanded by ssh itself, IdentityFile here: both have to agree."""
    require("ssh")
    monkeypatch.setenv("LAB", "lab")
    path = "~/${LAB}%d/%u-%i-%L-%l-%n-%h-%k-%r-%p-%C-%%"
    config = f"HostName x.lab\nUser you\nPort 5\nHostKeyAlias other\nUserKnownHostsFile {path}\nIdentityFile {path}\n"
    hop = find_hop(home, config)
    local = socket.gethostname()
    names = f"{ME}-{os.getuid()}-{local.partition('.')[0]}-{local}-uut-x.lab-other-you-5-"
    assert hop.known_hosts[0].startswith(f"{home}/lab{home}/{names}") and hop.known_hosts[0].endswith("-%")
    assert hop.identities == hop.known_hosts[:1]


def test_lists_of_files(home: Path) -> None:
    require("ssh")
    hop = find_hop(
        home, 'IdentityFile ~/a\nHost *\n IdentityFile "~/b c"\nCertificateFile ~/%h-cert.pub\nIdentitiesOnly yes\n'
    )
    assert hop.identities == (f"{home}/a", f"{home}/b c") and hop.identities_only
    assert hop.certificates == (f"{home}/uut-cert.pub",)
    hop = find_hop(home, 'UserKnownHostsFile ~/k/%k "~/my hosts" /etc/x\nGlobalKnownHostsFile ~/g\nIdentityFile none\n')
    assert hop.known_hosts == (f"{home}/k/uut", f"{home}/my hosts", "/etc/x", f"{home}/g")
    assert hop.identities == ()
    assert find_hop(home, "UserKnownHostsFile none\nGlobalKnownHostsFile none\n").known_hosts == ()
    assert find_hop(home, "RevokedHostKeys ~/revoked\n").revoked_keys == (f"{home}/revoked",)


def test_agents(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("ssh")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/usual")
    monkeypatch.setenv("OTHER", "/other")
    found = {value: find_hop(home, f"IdentityAgent {value}\n").agent for value in ("none", "SSH_AUTH_SOCK", "$OTHER")}
    assert found == {"none": None, "SSH_AUTH_SOCK": "/usual", "$OTHER": "/other"}
    assert find_hop(home, "IdentityAgent ~/%n\n").agent == f"{home}/uut"
    assert find_hop(home, "").agent == "/usual"


def test_proxies(home: Path) -> None:
    require("ssh")
    assert find_hop(home, "Port 5\nProxyCommand nc -X 5 %h %p ${SHELLS}\n").proxy_command == "nc -X 5 uut 5 ${SHELLS}"
    assert find_hop(home, "ProxyCommand none\nProxyJump gw\n").proxy_command is None
    (home / ".ssh/config").write_text(
        "Host uut\n ProxyJump gw-%h,you@10.0.0.1:7\nHost gw-uut\n ProxyJump none\n User a\n"
    )
    assert [login(hop) for hop in find_route("uut", lab_of({}))] == ["a@gw-uut:22", "you@10.0.0.1:7", f"{ME}@uut:22"]
    assert len(find_route("uut", lab_of({"jump": "none"}))) == 1


def test_lists_of_algorithms_are_resolved_and_what_asyncssh_lacks_is_left_out(home: Path) -> None:
    require("ssh")
    hop = find_hop(home, "Ciphers ^aes256-ctr\nKexAlgorithms -diffie-*\nMACs hmac-sha2-256\nBindAddress 127.0.0.1\n")
    options = ssh_connection._configured("uut", hop)
    assert options["encryption_algs"][0] == "aes256-ctr" and "aes128-ctr" in options["encryption_algs"]  # type: ignore[index,operator]
    assert not any("diffie" in name for name in options["kex_algs"])  # type: ignore[attr-defined]
    assert options["mac_algs"] == ["hmac-sha2-256"] and options["local_addr"] == ("127.0.0.1", 0)
    assert ssh_connection._configured("uut", find_hop(home, "RekeyLimit 1G 1h\nGSSAPIAuthentication no\n")) == {
        "rekey_bytes": 1 << 30,
        "rekey_seconds": 3600,
    }
    assert ssh_connection._configured("uut", find_hop(home, "GSSAPIAuthentication no\n")) == {}


# --- what is refused ------------------------------------------------------------------------------------------------

REFUSED = {
    "Port lots\n": "config line 1: Bad port 'lots'; allowed: 1 to 65535",
    "\nConnectTimeout 1q\n": "config line 2: invalid time value; allowed: seconds, or numbers with the units",
    "Porty 1\n": "config: line 1: Bad configuration option: porty; allowed: the keywords in ssh_config(5)",
    "User a b\n": "config line 1: keyword user extra arguments at end of line; allowed: one value",
    'User "a\n': "config line 1: invalid quotes; allowed: quotes in pairs",
    "Host *\n UserKnownHostsFile ~/%Z\n": "config line 2: ",
    "IdentityFile ~/%Z\n": "config line 1: identityfile",
    "User x\nIdentityFile ~/${NO_SUCH_VARIABLE}\n": "config line 2: identityfile",
    "User x\nIdentityFile ~no-such-user/id\n": "config line 2: identityfile ~no-such-user/id: there is no such user",
    "UserKnownHostsFile relative\n": "userknownhostsfile relative: a relative path; allowed: paths that start with / or ~",
}


@pytest.mark.parametrize("config,expected", REFUSED.items())
def test_refusals_name_file_line_and_what_is_allowed(home: Path, config: str, expected: str) -> None:
    require("ssh")
    told = refusal(home, config)
    assert expected in told and "allowed" in told.replace("is not set", "allowed") and "labconsole-ssh-" not in told


def test_an_included_file_is_named(home: Path) -> None:
    require("ssh")
    (home / ".ssh/more").write_text("\nPort lots\n")
    assert f"{home}/.ssh/more line 2: Bad port 'lots'" in refusal(home, "Include more\n")


def test_an_address_is_never_an_option_and_a_command_that_hangs_is_ended(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("ssh")
    with pytest.raises(ssh_config.ConfigRefused, match="invalid characters"):
        ssh_config.read_settings("-oPort=5", None, None, None)
    monkeypatch.setattr(ssh_config, "LIMIT_S", 0.3)
    assert "took more than 0.3 s: a command of Match exec" in refusal(home, 'Match exec "sleep 60"\n Port 5\n')


def test_a_process_of_another_user_that_match_exec_leaves_is_no_obstacle(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux, kill(2): EPERM if no process of the group may be signalled, such as one that sudo left."""
    require("ssh")

    def killpg(group: int, number: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "killpg", killpg)
    assert find_hop(home, "Port 5\n").port == 5


@pytest.mark.parametrize("script,expected", [("exit 0", "printed no hostname"), ("echo no -G >&2; exit 1", "no -G")])
def test_a_client_that_is_not_openssh_is_refused(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, expected: str
) -> None:
    other = tmp_path / "bin/ssh"
    other.parent.mkdir()
    other.write_text(f"#!/bin/sh\n{script}\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{other.parent}:/bin")
    assert expected in refusal(home, "")


# --- the environment of the operator ---------------------------------------------------------------------------------


def test_lines_that_send_the_environment_a_display_or_an_agent_have_no_effect(home: Path) -> None:
    require("ssh")
    config = "SendEnv *\nSetEnv A=b\nForwardX11 yes\nForwardX11Trusted yes\nForwardAgent yes\nRemoteCommand x\n"
    assert find_hop(home, config) == find_hop(home, "")


# --- host keys ----------------------------------------------------------------------------------------------------------


def test_both_lookups_of_a_host_count_for_revoked_keys_and_bad_lines(home: Path) -> None:
    known = home / "known"
    trusted, lost = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    trusted_text, lost_text = (key.export_public_key().decode().strip() for key in (trusted, lost))
    known.write_text(f"nonsense\n@revoked [uut]:5 {lost_text}\nuut {trusted_text}\n[uut]:5 ssh-ed25519 AAAA\n")
    found = read_known_hosts(find_hop(home, f"Port 5\nUserKnownHostsFile {known}\nGlobalKnownHostsFile none\n"))
    assert found.trusted == ([trusted.convert_to_public()], [], [lost.convert_to_public()])
    assert found.lines == [(str(known), 3)]
    assert [line.partition(" cannot")[0] for line in found.bad_lines] == [f"{known} line 1", f"{known} line 4"]


# --- without ssh ------------------------------------------------------------------------------------------------------


def test_without_ssh_plain_lines_are_read(home: Path, no_ssh: None) -> None:
    config = "# lab\nHost u?t !x\n HostName %h.Lab\n Port 5\n User you\n"
    config += ' IdentityFile "~/a b"\n UserKnownHostsFile ~/known /etc/x\n ProxyJump none\n ControlMaster auto\n'
    hop = find_hop(home, config + "Host *\n Port 7\n")
    assert login(hop) == "you@uut.lab:5"
    assert (hop.identities, hop.known_hosts[:2]) == ((f"{home}/a b",), (f"{home}/known", "/etc/x"))
    assert login(find_hop(home, "")) == f"{ME}@uut:22"


@pytest.mark.parametrize(
    "line", ["Port 5 # comment", "Match all", "Include x", "Port=5", "Ciphers aes256-ctr", "User a%u", "User 'a'"]
)
def test_without_ssh_other_lines_are_refused(home: Path, no_ssh: None, line: str) -> None:
    told = refusal(home, f"Host *\n  {line}\n")
    assert (
        f"{home}/.ssh/config line 2: {line}: this line is read only where OpenSSH's ssh is installed; allowed" in told
    )


# --- both against ssh -G ----------------------------------------------------------------------------------------------

WORDS = st.sampled_from(["uut", "x", "u*", "!x", "*", '"uut"', "UUT", "uut # c"])
VALUES = {
    "HostName": ["x", "%h.lab", "192.0.2.1", '"Y"', "fe80::1", "z # c"],
    "Port": ["5", "=7", '"9"', "11 # c"],
    "User": ["you", "root # c", '"a b"', "= me"],
    "HostKeyAlias": ["other", "none", "O # c"],
    "UserKnownHostsFile": ["/k/%k", "/k/%n /l/%%", "none", "/k/%r-%p # c", "~/m"],
    "IdentityFile": ["/i/%h", '"/i/a b"', "/i/%u-%C # c"],
    "IdentitiesOnly": ["yes", "no", "yes # c"],
    "ProxyJump": ["gw", "you@gw:7", "a,b", "none"],
    "ConnectTimeout": ["5", "1m30s"],
}
LINES = st.one_of(
    *(st.sampled_from(values).map(f"  {keyword} {{}}".format) for keyword, values in VALUES.items()),
    st.lists(WORDS, min_size=1, max_size=2).map(lambda words: f"Host {' '.join(words)}"),
    st.sampled_from(
        ["Match all", "Match host x,uut", "Match !user you", "Match final all", "Match originalhost uut # c"]
    ),
)


@tries(40)
@given(st.lists(LINES, max_size=10))
def test_any_configuration_is_read_as_ssh_reads_it_or_refused(lines: list[str]) -> None:
    require("ssh")
    config = Path("/tmp") / f"labconsole-test-{os.getpid()}.config"
    config.write_text("\n".join(lines) + "\n")
    try:
        done = subprocess.run(
            ["ssh", "-G", "-F", str(config), "--", "uut"], capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        assert done.returncode == 0, done.stderr
        printed = dict(line.partition(" ")[::2] for line in done.stdout.splitlines())
        for home, path in ((OWN_HOME, None), ("/", None), ("/", "/nowhere")):
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("HOME", home)
                if path is not None:
                    patch.setenv("PATH", path)
                compare(config, printed, plain=path is not None)
    finally:
        config.unlink()


def compare(config: Path, printed: dict[str, str], *, plain: bool) -> None:
    try:
        settings = ssh_config.read_settings("uut", None, None, str(config))
    except ssh_config.ConfigRefused:
        assert plain, "only a reader without ssh refuses a valid file"
        return
    for keyword in ("hostname", "user", "port"):
        assert settings[keyword] == (printed[keyword],)
    for keyword in ("hostkeyalias", "identitiesonly"):
        assert settings.get(keyword, ("no",))[0] == printed.get(keyword, "no")
    jump = settings.get("proxyjump", ("none",))[0]
    assert jump.lower() == printed.get("proxyjump", "none")
    known = " ".join(settings.get("userknownhostsfile", ()))
    if known:
        assert known.replace(f"{Path.home()}".rstrip("/") + "/m", f"{OWN_HOME}/m") == printed["userknownhostsfile"]
