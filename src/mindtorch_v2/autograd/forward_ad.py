"""torch.autograd.forward_ad: tensors that carry a tangent along. The tangent of a result is found when it is asked for,
by differentiating twice, so whatever has second derivatives has tangents; the graph must be built (not in no_grad)."""

from __future__ import annotations

from typing import NamedTuple

from ..core.tensor import Tensor
from .engine import door
from .entry import grad
from .function import PUSHING
from .grad_mode import enable_grad
from .graph import edge

# The dual tensors of each level that is open, with their tangents.
_levels: list[list[tuple[Tensor, Tensor]]] = []


class UnpackedDualTensor(NamedTuple):
    """A value, and its tangent if it has one."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Open a level; dual tensors live until it is closed."""
    if _levels:
        raise RuntimeError(
            "Nested forward mode AD is not supported at the moment. Close the level that is open before entering another."
        )
    _levels.append([])
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level that is open."""
    if not _levels:
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    _levels.pop()


class dual_level:
    """A level that is open inside a `with`."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *error: object) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A tensor with the value of `tensor` that carries `tangent` along."""
    if not _levels:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    if not (tensor.dtype.is_floating_point or tensor.dtype.is_complex):
        raise ValueError(f"Expected primal to be floating point or complex, but got: {tensor.dtype}")
    if not (tangent.dtype.is_floating_point or tangent.dtype.is_complex):
        raise ValueError(f"Expected tangent to be floating point or complex, but got: {tangent.dtype}")
    if tangent.shape != tensor.shape:
        raise RuntimeError(
            f"Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(tensor.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}."
        )
    with enable_grad():
        dual: Tensor = tensor.view_as(tensor) if edge(tensor) is not None else tensor.detach().requires_grad_()
    _levels[-1].append((dual, tangent))
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The value of a tensor and its tangent: None where it does not come from a dual tensor."""
    if not _levels:
        return UnpackedDualTensor(tensor, None)
    own = next((tangent for dual, tangent in _levels[-1] if dual is tensor), None)
    if own is not None:
        return UnpackedDualTensor(tensor.detach(), own)
    if edge(tensor) is None or not _levels[-1]:
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(tensor.detach(), _tangent(tensor, _levels[-1]))


def _tangent(tensor: Tensor, duals: list[tuple[Tensor, Tensor]]) -> Tensor | None:
    """The product of the Jacobian with the tangents: the derivative of the product with a vector by that vector."""
    with enable_grad():
        vector = door.zeros_like(tensor).requires_grad_()
        token = PUSHING.set(True)
        try:
            products = grad(tensor, [dual for dual, _ in duals], vector, create_graph=True, allow_unused=True)
        finally:
            PUSHING.reset(token)
        pairs = [(p, tangent) for p, (_, tangent) in zip(products, duals, strict=True) if p is not None]
        if not pairs:
            return None
        linear = [(p, tangent) for p, tangent in pairs if edge(p) is not None]
        if not linear:
            zeros: Tensor = door.zeros_like(tensor)
            return zeros
        found = grad(
            [p for p, _ in linear],
            vector,
            [tangent for _, tangent in linear],
            retain_graph=True,
            materialize_grads=True,
        )
    made: Tensor = found[0]
    return made.detach()
