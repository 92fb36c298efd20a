"""How the nodes of a trial were set is in its record, one value a setting."""

import json

from labconsole.agent.reading.settings import (
    DEVICE_FILES,
    FEATURES,
    FLAGS,
    INTERFACE_SYSCTLS,
    NAMED_FEATURES,
    SYSCTLS,
)
from labconsole.wire.settings import IRQS_TOLD
from support.observed_trials import record, tell, undisturbed


def kept(inventory, seen, node="uut"):
    run = record(inventory, seen, environment={"nodes": {name: {"facts": {}} for name in ("src1", "uut", "snk1")}})
    return run.environment["nodes"][node]["settings"]


def test_each_setting_has_a_value_under_the_name_that_people_know_it_by(inventory):
    seen = undisturbed(inventory)
    tell(
        seen.begin["uut"],
        "settings.sysctls",
        {"net/core/netdev_max_backlog": "1000", "net/bridge/none": None, "net/core/hidden": None},
    )
    tell(seen.begin["uut"], "settings.idle_states", [{"name": "C6", "exit_latency_us": 133, "disabled": True}])
    tell(seen.begin["uut"], "settings.interfaces.eth1.qdiscs", "tbf rate 12500000")
    tell(seen.begin["uut"], "settings.interfaces.eth1.device", {"rps_cpus": "3", "threaded": None})
    tell(seen.begin["uut"], "settings.interfaces.eth1.sysctls", {"rp_filter": "1"})
    held = kept(inventory, seen)
    assert held["net.core.netdev_max_backlog"] == 1000
    assert held["net.bridge.none"] is None  # known: the kernel has none
    assert held["governors"] == "performance of 4"
    assert held["idle states of the first processor"] == "C6 133 µs (off)"
    assert (held["eth1 qdiscs"], held["eth1 rps_cpus"]) == ("tbf rate 12500000", "3")
    assert (held["eth1 gro"], held["eth1 mtu"], held["eth1 rp_filter"]) == (True, 1500, 1)
    assert held["eth1 interrupts on processors"] == "0"
    assert held["eth5 qdiscs"] == "fq_codel"  # of which no more is known than its root
    assert "eth1 threaded" not in held and not {"turbo", "net.core.hidden"} & set(held)  # unknown
    assert not {name for name in held if name.startswith("eth9")}  # of no stream
    assert not {name for name in held if "carrier" in name or name.endswith((" mac", " up"))}


def test_all_of_a_node_with_two_plain_ports_takes_a_record_little_room(inventory):
    seen = undisturbed(inventory)
    tell(seen.begin["uut"], "settings.sysctls", dict.fromkeys(SYSCTLS, "1000"))
    queues = {"rps_cpus": "0", "rps_flow_cnt": "0", "xps_cpus": "0"}
    for port in ("eth1", "eth5"):
        plain = seen.begin["uut"].settings.interfaces[port].to_wire()
        tell(
            seen.begin["uut"],
            f"settings.interfaces.{port}",
            {
                **plain,
                "qdiscs": "noqueue",
                "xdp": "none",
                "sysctls": dict.fromkeys(INTERFACE_SYSCTLS, "0"),
                "device": {**queues, **dict.fromkeys(DEVICE_FILES, "0")},
                "rings": None,
                "coalesce": None,
                "pause": None,
                "offloads": dict.fromkeys([*FEATURES, *FLAGS, *NAMED_FEATURES], True),
                "irqs": {},
                "queues": {"rx": 1, "tx": 1, "combined": 0},
                "stamps": {"all_received": False, "clock": None},
                "bus": None,
            },
        )
    held = kept(inventory, seen)
    assert held["eth1 queues"] == "rx 1, tx 1, combined 0" and held["net.ipv4.ip_forward"] == 1000
    assert not {"net.ipv4.conf.all.forwarding", "eth1 stamps.all_received"} & set(held)
    assert len(json.dumps(held, separators=(",", ":"))) < 2500


def test_what_moves_by_itself_is_no_setting(inventory):
    seen = undisturbed(inventory)
    coalesce = {"rx_usecs": 3, "rx_frames": 0, "tx_usecs": 8, "tx_frames": 0, "adaptive_rx": 1, "adaptive_tx": 0}
    tell(seen.begin["uut"], "settings.interfaces.eth1.coalesce", coalesce)
    tell(seen.begin["uut"], "settings.irqbalance", True)
    held = kept(inventory, seen)
    assert "eth1 coalesce.rx_usecs" not in held and held["eth1 coalesce.tx_usecs"] == 8
    assert "eth1 interrupts on processors" not in held


def test_other_governors_are_another_value_of_one_setting(inventory):
    seen = undisturbed(inventory)
    tell(seen.begin["uut"], "settings.governors", {"powersave": 3, "performance": 1})
    assert kept(inventory, seen)["governors"] == "performance of 1, powersave of 3"


def test_what_was_cut_or_is_told_in_part_is_unknown(inventory):
    seen = undisturbed(inventory)
    tell(seen.begin["uut"], "settings.boot_options", "isolcpus=" + "1," * 5000)
    tell(seen.begin["uut"], "settings.interfaces.eth1.irqs", {str(number): "0" for number in range(IRQS_TOLD)})
    tell(seen.begin["uut"], "settings.interfaces.eth5.irqs", {"31": "0", "32": None})
    held = kept(inventory, seen)
    assert not {"boot_options", "eth1 interrupts on processors", "eth5 interrupts on processors"} & set(held)


def test_of_a_node_that_did_not_say_nothing_is_kept(inventory):
    seen = undisturbed(inventory)
    seen.begin["uut"].settings = None
    run = record(inventory, seen, environment={"nodes": {"uut": {"facts": {}}, "snk1": {"facts": {}}}})
    assert "settings" not in run.environment["nodes"]["uut"]
    assert run.environment["nodes"]["snk1"]["settings"]["net.ipv4.ip_forward"] == 0
