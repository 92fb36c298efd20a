"""Generators of other packages, by name: what of them is shipped, what is refused, and what stored names still mean."""

from __future__ import annotations

import io
import zipfile
from importlib import import_module
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from labconsole.errors import ConfigError
from labconsole.model.generator import (
    MAX_NODE_BYTES,
    code_trouble,
    generator_options,
    load_generator,
    of_elsewhere,
)
from labconsole.model.generator_names import generator_names
from labconsole.model.inventory import Defaults, load_inventory
from labconsole.model.limits_check import check_request
from labconsole.model.plan.loader import load_plan
from labconsole.nodes import archive
from labconsole.plugins import PluginError
from labconsole.testing import check_generator
from support.fake_session import make_inventory
from support.plugged_generators import HONEST, plugged_generators

PLAN = """\
plan: toys
platforms: [raw]
frame_sizes: [64]
targets: [10Mbit]
duration_s: 1
generator: toy
"""


def shipped() -> set[str]:
    with zipfile.ZipFile(io.BytesIO(archive.payload())) as packed:
        return {name for name in packed.namelist() if name.startswith(archive.GENERATORS)}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (HONEST, None),
        ("from __future__ import annotations\nimport os.path\nfrom json import loads\n" + HONEST, None),
        ("from labconsole.agent.sending.contract import StreamJob\n" + HONEST, None),
        (HONEST + "def f(x):\n    match x:\n        case 1: pass\n", "is not Python 3.9: line"),
        (HONEST + "(", "is not Python 3.9: line"),
        ("\0" + HONEST, "is not Python 3.9"),
        ("import numpy\n" + HONEST, "imports numpy (line 1)"),
        ("import tomllib\n" + HONEST, "imports tomllib (line 1)"),
        (HONEST + "    from labconsole.wire import codec\n", "imports labconsole.wire (line"),
        ("from labconsole.agent.sending import sendpath\n" + HONEST, "imports labconsole.agent.sending (line 1)"),
        ("from . import other\n" + HONEST, "imports . (line 1)"),
        ("from .other import thing\n" + HONEST, "imports .other (line 1)"),
        (HONEST.replace("def send(job, opened)", "def send(job)"), "does not define send with 2 parameters"),
        (HONEST.replace("def prepare(job)", "def ready(job)"), "does not define prepare with 1 parameter"),
        ("#" * MAX_NODE_BYTES + "\n" + HONEST, f"is longer than {MAX_NODE_BYTES} byte"),
    ],
)
def test_what_is_shipped_is_one_file_of_an_old_python_and_its_library(code: str, words: str | None) -> None:
    said = code_trouble(code.encode())
    assert (said is None) if words is None else words in (said or "")


