"""Short programs run with torch and with mindtorch_v2: what both give, made comparable, and the comparison."""

import inspect
import warnings

import numpy as np
import torch

import mindtorch_v2

TENSORS = (torch.Tensor, mindtorch_v2.Tensor)
SPOKEN = (torch.nn.Module, mindtorch_v2.nn.Module, torch.Size, mindtorch_v2.Size, torch.dtype, mindtorch_v2.dtype)


class Programs(list):
    """A test module's programs; used as a decorator it collects one. Each takes a package and its `nn`."""

    def __call__(self, function):
        self.append(function)
        return function


def named(function):
    """The id of a program's test."""
    return function.__name__


def attempt(function, *args):
    """What a call gives and what it raises, one of the two None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*args), None
        except Exception as error:
            return None, error


def plain(value):
    """A result that can be compared across the two packages."""
    if isinstance(value, TENSORS):
        return plain_tensor(value)
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)) or inspect.isgenerator(value):
        return [plain(v) for v in value]
    if isinstance(value, SPOKEN):
        return repr(value).replace("mindtorch_v2", "torch")
    return value.__name__ if isinstance(value, type) else value


def plain_tensor(t):
    kind = t.__class__.__name__
    if kind.startswith("Uninitialized"):
        return kind
    return (kind, tuple(t.shape)) if t.is_meta else (kind, t.requires_grad, t.detach().double().numpy())


def error_of(call):
    """What a call raises, as a result of the program."""
    try:
        call()
    except Exception as error:
        return type(error).__name__, str(error).replace("mindtorch_v2", "torch")
    return "no error"


def outcome(function, T):
    """What a program returns, and the kinds of warnings it gives."""
    T.manual_seed(5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = plain(function(T, T.nn))
    return result, sorted({w.category.__name__ for w in caught})


def compare(function):
    """Assert that a program has the same outcome with both packages."""
    expected, got = outcome(function, torch), outcome(function, mindtorch_v2)
    same(got, expected, "outcome")


def same(got, expected, where):
    """Equal, numbers in tensors nearly so."""
    if isinstance(expected, np.ndarray):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5, err_msg=where)
    elif isinstance(expected, (list, tuple)):
        assert isinstance(got, (list, tuple)), f"{where}: {got} instead of {expected}"
        assert len(got) == len(expected), f"{where}: {got} instead of {expected}"
        for i, (g, e) in enumerate(zip(got, expected, strict=True)):
            same(g, e, f"{where}[{i}]")
    elif isinstance(expected, dict):
        assert list(got) == list(expected), where
        for key, value in expected.items():
            same(got[key], value, f"{where}[{key!r}]")
    else:
        assert got == expected, where
