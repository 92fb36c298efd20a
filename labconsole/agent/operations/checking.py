"""The operations that only a check asks for: a survey of the node, cleaning up, listening for marked frames.

What does the work is imported when it is first asked for: most sessions never check.
"""

from __future__ import annotations

from typing import Any, Awaitable, Callable, Dict

from labconsole.wire.codec import field, names

Args = Dict[str, Any]
Work = Callable[[], Dict[str, Any]]


class Checking:
    """``in_namespace`` does work in the node's own network namespace, ``watchdog`` tells how that stands."""

    def __init__(
        self, in_namespace: Callable[[Work], Awaitable[Dict[str, Any]]], watchdog: Callable[[], Dict[str, Any]]
    ) -> None:
        self._in_namespace, self._watchdog = in_namespace, watchdog
        self._listening: Any = None

    def operations(self) -> Dict[str, Callable[[Args], Awaitable[Dict[str, Any]]]]:
        """What each operation's name stands for."""
        return {
            "survey": self._survey,
            "clean": self._clean,
            "listen.start": self._listen_start,
            "listen.read": self._listen_read,
            "listen.stop": self._listen_stop,
        }

    def close(self) -> None:
        """Listen no more."""
        if self._listening is not None:
            self._listening.close()

    async def _survey(self, args: Args) -> Dict[str, Any]:
        from labconsole.agent.reading import survey

        directory, tools = field(args, "capture_directory", str, optional=True), names(args, "tools")
        guests = names(args, "guests", optional=True)
        found = await self._in_namespace(lambda: survey.read(directory, tools, guests))
        return {**found, "watchdog": self._watchdog()}

    async def _clean(self, args: Args) -> Dict[str, Any]:
        from labconsole.agent.reading import survey

        return await self._in_namespace(lambda: {"removed": survey.clean()})

    async def _listen_start(self, args: Args) -> Dict[str, Any]:
        from labconsole.agent.reading.listen import Listening

        interfaces = names(args, "interfaces")
        if self._listening is None:
            self._listening = Listening()
        self._listening.start(interfaces)
        return {}

    async def _listen_read(self, args: Args) -> Dict[str, Any]:
        return {"heard": []} if self._listening is None else dict(self._listening.read())

    async def _listen_stop(self, args: Args) -> Dict[str, Any]:
        return {"heard": []} if self._listening is None else dict(self._listening.stop())
