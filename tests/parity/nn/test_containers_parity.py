"""Containers, parameters and lazy modules beside torch: the same programs, the same results and errors."""

import copy
import pickle
from collections import OrderedDict

import pytest

from side_by_side import Programs, compare, error_of, named

program = Programs()


# --- containers -------------------------------------------------------------------------------------------------------


@program
def sequential(T, nn):
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    net.append(nn.Tanh())
    net.insert(1, nn.Sigmoid())
    net.extend([nn.ReLU()])
    part, last, popped = net[1:3], net[-1], net.pop(0)
    net[0] = nn.Identity()
    del net[-1]
    both = nn.Sequential(nn.ReLU()) + nn.Sequential(nn.Tanh())
    both += nn.Sequential(nn.ReLU6())
    times = nn.Sequential(nn.ReLU()) * 2
    times *= 2
    return [
        net,
        part,
        last,
        popped,
        len(net),
        [type(m).__name__ for m in net],
        both,
        times,
        2 * nn.Sequential(nn.ReLU()),
        error_of(lambda: net[99]),
        error_of(lambda: net.insert(99, nn.ReLU())),
        error_of(lambda: net.insert(0, 4))[0],
        error_of(lambda: net + 4)[0],
        error_of(lambda: net * 0)[0],
        error_of(lambda: net * "a")[0],
        nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh())),
        nn.Sequential(),
        nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh(), c=nn.ELU()))[::2],
    ]


@program
def module_list(T, nn):
    net = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
    net.append(nn.ReLU())
    net.insert(1, nn.Tanh())
    net += [nn.ReLU(), nn.ReLU()]
    text = repr(net)
    del net[0:2]
    return [
        text,
        net,
        net[1:],
        net[-1],
        len(net),
        net.pop(0),
        nn.ModuleList([nn.ReLU()]) + [nn.Tanh()],  # noqa: RUF005
        nn.ModuleList(),
        error_of(lambda: net[9]),
        error_of(lambda: net.extend(4)),
        error_of(lambda: net.append(4)),
        error_of(lambda: nn.ModuleList(4)),
        error_of(lambda: net(1)),
        list(net.state_dict()),
        nn.ModuleList(
            [nn.Sequential(nn.ReLU(), nn.Linear(1, 1)), nn.Sequential(nn.ReLU(), nn.Linear(1, 1)), nn.ReLU()]
        ),
    ]


@program
def module_dict(T, nn):
    net = nn.ModuleDict({"b": nn.ReLU(), "a": nn.Linear(1, 1)})
    net["c"] = nn.Tanh()
    net.update([["d", nn.ELU()]])
    net.update(nn.ModuleDict({"e": nn.ReLU()}))
    popped = net.pop("b")
    del net["c"]
    return [
        net,
        list(net),
        list(net.keys()),
        [k for k, _ in net.items()],
        len(net),
        "a" in net,
        "b" in net,
        popped,
        error_of(lambda: net["zz"]),
        error_of(lambda: net.update(4)),
        error_of(lambda: net.update([4]))[0],
        error_of(lambda: net.update([[1, 2, 3]])),
        error_of(lambda: net.__setitem__("keys", nn.ReLU())),
        net.clear(),
        len(net),
    ]


@program
def parameter_list(T, nn):
    net = nn.ParameterList([T.ones(2), nn.Parameter(T.zeros(1, 3))])
    net.append(T.ones(()))
    net.append("text")
    net += [T.ones(1)]
    net[0] = T.zeros(2)
    return [
        net,
        len(net),
        [type(p).__name__ for p in net],
        list(net.state_dict()),
        net[-1],
        net[1:3],
        error_of(lambda: net[9]),
        error_of(lambda: net.extend(4)),
        error_of(lambda: net.extend(T.ones(2))),
        error_of(lambda: net(1)),
        net[3],
    ]


