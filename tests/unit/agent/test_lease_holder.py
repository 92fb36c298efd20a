"""Who has a lease is what the kernel reports; what is asked for it is bounded and is the holder's own socket."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from labconsole.agent import lease as lock
from labconsole.agent import lease_takeover
from labconsole.wire.codec import WireError

HOLD = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(descriptor, fcntl.LOCK_SH if sys.argv[2] == "shared" else fcntl.LOCK_EX)
print(flush=True)
sys.stdin.read()
"""


@contextmanager
def locked(path: Path, kind: str) -> Iterator[int]:
    """Another process has a lock on the file, opened for reading only. Yields its number."""
    argv = [sys.executable, "-c", HOLD, str(path), kind]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        yield process.pid
        assert process.stdin is not None
        process.stdin.close()


@pytest.mark.parametrize("kind", ["exclusive", "shared"])
@pytest.mark.parametrize("words", [b"", b'{"owner": "ann@a", "pid": 1, "purpose": "a plan"}'])
def test_a_locked_lease_names_the_process_and_its_user_whatever_its_file_says(tmp_path: Path, kind: str, words: bytes):
    lease = tmp_path / "lease"
    lease.write_bytes(words)
    with locked(lease, kind) as pid, lease.open("r+b") as file:
        assert not lock.try_lock(file.fileno())
        holder = lock._read_holder(file.fileno())
        assert (
            lock.build_lease_held_error(holder).message
            == f"process {pid} ({Path(sys.executable).name[:15]}) of user {os.getuid()} has this node"
        )
        assert (lease_takeover.lock_owner(str(lease)) == pid) is (kind == "exclusive")


LEAVE = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(descriptor, fcntl.LOCK_EX)
if os.fork():
    os._exit(0)
print(flush=True)
sys.stdin.read()
"""


def test_a_lock_that_was_left_to_a_child_names_and_ends_no_process_that_has_its_number_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    lease = tmp_path / "lease"
    lease.touch()
    argv = [sys.executable, "-c", LEAVE, str(lease)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None and process.stdout.readline()
        gone = process.pid
        process.wait()
        lease.write_text(json.dumps({"owner": "ann@a", "pid": gone}))
        seen = lock.lock_holder(lease.stat())
        told = lock.find_holder(str(lease))
        assert seen == (gone, True), "as the kernel reports it"
        assert told == {"owner": f"a process that was started by process {gone}, which has ended,"}
        assert lease_takeover.lock_owner(str(lease)) is None
        # Another process has the number by now, and even this file open.
        with lease.open() as opened:
            monkeypatch.setattr(lock, "lock_holder", lambda status: lock.LockHolder(os.getpid(), True))
            monkeypatch.setattr(lease_takeover, "lock_holder", lock.lock_holder)
            holder = lock._read_holder(opened.fileno())
            assert str(holder["owner"]).startswith("a process that was started by")
            assert lease_takeover.lock_owner(str(lease)) is None
        process.stdin.close()


def test_few_directories_that_are_not_named_after_their_owner_are_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Any user may make as many as the disk holds, and each costs every session on this node a look."""
    for number in range(900_000, 900_000 + 2 * lock.MAX_MISNAMED):
        (tmp_path / f"labconsole-{number}").mkdir()
        (tmp_path / f"labconsole-{number}" / lock.file_name()).touch()
    own = tmp_path / f"labconsole-{os.getuid()}" / lock.file_name()
    own.parent.mkdir()
    own.touch()
    (tmp_path / "labconsole-1").symlink_to(own.parent)
    monkeypatch.setattr(lock, "PUBLIC", str(tmp_path))
    monkeypatch.setattr(lock, "find_lease_directories", list)
    found = lock.find_lease_paths()
    assert found[0] == str(own) and len(found) == 1 + lock.MAX_MISNAMED
    assert not any("labconsole-1/" in path for path in found), "a link leads wherever its owner likes"


def test_the_holder_s_own_words_count_when_they_name_the_process_that_has_the_lock(tmp_path: Path):
    lease = tmp_path / "lease"
    with locked(lease_with(lease, b""), "exclusive") as pid:
        lease.write_text(json.dumps({"owner": "ann@a", "pid": pid, "purpose": "a plan"}))
        holder = lock.find_holder(str(lease))
    assert holder == {"owner": "ann@a", "pid": pid, "purpose": "a plan"}
    assert lock.find_holder(str(lease)) is None


@pytest.mark.parametrize("link", ["of the directory", "of the file"])
def test_another_user_s_link_to_our_own_lease_is_no_other_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: str
):
    own, other = tmp_path / "own", tmp_path / f"labconsole-{os.getuid()}"
    monkeypatch.setattr(lock, "find_lease_directories", lambda: [str(own)])
    monkeypatch.setattr(lock, "PUBLIC", str(tmp_path))
    if link == "of the directory":
        other.symlink_to(own)
    else:
        own.mkdir()
        other.mkdir()
        (own / lock.file_name()).touch()
        (other / lock.file_name()).hardlink_to(own / lock.file_name())
    lease = lock.Lease(lambda path: lambda: None)
    lease.take("ann@a", "a plan")
    assert lease.held
    lease.release()


def lease_with(path: Path, words: bytes) -> Path:
    path.write_bytes(words)
    return path


