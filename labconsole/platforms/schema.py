"""The JSON Schema of hosts.yaml, for editors: the inventory's, with the options of every driver."""

from __future__ import annotations

from pydantic.json_schema import JsonSchemaValue

from labconsole.contracts.driver import DriverInfo
from labconsole.model.generator_names import generator_names
from labconsole.model.inventory import Inventory
from labconsole.platforms.base.boot import BOOTS
from labconsole.platforms.base.boot import OPTION as BOOT
from labconsole.platforms.base.flow_control import OPTION as FLOW_CONTROL
from labconsole.platforms.base.flow_control import VALUES
from labconsole.platforms.loading import known_drivers


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
        "enum": [*VALUES, True, False],
        "description": "Ethernet flow control of the UUT's NICs; as found if not given",
    }
    added = {BOOT: boot, FLOW_CONTROL: flow_control}
    schema["properties"] = {"driver": driver, **added, **schema.get("properties", {})}
    schema["required"] = ["driver", *schema.get("required", ())]
    return schema
