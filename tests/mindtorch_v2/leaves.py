"""Leaves of graphs, and how their gradients are compared."""

from __future__ import annotations

from typing import Any

import numpy as np

import mindtorch_v2 as torch


def leaf(*values: float) -> Any:
    return torch.tensor(values, requires_grad=True)


def close(t: Any, *values: float) -> bool:
    return bool(np.allclose(t.detach().numpy(), np.asarray(values, t.detach().numpy().dtype), rtol=1e-5))
