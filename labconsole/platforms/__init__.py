"""Platform drivers: one module each, one contract (engine/driver.py). A driver's name in hosts.yaml is its key here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labconsole.errors import ConfigError

if TYPE_CHECKING:
    from labconsole.engine.driver import Driver
    from labconsole.model.inventory import Inventory

DRIVERS = ("raw", "container", "qemu", "bypass")


def driver_for(platform: str, inventory: Inventory) -> Driver:
    """The driver of a platform of hosts.yaml. Raises ConfigError for an unknown driver or option."""
    entry = inventory.platforms[platform]
    if entry.driver == "raw":
        from labconsole.platforms.raw import RawDriver

        return RawDriver(platform, entry.options)
    if entry.driver == "container":
        from labconsole.platforms.container import ContainerDriver

        return ContainerDriver(platform, entry.options)
    if entry.driver == "qemu":
        from labconsole.platforms.qemu import QemuDriver

        return QemuDriver(platform, entry.options)
    if entry.driver == "bypass":
        from labconsole.platforms.bypass import BypassDriver

        return BypassDriver(platform, entry.options)
    raise ConfigError(
        "is not a driver of this version",
        key=f"platforms.{platform}.driver",
        value=entry.driver,
        allowed=", ".join(DRIVERS),
    )