@program
def parameter_dict(T, nn):
    net = nn.ParameterDict({"b": T.ones(2), "a": nn.Parameter(T.zeros(1))})
    net["c"] = T.ones(1)
    net["d"] = "text"
    other = nn.ParameterDict(OrderedDict(z=T.ones(1), y=T.ones(1)))
    return [
        net,
        list(net),
        list(net.keys()),
        len(net),
        "a" in net,
        list(reversed(net)),
        net.get("zz"),
        net.get("a"),
        net.setdefault("q", T.ones(1)),
        net.pop("q"),
        net.popitem(),
        list(net | other),
        list(other.copy()),
        error_of(lambda: net["zz"]),
        error_of(lambda: net[5]),
        error_of(lambda: net.update(4)),
        error_of(lambda: net(1)),
        nn.ParameterDict().fromkeys(["a", "b"], T.ones(1)),
        list(net.state_dict()),
        net.clear(),
        len(net),
    ]


# --- parameters -------------------------------------------------------------------------------------------------------


@program
def parameters(T, nn):
    x = T.ones(2)
    p = nn.Parameter(x)
    q = nn.Parameter(x, requires_grad=False)
    return [
        p,
        q,
        nn.Parameter(),
        repr(p),
        repr(q),
        isinstance(p, T.Tensor),
        isinstance(x, nn.Parameter),
        p.is_leaf,
        p.data_ptr() == x.data_ptr(),
        type(p * 2).__name__,
        type(p.data).__name__,
        type(p.detach()).__name__,
        type(p.clone()).__name__,
        type(nn.Parameter(p)).__name__,
        error_of(lambda: nn.Parameter(T.ones(1).long()))[0],
        error_of(lambda: nn.Parameter([1.0]))[0],
        p.grad,
        nn.Parameter((x + 1).requires_grad_() * 2).is_leaf,
    ]


@program
def copying_parameters(T, nn):
    p = nn.Parameter(T.ones(2))
    (p * 3).sum().backward()
    p.note = "mine"
    c = copy.deepcopy(p)
    r = pickle.loads(pickle.dumps(nn.Parameter(T.ones(2), requires_grad=False)))
    return c, type(c).__name__, c.grad, hasattr(c, "note"), r, type(r).__name__, type(copy.copy(p)).__name__


@program
def parameters_of_subclasses(T, nn):
    class Mine(T.Tensor):
        pass

    p = nn.Parameter(T.ones(2).as_subclass(Mine))
    m = nn.Module()
    m.p = p
    return type(p).__name__, isinstance(p, nn.Parameter), isinstance(p, Mine), list(m._parameters), p.requires_grad


@program
def subclasses_of_parameter(T, nn):
    class Named(nn.Parameter):
        pass

    p = Named(T.ones(2))
    m = nn.Module()
    m.p = p
    return (
        type(p).__name__,
        isinstance(p, nn.Parameter),
        list(m._parameters),
        issubclass(Named, nn.Parameter),
        type(p + 1).__name__,
    )


@program
def uninitialized(T, nn):
    p = nn.UninitializedParameter()
    b = nn.UninitializedBuffer(persistent=False)
    texts = repr(p), repr(b), nn.parameter.is_lazy(p), p.dtype, p.requires_grad
    errors = error_of(lambda: p.shape), error_of(lambda: p + 1)[0]
    c = copy.deepcopy(p)
    p.materialize((2, 3))
    return texts, errors, type(p).__name__, tuple(p.shape), nn.parameter.is_lazy(p), type(c).__name__, p.requires_grad


# --- lazy modules -----------------------------------------------------------------------------------------------------


@program
def lazy_modules(T, nn):
    net = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d())
    text, state = repr(net), net.state_dict()
    source = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    loaded = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d())
    loaded.load_state_dict(source.state_dict())
    net(T.ones(2, 4))
    return [
        text,
        list(state),
        [type(v).__name__ for v in state.values()],
        repr(net),
        [type(m).__name__ for m in net],
        loaded[0].weight.shape,
        type(loaded[0]).__name__,
        loaded(T.ones(2, 4)).shape,
        error_of(lambda: nn.LazyConv2d(3, 2)(T.ones(4))),
        nn.LazyLinear(2).double().weight.dtype,
        copy.deepcopy(nn.LazyLinear(2)),
        len(net[0]._forward_pre_hooks),
    ]


@pytest.mark.parametrize("function", program, ids=named)
def test_same_outcome(function):
    compare(function)
