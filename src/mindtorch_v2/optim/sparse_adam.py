"""Adam for sparse gradients: moments and parameters move only where the gradient has values."""

from __future__ import annotations

import math
from typing import Any

from ..core.tensor import Tensor
from ..ops.creation.fill import zeros_like
from .optimizer import Optimizer, check_options, number, with_gradients


class SparseAdam(Optimizer):
    """A masked Adam: rows that a sparse gradient does not name rest, and so do their moments."""

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: Any = (0.9, 0.999), eps: float = 1e-8, maximize: bool = False
    ) -> None:
        check_options(learning_rate=(lr, lambda v: v > 0), epsilon_value=(eps, lambda v: v > 0))
        for position, beta in enumerate(betas):
            if not 0.0 <= number(beta) < 1.0:
                raise ValueError(f"Invalid beta parameter at index {position}: {beta}")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        sparse = [
            [i, j]
            for i, group in enumerate(self.param_groups)
            for j, p in enumerate(group["params"])
            if type(p) is not Tensor and p.is_sparse
        ]
        if sparse:
            raise ValueError(f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors")

    def _update(self, group: dict[str, Any]) -> None:
        if with_gradients(self, group):
            raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")

    def _step_sparse(self, p: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        if not state:
            state.update(step=0, exp_avg=zeros_like(p), exp_avg_sq=zeros_like(p))
        state["step"] += 1
        gradient = gradient.coalesce()
        if gradient.values().numel() == 0:
            return
        values, (beta1, beta2), step = gradient.values(), map(number, group["betas"]), state["step"]
        mean = _moved(state["exp_avg"], gradient, values, 1 - beta1)
        square = _moved(state["exp_avg_sq"], gradient, values.pow(2), 1 - beta2)
        rate = number(group["lr"]) * math.sqrt(1 - beta2**step) / (1 - beta1**step)
        p.add_(gradient.with_values(mean.div_(square.sqrt_().add_(group["eps"])).mul_(-rate)))


def _moved(moment: Any, gradient: Any, values: Any, share: float) -> Any:
    """A running mean moved towards `values` where the gradient has some; what it is there now."""
    before = moment.sparse_mask(gradient).values()
    change = (values - before).mul_(share)
    moment.add_(gradient.with_values(change))
    return change.add_(before)
