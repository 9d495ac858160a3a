"""Where ops stand under the roof of their device: operations and bytes from shapes and types, against its peaks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..metrics import Metrics
from .intervals import Ints
from .kernels import family_of
from .peaks import Peak

# torch's names of types in traces, with the names that peaks have and bytes an element.
_TYPES = {
    "double": ("fp64", 8), "float": ("fp32", 4), "c10::Half": ("fp16", 2), "c10::BFloat16": ("bf16", 2),
    "signed char": ("int8", 1), "unsigned char": ("int8", 1), "bool": ("int8", 1), "short": ("int16", 2),
    "int": ("int32", 4), "long": ("int64", 8), "long int": ("int64", 8),
    "c10::complex<float>": ("complex64", 8), "c10::complex<double>": ("complex128", 16),
}  # fmt: skip
_EIGHT_BITS = re.compile("Float8")
_TENSOR_FLOAT = re.compile(r"tf32|tensorop|s1688|xmma", re.IGNORECASE)
_PRODUCTS = {"mm": (0, 1), "addmm": (1, 2), "bmm": (0, 1), "baddbmm": (1, 2), "matmul": (0, 1), "_scaled_mm": (0, 1)}
_MOST_ROWS = 200


class RooflineRow(NamedTuple):
    """Calls of one op with the same shapes and type."""

    operator: str
    family: str
    shapes: str
    dtype: str
    calls: int
    flops: int
    nbytes: int
    time_ns: int
    # Of the peaks for its type: operations a second and bytes a second.
    peak_flops: float
    peak_bytes: float

    @property
    def intensity(self) -> float:
        """Operations for each byte."""
        return self.flops / self.nbytes if self.nbytes else math.inf

    @property
    def achieved(self) -> float:
        """Operations a second."""
        return self.flops * 1e9 / self.time_ns

    @property
    def roof(self) -> float:
        """Operations a second that the device could do at this intensity."""
        return min(self.peak_flops, self.intensity * self.peak_bytes)

    @property
    def bound(self) -> str:
        return "compute" if self.intensity * self.peak_bytes >= self.peak_flops else "memory"


def roofline(metrics: Metrics, time_ns: Ints, peak: Peak, kernels: Callable[[int], str]) -> list[RooflineRow]:
    """A row for each op, shapes and type with a formula and time, longest first.

    `time_ns` is what each event took on the device, `kernels` tells the name of the longest kernel of an event.
    """
    places = np.flatnonzero((metrics.work > 0) & (time_ns > 0) & (metrics.inputs > 0))
    width = np.int64(metrics.inputs.max(initial=0)) + 1
    pairs, first, which = np.unique(
        metrics.kind[places] * width + metrics.inputs[places], return_index=True, return_inverse=True
    )
    which = which.reshape(-1)
    calls, time = np.bincount(which, minlength=len(pairs)), np.bincount(which, weights=time_ns[places])
    flops = np.bincount(which, weights=metrics.work[places].astype(float), minlength=len(pairs))
    found: dict[tuple[str, str, str], RooflineRow] = {}
    for number in np.argsort(-time, kind="stable")[:_MOST_ROWS].tolist() if len(pairs) else ():
        place = int(places[first[number]])
        row = _row(metrics, place, int(calls[number]), int(flops[number]), int(time[number]), peak, kernels(place))
        if row is not None:
            key = (row.operator, row.shapes, row.dtype)
            found[key] = _sum(found[key], row) if key in found else row
    return list(found.values())


def _sum(one: RooflineRow, other: RooflineRow) -> RooflineRow:
    return one._replace(
        calls=one.calls + other.calls,
        flops=one.flops + other.flops,
        nbytes=one.nbytes + other.nbytes,
        time_ns=one.time_ns + other.time_ns,
    )


def _row(
    metrics: Metrics, place: int, calls: int, flops: int, time: int, peak: Peak, kernel: str
) -> RooflineRow | None:
    kind = metrics.kind_of(int(metrics.kind[place]))
    record = metrics.input_record(int(metrics.kind[place]), int(metrics.inputs[place]))
    types = [known for known in map(_type, record.dtypes) if known is not None]
    if not types or not record.shapes:
        return None
    dtype = types[0][0]
    if dtype == "fp32" and "tf32" in peak.flops and _TENSOR_FLOAT.search(kernel):
        dtype = "tf32"
    top = peak.flops.get(dtype)
    if top is None:
        return None
    name = kind.name.removeprefix("aten::")
    nbytes = _bytes(name, record, flops // calls)
    shapes = ", ".join("×".join(map(str, shape)) for shape in record.shapes if _is_shape(shape))
    family = family_of(f"{name}_kernel") if name not in _PRODUCTS else "matmul"
    return RooflineRow(kind.name, family, shapes, dtype, calls, flops, nbytes * calls, time, top, peak.bytes_per_s)


def _type(name: str) -> tuple[str, int] | None:
    return ("fp8", 1) if _EIGHT_BITS.search(name) else _TYPES.get(name)


def _is_shape(shape: Any) -> bool:
    return bool(shape) and all(isinstance(size, int) for size in shape)


def _bytes(name: str, record: Any, flops: int) -> int:
    """Each input read once and the result written once."""
    sizes = [(_type(dtype) or ("", 0))[1] for dtype in record.dtypes]
    elements = [math.prod(shape) if _is_shape(shape) else 0 for shape in record.shapes]
    width = next((size for size in sizes if size), 0)
    read = sum(count * size for count, size in zip(elements, sizes))
    return read + _results(name, record.shapes, elements, flops) * width


def _results(name: str, shapes: Sequence[Sequence[int]], elements: Sequence[int], flops: int) -> int:
    """How many elements the result has."""
    if name in _PRODUCTS and len(shapes) > max(_PRODUCTS[name]):
        left, right = (shapes[place] for place in _PRODUCTS[name])
        if len(left) >= 1 and len(right) >= 2 and left[-1]:
            return math.prod(left) // left[-1] * right[-1]
    if name == "linear" and len(shapes) > 1 and shapes[0] and shapes[1] and shapes[0][-1]:
        return elements[0] // shapes[0][-1] * shapes[1][0]
    if "conv" in name and len(shapes) > 1 and len(shapes[1]) > 1 and elements[1]:
        # Two operations for each result and each weight that makes it.
        return flops * shapes[1][0] // (2 * elements[1])
    if "attention" in name and elements:
        return elements[0]
    return max(elements, default=0)
