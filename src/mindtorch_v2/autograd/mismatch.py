"""A function's derivatives compared with finite differences: element by element, or in fast mode along one random
direction. Complex functions are taken apart into real ones. Who asks, and what else he asks, it does not know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..core.device import strided
from ..core.tensor import Tensor, make
from .jacobians import Array, Pulled, every_direction, numerical, pushed, rows_of, units


class GradcheckError(RuntimeError):
    """A derivative is not what finite differences say, or a backward function breaks a promise."""

    __module__ = __name__.rpartition(".")[0] + ".gradcheck"  # where torch has it


class Options(NamedTuple):
    """How to measure, and how near is near enough."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    check_grad_dtypes: bool
    fast_mode: bool


class Case(NamedTuple):
    """A function to check at its inputs: which of its results count, and how the report begins."""

    func: Callable[..., Any]
    inputs: tuple[Any, ...]
    numbers: list[int]  # of the outputs, as the report counts them
    prefix: str = ""

    @property
    def watched(self) -> list[Tensor]:
        return [self.inputs[place] for place in self.places]

    @property
    def places(self) -> list[int]:
        return [place for place, x in enumerate(self.inputs) if isinstance(x, Tensor) and x.requires_grad]

    def outputs(self) -> Sequence[Any]:
        return self.func(*self.inputs)


def as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def differentiable(results: Any) -> list[Any]:
    found = [o for o in as_tuple(results) if o.requires_grad]
    if any(o.layout is not strided for o in found):
        raise ValueError(
            "Sparse output is not supported at gradcheck yet. Please call to_dense(masked_grad=...) on the output of fn "
            "for gradcheck."
        )
    return found


# --- complex functions as real ones -----------------------------------------------------------------------------------


def _backward_cases(func: Callable[..., Any], inputs: tuple[Any, ...], results: tuple[Any, ...]) -> Iterator[Case]:
    """A complex function is checked as two real ones, of which the imaginary one leaves real outputs aside."""
    places = [place for place, o in enumerate(results) if o.requires_grad]
    numbers = {place: number for number, place in enumerate(places)}
    imaginary = [place for place in places if results[place].is_complex()]

    def part(name: str, wanted: list[int], *args: Any) -> list[Any]:
        found = as_tuple(func(*args))
        return [getattr(found[p], name) if found[p].is_complex() else found[p] for p in wanted]

    if imaginary:
        yield Case(partial(part, "imag", imaginary), inputs, [numbers[p] for p in imaginary], _PARTS["imag", "outputs"])
        yield Case(partial(part, "real", places), inputs, list(numbers.values()), _PARTS["real", "outputs"])
    else:
        yield Case(partial(part, "real", places), inputs, list(numbers.values()))


_PARTS = {
    (part, what): f"While considering the {word} part of complex {what} only, "
    for part, word in (("real", "real"), ("imag", "imaginary"))
    for what in ("inputs", "outputs")
}


def _forward_cases(func: Callable[..., Any], inputs: tuple[Any, ...], results: tuple[Any, ...]) -> Iterator[Case]:
    """Forward mode gives complex outputs whole; complex inputs are moved along one part, the other one standing still."""
    places = [place for place, o in enumerate(results) if o.requires_grad]

    def whole(*args: Any) -> list[Any]:
        found = as_tuple(func(*args))
        return [found[p] for p in places]

    split = [x if isinstance(x, Tensor) and x.requires_grad and x.is_complex() else None for x in inputs]
    if all(x is None for x in split):
        yield Case(whole, inputs, list(range(len(places))))
        return

    def joined(name: str, *args: Any) -> list[Any]:
        pairs = zip(args, split, strict=True)
        return whole(*(a if x is None else _with_part(x.detach(), name, a) for a, x in pairs))

    for name in ("imag", "real"):
        given = tuple(
            a if x is None else make(getattr(x._a, name).copy()).requires_grad_()
            for a, x in zip(inputs, split, strict=True)
        )
        yield Case(partial(joined, name), given, list(range(len(places))), _PARTS[name, "inputs"])


def _with_part(x: Any, name: str, part: Any) -> Any:
    return x.real + part * 1j if name == "imag" else part + x.imag * 1j


# --- Jacobians compared -----------------------------------------------------------------------------------------------


def _near(a: Array, b: Array, rtol: float, atol: float) -> bool:
    return a.shape == b.shape and bool(np.allclose(a, b, rtol, atol))


def printed(array: Array) -> Any:
    return array.item() if array.ndim == 0 else make(np.ascontiguousarray(array))


def _mismatch(case: Case, output: int, number: int, forward: bool, expected: Array, found: Array, more: str) -> Any:
    how = " computed with forward mode" if forward else ""
    return GradcheckError(
        f"{case.prefix}Jacobian{how} mismatch for output {case.numbers[output]} with respect to input {number},\n"
        f"numerical:{printed(expected)}\nanalytical:{printed(found)}\n{more}"
    )


def _pull(case: Case, output: Any, vectors: Callable[[], Iterable[Array]], options: Options) -> list[Array]:
    """The Jacobians of one output by backward, which is run twice and has to give the same."""
    found, again = (Pulled(output, case.watched, iter(vectors())) for _ in range(2))
    if options.check_grad_dtypes and not found.same_dtypes:
        raise GradcheckError("Gradient has dtype mismatch")
    if not found.same_shapes:
        raise GradcheckError("Analytical gradient has incorrect size")
    if found.differs_from(again, options.nondet_tol):
        raise GradcheckError(
            "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives "
            "different values, although analytical gradient matches numerical gradient."
            f"The tolerance for nondeterminism was {options.nondet_tol}.\n\nNOTE: where that is meant, say how far apart "
            "two runs may be with `nondet_tol=<tol>`."
        )
    return found.jacobians


