"""torch._inductor, which is not there: its switches are remembered."""

from ._freely import Settings

config = Settings("torch._inductor.config")

__all__ = ["config"]