def test_it_is_chosen_by_its_name_and_shipped(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    assert shipped() == set()
    with plugged_generators(tmp_path / "site", {"toy": HONEST}):
        assert generator_names() == ("auto", "pktgen", "afpacket", "toy")
        inventory = make_inventory(defaults={"generator": "toy"})
        plan = load_plan(tmp_path / "plan.yaml", inventory)
        check_request(plan.points[0].request, inventory)
        assert plan.points[0].request.generator == "toy"
        told = make_inventory(defaults={"generator": "toy"}, generators={"toy": {"burst_packets": 8}})
        assert told.fingerprint() != inventory.fingerprint()
        assert shipped() == {"labconsole_generators/__init__.py", "labconsole_generators/toy.py"}
    with pytest.raises(ConfigError, match="plan.yaml:6: generator: is not one of the known words, got 'toy'"):
        load_plan(tmp_path / "plan.yaml")
    assert shipped() == set()


def test_what_is_stored_keeps_its_name_where_nobody_has_it(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    with plugged_generators(tmp_path / "site", {"toy": HONEST}):
        plan = load_plan(tmp_path / "plan.yaml")
    with of_elsewhere():
        assert load_plan(tmp_path / "plan.yaml").hash() == plan.hash()
        check_request(plan.points[0].request, make_inventory())
        with pytest.raises(ValueError, match="known words"):
            TypeAdapter(Defaults).validate_python({"generator": "../toy"})
    with pytest.raises(ConfigError, match="generator: is not a generator, got 'toy'; allowed: auto, pktgen, afpacket"):
        check_request(plan.points[0].request, make_inventory())


def test_hosts_yaml_names_file_and_line_of_one_that_nobody_has(tmp_path: Path) -> None:
    hosts = Path(__file__).resolve().parents[3] / "hosts.yaml"
    (tmp_path / "hosts.yaml").write_text(hosts.read_text() + "\n")
    text = hosts.read_text().replace("generator: auto", "generator: toy")
    assert text != hosts.read_text()
    (tmp_path / "hosts.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"hosts.yaml:\d+: defaults.generator: .*'toy'; allowed: auto, pktgen"):
        load_inventory(tmp_path / "hosts.yaml")


def test_a_broken_one_is_named_and_takes_no_other_along(tmp_path: Path) -> None:
    with plugged_generators(tmp_path / "site", {"toy": HONEST, "bad": "import numpy\n" + HONEST}):
        assert shipped() == {"labconsole_generators/__init__.py", "labconsole_generators/toy.py"}
        with pytest.raises(PluginError, match="plug-in bad cannot be used: its node code toys.bad_node imports numpy"):
            load_generator("bad")
        (tmp_path / "plan.yaml").write_text(PLAN.replace("generator: toy", "generator: bad"))
        plan = load_plan(tmp_path / "plan.yaml")
        with pytest.raises(ConfigError, match="generator: plug-in bad cannot be used: its node code") as raised:
            check_request(plan.points[0].request, make_inventory())
        assert raised.value.value == "bad"


def test_two_of_one_name_are_both_named_and_neither_is_used(tmp_path: Path) -> None:
    with (
        plugged_generators(tmp_path / "one", {"toy": HONEST, "top": HONEST}),
        plugged_generators(tmp_path / "two", {"toy": HONEST}, package="trinkets"),
    ):
        with pytest.raises(PluginError, match=r"plug-in toy is in several packages \(toys, trinkets\)"):
            load_generator("toy")
        assert shipped() == {"labconsole_generators/__init__.py", "labconsole_generators/top.py"}


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ("GENERATOR = 1\n", "its GENERATOR is not a GeneratorInfo with the name toy"),
        ('node="os.path")', "its node code os.path is not in its own package"),
        ('node="toys.nothing")', "its node code toys.nothing is not one file of Python"),
        ('node="toys")', "its node code toys is not one file of Python"),
        ("node=GeneratorInfo)", "its GENERATOR says node, summary or needs that is not a text"),
        ('node="toys.toy_node", programs="tcpdump")', "its GENERATOR says programs that are not a tuple of texts"),
        ('node="toys.toy_node", Options={})', "its GENERATOR says Options that are not a model of pydantic"),
    ],
)
def test_its_module_says_what_it_is(tmp_path: Path, about: str, words: str) -> None:
    begin = 'from labconsole.model.generator import GeneratorInfo\nGENERATOR = GeneratorInfo(name="toy", summary="a", '
    with plugged_generators(tmp_path / "site", {"toy": HONEST}):
        file = tmp_path / "site" / "toys" / "toy.py"
        file.write_text(about if about.startswith("GENERATOR") else f"{begin}{about}\n")
        with pytest.raises(PluginError, match=words):
            load_generator("toy")
        with pytest.raises(ConfigError, match=f"generator: plug-in toy cannot be used: {words}"):
            generator_options("toy", {})
        assert shipped() == set()


def test_nobody_stands_in_for_one_of_ours(tmp_path: Path) -> None:
    with plugged_generators(tmp_path / "site", {"pktgen": HONEST}):
        assert generator_names() == ("auto", "pktgen", "afpacket")
        assert shipped() == set()


def test_the_kit_imports_node_code_as_a_node_does(tmp_path: Path) -> None:
    homesick = "import os\nos.environ['A_VARIABLE_THAT_NOBODY_HAS']\n" + HONEST
    with plugged_generators(tmp_path / "site", {"toy": HONEST, "sad": homesick, "bad": "import numpy\n" + HONEST}):
        toy, sad, bad = (import_module(f"toys.{name}") for name in ("toy", "sad", "bad"))
        check_generator(toy, "toy")
        with pytest.raises(AssertionError, match="GENERATOR is not a GeneratorInfo with the name glass"):
            check_generator(toy, "glass")
        with pytest.raises(AssertionError, match="toys.bad_node imports numpy"):
            check_generator(bad, "bad")
        with pytest.raises(AssertionError, match="toys.sad_node cannot be imported on a node: KeyError"):
            check_generator(sad, "sad")


def test_options_are_checked_at_home_and_told_whole(tmp_path: Path) -> None:
    asks = (
        "from pydantic import BaseModel, Field\nclass Options(BaseModel, extra='forbid'):\n"
        "    burst: int = Field(default=1, ge=1, le=64)\n    mode: str = 'even'\n"
    )
    with plugged_generators(tmp_path / "site", {"toy": HONEST, "plain": HONEST}):
        file = tmp_path / "site" / "toys" / "toy.py"
        file.write_text(asks + file.read_text().replace('node="', 'Options=Options, node="'))
        assert generator_options("toy", {"toy": {"burst": 4}}) == '{"burst":4,"mode":"even"}'
        assert generator_options("plain", {}) is None
        assert generator_options("pktgen", {}) is None
        with pytest.raises(ConfigError, match=r"generators.toy.burst: .*got 99"):
            generator_options("toy", {"toy": {"burst": 99}})
        with pytest.raises(ConfigError, match=r"generators.toy.depth: unknown option of generator toy"):
            generator_options("toy", {"toy": {"depth": 1}})
        with pytest.raises(ConfigError, match=r"generators.plain.depth: unknown option .*allowed: \(none\)"):
            generator_options("plain", {"plain": {"depth": 1}})
        with pytest.raises(ConfigError, match=r"generators.toy: is too much: 124 characters as JSON"):
            generator_options("toy", {"toy": {"mode": "x" * 103}})
        inventory = make_inventory(defaults={"generator": "toy"}, generators={"toy": {"burst": 99}})
        with pytest.raises(ConfigError, match="generators.toy.burst"):
            load_plan(_plan(tmp_path), inventory)


def _plan(directory: Path) -> Path:
    (directory / "plan.yaml").write_text(PLAN)
    return directory / "plan.yaml"