def listener(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    made.listen()
    return made


def ask(path: Path, owner: int | None = None) -> bool:
    return asyncio.run(
        lease_takeover._ask(str(path), os.getuid() if owner is None else owner, b"{}", {"owner": "eve@e"})
    )


def test_a_holder_that_answers_with_words_is_no_agent_and_is_not_read_further(tmp_path: Path):
    """Two MiB are ready for the one who asks; a byte of them is enough to know."""
    with listener(tmp_path / "ask") as door:
        sent: list[int] = []

        async def both() -> bool:
            async def say() -> None:
                door.setblocking(False)
                caller, _ = await asyncio.get_running_loop().sock_accept(door)
                caller.setblocking(False)
                try:
                    for _ in range(32):
                        await asyncio.get_running_loop().sock_sendall(caller, bytes(65536))
                        sent.append(65536)
                except (BrokenPipeError, ConnectionResetError):
                    sent.append(0)
                finally:
                    caller.close()

            saying = asyncio.create_task(say())
            answered = await lease_takeover._ask(str(tmp_path / "ask"), os.getuid(), b"{}", {})
            await saying
            return answered

        began = time.monotonic()
        assert asyncio.run(both()) is False
        assert time.monotonic() - began < lease_takeover.ASK_S / 2
        assert sent[-1] == 0 and sum(sent) <= 1 << 20, "the rest was never read"


def test_only_a_socket_of_the_lease_s_owner_is_asked(tmp_path: Path):
    elsewhere, path = tmp_path / "elsewhere", tmp_path / "ask"
    with listener(elsewhere) as other:
        other.setblocking(False)
        path.symlink_to(elsewhere)
        with pytest.raises(
            WireError, match=f"ask is not a socket; expected: a socket of user {os.getuid()}"
        ) as refused:
            ask(path)
        assert refused.value.code == "lease_stuck"
        path.unlink()
        path.write_text("")
        with pytest.raises(WireError, match="is not a socket"):
            ask(path)
        with pytest.raises(
            WireError, match=f"a socket of user {os.getuid()}; expected: a socket of user {os.getuid() + 1}"
        ):
            ask(elsewhere, os.getuid() + 1)
        with pytest.raises(BlockingIOError):
            other.accept()


def test_a_listener_of_another_user_behind_the_right_name_is_told_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The path may become another socket after it was looked at: the kernel says who listens."""
    monkeypatch.setattr(lease_takeover, "_peer", lambda connected: os.getuid() + 1)
    with listener(tmp_path / "ask") as door:
        with pytest.raises(WireError, match=f"served by user {os.getuid() + 1}"):
            ask(tmp_path / "ask")
        caller, _ = door.accept()
        with caller:
            assert caller.recv(100) == b""


def test_nobody_at_the_socket_is_no_answer(tmp_path: Path):
    assert ask(tmp_path / "ask") is False
    listener(tmp_path / "ask").close()
    assert ask(tmp_path / "ask") is False


def test_the_end_of_the_socket_is_the_answer(tmp_path: Path):
    heard: list[Any] = []

    async def asked() -> bool:
        async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.append(await reader.read(100))
            writer.close()

        async with await asyncio.start_unix_server(hear, tmp_path / "ask"):
            return await lease_takeover._ask(str(tmp_path / "ask"), os.getuid(), b"{}", {})

    assert asyncio.run(asked()) is True and heard == [b"{}"]


def test_a_lock_of_our_own_is_seen_as_one_of_this_process(tmp_path: Path):
    with lease_with(tmp_path / "lease", b"").open() as file:
        assert lock.lock_holder(os.fstat(file.fileno())) is None
        fcntl.flock(file, fcntl.LOCK_SH)
        assert lock.lock_holder(os.fstat(file.fileno())) == (os.getpid(), False)


def test_the_holder_s_socket_hears_its_own_user_and_root_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    heard: list[dict[str, Any]] = []

    async def knock(user: int) -> bool:
        monkeypatch.setattr(lease_takeover, "_peer", lambda connected: user)
        reader, writer = await asyncio.open_unix_connection(tmp_path / "lease.ask")
        writer.write(json.dumps({"owner": f"user {user}", "purpose": "a look"}).encode())
        try:
            return await asyncio.wait_for(reader.read(), 0.3) == b""
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        finally:
            writer.close()

    async def all_of_them() -> list[bool]:
        door = lease_takeover.Door(str(tmp_path / "lease"), heard.append)
        try:
            return [await knock(user) for user in (os.geteuid() + 1, os.geteuid(), 0)]
        finally:
            door.close()

    assert asyncio.run(all_of_them()) == [True, False, False]
    assert [each["by"] for each in heard] == [f"user {os.geteuid()}", "user 0"]


def test_a_lease_that_is_a_link_or_in_another_user_s_directory_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lock, "find_lease_directories", lambda: [str(tmp_path)])
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / lock.file_name()).symlink_to(elsewhere)
    with pytest.raises(WireError, match="could not create a lease file"):
        lock._open()
    assert not elsewhere.exists() and lock.find_holder(str(tmp_path / lock.file_name())) is None
    (tmp_path / lock.file_name()).unlink()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(WireError, match="belongs to another user"):
        lock._open()
