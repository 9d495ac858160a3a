"""torch.ao.quantization where nothing is quantized: the marks that float models carry pass values on, and what would
quantize says so.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ...nn.modules.module import Module
from ...ops.shape.join import cat

_REMEDY = "mindtorch_v2 has no quantized dtypes: run the model in float32 or bfloat16"


class QuantStub(Module):
    """Where a quantized model would begin; in a float model the identity."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig is not None:
            self.qconfig = qconfig

    def forward(self, x: Any) -> Any:
        return x


class DeQuantStub(QuantStub):
    """Where a quantized model would end; in a float model the identity."""


class FloatFunctional(Module):
    """Operations of a float model that a quantized one would watch."""

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    add_scalar = add

    def mul(self, x: Any, y: Any) -> Any:
        return x * y

    mul_scalar = mul

    def cat(self, x: Any, dim: int = 0) -> Any:
        return cat(x, dim)

    def add_relu(self, x: Any, y: Any) -> Any:
        return (x + y).relu()

    def matmul(self, x: Any, y: Any) -> Any:
        return x.matmul(y)

    def forward(self, x: Any) -> Any:
        raise RuntimeError("FloatFunctional is not intended to use the 'forward'. Please use the underlying operation")


def _unquantized(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"torch.ao.quantization.{name} is not provided: {_REMEDY}")

    refuse.__name__ = name
    return refuse


convert, prepare, prepare_qat, quantize_dynamic, fuse_modules, fuse_modules_qat = map(
    _unquantized, "convert prepare prepare_qat quantize_dynamic fuse_modules fuse_modules_qat".split()
)
get_default_qconfig, get_default_qat_qconfig = map(_unquantized, "get_default_qconfig get_default_qat_qconfig".split())
