"""What is written to where: `out=` tensors of any layout, and memory shared by elements or by operands, as torch has it."""

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import mindtorch_v2 as ours

sys.path.append(str(Path(__file__).parents[1] / "mindtorch_v2"))
from op_samples import SAMPLES


def of_torch(value):
    """A sample's argument as torch takes it."""
    if isinstance(value, ours.Tensor):
        return torch.tensor(value.numpy().copy())
    if isinstance(value, (list, tuple)):
        return type(value)(of_torch(v) for v in value)
    if isinstance(value, ours.dtype):
        return getattr(torch, str(value).split(".")[-1])
    return value


def sample(T, name):
    args, kwargs = SAMPLES[name]()
    if T is torch:
        args, kwargs = of_torch(args), {k: of_torch(v) for k, v in kwargs.items()}
    return list(args), kwargs


def named(T, name):
    """The public function of a row."""
    base = name.partition(".")[0]
    for place, short in (
        (T, base),
        (T.linalg, base.removeprefix("linalg_")),
        (T.special, base.removeprefix("special_")),
    ):
        if hasattr(place, short):
            return getattr(place, short)
    return None


def attempt(call):
    """Whether a call ran, complained of shared memory, or of something else."""
    try:
        call()
    except Exception as error:
        return "shared" if "unsupported operation" in str(error) else type(error).__name__
    return "ran"


def moved_on(T, t):
    """A tensor of the values of `t`, and one of its size that begins an element later in the same memory."""
    memory = T.zeros(t.numel() + 1, dtype=t.dtype)
    first = memory[:-1].view(t.shape)
    first.copy_(t)
    return first, memory[1:].view(t.shape)


def like(T, t, values):
    """Places in `values` of tensors like `t` that have several elements."""
    same = (i for i, v in enumerate(values) if isinstance(v, T.Tensor) and v.shape == t.shape and v.dtype == t.dtype)
    return [i for i in same if values[i].numel() > 1]


def with_out(T, name, layout):
    """What a sample's call says to an `out=` of some layout; None where there is no such."""
    function, (args, kwargs) = named(T, name), sample(T, name)
    made = None if function is None else attempt_value(lambda: function(*args, **kwargs))
    first = made[0] if isinstance(made, (list, tuple)) and made else made
    if not isinstance(first, T.Tensor) or first.numel() < 2:
        return None
    rest = [T.empty_like(t) for t in made[1:]] if first is not made else None
    if layout == "expanded":
        out = T.zeros((1,) * first.dim(), dtype=first.dtype).expand(first.shape)
    else:
        places = like(T, first, args)
        if not places:
            return None
        place = places[-1 if layout == "moved on, last" else 0]
        if layout == "the operand":
            out = args[place]
        else:
            args[place], out = moved_on(T, args[place])
    return attempt(lambda: function(*args, **kwargs, out=out if rest is None else (out, *rest)))


def attempt_value(call):
    try:
        return call()
    except Exception:
        return None


def in_place(T, name, layout):
    """What the in-place form of a sample's call says to a tensor of some layout."""
    args, kwargs = sample(T, name)
    method = name.partition(".")[0] + "_"
    if not args or not isinstance(args[0], T.Tensor) or args[0].numel() < 2 or not hasattr(T.Tensor, method):
        return None
    if layout == "expanded":
        args[0] = T.zeros((1,) * args[0].dim(), dtype=args[0].dtype).expand(args[0].shape)
    else:
        places = [i for i in like(T, args[0], args) if i]
        if not places:
            return None
        if layout == "the operand":
            args[places[-1]] = args[0][:]
        else:
            args[places[-1]], args[0] = moved_on(T, args[places[-1]])
    return attempt(lambda: getattr(args[0], method)(*args[1:], **kwargs))


@pytest.mark.parametrize("layout", ["expanded", "the operand", "moved on", "moved on, last"])
@pytest.mark.parametrize("form", [with_out, in_place])
def test_shared_memory_is_refused_where_torch_refuses_it(form, layout):
    compared, different = 0, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in SAMPLES:
            expected, got = form(torch, name, layout), form(ours, name, layout)
            # A TypeError of torch says that the form does not exist there.
            if "TypeError" in (expected, got) or None in (expected, got):
                continue
            compared += 1
            if expected != got:
                different.append((name, expected, got))
    assert not different
    assert compared >= 3


