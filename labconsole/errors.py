"""The exception tree. Every error a user can meet is one of these and reads as one sentence.

LabError                    base; carries ``failure``, a stable word that goes into run records
  ConfigError               a file, a key or an argument is wrong             exit 2
    LackingHere               this testbed lacks what another one may have
    OtherTestbed              a plan is right, and needs what this testbed lacks
  NodeError                 something about one node                          exit 3
    NodeUnreachable           could not connect or authenticate
    NodeLost                  was connected, the link or the agent went away
    CapabilityMissing         a tool, a module or a permission is absent
    TooLittleMemory           guests are to be given more memory than it has
    AgentError                the node refused or failed a request
      LeaseHeld                 another operator is measuring with the node
  LabSetupError             the local testbed could not be built or found     exit 3
  MeasurementError          the trial is void; what was counted is kept       exit 1
    Aborted                   the operator stopped it before anything was sent  exit 130
    GuestLacks                its guests lack what it needs, whenever it is taken
    LeaseTaken                another operator took the testbed over           exit 3
    CounterInconsistency      a counter decreased, or more came out than went in
  CaptureFormatError        a capture file cannot be read                     exit 2
  StoreError                the run store cannot be read or written           exit 2
    StoreHeld                 another process does what only one may do         exit 3
"""

from __future__ import annotations

from collections.abc import Sequence

SHOWN_CHARACTERS = 200
"""Of a wrong value: it may be a whole file."""


class LabError(Exception):
    """Raised (as a subclass) for every failure that a user can understand and act on."""

    failure = "lab_error"
    exit_code = 1


class ConfigError(LabError):
    """Raised when a file, a key or an argument is wrong: says where, which value and what is allowed."""

    failure = "config_error"
    exit_code = 2
    more: Sequence[ConfigError] = ()
    """What else is wrong in the same file."""

    @property
    def sentences(self) -> list[str]:
        """One sentence for each mistake."""
        return [str(self), *map(str, self.more)]

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        key: str | None = None,
        value: object = None,
        allowed: str | None = None,
    ) -> None:
        self.message, self.file, self.line, self.key, self.value, self.allowed = (
            message,
            file,
            line,
            key,
            value,
            allowed,
        )
        if key and len(key) > SHOWN_CHARACTERS:
            key = f"{key[: SHOWN_CHARACTERS - 1]}…"
        where = f"{file}:{line}: " if file and line else f"{file}: " if file else ""
        text = where + (f"{key}: " if key else "") + message
        if value is not None:
            text += f", got {format_value(value)}"
        if allowed:
            text += f"; allowed: {allowed}"
        super().__init__(text)


def format_value(value: object) -> str:
    """A value as it was written, cut to the length that a sentence can take."""
    try:
        text = repr(value)
    except ValueError:  # a number of more digits than Python writes out
        return "a number of thousands of digits"
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"


class MissingOnTestbed(ConfigError):
    """Raised for a request that is right in itself where this testbed lacks something; ``need`` says what, in words."""

    def __init__(self, message: str, *, need: str, key: str, value: object, allowed: str) -> None:
        self.need = need
        super().__init__(message, key=key, value=value, allowed=allowed)


class OtherTestbed(ConfigError):
    """Raised for a plan that is right in itself and needs what this testbed does not have: ``needs``, in words."""

    failure = "other_testbed"

    def __init__(
        self,
        needs: Sequence[str],
        *,
        has: Sequence[str],
        file: str | None = None,
        line: int | None = None,
        key: str | None = None,
        value: object = None,
    ) -> None:
        self.needs = tuple(needs)
        super().__init__(
            f"is for another testbed: it needs {', '.join(needs)}; this one (hosts.yaml) has {' and '.join(has)}",
            file=file,
            line=line,
            key=key,
            value=value,
        )


class NodeError(LabError):
    """Raised when one node cannot do its part. ``operation`` says what was being done."""

    failure = "node_error"
    exit_code = 3

    def __init__(self, node: str, message: str, *, operation: str | None = None) -> None:
        self.node, self.message, self.operation = node, message, operation
        super().__init__(f"{node}: {message}")


class NodeUnreachable(NodeError):
    """Raised when a node cannot be connected to, or refuses the key."""

    failure = "node_unreachable"


class NodeLost(NodeError):
    """Raised when a node that was connected has gone away."""

    failure = "node_lost"


class NodeSilent(NodeLost):
    """Raised when a node did not answer in time; its link and its agent may be there."""


class CapabilityMissing(NodeError):
    """Raised when a node lacks a tool, a module or a permission."""

    failure = "capability_missing"


class TooLittleMemory(NodeError):
    """Raised when guests are to be given more memory than the node has available."""

    failure = "no_memory"


class AgentError(NodeError):
    """Raised when the agent on a node answers a request with an error; ``code`` is the agent's stable word."""

    failure = "agent_error"

    def __init__(
        self, node: str, message: str, *, code: str = "unknown", operation: str | None = None, detail: object = None
    ) -> None:
        self.code, self.detail = code, detail
        super().__init__(node, message, operation=operation)


class LeaseHeld(AgentError):
    """Raised when another operator holds a node. The message says who, since when, until when and what for."""

    failure = "lease_held"


class OnlyWatches(ConfigError):
    """Raised when a session that only watches should do more."""

    failure = "only_watches"

    def __init__(self) -> None:
        super().__init__("this console only watches: --read-only")


class LabSetupError(LabError):
    """Raised when the local testbed cannot be built, found or torn down."""

    failure = "lab_setup_error"
    exit_code = 3


class MeasurementError(LabError):
    """Raised when a trial is void."""

    failure = "measurement_error"


class Aborted(MeasurementError):
    """Raised when the operator stops a run before its first packet: there is nothing to keep."""

    failure = "aborted"
    exit_code = 130


class GuestLacks(MeasurementError):
    """Raised when guests lack what a trial needs: another attempt would find the same."""


class LeaseTaken(MeasurementError):
    """Raised when another operator takes a node over on purpose: ``by`` and for what ``purpose``."""

    failure = "lease_taken"
    exit_code = 3

    def __init__(self, node: str, by: str, purpose: str) -> None:
        self.node, self.by, self.purpose = node, by, purpose
        self.message = f"{by} took the testbed over for {purpose}"
        super().__init__(f"{node}: {self.message}")


class CounterInconsistency(MeasurementError):
    """Raised when a counter decreased or counts contradict each other."""

    failure = "counter_inconsistency"


class CaptureFormatError(LabError):
    """Raised when a capture file is not in a format this program reads."""

    failure = "capture_format_error"
    exit_code = 2


class StoreError(LabError):
    """Raised when the run store cannot be opened, read or written."""

    failure = "store_error"
    exit_code = 2


class StoreHeld(StoreError):
    """Raised when another process holds ``what`` in a store; ``holder`` is what it said of itself."""

    failure = "store_held"
    exit_code = 3

    def __init__(self, what: str, holder: str) -> None:
        self.what, self.holder = what, holder
        super().__init__(f"{what} is locked by {holder}")
