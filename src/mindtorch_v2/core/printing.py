"""How a tensor is written as text: the print options, the notation of its numbers, their layout and the suffixes.

It works on plain arrays and knows a tensor only by the facts that its text mentions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

PARAMETER_HEADING: Final = "Parameter containing:\n"


@dataclass
class PrintOptions:
    """What `set_printoptions` sets."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


PRINT_OPTS: Final = PrintOptions()

_PROFILES: Final[dict[str, dict[str, Any]]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed; what is not given stays, except `sci_mode`, which returns to automatic.

    Args:
        precision: digits after the decimal point.
        threshold: number of elements above which only the edges are printed.
        edgeitems: how many elements are printed at each end of a summarised dimension.
        linewidth: characters per line.
        profile: "default", "short" or "full", a set of the options above; single options override it.
        sci_mode: True or False forces scientific notation on or off, None chooses by the values.
    """
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    # An unknown profile is no error in torch either.
    options = _PROFILES.get(profile or "", {}) | {name: value for name, value in given.items() if value is not None}
    for name, value in options.items():
        setattr(PRINT_OPTS, name, value)
    PRINT_OPTS.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """The options in force, as keyword arguments of `set_printoptions`."""
    return asdict(PRINT_OPTS)


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Set print options, as `set_printoptions` takes them, for the duration of a `with` block."""
    before = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        set_printoptions(**before)


def tensor_repr(
    array: Array,
    *,
    dtype_name: str,
    default_dtype_name: str = "float32",
    requires_grad: bool = False,
    grad_fn_name: str | None = None,
    device: str = "cpu",
    class_name: str = "tensor",
    is_parameter: bool = False,
    contents: str | None = None,
) -> str:
    """The `repr` of a tensor that holds `array`; of a meta tensor only the array's shape is looked at.

    `class_name` is "tensor" for `Tensor` and `Parameter` themselves and the type's name for other subclasses.
    `is_parameter` wraps such a subclass in "Parameter(...)"; the heading of a plain parameter is
    `PARAMETER_HEADING`, which `Parameter.__repr__` puts in front. `contents` is written in place of the values.
    """
    prefix = f"{class_name}("
    is_meta = device.startswith("meta")
    suffixes = _place_suffixes(array, dtype_name, default_dtype_name, device, is_meta)
    if grad_fn_name is not None:
        suffixes.append(f"grad_fn=<{grad_fn_name}>")
    elif requires_grad:
        suffixes.append("requires_grad=True")
    if contents is None:
        contents = "..." if is_meta else _contents(array, dtype_name, len(prefix))
    text = _append_suffixes(prefix + contents, suffixes, len(prefix)) + ")"
    return f"Parameter({text})" if is_parameter and class_name != "tensor" else text


def format_scalar(array: Array, format_spec: str, *, dtype_name: str) -> str:
    """What `format(x, format_spec)` gives for a plain tensor `x` of no dimensions that is not on meta.

    Every other tensor is formatted by `object.__format__`, which takes no format spec.
    """
    return format(_python_values(array, dtype_name)[0], format_spec)


def _place_suffixes(array: Array, dtype_name: str, default_dtype_name: str, device: str, is_meta: bool) -> list[str]:
    suffixes = []
    if device.partition(":")[0] != "cpu":
        suffixes.append(f"device='{device}'")
    is_empty = array.size == 0
    if is_meta or (is_empty and array.ndim != 1) or (not is_empty and not PRINT_OPTS.edgeitems):
        suffixes.append(f"size={tuple(array.shape)}")
    understood = {default_dtype_name}
    if not (is_meta or is_empty):
        # Printed elements tell these dtypes apart by themselves.
        default_complex = "complex128" if default_dtype_name == "float64" else "complex64"
        understood |= {"int64", "bool", default_complex}
    if dtype_name not in understood:
        suffixes.append(f"dtype=torch.{dtype_name}")
    return suffixes


def _append_suffixes(text: str, suffixes: Sequence[str], indent: int) -> str:
    # The two extra characters stand in torch's count as well, which breaks the line that much earlier.
    used = len(text.rpartition("\n")[2]) + 2
    for suffix in suffixes:
        if used + len(suffix) + 2 > PRINT_OPTS.linewidth:
            text += ",\n" + " " * indent + suffix
            used = indent + len(suffix)
        else:
            text += ", " + suffix
            used += len(suffix) + 2
    return text


def _contents(array: Array, dtype_name: str, indent: int) -> str:
    if array.size == 0:
        return "[]"
    edge = PRINT_OPTS.edgeitems
    summarize = array.size > PRINT_OPTS.threshold
    if summarize and array.ndim and not edge:
        return "[...]"
    elided = [summarize and extent > 2 * edge for extent in array.shape]
    shown = _edges(array, elided, edge) if any(elided) else array
    cells, width = _cells(_python_values(shown, dtype_name), dtype_name)
    nested = np.array(cells, dtype=object).reshape(shown.shape).tolist()
    return _layout(nested, elided, width, indent)


def _edges(array: Array, elided: Sequence[bool], edge: int) -> Array:
    """The elements that a summary shows: the first and last `edge` of each elided dimension."""
    kept = [
        [*range(edge), *range(extent - edge, extent)] if cut else range(extent)
        for extent, cut in zip(array.shape, elided, strict=True)
    ]
    return array[np.ix_(*kept)]


def _layout(nested: Any, elided: Sequence[bool], width: int, indent: int) -> str:
    """Brackets around nested lists of cells; `elided` says for each dimension whether dots stand in its middle."""
    if not elided:
        return str(nested)
    if len(elided) == 1:
        return _row(nested, elided[0], width, indent)
    blocks = [_layout(block, elided[1:], width, indent + 1) for block in nested]
    if elided[0]:
        blocks.insert(len(blocks) // 2, "...")
    separator = "," + "\n" * (len(elided) - 1) + " " * (indent + 1)
    return "[" + separator.join(blocks) + "]"


def _row(cells: Sequence[str], elided: bool, width: int, indent: int) -> str:
    if elided:
        middle = len(cells) // 2
        cells = [*cells[:middle], " ...", *cells[middle:]]
    per_line = max(1, math.floor((PRINT_OPTS.linewidth - indent) / (width + len(", "))))
    lines = [", ".join(cells[start : start + per_line]) for start in range(0, len(cells), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _is_floating(dtype_name: str) -> bool:
    return dtype_name.startswith(("float", "bfloat"))


def _python_values(array: Array, dtype_name: str) -> list[Any]:
    """The elements as Python numbers in row-major order."""
    # The dtypes of ml_dtypes have no Python number of their own.
    exact = array.astype(np.float64) if _is_floating(dtype_name) else array
    values: list[Any] = exact.ravel().tolist()
    return values


def _cells(values: list[Any], dtype_name: str) -> tuple[list[str], int]:
    """The text of each value, aligned, and the width that lines are filled by.

    A cell may be wider than that: as in torch, zeros and non-finite numbers do not count.
    """
    if dtype_name.startswith("complex"):
        return _complex_cells(values)
    if _is_floating(dtype_name):
        return _float_cells(values)
    return _aligned(values, format, values)


def _complex_cells(values: list[complex]) -> tuple[list[str], int]:
    reals, real_width = _float_cells([value.real for value in values])
    imags, imag_width = _float_cells([value.imag for value in values])
    cells = [real + _signed(imag.lstrip()) + "j" for real, imag in zip(reals, imags, strict=True)]
    return cells, real_width + imag_width + len("j")


def _signed(number: str) -> str:
    return number if number.startswith("-") else "+" + number


def _float_cells(values: list[float]) -> tuple[list[str], int]:
    counted = [value for value in values if value and math.isfinite(value)]
    return _aligned(values, _notation(counted), counted)


def _notation(counted: list[float]) -> Callable[[float], str]:
    """The way of writing that suits the finite values other than zero."""
    if counted and _needs_exponent(counted):
        return f"{{:.{PRINT_OPTS.precision}e}}".format
    if all(value.is_integer() for value in counted):
        return _whole
    return f"{{:.{PRINT_OPTS.precision}f}}".format


def _needs_exponent(counted: list[float]) -> bool:
    if PRINT_OPTS.sci_mode is not None:
        return PRINT_OPTS.sci_mode
    magnitudes = [abs(value) for value in counted]
    smallest, largest = min(magnitudes), max(magnitudes)
    return largest / smallest > 1000.0 or largest > 1.0e8 or smallest < 1.0e-4


def _whole(value: float) -> str:
    # The bare point tells a float from an int; inf and nan show that without it.
    return f"{value:.0f}." if math.isfinite(value) else f"{value:.0f}"


def _aligned(values: list[Any], write: Callable[[Any], str], counted: list[Any]) -> tuple[list[str], int]:
    width = max(map(len, map(write, counted)), default=1)
    return [write(value).rjust(width) for value in values], width
