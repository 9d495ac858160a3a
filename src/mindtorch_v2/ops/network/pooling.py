"""Rows of pooling: maxima, averages, adaptive and fractional windows, and unpooling.

One dimension is computed as two, the first of size 1. Sizes may be given once for all dimensions.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ...autograd import grad_mode, graph
from ...core import tap
from ...core.layouts import channels_last_strides
from ...core.meta import MetaArray
from ...core.tensor import make
from ...kernels import result_layout
from ...kernels.compiled import C, unsqueezed
from ...kernels.network import pool, small
from ...kernels.network.fold import Shape
from ...kernels.network.pool_shape import check_max_pool1d
from .. import flops
from ..meta import network as shapes_network
from ..meta import shapes
from ..shape.slice import as_strided
from ..shape.view import unsqueeze
from ..sizes import expanded
from .decorators import composite, op

_LABELS = "kernel_size", "stride", "padding", "dilation"


def _sizes(name: str, ndim: int, *args: Any) -> Any:
    """Kernel size, stride, padding, …: each once per dimension; stride is the kernel's size unless given."""
    return _settled(name, ndim, *[tuple(value) if type(value) is list else value for value in args])


@functools.lru_cache(maxsize=256)
def _settled(name: str, ndim: int, *args: Any) -> list[Shape]:
    sizes: list[Shape] = []
    for label, value in zip(_LABELS, args):
        size = expanded(value, ndim) if isinstance(value, (int, np.integer)) or len(value) else sizes[0]
        if len(size) != ndim:
            axes = {2: "two ints", 3: "three ints"}.get(ndim, "one int")
            raise RuntimeError(f"{name}: {label} must either be a single int, or a tuple of {axes}")
        sizes.append(size)
    return sizes


# How means and adaptive maxima lie: of volumes they are always plain.
_FORMATS = {2: result_layout.suggested, 3: result_layout.plain}


def _at_indices(g: Any, indices: Any, ndim: int) -> Any:
    """What `g` holds at indices that count places in a flat plane."""
    lead = g._a.shape[: g._a.ndim - ndim]
    flat = g.contiguous().view((*lead, math.prod(g._a.shape[g._a.ndim - ndim :])))
    positions = indices.view((*lead, math.prod(indices._a.shape[indices._a.ndim - ndim :])))
    return flat.gather(-1, positions).view(indices._a.shape)


def _tiles(x: Any, kernel: Shape, stride: Shape, padding: Shape) -> bool:
    """Whether the kernel for small inputs does it: windows side by side, and nothing left; no compiled loop to do it."""
    return C is None and small.is_small(x) and kernel == stride and not any(padding) and small.tiles_evenly(x, kernel)


_AS_INPUT, _ONE_EACH = result_layout.suggested_by(1), flops.each(1, 1)
_AUTOCAST = {2: None, 3: "float32"}  # by the number of dimensions of a window


def _backward(schema: str, kernel: Any, formula: Any, layout: Any = _AS_INPUT, all_flops: Any = _ONE_EACH) -> Any:
    """Row of a gradient, which is linear in `grad_output`."""
    options: dict[str, Any] = {"meta": shapes.like_nth(1), "all_flops": all_flops, "layout": layout}
    return op(schema, **options, out=False, dense=True, grad_output=formula)(kernel)


def _watched(self: Any) -> bool:
    """Whether somebody will look at more than the values: a graph or a recorder. Without values there are shapes only."""
    return (
        type(self._a) is MetaArray
        or tap.SLOT.recorder is not None
        or (graph.edge(self) is not None and grad_mode.is_grad_enabled())
    )


# --- maxima -----------------------------------------------------------------------------------------------------------

_MAX = "int[{n}] kernel_size, int[{n}] stride=[], int[{n}] padding=0, int[{n}] dilation=1, bool ceil_mode=False"


