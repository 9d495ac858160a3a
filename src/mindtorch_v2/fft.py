"""torch.fft."""

from __future__ import annotations

from typing import Any

from .dispatch.op import OPS
from .ops.linalg import fourier

_NAMES = (
    "fft ifft rfft irfft hfft ihfft fft2 ifft2 rfft2 irfft2 hfft2 ihfft2 fftn ifftn rfftn irfftn hfftn ihfftn fftshift "
    "ifftshift"
).split()
globals().update({name: OPS[f"fft_{name}"].function for name in _NAMES})


def fftfreq(n: int, d: float = 1.0, *, out: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False,
            layout: Any = None) -> Any:  # fmt: skip
    """The frequencies of a transform of length n."""
    made = fourier.fftfreq(n, d, dtype=dtype, device=device)
    return made.requires_grad_(requires_grad) if requires_grad else made


def rfftfreq(n: int, d: float = 1.0, *, out: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False,
             layout: Any = None) -> Any:  # fmt: skip
    """The frequencies of a real transform of length n."""
    made = fourier.rfftfreq(n, d, dtype=dtype, device=device)
    return made.requires_grad_(requires_grad) if requires_grad else made


__all__ = [*_NAMES, "fftfreq", "rfftfreq"]
