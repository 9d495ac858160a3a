"""torch.backends: switches of libraries that torch may be built with. They are remembered; NumPy knows none of them."""

from . import cpu, cuda, cudnn, cusparselt, mkl, mkldnn, mps, nnpack, openmp, opt_einsum, quantized

fp32_precision = "none"

__all__ = [
    "cpu",
    "cuda",
    "cudnn",
    "cusparselt",
    "mkl",
    "mkldnn",
    "mps",
    "nnpack",
    "openmp",
    "opt_einsum",
    "quantized",
]
