"""A traffic generator: one frame per system call, at its own pace. What runs on nodes is steady_node.py."""

from labconsole.model.generator import GeneratorInfo
from pydantic import BaseModel, ConfigDict, Field


class SteadyOptions(BaseModel):
    """What hosts.yaml may say under ``generators: {steady: …}``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    burst: int = Field(default=1, ge=1, le=64, description="frames that it sends at once when they are due")


GENERATOR = GeneratorInfo(
    name="steady", summary="one frame per system call", node="labconsole_outside.steady_node", needs="AF_PACKET",
    Options=SteadyOptions,
)
