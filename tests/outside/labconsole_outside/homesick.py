"""A traffic generator whose node code does not import where it arrives. Tests see what becomes of it."""

from labconsole.model.generator import GeneratorInfo

GENERATOR = GeneratorInfo(name="homesick", summary="cannot be imported", node="labconsole_outside.homesick_node")
