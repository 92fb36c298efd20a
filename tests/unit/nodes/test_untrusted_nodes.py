"""What comes from a node or goes to its agent, byte by byte: refused in words, bounded, and no word of it unquoted.

The checks of replies and events have property tests of their own (unit/wire).
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import shlex
import socket
import subprocess
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from labconsole.agent import capture
from labconsole.agent.operations.program_execution import Executor
from labconsole.agent.pipes import Inlet
from labconsole.agent.reading import counters, facts, proc_files
from labconsole.agent.reading.survey import redact_secrets
from labconsole.errors import LabSetupError, NodeError
from labconsole.lab import control
from labconsole.model.inventory import Inventory
from labconsole.nodes import archive as package
from labconsole.nodes.archive import launch_command
from labconsole.nodes.channel import MAX_JUNK_BYTES, MAX_STDERR_NOTES, AgentSession, decode_line, read_event
from labconsole.nodes.link import explain, lacks_library, version_command
from labconsole.nodes.ssh_route import CLIENT, accept_command, find_route, shell_argv
from labconsole.wire import codec, stream_spec
from labconsole.wire.capture import StartCapture
from labconsole.wire.codec import MAX_LINE_BYTES, MAX_PARTS, WireError
from labconsole.wire.execution import Execute
from support.agent_events import LINK
from support.fuzzing import HOSTILE, JSON, TEXT, mutated_bytes, tries
from support.untrusted_agents import HELLO, listen_to_agent
from support.untrusted_samples import PARSERS, PROGRAM_OUTPUTS

# --- lines


@tries(300)
@given(st.one_of(st.binary(max_size=200), JSON.map(lambda value: json.dumps(value).encode())))
def test_any_line_is_an_object_or_refused(line: bytes) -> None:
    try:
        assert isinstance(codec.decode(line), dict)
    except WireError as error:
        assert error.code == "bad_line" and len(error.message) < 500


def read(by: Callable[[bytes], dict[str, Any]], line: bytes) -> dict[str, Any] | str:
    try:
        return by(line)
    except WireError as error:
        return error.message


@tries(300)
@given(st.one_of(st.binary(max_size=200), JSON.map(lambda value: json.dumps({"a": value}).encode())))
@example(b'{"a":"\\udcff"}')
@example(b'{"a":1e999}')
@example(b'{"a":' + b"9" * 5000 + b"}")
@example(b'{"a":1,"a":2}')
@example(b'{"a":NaN}')
def test_a_short_line_is_read_as_any_line_is(line: bytes) -> None:
    assert read(decode_line, line) == read(codec.decode, line)


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"a":NaN}',
        b'{"a":-Infinity}',
        b'{"a":' + b"9" * 5000 + b"}",
        b'{"a":"\xff"}',
        b"{" + b" " * MAX_LINE_BYTES + b"}",
        b'{"a":[' + b"[]," * (MAX_PARTS // 2) + b"[]]}",
        b"\xef\xbb\xbf{}",
        b"",
        b"\0",
    ],
    ids=range(11),
)
def test_a_line_that_would_cost_too_much_or_is_no_json_is_refused(line: bytes) -> None:
    with pytest.raises(WireError):
        codec.decode(line)


def test_an_output_of_nothing_but_commas_still_comes_through() -> None:
    message = {
        "id": 1,
        "ok": {"exit_status": 0, "stdout": "," * (1 << 20), "stderr": "," * (1 << 20), "truncated": False},
    }
    assert codec.decode(codec.encode(message)) == message


SPEC = {
    "stream": "s",
    "interface": "eth1",
    "generator": "auto",
    "destination_mac": "02:00:00:00:00:01",
    "source_mac": None,
    "source_ip": "198.18.0.1",
    "sink_ip": "198.19.0.1",
    "udp_source_port": 9,
    "udp_sink_port": 9,
    "pkt_size_bytes": 60,
    "delay_ns": 1,
    "count": 1,
    "duration_s": 1.0,
    "max_count": 1,
    "cpus": [0],
}


@tries(400)
@given(JSON, st.sampled_from(sorted(SPEC)))
def test_any_stream_is_taken_or_refused(value: Any, key: str) -> None:
    try:
        spec = stream_spec.StreamSpec.parse({**SPEC, key: value})
    except WireError as error:
        assert error.code == "bad_message"
    else:
        assert spec.planned_packets()[0] >= 1
        assert not set(spec.interface) & set("/@ \t\r\n\0")


@tries(200)
@given(JSON, st.sampled_from(["interface", "filter", "buffer_kib", "immediate"]))
@example("-V", "interface")
@example("-V", "filter")
def test_no_argument_of_a_capture_becomes_an_option_of_tcpdump(value: Any, key: str) -> None:
    args = {"capture": "c", "interface": "eth1", "filter": "udp", "snap_bytes": 96, "buffer_kib": 64, key: value}
    try:
        argv = capture.tcpdump_argv("tcpdump", StartCapture.parse(args))
    except WireError as error:
        assert error.code in ("bad_request", "bad_message")
    else:
        assert argv[3] == args["interface"] and not argv[3].startswith("-")
        assert not args["filter"].startswith("-") and args["filter"].isprintable()


@pytest.mark.parametrize("argv", [[], [1], ["a\0b"], ["\ud800"], [None], [["x"]]])
def test_what_cannot_be_a_command_is_refused(argv: list[Any]) -> None:
    with pytest.raises(WireError, match="argv"):
        asyncio.run(Executor(lambda name: ()).run(Execute.parse({"argv": argv, "timeout_s": 1})))


# --- the two ends of the line


@tries(150)
@given(
    st.lists(
        st.one_of(st.binary(max_size=60), st.sampled_from([HELLO + b"\n", b"\n", b'{"event":"hello"', b"{}\n"])),
        max_size=12,
    )
)
def test_whatever_an_agent_sends_its_session_ends_in_words_or_goes_on(chunks: list[bytes]) -> None:
    listen_to_agent(chunks)


@pytest.mark.parametrize(
    ("chunk", "why"),
    [
        (b"x" * 4000 + b"\n", "the login shell prints too much before the agent starts"),
        (b"x" * 4000, f"a line is longer than {MAX_JUNK_BYTES} bytes"),
        (b"\n", "the login shell prints too much before the agent starts"),
    ],
)
def test_greetings_are_bounded_however_they_are_cut(chunk: bytes, why: str) -> None:
    async def talk() -> str:
        session = AgentSession("n")
        for _ in range(1000):
            session.data_received(chunk, None)
            if session.ended.done():
                break
        assert len(session.junk) + len(session._line_begun) <= MAX_JUNK_BYTES + len(chunk)
        return await asyncio.wait_for(session.ended, 1)

    assert why in asyncio.run(talk())


def test_of_what_an_agent_prints_on_stderr_little_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The console's log keeps 5000 entries of all nodes together: one node must not push the others' out."""

    async def talk() -> None:
        session = AgentSession("n")
        for _ in range(10_000):
            session.data_received(b"x\n", 1)

    with caplog.at_level(logging.DEBUG, "labconsole.nodes"):
        asyncio.run(talk())
    assert len(caplog.records) == MAX_STDERR_NOTES


