"""Devices, layouts and memory formats: the small named constants a tensor carries."""

from __future__ import annotations

import re
from typing import Any

_KNOWN = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla", "lazy",
    "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone",
)  # fmt: skip


_PLAIN_NAMES = frozenset(_KNOWN)


class device:
    """Where a tensor lives: a type and, rarely, an index."""

    __slots__ = ("type", "index")

    def __init__(self, type: Any, index: int | None = None) -> None:
        if isinstance(type, device):
            self.type: str = type.type
            self.index: int | None = type.index
            return
        if isinstance(type, str) and type in _PLAIN_NAMES:
            self.type, self.index = type, index
            return
        if isinstance(type, int):
            raise RuntimeError("Cannot access accelerator device when none is available.")
        if not isinstance(type, str):
            raise TypeError(f"device(): argument 'type' must be str, device or int, not {type.__class__.__name__}")
        match = re.fullmatch(r"([a-z_]+)(?::(0|[1-9][0-9]*))?", type)
        if match is None:
            raise RuntimeError(f"Invalid device string: '{type}'")
        name, number = match.groups()
        if name not in _KNOWN:
            raise RuntimeError(f"Expected one of {', '.join(_KNOWN)} device type at start of device string: {name}")
        if number is not None and index is not None:
            raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: {type}")
        self.type = name
        self.index = int(number) if number is not None else index

    def __repr__(self) -> str:
        return (
            f"device(type='{self.type}')" if self.index is None else f"device(type='{self.type}', index={self.index})"
        )

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and self.type == other.type and self.index == other.index

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> tuple[Any, ...]:
        return (device, (self.type,) if self.index is None else (self.type, self.index))

    def __enter__(self) -> device:
        _default_stack.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _default_stack.pop()


CPU = device("cpu")
META = device("meta")
_default_stack: list[device] = []


def default_device() -> device:
    """The device factories use when none is given."""
    return _default_stack[-1] if _default_stack else CPU


def set_default_device(d: Any) -> None:
    """Make `d` the device of factories from now on (None: back to the CPU)."""
    _default_stack.clear()
    if d is not None:
        _default_stack.append(usable(d))


def usable(d: Any) -> device:
    """`d` as a device on which tensors can be made, or the error a CPU-only torch gives."""
    if d is None:
        return default_device()
    found = d if isinstance(d, device) else device(d)
    if found.type in ("cpu", "meta"):
        return found
    if found.type == "cuda":
        raise AssertionError("Torch not compiled with CUDA enabled")
    raise RuntimeError(
        f"Device type '{found.type}' is not available in mindtorch_v2; tensors live on 'cpu' or 'meta'. "
        "Use device='cpu', or guard the call with torch.cuda.is_available()."
    )


def is_plain_cpu(d: Any) -> bool:
    """Whether a factory that is given `d` as device makes its tensor on the CPU; False where that is not obvious."""
    if d is None:
        return not _default_stack
    return d is CPU or (type(d) is device and d.type == "cpu") or (type(d) is str and d == "cpu")


class _Constant:
    """A named constant that prints and pickles by its torch name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _constant, (self.name,)


class layout(_Constant):
    """How elements are laid out; only strided tensors exist here."""

    __slots__ = ()


class memory_format(_Constant):
    """The stride order of a dense tensor."""

    __slots__ = ()


strided = layout("strided")
sparse_coo = layout("sparse_coo")
sparse_csr = layout("sparse_csr")
contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")
_constants = {
    c.name: c
    for c in (strided, sparse_coo, sparse_csr, contiguous_format, preserve_format, channels_last, channels_last_3d)
}


def _constant(name: str) -> _Constant:
    return _constants[name]


def check_options(name: str, form: Any, pin_memory: Any, d: Any = None) -> None:
    """Refuse what no new tensor is: of another layout than strided (conversions make those), or in pinned memory, which
    comes with an accelerator. On the meta device there is no memory to pin."""
    if form is not None and not isinstance(form, layout):
        raise TypeError(f"{name}(): argument 'layout' must be torch.layout, not {type(form).__name__}")
    if pin_memory is not None and not isinstance(pin_memory, bool):
        raise TypeError(f"{name}(): argument 'pin_memory' must be bool, not {type(pin_memory).__name__}")
    if form is not None and form is not strided:
        raise NotImplementedError(
            f"{name}(): new tensors are strided, got layout={form}; convert one with to_sparse() or to_sparse_csr(), or "
            "use torch.sparse_coo_tensor"
        )
    if pin_memory and usable(d).type != "meta":
        raise RuntimeError(
            "pin_memory=True requires a CUDA or other accelerator backend; no pinned memory allocator is available on "
            "this system."
        )
