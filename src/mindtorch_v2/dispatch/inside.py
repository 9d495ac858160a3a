"""Ops as they are run inside of others that record themselves: the bodies of composites call them in place of public
functions, whose questions have been answered by then. It does not know which ops those are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import tap
from ..core.errors import no_memory
from ..core.tensor import Tensor, make
from .compute import run_body
from .op import Op
from .recording import CALLS, CHANGES, MAKES, VIEWS, in_helper

_KINDS = {"kernel": MAKES, "view": VIEWS, "mutate": CHANGES, "composite": CALLS}


def inside(
    row: Op, body: Callable[..., Any] | None = None, kernel: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """What the row's public function does, called with all arguments of its schema by position. Where a recorder is all
    that watches, tensors are plain and no graph is built, that is the kernel in an event; composites may be in graphs.

    `body` is run then in place of the row's own: the same ops on tensors, for what its callers give it. So is `kernel`, on
    arrays; elementwise rows and those in place that are derived from others have none of that kind.
    """
    otherwise = _by_position(row)
    if tap.HELPER is None:
        return otherwise
    derived = row.rule is not None or row.base is not None
    counted_inside = row.inner is not None and row.kind != "view"
    if (derived and kernel is None) or counted_inside or row.dense or row.ahead is not None:
        raise ValueError(f"row {row.qualified} is more than a kernel or a body")
    if row.inner is None:
        body = body or row.calls
    kind = row.kind if body is None else "composite"
    takes_tensors = "Tensor" in row.text.partition("->")[0]  # as the row says once its text is read
    needs_no_graph = row.kind != "composite" and takes_tensors
    quiet = kind == "kernel" and takes_tensors and row.quiet
    asked, work = (None if kernel else row.asked), body or kernel or row.kernel
    if kind == "composite" and row.kind == "kernel":
        work = _made_anew(work)
    made: Callable[..., Any] = in_helper(
        row, asked, work, _KINDS[kind], otherwise, needs_no_graph=needs_no_graph, quiet=quiet
    )
    return made


def as_new(made: Any) -> Any:
    """What a body of ops has made, as if nobody had written to it yet; several tensors come as a sequence."""
    for t in (made,) if isinstance(made, Tensor) else made:
        storage = t._v
        if storage is not None and storage.version:
            storage.version = 0
    return made


def _made_anew(body: Any) -> Callable[..., Any]:
    return lambda *given: as_new(body(*given))


def by_ops(body: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that runs a body of ops: for arrays whose values would show that ops were left out, by the rounding of each."""

    def kernel(*given: Any) -> Any:
        values = [make(v) if isinstance(v, np.ndarray) else v for v in given]
        return run_body(body, *values)._a

    return kernel


def _by_position(row: Op) -> Callable[..., Any]:
    """The public function, which takes some arguments by name only."""
    if "*," not in row.text:
        return row.function

    def otherwise(*args: Any) -> Any:
        names = [a.name for a in row.schema.arguments if a.kwarg_only]
        count = len(args) - len(names)
        return row.function(*args[:count], **dict(zip(names, args[count:], strict=True)))

    otherwise.qualified = row.qualified  # type: ignore[attr-defined]
    return otherwise


def _made(result: Any) -> Any:
    return make(result if isinstance(result, np.ndarray) else np.asarray(result))


if tap.HELPER is not None:
    tap.HELPER.connect_inside(_made, no_memory, *(tap.NAMESPACE[name] for name in ("FP_ENTER", "FP_QUIET", "FP_LEAVE")))
