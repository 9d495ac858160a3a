"""Row decorators of the operators of `torch.nn.functional`: they are no methods of tensors, and their kernels know
nothing of arrays without data.

For those a shape rule stands in (`meta=`, which gives the results as meta arrays); where there is none, the kernel runs
on zeros and the results' shapes are taken.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _op
from .._meta import MetaArray, meta, to_meta

composite = functools.partial(_op.composite, method=False)
explicit = functools.partial(_op.explicit, method=False)
mutating = functools.partial(_op.mutating, method=False)


def op(
    schema: str, *, meta: Callable[..., Any] | None = None, **options: Any
) -> Callable[[Callable[..., Any]], _op.Op]:
    """Row of an op whose kernel takes real arrays only."""
    return lambda kernel: _op.op(schema, **{"method": False, **options})(without_data(kernel, meta))


def without_data(kernel: Callable[..., Any], rule: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """A kernel that also takes meta arrays."""

    def run(*args: Any) -> Any:
        for a in args:
            if type(a) is MetaArray:
                return rule(*args) if rule is not None else _from_zeros(kernel, args)
        return kernel(*args)

    return run


def _from_zeros(kernel: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    zeros = [np.zeros(a.shape, a.dtype) if type(a) is MetaArray else a for a in args]
    results = kernel(*zeros)
    if isinstance(results, (tuple, list)):
        return [to_meta(np.asarray(r)) for r in results]
    return to_meta(np.asarray(results))


# --- shape rules ------------------------------------------------------------------------------------------------------


def like_first(a: Any, *rest: Any) -> Any:
    """The result has the shape and type of the first argument."""
    return meta(a.shape, a.dtype)


def like_second(a: Any, b: Any, *rest: Any) -> Any:
    """The result has the shape and type of the second argument."""
    return meta(b.shape, b.dtype)