def test_what_comes_before_anybody_listens_is_bounded_in_bytes() -> None:
    async def talk() -> str:
        session = AgentSession("n")
        session.data_received(HELLO + b"\n", None)
        line = b'{"a":"' + b"x" * (1 << 20) + b'"}\n'
        for _ in range(40):
            session.data_received(line, None)
        assert session._early_bytes <= MAX_LINE_BYTES
        return session.ended.result()

    assert "too much data arrived" in asyncio.run(talk())


@tries(60)
@given(st.lists(st.binary(max_size=50), max_size=20))
def test_the_agent_takes_every_line_once_however_it_is_cut(pieces: list[bytes]) -> None:
    async def talk() -> list[bytes]:
        taken: list[bytes] = []
        reading, writing = os.pipe()
        ended = asyncio.Event()
        inlet = Inlet(reading, taken.append, lambda: None, ended.set)
        for piece in pieces:
            os.write(writing, piece)
            inlet._readable() if piece else None
        os.close(writing)
        await asyncio.wait_for(ended.wait(), 10)
        os.close(reading)
        return taken

    complete = b"".join(pieces).split(b"\n")[:-1]
    assert asyncio.run(talk()) == [line for line in complete if line.strip()]


# --- words of programs and of /proc


@tries(600)
@given(data=st.data())
def test_any_words_of_a_program_are_understood_or_refused(data: st.DataObject) -> None:
    sample = data.draw(st.sampled_from([b"", *PROGRAM_OUTPUTS]))
    text = mutated_bytes(data, sample).decode("utf-8", "replace") + data.draw(TEXT)
    for parse in PARSERS:
        try:
            parse(text)
        except ValueError as error:
            assert len(str(error)) < 1000


