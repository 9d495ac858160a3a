"""Single calls of shape and indexing operators beside torch: values, dtypes, strides, or the error and its first line.

The calls are lines of data/shape_calls.txt; `T` is the package, the other names are made by SETUPS.
"""

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import mindtorch_v2

SETUPS = {
    "shapes": lambda T: {"x": T.arange(24.0).reshape(2, 3, 4), "o": T.ones(1, 1, 2)},
    "joins": lambda T: {"x": T.arange(24.0).reshape(2, 3, 4), "v": T.arange(4.0)},
    "indices": lambda T: {"x": T.arange(24.0).reshape(2, 3, 4), "m": T.ones(2, 3).bool()},
    "choices": lambda T: {"x": T.arange(6.0).reshape(2, 3), "v": T.arange(3.0), "m": T.arange(6.0).reshape(2, 3) > 2},
}


def read_calls():
    section, calls = "", []
    for line in (Path(__file__).parent / "data" / "shape_calls.txt").read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            calls.append((section, line))
    return calls


def described(value, package):
    """What can be compared of a result."""
    if isinstance(value, package.Tensor):
        strides = value.stride() if value.numel() else None
        return (tuple(value.shape), str(value.dtype), strides, value.tolist())
    if isinstance(value, (list, tuple)):
        return [described(v, package) for v in value]
    return value


def outcome(package, section, call):
    names = {"T": package, "np": np, "F": package.nn.functional, **SETUPS[section](package)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return "result", repr(described(eval(call, names), package))
        except Exception as error:
            return type(error).__name__, str(error).split("\n")[0][:120]


@pytest.mark.parametrize(("section", "call"), read_calls())
def test_call_agrees(section, call):
    assert outcome(mindtorch_v2, section, call) == outcome(torch, section, call)
