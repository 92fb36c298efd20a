"""YAML files with line numbers: a pydantic error becomes file:line: key: problem, value, allowed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.constructor import RoundTripConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.scalarbool import ScalarBoolean

from labconsole.errors import SHOWN_CHARACTERS, ConfigError
from labconsole.model.strict_model import describe_problem

M = TypeVar("M", bound=BaseModel)

MAX_FILE_BYTES = 4 * 1024 * 1024
"""A plan or an inventory of this size is a mistake (a capture, a core file), not a configuration."""

MAX_VALUES = 1_000_000
"""Values in a file once its aliases are followed: some lines of aliases of aliases would be billions."""

MAX_MARKS = 500_000
"""Maximum characters in the text that may begin or end a value, counted before parsing: the parser needs a kilobyte per
value.
"""

_MARKS = (",", ":", "[", "{", "- ", "? ", "\n")

MAX_DEPTH = 64

MAX_MERGED_VALUES = 10_000
"""Repeated by merge keys (``<<``), each key counted as ``MERGE_KEY_VALUES`` more.

The parser compares all mappings that merge the same one with each other.
"""

MERGE_KEY_VALUES = 10
MAX_NUMBER_CHARACTERS = 10_000
"""Of a number: one in base 60 takes time by the square of its length."""

_TAG = "tag:yaml.org,2002:"
_NUMBERS = (f"{_TAG}int", f"{_TAG}float")


class _BoundedConstructor(RoundTripConstructor):
    """Refuses what would take much longer to construct than to parse."""

    def construct_document(self, node: Node) -> Any:
        _check_cost(node)
        return super().construct_document(node)


def load_yaml(path: Path) -> CommentedMap:
    """The mapping in a YAML file, with line numbers. Raises ConfigError naming the file and line."""
    text = read_text(path).removeprefix("\ufeff")
    if len(text) > MAX_MARKS and sum(map(text.count, _MARKS)) > MAX_MARKS:
        raise ConfigError(f"holds more than {MAX_MARKS} values; is this the right file?", file=str(path))
    try:
        yaml = YAML(typ="rt", pure=True)
        yaml.Constructor = _BoundedConstructor
        data = yaml.load(StringIO(text))
    except MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        problem = exc.problem or exc.context or "unreadable"
        raise _not_yaml(problem, path, mark.line + 1 if mark else None) from exc
    except (YAMLError, ValueError, RecursionError) as exc:
        raise _not_yaml(str(exc), path) from exc
    except Exception as exc:  # the parser crashes on some input instead of refusing it
        raise _not_yaml(f"{type(exc).__name__} while reading it", path) from exc
    if data is None:
        raise ConfigError("is empty", file=str(path), allowed="a mapping of keys to values")
    if not isinstance(data, CommentedMap):
        raise ConfigError("must be a mapping of keys to values", file=str(path), line=1)
    return data


def _check_cost(document: Node) -> None:
    """Raise MarkedYAMLError for too long a number, and for merge keys that repeat more than ``MAX_MERGED_VALUES``."""
    known: set[int] = set()
    waiting, sizes = [document], dict[int, int]()
    left = MAX_MERGED_VALUES
    while waiting:
        node = waiting.pop()
        if id(node) in known:
            continue
        known.add(id(node))
        if isinstance(node, ScalarNode) and node.tag in _NUMBERS and len(node.value) > MAX_NUMBER_CHARACTERS:
            words = f"a number has {len(node.value)} characters; allowed: {MAX_NUMBER_CHARACTERS}"
            raise MarkedYAMLError(problem=words, problem_mark=node.start_mark)
        if isinstance(node, SequenceNode):
            waiting += node.value
        if isinstance(node, MappingNode):
            waiting += [each for pair in node.value for each in pair]
            left -= sum(MERGE_KEY_VALUES + _size(each, sizes) for each in _merged(node))
            if left < 0:
                words = f"its merge keys repeat more than {MAX_MERGED_VALUES} values"
                raise MarkedYAMLError(problem=words, problem_mark=node.start_mark)


def _merged(node: MappingNode) -> Iterator[MappingNode]:
    """The mappings that the merge keys of this one name."""
    for key, value in node.value:
        if key.tag == f"{_TAG}merge":
            each = value.value if isinstance(value, SequenceNode) else [value]
            yield from (mapping for mapping in each if isinstance(mapping, MappingNode))


def _size(node: MappingNode, known: dict[int, int]) -> int:
    """Keys of a mapping, with all that it merges."""
    if id(node) not in known:
        known[id(node)] = len(node.value) + sum(_size(each, known) for each in _merged(node))
    return known[id(node)]


def read_text(path: Path) -> str:
    """The unchanged text of a configuration file, including a byte order mark. Raises ConfigError naming the file."""
    try:
        with path.open("rb") as stream:  # also limits files without a size (a pipe, a device)
            content = stream.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise ConfigError(f"is larger than {MAX_FILE_BYTES} bytes; is this the right file?", file=str(path))
        text = content.decode("utf-8")
    except FileNotFoundError:
        raise ConfigError("no such file", file=str(path)) from None
    except UnicodeDecodeError as exc:
        raise _not_utf8(content, exc.start, path) from exc
    except OSError as exc:
        raise ConfigError(f"cannot be read: {exc.strerror or exc}", file=str(path)) from exc
    if "\0" in text:
        raise _not_utf8(content, content.index(b"\0"), path)
    return text


BYTE_ORDER_MARKS = {
    "UTF-32": (b"\xff\xfe\0\0", b"\0\0\xfe\xff"),
    "UTF-16": (b"\xff\xfe", b"\xfe\xff"),
}
"""The first bytes of files in these encodings."""


def _not_utf8(content: bytes, at: int, path: Path) -> ConfigError:
    """The error for a file that is not text in UTF-8: with its encoding if recognised, else the first invalid byte."""
    name = next((name for name, marks in BYTE_ORDER_MARKS.items() if content.startswith(marks)), None)
    if name is None and b"\0\0" in (content[0:4:2], content[1:4:2]):
        name = "UTF-16"  # without a mark: one of two bytes of every Latin character is 0
    if name is not None:
        return ConfigError(f"is {name} text; save it as UTF-8", file=str(path))
    line = content.count(b"\n", 0, at) + 1
    return ConfigError(f"is not UTF-8 text: byte 0x{content[at]:02x}; save it as UTF-8", file=str(path), line=line)


def _not_yaml(problem: str, path: Path, line: int | None = None) -> ConfigError:
    """The parser's error, shortened to fit a sentence: it quotes from the file."""
    first_line = problem.partition("\n")[0][:SHOWN_CHARACTERS]
    return ConfigError(f"not valid YAML: {first_line}", file=str(path), line=line)


