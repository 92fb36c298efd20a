"""Plug-ins by name: our own files, those of other packages, and what becomes of one that is broken."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

import labconsole
from labconsole.errors import ConfigError
from labconsole.model.inventory import Platform
from labconsole.platforms.loading import PACKAGE, build_driver, guest_processes, known_drivers
from labconsole.plugins import PluginError, UnknownPlugin, load, names
from support.fake_session import make_inventory
from support.plugged_in import plugged_in

GROUP = "labconsole.drivers"
TOY = """\
from labconsole.contracts.driver import DriverInfo
from labconsole.platforms.drivers.raw import RawDriver, RawOptions


class ToyDriver(RawDriver):
    about = DriverInfo(name="toy", summary="a toy", tried="no", Options=RawOptions, processes=("toy-.*",))


DRIVER = ToyDriver
"""
BROKEN = "import a_library_that_nobody_has\n"


def files() -> list[str]:
    return sorted(path.stem for path in Path(labconsole.__file__).parent.glob("platforms/drivers/[a-z]*.py"))


def test_the_files_are_the_list_and_none_is_imported_for_it() -> None:
    code = (
        "import sys\nfrom labconsole.plugins import names\nprint(*names('platforms.drivers'))\n"
        "print([name for name in sys.modules if name.startswith('labconsole.platforms.drivers.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [" ".join(files()), "[]"]


@pytest.mark.parametrize("name", files())
def test_every_driver_says_about_itself_what_others_ask(name: str) -> None:
    about = known_drivers()[name]
    assert load(PACKAGE, name).DRIVER.about is about
    assert about.name == name
    assert about.summary and about.tried


def test_another_name_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UnknownPlugin, match="there is no abacus; use one of bypass, command, container"):
        load(PACKAGE, "abacus")


def test_a_package_of_others_adds_a_driver_and_takes_none_of_ours(tmp_path: Path) -> None:
    inventory = make_inventory(platforms={"fast": Platform(driver="toy")})
    with plugged_in(tmp_path, GROUP, {"toy": TOY, "raw": TOY}):
        assert names(PACKAGE) == sorted([*files(), "toy"])
        assert build_driver("fast", inventory).about.summary == "a toy"
        assert "toy-.*" in guest_processes()
        assert load(PACKAGE, "raw").__name__ == "labconsole.platforms.drivers.raw"
    with pytest.raises(ConfigError, match="is not a driver for this version of labconsole"):
        build_driver("fast", inventory)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (BROKEN, "of package toys cannot be loaded: ModuleNotFoundError: No module named 'a_library_that_nobody_has'"),
        ("raise RuntimeError('no')\n", "of package toys cannot be loaded: RuntimeError: no"),
        ("raise SystemExit(3)\n", "of package toys cannot be loaded: SystemExit: 3"),
        ("DRIVER = print\n", "cannot be used: its DRIVER is not a driver with the name bad"),
        (TOY, "cannot be used: its DRIVER is not a driver with the name bad"),
    ],
)
def test_a_broken_plug_in_is_named_and_breaks_no_other(
    source: str, words: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    inventory = make_inventory(platforms={"bad": Platform(driver="bad"), "good": Platform(driver="toy")})
    with plugged_in(tmp_path, GROUP, {"bad": source, "toy": TOY}):
        with caplog.at_level(logging.WARNING):
            assert sorted(known_drivers()) == sorted([*files(), "toy"])
        assert [record.message for record in caplog.records] == [f"plug-in bad {words}"]
        with pytest.raises(ConfigError) as raised:
            build_driver("bad", inventory)
        assert (raised.value.key, raised.value.message) == ("platforms.bad.driver", f"plug-in bad {words}")
        build_driver("good", inventory)


def test_an_entry_point_has_to_be_a_module(tmp_path: Path) -> None:
    with plugged_in(tmp_path, "labconsole.drivers", {"toy": TOY}):
        points = tmp_path / "toys-1.0.dist-info" / "entry_points.txt"
        points.write_text("[labconsole.drivers]\ntoy = toys_toy:ToyDriver\n")
        with pytest.raises(PluginError, match="toys_toy:ToyDriver is not a module"):
            load(PACKAGE, "toy")
