"""Platform drivers: one module each, one contract (engine/driver.py). A driver's name in hosts.yaml is its key here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from labconsole.errors import ConfigError
from labconsole.platforms.boot import BootedDriver, take_boot

if TYPE_CHECKING:
    from labconsole.engine.driver import Driver
    from labconsole.model.inventory import Inventory

DRIVERS = {
    "raw": "RawDriver",
    "container": "ContainerDriver",
    "qemu": "QemuDriver",
    "uml": "UmlDriver",
    "bypass": "BypassDriver",
    "libvirt": "LibvirtDriver",
    "lxc": "LxcDriver",
    "xl": "XlDriver",
    "virtualbox": "VirtualBoxDriver",
    "esxi": "EsxiDriver",
    "openvz": "OpenVzDriver",
    "vserver": "VserverDriver",
    "command": "CommandDriver",
}
"""Driver to the class in the module of its name. Imported when it is asked for: a run needs one."""


def driver_for(platform: str, inventory: Inventory) -> Driver:
    """The driver of a platform of hosts.yaml. Raises ConfigError for an unknown driver or option."""
    entry = inventory.platforms[platform]
    if entry.driver not in DRIVERS:
        raise ConfigError(
            "is not a driver of this version",
            key=f"platforms.{platform}.driver",
            value=entry.driver,
            allowed=", ".join(DRIVERS),
        )
    options = dict(entry.options)
    boot = take_boot(platform, options)
    made = getattr(import_module(f"labconsole.platforms.{entry.driver}"), DRIVERS[entry.driver])
    driver = cast("Driver", made(platform, options))
    return driver if boot is None else BootedDriver(platform, boot, driver)
