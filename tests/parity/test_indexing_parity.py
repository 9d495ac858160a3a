"""Random index expressions, read and written, beside torch: values, sharing, versions, gradients, kinds of errors."""

import numpy as np
import pytest
import torch

import mindtorch_v2
from side_by_side import attempt

BLOCKS = 24
PER_BLOCK = 30


def random_shape(rng):
    rank = int(rng.choice([0, 1, 2, 3, 4], p=[0.05, 0.25, 0.35, 0.25, 0.1]))
    return tuple(int(n) for n in rng.choice([0, 1, 2, 3, 4], size=rank, p=[0.04, 0.16, 0.25, 0.3, 0.25]))


def random_bound(rng, size):
    return None if rng.random() < 0.3 else int(rng.integers(-size - 2, size + 3))


def random_integers(rng, size, shape):
    low, high = (-size, size) if size else (0, 1)
    values = rng.integers(low, high, size=shape)
    if values.size and rng.random() < 0.03:
        values.reshape(-1)[0] = size + 1
    return values


def random_part(rng, shape, axis, kind):
    """One part of an index, as what `realise` turns into an index of either package; and the dimensions it takes."""
    size = shape[axis] if axis < len(shape) else 3
    if kind == "int":
        return ("plain", int(rng.integers(-size, size)) if size and rng.random() < 0.95 else size), 1
    if kind == "slice":
        step = int(rng.choice([1, 1, 2, 3])) if rng.random() < 0.6 else None
        if rng.random() < 0.02:
            step = -1
        return ("plain", slice(random_bound(rng, size), random_bound(rng, size), step)), 1
    if kind == "none":
        return ("plain", None), 0
    if kind == "ellipsis":
        return ("plain", Ellipsis), 0
    if kind == "bool":
        return ("plain", bool(rng.random() < 0.8)), 0
    if kind == "mask":
        dims = int(rng.integers(1, 3))
        wanted = shape[axis : axis + dims] if rng.random() < 0.95 else (size + 1,)
        return ("tensor", rng.random(wanted) < 0.5), max(len(wanted), 1)
    if kind == "scalar tensor":
        return ("tensor", np.asarray(int(rng.integers(-size, size)) if size else 0)), 1
    if kind == "list":
        return ("plain", random_integers(rng, size, (int(rng.integers(0, 3)),)).tolist()), 1
    if kind == "array":
        return ("plain", random_integers(rng, size, (2,))), 1
    dims = int(rng.choice([1, 1, 2]))
    values = random_integers(rng, size, (2,) if dims == 1 else (int(rng.integers(1, 3)), 2))
    return ("tensor", values.astype(rng.choice([np.int64, np.int32]))), 1


KINDS = ["int", "slice", "none", "ellipsis", "bool", "mask", "scalar tensor", "list", "array", "tensor"]
WEIGHTS = [0.22, 0.28, 0.07, 0.06, 0.03, 0.08, 0.03, 0.05, 0.03, 0.15]


def random_index(rng, shape):
    parts, axis = [], 0
    for _ in range(int(rng.choice([1, 2, 3, 4], p=[0.35, 0.35, 0.2, 0.1]))):
        kind = str(rng.choice(KINDS, p=WEIGHTS))
        if kind == "ellipsis" and ("plain", Ellipsis) in [p for p in parts if p[1] is Ellipsis]:
            continue
        part, taken = random_part(rng, shape, axis, kind)
        if axis + taken > len(shape) and rng.random() < 0.9:
            continue
        axis += taken
        parts.append(part)
    if not parts:
        parts.append(("plain", Ellipsis))
    return parts[0] if len(parts) == 1 and rng.random() < 0.7 else parts


def realise(package, index):
    if isinstance(index, tuple):
        kind, value = index
        return package.tensor(value) if kind == "tensor" else value
    return tuple(realise(package, part) for part in index)


def numbers(t):
    return t.detach().numpy()


def read(package, data, index):
    """The value, whether it shares memory with what was indexed, and the gradient of a weighted sum."""
    leaf = package.tensor(data, requires_grad=True)
    base = leaf * 1
    found = base[realise(package, index)]
    shares = found.numel() > 0 and found.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
    weights = package.arange(1.0, found.numel() + 1).reshape(found.shape)
    (found * weights).sum().backward()
    return numbers(found), shares, numbers(leaf.grad), tuple(found.shape)