def find_line(data: Any, location: Sequence[str | int]) -> int | None:
    """1-based line of a value in a loaded file, or of the nearest enclosing value that has one."""
    line = None
    node = data
    for step in location:
        try:
            if isinstance(node, CommentedMap) and step in node:
                line = node.lc.key(step)[0] + 1
            elif isinstance(node, CommentedSeq) and isinstance(step, int) and step < len(node):
                line = node.lc.item(step)[0] + 1
            else:
                break
            node = node[step]
        except (KeyError, AttributeError, TypeError):
            break
    return line


@contextmanager
def locate_errors(path: Path) -> Iterator[None]:
    """Add file and line to ConfigErrors without a place, for keys of this file or of a section of it."""
    try:
        yield
    except ConfigError as exc:
        if exc.file is not None or not exc.key:
            raise
        data, steps = load_yaml(path), exc.key.split(".")
        sections = [[name] for name, value in data.items() if isinstance(value, CommentedMap)]
        found = [place for place in ([], *sections) if _has_path(data, [*place, *steps])]
        if len(found) != 1:
            raise
        place = [*found[0], *steps]
        raise ConfigError(
            exc.message,
            file=str(path),
            line=find_line(data, place),
            key=".".join(place),
            value=exc.value,
            allowed=exc.allowed,
        ) from None


def _has_path(node: Any, steps: Sequence[str]) -> bool:
    for step in steps:
        if not isinstance(node, CommentedMap) or step not in node:
            return False
        node = node[step]
    return True


def key_text(location: Sequence[str | int]) -> str:
    """``("streams", 0, "sink")`` as ``streams[0].sink``."""
    text = ""
    for step in location:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text


def plain(data: Any) -> Any:
    """The loaded data as ordinary dicts and lists. Raises ConfigError when its aliases unfold to too much."""
    left = MAX_VALUES

    def unfolded(item: Any, depth: int) -> Any:
        nonlocal left
        left -= 1
        if left < 0 or depth > MAX_DEPTH:
            raise ConfigError(f"holds more than {MAX_VALUES} values, or nests them deeper than {MAX_DEPTH}")
        if isinstance(item, dict):
            return {str(k): unfolded(v, depth + 1) for k, v in item.items()}
        if isinstance(item, list):
            return [unfolded(v, depth + 1) for v in item]
        return _ordinary(item)

    return unfolded(data, 0)


def _ordinary(item: Any) -> Any:
    """A scalar without the parser's memory of its spelling: 0 and 007 are read as a special number type."""
    if isinstance(item, ScalarBoolean):
        return bool(item)
    for kind in (int, float, str):
        if isinstance(item, kind) and not isinstance(item, bool):
            return kind(item)
    return item


