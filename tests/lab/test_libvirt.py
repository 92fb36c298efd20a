"""The driver of libvirt with the real virsh and libvirt's test hypervisor, run by the agent's own executor.

That hypervisor lives in each virsh process anew: a guest that one command has started is off again for the next. A
better liar is hard to find.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from labconsole.agent.operations.program_execution import Executor
from labconsole.contracts.crew import CrewMember, CrewWanted, HypervisorWord
from labconsole.contracts.driver import Prepared, StreamWiring
from labconsole.errors import AgentError, CapabilityMissing, NodeError
from labconsole.platforms.drivers.libvirt import LibvirtDriver
from labconsole.wire.codec import WireError
from labconsole.wire.execution import Execute
from support.asking import Asking
from support.requirements import require

GUESTS = """
<node>
  <domain type='test'>
    <name>fw</name><memory>8192</memory><vcpu>2</vcpu><os><type>hvm</type></os>
    <devices>
      <interface type='network'><mac address='02:00:00:00:0d:01'/><source network='default'/><model type='virtio'/></interface>
      <interface type='network'><mac address='02:00:00:00:0d:02'/><source network='default'/><model type='e1000'/></interface>
      <memballoon model='virtio'/>
    </devices>
  </domain>
  <domain type='test' xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>
    <name>spare one</name><memory>8192</memory><vcpu>1</vcpu><os><type>hvm</type></os>
    <devices>
      <interface type='network'><mac address='02:00:00:00:0d:03'/><source network='default'/></interface>
      <interface type='network'><mac address='02:00:00:00:0d:04'/><source network='default'/></interface>
    </devices>
    <test:runstate>5</test:runstate>
  </domain>
  <domain type='test' xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>
    <name>held</name><memory>8192</memory><vcpu>1</vcpu><os><type>hvm</type></os>
    <test:runstate>3</test:runstate>
  </domain>
  <network><name>default</name><bridge name='virbr0'/></network>
</node>
"""
WIRING = StreamWiring(
    name="s1",
    uut_in="eth1",
    uut_in_mac="02:00:00:00:00:01",
    uut_out="eth5",
    uut_out_mac="02:00:00:00:00:05",
    sink_mac="02:00:00:00:00:AA",
    source_ip="198.18.1.1",
    sink_ip="198.19.1.1",
)


class ThisMachine(Asking):
    """An AgentLink without SSH: `exec` is the agent's."""

    name = "uut"

    async def request(self, op: str, args: dict[str, Any] | None = None, *, timeout_s: float = 30.0) -> dict[str, Any]:
        if op == "links":
            return {"links": []}
        if op in ("guest.promise_stop", "guest.stop_kept"):
            return {}
        assert op == "exec"
        assert args is not None
        try:
            return (await Executor(lambda name: ()).run(Execute(**args))).to_wire()
        except WireError as exc:
            raise AgentError(self.name, exc.message, code=exc.code) from exc


@pytest.fixture
def uri(tmp_path: Path) -> str:
    require("virsh")
    file = tmp_path / "node.xml"
    file.write_text(GUESTS)
    return f"test://{file}"


def prepare(**options: Any) -> Prepared:
    driver = LibvirtDriver("p", options)
    return asyncio.run(driver.prepare(ThisMachine(), [WIRING]))  # type: ignore[arg-type]


def test_a_guest_that_runs_is_found_with_its_nics_and_attested_twice_alike(uri: str) -> None:
    async def measured() -> Prepared:
        driver = LibvirtDriver("p", {"uri": uri, "guest": "fw", "others": "allow"})
        link: Any = ThisMachine()
        prepared = await driver.prepare(link, [WIRING])
        assert prepared.attest is not None
        assert await prepared.attest(link) == prepared.attestation
        await driver.restore(link)
        return prepared

    prepared = asyncio.run(measured())
    assert prepared.paths["s1"].destination_mac == "02:00:00:00:0d:01"
    machine = prepared.attestation["machines"]["fw"]
    assert (machine["vcpus"], machine["kind"]) == (2, "test")
    assert [nic["model"] for nic in machine["nics"]] == ["virtio", "e1000"]
    assert set(machine["pinning"]) == {"0", "1"}
    assert prepared.attestation["other_guests"] == ["held"]
    assert "libvirt " in prepared.attestation["versions"]["libvirt"]


def test_what_a_guest_that_runs_has_of_the_memory_is_virshs_word(uri: str) -> None:
    """The test hypervisor says half of what it was given, which is 8 MiB."""
    driver = LibvirtDriver("p", {"uri": uri, "guest": "fw", "guests": ["fw", "spare one"]})
    members = tuple(CrewMember(name=name, address="198.18.64.1/18", mac=WIRING.sink_mac) for name in ("g1", "g2"))
    link: Any = ThisMachine()
    said = asyncio.run(driver.hypervisor_memory(link, CrewWanted(members=members, port="eth5")))
    assert said == HypervisorWord(command="virsh dommemstat", guest_bytes={"g1": 4 * 2**20})


def test_another_guest_that_does_not_even_run_but_is_held_is_refused(uri: str) -> None:
    with pytest.raises(NodeError, match="held runs next to fw: stop it, or set `others: allow`"):
        prepare(uri=uri, guest="fw")


def test_a_guest_that_virsh_says_it_started_but_that_is_off_is_not_believed(uri: str) -> None:
    words = (
        r"guest spare one is shut off 1 s after .*start 'spare one'`; expected: running. It said: Domain 'spare one' st"
    )
    with pytest.raises(NodeError, match=words):
        prepare(uri=uri, guest="spare one", others="allow", start_s=1)


def test_pinning_that_virsh_forgets_is_not_believed(uri: str) -> None:
    with pytest.raises(NodeError, match="guest fw is pinned to .*0-7.*; expected: "):
        prepare(uri=uri, guest="fw", others="allow", cpu=1)


def test_unknown_paused_and_unreachable_are_each_said(uri: str) -> None:
    with pytest.raises(NodeError, match="there is no guest nosuch; the guests of libvirt are fw, held, spare one"):
        prepare(uri=uri, guest="nosuch")
    with pytest.raises(NodeError, match="guest held is paused; expected: running or stopped"):
        prepare(uri=uri, guest="held", others="allow")
    with pytest.raises(CapabilityMissing, match="virsh cannot connect to xen\\+tcp://127.0.0.1:1/"):
        prepare(uri="xen+tcp://127.0.0.1:1/", guest="fw")
