"""Drivers by their names in hosts.yaml, each a file in drivers/ or a plug-in of another package, and their schema."""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING, cast

from pydantic.json_schema import JsonSchemaValue

from labconsole.contracts.driver import DriverInfo
from labconsole.errors import ConfigError
from labconsole.model.generator_names import generator_names
from labconsole.model.inventory import Inventory
from labconsole.platforms.base.driver_wrapper import (
    BOOT,
    BOOTS,
    FLOW_CONTROL,
    FLOW_CONTROL_VALUES,
    BootedDriver,
    FlowControlledDriver,
    take_boot,
    take_flow_control,
)
from labconsole.plugins import PluginError, UnknownPlugin, load, names

if TYPE_CHECKING:
    from collections.abc import Callable

    from labconsole.contracts.driver import Driver


# -- loading -----------------------------------------------------------------------------------------------------------

log = logging.getLogger("labconsole.platforms")

PACKAGE = "platforms.drivers"


def load_driver(name: str) -> Callable[..., Driver]:
    """The class of a driver, imported on demand: a run needs only one. Raises PluginError."""
    made = getattr(load(PACKAGE, name), "DRIVER", None)
    about = getattr(made, "about", None)
    if not isinstance(about, DriverInfo) or about.name != name:
        raise PluginError(f"plug-in {name} cannot be used: its DRIVER is not a driver with the name {name}")
    return cast("Callable[..., Driver]", made)


@cache
def known_drivers() -> dict[str, DriverInfo]:
    """Each driver's description, by name. An unusable plug-in is left out, and named in the log."""
    known = {}
    for name in names(PACKAGE):
        try:
            known[name] = cast("Driver", load_driver(name)).about
        except PluginError as exc:
            log.warning("%s", exc)
    return known


def guest_processes() -> tuple[str, ...]:
    """Names of guest processes of all drivers' hypervisors: regular expressions, each once."""
    return tuple(dict.fromkeys(pattern for about in known_drivers().values() for pattern in about.processes))


def build_driver(platform: str, inventory: Inventory) -> Driver:
    """The driver of a platform of hosts.yaml. Raises ConfigError for an unknown driver or option."""
    entry = inventory.platforms[platform]
    key = f"platforms.{platform}.driver"
    try:
        made = load_driver(entry.driver)
    except UnknownPlugin as exc:
        allowed = ", ".join(exc.known)
        raise ConfigError(
            "is not a driver for this version of labconsole", key=key, value=entry.driver, allowed=allowed
        ) from None
    except PluginError as exc:
        raise ConfigError(str(exc), key=key) from exc
    options = dict(entry.options)
    boot, flow_control = take_boot(platform, options), take_flow_control(platform, options)
    driver = made(platform, options)
    if flow_control is not None:
        driver = FlowControlledDriver(platform, flow_control, driver)
    return driver if boot is None else BootedDriver(platform, boot, driver)


# -- schema ------------------------------------------------------------------------------------------------------------
# The JSON Schema of hosts.yaml, for editors: the inventory's, with the options of every driver.


def hosts_schema() -> JsonSchemaValue:
    """The schema that labconsole schema hosts prints."""
    schema = Inventory.model_json_schema()
    parts = schema["$defs"]
    parts["Defaults"]["properties"]["generator"]["enum"] = list(generator_names())
    for name, about in known_drivers().items():
        options = _options(about)
        # Drivers are independent of each other: two may use the same name for a part.
        parts |= {f"{name}.{part}": each for part, each in options.pop("$defs", {}).items()}
        parts[name] = options
    parts["Platform"] |= {
        "properties": {"driver": {"enum": list(known_drivers())}},
        "oneOf": [{"$ref": f"#/$defs/{name}"} for name in known_drivers()],
    }
    return schema


def _options(about: DriverInfo) -> JsonSchemaValue:
    """The schema of a platform with this driver."""
    schema = about.Options.model_json_schema(ref_template=f"#/$defs/{about.name}.{{model}}")
    driver = {"const": about.name, "description": about.summary}
    boot = {"enum": list(BOOTS), "description": "the system that the UUT has to run, where it can boot several"}
    flow_control = {
        "enum": [*FLOW_CONTROL_VALUES, True, False],
        "description": "Ethernet flow control of the UUT's NICs; as found if not given",
    }
    added = {BOOT: boot, FLOW_CONTROL: flow_control}
    schema["properties"] = {"driver": driver, **added, **schema.get("properties", {})}
    schema["required"] = ["driver", *schema.get("required", ())]
    return schema
