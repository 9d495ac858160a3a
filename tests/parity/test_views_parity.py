"""Views beside torch: random programs of views and in-place changes, and the outcome of single calls."""

import numpy as np
import pytest
import torch

import mindtorch_v2
from side_by_side import attempt

BLOCKS = 20
PROGRAMS = 20


class Program:
    """A random sequence of steps, chosen while torch runs it and played again on the other package."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.steps = []

    def integer(self, low, high):
        return int(self.rng.integers(low, high))


def start(package, data):
    leaf = package.tensor(data, requires_grad=True)
    return leaf, [leaf * 1]


def view_step(program, t):
    """A random view of `t`, as a function of a tensor and the package."""
    rank = t.dim()
    choices = ["unsqueeze", "alias", "reshape"]
    if rank:
        choices += ["select", "slice", "narrow", "flatten", "movedim", "split", "expand"]
    if rank > 1:
        choices += ["transpose", "permute", "diagonal", "squeeze"]
    name = str(program.rng.choice(choices))
    dim = program.integer(0, rank) if rank else 0
    size = t.shape[dim] if rank else 1
    if name == "select":
        if size == 0:
            return "detachless alias", lambda x: x[...]
        place = program.integer(0, size)
        return f"select({dim}, {place})", lambda x: x.select(dim, place)
    if name in ("slice", "narrow"):
        begin = program.integer(0, size + 1)
        length = program.integer(0, size - begin + 1)
        if name == "narrow":
            return f"narrow({dim}, {begin}, {length})", lambda x: x.narrow(dim, begin, length)
        step = program.integer(1, 3)
        index = (slice(None),) * dim + (slice(begin, begin + length, step),)
        return f"[{index}]", lambda x: x[index]
    if name == "unsqueeze":
        place = program.integer(0, rank + 1)
        return f"unsqueeze({place})", lambda x: x.unsqueeze(place)
    if name == "reshape":
        return "reshape(-1)", lambda x: x.reshape(-1) if x.numel() else x[...]
    if name == "flatten":
        return "flatten()", lambda x: x.flatten() if x.numel() else x[...]
    if name == "movedim":
        other = program.integer(0, rank)
        return f"movedim({dim}, {other})", lambda x: x.movedim(dim, other)
    if name == "split":
        return f"split(2, {dim})[0]", lambda x: x.split(2, dim)[0]
    if name == "expand":
        return "expand(2, ...)", lambda x: x.expand(2, *x.shape)
    if name == "transpose":
        other = program.integer(0, rank)
        return f"transpose({dim}, {other})", lambda x: x.transpose(dim, other)
    if name == "permute":
        order = [int(d) for d in program.rng.permutation(rank)]
        return f"permute({order})", lambda x: x.permute(order)
    if name == "diagonal":
        offset = program.integer(-1, 2)
        return f"diagonal({offset})", lambda x: x.diagonal(offset)
    if name == "squeeze":
        return "squeeze()", lambda x: x.squeeze()
    return "[...]", lambda x: x[...]


CHANGES = ["mul_", "mul_ leaf", "add_ leaf", "zero_", "fill_", "setitem", "copy_", "unsqueeze_"]


def change_step(program, t):
    """A random in-place change, as a function of a tensor, a second leaf and the package."""
    name = str(program.rng.choice(CHANGES))
    if name == "mul_":
        return name, lambda x, other: x.mul_(3.0)
    if name == "mul_ leaf":
        return name, lambda x, other: x.mul_(other)
    if name == "add_ leaf":
        return name, lambda x, other: x.add_(other, alpha=2)
    if name == "zero_":
        return name, lambda x, other: x.zero_()
    if name == "fill_":
        return name, lambda x, other: x.fill_(other)
    if name == "copy_":
        return name, lambda x, other: x.copy_(other.expand(x.shape) * 2)
    if name == "unsqueeze_":
        return name, lambda x, other: x.unsqueeze_(0)

    def assign(x, other):
        x[x.new_ones(x.shape) > 0] = other

    return name, assign


def play(package, data, steps):
    """Run a program; what a weighted sum of all its tensors gives the two leaves."""
    leaf, tensors = start(package, data)
    other = package.tensor(1.5, requires_grad=True)
    for kind, source, step in steps:
        if kind == "view":
            tensors.append(step(tensors[source]))
        elif kind == "use":
            tensors.append(tensors[source] * 2)
        else:
            step(tensors[source], other)
    total = None
    for number, t in enumerate(tensors, 1):
        part = (t * number).sum()
        total = part if total is None else total + part
    total.backward()
    values = [t.detach().numpy().copy() for t in tensors]
    versions = [t._version for t in tensors]
    grad = lambda x: None if x.grad is None else x.grad.numpy()  # noqa: E731
    return values, versions, grad(leaf), grad(other)


def random_program(seed):
    """Steps that torch could run so far, and one description of them."""
    program = Program(seed)
    shape = tuple(int(n) for n in program.rng.integers(1, 4, size=program.integer(1, 4)))
    data = np.arange(1, 1 + int(np.prod(shape)), dtype=np.float64).reshape(shape) / 4
    _, tensors = start(torch, data)
    steps, words = [], [str(shape)]
    for _ in range(program.integer(3, 8)):
        source = program.integer(0, len(tensors))
        luck = program.rng.random()
        if luck < 0.55:
            name, step = view_step(program, tensors[source])
            tensors.append(step(tensors[source].detach()))
            steps.append(("view", source, step))
        elif luck < 0.65:
            name = "use"
            tensors.append(tensors[source].detach())
            steps.append(("use", source, None))
        else:
            name, step = change_step(program, tensors[source])
            steps.append(("change", source, step))
            if name == "unsqueeze_":
                tensors[source] = tensors[source].unsqueeze(0)
        words.append(f"t{source}.{name}")
    return data, steps, "; ".join(words)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_programs_agree(block):
    for seed in range(block * PROGRAMS, (block + 1) * PROGRAMS):
        data, steps, words = random_program(seed)
        theirs, their_error = attempt(play, torch, data, steps)
        mine, my_error = attempt(play, mindtorch_v2, data, steps)
        what = f"program {seed}: {words}: {my_error!r} instead of {their_error!r}"
        assert (my_error is None) == (their_error is None), what
        if their_error is not None:
            assert type(my_error) is type(their_error), what
            continue
        for a, b in zip(mine[0], theirs[0], strict=True):
            np.testing.assert_allclose(a, b, err_msg=what)
        assert mine[1] == theirs[1], what
        for a, b in zip(mine[2:], theirs[2:], strict=True):
            assert (a is None) == (b is None), what
            if b is not None:
                np.testing.assert_allclose(a, b, err_msg=what)