def _max_pool_rows(n: int) -> tuple[Any, Any]:
    """max_pool2d or max_pool3d: with indices, and without."""
    name, arguments = f"max_pool{n}d", _MAX.format(n=n)

    def geometry(kernel_size: Any, stride: Any, padding: Any, dilation: Any) -> Any:
        return _sizes(name, n, kernel_size, stride, padding, dilation)

    @functools.lru_cache(maxsize=256)
    def planned(shape: Shape, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> pool.Few:
        return pool.few_maxima(shape, *geometry(kernel, stride, padding, dilation), ceil_mode)

    def few(x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, placed: bool) -> Any:
        """Maxima of a small input and, if wanted, their places; None where no compiled loop takes it."""
        if (
            C is None
            or x.size > pool.FEW
            or not (type(kernel) is type(stride) is type(padding) is type(dilation) is tuple)
        ):
            return None
        windows, shape = planned(x.shape, kernel, stride, padding, dilation, ceil_mode)
        out, positions = np.empty(shape, x.dtype), np.empty(shape, np.int64) if placed else None
        return (out, positions) if C.max_pool(*windows, x, out, positions) else None

    def scattered(g: Any, x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
                  indices: Any) -> Any:  # fmt: skip
        kernel, step, pad, apart = geometry(kernel_size, stride, padding, dilation)
        return pool.max_pool_backward(g, indices, x.shape, kernel, step, pad, apart, ceil_mode)

    backward = _backward(
        f"{name}_with_indices_backward(Tensor grad_output, Tensor self, int[{n}] kernel_size, int[{n}] stride, "
        f"int[{n}] padding, int[{n}] dilation, bool ceil_mode, Tensor indices) -> Tensor",
        scattered,
        lambda g, indices: _at_indices(g, indices, n),
    )

    @op(
        f"{name}_with_indices(Tensor self, {arguments}) -> (Tensor, Tensor)",
        all_flops=flops.pool(n, 0, dilation=4),
        meta=shapes_network.max_pool(n),
        out=False,
        nondiff=(1,),
        layout=result_layout.suggested,
        self=lambda g, self, kernel_size, stride, padding, dilation, ceil_mode, result1: backward.function(
            g, self, kernel_size, stride, padding, dilation, ceil_mode, result1
        ),
    )
    def with_indices(x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
        made = few(x, kernel_size, stride, padding, dilation, ceil_mode, True)
        if made is not None:
            return made
        kernel, step, pad, apart = geometry(kernel_size, stride, padding, dilation)
        return pool.max_pool_forward(x, kernel, step, pad, apart, ceil_mode)

    def values_of(made: Any, x: Any) -> Any:
        return made if result_layout.is_row_major(x) else result_layout.suggested(made, x)

    @composite(f"{name}(Tensor self, {arguments}) -> Tensor", autocast=_AUTOCAST[n])
    def values(self: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
        if not _watched(self):
            made = few(self._a, kernel_size, stride, padding, dilation, ceil_mode, False)
            if made is not None:
                return make(values_of(made[0], self._a))
            kernel, step, pad, apart = geometry(kernel_size, stride, padding, dilation)
            if _tiles(self._a, kernel, step, pad) and set(apart) == {1}:
                return make(values_of(small.max_pool(self._a, kernel), self._a))
            return make(values_of(pool.max_pool_values(self._a, kernel, step, pad, apart, ceil_mode), self._a))
        return with_indices.function(self, kernel_size, stride, padding, dilation, ceil_mode)[0]

    return with_indices.function, values.function


max_pool2d_with_indices, max_pool2d = _max_pool_rows(2)
max_pool3d_with_indices, max_pool3d = _max_pool_rows(3)


@composite(
    f"max_pool1d_with_indices(Tensor self, {_MAX.format(n=1)}) -> (Tensor, Tensor)",
    all_flops=flops.pool(1, 0, dilation=4),
)
def _max_pool1d_with_indices(self: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
                             ceil_mode: bool) -> Any:  # fmt: skip
    sizes = _sizes("max_pool1d", 1, kernel_size, stride, padding, dilation)
    kernel, step, pad, spread = (size[0] for size in sizes)
    both = max_pool2d_with_indices(unsqueeze(self, -2), (1, kernel), (1, step), (0, pad), (1, spread), ceil_mode)
    return tuple(t.squeeze(-2) for t in both)


max_pool1d_with_indices = _max_pool1d_with_indices.function


@functools.lru_cache(maxsize=256, typed=True)  # 2.0 is no size
def _row_maxima(shape: Shape, ceil_mode: bool, *args: Any) -> pool.Few:
    """The windows of max_pool1d as those of planes of one row."""
    kernel, step, pad, apart = (size[0] for size in _sizes("max_pool1d", 1, *args))
    check_max_pool1d(shape, kernel, step, pad, apart, ceil_mode)
    plane = (*shape[:-1], 1, shape[-1])
    return pool.few_maxima(plane, (1, kernel), (1, step), (0, pad), (1, apart), ceil_mode)


@composite(f"max_pool1d(Tensor self, {_MAX.format(n=1)}) -> Tensor", all_flops=flops.pool(1, 0, dilation=4))
def _max_pool1d(self: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
    if not self._a.ndim:
        raise RuntimeError(
            "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but got:[]"
        )
    if type(self._a) is MetaArray or (graph.edge(self) is not None and grad_mode.is_grad_enabled()):
        return max_pool1d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)[0]
    a = self._a
    plain = type(kernel_size) is type(stride) is type(padding) is type(dilation) is tuple  # as the plans are kept by
    if C is not None and plain and 0 < a.size <= pool.FEW and 1 < a.ndim < 4:
        windows, plane = _row_maxima(a.shape, ceil_mode, kernel_size, stride, padding, dilation)
        made = np.empty((*plane[:-2], plane[-1]), a.dtype)
        if C.max_pool(*windows, unsqueezed(a, a.ndim - 1), unsqueezed(made, a.ndim - 1), None):
            return make(made)
    sizes = _sizes("max_pool1d", 1, kernel_size, stride, padding, dilation)
    kernel, step, pad, apart = sizes
    check_max_pool1d(self._a.shape, kernel[0], step[0], pad[0], apart[0], ceil_mode)
    return make(pool.max_pool_values(self._a, kernel, step, pad, apart, ceil_mode))


max_pool1d = _max_pool1d.function


# --- adaptive and fractional maxima -----------------------------------------------------------------------------------


def _adaptive_max_pool(n: int) -> Any:
    backward = _backward(
        f"adaptive_max_pool{n}d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor",
        lambda g, x, indices: pool.adaptive_max_pool_backward(g, indices, x.shape, g.shape[-n:]),
        lambda g, indices: _at_indices(g, indices, n),
        _AS_INPUT if n == 2 else result_layout.plain,
    )

    @op(
        f"adaptive_max_pool{n}d(Tensor self, int[{n}] output_size) -> (Tensor, Tensor)",
        all_flops=flops.adaptive_pool(n, 0),
        meta=shapes_network.adaptive_pool(n, f"adaptive_max_pool{n}d"),
        autocast=_AUTOCAST[n],
        out=False,
        nondiff=(1,),
        layout=_FORMATS[n],
        self=lambda g, self, result1: backward.function(g, self, result1),
    )
    def forward(x: Any, output_size: Any) -> Any:
        return pool.adaptive_max_pool_forward(x, expanded(output_size, n))

    return forward.function


adaptive_max_pool2d, adaptive_max_pool3d = _adaptive_max_pool(2), _adaptive_max_pool(3)


def _one_size(name: str, output_size: Any) -> Shape:
    size = expanded(output_size, 1)
    if len(size) != 1:
        raise RuntimeError(f"{name}() argument 'output_size' should contain one int (got {len(size)})")
    return size


@composite("adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor, Tensor)")
def _adaptive_max_pool1d(self: Any, output_size: Any) -> Any:
    both = adaptive_max_pool2d(unsqueeze(self, -2), (1, *_one_size("adaptive_max_pool1d", output_size)))
    return tuple(t.squeeze(-2) for t in both)


adaptive_max_pool1d = _adaptive_max_pool1d.function


def _fractional_max_pool(n: int) -> Any:
    backward = _backward(
        f"fractional_max_pool{n}d_backward(Tensor grad_output, Tensor self, int[{n}] kernel_size, "
        f"int[{n}] output_size, Tensor indices) -> Tensor",
        lambda g, x, kernel_size, output_size, indices: pool.fractional_max_pool_backward(
            g, indices, x.shape, expanded(output_size, n)
        ),
        lambda g, indices: _at_indices(g, indices, n),
        result_layout.plain,
    )

    @op(
        f"fractional_max_pool{n}d(Tensor self, int[{n}] kernel_size, int[{n}] output_size, Tensor random_samples) "
        "-> (Tensor, Tensor)",
        all_flops=flops.fractional_pool(n),
        meta=shapes_network.fractional_max_pool,
        autocast="float32",
        out=False,
        nondiff=(1,),
        self=lambda g, self, kernel_size, output_size, result1: backward.function(
            g, self, kernel_size, output_size, result1
        ),
    )
    def forward(x: Any, kernel_size: Any, output_size: Any, random_samples: Any) -> Any:
        if x.ndim == n + 2 and x.shape[0] == 0:
            shape = (*x.shape[:2], *expanded(output_size, n))
            return np.empty(shape, x.dtype), np.empty(shape, np.int64)
        return pool.fractional_max_pool_forward(x, expanded(kernel_size, n), expanded(output_size, n), random_samples)

    return forward.function


fractional_max_pool2d, fractional_max_pool3d = _fractional_max_pool(2), _fractional_max_pool(3)


# --- unpooling --------------------------------------------------------------------------------------------------------


@op(
    "max_unpool2d(Tensor self, Tensor indices, int[2] output_size) -> Tensor",
    meta=shapes_network.max_unpool(2),
    autocast="float32",
    layout=result_layout.suggested,
    self=lambda g, indices: _at_indices(g, indices, 2),
)
def _max_unpool2d(x: Any, indices: Any, output_size: Any) -> Any:
    return pool.max_unpool_forward(x, indices, expanded(output_size, 2))


@op(
    "max_unpool3d(Tensor self, Tensor indices, int[3] output_size, int[3] stride, int[3] padding) -> Tensor",
    meta=shapes_network.max_unpool(3),
    autocast="float32",
    self=lambda g, indices: _at_indices(g, indices, 3),
)
def _max_unpool3d(x: Any, indices: Any, output_size: Any, stride: Any, padding: Any) -> Any:
    return pool.max_unpool_forward(x, indices, expanded(output_size, 3))


max_unpool2d, max_unpool3d = _max_unpool2d.function, _max_unpool3d.function


# --- averages ---------------------------------------------------------------------------------------------------------


_FEW_MEANS = (
    f"input._a.size <= {pool.FEW} and (input._a.dtype is F32 or input._a.dtype is F64) and input._a.flags.c_contiguous"
    " and type(kernel_size) is tuple and type(stride) is tuple and type(padding) is tuple"
)


def _avg_pool(n: int) -> Any:
    """Rows of avg_pool2d or avg_pool3d and of its gradient."""
    name = f"avg_pool{n}d"

    def spread(g: Any, x: Any, kernel_size: Any, stride: Any, padding: Any, *rest: Any) -> Any:
        sizes = _sizes(name, n, kernel_size, stride, padding)
        return pool.avg_pool_backward(g, x.shape, *sizes, *rest)

    backward = _backward(
        f"{name}_backward(Tensor grad_output, Tensor self, int[{n}] kernel_size, int[{n}] stride, int[{n}] padding, "
        "bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor",
        spread,
        lambda g, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override: forward.function(
            g, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        ),
        _AS_INPUT if n == 2 else result_layout.plain,
        all_flops=flops.avg_pool_backward(n),
    )

    @functools.lru_cache(maxsize=256)
    def few(shape: Shape, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, divisor: Any) -> pool.Few:
        return pool.few_means(shape, *_sizes(name, n, kernel_size, stride, padding), ceil_mode, divisor)

    def quickly(
        x: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, padded: bool, divisor: Any
    ) -> Any:
        windows, shape = few(x.shape, kernel_size, stride, padding, ceil_mode, divisor)
        made = np.empty(shape, x.dtype)
        if not C.avg_pool(*windows, x, made, padded, divisor or 0):
            raise ValueError  # the long way takes all arrays
        return made

    @op(
        f"{name}(Tensor self, int[{n}] kernel_size, int[{n}] stride=[], int[{n}] padding=0, bool ceil_mode=False, "
        "bool count_include_pad=True, int? divisor_override=None) -> Tensor",
        all_flops=flops.pool(n, 1),
        meta=shapes_network.avg_pool(n),
        autocast=_AUTOCAST[n],
        fast=(_FEW_MEANS, quickly) if n == 2 and C is not None else None,
        layout=_FORMATS[n],
        self=lambda g, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override: (
            backward.function(g, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
        ),
    )
    def forward(x: Any, kernel_size: Any, stride: Any, padding: Any, *rest: Any) -> Any:
        if C is not None and x.size <= pool.FEW and type(kernel_size) is type(stride) is type(padding) is tuple:
            windows, shape = few(x.shape, kernel_size, stride, padding, rest[0], rest[2])
            made = np.empty(shape, x.dtype)
            if C.avg_pool(*windows, x, made, rest[1], rest[2] or 0):
                return made
        sizes = _sizes(name, n, kernel_size, stride, padding)
        if rest[-1] is None and _tiles(x, *sizes):
            return small.avg_pool(x, sizes[0])
        return pool.avg_pool_forward(x, *sizes, *rest)

    return forward.function


avg_pool2d, avg_pool3d = _avg_pool(2), _avg_pool(3)


@functools.lru_cache(maxsize=256)
def _row_means(shape: Shape, kernel: int, step: int, pad: int, ceil_mode: bool) -> pool.Few:
    """The windows of avg_pool1d as those of planes of one row."""
    return pool.few_means((*shape[:-1], 1, shape[-1]), (1, kernel), (1, step), (0, pad), ceil_mode, None)


@composite(
    "avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, bool ceil_mode=False, "
    "bool count_include_pad=True) -> Tensor",
    all_flops=flops.pool(1, 1),
)
def _avg_pool1d(
    self: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool
) -> Any:
    sizes = _sizes("avg_pool1d", 1, kernel_size, stride, padding)
    kernel, step, pad = (size[0] for size in sizes)
    a = self._a
    if (
        C is not None
        and 0 < a.size <= pool.FEW
        and 1 < a.ndim < 4
        and result_layout.is_row_major(a)
        and not _watched(self)
    ):
        windows, plane = _row_means(a.shape, kernel, step, pad, ceil_mode)
        made = np.empty((*plane[:-2], plane[-1]), a.dtype)
        if C.avg_pool(*windows, unsqueezed(a, a.ndim - 1), unsqueezed(made, a.ndim - 1), count_include_pad, 0):
            return make(made)
    flat = avg_pool2d(unsqueeze(self, -2), (1, kernel), (1, step), (0, pad), ceil_mode, count_include_pad)
    return flat.squeeze(-2)


avg_pool1d = _avg_pool1d.function


def _adaptive_avg_pool(n: int) -> Any:
    """Rows of adaptive_avg_pool2d or adaptive_avg_pool3d; one window over everything is a mean."""
    name = f"adaptive_avg_pool{n}d"

    backward = _backward(
        f"_{name}_backward(Tensor grad_output, Tensor self) -> Tensor",
        lambda g, x: pool.adaptive_avg_pool_backward(g, x.shape, g.shape[-n:]),
        lambda g, grad_output_sizes: inner.function(g, grad_output_sizes[-n:]),
        _AS_INPUT if n == 2 else result_layout.plain,
        all_flops=flops.adaptive_avg_pool_backward,
    )

    @op(
        f"_{name}(Tensor self, int[{n}] output_size) -> Tensor",
        all_flops=flops.adaptive_pool(n, 1),
        meta=shapes_network.adaptive_pool(n, name),
        out=False,
        layout=_FORMATS[n],
        self=lambda g, self: backward.function(g, self),
    )
    def inner(x: Any, output_size: Any) -> Any:
        return pool.adaptive_avg_pool_forward(x, expanded(output_size, n))

    @composite(f"{name}(Tensor self, int[{n}] output_size) -> Tensor", autocast=_AUTOCAST[n])
    def outer(self: Any, output_size: Any) -> Any:
        size = expanded(output_size, n)
        if len(size) != n:
            raise RuntimeError(f"{name}: output_size must be {n}")
        if set(size) == {1} and self._a.ndim > n and self._a.dtype.kind in "fcV":
            mean = self.mean(tuple(range(-n, 0)), keepdim=True)
            return (
                as_strided(mean, mean._a.shape, channels_last_strides(mean._a.shape))
                if result_layout.is_channels_last(self._a)
                else mean
            )
        return inner.function(self, size)

    return outer.function


adaptive_avg_pool2d, adaptive_avg_pool3d = _adaptive_avg_pool(2), _adaptive_avg_pool(3)


@composite("adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor")
def _adaptive_avg_pool1d(self: Any, output_size: Any) -> Any:
    return adaptive_avg_pool2d(unsqueeze(self, -2), (1, *_one_size("adaptive_avg_pool1d", output_size))).squeeze(-2)


adaptive_avg_pool1d = _adaptive_avg_pool1d.function
