"""DataParallel on the one device there is: the module itself, one level down."""

from __future__ import annotations

from typing import Any

from ...core.tap import USER_SCOPE, event_id, region
from ..modules.module import Module

_FORWARD = event_id("DataParallel.forward", USER_SCOPE, annotation=True)


class DataParallel(Module):
    """Calls its module; keeps torch's attribute `module`, hence its keys in state dicts."""

    def __init__(self, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[int] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        with region(_FORWARD):
            return self.module(*inputs, **kwargs)


def data_parallel(
    module: Any, inputs: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0, module_kwargs: Any = None
) -> Any:
    """An error, as in a torch without accelerators: call the module itself."""
    raise RuntimeError("device type could not be determined; call the module itself on the CPU")


__all__ = ["DataParallel", "data_parallel"]
