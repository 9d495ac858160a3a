"""Calls of every compiled kernel as they are meant, by the name of the function, for attacks to change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from maker import DTYPES, Maker, Refusing


def _pair(m: Maker) -> tuple[Any, ...]:
    shape = m.shape()
    other = tuple(1 if m.chance(4) else n for n in shape)[int(m.rng.integers(len(shape) + 1)) :]
    dtype = m.pick(("float32", "float64", "int64", "float16", "bfloat16"))
    x = m.real_of(*shape, dtype=dtype)
    return x, (x[(0,) * x.ndim] if x.size and m.chance(6) else m.real_of(*other, dtype=dtype))


def _unary(m: Maker) -> tuple[Any, ...]:
    shape = m.shape()
    x = m.real_of(*shape)
    return x, (x if m.chance(4) else m.real_of(*shape))


def _take_along(m: Maker, arrays: int) -> tuple[Any, ...]:
    shape = m.shape() or (3,)
    return (*(m.real_of(*shape) for _ in range(arrays)), m.dim(len(shape)))


def _terms(arrays: int, numbers: int) -> Callable[[Maker], tuple[Any, ...]]:
    def made(m: Maker) -> tuple[Any, ...]:
        shape = m.shape()
        given = [m.real_of(*shape) for _ in range(arrays)]
        return (*given, *(m.number() for _ in range(numbers)), m.pick((None, given[0], m.real_of(*shape))))

    return made


def _reduced(*rest: Callable[[Maker], Any]) -> Callable[[Maker], tuple[Any, ...]]:
    def made(m: Maker) -> tuple[Any, ...]:
        shape = m.shape()
        axis = None if m.chance(3) else m.dim(len(shape))
        return (m.any_of(*shape), axis, m.flag(), *(one(m) for one in rest))

    return made


def _windows(m: Maker, *rest: Callable[[Maker], Any], places: bool = False) -> tuple[Any, ...]:
    axes = m.pick((1, 2))
    kernel, stride = (tuple(int(m.pick((1, 2, 3))) for _ in range(axes)) for _ in range(2))
    padding, dilation = tuple(m.pick((0, 1)) for _ in range(axes)), tuple(m.pick((1, 2)) for _ in range(axes))
    size = tuple(int(m.pick((1, 2, 3, 5, 8))) for _ in range(axes))
    count = tuple(
        max((n + 2 * p - d * (k - 1) - 1) // s + 1, 0) + (1 if m.chance(9) else 0)
        for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True)
    )
    if m.chance(6):
        stride, padding, dilation = (0,) * axes, (0,) * axes, (1,) * axes
    lead = m.shape(2)
    made = kernel, stride, padding, dilation, m.real_of(*lead, *size), m.real_of(*lead, *count)
    return (*made, m.pick((None, m.whole(*lead, *count)))) if places else (*made, *(one(m) for one in rest))


def _convolve(m: Maker) -> tuple[Any, ...]:
    axes, groups = m.pick((1, 2)), m.pick((1, 1, 2))
    images, own, outputs = m.pick((0, 1, 2)), m.pick((1, 2)), groups * m.pick((1, 2))
    kernel, size = tuple(m.pick((1, 2, 3)) for _ in range(axes)), tuple(m.pick((3, 5, 8)) for _ in range(axes))
    stride, padding, dilation = (tuple(m.pick(of) for _ in range(axes)) for of in ((1, 2), (0, 1), (1, 2)))
    count = tuple(
        max((n + 2 * p - d * (k - 1) - 1) // s + 1, 0)
        for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True)
    )
    x, out = m.real_of(images, own * groups, *size), m.real_of(images, outputs, *count)
    what = m.pick((0, 1, 2))
    bias = m.pick((None, m.real_of(own * groups if what == 1 else outputs)))
    return kernel, stride, padding, dilation, x, out, m.real_of(outputs, own, *kernel), bias, groups, what


def _depthwise(m: Maker) -> tuple[Any, ...]:
    n, c, by, h, w = m.pick((1, 2)), m.pick((1, 3)), m.pick((1, 2)), m.pick((1, 4, 7)), m.pick((1, 5, 17))
    i, j = m.pick((1, 3)), m.pick((1, 3))
    numbers = [m.pick((1, 2)) for _ in range(4)] + [m.pick((0, 1, -1)) for _ in range(2)]
    return m.single(n, c, h, w), m.single(c * by, 1, i, j), m.single(n, c * by, m.n(), m.n()), *numbers


def _conv_direct(m: Maker, weight_grad: bool = False) -> tuple[Any, ...]:
    groups, planes, taps, images = m.pick((1, 2)), m.pick((1, 3)), m.pick((1, 3)), m.pick((1, 2))
    outputs, rows, columns, pitch = groups * m.pick((1, 3)), m.pick((1, 2, 4)), m.pick((8, 17, 40)), m.pick((40, 41))
    reach = (rows - 1) * pitch + columns
    plane = reach + m.pick((0, 3, 9))
    x, moves = m.real_of(images, planes * groups, plane), m.index(max(plane - reach + 1, 1), taps)
    weight = m.real_of(outputs, planes, taps)
    if weight_grad:
        return x, moves, m.real_of(images, outputs, m.pick((plane, 17, 40))), weight, groups
    out = m.real_of(images, outputs, rows, columns)
    return x, moves, weight, m.pick((None, m.real_of(outputs))), out, (pitch,), groups


def _layout(m: Maker) -> tuple[tuple[int, ...], int]:
    shape = (m.pick((1, 2, 5)), m.pick((1, 3, 70)), *m.shape(2))
    return shape, shape[1]


def _channels(*forms: str) -> Callable[[Maker], tuple[Any, ...]]:
    def made(m: Maker) -> tuple[Any, ...]:
        shape, channels = _layout(m)
        return tuple(m.real_of(*shape) if form == "x" else m.real_of(channels) for form in forms)

    return made


def _batch_norm(m: Maker) -> tuple[Any, ...]:
    shape, channels = _layout(m)
    vectors = [m.pick((None, m.real_of(channels))) for _ in range(4)]
    momentum = m.pick((None, 0.1, 1, 0.0))
    return (m.real_of(*shape), *vectors, momentum, 1e-5, m.real_of(*shape), m.real_of(channels), m.real_of(channels))


def _layer_norm(m: Maker) -> tuple[Any, ...]:
    rows, n = m.pick((1, 2, 65)), m.pick((1, 5, 33))
    given = [m.pick((None, m.real_of(n))) for _ in range(2)]
    return m.real_of(rows, n), *given, 1e-5, m.real_of(rows, n), m.real_of(rows), m.real_of(rows)


def _layer_norm_backward(m: Maker) -> tuple[Any, ...]:
    rows, n = m.pick((1, 2, 65)), m.pick((1, 5, 33))
    given = [m.pick((None, m.real_of(*shape))) for shape in ((n,), (rows, n), (n,), (n,))]
    return m.real_of(rows, n), m.real_of(rows, n), m.real_of(rows), m.real_of(rows), *given


def _attend(m: Maker) -> tuple[Any, ...]:
    b, h, q, k, width = m.pick((1, 2)), m.pick((1, 3)), m.pick((1, 4)), m.pick((1, 5)), m.pick((1, 8))
    mask = m.pick((None, m.real_of(q, k)))
    parts = m.real_of(b, h, q, width), m.real_of(b, h, k, width), m.real_of(b, h, k, width)
    return *parts, mask, m.flag(), 0.5, m.real_of(b, h, q, width), m.real_of(b, h, q, k)


def _nll_loss(m: Maker, last: Callable[[Maker, tuple[int, ...]], Any]) -> tuple[Any, ...]:
    samples, classes, places = m.pick((1, 3, 7)), m.pick((1, 2, 5)), m.shape(2)
    weight = m.pick((None, m.real_of(classes)))
    index = m.index(classes, samples, *places)
    return m.real_of(samples, classes, *places), index, m.pick((-100, 0, 1)), weight, last(m, (samples, *places))


def _gathered(m: Maker, put: bool = False) -> tuple[Any, ...]:
    lead, n, k = m.shape(2), m.pick((1, 3, 7)), m.n()
    x, index, other = m.real_of(*lead, n), m.index(n, *lead, k), m.real_of(*lead, k)
    return x, index, other


def _along_dim(m: Maker, extra: bool) -> tuple[Any, ...]:
    shape = m.shape() or (3,)
    dim = m.dim(len(shape))
    dtype = m.pick(("float32", "float64", "int64"))
    cut = tuple(m.n() if i == dim % len(shape) else n for i, n in enumerate(shape))
    index = m.index(shape[dim], *cut)
    if not extra:
        return m.real_of(*shape, dtype=dtype), dim, index
    source = m.pick((m.real_of(*cut, dtype=dtype), 2, 0.5, 2**70))
    return m.real_of(*shape, dtype=dtype), dim, index, source, m.flag()


def _put_slices(m: Maker) -> tuple[Any, ...]:
    shape = m.shape() or (3,)
    dim, k = m.dim(len(shape)), m.n()
    dtype = m.pick(("float32", "float64", "int64"))
    cut = tuple(k if i == dim % len(shape) else n for i, n in enumerate(shape))
    source = m.pick((m.real_of(*cut, dtype=dtype), 2, 0.5))
    return m.real_of(*shape, dtype=dtype), dim, m.index(shape[dim], k), source, m.flag()


def _lists(m: Maker, lists: int, numbers: int) -> tuple[Any, ...]:
    shapes = [m.shape(2) for _ in range(m.pick((0, 1, 2, 20)))]
    given: list[Any] = [[m.real_of(*shape) for shape in shapes] for _ in range(lists)]
    if m.chance(2):
        given[-1] = None
    return *given, *(m.number() for _ in range(numbers))


def _joined(m: Maker, stacked: bool = False) -> tuple[Any, ...]:
    shape, dtype = m.shape() or (3,), m.pick(("float32", "float64", "int64", "bool", "float16"))
    dim = m.dim(len(shape))
    parts = [
        m.real_of(*(m.n() if i == dim % len(shape) and not stacked else n for i, n in enumerate(shape)), dtype=dtype)
        for _ in range(m.pick((0, 1, 2, 5)))
    ]
    return parts, dim


def _drawn(*rest: Callable[[Maker], Any], dtype: str | None = None) -> Callable[[Maker], tuple[Any, ...]]:
    def made(m: Maker) -> tuple[Any, ...]:
        stream = m.pick((None, m.stream()))
        out = stream if stream is not None and m.chance(12) else m.real_of(*m.shape(), dtype=dtype)
        return (stream, out, *(one(m) for one in rest))

    return made


def _sample(m: Maker) -> tuple[Any, ...]:
    images, channels, h, w = m.pick((0, 1, 2)), m.pick((1, 2)), m.pick((1, 4)), m.pick((1, 5))
    points = m.shape(2)
    out = m.single(images, channels, *points)
    return m.single(images, channels, h, w), m.single(images, *points, 2), m.flag(), m.flag(), out


def _viewed(m: Maker, strided: bool) -> tuple[Any, ...]:
    """Views that stay inside of the memory; `look` is told so by its caller."""
    x = m.any_of(*m.shape())
    if not strided:
        return x, x.shape[::-1], x.strides[::-1]
    return x, m.shape(), tuple(m.pick((0, 1, 2, 5, 2**62)) for _ in range(m.pick((0, 1, 2, 3))))


def _products(m: Maker) -> tuple[Any, ...]:
    lead, rows, inner, columns = m.shape(1), m.n(), m.n(), m.n()
    return m.real_of(*lead, rows, inner), m.real_of(*m.pick((lead, ())), inner, columns)


def _add_product(m: Maker) -> tuple[Any, ...]:
    rows, inner, columns = m.n(), m.n(), m.n()
    added = m.real_of(*m.pick(((rows, columns), (columns,), (1, columns), (2, 3))))
    return added, m.real_of(rows, inner), m.real_of(inner, columns), 1, m.pick((1, 1, 2))


def _times_packed(m: Maker) -> tuple[Any, ...]:
    rows, depth, columns = m.pick((1, 5, 7)), m.pick((1, 4)), m.pick((1, 16, 17, 33))
    return m.single(rows, depth), m.single((columns + 15) // 16, depth, 16), columns


def _gates(gates: int, forms: str) -> Callable[[Maker], tuple[Any, ...]]:
    def made(m: Maker) -> tuple[Any, ...]:
        rows, h = m.pick((1, 3)), m.pick((1, 5, 33))
        of = {
            "g": lambda: m.single(rows, gates * h),
            "h": lambda: m.single(rows, h),
            "b": lambda: m.pick((None, m.single(h))),
        }
        return tuple(of[form]() for form in forms)

    return made


def _map_axis(m: Maker) -> tuple[Any, ...]:
    shape = m.shape() or (3,)
    axis = m.dim(len(shape)) % len(shape)
    taps, outputs = m.pick((1, 2)), m.n()
    out = tuple(outputs if i == axis else n for i, n in enumerate(shape))
    weight = m.pick((None, m.real_of(taps, outputs)))
    return m.real_of(*shape), m.index(shape[axis] + 1, taps, outputs), weight, axis, m.real_of(*out)


def _filled(m: Maker) -> tuple[Any, ...]:
    shape = m.shape() or (3,)
    mask = shape[int(m.rng.integers(len(shape))) :]
    return m.any_of(*shape), m.truths(*mask), m.pick((0, 1.5, -3, 2**40)), m.flag()


def _chosen(m: Maker) -> tuple[Any, ...]:
    shape, dtype = m.shape(), m.pick(("float32", "float64", "int64"))
    x, y = (m.real_of(*m.pick((shape, ())), dtype=dtype) for _ in range(2))
    return m.truths(*shape), x, y


def _same(m: Maker) -> tuple[Any, ...]:
    shape, dtype = m.shape(), m.pick(("float32", "float64", "int64", "bool", "int32"))
    return m.real_of(*shape, dtype=dtype), m.real_of(*shape, dtype=dtype)


def _add_sampled(m: Maker) -> tuple[Any, ...]:
    images, channels, size, n = m.pick((1, 2)), m.pick((1, 3)), m.pick((1, 5)), m.pick((1, 4))
    return (
        m.single(images, channels, size),
        m.index(size, images, n),
        m.single(images, n),
        m.single(images, channels, n),
    )


def _max_unpool(m: Maker) -> tuple[Any, ...]:
    planes, n, size = m.pick((1, 2, 3)), m.n(), m.pick((1, 5))
    return m.real_of(planes, n), m.index(size, planes, n), m.real_of(planes, size), planes


def _rows(m: Maker, columns: bool = False) -> tuple[Any, ...]:
    rows, n = m.n(), m.n()
    return m.real_of(rows, n), m.real_of(n if columns else rows)


def _running_extremes(m: Maker) -> tuple[Any, ...]:
    shape = m.shape()
    return m.single(*shape), m.flag(), m.single(*shape), m.whole(*shape)


def _triangle(m: Maker) -> tuple[Any, ...]:
    shape = (*m.shape(1), m.n(), m.n())
    return m.single(*shape), m.pick((0, -1, 3, -(2**62), 2**62)), m.flag(), m.single(*shape)


def _scores(m: Maker, backward: bool = False) -> tuple[Any, ...]:
    shape = (*m.shape(2), m.pick((1, 4)), m.pick((1, 5, 40)))
    return (m.real_of(*shape), m.real_of(*shape), 0.5) if backward else (m.real_of(*shape), 0.5, m.flag())


UNARY = "sigmoid gelu gelu_tanh silu relu sign rsqrt hardswish log_sigmoid mish erf erfc ndtr"
SINGLE = "exp tanh negative absolute sqrt square reciprocal"
PAIRS = "add subtract multiply divide equal not_equal less less_equal greater greater_equal maximum minimum"
TERMS = {
    (1, 0): "hardsigmoid cube frac",
    (1, 1): "leaky_relu hardshrink softshrink bent",
    (1, 2): "threshold hardtanh softplus",
    (1, 3): "elu",
    (2, 0): "hardsigmoid_backward hardswish_backward log_sigmoid_backward sigmoid_backward tanh_backward silu_backward",
    (2, 1): "add_scaled lerp threshold_backward leaky_relu_backward hardshrink_backward",
    (2, 2): "hardtanh_backward softplus_backward",
    (2, 3): "elu_slope binary_slope",
    (3, 1): "addcmul addcdiv",
}

# What is handed over is kept, and would change all calls after it, so these are called with too few alone.
HANDED_OVER = ("ignore_flags", "lay_out_by")

MEANT: dict[str, Callable[[Maker], tuple[Any, ...]]] = {
    **dict.fromkeys(UNARY.split(), _unary),
    **{name: lambda m: (m.real_of(*m.shape()),) for name in SINGLE.split()},
    **dict.fromkeys(PAIRS.split(), _pair),
    **{name: _terms(*form) for form, names in TERMS.items() for name in names.split()},
    **{name: lambda m: _take_along(m, 3) for name in ("gelu_backward", "gelu_tanh_backward")},
    **{name: lambda m: _take_along(m, 2) for name in ("softmax", "log_softmax", "cumsum", "cumprod")},
    **{name: lambda m: _take_along(m, 3) for name in ("softmax_backward", "log_softmax_backward")},
    "expand": lambda m: (
        m.any_of(*m.shape()),
        tuple(m.pick((-1, 0, 1, 3, 2**40)) for _ in range(m.pick((0, 1, 3, 4)))),
    ),
    "reshape": lambda m: (m.any_of(*m.shape()), tuple(m.pick((-1, 0, 1, 2, 3)) for _ in range(m.pick((0, 1, 2, 3))))),
    "look": lambda m: _viewed(m, False),
    "stride": lambda m: _viewed(m, True),
    "swap": lambda m: (m.any_of(*m.shape(4)), m.pick((0, -1, 1)), m.pick((0, -1, 1))),
    "turn": lambda m: (m.any_of(m.n(), m.n()),),
    "unsqueeze": lambda m: (m.any_of(*m.shape(4)), m.pick((0, -1, 1, 2))),
    "sum_rows": _rows,
    "sum_columns": lambda m: _rows(m, True),
    "add_up": lambda m: _reduced(*([Maker.number] if m.flag() else []))(m),
    "length": _reduced(),
    "multiply_up": _reduced(),
    "log_sum_exp": _reduced(),
    "extreme": _reduced(Maker.flag),
    "extreme_and_place": _reduced(Maker.flag),
    "variance": _reduced(Maker.number, Maker.flag),
    "ranked": _reduced(lambda m: m.pick((None, 0, 2)), Maker.flag),
    "ordered": lambda m: (m.any_of(*m.shape()), m.pick((0, -1, 1)), m.pick((None, 0, 1, 3)), m.flag()),
    "running_sum": lambda m: (m.any_of(*m.shape()), m.pick((0, -1, 1))),
    "extreme_rows": lambda m: (m.real_of(4, 5), m.flag(), m.real_of(m.pick((1, 4, 20, 0)))),
    "running_extremes": _running_extremes,
    "triangle": _triangle,
    "attention": _attend,
    "attention_weights": _scores,
    "attention_weights_backward": lambda m: _scores(m, True),
    "layer_norm": _layer_norm,
    "layer_norm_backward": _layer_norm_backward,
    "channel_moments": _channels("x", "v", "v"),
    "channel_affine": _channels("x", "v", "v", "x"),
    "channel_products": _channels("x", "x", "v", "v", "v"),
    "channel_mix": _channels("x", "x", "v", "v", "v", "v", "x"),
    "batch_norm": _batch_norm,
    "max_pool": lambda m: _windows(m, places=True),
    "avg_pool": lambda m: _windows(m, Maker.flag, lambda m: m.pick((0, 3))),
    "avg_pool_backward": lambda m: _windows(m, Maker.flag, lambda m: m.pick((0, 3))),
    "max_unpool": _max_unpool,
    "swap_in_turn": lambda m: (m.whole(m.n()), m.index(m.n(), m.n())),
    "seed_words": lambda m: (m.stream(), m.pick((0, 7, 2**32 - 1, -1))),
    "random_words": _drawn(),
    "random_whole": _drawn(),
    "random_order": _drawn(dtype="int64"),
    "random_below": _drawn(lambda m: m.pick((0, -3, 2**63 - 1)), lambda m: m.pick((1, 7, 2**28, 0)), dtype="int64"),
    "random_normals": _drawn(Maker.number, Maker.number),
    "random_uniforms": _drawn(lambda m: m.pick((0, -1.0)), lambda m: m.pick((1, 2.5))),
    "random_coins": _drawn(lambda m: m.pick((0, 0.5, 1))),
    "random_coins_of": _drawn(lambda m: m.made(m.rng.random(m.shape()).astype(np.float32))),
    "random_waits": _drawn(lambda m: m.pick((1, 0.5, 0))),
    "new_normals": lambda m: (m.shape(), DTYPES[m.real], m.number(), m.number()),
    "new_uniforms": lambda m: (m.shape(), DTYPES[m.real], 0, m.pick((1, 2.5))),
    "new_below": lambda m: (m.shape(), m.pick((0, -3)), m.pick((1, 7, 2**40))),
    "draw_from": lambda m: (m.pick((None, 1)), m.pick((Refusing(), len))),
    "stretch": lambda m: (m.single(*m.shape()), m.number(), m.number()),
    "normals": lambda m: (m.single(m.pick((16, 32, 7, 0))), m.number(), m.number()),
    "inside": lambda m: (m.index(5, *m.shape()), m.pick((0, 5, -1))),
    "nonzero": lambda m: (m.any_of(*m.shape()),),
    "chosen": _chosen,
    "same": _same,
    "put": _same,
    "glu": lambda m: (m.real_of(*m.shape(), 4), m.pick((-1, 0))),
    "prelu": lambda m: (m.real_of(2, 3, *m.shape(1)), m.real_of(m.pick((0, 1, 3)))),
    "isin": lambda m: (m.real_of(*m.shape()), m.real_of(*m.shape()), m.flag()),
    "x_log_y": _same,
    "binary_losses": _same,
    "take_along_axis": lambda m: _along_dim(m, False),
    "put_along_axis": lambda m: _along_dim(m, True),
    "put_slices": _put_slices,
    "product": _products,
    "times": _products,
    "add_product": _add_product,
    "filled": _filled,
    "converted": lambda m: (m.any_of(*m.shape()), DTYPES[m.pick(tuple(DTYPES))]),
    "gather": _gathered,
    "index_add": _gathered,
    "add_rows": lambda m: (m.single(5, 3), m.index(5, m.pick((0, 4))), m.single(m.pick((0, 4)), 3)),
    "add_sampled": _add_sampled,
    "sample": _sample,
    "nll_loss_sum": lambda m: _nll_loss(m, lambda m, _: m.flag()),
    "nll_loss": lambda m: _nll_loss(m, lambda m, shape: m.real_of(*shape)),
    "nll_loss_grad": lambda m: _nll_loss(m, lambda m, _: m.number()),
    "roll": lambda m: (m.any_of(*m.shape()), m.pick((0, 1, -5, 2**62)), m.pick((None, 0, -1))),
    "clear": lambda m: (m.any_of(*m.shape()),),
    "map_axis": _map_axis,
    "convolve": _convolve,
    "conv_direct": _conv_direct,
    "conv_weight_grad": lambda m: _conv_direct(m, True),
    "cat": _joined,
    "stack": lambda m: _joined(m, True),
    "line_up": lambda m: _lists(m, 2, 0),
    "lay_out": lambda m: (m.real_of(m.n()), _lists(m, 1, 0)[0] or []),
    "lstm_step": _gates(4, "gghhh"),
    "gru_step": _gates(3, "ggbhhh"),
    "pack": lambda m: (m.single(m.n(), m.n()),),
    "times_packed": _times_packed,
    "depthwise": _depthwise,
    "linspace": lambda m: (m.number(), m.number(), m.pick((0, 2, 7, 4096, 4097))),
    "adam": lambda m: _lists(m, 5, 9),
    "sgd": lambda m: _lists(m, 3, 6),
    "set_threads": lambda m: (m.pick((1, 2, 3)),),
    "setup": lambda m: (m.single(2, 3), np, None, *list(DTYPES.values())[:6]),
    "row_major": lambda m: (m.any_of(*m.shape()),),
    "settle": lambda m: (m.any_of(*m.shape()), *(m.any_of(*m.shape()) for _ in range(m.pick((0, 1, 2, 9))))),
    "Laid": lambda m: (np.negative, np.positive, m.flag()),
    **dict.fromkeys(HANDED_OVER, lambda m: ()),
}
