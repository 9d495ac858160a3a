"""The base of all distributions: shapes, validation of parameters and of values, and what follows from the rest."""

from __future__ import annotations

import warnings
from typing import Any

from ..autograd.grad_mode import no_grad
from ..core.size import Size
from ..core.tensor import Tensor
from ..ops.reduction.truth import is_all_true
from . import constraints
from .utils import lazy_property


def _owner(cls: type, method: str) -> type:
    """The class that defines a method of `cls`."""
    return next(c for c in cls.__mro__ if method in vars(c))


class Distribution:
    """A probability distribution over events of `event_shape`, `batch_shape` of them side by side."""

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions made from now on check parameters and values."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args takes True or False, got {value!r}")
        Distribution._validate_args = value

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _check_parameters(self) -> None:
        try:
            wanted = self.arg_constraints
        except NotImplementedError:
            wanted = {}
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize "
                "the distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
        for name, constraint in wanted.items():
            computed = name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property)
            if constraints.is_dependent(constraint) or computed:
                continue  # what cannot be checked, and what has not been computed yet
            value = getattr(self, name)
            if not is_all_true(constraint.check(value)):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The distribution with its batch expanded to `batch_shape`."""
        raise NotImplementedError

    def _expanded(self, batch_shape: Any, _instance: Any, *names: str, **attributes: Any) -> Any:
        """A distribution of this kind: the parameters named expanded, the other attributes as given, none checked again."""
        made = self._get_checked_instance(_owner(type(self), "expand"), _instance)
        vars(made).update({n: self.__dict__[n].expand(batch_shape) for n in names if n in self.__dict__})
        vars(made).update(attributes)
        Distribution.__init__(made, Size(batch_shape), self._event_shape, validate_args=False)
        made._validate_args = self._validate_args
        return made

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """The instance given, or an empty one of this type; its `__init__` must be that of `cls`."""
        if _instance is None and type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method."
            )
        return type(self).__new__(type(self)) if _instance is None else _instance

    @property
    def batch_shape(self) -> Any:
        """The shape over which parameters are batched."""
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        """The shape of one sample, without the batch."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """What each parameter has to meet."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """What every sample meets."""
        raise NotImplementedError

    @property
    def mean(self) -> Any:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Any:
        """The most likely value."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Any:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draws, `sample_shape` of them, without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draws through which gradients flow to the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Any:
        """`n` draws."""
        warnings.warn("sample_n will be deprecated. Use .sample((n,)) instead", UserWarning, stacklevel=2)
        return self.sample(Size((n,)))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, or of the probability, at `value`."""
        raise NotImplementedError

    def cdf(self, value: Any) -> Any:
        """The probability of at most `value`."""
        raise NotImplementedError

    def icdf(self, value: Any) -> Any:
        """The value whose `cdf` this is."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Any:
        """All values there are, along a new first dimension."""
        raise NotImplementedError

    def entropy(self) -> Any:
        """The entropy, in nats."""
        raise NotImplementedError

    def perplexity(self) -> Any:
        """e to the power of the entropy."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Any = ()) -> Any:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _for_batch(self, values: Any, expand: bool) -> Any:
        """Values along the first dimension, before those of the batch, which they fill if asked to."""
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values

    def _validate_sample(self, value: Any) -> None:
        """Raise unless `value` fits the shapes and lies in the support."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        if value.dim() < len(self._event_shape) or (
            tuple(value.shape[value.dim() - len(self._event_shape) :]) != tuple(self._event_shape)
        ):
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}."
            )
        wanted = self._batch_shape + self._event_shape
        if any(i != 1 and j != 1 and i != j for i, j in zip(reversed(value.shape), reversed(wanted))):
            raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {wanted}.")
        self._check_support(value)

    def _check_support(self, value: Any) -> None:
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `support` to enable sample validation. Please initialize the "
                "distribution with `validate_args=False` to turn off validation.",
                stacklevel=4,
            )
            return
        if not is_all_true(support.check(value)):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        known = [name for name in self.arg_constraints if name in self.__dict__]
        shown = (
            f"{name}: {value if value.numel() == 1 else value.size()}"
            for name, value in ((name, self.__dict__[name]) for name in known)
        )
        return f"{type(self).__name__}({', '.join(shown)})"


class Centred(Distribution):
    """A distribution symmetric around its parameter `loc`."""

    loc: Any

    @property
    def mean(self) -> Any:
        """`loc`."""
        return self.loc

    @property
    def mode(self) -> Any:
        """`loc`."""
        return self.loc


__all__ = ["Distribution"]
