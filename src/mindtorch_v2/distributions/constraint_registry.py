"""Which transform leads from the reals to a constrained set: `biject_to` one to one, `transform_to` any that does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import constraints, transforms

Factory = Callable[[Any], Any]


class ConstraintRegistry:
    """Factories of transforms by the type of constraint they lead to."""

    def __init__(self) -> None:
        self._registry: dict[type, Factory] = {}

    def register(self, constraint: Any, factory: Factory | None = None) -> Callable[[Any], Any]:
        """Keep the factory for a constraint's type; without a factory, a decorator that does."""
        if factory is None:
            return lambda f: self.register(constraint, f)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not (isinstance(kind, type) and issubclass(kind, constraints.Constraint)):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        """A transform to the constraint."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _both(*kinds: Any) -> Callable[[Factory], Factory]:
    def register(factory: Factory) -> Factory:
        for kind in kinds:
            biject_to.register(kind, factory)
            transform_to.register(kind, factory)
        return factory

    return register


@_both(constraints.real)
def _to_real(constraint: Any) -> Any:
    return transforms.identity_transform


@_both(constraints.positive, constraints.nonnegative)
def _to_positive(constraint: Any) -> Any:
    if constraint.lower_bound is constraints.positive.lower_bound or _is(constraint.lower_bound, 0):
        return transforms.ExpTransform()
    return _to_greater_than(constraint)


def _to_greater_than(constraint: Any) -> Any:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)]
    )


def _is(bound: Any, value: float) -> bool:
    return isinstance(bound, (int, float)) and bound == value


@_both(constraints.less_than)
def _to_less_than(constraint: Any) -> Any:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)]
    )


@_both(constraints.interval, constraints.half_open_interval)
def _to_interval(constraint: Any) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    if _is(low, 0) and _is(high, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


@biject_to.register(constraints.simplex)
def _to_simplex_one_to_one(constraint: Any) -> Any:
    return transforms.StickBreakingTransform()


@transform_to.register(constraints.simplex)
def _to_simplex(constraint: Any) -> Any:
    return transforms.SoftmaxTransform()


@biject_to.register(constraints.independent)
def _to_independent_one_to_one(constraint: Any) -> Any:
    return transforms.IndependentTransform(biject_to(constraint.base_constraint), constraint.reinterpreted_batch_ndims)


@transform_to.register(constraints.independent)
def _to_independent(constraint: Any) -> Any:
    return transforms.IndependentTransform(
        transform_to(constraint.base_constraint), constraint.reinterpreted_batch_ndims
    )


@_both(constraints.corr_cholesky)
def _to_corr_cholesky(constraint: Any) -> Any:
    return transforms.CorrCholeskyTransform()


@_both(constraints.lower_cholesky)
def _to_lower_cholesky(constraint: Any) -> Any:
    return transforms.LowerCholeskyTransform()


@_both(constraints.positive_definite, constraints.positive_semidefinite)
def _to_positive_definite(constraint: Any) -> Any:
    return transforms.PositiveDefiniteTransform()


def _of_parts(registry: ConstraintRegistry) -> None:
    """Joined and stacked constraints: each part by the same registry."""

    @registry.register(constraints.cat)
    def to_cat(constraint: Any) -> Any:
        return transforms.CatTransform([registry(c) for c in constraint.cseq], constraint.dim, constraint.lengths)

    @registry.register(constraints.stack)
    def to_stack(constraint: Any) -> Any:
        return transforms.StackTransform([registry(c) for c in constraint.cseq], constraint.dim)


_of_parts(biject_to)
_of_parts(transform_to)

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]
