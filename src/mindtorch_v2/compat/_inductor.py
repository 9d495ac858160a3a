"""torch._inductor, which is not there: its switches are remembered."""

from .settings import Settings

config = Settings("torch._inductor.config")

__all__ = ["config"]
