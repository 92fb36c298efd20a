"""Traffic generators by name: the agent's own, and those of other packages, whose node code the agent's archive
includes.

A plug-in's module has ``GENERATOR``, a GeneratorInfo. The code that runs on nodes is one file of its package. The
console reads and checks it and never imports it. docs/plugins.md lists the definitions it needs.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from labconsole import plugins
from labconsole.errors import ConfigError
from labconsole.model.generator_names import BUILT_IN, PACKAGE, generator_names
from labconsole.model.strict_model import StrictModel, describe_problem
from labconsole.model.yaml_file import key_text

CONTRACT: Final = "labconsole.agent.sending.contract"
"""The one module of labconsole that node code may import."""

MAX_NODE_BYTES: Final = 65_536
MAX_OPTIONS: Final = 100
"""Maximum characters of the options: the record has them next to version and hash."""

NODE_PYTHON: Final = (3, 9)
NEWER_MODULES: Final = frozenset({"tomllib", "annotationlib", "compression"})
"""Modules that the standard library gained after Python 3.9."""

NODE_FUNCTIONS: Final = {"prepare": 1, "send": 2}
"""Functions that node code has to define, with their number of parameters."""

_WORD = re.compile(r"[a-z][a-z0-9_]{0,29}\Z")
_TAKEN: ContextVar[bool] = ContextVar("plug-ins of elsewhere are taken", default=False)


class NoOptions(StrictModel):
    """No options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorInfo:
    """A description of another package's generator.

    ``node``: the module of its own package that runs on nodes. ``programs``: those it runs there, which `labconsole
    check` looks for. ``needs``: requirements on the node's kernel, as text. ``Options``: the options that hosts.yaml
    may set under ``generators``; all of them go to the node and into the record, as one short text.
    """

    name: str
    summary: str
    node: str
    programs: tuple[str, ...] = ()
    needs: str = ""
    Options: type[BaseModel] = NoOptions


@dataclass(frozen=True, slots=True)
class Generator:
    """A usable generator: its description, and the file for the nodes."""

    about: GeneratorInfo
    code: bytes

    @property
    def sha256(self) -> str:
        """SHA-256 of the file for the nodes, in hexadecimal."""
        return hashlib.sha256(self.code).hexdigest()


def known_generator(name: str) -> str:
    """Validate the name in a field. Raises ValueError for an unknown generator, phrased for such a field."""
    if name in BUILT_IN or name in generator_names() or (_TAKEN.get() and _WORD.match(name)):
        return name
    raise ValueError(f"is not one of the known words | allowed: {', '.join(generator_names())}")


@contextmanager
def of_elsewhere() -> Iterator[None]:
    """Accept names of plug-ins that are not installed, while stored records of other machines are read."""
    token = _TAKEN.set(True)
    try:
        yield
    finally:
        _TAKEN.reset(token)


def taken_from_elsewhere() -> bool:
    """Whether the names being read may belong to plug-ins that are not installed."""
    return _TAKEN.get()


def refused_generator(name: str) -> str | None:
    """Why the generator cannot send, or None if it can, as far as the console knows."""
    if name in BUILT_IN or (_TAKEN.get() and name not in generator_names() and _WORD.match(name)):
        return None
    if name not in generator_names():
        return "is not a generator"
    try:
        load_generator(name)
    except plugins.PluginError as exc:
        return str(exc)
    return None


