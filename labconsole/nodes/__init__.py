"""SSH sessions with an agent in each: what the engine's ports call Connect and AgentLink. docs/ssh.md says how."""

import logging

from labconsole.nodes.link import NodeLink, connect
from labconsole.nodes.route import shell_argv

__all__ = ["NodeLink", "connect", "shell_argv"]

# Without a handler of anybody's, Python would print warnings into the middle of the console's screen.
logging.getLogger("labconsole.nodes").addHandler(logging.NullHandler())
