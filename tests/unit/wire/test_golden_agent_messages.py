"""Messages of real sessions are accepted and kept as they were. tests/golden/agent-messages/README.md says what they are."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from labconsole.network.change import load_all
from labconsole.wire.codec import WireError, decode, encode
from labconsole.wire.stream_spec import StreamSpec
from support import requests
from support.kept_messages import kept_event, kept_hello, kept_reply

MESSAGES = Path(__file__).parents[2] / "golden" / "agent-messages" / "messages.jsonl.gz"
LINES = [json.loads(line) for line in gzip.decompress(MESSAGES.read_bytes()).splitlines()]
KINDS = sorted({(line["kind"], line["op"]) for line in LINES})
REQUESTS = [line for line in LINES if line["kind"] == "request"]


def kept(kind: str, op: str, message: dict[str, Any]) -> dict[str, Any]:
    """What the console keeps of a message that came in. Raises WireError."""
    message = decode(encode(message))
    ways: dict[str, Callable[[dict[str, Any]], dict[str, Any] | None]] = {
        "hello": kept_hello,
        "event": kept_event,
        "reply": partial(kept_reply, op),
    }
    found = ways[kind](message)
    assert found is not None
    return found


def canonical(message: dict[str, Any]) -> str:
    """As text, which tells 1 from 1.0 and from true."""
    return json.dumps(message, sort_keys=True)


@pytest.mark.parametrize(("kind", "op"), [each for each in KINDS if each[0] != "request"])
def test_what_agents_said_is_accepted_and_kept_as_it_was(kind, op):
    for line in LINES:
        if (line["kind"], line["op"]) == (kind, op):
            assert canonical(kept(kind, op, line["message"])) == canonical(line.get("kept", line["message"]))


def test_every_request_has_an_answer_in_the_set():
    answers = {line["op"] for line in LINES if line["kind"] == "reply"}
    assert {line["op"] for line in REQUESTS} == answers
    assert {line["op"] for line in REQUESTS if line["answer"] == "ok"} == answers - {"no.such"}


def test_requests_go_over_the_wire_unchanged():
    for line in REQUESTS:
        assert canonical(decode(encode(line["message"]))) == canonical(line["message"])


def test_requests_are_taken_as_they_were_sent():
    load_all()
    for line in REQUESTS:
        if line["answer"] == "ok":
            args = line["message"].get("args", {})
            assert canonical(requests.REQUESTS[line["op"]].parse(args).to_wire()) == canonical(args)


def test_an_agent_takes_and_refuses_the_same_streams():
    asked = [line for line in REQUESTS if line["op"] == "generator.prepare"]
    assert {line["answer"] for line in asked} == {"ok", "bad_request"}
    for line in asked:
        if line["answer"] == "ok":
            for stream in line["message"]["args"]["streams"]:
                StreamSpec.parse(stream)
        else:
            with pytest.raises(WireError):
                [StreamSpec.parse(stream) for stream in line["message"]["args"]["streams"]]
