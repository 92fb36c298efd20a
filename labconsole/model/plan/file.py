"""A plan's file as written, with every value checked, its claims, and its completion to an ordinary matrix."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainValidator,
    create_model,
)

from labconsole.errors import ConfigError
from labconsole.model.design_point import (
    BACKGROUNDS,
    FORWARDING_SHARES,
    MAX_DURATION_S,
    OBSERVE,
    DesignPoint,
    FrameSize,
    TargetWish,
)
from labconsole.model.generator import known_generator
from labconsole.model.inventory import DropReasons, Name, PacketTiming
from labconsole.model.plan.execution_options import HookCommand, Retry, Stop, WarmUp
from labconsole.model.plan.guest_kind import guest_kinds
from labconsole.model.plan.order import settings
from labconsole.model.plan.search import SEARCH_SECTIONS, Search
from labconsole.model.strict_model import StrictModel
from labconsole.model.tolerances import Tolerances
from labconsole.model.yaml_file import register_keys
from labconsole.units import parse_ratio, parse_target

# -- claims ------------------------------------------------------------------------------------------------------------
# The tables of a report that may conclude something, and a plan's number of claims in each. The only list.

CLAIMS: dict[str, str] = {
    "table-1": "background CPU load against none",
    "figure-5-numbers": "a forwarding second guest against none",
    "ranking": "pairs of platforms without a second guest",
    "collapse": "less forwarded at the highest load than at the maximum",
    "table-2": "second guests at 50 % that lose what they are offered",
    "table-3": "second guests at 95 % that lose what they are offered",
    "streams": "streams of one trial that fare unequally",
}
"""Descriptions by the name in a plan's key ``claims``. All claims of a report form one family (Holm 1979): fewer tables
leave fewer claims, and each of them weighs more.
"""


def most_claims(requests: Iterable[DesignPoint], tables: Collection[str] | None = None) -> int:
    """Maximum number of claims in a report of these points; ``tables``: those that may conclude, or None for all."""
    by_setting = settings(list(dict.fromkeys(requests)))
    found = dict.fromkeys(CLAIMS, 0)
    alone: dict[DesignPoint, list[str]] = {}
    for setting, points in by_setting.items():
        alternatives = {
            name
            for name in ("none", "idle")
            if _with_background(setting, name) in by_setting and name != setting.background
        }
        if setting.background == "none":
            alone.setdefault(_with_platform(setting, ""), []).append(setting.platform)
        elif setting.background in FORWARDING_SHARES:
            found["figure-5-numbers"] += bool(alternatives)
            found["table-2" if setting.background == "forwarding-50" else "table-3"] += 1
        else:
            found["table-1"] += bool(alternatives)
        found["collapse"] += len(points) > 1
        found["streams"] += setting.sources if setting.sources > 2 else setting.sources - 1
    found["ranking"] = sum(len(list(combinations(platforms, 2))) for platforms in alone.values())
    return sum(count for name, count in found.items() if tables is None or name in tables)


def _with_background(setting: DesignPoint, background: str) -> DesignPoint:
    return replace(setting, background=background)


def _with_platform(setting: DesignPoint, platform: str) -> DesignPoint:
    return replace(setting, platform=platform)


# -- file --------------------------------------------------------------------------------------------------------------
# A plan's file as written, with every value checked. plan.py has its meaning, points.py its rules.

Order = Literal["blocked-random", "full-random", "as-listed"]

MATRIX_KEYS = ("platforms", "frame_sizes", "targets", "sources", "backgrounds")
MATRIX_NEEDS = ("platforms", "frame_sizes", "targets", "duration_s")
NON_GUEST_KEYS = (
    "points",
    "frame_sizes",
    "targets",
    "sources",
    "backgrounds",
    "include",
    "exclude",
    "overrides",
    "search",
    "experiments",
    "duration_s",
    "generator",
    "observe",
    "warm_up",
    "claims",
    "drain_s",
    "drop_reasons",
    "packet_times",
)
"""Keys that plans of multiple guests do not have: they forward no frames."""

GUEST_KINDS = guest_kinds()
"""By the keys of guest experiments: a plan has one of them, or frames to forward."""

RULE_KEYS = ("include", "exclude", "overrides")
"""Keys that modify a matrix, and so exclude a list of points."""


def _target(value: Any) -> TargetWish:
    try:
        # Parsed as text, so that a bare number is refused: 100, written for 100 Mbit/s, would send one packet in seven
        # seconds.
        return parse_target(str(value))
    except ValueError as exc:
        raise ValueError(f"is not a valid target | allowed: {exc}") from None


def _margin(value: Any) -> float:
    ratio: float | None = None
    if isinstance(value, str):
        with suppress(ValueError):
            ratio = parse_ratio(value)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        ratio = float(value)
    if ratio is None or not 0 < ratio < 1:
        raise ValueError("is not a valid ratio | allowed: a share above 0 and below 1, such as 2% or 0.02")
    return ratio


def _build_choice_check(choices: Sequence[str]) -> Callable[[str], str]:
    def check(value: str) -> str:
        if value not in choices:
            raise ValueError(f"is not one of the known words | allowed: {', '.join(choices)}")
        return value

    return check


def _several(value: Any) -> Any:
    """Accept one value or a list of values."""
    return value if isinstance(value, (list, tuple)) else (value,)


def _no(value: Any) -> Any:
    """Accept ``warm_up: false`` for no warm-up."""
    return None if value is False else value


def _or_one(schema: dict[str, Any]) -> None:
    """Schema for editors: one value is allowed in place of a list."""
    for prop in schema["properties"].values():
        lists = [prop, *prop.get("anyOf", ())]
        found = next((each for each in lists if each.get("type") == "array"), None)
        if found is None:
            continue
        if found is prop:
            array = {key: prop.pop(key) for key in ("type", "items", "minItems", "maxItems")}
            prop["anyOf"] = [array, array["items"]]
        else:
            prop["anyOf"].append(found["items"])


FileTarget = Annotated[TargetWish, PlainValidator(_target, json_schema_input_type=str)]
Background = Annotated[str, AfterValidator(_build_choice_check(BACKGROUNDS))]
Generator = Annotated[str, AfterValidator(known_generator)]
Observe = Annotated[str, AfterValidator(_build_choice_check(OBSERVE))]
Claim = Annotated[str, AfterValidator(_build_choice_check(tuple(CLAIMS)))]
Margin = Annotated[float, PlainValidator(_margin, json_schema_input_type=str | float)]
# Strict: YAML's true is not a count.
Count = Annotated[int, Field(strict=True, ge=1, le=100_000)]
Seconds = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Duration = Annotated[Seconds, Field(gt=0, le=MAX_DURATION_S)]
Yes = Annotated[bool, Field(strict=True)]

T = TypeVar("T")
Several = Annotated[tuple[T, ...], Field(min_length=1, max_length=10_000), BeforeValidator(_several)]


class PointEntry(StrictModel):
    """One entry of ``points``. Missing keys are taken from the top of the file."""

    platform: Name
    frame_size: Count
    target: FileTarget
    sources: Count = 1
    background: Background = "none"
    duration_s: Duration | None = None
    repetitions: Count | None = None
    frame_size_includes_fcs: Yes | None = None
    generator: Generator | None = None
    observe: Observe | None = None


class IncludeEntry(StrictModel):
    """Points added to the matrix: every combination of these values. Without a platform: every one of the plan."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra=_or_one)

    platform: Several[Name] | None = None
    frame_size: Several[Count]
    target: Several[FileTarget]
    sources: Several[Count] = (1,)
    background: Several[Background] = ("none",)
    duration_s: Duration | None = None
    repetitions: Count | None = None


