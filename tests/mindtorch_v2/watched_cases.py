"""The cases that are run alone and watched: every sample of an op, every layer and every optimizer, in several dtypes,
layouts and sizes. They are made from the tables of samples, so a row that is added there joins by itself."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any
from unittest import mock

import numpy as np

import layer_samples
import mindtorch_v2 as torch
import op_samples
import optimizer_samples
from mindtorch_v2.dispatch.op import OPS
from watching import Case, called, leaves

NAMES = sorted(name for name in op_samples.SAMPLES if name in OPS)
MOST_ELEMENTS = 1 << 19


class TooLarge(Exception):
    """A sample has more elements, or would make more, than it takes to reach all ways of adding up."""


# --- ops --------------------------------------------------------------------------------------------------------------


def turned(t: Any) -> Any:
    """The same values with dimensions in the other order in memory."""
    order = tuple(range(t.dim()))[::-1]
    return t.permute(order).contiguous().permute(order)


def stepped(t: Any) -> Any:
    """The same values, every other of a larger tensor."""
    if t.dim() == 0:
        return t
    wide = torch.zeros((*t.shape[:-1], 2 * t.shape[-1]), dtype=t.dtype)
    wide[..., ::2] = t
    return wide[..., ::2]


def expanded(t: Any) -> Any:
    """The first of each row over and over, in one place of memory."""
    return t if t.dim() == 0 else t[..., :1].expand(t.shape)


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda t: t,
    "turned": turned,
    "stepped": stepped,
    "expanded": expanded,
}


def prepared(value: Any, dtype: Any, layout: str, grad: bool) -> Any:
    """Arguments with their floating point tensors in a dtype, all laid out in a way, and leaves of a graph where asked."""
    if isinstance(value, torch.Tensor):
        changes = value.is_floating_point() and dtype is not None
        made = LAYOUTS[layout](value.detach().to(dtype) if changes else value.detach())
        return made.requires_grad_() if grad and (made.is_floating_point() or made.is_complex()) else made
    if isinstance(value, (list, tuple)):
        return type(value)(prepared(v, dtype, layout, grad) for v in value)
    if isinstance(value, dict):
        return {k: prepared(v, dtype, layout, grad) for k, v in value.items()}
    return value


@functools.lru_cache(32)
def _values(letter: str, shape: tuple[int, ...], options: tuple[tuple[str, Any], ...]) -> Any:
    """What a maker of samples puts into a tensor of a shape."""
    return _MAKERS[letter](*shape, **dict(options)).numpy()


_MAKERS = {letter: getattr(op_samples, letter) for letter in "FIB"}


def sample(name: str, scale: int = 1) -> tuple[Any, Any]:
    """Arguments of a row's sample, all dimensions of its tensors but those of one element so many times as long."""

    def larger(letter: str) -> Callable[..., Any]:
        def scaled(*shape: int, **options: Any) -> Any:
            wanted = tuple(n * scale if n > 1 else n for n in shape)
            if np.prod(wanted) > MOST_ELEMENTS:
                raise TooLarge(name)
            return torch.from_numpy(_values(letter, wanted, tuple(options.items())).copy())

        return scaled

    makers = {letter: larger(letter) for letter in _MAKERS}
    with mock.patch.multiple(op_samples, **makers):
        args, kwargs = op_samples.SAMPLES[name]()
    if scale > 1:
        _refuse_large_results(name, args, kwargs)
    return args, kwargs


def _refuse_large_results(name: str, args: Any, kwargs: Any) -> None:
    """TooLarge where the shapes of results say so; where these are not known beforehand the op makes no more than it gets."""
    empty = [
        [t.to("meta") if isinstance(t, torch.Tensor) else t for t in a] if isinstance(a, list) else a for a in args
    ]
    empty = [a.to("meta") if isinstance(a, torch.Tensor) else a for a in empty]
    try:
        made = OPS[name].function(*empty, **kwargs)
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
        return
    if any(t.numel() > MOST_ELEMENTS for t in leaves(made)):
        raise TooLarge(name)


def op_case(name: str, dtype: Any = None, layout: str = "plain", grad: bool = False, scale: int = 1) -> Case:
    def case() -> Any:
        try:
            args, kwargs = sample(name, scale)
        except TooLarge:
            return None
        return called(
            OPS[name].function, prepared(tuple(args), dtype, layout, grad), prepared(kwargs, dtype, layout, grad)
        )

    return case


