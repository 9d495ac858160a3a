"""torch.utils.cpp_extension: C++ extensions need torch's C++ library, which is not there."""

from __future__ import annotations

from typing import Any, NoReturn

CUDA_HOME: str | None = None
ROCM_HOME: str | None = None
IS_HIP_EXTENSION = False


def _unavailable(*args: Any, **kwargs: Any) -> NoReturn:
    raise RuntimeError(
        "C++ extensions link against torch's C++ library, which mindtorch_v2 does not have; use the Python path of the "
        "package that asks for this extension"
    )


load = load_inline = CppExtension = CUDAExtension = SyclExtension = include_paths = library_paths = _unavailable


class BuildExtension:
    """The build command of an extension."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _unavailable()

    @classmethod
    def with_options(cls, **options: Any) -> NoReturn:
        _unavailable()