@tries(300)
@given(st.lists(st.binary(max_size=200), max_size=3))
def test_any_answer_of_the_kernel_about_counters_is_read(parts: list[bytes]) -> None:
    assert isinstance(counters.parse_stats(parts), list)


def test_a_long_line_does_not_stall_a_parser() -> None:
    for text in (
        "9" * 200_000,
        "OK: " + "9" * 4000,
        "1 packets captured" * 5000,
        "Result: " * 30_000,
        "(" * 100_000,
        "-" * 100_000,
        "key-" * 30_000,
    ):
        for parse in PARSERS:
            try:
                parse(text)
            except ValueError:
                continue


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe\0", b"9" * 5000, b"\n" * 1000, b"garbage 1 2 x", b"-1", HOSTILE.encode("utf-8", "replace")],
)
def test_odd_files_of_the_kernel_leave_facts_unknown_and_do_no_more(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / "odd"
    odd.write_bytes(content)
    monkeypatch.setattr(facts, "read_text", lambda path: odd.read_bytes().decode("utf-8", "replace").strip() or None)
    found = asyncio.run(facts.read())
    codec.encode(found)
    assert found["memory_bytes"] is None and found["cpu_model"] is None
    settings_text = proc_files.read_text(str(odd))
    assert settings_text is None or isinstance(settings_text, str)
    assert proc_files.read_number(str(odd)) in (None, -1)


def test_secrets_on_other_peoples_command_lines_are_not_told() -> None:
    for command in (
        "qemu -object secret,id=s0,data=hunter2 -m 1",
        "x --password hunter2",
        "x --api-key=hunter2 y",
        "x PASSWD=hunter2",
        "x token:hunter2",
        "x -p hunter2 -n",
        "x -phunter2",
        "x --pw=hunter2",
        "x --auth hunter2",
        "x --password=a,hunter2",
        "x --password=a,b=hunter2",
        "x password= hunter2",
        "x -password -hunter2",
        "curl http://user:hunter2@sink/a",
        "curl ftp://user:a@hunter2@sink",
        "x --pw hunter2 --auth=hunter2",
        "qemu -spice port=1,password=a,,hunter2,addr=x",
    ):
        shown = redact_secrets(command.split(" "))
        assert "hunter2" not in shown and "***" in shown, shown
    for words in (
        ["sh", "-c", "x password:  hunter2 y"],
        ["x", "--password", "two hunter2"],
        ["x", "--key=two hunter2"],
        ["curl", "-H", "Authorization: Bearer hunter2"],
        ["x", "-p", "two hunter2"],
    ):
        assert "hunter2" not in redact_secrets(words), words


@pytest.mark.parametrize(
    "command",
    [
        "tcpdump -i eth1 udp port 9",
        "tcpdump -pni eth1 tcp",
        "tcpdump -p -i eth1",
        "iperf3 -p 5201 -c sink",
        "nuttcp -p5101 sink",
        "qemu -pidfile /run/q.pid -name guest=a,debug-threads=on",
        "qemu -drive file=//a/b@c,if=none",
        "ssh://root@sink",
        "zeek -i eth1 local",
    ],
)
def test_a_command_line_without_a_secret_is_told_as_it_is(command: str) -> None:
    assert redact_secrets(command.split(" ")) == command


def test_a_long_command_line_is_cut_before_it_is_searched() -> None:
    assert len(redact_secrets(["key" * 20_000 + "!", *["key"] * 60_000])) <= 300
    begun_s = time.process_time()
    for _ in range(20):  # a survey reads up to 200 processes of other users
        redact_secrets(["-" + "pass" * 20_000])
    assert time.process_time() - begun_s < 1.5


@tries(100)
@given(st.binary(max_size=300), st.binary(max_size=300), st.sampled_from([None, 0, 1, 126, 127]))
def test_whatever_a_shell_complains_of_the_reason_is_one_printable_line(
    said: bytes, junk: bytes, status: int | None
) -> None:
    for become in (None, "sudo"):
        error = explain("n", user="u", python="python3", become=become, exit_status=status, stderr=said, junk=junk)
        assert isinstance(error, NodeError) and str(error).isprintable() and len(str(error)) < 1500


@pytest.mark.parametrize(
    ("said", "told"),
    [
        # Debian 12, libpython3.11-minimal 3.11.2-6+deb12u9, which is all of the library that python3-minimal brings.
        (
            b'Traceback (most recent call last):\n  File "<string>", line 1, in <module>\n'
            b"ModuleNotFoundError: No module named 'json'\n",
            "n: python3 there lacks json of the standard library: install Debian's python3 (python3-minimal is not enough)"
            " or set `python:` in hosts.yaml",
        ),
        # One of ours is a fault of ours, and no reason to install anything.
        (b"ModuleNotFoundError: No module named 'labconsole.wire.codec'\n", "None"),
    ],
)
def test_a_python_without_all_of_its_library_is_told(said: bytes, told: str) -> None:
    assert str(lacks_library("n", "python3", said)) == told


# --- a lab's control lines


@tries(200)
@given(st.one_of(st.binary(max_size=100), JSON.map(lambda value: json.dumps(value).encode())))
def test_whatever_a_lab_answers_it_is_an_answer_or_a_lab_error(line: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(line.replace(b"\n", b"") + b"\n")
        try:
            assert isinstance(control.ask(ours, "x", "status", wait_s=5), dict)
        except LabSetupError as error:
            assert "x" in str(error)


@tries(80)
@given(st.lists(JSON, max_size=6))
def test_whatever_a_machine_sends_its_peer_ends_or_goes_on(messages: list[Any]) -> None:
    async def handler(message: dict[str, Any]) -> dict[str, Any]:
        return {"timeout": float(message["timeout_s"])}

    async def talk() -> None:
        ours, theirs = socket.socketpair()
        peer = await control.open_peer(ours, handler)
        theirs.sendall(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
        theirs.shutdown(socket.SHUT_WR)
        await asyncio.wait_for(peer.serve(), 10)
        await asyncio.gather(*peer._tasks)
        theirs.close()

    asyncio.run(talk())


# --- words for a shell


def as_a_shell_reads(command: str) -> list[str]:
    """The words into which a POSIX shell cuts the command line."""
    done = subprocess.run(
        ["/bin/sh", "-c", f"set -- {command}\nprintf '%s\\0' \"$@\""], capture_output=True, check=True, cwd="/"
    )
    return done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]


SHELL_WORDS = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12),
    st.sampled_from(
        ["$(id)", "`id`", "a b", "'", '"', "a;b", "a&&b", "*", "~", "\\", "a\nb", "-x", "$HOME", "%h", "!x", "#"]
    ),
)


