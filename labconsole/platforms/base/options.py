"""Options of a platform in hosts.yaml that describe guests of an installed hypervisor, checked before anything runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from labconsole.errors import ConfigError
from labconsole.model.cpus import cpu_set
from labconsole.model.strict_model import describe_problem
from labconsole.model.yaml_file import key_text

_MAC = re.compile(r"[0-9a-f]{2}(?:[:-]?[0-9a-f]{2}){5}")
PLACE = re.compile(r"/[A-Za-z0-9_.+@/-]{0,199}")
_GUEST_CHARACTERS = 200

GUEST_PLACE = "{guest}"
"""Placeholder for a guest's name in settings of several guests."""


def mac_address(text: str) -> str | None:
    """A NIC's MAC address in our notation (02:00:…), from any notation of a hypervisor, or None if it is none."""
    lowered = text.strip().lower()
    if not _MAC.fullmatch(lowered):
        return None
    digits = re.sub(r"[:-]", "", lowered)
    if int(digits[:2], 16) & 1 or int(digits, 16) == 0:
        return None
    return ":".join(digits[i : i + 2] for i in range(0, 12, 2))


def _number_as_text(value: Any) -> Any:
    """YAML reads ``guest: 101`` and ``cpu: 1`` as numbers."""
    return str(int(value)) if isinstance(value, int) and not isinstance(value, bool) else value


def _mac(value: str) -> str:
    found = mac_address(value)
    if found is None:
        raise ValueError("is not the MAC address of a NIC")
    return found


def _guest(value: str) -> str:
    # It becomes a word of a command: a leading dash would make it an option.
    if not value or value != value.strip() or len(value) > _GUEST_CHARACTERS or not value.isprintable():
        raise ValueError("is not the name of a guest")
    if value.startswith("-") or "'" in value or '"' in value or "/" in value:
        raise ValueError("is not the name of a guest")
    return value


def _cpus(value: str) -> str:
    if cpu_set(value) is None:
        raise ValueError("is not a list of CPUs such as 1 or 2-3")
    return value


def _target(value: str) -> str:
    if not value or value.startswith("-") or not value.isprintable() or " " in value:
        raise ValueError("is not a valid ssh destination")
    return value


def _word(value: str) -> str:
    if not value or value.startswith("-") or not value.isprintable():
        raise ValueError("cannot be used on a command line")
    return value


def _disk_place(value: str) -> str:
    # It becomes a part of command lines, of a line of fstab and of QEMU's and User-mode Linux's lists.
    if not PLACE.fullmatch(value):
        raise ValueError("is not an absolute path of letters, digits and _ . + @ -")
    return value


def _guest_file(value: str) -> str:
    if not PLACE.fullmatch(value.replace(GUEST_PLACE, "g")) or ".." in value.split("/"):
        raise ValueError(
            f"is not an absolute path of letters, digits and _ . + @ -, with {GUEST_PLACE} where it has to be"
        )
    return value


def _argv(value: list[str]) -> list[str]:
    if not all(word and word.isprintable() for word in value) or value[0].startswith("-"):
        raise ValueError("is not a command: a list of words")
    return value


Argv = Annotated[list[str], Field(min_length=1), AfterValidator(_argv)]
"""A command, as a list of words."""

GuestName = Annotated[str, BeforeValidator(_number_as_text, json_schema_input_type=str | int), AfterValidator(_guest)]
Mac = Annotated[str, AfterValidator(_mac)]
Cpus = Annotated[str, BeforeValidator(_number_as_text, json_schema_input_type=str | int), AfterValidator(_cpus)]
Word = Annotated[str, AfterValidator(_word)]
"""A path or an address that becomes one word of a command."""

DiskPlace = Annotated[str, AfterValidator(_disk_place)]
"""A directory in which guests for jobs get their disks, or that contains them."""

GuestFile = Annotated[str, AfterValidator(_guest_file)]
"""The operator's file or directory that guests start from."""

USUAL_DISK_PLACE = "/var/tmp"
DISK_PLACE = "a directory on a disk of the UUT, for the disks of guests for jobs"


class StreamNics(BaseModel):
    """The NICs and the guest that a stream passes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stream: str
    in_mac: Mac
    out_mac: Mac
    guest: GuestName | None = None


class ManagedOptions(BaseModel):
    """Common options of drivers of installed hypervisors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    guest: GuestName
    second_guest: GuestName | None = None
    others: Literal["refuse", "allow"] = "refuse"
    nics: list[StreamNics] = []
    cpu: Cpus | None = None
    second_cpu: Cpus | None = None
    start_s: float = Field(default=120.0, gt=0, le=3600)
    graceful_s: float = Field(default=30.0, ge=0, le=3600)
    second_shell: Argv | None = None
    bridges: Literal["found", "made"] = "found"
    ssh: Annotated[str, AfterValidator(_target)] | None = None

    guests: list[GuestName] = Field(default=[], max_length=250)
    guest_shell: Argv | None = None
    guest_nic: int | None = Field(default=None, ge=1, le=64)
    guest_inbound_nic: int | None = Field(default=None, ge=1, le=64)
    guest_cpus: Cpus | None = None
    guest_files: Annotated[list[GuestFile], Field(min_length=1, max_length=16)] | None = None
    guest_directory: DiskPlace | None = None
    guest_disk: DiskPlace | None = None


Options = TypeVar("Options", bound=BaseModel)


def read_options(model: type[Options], driver: str, platform: str, options: Mapping[str, object]) -> Options:
    """Options of hosts.yaml as ``model``. Raises ConfigError for the first invalid one."""
    try:
        return model.model_validate(options)
    except ValidationError as exc:
        problem = exc.errors(include_url=False)[0]
    location, value, allowed = problem["loc"], problem.get("input"), None
    key = key_text(("platforms", platform, *location))
    match problem["type"]:
        case "extra_forbidden":
            message, value = f"unknown option of driver {driver}", None
            if len(location) == 1:
                allowed = ", ".join(f.alias or n for n, f in model.model_fields.items()) or "(none)"
        case "missing":
            message, value = f"driver {driver} needs this option", None
        case "literal_error":
            message, allowed = "unknown option", problem["ctx"]["expected"].replace("'", "").replace(" or ", ", ")
        case _:
            message, allowed = describe_problem(problem)
            message = message[:1].lower() + message[1:]
    raise ConfigError(message, key=key, value=None if isinstance(value, (dict, list)) else value, allowed=allowed)
