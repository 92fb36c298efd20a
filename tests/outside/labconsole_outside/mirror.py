"""A platform driver: the UUT's own bridge, under another name."""

from labconsole.contracts.driver import DriverInfo
from labconsole.platforms.base.options import read_options
from labconsole.platforms.drivers.raw import RawDriver
from pydantic import BaseModel, ConfigDict, Field


class MirrorOptions(BaseModel):
    """What hosts.yaml may say beside ``driver: mirror``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    polish: int = Field(default=1, ge=1, le=3, description="how often it is wiped")


class MirrorDriver(RawDriver):
    """Forwards by a bridge."""

    about = DriverInfo(
        name="mirror", summary="a bridge with a polish", tried="in tests", Options=MirrorOptions, load_inside=False
    )

    def __init__(self, name, options):
        self.polish = read_options(MirrorOptions, "mirror", name, options).polish
        super().__init__(name, {"forwarding": "bridge"})


DRIVER = MirrorDriver