@tries(60)
@given(SHELL_WORDS, st.sampled_from([None, "sudo"]))
def test_a_shell_reads_the_command_of_an_agent_as_the_words_that_were_meant(python: str, become: str | None) -> None:
    before = ["sudo", "-n", "--"] if become else []
    words = as_a_shell_reads(version_command(python, become))
    assert words[: len(before) + 1] == [*before, python] and words[len(before) + 1] == "-c"
    words = as_a_shell_reads(launch_command(python, become))
    assert words[: len(before) + 1] == [*before, python] and words[len(before) + 1 : len(before) + 4] == [
        "-I",
        "-S",
        "-c",
    ]


def inventory(directory: Path, **node: Any) -> Inventory:
    (directory / "config").write_text("Host *\n  User someone\n")
    ends = {"snk": {"address": "127.0.0.1", "roles": ["sink"]}, "uut": {"address": "127.0.0.1", "roles": ["uut"]}}
    return Inventory.model_validate(
        {
            "testbed": "t",
            "nodes": {"src": {"address": "127.0.0.1", "roles": ["source"], **node}, **ends},
            "streams": [
                {
                    "name": "s",
                    "source": "src/eth1",
                    "uut_in": "a",
                    "uut_out": "b",
                    "sink": "snk/eth1",
                    "source_ip": "198.18.0.1",
                    "sink_ip": "198.19.0.1",
                }
            ],
            "platforms": {"raw": {"driver": "raw"}},
            "defaults": {"ssh_config": str(directory / "config"), "known_hosts": str(directory / "known hosts $(x)")},
        }
    )


