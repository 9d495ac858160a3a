"""torch.distributed.tensor, which needs several processes: types that nothing is an instance of, so that libraries can
ask, and constructors that say so.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ...core.tensor import Tensor
from . import init_device_mesh, unavailable


class DTensor(Tensor):
    """A tensor spread over processes; none can be made."""

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        unavailable("tensor.DTensor")

    @staticmethod
    def from_local(*args: Any, **kwargs: Any) -> NoReturn:
        unavailable("tensor.DTensor.from_local")


class DeviceMesh:
    """Devices in rows and columns; none can be made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        unavailable("device_mesh.DeviceMesh")


class Placement:
    """How a tensor lies on a mesh."""

    def is_shard(self, dim: int | None = None) -> bool:
        return False

    def is_replicate(self) -> bool:
        return False

    def is_partial(self) -> bool:
        return False


class Shard(Placement):
    """Split along a dimension."""

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def is_shard(self, dim: int | None = None) -> bool:
        return dim is None or dim == self.dim

    def __repr__(self) -> str:
        return f"Shard(dim={self.dim})"


class Replicate(Placement):
    """Whole on each device."""

    def is_replicate(self) -> bool:
        return True


class Partial(Placement):
    """Still to be reduced."""

    def __init__(self, reduce_op: str = "sum") -> None:
        self.reduce_op = reduce_op

    def is_partial(self) -> bool:
        return True


class ParallelStyle:
    """How a module is spread; a plan may name styles, but not be carried out."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs


class ColwiseParallel(ParallelStyle):
    """By columns of the weight."""


class RowwiseParallel(ParallelStyle):
    """By rows of the weight."""


class SequenceParallel(ParallelStyle):
    """By positions of the sequence."""


class PrepareModuleInput(ParallelStyle):
    """Layouts of what comes in."""


class PrepareModuleOutput(ParallelStyle):
    """Layouts of what goes out."""


def distribute_tensor(*args: Any, **kwargs: Any) -> NoReturn:
    unavailable("tensor.distribute_tensor")


def distribute_module(*args: Any, **kwargs: Any) -> NoReturn:
    unavailable("tensor.distribute_module")


def parallelize_module(*args: Any, **kwargs: Any) -> NoReturn:
    unavailable("tensor.parallel.parallelize_module")


def context_parallel(*args: Any, **kwargs: Any) -> NoReturn:
    unavailable("tensor.experimental.context_parallel")


__all__ = [
    "ColwiseParallel",
    "DTensor",
    "DeviceMesh",
    "ParallelStyle",
    "Partial",
    "Placement",
    "PrepareModuleInput",
    "PrepareModuleOutput",
    "Replicate",
    "RowwiseParallel",
    "SequenceParallel",
    "Shard",
    "context_parallel",
    "distribute_module",
    "distribute_tensor",
    "init_device_mesh",
    "parallelize_module",
]