def generator_options(name: str, given: Mapping[str, Mapping[str, Any]]) -> str | None:
    """A generator's options with their defaults, as JSON, or None if it has none. ``given``: those of hosts.yaml.

    Raises ConfigError for an unknown option, a refused value, and an unusable generator.
    """
    if name in BUILT_IN or (_TAKEN.get() and name not in generator_names()):
        return None
    try:
        model = load_generator(name).about.Options
    except plugins.PluginError as exc:
        raise ConfigError(str(exc), key="generator", value=name, allowed=", ".join(generator_names())) from None
    try:
        options = model.model_validate(given.get(name, {}))
    except ValidationError as exc:
        problem = exc.errors(include_url=False)[0]
        message, allowed = describe_problem(problem)
        if problem["type"] == "extra_forbidden":
            message, allowed = f"unknown option of generator {name}", ", ".join(model.model_fields) or "(none)"
        where, value = key_text(("generators", name, *problem["loc"])), problem.get("input")
        value = None if isinstance(value, dict | list) else value
        raise ConfigError(message, key=where, value=value, allowed=allowed) from None
    if not model.model_fields:
        return None
    text = json.dumps(options.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
    if len(text) > MAX_OPTIONS:
        too_long = f"is too much: {len(text)} characters as JSON"
        raise ConfigError(too_long, key=f"generators.{name}", allowed=f"at most {MAX_OPTIONS}")
    return text


@cache
def load_generator(name: str) -> Generator:
    """Load a generator of another package. Raises PluginError, which names it and the problem."""
    return generator_of(plugins.load(PACKAGE, name), name)


def generator_of(module: ModuleType, name: str) -> Generator:
    """Build the generator that a plug-in's module offers under this name. Raises PluginError."""
    about = getattr(module, "GENERATOR", None)
    if not isinstance(about, GeneratorInfo) or about.name != name:
        raise _unusable(name, f"its GENERATOR is not a GeneratorInfo with the name {name}")
    if not _WORD.match(name) or name in BUILT_IN:
        raise _unusable(name, "its name is not a word of small letters, digits and _, or one of ours has it")
    if (wrong := _wrong_field(about)) is not None:
        raise _unusable(name, f"its GENERATOR says {wrong}")
    if about.node.partition(".")[0] != module.__name__.partition(".")[0]:
        raise _unusable(name, f"its node code {about.node} is not in its own package")
    code = _read(name, about.node)
    trouble = code_trouble(code)
    if trouble is not None:
        raise _unusable(name, f"its node code {about.node} {trouble}")
    return Generator(about, code)


def _wrong_field(about: GeneratorInfo) -> str | None:
    """The first field of the wrong type, as the end of a sentence: nothing else checks a plug-in's module."""
    texts = (about.node, about.summary, about.needs)
    if not all(isinstance(each, str) for each in texts):
        return "node, summary or needs that is not a text"
    programs: object = about.programs
    if not isinstance(programs, tuple) or not all(isinstance(each, str) for each in programs):
        return "programs that are not a tuple of texts"
    options: object = about.Options
    if not isinstance(options, type) or not issubclass(options, BaseModel):
        return "Options that are not a model of pydantic"
    return None


def usable_generators() -> dict[str, Generator]:
    """Usable generators of other packages, by name."""
    found = {}
    for name in plugins.find_external_names(PACKAGE):
        try:
            found[name] = load_generator(name)
        except plugins.PluginError:  # reported on use, and by `labconsole doctor`
            continue
    return found


def _unusable(name: str, why: str) -> plugins.PluginError:
    return plugins.PluginError(f"plug-in {name} cannot be used: {why}")


def _read(name: str, node: str) -> bytes:
    """Read the one file of a module, which is located and not imported."""
    try:
        spec = find_spec(node)
    except (Exception, SystemExit) as exc:  # find_spec imports the packages above the module, which are foreign code
        raise _unusable(name, f"its node code {node} is not found: {type(exc).__name__}: {exc}") from exc
    if spec is None or spec.origin is None or not spec.origin.endswith(".py") or spec.submodule_search_locations:
        raise _unusable(name, f"its node code {node} is not one file of Python")
    try:
        with Path(spec.origin).open("rb") as file:
            return file.read(MAX_NODE_BYTES + 1)
    except OSError as exc:
        raise _unusable(name, f"its node code {node} cannot be read: {exc.strerror or exc}") from exc


def code_trouble(code: bytes) -> str | None:
    """Why a file cannot be shipped, as the end of a sentence, or None if it can."""
    if len(code) > MAX_NODE_BYTES:
        return f"is longer than {MAX_NODE_BYTES} byte"
    try:
        tree = ast.parse(code, feature_version=NODE_PYTHON)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        where = f"line {exc.lineno}: {exc.msg}" if isinstance(exc, SyntaxError) else str(exc)
        return f"is not Python {NODE_PYTHON[0]}.{NODE_PYTHON[1]}: {where}"
    for place in ast.walk(tree):
        for wanted in _imported(place):
            if wanted == CONTRACT or wanted.partition(".")[0] in sys.stdlib_module_names - NEWER_MODULES:
                continue
            return (
                f"imports {wanted} (line {getattr(place, 'lineno', 0)}): nodes have the standard library of Python "
                f"{NODE_PYTHON[0]}.{NODE_PYTHON[1]} and {CONTRACT}"
            )
    defined = {each.name: len(each.args.args) for each in tree.body if isinstance(each, ast.FunctionDef)}
    for function, parameters in NODE_FUNCTIONS.items():
        if defined.get(function) != parameters:
            return f"does not define {function} with {parameters} parameter{'s' if parameters > 1 else ''}"
    return None


def _imported(place: ast.AST) -> list[str]:
    """The modules that a statement imports, by their full names; a relative one begins with a dot."""
    if isinstance(place, ast.Import):
        return [alias.name for alias in place.names]
    if isinstance(place, ast.ImportFrom):
        return ["." * place.level + (place.module or "")]
    return []
