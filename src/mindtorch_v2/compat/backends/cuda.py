"""torch.backends.cuda without CUDA."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ...ops.network.attention import WAYS


class _Matmul:
    """How products on CUDA are computed; any attribute may be set."""

    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True
    allow_fp16_accumulation = False
    fp32_precision = "none"


class _PlanCache:
    """Plans of Fourier transforms, of which CUDA keeps none here."""

    size = 0
    max_size = 0

    def clear(self) -> None:
        pass


matmul = _Matmul()
cufft_plan_cache = _PlanCache()
_enabled = {"fp16_bf16_reduction_math": False}
_library = {"linalg": "default", "blas": "default", "rocm_fa": "default"}


def is_built() -> bool:
    return False


def is_flash_attention_available() -> bool:
    return False


def can_use_flash_attention(params: Any, debug: bool = False) -> bool:
    return False


def can_use_efficient_attention(params: Any, debug: bool = False) -> bool:
    return False


def can_use_cudnn_attention(params: Any, debug: bool = False) -> bool:
    return False


def preferred_linalg_library(backend: str | None = None) -> str:
    if backend is not None:
        _library["linalg"] = backend
    return _library["linalg"]


def preferred_blas_library(backend: str | None = None) -> str:
    if backend is not None:
        _library["blas"] = backend
    return _library["blas"]


def flash_sdp_enabled() -> bool:
    return WAYS["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    WAYS["flash"] = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    return WAYS["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    WAYS["mem_efficient"] = bool(enabled)


def math_sdp_enabled() -> bool:
    return WAYS["math"]


def enable_math_sdp(enabled: bool) -> None:
    WAYS["math"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    return WAYS["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    WAYS["cudnn"] = bool(enabled)


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    return _enabled["fp16_bf16_reduction_math"]


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    _enabled["fp16_bf16_reduction_math"] = bool(enabled)


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> Iterator[None]:
    """Choose the ways to compute attention for a while."""
    before = dict(WAYS)
    WAYS.update(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)
    try:
        yield
    finally:
        WAYS.update(before)
