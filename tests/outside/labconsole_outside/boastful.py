"""A traffic generator that counts what it never sent, once there is much. Tests see what becomes of it."""

from labconsole.model.generator import GeneratorInfo

GENERATOR = GeneratorInfo(name="boastful", summary="counts nonsense", node="labconsole_outside.boastful_node")