@pytest.mark.parametrize("key", ["/k/a b", "/k/$(touch x)", "/k/'q'", '/k/"q"', "/k/%h", "/k/a;b"])
def test_ssh_gets_each_word_whole_through_the_shell_of_its_proxy_command(key: str, tmp_path: Path) -> None:
    testbed = inventory(tmp_path, key=key, jump="me@jump.lab:2222", user="you")
    argv = shell_argv("src", testbed)
    assert argv[-2:] == ["--", "127.0.0.1"] and key in argv
    [proxy] = [word for word in argv if word.startswith("ProxyCommand=")]
    inner = as_a_shell_reads(
        proxy.removeprefix("ProxyCommand=")
        .replace("%%", "\1")
        .replace("%h", "h")
        .replace("%p", "22")
        .replace("\1", "%")
    )
    assert inner[: len(CLIENT) + 2] == [*CLIENT, "-W", "[h]:22"] and inner[-2:] == ["--", "jump.lab"]
    assert shlex.split(shlex.join(argv)) == argv
    accept = as_a_shell_reads(accept_command("src", testbed, find_route("src", testbed)[-1]))
    assert key in accept and accept[-2:] == ["--", "127.0.0.1"]


# --- what is sent to the nodes


def test_an_archive_that_somebody_else_may_have_written_is_built_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "types.py").write_text("raise SystemExit('imported from the working directory')")
    good = package.build_agent()
    [cached] = (tmp_path / "labconsole").glob("agent-*.pyz")
    evil = io.BytesIO()
    with zipfile.ZipFile(evil, "w") as archive:
        archive.writestr("__main__.py", "evil")
    for place, mode in ((cached, 0o666), (cached.parent, 0o777)):
        cached.write_bytes(evil.getvalue())
        cached.chmod(0o600)
        place.chmod(mode)
        assert package.build_agent() == good
        place.chmod(0o700)


@pytest.mark.parametrize(
    "mac", ["x init=/bin/sh", "02:00:00:00:00:01 lc.stream=x", "02:00:00:00:00:01\n", "-", 5, "02-00", HOSTILE]
)
def test_a_mac_address_that_is_none_never_reaches_another_node(mac: Any) -> None:
    message = {"event": "links", "links": [{**LINK, "mac": mac}]}
    with pytest.raises(WireError, match="hardware address"):
        read_event(message)


@pytest.mark.parametrize(
    "mac", [None, "", "02:00:00:00:00:01", "AA:BB:cc:dd:ee:ff", ":".join(["00"] * 20), "c0:a8:00:01"]
)
def test_the_addresses_of_all_kinds_of_links_are_taken(mac: str | None) -> None:
    assert read_event({"event": "links", "links": [{**LINK, "mac": mac}]}) is not None
