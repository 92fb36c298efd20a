"""Files from somebody else: whatever they hold ends in a LabError or is taken, within bounds, and stays in its place."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labconsole.contracts.ports import Series
from labconsole.errors import ConfigError, LabError, LabSetupError, StoreError
from labconsole.lab.spec import LabSpec
from labconsole.lab.state import LabFile, ProcessIdentity, lab_directory
from labconsole.model.identity import RUN_ID
from labconsole.model.inventory import load_inventory
from labconsole.model.plan.loader import load_plan
from labconsole.model.yaml_file import load_yaml
from labconsole.store.importing import import_records, parse_exported, read_jsonl
from labconsole.store.open import open_store
from labconsole.store.series import pack_series, read_file, unpack_series
from labconsole.store.writing import RunStore
from support.fuzzing import HOSTILE, JSON, changed_json, changed_text, mutated_bytes, places, put, tries
from support.store_samples import sample_record
from support.untrusted_samples import HOSTS, PLAN, YAML_WORDS


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("untrusted")


# --- YAML


@tries(300)
@given(data=st.data())
def test_any_hosts_file_is_taken_or_refused_in_words(directory: Path, data: st.DataObject) -> None:
    path = directory / "hosts.yaml"
    path.write_bytes(changed_text(data, HOSTS, YAML_WORDS).encode("utf-8", "surrogatepass"))
    try:
        load_inventory(path)
    except ConfigError as error:
        assert str(error).startswith(str(path)) and len(str(error)) < 2000


@tries(300)
@given(data=st.data())
def test_any_plan_file_is_taken_or_refused_in_words(directory: Path, data: st.DataObject) -> None:
    hosts, path = directory / "good.yaml", directory / "plan.yaml"
    hosts.write_text(HOSTS)
    path.write_bytes(changed_text(data, PLAN, YAML_WORDS).encode("utf-8", "surrogatepass"))
    try:
        load_plan(path, load_inventory(hosts)).hash()
    except ConfigError as error:
        assert str(error).startswith(str(path)) and len(str(error)) < 2000


BOMB = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{name}: &{name} [{','.join(['*' + before] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        "a: &a [*a]\n",
        "a: " + "[" * 100_000,
        "a: " + "{a: " * 100_000,
        "".join(" " * i + "a:\n" for i in range(2000)),
        "a: \x01\n",
        "testbed: 0x" + "f" * 100_000 + "\n",
        "a: " + "x" * (5 << 20),
    ],
    ids=["aliases of aliases", "itself", "lists", "maps", "indents", "control", "huge number", "too large"],
)
def test_a_yaml_bomb_is_refused_before_it_unfolds(directory: Path, text: str) -> None:
    path = directory / "bomb.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=str(path)) as raised:
        load_inventory(path)
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize(("depth", "words"), [(60, "testbed: "), (65, "nests them deeper than 64")])
def test_a_yaml_file_is_nested_no_deeper_than_it_is_unfolded(directory: Path, depth: int, words: str) -> None:
    (path := directory / "deep.yaml").write_text(f"testbed: {'[' * depth}{']' * depth}\n")
    with pytest.raises(ConfigError, match=words):
        load_inventory(path)


def test_a_file_without_an_end_is_read_no_further_than_a_configuration_is_long() -> None:
    with pytest.raises(ConfigError, match="larger than"):
        load_yaml(Path("/dev/zero"))


@pytest.mark.parametrize(
    ("key", "value"),
    [("address", v) for v in ["-oProxyCommand=x", "a b", "a'b", "$(x)", "a;b", "a\nb", "a`b", ""]]
    + [("user", v) for v in ["-l", "a b", "a;b", "a\\b"]]
    + [("jump", "a@b;c"), ("python", "-c"), ("python", "py\x1bthon"), ("capture_dir", "-x")],
)
def test_what_a_shell_would_read_otherwise_is_refused_in_hosts_yaml(directory: Path, key: str, value: str) -> None:
    path = directory / "words.yaml"
    path.write_text(
        HOSTS.replace(
            "snk1: {address: 127.0.0.1,",
            f"snk1: {{address: 127.0.0.1, {key}: {json.dumps(value)},"
            if key != "address"
            else f"snk1: {{address: {json.dumps(value)},",
        )
    )
    with pytest.raises(ConfigError, match=f"nodes.snk1.{key}"):
        load_inventory(path)


def test_a_yaml_file_of_very_many_values_is_refused_before_it_is_parsed(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labconsole.model.yaml_file.MAX_MARKS", 50)
    path = directory / "many.yaml"
    for text in ("a: [" + "1," * 60 + "1]\n", "a:\n" + "- 1\n" * 60, "a: 1\n" * 60, "a: " + "[" * 60 + "]" * 60):
        path.write_text(text)
        with pytest.raises(ConfigError, match="many.yaml.*: holds more than 50 values"):
            load_yaml(path)
    path.write_text("a: [" + "1," * 40 + "1]\n")
    assert len(load_yaml(path)["a"]) == 41


# --- runs: JSON lines, ids, series


def exported() -> dict[str, Any]:
    return json.loads(json.dumps(sample_record().to_json()))


@pytest.fixture(scope="module")
def store(directory: Path) -> Iterator[RunStore]:
    with open_store(str(directory / "runs.sqlite")) as store:
        yield store


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &a {k: 1}\n" + "".join(f"m{n}: {{<<: *a}}\n" for n in range(1000)), "merge keys"),
        ("a: &a {" + ", ".join(f"k{n}: 1" for n in range(1000)) + "}\nm: {<<: [" + "*a, " * 10 + "]}\n", "merge keys"),
        ("a0: &a0 {}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 40)), "merge keys"),
        ("a: &a {<<: *a}\n", "recursion"),
        ("%YAML 1.1\n---\na: " + ":".join(["1"] * 5001), "a number has 10001 characters; allowed: 10000"),
    ],
)
def test_a_yaml_file_that_takes_long_to_construct_is_refused_before(directory: Path, text: str, words: str) -> None:
    path = directory / "costly.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words):
        load_yaml(path)


def test_merge_keys_of_a_testbed_are_read(directory: Path) -> None:
    path = directory / "merged.yaml"
    path.write_text("a: &a {k: 1, l: 2}\n" + "".join(f"m{n}: {{<<: *a, l: 3}}\n" for n in range(400)))
    assert load_yaml(path)["m399"] == {"k": 1, "l": 3}


@tries(500)
@given(data=st.data())
def test_any_line_is_a_run_or_refused_in_words(store: RunStore, data: st.DataObject) -> None:
    line = changed_json(data, exported())
    try:
        import_records(store, [parse_exported(json.dumps(line).encode(), "x")])
    except StoreError as error:
        assert len(str(error)) < 20_000


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[" * 100_000,
        b"\xff\xfe",
        b"NaN",
        b"1e999",
        b'{"format":1e999}',
        b'{"a":' * 50_000,
        b"9" * 5000,
        b"null",
        b"\0",
        b'{"run_id":"\\ud800"}',
    ],
)
def test_a_line_that_is_no_run_is_refused_with_its_number(directory: Path, line: bytes) -> None:
    path = directory / "lines.jsonl"
    path.write_bytes(b"\n" + line + b"\n")
    if not line.strip():
        assert list(read_jsonl(path)) == []
        return
    with pytest.raises(StoreError, match="lines.jsonl:2"):
        list(read_jsonl(path))


@pytest.mark.parametrize(
    "run_id", ["../../x", "/etc/passwd", "..", ".hidden", "a/b", "a\n", "a\0b", "", "é", "a" * 129, "-x", HOSTILE]
)
def test_a_run_that_names_another_directory_is_refused(directory: Path, run_id: str) -> None:
    assert not RUN_ID.fullmatch(run_id)
    with pytest.raises(StoreError), open_store(str(directory / "ids.sqlite")) as store:
        import_records(store, [{**exported(), "run_id": run_id}])
    assert sorted(path.name for path in directory.parent.glob("*.npz")) == []


SERIES = Series({"uut": {"t_ns": list(range(50)), "packets": [1, None] * 25, "rate": [1.5, None] * 25}})


@pytest.fixture(scope="module")
def good_series(directory: Path) -> bytes:
    return pack_series("r", SERIES)


@tries(400)
@given(data=st.data())
def test_any_series_file_is_read_or_refused_in_words(directory: Path, good_series: bytes, data: st.DataObject) -> None:
    path = directory / "series.npz"
    path.write_bytes(mutated_bytes(data, good_series))
    try:
        unpack_series(read_file(path, "r"), "r", str(path))
    except StoreError as error:
        assert "run r" in str(error)


def archive(**members: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        for name, member in members.items():
            file.writestr(name, member)
    return content.getvalue()


def array_file(array: Any) -> bytes:
    content = io.BytesIO()
    numpy.lib.format.write_array(content, array, allow_pickle=True)
    return content.getvalue()


def header(shape: str, descr: str = "'<i8'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (63 - (len(text) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\x04N.",
        array_file(numpy.arange(3)),
        archive(**{"a/b.txt": b"x"}),
        archive(**{"a/b.npy": array_file(numpy.array([{}], dtype=object))}),
        archive(**{"a/b.npy": header("(1000000000000,)")}),
        archive(**{"a/b.npy": header("(-1,)")}),
        archive(**{"a/b.npy": header("(3, 3)")}),
        archive(**{"a/b.npy": header("'x'")}),
        archive(**{"a/b.npy": header("(1,)", "'|O'")}),
        archive(**{"a/b.npy": header("(1,)", "__import__('os')")}),
        archive(**{"a/b.npy": header("(" * 2000 + ")" * 2000)}),
        archive(**{"a/b.npy": header("(1,")}),
        archive(**{"a/b.npy": header("(1,), '\0'")}),
        archive(**{"\x1b[2J.npy": array_file(numpy.arange(3))}),
        archive(**{"a/b.npy": array_file(numpy.arange(3)), "a/b?.npy": array_file(numpy.array(True))}),
    ],
)
def test_an_archive_that_is_no_series_is_refused(directory: Path, content: bytes) -> None:
    path = directory / "made-up.npz"
    path.write_bytes(content)
    with pytest.raises(StoreError, match="run r"):
        unpack_series(read_file(path, "r"), "r", str(path))


def test_a_small_file_that_unpacks_to_gigabytes_is_refused_unread(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labconsole.store.series.MAX_SERIES_VALUES", 1 << 17)
    path = directory / "bomb.npz"
    path.write_bytes(archive(**{"a/b.npy": header("(262144,)") + bytes(1 << 21)}))
    assert path.stat().st_size < 10_000
    with pytest.raises(StoreError, match="holds more than"):
        unpack_series(read_file(path, "r"), "r", str(path))


# --- a lab's own files


LAB = {
    "format": 1,
    "spec": LabSpec().to_json(),
    "index": 1,
    "supervisor": vars(ProcessIdentity(1, 2, "b")),
    "init": vars(ProcessIdentity(1, 2, "b")),
    "owner": "me",
    "started_at": "now",
    "kernel": "6.1",
}


@tries(150)
@given(data=st.data())
def test_any_state_file_of_a_lab_is_read_or_refused_in_words(directory: Path, data: st.DataObject) -> None:
    content = json.loads(json.dumps(LAB))
    put(content, data.draw(st.sampled_from(list(places(content)))), data.draw(JSON))
    (directory / "lab.json").write_text(json.dumps(content))
    try:
        LabFile.read(directory)
    except LabSetupError as error:
        assert "lab.json" in str(error)


@pytest.mark.parametrize("name", ["../x", "/etc", "a/b", "", ".", "a\n", "-x", HOSTILE, "a" * 40])
def test_a_lab_cannot_be_named_into_another_directory(name: str) -> None:
    with pytest.raises(LabError):
        lab_directory(name)
    with pytest.raises(LabError):
        LabSpec(name=name)