def memory(T, count):
    return T.tensor(((np.arange(count) * 7 % 11) / 5 - 1).astype(np.float32))


LAYOUTS = {
    "as it is": lambda T: (m := memory(T, 9).reshape(3, 3), m),
    "in a line": lambda T: (m := memory(T, 9), m),
    "of another shape": lambda T: (m := memory(T, 8).reshape(2, 4), m),
    "every third": lambda T: (m := memory(T, 27), m[::3]),
    "a part": lambda T: (m := memory(T, 24).reshape(6, 4), m[1:3, :2]),
    "rows": lambda T: (m := memory(T, 24).reshape(6, 4), m[1:3]),
    "empty": lambda T: (m := memory(T, 20), m[:0]),
    "too long": lambda T: (m := memory(T, 20), m[3:13]),
    "transposed": lambda T: (m := memory(T, 9).reshape(3, 3), m.t()),
    "permuted": lambda T: (m := memory(T, 9).reshape(1, 3, 3), m.permute(2, 1, 0)),
    "with gaps": lambda T: (m := memory(T, 36).reshape(6, 6), m[::2, ::2]),
    "grown": lambda T: (m := memory(T, 6), m[2:5]),
    "expanded": lambda T: (m := memory(T, 3).reshape(3, 1), m.expand(3, 3)),
}

CALLS = {
    "linspace": lambda T, o, out: T.linspace(0, 1, 9, out=out),
    "logspace": lambda T, o, out: T.logspace(0, 1, 9, out=out),
    "arange": lambda T, o, out: T.arange(9.0, out=out),
    "range": lambda T, o, out: T.range(0, 8, out=out),
    "zeros": lambda T, o, out: T.zeros(3, 3, out=out),
    "ones": lambda T, o, out: T.ones(3, 3, out=out),
    "full": lambda T, o, out: T.full((3, 3), 2.0, out=out),
    "eye": lambda T, o, out: T.eye(3, out=out),
    "rand": lambda T, o, out: T.rand(3, 3, out=out),
    "randn": lambda T, o, out: T.randn(3, 3, out=out),
    "randint": lambda T, o, out: T.randint(5, (3, 3), out=out),
    "randperm": lambda T, o, out: T.randperm(9, out=out),
    "normal": lambda T, o, out: T.normal(o, 1.0, out=out),
    "normal of deviations": lambda T, o, out: T.normal(0.5, o.abs(), out=out),
    "normal of both": lambda T, o, out: T.normal(o, o.abs(), out=out),
    "bernoulli": lambda T, o, out: T.bernoulli(o.abs().clamp(0, 1), out=out),
    "add": lambda T, o, out: T.add(o, o, out=out),
    "exp": lambda T, o, out: T.exp(o, out=out),
    "mm": lambda T, o, out: T.mm(o, o, out=out),
    "cat": lambda T, o, out: T.cat([o[:1], o[:2]], out=out),
    "stack": lambda T, o, out: T.stack([o[0]] * 3, out=out),
    "cumsum": lambda T, o, out: T.cumsum(o, 0, out=out),
    "masked_select": lambda T, o, out: T.masked_select(o, o > 0, out=out),
    "index_select": lambda T, o, out: T.index_select(o, 0, T.tensor([2, 0, 1]), out=out),
    "outer": lambda T, o, out: T.outer(o[0], o[1], out=out),
    "softmax": lambda T, o, out: T.softmax(o, 0, out=out),
}


def written(T, call, layout):
    """The memory, the tensor and its strides after a call, and whether it warned that it would resize."""
    T.manual_seed(0)
    base, out = LAYOUTS[layout](T)
    operand = memory(T, 9).reshape(3, 3) + 0.5
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            CALLS[call](T, operand, out)
        except RuntimeError as error:
            return str(error)[:60]
    resized = any("resized" in str(w.message) for w in caught)
    return base.numpy().round(4).tolist(), out.numpy().round(4).tolist(), out.stride(), resized


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("call", CALLS)
def test_out_is_written_where_it_lies(call, layout):
    assert written(ours, call, layout) == written(torch, call, layout)


