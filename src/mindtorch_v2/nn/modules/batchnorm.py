"""Normalisation over batches, and what instance normalisation shares with it."""

from __future__ import annotations

from typing import Any

from ...core.dtype import int64
from ...ops.creation.convert import tensor
from ...ops.creation.fill import empty, ones, zeros
from .. import functional as F
from .. import init
from ..parameter import Parameter, UninitializedBuffer, UninitializedParameter
from .lazy import LazyModuleMixin
from .module import Module


class _NormBase(Module):
    """Scale, shift and running statistics of so many features."""

    _version = 2
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]
    _ranks: tuple[int, ...]  # how many dimensions an input may have

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        options = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(empty((num_features,), **options)) if affine else None)
        self.register_parameter("bias", Parameter(empty((num_features,), **options)) if affine and bias else None)
        tracked = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, **options) if tracked else None)
        self.register_buffer("running_var", ones(num_features, **options) if tracked else None)
        self.register_buffer("num_batches_tracked", tensor(0, dtype=int64, device=device) if tracked else None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget the batches seen so far."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """No scale, no shift, no batches seen."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input: Any) -> None:
        if input.dim() not in self._ranks:
            wanted = " or ".join(f"{rank}D" for rank in self._ranks)
            raise ValueError(f"expected {wanted} input (got {input.dim()}D input)")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any) -> None:
        """State dicts of version 1 do not count batches."""
        version = local_metadata.get("version", None)
        if (version is None or version < 2) and self.track_running_stats:
            count = self.num_batches_tracked
            known = count is not None and not count.is_meta
            state_dict.setdefault(f"{prefix}num_batches_tracked", count if known else tensor(0, dtype=int64))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class _BatchNorm(_NormBase):
    def forward(self, input: Any) -> Any:
        self._check_input_dim(input)
        training, tracked = self.training, self.track_running_stats
        factor = 0.0 if self.momentum is None else self.momentum
        if training and tracked and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                factor = 1.0 / float(self.num_batches_tracked)
        mean, var = self.running_mean, self.running_var
        of_batch = training or (mean is None and var is None)
        if training and not tracked:
            mean = var = None
        return F.batch_norm(input, mean, var, self.weight, self.bias, of_batch, factor, self.eps)


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """Learns `num_features` from the first input."""

    def __init__(
        self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, track_running_stats: bool = True,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = tensor(0, dtype=int64, device=device)

    def reset_parameters(self) -> None:
        """As the class it becomes, once the shapes are known."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Any) -> None:
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        waiting = [self.weight, self.bias] if self.affine else []
        waiting += [self.running_mean, self.running_var] if self.track_running_stats else []
        for value in waiting:
            if value is not None:
                value.materialize((self.num_features,))
        self.reset_parameters()


class BatchNorm1d(_BatchNorm):
    """Normalises each feature over the batch (and the sequence)."""

    _ranks = (2, 3)


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """BatchNorm1d that learns `num_features` from its first input."""

    cls_to_become = BatchNorm1d
    _ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalises each channel over a batch of images."""

    _ranks = (4,)


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """BatchNorm2d that learns `num_features` from its first input."""

    cls_to_become = BatchNorm2d
    _ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalises each channel over a batch of volumes."""

    _ranks = (5,)


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """BatchNorm3d that learns `num_features` from its first input."""

    cls_to_become = BatchNorm3d
    _ranks = (5,)


class SyncBatchNorm(_BatchNorm):
    """BatchNorm for inputs of any rank. With one process there is nobody to synchronise with."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, process_group: Any = None, device: Any = None, dtype: Any = None, *,
        bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Any) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    @classmethod
    def convert_sync_batchnorm(cls, module: Any, process_group: Any = None) -> Any:
        """The same model with every batch normalisation replaced by one of this class."""
        made = module
        if isinstance(module, _BatchNorm):
            made = SyncBatchNorm(
                module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats,
                process_group, bias=module.bias is not None,
            )  # fmt: skip
            if module.affine:
                made.weight, made.bias = module.weight, module.bias
            made.running_mean, made.running_var = module.running_mean, module.running_var
            made.num_batches_tracked = module.num_batches_tracked
            made.training = module.training
        for name, child in module.named_children():
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made


__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d",
    "SyncBatchNorm",
]  # fmt: skip