def _check_backward(case: Case, options: Options) -> None:
    outputs = case.outputs()
    expected = [numerical(case.outputs, x, every_direction(x), options.eps) for x in case.watched]
    for nr, output in enumerate(outputs):
        found = _pull(case, output, partial(units, output._a), options)
        for number, jacobian in enumerate(found):
            if not _near(jacobian, expected[number][nr], options.rtol, options.atol):
                raise _mismatch(case, nr, number, False, expected[number][nr], jacobian, "")


def _push(case: Case, place: int, directions: Iterator[Array], outputs: Sequence[Any]) -> list[Array]:
    """The rows of the Jacobians by forward mode. A tangent has its output's dtype always, which needs no check."""
    return rows_of(pushed(case.func, case.inputs, place, directions), outputs)


def _check_forward(case: Case, options: Options) -> None:
    outputs = case.outputs()
    for number, place in enumerate(case.places):
        x = case.inputs[place]
        expected = numerical(case.outputs, x, every_direction(x), options.eps)
        found = _push(case, place, units(x._a), outputs)
        for nr, (e, f) in enumerate(zip(expected, found, strict=True)):
            if not _near(f, e, options.rtol, options.atol):
                raise _mismatch(case, nr, number, True, e, f, "")


# --- fast mode: one random direction in place of them all -------------------------------------------------------------


def _drawn(random: np.random.Generator, like: Array) -> Array:
    """A vector of length one without negative parts, from numbers of its own: the caller's are left alone."""
    drawn = np.asarray(random.random(like.shape))
    return (drawn / max(float(np.linalg.norm(drawn)), 1e-300)).astype(like.dtype)


def _check_backward_fast(case: Case, options: Options) -> None:
    random, outputs, watched = np.random.default_rng(0), case.outputs(), case.watched
    along = [(_drawn(random, x._a.real), _drawn(random, x._a.real)) for x in watched]
    across = [_drawn(random, o._a) for o in outputs]
    ways = zip(watched, along, strict=True)
    expected = [numerical(case.outputs, x, iter([way]), options.eps) for x, way in ways]
    for nr, (output, vector) in enumerate(zip(outputs, across, strict=True)):
        found = _pull(case, output, partial(iter, [vector]), options)
        for number, (jacobian, way) in enumerate(zip(found, along, strict=True)):
            e, f = expected[number][nr][0] @ vector.reshape(-1), _along(jacobian[:, 0], way)
            # An error of atol in every entry of the Jacobian adds up to this in the product.
            atol = options.atol * float(vector.sum()) * max(float(part.sum()) for part in way)
            if not _near(np.asarray(f), np.asarray(e), options.rtol, atol):
                slow = numerical(case.outputs, watched[number], every_direction(watched[number]), options.eps)[nr]
                full = _pull(case, output, partial(units, output._a), options._replace(nondet_tol=np.inf))[number]
                more = _in_full(slow, full, options)
                raise _mismatch(case, nr, number, False, np.asarray(e), np.asarray(f), more)


def _along(gradient: Array, way: tuple[Array, Array]) -> Any:
    """The product of a gradient with a direction; parts of a complex one are kept apart."""
    along, across = (part.reshape(-1) for part in way)
    if gradient.dtype.kind != "c":
        return gradient @ along
    return gradient.real @ along + 1j * (gradient.imag @ across)


def _check_forward_fast(case: Case, options: Options) -> None:
    random, outputs = np.random.default_rng(0), case.outputs()
    for number, place in enumerate(case.places):
        x = case.inputs[place]
        way = _drawn(random, x._a)
        expected = numerical(case.outputs, x, iter([(way, way)]), options.eps)
        found = _push(case, place, iter([way]), outputs)
        for nr, (e, f) in enumerate(zip(expected, found, strict=True)):
            if not _near(f[0], e[0], options.rtol, options.atol * float(way.sum())):
                slow = numerical(case.outputs, x, every_direction(x), options.eps)[nr]
                full = _push(case, place, units(x._a), outputs)[nr]
                raise _mismatch(case, nr, number, True, e[0], f[0], _in_full(slow, full, options))


def _in_full(expected: Array, found: Array, options: Options) -> str:
    """For a report in fast mode: what the whole Jacobians are."""
    text = (
        "\nThe above quantities relating the numerical and analytical jacobians are computed in fast mode, that is along "
        f"one random direction. In slow mode the jacobians are:\n\nNumerical:\n{printed(expected)}\nAnalytical:\n"
        f"{printed(found)}\n\nThe max per-element difference (slow mode) is: "
        f"{float(np.abs(found - expected).max(initial=0))}.\n"
    )
    if _near(found, expected, options.rtol, options.atol):
        text += "Slow mode finds them near enough: more tolerance, or fast_mode=False, lets this check pass.\n"
    return text


def check_derivatives(
    func: Callable[..., Any], inputs: tuple[Any, ...], options: Options, forward: bool, backward: bool
) -> None:
    """Raise where the derivatives of func's differentiable outputs are not what finite differences say."""
    results = as_tuple(func(*inputs))
    if backward:
        for case in _backward_cases(func, inputs, results):
            (_check_backward_fast if options.fast_mode else _check_backward)(case, options)
    if forward:
        for case in _forward_cases(func, inputs, results):
            (_check_forward_fast if options.fast_mode else _check_forward)(case, options)