def validate(model: type[M], data: CommentedMap, path: Path) -> M:
    """Validate ``data`` as ``model``. Raises ConfigError with the first problem and its line; ``more`` has others."""
    _refuse_other_kind(model, data, path)
    try:
        unfolded = plain(data)
    except ConfigError as exc:
        raise ConfigError(exc.message, file=str(path)) from None
    try:
        return model.model_validate(unfolded)
    except ValidationError as exc:
        raise config_error(exc, data, path) from None


FILE_KINDS: dict[str, tuple[str, frozenset[str]]] = {
    "Inventory": ("a testbed file (hosts.yaml)", frozenset({"testbed", "nodes", "streams"})),
    "PlanFile": ("a plan", frozenset({"plan"})),
    "Settings": ("a settings file", frozenset()),
}
"""By model, the name of its kind of file, and the keys that no other kind has."""


def _refuse_other_kind(model: type[BaseModel], data: CommentedMap, path: Path) -> None:
    """Raises ConfigError for a file of another kind: one with keys of that kind, and none of its own."""
    own, own_keys = FILE_KINDS.get(model.__name__, ("", frozenset()))
    if not own or not own_keys.isdisjoint(data):
        return
    for name, (other, keys) in FILE_KINDS.items():
        if name != model.__name__ and not keys.isdisjoint(data):
            raise ConfigError(f"is {other}; expected: {own}", file=str(path))


MOST_SHOWN = 20
"""Maximum number of shown errors of one file."""


def config_error(exc: ValidationError, data: CommentedMap, path: Path) -> ConfigError:
    """The errors of pydantic, rephrased and in the order of lines; missing keys come last.

    A key that is missing because it is misspelt is reported once, and a list with an invalid entry is not reported as
    too short.
    """
    problems = exc.errors(include_url=False)
    within = {problem["loc"][:end] for problem in problems for end in range(len(problem["loc"]))}
    found: dict[str | None, ConfigError] = {}
    for problem in problems:
        if problem["type"] != "too_short" or problem["loc"] not in within:
            each = _build_error(exc, problem, data, path)
            found.setdefault(each.key, each)
    meant = {
        ".".join(filter(None, [each.key.rpartition(".")[0], name]))
        for each in found.values()
        if each.key is not None
        for name in _NEAR.findall(each.message)
    }
    missing = [each for each in found.values() if each.message == MISSING]
    left = [each for each in found.values() if each.message != MISSING or each.key not in meant]
    left.sort(key=lambda each: (each in missing, each.line or 0))
    first, *more = left[:MOST_SHOWN]
    if len(left) > MOST_SHOWN:
        more.append(ConfigError(f"{len(left) - MOST_SHOWN} more mistakes are not shown", file=str(path)))
    first.more = more
    return first


MISSING = "is required"
_NEAR = re.compile(r"\(did you mean (.*)\?\)$")


def _build_error(exc: ValidationError, problem: ErrorDetails, data: CommentedMap, path: Path) -> ConfigError:
    location = tuple(p for p in problem["loc"] if not (isinstance(p, str) and p.startswith(("function-", "tagged-"))))
    kind, context = problem["type"], problem.get("ctx", {})
    value: object = problem.get("input")
    allowed = None
    if kind == "extra_forbidden":
        message, value = "unknown key", None
        known = _known_keys(exc, location)
        like = difflib.get_close_matches(str(location[-1]), known, 1)
        message += f" (did you mean {like[0]}?)" if like else ""
        allowed = ", ".join(known) or None
    elif kind == "missing":
        message, value = MISSING, None
    elif kind == "value_error" and "error" in context:
        message, _, allowed = str(context["error"]).partition(" | allowed: ")
        if isinstance(value, (dict, list)):
            value = None
    elif kind == "too_short":
        message, value = f"has {context.get('actual_length')} entries", None
        allowed = f"{context.get('min_length')} or more"
    elif kind in ("literal_error", "enum"):
        message, allowed = "is not one of the allowed words", str(context.get("expected"))
    else:
        message, allowed = describe_problem(problem)
        if isinstance(value, (dict, list)):
            value = None
    return ConfigError(
        message,
        file=str(path),
        line=find_line(data, location),
        key=key_text(location),
        value=value,
        allowed=allowed or None,
    )


def _known_keys(exc: ValidationError, location: Sequence[str | int]) -> list[str]:
    steps = tuple(step for step in location[:-1] if isinstance(step, str))
    return KNOWN_KEYS.get((exc.title, steps)) or KNOWN_KEYS.get((exc.title, steps[:1]), [])


KNOWN_KEYS: dict[tuple[str, tuple[str, ...]], list[str]] = {}
"""Allowed keys, by model and the path of a section or its first part; filled by the models."""


def register_keys(title: str, section: str | None, model: type[BaseModel]) -> None:
    """Register the keys of a section (``search``, ``search.latency``), for the error about an unknown one."""
    keys = [field.alias or name for name, field in model.model_fields.items()]
    KNOWN_KEYS[(title, tuple(section.split(".")) if section else ())] = keys
