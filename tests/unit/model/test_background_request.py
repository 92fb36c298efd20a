"""Which background loads a request may ask of a testbed, and which stream its second guest gets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from labconsole.errors import ConfigError
from labconsole.model.design_point import BACKGROUNDS, DesignPoint, FrameSize
from labconsole.model.inventory import Inventory, load_inventory
from labconsole.model.limits_check import check_request

HOSTS = """\
testbed: two
nodes:
  s: {address: s, roles: [source]}
  u: {address: u, roles: [uut]}
  k: {address: k, roles: [sink]}
streams:
  - {name: s1, source: s/a, uut_in: a, uut_out: b, sink: k/a, source_ip: 198.18.1.1, sink_ip: 198.18.1.2}
  - {name: s2, source: s/b, uut_in: c, uut_out: d, sink: k/b, source_ip: 198.18.2.1, sink_ip: 198.18.2.2}
  - {name: s3, source: s/c, uut_in: e, uut_out: f, sink: k/c, source_ip: 198.18.3.1, sink_ip: 198.18.3.2}
platforms:
  raw: {driver: raw}
"""


def _inventory(tmp_path: Path, more: str = "") -> Inventory:
    path = tmp_path / "hosts.yaml"
    path.write_text(HOSTS + more)
    return load_inventory(path)


REQUEST = DesignPoint(platform="raw", frame=FrameSize(64), sources=1, target=10**7, duration_s=1.0)


@pytest.mark.parametrize("background", BACKGROUNDS)
def test_every_background_can_be_asked_for_with_a_stream_to_spare(tmp_path: Path, background: str) -> None:
    check_request(replace(REQUEST, background=background), _inventory(tmp_path))


def test_the_second_guest_gets_the_last_stream_or_the_chosen_one_where_it_is_free(tmp_path: Path) -> None:
    def names(inventory: Inventory) -> list[str | None]:
        return [stream.name if (stream := inventory.second_stream(n)) else None for n in (1, 2, 3)]

    plain = _inventory(tmp_path)
    chosen = _inventory(tmp_path, "defaults: {background_stream: s2}\n")
    assert names(plain) == ["s3", "s3", None]
    assert names(chosen) == ["s2", None, None]
    assert plain.fingerprint() != chosen.fingerprint(), "another stream of the second guest is another testbed"


def test_forwarding_with_all_streams_in_use_is_refused(tmp_path: Path) -> None:
    inventory = _inventory(tmp_path)
    with pytest.raises(
        ConfigError, match=r"background: needs a stream .*uses all streams of the testbed.*or fewer sources"
    ):
        check_request(replace(REQUEST, sources=3, background="forwarding-50"), inventory)
    check_request(replace(REQUEST, sources=3, background="heavy"), inventory)


@pytest.mark.parametrize("name", ["s1", "s9"])
def test_a_background_stream_that_is_never_free_is_refused_with_its_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _inventory(tmp_path, f"defaults:\n  background_stream: {name}\n")
    assert (caught.value.line, caught.value.key) == (13, "defaults.background_stream")
    assert caught.value.allowed == "s2, s3"