class ExcludeEntry(StrictModel):
    """Points removed from the matrix: those that agree in every factor named here."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra=_or_one)

    platform: Several[Name] | None = None
    frame_size: Several[Count] | None = None
    target: Several[FileTarget] | None = None
    sources: Several[Count] | None = None
    background: Several[Background] | None = None


class Override(StrictModel):
    """Values of one platform that replace the plan's."""

    frame_sizes: Annotated[tuple[Count, ...], Field(min_length=1, max_length=10_000)] | None = None
    targets: Annotated[tuple[FileTarget, ...], Field(min_length=1, max_length=10_000)] | None = None
    sources: Annotated[tuple[Count, ...], Field(min_length=1, max_length=1000)] | None = None
    backgrounds: Annotated[tuple[Background, ...], Field(min_length=1)] | None = None
    duration_s: Duration | None = None
    repetitions: Count | None = None
    tolerances: Tolerances | None = None


def _build_guests_schema(kind: str) -> JsonValue:
    others = [other for other in GUEST_KINDS if other != kind]
    return {
        "required": ["platforms", kind],
        "not": {"anyOf": [{"required": [key]} for key in (*NON_GUEST_KEYS, *others)]},
    }


class PlanFile(BaseModel):
    """The file as written: a matrix (its factors as lists) or ``points``."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={
            "oneOf": [
                {"required": list(MATRIX_NEEDS), "not": {"required": ["points"]}},
                {
                    "required": ["platforms", "frame_sizes", "search"],
                    "not": {"anyOf": [{"required": [key]} for key in ("points", "targets")]},
                },
                {
                    "required": ["platforms", "frame_sizes", "experiments"],
                    "not": {"anyOf": [{"required": [key]} for key in ("points", "targets", "search")]},
                },
                *map(_build_guests_schema, GUEST_KINDS),
                {
                    "required": ["points"],
                    "not": {"anyOf": [{"required": [key]} for key in (*MATRIX_KEYS, *RULE_KEYS)]},
                },
            ]
        },
    )

    plan: Name
    platforms: Annotated[tuple[Name, ...], Field(min_length=1, max_length=1000)] | None = None
    frame_sizes: Annotated[tuple[Count, ...], Field(min_length=1, max_length=10_000)] | None = None
    targets: Annotated[tuple[FileTarget, ...], Field(min_length=1, max_length=10_000)] | None = None
    sources: tuple[Count, ...] = Field(default=(1,), min_length=1, max_length=1000)
    backgrounds: tuple[Background, ...] = Field(default=("none",), min_length=1)
    include: Annotated[tuple[IncludeEntry, ...], Field(max_length=10_000)] = ()
    exclude: Annotated[tuple[ExcludeEntry, ...], Field(max_length=1000)] = ()
    overrides: dict[Name, Override] = Field(default_factory=dict)
    points: Annotated[tuple[PointEntry, ...], Field(min_length=1, max_length=100_000)] | None = None
    duration_s: Duration | None = None
    repetitions: Count = 1
    set_ups: Count | None = None
    margin: Margin | None = None
    claims: Annotated[tuple[Claim, ...], Field(min_length=1, max_length=len(CLAIMS))] | None = None
    order: Order = "blocked-random"
    seed: Annotated[int, Field(strict=True, ge=-(2**63), le=2**63 - 1)] = 1
    frame_size_includes_fcs: Yes = False
    settle_s: Annotated[Seconds, Field(ge=0, le=600)] | None = None
    drain_s: Annotated[Seconds, Field(ge=0.1, le=60)] | None = None
    generator: Generator | None = None
    observe: Observe | None = None
    drop_reasons: DropReasons | None = None
    packet_times: PacketTiming | None = None
    max_redo: Annotated[int, Field(strict=True, ge=0, le=100)] = 2
    retry: Retry = Retry()
    warm_up: Annotated[WarmUp | None, BeforeValidator(_no, json_schema_input_type=WarmUp | bool | None)] = None
    stop: Stop = Stop()
    pre: Annotated[tuple[HookCommand, ...], Field(max_length=100)] = ()
    post: Annotated[tuple[HookCommand, ...], Field(max_length=100)] = ()
    tolerances: Tolerances = Tolerances()
    search: Search | None = None
    experiments: dict[Name, dict[str, Any]] = Field(default_factory=dict)

    def frame(self, size_bytes: int, entry: PointEntry | None = None) -> FrameSize:
        """A frame size in the convention of the entry, or of the file if the entry has none."""
        own = None if entry is None else entry.frame_size_includes_fcs
        return FrameSize(size_bytes, self.frame_size_includes_fcs if own is None else own)


_GUEST_FIELDS: dict[str, Any] = {name: (kind.planned.Factors | None, None) for name, kind in GUEST_KINDS.items()}
PLAN_FILE = create_model("PlanFile", __base__=PlanFile, __doc__=PlanFile.__doc__, **_GUEST_FIELDS)
"""The model of a file: also with a key for each kind of guest experiment."""

register_keys("PlanFile", None, PLAN_FILE)
_SECTIONS: dict[str, type[BaseModel]] = {
    "tolerances": Tolerances,
    "points": PointEntry,
    "include": IncludeEntry,
    "exclude": ExcludeEntry,
    "overrides": Override,
    "retry": Retry,
    "warm_up": WarmUp,
    "stop": Stop,
    "pre": HookCommand,
    "post": HookCommand,
    "search": Search,
}
for _name, _kind in GUEST_KINDS.items():
    _SECTIONS[_name] = _kind.planned.Factors
    _SECTIONS |= {f"{_name}.{key}": model for key, model in _kind.planned.sections.items()}
_SECTIONS |= {f"search.{name}": model for name, model in SEARCH_SECTIONS.items()}
for _section, _model in _SECTIONS.items():
    register_keys("PlanFile", _section, _model)


# -- normalization -----------------------------------------------------------------------------------------------------
# Completes a plan's file without targets (searches, guest experiments) to an ordinary matrix.

ANY_FRAME_BYTES = 64
"""Placeholder frame size of guest experiments, which forward no frames."""


def searches_only(file: PlanFile) -> bool:
    """Whether no point of the matrix is measured, because the search or a plug-in's experiment chooses the loads."""
    return (
        (file.search is not None or bool(file.experiments))
        and file.points is None
        and "targets" not in file.model_fields_set
    )