def unchecked(data, index):
    """Whether nothing is picked: torch does not look at the values of indices then."""
    return 0 in picked_shape(data, index)


def same_errors(mine, theirs, what):
    assert (mine is None) == (theirs is None), f"{what}: {mine!r} instead of {theirs!r}"
    if theirs is not None:
        assert type(mine) is type(theirs), f"{what}: {mine!r} instead of {theirs!r}"


@pytest.mark.parametrize("seed", range(BLOCKS))
def test_reading_agrees(seed):
    rng = np.random.default_rng(seed)
    for _ in range(PER_BLOCK):
        shape = random_shape(rng)
        data = np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)
        index = random_index(rng, shape)
        what = f"{shape}[{index}]"
        theirs, their_error = attempt(read, torch, data, index)
        mine, my_error = attempt(read, mindtorch_v2, data, index)
        if isinstance(my_error, IndexError) and unchecked(data, index):
            continue
        same_errors(my_error, their_error, what)
        if theirs is not None:
            np.testing.assert_array_equal(mine[0], theirs[0], err_msg=what)
            assert mine[1] == theirs[1], f"{what}: shares memory: {mine[1]}"
            np.testing.assert_allclose(mine[2], theirs[2], err_msg=f"gradient of {what}")
            assert mine[3] == theirs[3]


def random_value(rng, shape):
    """A number, or an array that (mostly) broadcasts to `shape`."""
    kind = rng.random()
    if kind < 0.3:
        return float(rng.integers(-5, 5))
    if kind < 0.4:
        return np.float32(rng.integers(-5, 5)).reshape(())
    sizes = [n if rng.random() < 0.7 else 1 for n in shape]
    sizes = sizes[int(rng.integers(0, len(sizes) + 1)) :] if rng.random() < 0.3 else sizes
    if rng.random() < 0.2:
        sizes = [1, *sizes]
    if rng.random() < 0.04:
        sizes = [7, *sizes]
    return rng.integers(-9, 9, size=sizes).astype(np.float32)


def write(package, data, index, value):
    """The changed tensor, its version, and the gradients of the old tensor and of the value."""
    leaf = package.tensor(data, requires_grad=True)
    base = leaf * 1
    given = value if isinstance(value, float) else package.tensor(value, requires_grad=True)
    base[realise(package, index)] = given
    weights = package.arange(1.0, base.numel() + 1).reshape(base.shape)
    (base * weights).sum().backward()
    gradient = None if isinstance(value, float) or given.grad is None else numbers(given.grad)
    return numbers(base), base._version, numbers(leaf.grad), gradient


def write_plain(package, data, index, value):
    base = package.tensor(data)
    base[realise(package, index)] = value if isinstance(value, float) else package.tensor(value)
    return numbers(base), base._version


def repeats(data, index):
    """Whether an index names an element twice: which value stays is then anybody's choice."""
    places = torch.arange(data.size).reshape(data.shape)
    found, error = attempt(lambda: places[realise(torch, index)])
    return error is None and found.unique().numel() != found.numel()


def picked_shape(data, index):
    found, error = attempt(lambda: torch.tensor(data)[realise(torch, index)])
    return () if error is not None else tuple(found.shape)


@pytest.mark.parametrize("seed", range(BLOCKS))
def test_writing_agrees(seed):
    rng = np.random.default_rng(1000 + seed)
    for _ in range(PER_BLOCK):
        shape = random_shape(rng)
        data = np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)
        index = random_index(rng, shape)
        value = random_value(rng, picked_shape(data, index))
        if not isinstance(value, float) and value.size != 1 and repeats(data, index):
            continue
        what = f"{shape}[{index}] = {value!r}"
        for writer in (write_plain, write):
            theirs, their_error = attempt(writer, torch, data, index, value)
            mine, my_error = attempt(writer, mindtorch_v2, data, index, value)
            if isinstance(my_error, IndexError) and unchecked(data, index):
                continue
            same_errors(my_error, their_error, what)
            if theirs is None:
                continue
            np.testing.assert_array_equal(mine[0], theirs[0], err_msg=what)
            assert mine[1] == theirs[1], f"{what}: version {mine[1]} instead of {theirs[1]}"
            for mine_gradient, their_gradient in zip(mine[2:], theirs[2:], strict=True):
                assert (mine_gradient is None) == (their_gradient is None), what
                if their_gradient is not None:
                    np.testing.assert_allclose(mine_gradient, their_gradient, err_msg=f"gradient of {what}")