def op_cases(
    names: Iterable[str] = NAMES,
    dtypes: Iterable[Any] = (None,),
    layouts: Iterable[str] = ("plain",),
    grads: Iterable[bool] = (False, True),
    scales: Iterable[int] = (1,),
) -> dict[str, Case]:
    return {
        f"{name} of {dtype or 'sample'}, {layout}{', grad' if grad else ''}, x{scale}": op_case(
            name, dtype, layout, grad, scale
        )
        for name in names
        for dtype in dtypes
        for layout in layouts
        for grad in grads
        for scale in scales
    }


def out_case(name: str) -> Case:
    """The sample with its result written to a tensor that is there."""

    def case() -> Any:
        args, kwargs = sample(name)
        made = OPS[name].function(*args, **kwargs)
        outs = [torch.empty_like(t) for t in (made if isinstance(made, (tuple, list)) else [made])]
        OPS[name].function(*args, **kwargs, out=outs[0] if len(outs) == 1 else tuple(outs))
        return outs

    return case


def in_place_case(name: str, dtype: Any, grad: bool) -> Case:
    """The op in place, on a tensor that no leaf is."""
    base, dot, overload = name.partition(".")
    row = OPS[f"{base}_{dot}{overload}"]

    def case() -> Any:
        (first, *rest), kwargs = sample(name)
        first, rest = prepared(first, dtype, "plain", grad), prepared(tuple(rest), dtype, "plain", False)
        target = first * 1 if grad else first.clone()
        return called(row.function, (target, *rest), kwargs), first.grad

    return case


def forms() -> dict[str, Case]:
    """Rows with `out=`, and in place."""
    found = {f"{name}, out=": out_case(name) for name in NAMES if OPS[name].has_out}
    for name in NAMES:
        base, dot, overload = name.partition(".")
        if f"{base}_{dot}{overload}" in OPS:
            for dtype in (None, torch.bfloat16):
                for grad in (False, True):
                    label = f"{base}_{dot}{overload} of {dtype or 'sample'}{', grad' if grad else ''}"
                    found[label] = in_place_case(name, dtype, grad)
    return found


# --- layers and optimizers --------------------------------------------------------------------------------------------


def layer_case(sampled: Any, training: bool, dtype: Any, grad: bool) -> Case:
    def case() -> Any:
        layer = sampled.make(torch).train(training)
        layer = layer if dtype is None else layer.to(dtype)
        args, kwargs = sampled.tensors(torch)
        given = [prepared(a, dtype, "plain", grad and a.requires_grad) for a in args]
        named = {k: prepared(v, dtype, "plain", grad and v.requires_grad) for k, v in kwargs.items()}
        with torch.set_grad_enabled(grad):
            results = called(layer, given, named)
        return results, [p.grad for p in layer.parameters()], dict(layer.state_dict())

    return case


def layer_cases(dtypes: Iterable[Any], grads: Iterable[bool] = (True, False)) -> dict[str, Case]:
    return {
        f"{i}: {sampled.text}, {'train' if training else 'eval'}, {dtype or 'float32'}{', grad' if grad else ''}": (
            layer_case(sampled, training, dtype, grad)
        )
        for i, sampled in enumerate(layer_samples.CASES)
        for training in (True, False)
        for dtype in dtypes
        for grad in grads
    }


def optimizer_cases(dtypes: Iterable[Any], shapes: Iterable[str], turned: Iterable[bool] = (False,)) -> dict[str, Case]:
    found = {}
    for name, sets in optimizer_samples.OPTIONS.items():
        known = inspect.signature(getattr(torch.optim, name).__init__).parameters
        manners = [m for m in optimizer_samples.MANNERS if all(option in known for option in m)]
        for options in ({**o, **m} for o in sets for m in manners):
            for dtype in dtypes:
                for shape in shapes:
                    for kind in turned:
                        label = f"{name}({options}) on {shape} of {dtype}{', turned' if kind else ''}"
                        found[label] = optimizer_samples.trained(
                            name, options, optimizer_samples.SHAPES[shape], dtype, turned=kind
                        )
    return found
