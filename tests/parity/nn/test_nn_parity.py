"""Every layer of torch.nn beside torch's: same seed, same weights; same text, keys, attributes, outputs and gradients."""

import inspect
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import mindtorch_v2

sys.path.insert(0, str(Path(__file__).parents[2] / "mindtorch_v2"))

from layer_samples import CASES

PACKAGES = (torch, mindtorch_v2)
IDS = [f"{i}-{case.text}" for i, case in enumerate(CASES)]


def flat(value):
    if isinstance(value, (tuple, list)):
        return [leaf for v in value for leaf in flat(v)]
    return [] if value is None else [value]


def array(t):
    return t.detach().numpy()


def close(ours, theirs, tolerance, what):
    assert tuple(ours.shape) == tuple(theirs.shape), what
    assert str(ours.dtype).replace("mindtorch_v2", "torch") == str(theirs.dtype), what
    np.testing.assert_allclose(array(ours), array(theirs), rtol=tolerance, atol=tolerance, err_msg=what)


def same_state(ours, theirs, what):
    a, b = ours.state_dict(), theirs.state_dict()
    assert list(a) == list(b), what
    assert {k: dict(v) for k, v in a._metadata.items()} == {k: dict(v) for k, v in b._metadata.items()}
    for name in b:
        if type(b[name]).__name__.startswith("Uninitialized"):
            assert type(a[name]).__name__ == type(b[name]).__name__
        else:
            np.testing.assert_array_equal(array(a[name]), array(b[name]), err_msg=f"{what}: {name}")


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_same_seed_same_layer(case):
    theirs, ours = (case.make(T) for T in PACKAGES)
    assert repr(ours) == repr(theirs)
    same_state(ours, theirs, "state")
    for kind in ("named_parameters", "named_buffers", "named_modules", "named_children"):
        assert [n for n, _ in getattr(ours, kind)()] == [n for n, _ in getattr(theirs, kind)()]
    assert [p.requires_grad for p in ours.parameters()] == [p.requires_grad for p in theirs.parameters()]
    assert public(theirs) <= public(ours)


def public(module):
    return {n for n in module.__dict__ if not n.startswith("_") and n != "activation"}


def run(case, T, training):
    module = case.make(T).train(training)
    args, kwargs = case.tensors(T)
    T.manual_seed(11)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = flat(module(*args, **kwargs))
    return module, args, results


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_same_outputs_and_gradients(case, training):
    (theirs, their_args, expected), (ours, our_args, got) = (run(case, T, training) for T in PACKAGES)
    assert len(got) == len(expected)
    for i, (a, b) in enumerate(zip(got, expected, strict=True)):
        close(a, b, case.tolerance, f"output {i}")
    assert repr(ours) == repr(theirs)
    if not case.gradients or not any(e.requires_grad for e in expected):
        assert not case.gradients or not any(g.requires_grad for g in got)
        return
    for results in (expected, got):
        loss = sum((r * (i + 1)).sin().sum() for i, r in enumerate(results) if r.requires_grad)
        loss.backward()
    for i, (a, b) in enumerate(zip(our_args, their_args, strict=True)):
        assert (a.grad is None) == (b.grad is None), f"gradient of input {i}"
        if b.grad is not None:
            close(a.grad, b.grad, 5 * case.tolerance, f"gradient of input {i}")
    for (name, a), (_, b) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None), name
        if b.grad is not None:
            close(a.grad, b.grad, 5 * case.tolerance, f"gradient of {name}")
    for (name, a), (_, b) in zip(ours.named_buffers(), theirs.named_buffers(), strict=True):
        close(a, b, case.tolerance, f"buffer {name}")


def test_every_layer_of_torch_is_there_and_measured():
    names = list(torch.nn.modules.__all__)
    assert set(names) <= set(dir(mindtorch_v2.nn))
    text = " ".join(case.text for case in CASES)
    unmeasured = {n for n in names if f"nn.{n}" not in text}
    assert unmeasured == {
        "Container", "LinearCrossEntropyOptions", "Module", "ModuleDict", "ModuleList", "NLLLoss2d", "ParameterDict",
        "ParameterList", "RNNBase", "RNNCellBase",
    }  # fmt: skip


DEPRECATED = ("Container", "NLLLoss2d")  # torch wraps their constructors, which hides the signature


@pytest.mark.parametrize("name", [n for n in torch.nn.modules.__all__ if n not in DEPRECATED])
def test_same_constructor(name):
    theirs, ours = (inspect.signature(getattr(T.nn, name).__init__).parameters for T in PACKAGES)
    assert list(ours) == list(theirs)
    assert [p.kind for p in ours.values()] == [p.kind for p in theirs.values()]
    for key, p in theirs.items():
        if not callable(p.default) or p.default is inspect.Parameter.empty:
            assert ours[key].default == p.default, key


@pytest.mark.parametrize("name", torch.nn.modules.__all__)
def test_same_base_classes(name):
    theirs, ours = (getattr(T.nn, name) for T in PACKAGES)
    public = {b.__name__ for b in theirs.__mro__ if b.__name__ in torch.nn.modules.__all__}
    assert public <= {b.__name__ for b in ours.__mro__}
    assert ours.__module__.replace("mindtorch_v2", "torch") == theirs.__module__  # pickles name it
