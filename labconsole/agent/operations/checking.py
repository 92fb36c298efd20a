"""The operations that only checks use: a survey of the node, cleaning up, listening for marked frames.

Their implementation is imported on first use: most sessions never check.
"""

from __future__ import annotations

from typing import Any, Callable, Dict

from labconsole.agent.operations import handles
from labconsole.agent.operations.reading import Reading
from labconsole.wire.message import Done
from labconsole.wire.survey import (
    Heard,
    ReadListening,
    Removed,
    RemoveLeftovers,
    StartListening,
    StopListening,
    Survey,
    TakeSurvey,
    WatchdogState,
)


class Checking:
    """``reading`` does work in the node's own network namespace, ``watchdog`` reports the watchdog's state."""

    def __init__(self, reading: Reading, watchdog: Callable[[], Dict[str, Any]]) -> None:
        self._reading, self._watchdog = reading, watchdog
        self._listening: Any = None

    def close(self) -> None:
        """Stop listening."""
        if self._listening is not None:
            self._listening.close()

    @handles(TakeSurvey)
    async def survey(self, request: TakeSurvey) -> Survey:
        from labconsole.agent.reading import survey

        found = await self._reading.in_namespace(
            None, lambda: survey.read(request.capture_directory, request.tools, request.guests or [])
        )
        return Survey(**found, watchdog=WatchdogState(**self._watchdog()))

    @handles(RemoveLeftovers)
    async def clean(self, request: RemoveLeftovers) -> Removed:
        from labconsole.agent.reading import survey

        return Removed(removed=await self._reading.in_namespace(None, survey.clean))

    @handles(StartListening)
    async def start_listening(self, request: StartListening) -> Done:
        from labconsole.agent.reading.port_listeners import Listening

        if self._listening is None:
            self._listening = Listening()
        self._listening.start(request.interfaces, request.source_ip)
        return Done()

    @handles(ReadListening)
    async def read_listening(self, request: ReadListening) -> Heard:
        return Heard(heard=[], complete=True) if self._listening is None else Heard(**self._listening.read())

    @handles(StopListening)
    async def stop_listening(self, request: StopListening) -> Heard:
        return Heard(heard=[], complete=True) if self._listening is None else Heard(**self._listening.stop())
