"""The changes that make a Linux network stack forward a stream: shared by the host (raw) and a container's stack."""

from __future__ import annotations

from typing import Any


def route_changes(
    *, inbound: str, outbound: str, source_ip: str, sink_ip: str, sink_mac: str, namespace: str = ""
) -> list[dict[str, Any]]:
    """Forward ``source_ip`` to ``sink_ip`` from one interface to the other.

    Forwarding is switched on for these two interfaces only, not for the machine. The route back to the source keeps
    reverse-path filtering satisfied without switching it off. The neighbour is permanent, so no ARP runs in a trial.
    """
    changes: list[dict[str, Any]] = []
    for interface in (inbound, outbound):
        changes.append({"do": "link_up", "interface": interface, "namespace": namespace})
        changes.append(
            {
                "do": "sysctl",
                "name": f"net/ipv4/conf/{interface}/forwarding",
                "value": "1",
                "namespace": namespace,
            }
        )
    changes.append({"do": "route", "destination": f"{source_ip}/32", "interface": inbound, "namespace": namespace})
    changes.append({"do": "route", "destination": f"{sink_ip}/32", "interface": outbound, "namespace": namespace})
    changes.append(
        {"do": "neighbour", "address": sink_ip, "mac": sink_mac, "interface": outbound, "namespace": namespace}
    )
    return changes
