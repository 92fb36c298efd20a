"""A Xen guest held to a rate by the back end of its NIC: set in a store that answers as Xen's does, and put back."""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labconsole.agent.undo import no_namespace, run
from labconsole.network import xen_rate_limit
from labconsole.network.change import undo
from labconsole.network.xen_rate_limit import XenRateLimit, XenStore
from labconsole.wire.codec import WireError

BACK_END = "backend/vif/3/0"
HEADER = struct.Struct("=IIII")


class Store:
    """Xen's store as its protocol has it, behind a socket."""

    def __init__(self) -> None:
        self.keys = {f"{BACK_END}/frontend": "/local/domain/3/device/vif/0"}
        self.refuses = ""
        self.silent = self.goes_at = ""

    def serve(self, end: socket.socket) -> None:
        with end:
            while len(header := end.recv(HEADER.size)) == HEADER.size:
                kind, number, transaction, length = HEADER.unpack(header)
                path, _, value = end.recv(length).partition(b"\0")
                if self.silent == "ended":
                    return
                if self.silent:
                    continue
                code, answer = self._answered(kind, path.decode(), value.decode())
                whole = HEADER.pack(code, number, transaction, len(answer)) + answer
                for place in range(0, len(whole), 5):  # a reader may get less than it asks for
                    end.send(whole[place : place + 5])

    def _answered(self, kind: int, path: str, value: str) -> tuple[int, bytes]:
        if self.refuses:
            return 16, self.refuses.encode() + b"\0"
        if kind == 11:
            if path == self.goes_at:
                self.keys.clear()
            self.keys[path] = value
            return kind, b"OK\0"
        if path not in self.keys and not (kind == 13 and any(key.startswith(f"{path}/") for key in self.keys)):
            return 16, b"ENOENT\0"
        if kind == 13:
            for key in [key for key in self.keys if f"{key}/".startswith(f"{path}/")]:
                del self.keys[key]
            return kind, b"OK\0"
        return kind, self.keys[path].encode()


class Node:
    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def promise(self, kind: str, **entry: Any) -> None:
        self.entries.append({"kind": kind, **entry})


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    found, threads = Store(), []
    opened = os.open

    def fake(path: Any, *arguments: Any, **named: Any) -> int:
        if path != xen_rate_limit.DEVICE:
            return opened(path, *arguments, **named)
        here, there = socket.socketpair()
        threads.append(threading.Thread(target=found.serve, args=(there,)))
        threads[-1].start()
        return here.detach()

    monkeypatch.setattr(os, "open", fake)
    yield found
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


@pytest.fixture
def nic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the kernel says which back end vif3.0 is of."""
    file = tmp_path / "vif3.0"
    file.write_text(BACK_END + "\n")
    monkeypatch.setattr(xen_rate_limit, "_NODE", f"{tmp_path}/%s")
    return file


def limited(node: Node | None = None) -> Node:
    node = node or Node()
    XenRateLimit(interface="vif3.0", rate_bps=30_000_000).apply(node)  # type: ignore[arg-type]
    return node


def test_a_rate_is_so_many_bytes_in_each_interval_and_gone_when_undone(store: Store, nic: Path) -> None:
    node = limited()
    assert store.keys[f"{BACK_END}/rate"] == "187500,50000"
    undo(node.entries[0])
    assert store.keys == {f"{BACK_END}/frontend": "/local/domain/3/device/vif/0"}


def test_a_rate_that_the_guests_file_had_is_put_back(store: Store, nic: Path) -> None:
    store.keys[f"{BACK_END}/rate"] = "62500,50000"
    node = limited()
    assert store.keys[f"{BACK_END}/rate"] == "187500,50000"
    undo(node.entries[0])
    assert store.keys[f"{BACK_END}/rate"] == "62500,50000"


def test_nothing_is_left_in_the_store_for_a_guest_that_has_gone(store: Store, nic: Path) -> None:
    store.keys[f"{BACK_END}/rate"] = "62500,50000"
    node = limited()
    store.keys.clear()
    undo(node.entries[0])
    assert store.keys == {}


def test_a_key_made_anew_for_a_guest_that_goes_while_it_is_put_back_is_removed(store: Store, nic: Path) -> None:
    store.keys[f"{BACK_END}/rate"] = "62500,50000"
    node = limited()
    store.goes_at = f"{BACK_END}/rate"
    undo(node.entries[0])
    assert store.keys == {}


@pytest.mark.parametrize(("queues", "refused"), [("1", False), ("2", True), ("x\x1b[2J", True)])
def test_a_nic_of_several_queues_is_refused_before_anything_is_changed(
    store: Store, nic: Path, queues: str, refused: bool
) -> None:
    store.keys["/local/domain/3/device/vif/0/multi-queue-num-queues"] = queues
    node = Node()
    if not refused:
        limited(node)
        return
    with pytest.raises(WireError, match="NIC of .+ queues, each of which would get all of the rate"):
        limited(node)
    assert node.entries == [] and f"{BACK_END}/rate" not in store.keys


def test_it_is_undone_by_what_stands_in_the_journal_also_twice(store: Store, nic: Path) -> None:
    entry = json.loads(json.dumps(limited().entries[0]))
    for _ in range(2):
        run(entry, no_namespace)
        assert f"{BACK_END}/rate" not in store.keys


@pytest.mark.parametrize("said", ["", "backend/vbd/3/0", "backend/vif/3/0/../../../1", "/backend/vif/3/0"])
def test_an_interface_of_no_xen_guest_is_refused_before_anything_is_changed(store: Store, nic: Path, said: str) -> None:
    nic.write_text(said)
    node = Node()
    with pytest.raises(WireError, match="is not that of a Xen guest"):
        limited(node)
    nic.unlink()
    with pytest.raises(WireError, match="is not that of a Xen guest"):
        limited(node)
    assert node.entries == [] and list(store.keys) == [f"{BACK_END}/frontend"]


def test_what_the_store_refuses_or_does_not_answer_is_told(
    store: Store, nic: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.refuses = "EACCES\x1b[2J"
    with pytest.raises(WireError, match=r"would not read backend/vif/3/0/frontend: EACCES$"):
        limited()
    store.silent = "ended"
    with pytest.raises(WireError, match="did not answer on backend/vif/3/0/frontend: it ended"):
        limited()
    monkeypatch.setattr(xen_rate_limit, "ANSWER_S", 0.05)
    store.silent = "waits"
    with pytest.raises(WireError, match="did not answer on backend/vif/3/0/frontend: nothing within 0.05 s"):
        limited()


def test_a_node_without_xen_says_so(nic: Path) -> None:
    with pytest.raises(WireError, match="no Xen store") as caught, XenStore():
        pass
    assert caught.value.code == "not_supported"


def test_a_dry_run_tells_what_an_operator_would_type() -> None:
    lines = XenRateLimit(interface="vif3.0", rate_bps=30_000_000).commands()
    assert lines == ['xenstore-write "$(cat /sys/class/net/vif3.0/device/nodename)/rate" 187500,50000']
