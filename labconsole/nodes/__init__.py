"""SSH sessions with an agent in each: what the engine's ports call Connect and AgentLink. docs/ssh.md says how."""

from labconsole.nodes.link import NodeLink, connect
from labconsole.nodes.route import shell_argv

__all__ = ["NodeLink", "connect", "shell_argv"]
