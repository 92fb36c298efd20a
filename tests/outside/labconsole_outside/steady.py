"""A traffic generator: one frame per system call, at its own pace. What runs on nodes is steady_node.py."""

from labconsole.model.generator import GeneratorInfo

GENERATOR = GeneratorInfo(
    name="steady", summary="one frame per system call", node="labconsole_outside.steady_node", needs="AF_PACKET"
)
