"""Normalisation of each sample by itself."""

from __future__ import annotations

import warnings
from typing import Any

from .. import functional as F
from .batchnorm import _LazyNormBase, _NormBase


class _InstanceNorm(_NormBase):
    """`_ranks` names the rank of one sample first, then that of a batch."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _apply_instance_norm(self, input: Any) -> Any:
        return F.instance_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self.track_running_stats, 0.0 if self.momentum is None else self.momentum, self.eps,
        )  # fmt: skip

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any, unexpected_keys: Any,
        error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Old state dicts hold running statistics that are not used any more."""
        if local_metadata.get("version", None) is None and not self.track_running_stats:
            found = [key for key in (f"{prefix}running_mean", f"{prefix}running_var") if key in state_dict]
            if found:
                kind = type(self).__name__
                names = " and ".join(f'"{key}"' for key in found)
                error_msgs.append(
                    f"Unexpected running stats buffer(s) {names} for {kind} with track_running_stats=False. If "
                    "state_dict "
                    f"is a checkpoint saved before 0.4.0, this may be expected because {kind} does not track running "
                    "stats by default since 0.4.0. Please remove these keys from state_dict. If the running stats are "
                    f"actually needed, instead set track_running_stats=True in {kind} to enable them. See the "
                    f"documentation of {kind} for details."
                )
                for key in found:
                    state_dict.pop(key)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def forward(self, input: Any) -> Any:
        self._check_input_dim(input)
        dim = input.dim() - self._ranks[0]
        if input.size(dim) != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={dim} to match num_features ({self.num_features}), but got: "
                    f"{input.size(dim)}."
                )
            warnings.warn(
                f"input's size at dim={dim} does not match num_features. You can silence this warning by not passing "
                "in num_features, which is not used because affine=False",
                stacklevel=2,
            )
        if dim == 0:
            return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)
        return self._apply_instance_norm(input)


class InstanceNorm1d(_InstanceNorm):
    """Normalises each feature of each sequence."""

    _ranks = (2, 3)


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """InstanceNorm1d that learns `num_features` from its first input."""

    cls_to_become = InstanceNorm1d
    _ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalises each channel of each image."""

    _ranks = (3, 4)


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """InstanceNorm2d that learns `num_features` from its first input."""

    cls_to_become = InstanceNorm2d
    _ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalises each channel of each volume."""

    _ranks = (4, 5)


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """InstanceNorm3d that learns `num_features` from its first input."""

    cls_to_become = InstanceNorm3d
    _ranks = (4, 5)


__all__ = [
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]  # fmt: skip
