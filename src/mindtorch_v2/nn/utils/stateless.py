"""Calling a module with other parameters and buffers than its own."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

from ...core.tensor import Tensor

_MISSING: Any = object()


def _swap(module: Any, path: str, value: Any) -> Any:
    """Put a tensor in a member's place (or take the member away); what was there."""
    parent, _, name = path.rpartition(".")
    owner = module.get_submodule(parent)
    for store in (owner._parameters, owner._buffers):
        if name in store:
            before = store[name]
            if value is _MISSING:
                del store[name]
            else:
                store[name] = value
            return before
    before = getattr(owner, name, _MISSING)
    if before is not _MISSING and before is not None and not isinstance(before, Tensor):
        raise TypeError(f"attribute `{name}`: {before} is not an instance of torch.Tensor")
    if value is _MISSING:
        delattr(owner, name)
    else:
        setattr(owner, name, value)
    return before


def _untied(module: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The given tensors, also under the other names of members that are one and the same."""
    names: dict[int, list[str]] = {}
    members = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    for name, tensor in members:
        names.setdefault(id(tensor), []).append(name)
    found = dict(given)
    for tied in names.values():
        present = [name for name in tied if name in given]
        if len(tied) < 2 or not present:
            continue
        if len({id(given[name]) for name in present}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(tied)}, which are tied. Consider using "
                "tie_weights=False"
            )
        found.update(dict.fromkeys(tied, given[present[0]]))
    return found


def _check_keys(module: Any, given: dict[str, Any]) -> None:
    own = {
        name
        for name, _ in (*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False))
    }
    unexpected, missing = sorted(set(given) - own), sorted(own - set(given))
    errors = [f"Unexpected key(s): {', '.join(map(repr, unexpected))}."] if unexpected else []
    errors += [f"Missing key(s): {', '.join(map(repr, missing))}."] if missing else []
    if errors:
        raise RuntimeError("Error(s) in reparametrizing for {}:\n\t{}".format(module._get_name(), "\n\t".join(errors)))


@contextlib.contextmanager
def _reparametrize_module(
    module: Any, parameters_and_buffers: dict[str, Any], tie_weights: bool = False, strict: bool = False,
    stack_weights: bool = False,
) -> Iterator[None]:  # fmt: skip
    """Inside, a module has other parameters and buffers; buffers it replaced are found in the dictionary afterwards."""
    wanted = _untied(module, parameters_and_buffers) if tie_weights else parameters_and_buffers
    if strict:
        _check_keys(module, wanted)
    before: dict[str, Any] = {}
    try:
        for name, value in wanted.items():
            before[name] = _swap(module, name, value)
        yield
    finally:
        for name, value in reversed(before.items()):
            after = _swap(module, name, value)
            if name in parameters_and_buffers:
                parameters_and_buffers[name] = after


def _functional_call(
    module: Any, parameters_and_buffers: dict[str, Any], args: Any = None, kwargs: dict[str, Any] | None = None, *,
    tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """The result of a module with other parameters and buffers in place of its own."""
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _reparametrize_module(module, parameters_and_buffers, tie_weights=tie_weights, strict=strict):
        return module(*args, **(kwargs or {}))


def functional_call(
    module: Any, parameters_and_buffers: dict[str, Any], args: Any = None, kwargs: dict[str, Any] | None = None, *,
    tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """`torch.func.functional_call` at its old place."""
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a future "
        "version of PyTorch. Please use `torch.func.functional_call` instead which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


__all__ = ["functional_call"]
