"""Network namespaces for guests."""

from __future__ import annotations

from typing import ClassVar, List

from labconsole.network.change import ChangedNode, Entry, InterfaceName, NetworkChange, line


class Namespace(NetworkChange, do="namespace"):
    """Make a network namespace, held by a process of the agent's."""

    name: InterfaceName
    namespace: ClassVar[None] = None  # type: ignore[misc]  # made beside the others, not inside one

    def apply(self, node: ChangedNode) -> None:
        node.make_namespace(self.name)
        # Promised only now, because what has this name already must not be removed: its holder dies with the agent.
        node.promise(self.kind, name=self.name)

    @staticmethod
    def undo(entry: Entry) -> None:
        """Nothing to do for the keeper: it has killed the holder. The agent itself ends its own."""

    def commands(self) -> List[str]:
        return [line("ip", "netns", "add", self.name)]
