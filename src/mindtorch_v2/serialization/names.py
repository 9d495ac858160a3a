"""Which object of ours a global name in a checkpoint stands for, and the other way round."""

from __future__ import annotations

import codecs
import collections
import importlib
from typing import Any

from ..binding import legacy
from ..binding.storage import TypedStorage, UntypedStorage
from ..core import device, dtype
from ..core.dtype import dtype as DType
from ..core.missing import PACKAGE, is_ours, message, missing_module, torch_module
from ..core.size import Size
from ..core.tensor import Parameter, Tensor, _MetaParameter, _MetaTensor
from ..ops.creation.seeds import Generator
from .rebuild import REBUILD, STORAGE_TYPES, UNTYPED, StorageType, _get_layout, _rebuild_from_type_v2

_DTYPES = {f"torch.{d.name}": d for d in dtype.FROM_NUMPY.values()}

# What a checkpoint may name without anybody having to trust it.
SAFE: dict[str, Any] = {
    "collections.OrderedDict": collections.OrderedDict,
    "collections.Counter": collections.Counter,
    "builtins.set": set,
    "builtins.bytearray": bytearray,
    "builtins.complex": complex,
    "_codecs.encode": codecs.encode,
    "torch.Size": Size,
    "torch.Tensor": Tensor,
    "torch.device": device.device,
    "torch.nn.parameter.Parameter": Parameter,
    "torch.serialization._get_layout": _get_layout,
    "torch._tensor._rebuild_from_type_v2": _rebuild_from_type_v2,
    "torch.storage.UntypedStorage": UNTYPED,
    "torch.storage.TypedStorage": UNTYPED,
    **_DTYPES,
    **{f"torch._utils.{name}": function for name, function in REBUILD.items()},
    **{f"torch.{name}": kind for name, kind in STORAGE_TYPES.items()},
    **{f"torch.{name}": kind for name, kind in legacy.TYPES.items()},
}

# Our objects by torch's name, where the module they live in would tell another.
_NAMES: dict[int, tuple[str, str]] = {
    id(thing): (name.rpartition(".")[0], name.rpartition(".")[2])
    for name, thing in SAFE.items()
    if name.startswith("torch.") and thing is not UNTYPED
}
_NAMES |= {
    id(UNTYPED): ("torch.storage", "UntypedStorage"),
    id(UntypedStorage): ("torch.storage", "UntypedStorage"),
    id(TypedStorage): ("torch.storage", "TypedStorage"),
    id(Generator): ("torch", "Generator"),
    id(_MetaTensor): ("torch", "Tensor"),
    id(_MetaParameter): ("torch.nn.parameter", "Parameter"),
}


def torch_name(thing: Any) -> tuple[str, str] | None:
    """Module and name under which torch knows one of our objects; None for what is not ours."""
    known = _NAMES.get(id(thing))
    if known is not None:
        return known
    module = getattr(thing, "__module__", None) or ""
    return (torch_module(module, thing.__qualname__), thing.__qualname__) if is_ours(module) else None


def is_constant(thing: Any) -> bool:
    """Whether something pickles as a global although it is neither a class nor a function."""
    return isinstance(thing, (DType, StorageType))


def is_torch(module: str) -> bool:
    """Whether a global of that module is torch's, hence ours to find."""
    return module.partition(".")[0] == "torch"


def resolve(module: str, name: str) -> Any:
    """The object for a torch global of a trusted checkpoint."""
    known = SAFE.get(f"{module}.{name}")
    if known is not None:
        return known
    ours = PACKAGE + module.removeprefix("torch")
    try:
        found: Any = importlib.import_module(ours)
    except ModuleNotFoundError as error:
        if error.name != ours:
            raise
        raise missing_module(ours) from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise AttributeError(message(module, name, vars(found)))
        found = getattr(found, part)
    return found


# --- globals that users allow -----------------------------------------------------------------------------------------

_user_safe: dict[str, Any] = {}


def _spelled(entry: Any) -> tuple[str, Any]:
    """The name a checkpoint uses for an allowed object; a pair gives it explicitly."""
    if isinstance(entry, tuple):
        thing, name = entry
        if not isinstance(name, str):
            raise ValueError(f"expected (callable, 'full.name'), got a name of type {type(name).__name__}")
        return name, thing
    module, name = torch_name(entry) or (entry.__module__, entry.__qualname__)
    return f"{module}.{name}", entry


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Let checkpoints that are loaded with weights_only=True name these classes and functions."""
    _user_safe.update(_spelled(entry) for entry in safe_globals)


def get_safe_globals() -> list[Any]:
    return list(_user_safe.values())


def clear_safe_globals() -> None:
    _user_safe.clear()


class safe_globals:
    """`with safe_globals([MyClass]): torch.load(...)`."""

    def __init__(self, safe_globals: list[Any]) -> None:
        self.safe_globals = safe_globals

    def __enter__(self) -> None:
        self._before = dict(_user_safe)
        add_safe_globals(self.safe_globals)

    def __exit__(self, *exc: object) -> None:
        _user_safe.clear()
        _user_safe.update(self._before)


def user_safe(name: str) -> Any:
    """What users allowed under a name, or None. Builtins may be allowed, too."""
    return _user_safe.get(name)