CHANGES = {
    "add_": lambda T, s, o: s.add_(o),
    "ldexp_": lambda T, s, o: s.ldexp_(o),
    "copy_": lambda T, s, o: s.copy_(o),
    "addr_": lambda T, s, o: s.addr_(o[0], o[1]),
    "addmm_": lambda T, s, o: s.addmm_(o, o),
    "index_put_": lambda T, s, o: s.index_put_((T.tensor([0, 2]),), o[:2]),
    "indices": lambda T, s, o: s.__setitem__(T.tensor([0, 2]), o[:2]),
    "slice": lambda T, s, o: s.__setitem__(slice(0, 2), o[1:]),
    "column": lambda T, s, o: s.__setitem__((slice(None), 1), 5.0),
    "ellipsis": lambda T, s, o: s.__setitem__(..., o),
    "mask": lambda T, s, o: s.__setitem__(MASK(T), o.flatten()[:5]),
    "masked_fill_": lambda T, s, o: s.masked_fill_(MASK(T), 1.0),
    "masked_scatter_": lambda T, s, o: s.masked_scatter_(MASK(T), o),
    "scatter_": lambda T, s, o: s.scatter_(0, INDEX(T), o),
    "scatter_ of a number": lambda T, s, o: s.scatter_(0, INDEX(T), 1.0),
    "scatter_ added": lambda T, s, o: s.scatter_(0, INDEX(T), o, reduce="add"),
    "scatter_add_": lambda T, s, o: s.scatter_add_(0, INDEX(T), o),
    "scatter_reduce_": lambda T, s, o: s.scatter_reduce_(0, INDEX(T), o, "sum"),
    "index_add_": lambda T, s, o: s.index_add_(0, T.tensor([0, 2]), o[:2]),
    "index_copy_": lambda T, s, o: s.index_copy_(0, T.tensor([0, 2]), o[:2]),
    "index_fill_": lambda T, s, o: s.index_fill_(0, T.tensor([0, 2]), 1.0),
    "index_reduce_": lambda T, s, o: s.index_reduce_(0, T.tensor([0, 2]), o[:2], "prod"),
    "put_": lambda T, s, o: s.put_(T.tensor([0, 4]), o[0, :2]),
    "random_": lambda T, s, o: s.random_(5),
    "rrelu": lambda T, s, o: T.nn.functional.rrelu(s, inplace=True),
    "embedding_renorm_": lambda T, s, o: T.nn.functional.embedding(T.tensor([0, 1]), s, max_norm=0.1),
    "threshold_": lambda T, s, o: T.nn.functional.threshold_(s, 0.0, 1.0),
    "tril_": lambda T, s, o: s.tril_(),
    "polygamma_": lambda T, s, o: s.polygamma_(1),
}
MASK = lambda T: T.tensor([[True, False, True], [False, True, False], [True, True, False]])  # noqa: E731
INDEX = lambda T: T.tensor([[0, 1, 2], [2, 1, 0], [0, 0, 1]])  # noqa: E731
PAIRS = {
    "apart": lambda T: (memory(T, 9).reshape(3, 3), memory(T, 9).reshape(3, 3)),
    "expanded": lambda T: (memory(T, 3).reshape(3, 1).expand(3, 3), memory(T, 9).reshape(3, 3)),
    "one element": lambda T: (memory(T, 1).expand(3, 3), memory(T, 9).reshape(3, 3)),
    "rows later": lambda T: ((m := memory(T, 12).reshape(4, 3))[1:], m[:3]),
    "rows before": lambda T: ((m := memory(T, 12).reshape(4, 3))[:3], m[1:]),
    "transposed": lambda T: (m := memory(T, 9).reshape(3, 3), m.t()),
    "the same": lambda T: (m := memory(T, 9).reshape(3, 3), m[:]),
    "between the lines": lambda T: ((m := memory(T, 36).reshape(6, 6))[::2, ::2], m[1::2, 1::2]),
}


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_in_place_is_refused_where_torch_refuses_it(change, pair):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, got = (attempt(lambda T=T: CHANGES[change](T, *PAIRS[pair](T))) for T in (torch, ours))
    assert got == expected
