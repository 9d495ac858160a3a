"""Options of every optimizer, to run it with, and the parameters it runs on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mindtorch_v2 as torch
from mindtorch_v2.nn.functional import embedding

# By class: sets of options, each beside the defaults.
_DECAYS = [{}, {"weight_decay": 0.1}, {"maximize": True, "weight_decay": 0.1}, {"lr": 0.05}]
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "SGD": [
        *_DECAYS,
        {"momentum": 0.9},
        {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
        {"momentum": 0.8, "dampening": 0.3, "maximize": True},
    ],
    "Adam": [
        *_DECAYS,
        {"amsgrad": True},
        {"amsgrad": True, "maximize": True},
        {"betas": (0.3, 0.9), "eps": 1e-3},
        {"betas": (0.0, 0.99)},
        {"decoupled_weight_decay": True, "weight_decay": 0.1},
        {"capturable": True},
    ],
    "AdamW": [*_DECAYS, {"amsgrad": True}, {"betas": (0.5, 0.7)}, {"capturable": True}],
    "Adamax": [*_DECAYS, {"betas": (0.4, 0.7)}],
    "NAdam": [*_DECAYS, {"momentum_decay": 0.1}, {"decoupled_weight_decay": True, "weight_decay": 0.1}],
    "RAdam": [*_DECAYS, {"betas": (0.8, 0.6)}, {"decoupled_weight_decay": True, "weight_decay": 0.1}],
    "ASGD": [*_DECAYS, {"lambd": 1e-2, "alpha": 0.6, "t0": 2}],
    "Adadelta": [*_DECAYS, {"rho": 0.7}],
    "Adagrad": [*_DECAYS, {"lr_decay": 0.1}, {"initial_accumulator_value": 0.3}],
    "RMSprop": [*_DECAYS, {"momentum": 0.9}, {"centered": True}, {"centered": True, "momentum": 0.5}],
    "Rprop": [{}, {"maximize": True}, {"etas": (0.3, 1.5)}, {"step_sizes": (1e-3, 2.0)}],
    "Adafactor": [*_DECAYS],
    "Muon": [{}, {"weight_decay": 0.3}, {"nesterov": False}],
    "SparseAdam": [{}, {"maximize": True}, {"betas": (0.3, 0.9), "eps": 1e-3}],
    "LBFGS": [{}, {"lr": 0.5, "line_search_fn": "strong_wolfe"}, {"history_size": 2}],
}

# Options that change how a step is made and not what it comes to; each set above is run with each that the class takes.
MANNERS: list[dict[str, Any]] = [{}, {"foreach": True}, {"foreach": False}, {"fused": True}]

SHAPES: dict[str, list[tuple[int, ...]]] = {
    "few": [(3, 4), (4,)],
    "several": [(3, 4), (4,), (2, 3, 2), (1,), (5, 2), (7,)],  # from five on a recorded step is noted once
    "with a number": [(3, 4), (), (4,)],
    "matrices": [(3, 4), (5, 2)],  # all that some optimizers take
}


def parameters(shapes: list[tuple[int, ...]], dtype: Any, turned: bool = False) -> list[Any]:
    made = []
    for i, shape in enumerate(shapes):
        values = np.asarray(np.sin(np.arange(1, int(np.prod(shape)) + 1) * (1.7 + i)).reshape(shape))
        t = torch.from_numpy(values).to(dtype)
        if turned and t.dim() == 2:
            t = t.t().contiguous().t()
        made.append(torch.nn.Parameter(t))
    return made


def trained(
    name: str, options: dict[str, Any], shapes: list[tuple[int, ...]], dtype: Any, **kinds: Any
) -> Callable[[], Any]:
    """A case: four steps, and what they leave behind."""

    def case() -> Any:
        params = parameters(shapes, dtype, **kinds)
        optimizer = getattr(torch.optim, name)(params, **options)

        def taken(p: Any) -> Any:
            """What the loss is made of: the parameter, or some of its rows, whose gradient is sparse."""
            return embedding(torch.tensor([0, 2, 2]), p, sparse=True) if name == "SparseAdam" else p

        def closure() -> Any:
            optimizer.zero_grad()
            together = torch.cat([taken(p).reshape(-1) for p in params])
            together = torch.view_as_real(together) if dtype.is_complex else together
            loss = ((together * 1.5 - 0.3) ** 2).sum()
            loss.backward()
            return loss

        losses = [optimizer.step(closure).detach() for _ in range(4)]
        return losses, [(p, p.grad) for p in params], [dict(optimizer.state[p]) for p in params]

    return case
