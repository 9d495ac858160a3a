"""Containers: modules and parameters in sequence, list or dictionary."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from ..parameter import Parameter
from .module import Module


class _Indexed(Module):
    """What lists and sequences of modules share: children named by position."""

    _modules: dict[str, Module]

    def _key(self, index: int) -> str:
        position = operator.index(index)
        if not -len(self) <= position < len(self):
            raise IndexError(f"index {position} is out of range")
        return next(islice(self._modules, position % len(self), None))

    def _renumber(self, modules: Iterable[Module]) -> None:
        self._modules = {str(i): m for i, m in enumerate(modules)}

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._part(index)
        return self._modules[self._key(index)]

    def _part(self, index: slice) -> Any:
        return type(self)(list(self._modules.values())[index])  # type: ignore[arg-type]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._key(index), module)

    def __delitem__(self, index: Any) -> None:
        values = list(self._modules.values())
        if not isinstance(index, slice):
            self._key(index)
        del values[index]
        self._renumber(values)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def append(self, module: Module) -> Any:
        """Add one at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Add one at a position."""
        values = list(self._modules.values())
        values.insert(index, module)
        self._renumber(values)
        return self

    def extend(self, modules: Any) -> Any:
        """Add several at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"{type(self).__name__}.extend should be called with an iterable, but got {type(modules).__name__}")
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, key: int) -> Module:
        found: Module = self[key]
        del self[key]
        return found

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]


class Sequential(_Indexed):
    """Modules called one after the other."""

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for position, module in enumerate(args):
                self.add_module(str(position), module)

    def _part(self, index: slice) -> Any:
        return type(self)(OrderedDict(list(self._modules.items())[index]))

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._key(index), module)

    def __add__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return Sequential(*chain(self, other))

    def __iadd__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return self.extend(other)  # type: ignore[no-any-return]

    def __mul__(self, other: int) -> Sequential:
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")
        return Sequential(*(m for _ in range(other) for m in self))

    __rmul__ = __mul__

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(_Indexed):
    """A list whose modules are registered."""

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __iadd__(self, modules: Any) -> Any:
        return self.extend(modules)

    def __add__(self, other: Any) -> ModuleList:
        return ModuleList(chain(self, other))

    def __repr__(self) -> str:
        """Equal neighbours are shown once, with their range."""
        texts = [repr(m) for m in self]
        if not texts:
            return self._get_name() + "()"
        runs: list[list[Any]] = []
        for i, text in enumerate(texts):
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        lines = []
        for first, last, text in runs:
            label = f"({first}): {text}" if first == last else f"({first}-{last}): {last - first + 1} x {text}"
            lines.append(label.replace("\n", "\n  "))
        return self._get_name() + "(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """A dictionary whose modules are registered."""

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        self._modules.clear()

    def pop(self, key: str) -> Any:
        found = self[key]
        del self[key]
        return found

    def keys(self) -> Any:
        return self._modules.keys()

    def items(self) -> Any:
        return self._modules.items()

    def values(self) -> Any:
        return self._modules.values()

    def update(self, modules: Any) -> None:
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"ModuleDict.update should be called with an iterable of key/value pairs, but got {type(modules).__name__}"
            )
        pairs = modules.items() if isinstance(modules, (Mapping, ModuleDict)) else modules
        for key, module in pairs:
            self[key] = module


class ParameterList(Module):
    """A list whose parameters are registered."""

    def __init__(self, values: Any = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def _position(self, index: int) -> str:
        position = operator.index(index)
        if not -len(self) <= position < len(self):
            raise IndexError(f"index {position} is out of range")
        return str(position % len(self))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)([self[i] for i in range(*index.indices(len(self)))])
        return getattr(self, self._position(index))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._position(index), _as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter(self[i] for i in range(len(self)))

    def __iadd__(self, values: Any) -> Any:
        return self.extend(values)

    def append(self, value: Any) -> Any:
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Any) -> Any:
        if not isinstance(values, Iterable):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(f"  ({i}): {_parameter_text(p)}" for i, p in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary whose parameters are registered."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if str(key) not in self._keys:
            raise KeyError(key)
        return getattr(self, str(key))

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[str(key)] = None
        setattr(self, str(key), _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[str(key)]
        delattr(self, str(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def __or__(self, other: ParameterDict) -> ParameterDict:
        made = self.copy()
        made.update(other)
        return made

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other)
        return self

    def copy(self) -> ParameterDict:
        return ParameterDict(OrderedDict((k, self[k]) for k in self._keys))

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        found = self[key]
        del self[key]
        return found

    def popitem(self) -> tuple[str, Any]:
        key = list(self._keys)[-1]
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        return ParameterDict((k, default) for k in keys)

    def keys(self) -> Any:
        return self._keys.keys()

    def items(self) -> Any:
        return ((k, self[k]) for k in self._keys)

    def values(self) -> Any:
        return (self[k] for k in self._keys)

    def update(self, parameters: Any) -> None:
        if not isinstance(parameters, Iterable):
            raise TypeError(
                f"ParametersDict.update should be called with an iterable of key/value pairs, but got {type(parameters).__name__}"
            )
        pairs = parameters.items() if isinstance(parameters, (Mapping, ParameterDict)) else parameters
        for key, value in pairs:
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(f"  ({k}): {_parameter_text(p)}" for k, p in self.items())

    def __call__(self, input: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")


def _as_parameter(value: Any) -> Any:
    is_tensor = hasattr(value, "_a") and not isinstance(value, Parameter)
    return Parameter(value) if is_tensor else value  # type: ignore[call-arg]


def _parameter_text(p: Any) -> str:
    if not hasattr(p, "_a"):
        return f"Object of type: {type(p).__name__}"
    kind = "Parameter" if isinstance(p, Parameter) else "Tensor"
    return f"{kind} containing: [{str(p.dtype)} of size {'x'.join(str(n) for n in p.shape)}]"
