"""What devices can do at most: operations a second by type and bytes a second, each with its source.

Figures are the vendors' for dense matrices (without sparsity). A device that is not in the table has no roofline; users add
theirs as `{"name": {"match": "regular expression", "flops": {"bf16": 1e12, ...}, "bytes_per_s": 1e12, "source": "..."}}`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

T = 1e12


class Peak(NamedTuple):
    """A device: the pattern its name matches, operations a second by type, bytes a second and who says so."""

    name: str
    match: str
    flops: Mapping[str, float]
    bytes_per_s: float
    source: str


def _peak(name: str, match: str, source: str, bandwidth: float, **teraflops: float) -> Peak:
    return Peak(name, match, {kind: value * T for kind, value in teraflops.items()}, bandwidth * T, source)


_H100 = "NVIDIA H100 Tensor Core GPU datasheet, without sparsity"
_A100 = "NVIDIA A100 Tensor Core GPU datasheet, without sparsity"
_CDNA3 = "AMD Instinct MI300X / MI325X accelerator data sheets, without sparsity"
_CDNA2 = "AMD Instinct MI200 series data sheets; a device is one of the two dies of MI250 and MI250X"
# The first that matches; names are those of `deviceProperties` in traces.
TABLE = (
    _peak("B200", r"\bB200\b", "NVIDIA HGX B200 datasheet, an eighth, without sparsity",
          7.7, fp64=37, fp32=75, tf32=1100, bf16=2250, fp16=2250, fp8=4500, int8=4500),
    _peak("H200", r"\bH200\b", "NVIDIA H200 Tensor Core GPU datasheet, without sparsity",
          4.8, fp64=34, fp32=67, tf32=494.5, bf16=989.5, fp16=989.5, fp8=1979, int8=1979),
    _peak("H100 PCIe", r"\bH100 PCIe", _H100, 2.0, fp64=26, fp32=51, tf32=378, bf16=756, fp16=756, fp8=1513, int8=1513),
    _peak("H100 SXM", r"\bH100\b", _H100,
          3.35, fp64=34, fp32=67, tf32=494.5, bf16=989.5, fp16=989.5, fp8=1979, int8=1979),
    _peak("A100 80GB", r"\bA100\b.*80G", _A100, 2.039, fp64=9.7, fp32=19.5, tf32=156, bf16=312, fp16=312, int8=624),
    _peak("A100 40GB", r"\bA100\b", _A100, 1.555, fp64=9.7, fp32=19.5, tf32=156, bf16=312, fp16=312, int8=624),
    _peak("V100 SXM2", r"\bV100-SXM2", "NVIDIA V100 Tensor Core GPU datasheet", 0.9, fp64=7.8, fp32=15.7, fp16=125),
    _peak("V100 PCIe", r"\bV100-PCIE", "NVIDIA V100 Tensor Core GPU datasheet", 0.9, fp64=7, fp32=14, fp16=112),
    _peak("L40S", r"\bL40S\b", "NVIDIA L40S datasheet, without sparsity",
          0.864, fp32=91.6, tf32=183, bf16=362.05, fp16=362.05, fp8=733, int8=733),
    _peak("L4", r"\bL4\b", "NVIDIA L4 Tensor Core GPU datasheet, half of the figures with sparsity",
          0.3, fp32=30.3, tf32=60, bf16=121, fp16=121, fp8=242.5, int8=242.5),
    _peak("A10", r"\bA10\b", "NVIDIA A10 Tensor Core GPU datasheet, without sparsity",
          0.6, fp32=31.2, tf32=62.5, bf16=125, fp16=125, int8=250),
    _peak("T4", r"\bT4\b", "NVIDIA T4 datasheet", 0.32, fp32=8.1, fp16=65, int8=130),
    _peak("MI325X", r"\bMI325X", _CDNA3, 6.0, fp64=81.7, fp32=163.4, tf32=653.7, bf16=1307.4, fp16=1307.4, fp8=2614.9),
    _peak("MI300X", r"\bMI300X", _CDNA3, 5.3, fp64=81.7, fp32=163.4, tf32=653.7, bf16=1307.4, fp16=1307.4, fp8=2614.9),
    _peak("MI250X", r"\bMI250X", _CDNA2, 1.6384, fp64=23.95, fp32=23.95, bf16=191.5, fp16=191.5, int8=191.5),
    _peak("MI250", r"\bMI250\b", _CDNA2, 1.6384, fp64=22.65, fp32=22.65, bf16=181.05, fp16=181.05, int8=181.05),
    _peak("MI210", r"\bMI210", _CDNA2, 1.6384, fp64=22.6, fp32=22.6, bf16=181, fp16=181, int8=181),
)  # fmt: skip


def peak_of(name: str, more: Mapping[str, Mapping[str, Any]] | None = None) -> Peak | None:
    """The peak of a device by its name; the user's own come first."""
    own = tuple(_own(key, entry) for key, entry in (more or {}).items())
    return next((peak for peak in own + TABLE if re.search(peak.match, name, re.IGNORECASE)), None)


def _own(name: str, entry: Mapping[str, Any]) -> Peak:
    try:
        flops = {str(kind): float(value) for kind, value in entry["flops"].items()}
        match, bandwidth = str(entry.get("match", re.escape(name))), float(entry["bytes_per_s"])
        re.compile(match)
        if bandwidth <= 0 or not flops or min(flops.values()) <= 0:
            raise ValueError("peaks are positive numbers")
        return Peak(name, match, flops, bandwidth, str(entry.get("source", "given by the user")))
    except (AttributeError, KeyError, TypeError, ValueError, re.error) as error:
        raise ValueError(
            f"the peaks of {name!r} make no sense ({error!r}); write "
            '{"flops": {"bf16": 1e12}, "bytes_per_s": 1e12, "match": "regular expression", "source": "..."}'
        ) from error


@cache
def cpu_peak() -> Peak:
    """This machine's, measured once: the fastest of some products of matrices and of some copies, with NumPy."""
    size, most = 768, 5
    flops = {}
    for kind, dtype in (("fp32", np.float32), ("fp64", np.float64)):
        left, right = (np.ones((size, size), dtype) for _ in range(2))
        result = np.empty_like(left)
        flops[kind] = 2 * size**3 / _fastest(lambda a=left, b=right, out=result: np.matmul(a, b, out=out), most)
    source = np.ones(1 << 23, np.float32)
    target = np.empty_like(source)
    bandwidth = 2 * source.nbytes / _fastest(lambda: np.copyto(target, source), most)
    return Peak("cpu", "", flops, bandwidth, "measured on this machine with NumPy: matmul and copy")


def _fastest(call: Any, times: int) -> float:
    """Seconds of the fastest of some calls."""
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        call()
        found.append(time.perf_counter() - begin)
    return max(min(found), 1e-9)