def has_no_grid(file: PlanFile) -> bool:
    """Whether no point is measured."""
    return find_guest_kind(file) is not None or searches_only(file)


def normalize_file(file: PlanFile) -> PlanFile:
    """Complete a file that measures no grid to a matrix: for a search, with its maximum loads and durations."""
    if (kind := find_guest_kind(file)) is not None:
        return _normalize_guests(file, kind)
    if not searches_only(file):
        return file
    longest_s = 1.0 if file.search is None else file.search.longest_trial_s
    # fields_set stays as written: model_copy would include the updated keys.
    made = file.model_copy(update={"targets": ("max",), "duration_s": file.duration_s or longest_s})
    made.model_fields_set.discard("targets")
    return made


def find_guest_kind(file: PlanFile) -> str | None:
    """The key of the file's guest experiment, or None if it forwards frames."""
    return next((kind for kind in GUEST_KINDS if getattr(file, kind) is not None), None)


def _normalize_guests(file: PlanFile, kind: str) -> PlanFile:
    """Raises ConfigError for a key of forwarding plans or of another kind."""
    wrong = next((key for key in NON_GUEST_KEYS if key in file.model_fields_set), None)
    if wrong is not None:
        raise ConfigError(
            f"cannot be combined with {kind}: a plan has frames to forward or {GUEST_KINDS[kind].instead}; write one "
            "for each",
            key=wrong,
        )
    other = next((key for key in GUEST_KINDS if key != kind and getattr(file, key) is not None), None)
    if other is not None:
        raise ConfigError(f"cannot be combined with {kind}: a plan has one of them", key=other)
    written = set(file.model_fields_set)
    made = file.model_copy(
        update={"frame_sizes": (ANY_FRAME_BYTES,), "targets": ("max",), "duration_s": 1.0, "set_ups": None}
    )
    made.model_fields_set.clear()
    made.model_fields_set.update(written)
    return made
