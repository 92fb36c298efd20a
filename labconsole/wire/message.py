"""Messages as classes that both ends import: requests, replies and events.

A message is a frozen dataclass, built by keyword. The annotations of its fields state the valid values (wire/rules.py);
``parse`` checks data from the wire once and builds the object. The check is assembled from the annotations at the first
message of its kind. A field without a default is required, and a key that is not a field is refused: console and agent
are of one version.

    class ProcessUsage(Request[Usage], op="process.usage"):
        pids: Annotated[List[Count], Most(64)]

``dataclasses`` itself writes and compiles six methods for each class: for all messages that takes an agent as long as
the rest of its start (110 ms compared with 115 ms).
"""

from __future__ import annotations

import functools
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Callable,
    ClassVar,
    Dict,
    Generic,
    List,
    Optional,
    Tuple,
    Type,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from labconsole.wire.clean import clean
from labconsole.wire.rules import Check, Most, Rule, Sentence, bad, flag, list_of, mapping, maybe, plain

if TYPE_CHECKING:
    from typing import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Callable[[Any], Any]:
        """Backport from Python 3.11: tells type checkers that subclasses of a class are dataclasses."""
        return lambda cls: cls


MAX_CODE = 64
MAX_DETAIL_ITEMS = 1000

M = TypeVar("M", bound="Message")
R = TypeVar("R", bound="Message")


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Message:
    """Base of all messages, and of objects within messages."""

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        for name in field_names(cls):
            if name in values or not hasattr(cls, name):
                self.__dict__[name] = values.pop(name)
        if values:
            raise TypeError("%s has no field %s" % (cls.__name__, ", ".join(values)))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("%s cannot be changed" % type(self).__name__)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in field_names(type(self)))

    def __repr__(self) -> str:
        return "%s(%s)" % (type(self).__name__, ", ".join("%s=%r" % item for item in self.__dict__.items()))

    @classmethod
    def parse(cls: Type[M], data: Any, where: str = "") -> M:
        """Build an object from ``data``. Raises WireError("bad_message") naming the field in ``where``."""
        message: M = _reader(cls)(data, where)
        return message

    def check_fields(self) -> None:
        """Refuse fields that contradict each other. Raises WireError("bad_message")."""

    def to_wire(self) -> Dict[str, Any]:
        """Return plain data in the order of the fields, without fields that did not come over the wire."""
        return {name: _plain(value) for name, value in self.__dict__.items()}


class Request(Message, Generic[R]):
    """A request by the console: ``op`` on the wire, answered by a ``reply``.

    ``watches``: the request changes nothing on the node, measures nothing and costs it almost nothing, so a console
    that only watches may send it.
    """

    op: ClassVar[str]
    reply: ClassVar[Type[Message]]
    watches: ClassVar[bool]

    def __init_subclass__(cls, op: str, watches: bool = False) -> None:
        cls.op, cls.watches = op, watches
        (cls.reply,) = get_args(cls.__orig_bases__[0])  # type: ignore[attr-defined]

    def misfit(self, reply: R) -> Optional[str]:
        """Return how a reply of the right class does not fit this request, or None if it fits."""
        return None

    def arguments(self) -> Dict[str, Any]:
        """Return the arguments for the wire: null means the same as leaving the key out."""
        return {name: value for name, value in self.to_wire().items() if value is not None}


class AgentEvent(Message):
    """An event that an agent sends without a request: ``kind`` on the wire."""

    kind: ClassVar[str]

    def __init_subclass__(cls, kind: str) -> None:
        cls.kind = kind


class Done(Message):
    """The reply to a request that was done and has no other result."""


def _code(value: Any, where: str) -> str:
    if type(value) is not str or not value.isprintable() or len(value) > MAX_CODE:
        raise bad(where, "is not a word")
    return value


class Refusal(Message):
    """The reply to a request that was not done: a stable code, a sentence, and details."""

    code: Annotated[str, Rule(_code)]
    message: Sentence
    detail: Annotated[Any, Rule(plain(most=MAX_DETAIL_ITEMS))] = None


def _plain(value: Any) -> Any:
    if isinstance(value, Message):
        return value.to_wire()
    if type(value) is list:
        return [_plain(item) for item in value]
    if type(value) is dict:
        return {key: _plain(item) for key, item in value.items()}
    return value


@functools.lru_cache(maxsize=None)
def _hints(cls: Any) -> Dict[str, Any]:
    hints = get_type_hints(cls, include_extras=True)
    return {name: hint for name, hint in hints.items() if get_origin(hint) is not ClassVar}


def field_names(cls: Any) -> Tuple[str, ...]:
    """Return the fields of a message, in order."""
    return tuple(_hints(cls))


def _compile(cls: Any) -> Check:
    fields: List[Tuple[str, Check, bool]] = [
        (name, build_check(hint), not hasattr(cls, name)) for name, hint in _hints(cls).items()
    ]
    new = object.__new__
    together = cls.check_fields if cls.check_fields is not Message.check_fields else None

    def read(data: Any, where: str) -> Any:
        if type(data) is not dict:
            raise bad(where, "is not an object")
        message = new(cls)
        kept = message.__dict__
        for name, check, needed in fields:
            if name in data:
                kept[name] = check(data[name], name)
            elif needed:
                raise bad(where, "has no %s" % name)
        if len(data) > len(kept):
            raise bad(where, "has an unknown key %s" % clean(min(data.keys() - kept.keys()), 100))
        if together is not None:
            together(message)
        return message

    return read


_reader: Callable[[Any], Check] = functools.lru_cache(maxsize=None)(_compile)


def build_check(hint: Any) -> Check:
    """Build the check that an annotation describes."""
    if hint is bool:
        return flag
    if isinstance(hint, type) and issubclass(hint, Message):
        return _reader(hint)
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Union and len(inner) == 2 and inner[1] is type(None):
        return maybe(build_check(inner[0]))
    if origin is Annotated and isinstance(inner[-1], Rule):
        check: Check = inner[-1].check
        return check
    if origin is Annotated and isinstance(inner[-1], Most):
        most, items = inner[-1], get_args(inner[0])
        if get_origin(inner[0]) is list:
            return list_of(build_check(items[0]), most.entries)
        return mapping(most.key, build_check(items[1]), most.entries)
    raise TypeError("%r does not say what a value must be" % (hint,))
