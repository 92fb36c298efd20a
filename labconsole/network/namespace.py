"""Network namespaces for guests."""

from __future__ import annotations

from typing import ClassVar, List

from labconsole.network.change import ChangedNode, Entry, InterfaceName, NetworkChange, line


class Namespace(NetworkChange, do="namespace"):
    """Make a network namespace, kept alive by a process of the agent's."""

    name: InterfaceName
    namespace: ClassVar[None] = None  # type: ignore[misc]  # made next to the others, not inside one

    def apply(self, node: ChangedNode) -> None:
        node.make_namespace(self.name)
        # Promised only now: a namespace that had this name already must not be removed, and its holder dies with the
        # agent.
        node.promise(self.kind, name=self.name)

    @staticmethod
    def undo(entry: Entry) -> None:
        """Do nothing: the keeper has killed the namespace's process, and the agent ends its own."""

    def commands(self) -> List[str]:
        return [line("ip", "netns", "add", self.name)]
