"""Module, containers, parameters, hooks and nn.utils beside torch: the same short programs, the same results and errors."""

import copy
import inspect
import pickle
import warnings
from collections import OrderedDict

import numpy as np
import pytest
import torch
import torch.nn.utils.prune

import mindtorch_v2

PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


def plain(value):
    """A result that can be compared across the two packages."""
    if isinstance(value, (torch.Tensor, mindtorch_v2.Tensor)):
        if type(value).__name__.startswith("Uninitialized"):
            return type(value).__name__
        if value.is_meta:
            return type(value).__name__, tuple(value.shape)
        return type(value).__name__, value.requires_grad, value.detach().double().numpy()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(
        value, (torch.nn.Module, mindtorch_v2.nn.Module, torch.Size, mindtorch_v2.Size, torch.dtype, mindtorch_v2.dtype)
    ):
        return repr(value).replace("mindtorch_v2", "torch")
    if inspect.isgenerator(value):
        return [plain(v) for v in value]
    if isinstance(value, type):
        return value.__name__
    return value


def outcome(function, T):
    T.manual_seed(5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = plain(function(T, T.nn))
        except Exception as error:
            result = type(error).__name__, str(error).replace("mindtorch_v2", "torch")
    return result, sorted({w.category.__name__ for w in caught})


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


def error_of(call):
    """What a call raises, as a result of the program."""
    try:
        call()
    except Exception as error:
        return type(error).__name__, str(error).replace("mindtorch_v2", "torch")
    return "no error"


# --- registration and attributes --------------------------------------------------------------------------------------


@program
def assigning(T, nn):
    m = nn.Module()
    m.a = nn.Parameter(T.ones(2))
    m.b = nn.Linear(1, 1)
    m.register_buffer("c", T.zeros(2))
    m.d = T.ones(3)
    m.e = 5
    found = [list(m._parameters), list(m._modules), list(m._buffers), sorted(k for k in m.__dict__ if k in "abcde")]
    m.a = None
    m.b = None
    m.c = None
    return found, m._parameters, m._modules, m._buffers, m.a, m.b, m.c


@program
def assigning_wrong_things(T, nn):
    m = nn.Linear(2, 2)
    m.child = nn.ReLU()
    m.register_buffer("buf", T.zeros(1))
    return [
        error_of(lambda: setattr(m, "weight", T.ones(2, 2))),
        error_of(lambda: setattr(m, "weight", "text")),
        error_of(lambda: setattr(m, "weight", nn.ReLU())),
        error_of(lambda: setattr(m, "child", T.ones(1))),
        error_of(lambda: setattr(m, "child", 4)),
        error_of(lambda: setattr(m, "buf", 4)),
        error_of(lambda: setattr(m, "buf", [1])),
    ]


@program
def registering_wrong_things(T, nn):
    m = nn.Linear(2, 2)
    m.x = 1
    leaf = T.ones(2, requires_grad=True)
    return [
        error_of(lambda: m.register_parameter("a.b", None)),
        error_of(lambda: m.register_parameter("", None)),
        error_of(lambda: m.register_parameter(5, None)),
        error_of(lambda: m.register_parameter("x", None)),
        error_of(lambda: m.register_parameter("y", T.ones(1))),
        error_of(lambda: m.register_parameter("y", "text")),
        error_of(lambda: m.register_buffer("a.b", None)),
        error_of(lambda: m.register_buffer("", None)),
        error_of(lambda: m.register_buffer(5.0, None)),
        error_of(lambda: m.register_buffer("weight", None)),
        error_of(lambda: m.register_buffer("y", 4)),
        error_of(lambda: m.add_module("a.b", None)),
        error_of(lambda: m.add_module("", None)),
        error_of(lambda: m.add_module(5, None)) if T is None else None,
        error_of(lambda: m.add_module("weight", nn.ReLU())),
        error_of(lambda: m.add_module("y", 4)),
        error_of(lambda: m.register_module("y", T.ones(1))),
        error_of(lambda: leaf * 2),
    ]


@program
def before_init(T, nn):
    class Early(nn.Module):
        def __init__(self, value):
            self.thing = value
            super().__init__()

    class Plain(nn.Module):
        def __init__(self):
            self.n = 3
            super().__init__()

    class Never(nn.Module):
        def __init__(self):
            pass

    return [
        error_of(lambda: Early(nn.Parameter(T.ones(1)))),
        error_of(lambda: Early(nn.ReLU())),
        error_of(lambda: Never().register_buffer("a", None)),
        error_of(lambda: Never().register_parameter("a", None)),
        Plain().n,
        error_of(lambda: Never().missing),
    ]


@program
def constructor_errors(T, nn):
    class Strict(nn.Module):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)

    return error_of(lambda: Strict(1, 2)), error_of(lambda: Strict(a=1)), error_of(lambda: nn.Module(3))


@program
def call_super_init(T, nn):
    class Other:
        def __init__(self, n):
            self.n = n

    class Both(nn.Module, Other):
        call_super_init = True

        def __init__(self, n):
            super().__init__(n)

    return Both(4).n


@program
def missing_attribute(T, nn):
    m = nn.Linear(1, 1)
    return error_of(lambda: m.nothing), error_of(lambda: delattr(m, "nothing")), hasattr(m, "weight"), hasattr(m, "x")


@program
def deleting(T, nn):
    m = nn.Linear(1, 1)
    m.register_buffer("b", T.ones(1), persistent=False)
    m.c = nn.ReLU()
    del m.weight, m.b, m.c
    return list(m._parameters), list(m._buffers), list(m._modules), m._non_persistent_buffers_set == set()


@program
def replacing_kinds(T, nn):
    m = nn.Module()
    m.x = nn.ReLU()
    m.x = nn.Parameter(T.ones(1))
    first = list(m._modules), list(m._parameters)
    m.y = T.ones(1)
    m.y = nn.Parameter(T.ones(1))
    second = "y" in m.__dict__
    m.z = nn.Buffer(T.ones(2), persistent=False)
    m.w = nn.Buffer(T.ones(2))
    return first, second, list(m._buffers), sorted(m._non_persistent_buffers_set), list(m.state_dict())


@program
def buffers_by_assignment(T, nn):
    m = nn.Module()
    m.b = nn.Buffer(T.ones(2))
    m.b = T.zeros(3)
    return (
        isinstance(m.b, nn.Buffer),
        isinstance(nn.Buffer(T.ones(1)), nn.Buffer),
        isinstance(T.ones(1), nn.Buffer),
        m.b,
    )


@program
def directory(T, nn):
    m = nn.Sequential(nn.Linear(1, 1))
    return [n for n in ("weight", "forward", "0", "training") if n in dir(m)], "weight" in dir(m[0])


@program
def forward_missing(T, nn):
    class Empty(nn.Module):
        pass

    return error_of(lambda: Empty()(1)), error_of(lambda: nn.Module()(1))


# --- traversal --------------------------------------------------------------------------------------------------------


def tree(T, nn):
    shared = nn.Linear(2, 2)
    net = nn.Module()
    net.first = nn.Sequential(shared, nn.ReLU(), shared)
    net.second = shared
    net.tied = net.second.weight
    net.none = None
    net.register_buffer("state", T.zeros(1))
    net.first.register_buffer("hidden", T.zeros(1), persistent=False)
    return net


@program
def names(T, nn):
    net = tree(T, nn)
    return [
        [n for n, _ in net.named_modules()],
        [n for n, _ in net.named_modules(remove_duplicate=False)],
        [n for n, _ in net.named_modules(prefix="net")],
        [n for n, _ in net.named_children()],
        [n for n, _ in net.named_parameters()],
        [n for n, _ in net.named_parameters(prefix="p", recurse=False)],
        [n for n, _ in net.named_parameters(remove_duplicate=False)],
        [n for n, _ in net.named_buffers()],
        len(list(net.parameters())), len(list(net.buffers())), len(list(net.modules())), len(list(net.children())),
        list(net.state_dict()), repr(net),
    ]  # fmt: skip


@program
def paths(T, nn):
    net = tree(T, nn)
    net.plain = 4
    return [
        net.get_submodule("first.1"), net.get_submodule("") is net, error_of(lambda: net.get_submodule("first.9")),
        error_of(lambda: net.get_submodule("plain")), net.get_parameter("first.0.weight").shape,
        error_of(lambda: net.get_parameter("state")), error_of(lambda: net.get_parameter("first.nothing")),
        net.get_buffer("state"), error_of(lambda: net.get_buffer("first.0.weight")),
        error_of(lambda: net.get_buffer("plain")),
    ]  # fmt: skip


@program
def setting_submodules(T, nn):
    net = tree(T, nn)
    net.plain = 4
    net.set_submodule("first.1", nn.Tanh())
    net.set_submodule("fresh", nn.Tanh())
    return [
        net, error_of(lambda: net.set_submodule("", nn.Tanh())), error_of(lambda: net.set_submodule("plain", nn.Tanh())),
        error_of(lambda: net.set_submodule("nowhere", nn.Tanh(), strict=True)),
        error_of(lambda: net.set_submodule("x", 3))[0],
    ]  # fmt: skip


@program
def modes(T, nn):
    net = tree(T, nn)
    net.eval()
    first = [m.training for m in net.modules()]
    net.train()
    return first, net.training, error_of(lambda: net.train("yes")), net.train() is net


@program
def applying(T, nn):
    seen = []
    net = nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.ReLU()))
    net.apply(lambda m: seen.append(type(m).__name__))
    net.requires_grad_(False)
    return seen, [p.requires_grad for p in net.parameters()]


@program
def zeroing_gradients(T, nn):
    net = nn.Linear(2, 1)
    net(T.ones(1, 2)).sum().backward()
    net.zero_grad(set_to_none=False)
    first = [p.grad for p in net.parameters()]
    net.zero_grad()
    return first, [p.grad for p in net.parameters()]


# --- moving and casting -----------------------------------------------------------------------------------------------


@program
def casting(T, nn):
    net = nn.BatchNorm1d(2)
    weight = net.weight
    net(T.ones(3, 2)).sum().backward()
    grad = net.weight.grad
    net.double()
    return [
        net.weight is weight, net.weight.grad is grad, net.weight.dtype, net.weight.grad.dtype, net.running_mean.dtype,
        net.num_batches_tracked.dtype, net.half().weight.dtype, net.float().weight.dtype, net.bfloat16().weight.dtype,
        net.to(T.float64).weight.dtype, net.to("cpu").weight.dtype, net.to(T.ones(1)).weight.dtype,
        net.to(device="cpu", dtype=T.float64).weight.dtype, net.type(T.float32).num_batches_tracked.dtype,
        error_of(lambda: net.to(T.int32)), net.cpu() is net,
    ]  # fmt: skip


@program
def moving_to_meta(T, nn):
    net = nn.Linear(2, 3)
    weight = net.weight
    net.to("meta")
    made = nn.Linear(2, 3, device="meta")
    back = made.to_empty(device="cpu")
    return [
        net.weight is weight, net.weight.is_meta, net.weight.__class__.__name__, back.weight.is_meta,
        tuple(back.weight.shape), error_of(lambda: net.to("cpu")), nn.Linear(2, 2, device="meta").weight.device.type,
    ]  # fmt: skip


# --- state dicts ------------------------------------------------------------------------------------------------------


@program
def writing_state(T, nn):
    net = nn.Sequential(OrderedDict(a=nn.Linear(2, 1), b=nn.BatchNorm1d(1)))
    state = net.state_dict(prefix="p.")
    kept = net.state_dict(keep_vars=True)
    own = {}
    net.state_dict(destination=own)
    old = net.state_dict({}, "q.")
    return [
        list(state), [type(v).__name__ for v in state.values()], [v.requires_grad for v in state.values()],
        [type(v).__name__ for v in kept.values()], list(own), list(old), state._metadata, type(state).__name__,
        state["p.a.weight"].data_ptr() == net.a.weight.data_ptr(),
    ]  # fmt: skip


@program
def reading_state(T, nn):
    a, b = nn.Linear(2, 2), nn.Linear(2, 2)
    keys = a.load_state_dict(b.state_dict())
    return repr(keys), a.weight, bool((a.weight == b.weight).all()), a.weight is not b.weight


@program
def reading_wrong_state(T, nn):
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    good = net.state_dict()
    less = {k: v for k, v in good.items() if k != "0.weight"}
    more = {**good, "extra": T.ones(1), "0.other": T.ones(1), "9.weight": T.ones(1)}
    bad = {**good, "0.weight": T.ones(3, 3), "0.bias": "text"}
    lenient = net.load_state_dict({"0.weight": good["0.weight"], "x": T.ones(1)}, strict=False)
    return [
        error_of(lambda: net.load_state_dict(less)), error_of(lambda: net.load_state_dict(more)),
        error_of(lambda: net.load_state_dict(bad)), error_of(lambda: net.load_state_dict([1])),
        lenient.missing_keys, lenient.unexpected_keys, repr(lenient),
    ]  # fmt: skip


@program
def reading_with_assign(T, nn):
    net = nn.BatchNorm1d(2)
    given = {k: v.clone() + 1 for k, v in net.state_dict().items()}
    net.weight.requires_grad_(False)
    net.load_state_dict(given, assign=True)
    meta = nn.Linear(2, 2, device="meta")
    meta.load_state_dict(nn.Linear(2, 2).state_dict(), assign=True)
    return [
        net.weight.data_ptr() == given["weight"].data_ptr(), net.running_mean is given["running_mean"],
        type(net.weight).__name__, net.weight.requires_grad, net.bias.requires_grad, meta.weight.is_meta,
    ]  # fmt: skip


@program
def reading_into_meta(T, nn):
    meta = nn.Linear(2, 2, device="meta")
    return repr(meta.load_state_dict(nn.Linear(2, 2).state_dict())), meta.weight.is_meta


@program
def old_batch_norm_state(T, nn):
    net = nn.BatchNorm1d(2)
    net.num_batches_tracked.fill_(7)
    state = {k: v for k, v in net.state_dict().items() if k != "num_batches_tracked"}
    net.load_state_dict(state)
    return net.num_batches_tracked


@program
def old_instance_norm_state(T, nn):
    net = nn.InstanceNorm1d(2)
    return error_of(lambda: net.load_state_dict({"running_mean": T.ones(2), "running_var": T.ones(2)}))


@program
def extra_state(T, nn):
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.count = 3

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"]

    net = nn.Sequential(Counting())
    state = net.state_dict()
    net[0].count = 0
    net.load_state_dict(state)
    return (
        dict(state),
        net[0].count,
        error_of(lambda: net.load_state_dict({})),
        error_of(lambda: nn.Sequential(nn.ReLU()).load_state_dict(state)),
    )


@program
def zero_dim_state(T, nn):
    net = nn.Module()
    net.p = nn.Parameter(T.tensor(1.0))
    net.load_state_dict({"p": T.tensor([2.0])})
    return net.p


@program
def state_hooks(T, nn):
    seen = []
    net = nn.Sequential(nn.Linear(1, 1))
    net.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append(("pre", prefix, keep)))
    net.register_state_dict_post_hook(lambda m, state, prefix, meta: seen.append(("post", list(state), prefix)))
    net[0]._register_state_dict_hook(lambda m, state, prefix, meta: seen.append(("old", prefix, meta)))
    net.register_load_state_dict_pre_hook(lambda m, state, prefix, *rest: seen.append(("load", m is net, prefix)))
    net.register_load_state_dict_post_hook(lambda m, keys: seen.append(("loaded", m is net, keys.missing_keys)))
    net.load_state_dict(net.state_dict())
    return seen


@program
def wrong_state_hooks(T, nn):
    net = nn.Linear(1, 1)
    hook = lambda *a: {}  # noqa: E731
    net.register_state_dict_post_hook(hook)
    first = error_of(net.state_dict), error_of(lambda: net._register_state_dict_hook(hook))
    other = nn.Linear(1, 1)
    state = other.state_dict()
    other.register_load_state_dict_post_hook(lambda m, keys: keys)
    return first, error_of(lambda: other.load_state_dict(state))


@program
def consuming_prefixes(T, nn):
    state = nn.DataParallel(nn.Linear(1, 1)).state_dict()
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    return list(state), list(state._metadata)


# --- forward hooks ----------------------------------------------------------------------------------------------------


@program
def forward_hooks(T, nn):
    seen = []
    net = nn.Linear(2, 2)
    h1 = net.register_forward_pre_hook(lambda m, args: seen.append("pre") or (args[0] * 2,))
    h2 = net.register_forward_hook(lambda m, args, out: seen.append(("post", args[0])) or out + 1)
    net.register_forward_hook(lambda m, args, out: seen.append("first"), prepend=True)
    net.register_forward_pre_hook(lambda m, args: seen.append("pre first"), prepend=True)
    a = net(T.ones(1, 2))
    h1.remove()
    h2.remove()
    return seen, a, net(T.ones(1, 2))


@program
def forward_hooks_with_kwargs(T, nn):
    class Net(nn.Module):
        def forward(self, x, *, scale=1):
            return x * scale

    net = Net()
    seen = []
    net.register_forward_pre_hook(lambda m, args, kw: (args, {"scale": kw["scale"] + 1}), with_kwargs=True)
    net.register_forward_hook(lambda m, args, kw, out: seen.append(dict(kw)), with_kwargs=True)
    a = net(T.ones(2), scale=2)
    net.register_forward_pre_hook(lambda m, args, kw: 5, with_kwargs=True)
    return a, seen, error_of(lambda: net(T.ones(1), scale=1))


@program
def always_called_hooks(T, nn):
    class Failing(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    net, seen = Failing(), []
    net.register_forward_hook(lambda m, args, out: seen.append(("always", out)), always_call=True)
    net.register_forward_hook(lambda m, args, out: seen.append("sometimes"))
    net.register_forward_hook(lambda m, args, out: 1 / 0, always_call=True)
    return error_of(lambda: net(1)), seen


@program
def global_hooks(T, nn):
    seen = []
    module = nn.modules.module
    handles = [
        module.register_module_forward_pre_hook(lambda m, args: seen.append(("pre", type(m).__name__))),
        module.register_module_forward_hook(lambda m, args, out: seen.append(("post", type(m).__name__))),
        module.register_module_full_backward_pre_hook(lambda m, g: seen.append(("bpre", type(m).__name__))),
        module.register_module_full_backward_hook(lambda m, gi, go: seen.append(("back", type(m).__name__))),
        module.register_module_module_registration_hook(lambda m, n, s: seen.append(("module", n))),
        module.register_module_parameter_registration_hook(lambda m, n, p: seen.append(("parameter", n))),
        module.register_module_buffer_registration_hook(lambda m, n, b: seen.append(("buffer", n))),
    ]
    try:
        net = nn.Sequential(nn.BatchNorm1d(2), nn.ReLU())
        net(T.ones(2, 2, requires_grad=True)).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    return seen


@program
def removing_handles(T, nn):
    net = nn.ReLU()
    with net.register_forward_hook(lambda m, a, o: o + 1):
        inside = net(T.ones(1))
    return inside, net(T.ones(1)), len(net._forward_hooks)


# --- backward hooks ---------------------------------------------------------------------------------------------------


class Pair:
    """A module with two inputs and outputs, in either package."""

    @staticmethod
    def of(nn):
        class Two(nn.Module):
            def forward(self, x, y, note=None):
                return x * y, x + y

        return Two()


@program
def full_backward_hooks(T, nn):
    seen = []
    net = Pair.of(nn)
    net.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go)))
    x, y = T.tensor([1.0, 2.0], requires_grad=True), T.tensor([3.0, 4.0], requires_grad=True)
    a, b = net(x, y)
    (a.sum() + 2 * b.sum()).backward()
    return seen, x.grad, y.grad, a.grad_fn.name()


@program
def full_backward_hook_changes(T, nn):
    net = nn.Linear(2, 1)
    net.register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))
    net.register_full_backward_hook(lambda m, gi, go: (gi[0] + 1,))
    x = T.ones(1, 2, requires_grad=True)
    net(x).sum().backward()
    return x.grad, net.weight.grad


@program
def full_backward_hook_with_plain_inputs(T, nn):
    seen = []
    net = Pair.of(nn)
    net.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go)))
    x = T.tensor([1.0, 2.0], requires_grad=True)
    a, b = net(x, T.ones(2), "note")
    a.sum().backward()
    return seen, x.grad, b.requires_grad


@program
def full_backward_hook_without_grad_inputs(T, nn):
    seen = []
    net = nn.Linear(2, 1)
    net.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go)))
    net(T.ones(1, 2)).sum().backward()
    return seen, net.weight.grad


@program
def wrong_backward_hooks(T, nn):
    def of(hook, pre=False):
        net = nn.Linear(2, 1)
        (net.register_full_backward_pre_hook if pre else net.register_full_backward_hook)(hook)
        return lambda: net(T.ones(1, 2, requires_grad=True)).sum().backward()

    mixed = nn.Linear(1, 1)
    mixed.register_full_backward_hook(lambda *a: None)
    other = nn.Linear(1, 1)
    other.register_backward_hook(lambda *a: None)
    return [
        error_of(of(lambda m, gi, go: (None, None))), error_of(of(lambda m, go: (None, None), pre=True)),
        error_of(lambda: mixed.register_backward_hook(lambda *a: None)),
        error_of(lambda: other.register_full_backward_hook(lambda *a: None)),
    ]  # fmt: skip


@program
def old_backward_hooks(T, nn):
    seen = []
    net = nn.ReLU()
    net.register_backward_hook(lambda m, gi, go: seen.append((type(m).__name__, gi, go)))
    x = T.tensor([1.0, -1.0], requires_grad=True)
    net(x * 2).sum().backward()
    return seen, x.grad


@program
def odd_output_with_backward_hook(T, nn):
    class Dictionary(nn.Module):
        def forward(self, x):
            return {"x": x * 2}

    net = Dictionary()
    net.register_full_backward_hook(lambda *a: None)
    return net(T.ones(1, requires_grad=True))


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
        net, part, last, popped, len(net), [type(m).__name__ for m in net], both, times, 2 * nn.Sequential(nn.ReLU()),
        error_of(lambda: net[99]), error_of(lambda: net.insert(99, nn.ReLU())), error_of(lambda: net.insert(0, 4))[0],
        error_of(lambda: net + 4)[0], error_of(lambda: net * 0)[0], error_of(lambda: net * "a")[0],
        nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh())), nn.Sequential(),
        nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh(), c=nn.ELU()))[::2],
    ]  # fmt: skip


@program
def module_list(T, nn):
    net = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
    net.append(nn.ReLU())
    net.insert(1, nn.Tanh())
    net += [nn.ReLU(), nn.ReLU()]
    text = repr(net)
    del net[0:2]
    return [
        text, net, net[1:], net[-1], len(net), net.pop(0),
        nn.ModuleList([nn.ReLU()]) + [nn.Tanh()],  # noqa: RUF005
        nn.ModuleList(),
        error_of(lambda: net[9]), error_of(lambda: net.extend(4)), error_of(lambda: net.append(4)),
        error_of(lambda: nn.ModuleList(4)), error_of(lambda: net(1)), list(net.state_dict()),
        nn.ModuleList([nn.Sequential(nn.ReLU(), nn.Linear(1, 1)), nn.Sequential(nn.ReLU(), nn.Linear(1, 1)), nn.ReLU()]),
    ]  # fmt: skip


@program
def module_dict(T, nn):
    net = nn.ModuleDict({"b": nn.ReLU(), "a": nn.Linear(1, 1)})
    net["c"] = nn.Tanh()
    net.update([["d", nn.ELU()]])
    net.update(nn.ModuleDict({"e": nn.ReLU()}))
    popped = net.pop("b")
    del net["c"]
    return [
        net, list(net), list(net.keys()), [k for k, _ in net.items()], len(net), "a" in net, "b" in net, popped,
        error_of(lambda: net["zz"]), error_of(lambda: net.update(4)), error_of(lambda: net.update([4]))[0],
        error_of(lambda: net.update([[1, 2, 3]])), error_of(lambda: net.__setitem__("keys", nn.ReLU())),
        net.clear(), len(net),
    ]  # fmt: skip


@program
def parameter_list(T, nn):
    net = nn.ParameterList([T.ones(2), nn.Parameter(T.zeros(1, 3))])
    net.append(T.ones(()))
    net.append("text")
    net += [T.ones(1)]
    net[0] = T.zeros(2)
    return [
        net, len(net), [type(p).__name__ for p in net], list(net.state_dict()), net[-1], net[1:3],
        error_of(lambda: net[9]), error_of(lambda: net.extend(4)), error_of(lambda: net.extend(T.ones(2))),
        error_of(lambda: net(1)), net[3],
    ]  # fmt: skip


@program
def parameter_dict(T, nn):
    net = nn.ParameterDict({"b": T.ones(2), "a": nn.Parameter(T.zeros(1))})
    net["c"] = T.ones(1)
    net["d"] = "text"
    other = nn.ParameterDict(OrderedDict(z=T.ones(1), y=T.ones(1)))
    return [
        net, list(net), list(net.keys()), len(net), "a" in net, list(reversed(net)), net.get("zz"), net.get("a"),
        net.setdefault("q", T.ones(1)), net.pop("q"), net.popitem(), list(net | other), list(other.copy()),
        error_of(lambda: net["zz"]), error_of(lambda: net[5]), error_of(lambda: net.update(4)), error_of(lambda: net(1)),
        nn.ParameterDict().fromkeys(["a", "b"], T.ones(1)), list(net.state_dict()), net.clear(), len(net),
    ]  # fmt: skip


# --- parameters -------------------------------------------------------------------------------------------------------


@program
def parameters(T, nn):
    x = T.ones(2)
    p = nn.Parameter(x)
    q = nn.Parameter(x, requires_grad=False)
    return [
        p, q, nn.Parameter(), repr(p), repr(q), isinstance(p, T.Tensor), isinstance(x, nn.Parameter), p.is_leaf,
        p.data_ptr() == x.data_ptr(), type(p * 2).__name__, type(p.data).__name__, type(p.detach()).__name__,
        type(p.clone()).__name__, type(nn.Parameter(p)).__name__, error_of(lambda: nn.Parameter(T.ones(1).long()))[0],
        error_of(lambda: nn.Parameter([1.0]))[0], p.grad, nn.Parameter((x + 1).requires_grad_() * 2).is_leaf,
    ]  # fmt: skip


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


# --- copies and pickles of modules ------------------------------------------------------------------------------------


@program
def copying_modules(T, nn):
    shared = nn.Linear(2, 2)
    net = nn.Sequential(shared, nn.BatchNorm1d(2), shared)
    net[0].weight.tag = 1
    c = copy.deepcopy(net)
    return [
        c, c[0] is c[2], c[0] is not net[0], bool((c[0].weight == net[0].weight).all()), c[0].weight is net[0].weight,
        pickle.loads(pickle.dumps(net)), copy.copy(net)[0] is net[0], c[0].weight.requires_grad,
    ]  # fmt: skip


@program
def copying_hooks(T, nn):
    net = nn.Linear(1, 1)
    seen = []
    net.register_load_state_dict_pre_hook(lambda m, *rest: seen.append(m))
    c = copy.deepcopy(net)
    c.load_state_dict(c.state_dict())
    return len(seen), seen[0] is c


@program
def copying_recurrent_modules(T, nn):
    net = nn.LSTM(2, 3)
    c = pickle.loads(pickle.dumps(net))
    d = copy.deepcopy(net)
    x = T.ones(2, 1, 2)
    with T.no_grad():
        d.weight_ih_l0.zero_()
    return c(x)[0], d(x)[0], d._flat_weights[0] is d.weight_ih_l0, net.double()(x.double())[0].dtype


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
        text, list(state), [type(v).__name__ for v in state.values()], repr(net), [type(m).__name__ for m in net],
        loaded[0].weight.shape, type(loaded[0]).__name__, loaded(T.ones(2, 4)).shape,
        error_of(lambda: nn.LazyConv2d(3, 2)(T.ones(4))), nn.LazyLinear(2).double().weight.dtype,
        copy.deepcopy(nn.LazyLinear(2)), len(net[0]._forward_pre_hooks),
    ]  # fmt: skip


# --- errors of layers -------------------------------------------------------------------------------------------------


@program
def layer_errors(T, nn):
    return [error_of(call) for call in (
        lambda: nn.Conv2d(3, 4, 2, groups=2), lambda: nn.Conv2d(4, 3, 2, groups=2),
        lambda: nn.Conv2d(4, 4, 2, groups=0),
        lambda: nn.Conv2d(3, 4, 2, stride=2, padding="same"),
        lambda: nn.ConvTranspose2d(3, 4, 2, padding_mode="reflect"),
        lambda: nn.ConvTranspose2d(1, 1, 2)(T.ones(1, 1, 2, 2), output_size=(9, 9)),
        lambda: nn.ConvTranspose2d(1, 1, 2)(T.ones(1, 1, 2, 2), output_size=(9,)),
        lambda: nn.Bilinear(0, 1, 1), lambda: nn.Dropout(1.5), lambda: nn.BatchNorm1d(2)(T.ones(2)),
        lambda: nn.BatchNorm2d(2)(T.ones(2, 2)), lambda: nn.InstanceNorm2d(2, affine=True)(T.ones(2, 3, 4, 4)),
        lambda: nn.InstanceNorm1d(2)(T.ones(2)), lambda: nn.GroupNorm(3, 4), lambda: nn.CircularPad2d(1)(T.ones(2)),
        lambda: nn.Unflatten(0, 3), lambda: nn.Unflatten(0, (2.0,)), lambda: nn.Embedding(3, 2, padding_idx=5),
        lambda: nn.Embedding(3, 2, _weight=T.ones(2, 2)), lambda: nn.Embedding.from_pretrained(T.ones(2)),
        lambda: nn.Hardtanh(1, 0), lambda: nn.Softmax2d()(T.ones(2)), lambda: nn.FractionalMaxPool2d(2),
        lambda: nn.FractionalMaxPool2d(2, output_size=2, output_ratio=0.5),
        lambda: nn.FractionalMaxPool2d(2, output_ratio=2.0),
        lambda: nn.LSTM(0, 3), lambda: nn.LSTM(3, 0), lambda: nn.LSTM(3, 3, num_layers=0),
        lambda: nn.LSTM(3, 3, proj_size=3),
        lambda: nn.LSTM(3, 3, dropout=2), lambda: nn.LSTM("a", 3), lambda: nn.LSTM(3, 3, bias=1),
        lambda: nn.GRU(3, 3, proj_size=1),
        lambda: nn.RNN(3, 3, nonlinearity="x"), lambda: nn.LSTM(3, 3)(T.ones(2, 2, 4)),
        lambda: nn.LSTM(3, 3)(T.ones(2)),
        lambda: nn.LSTM(3, 3)(T.ones(2, 2, 3), (T.ones(1, 2, 3), T.ones(1, 2, 4))),
        lambda: nn.LSTM(3, 3)(T.ones(2, 2, 3), (T.ones(2, 3), T.ones(2, 3))),
        lambda: nn.GRU(3, 3)(T.ones(2, 2, 3), T.ones(1, 1, 3)),
        lambda: nn.GRU(3, 3)(T.ones(2, 3), T.ones(1, 1, 3)), lambda: nn.GRU(3, 3)(T.ones(2, 2, 3).double()),
        lambda: nn.LSTMCell(3, 3)(T.ones(1, 1, 3)), lambda: nn.GRUCell(3, 3)(T.ones(2, 4)),
        lambda: nn.GRUCell(3, 3)(T.ones(2, 3), T.ones(1, 3)), lambda: nn.MultiheadAttention(5, 2),
        lambda: nn.MultiheadAttention(0, 2),
        lambda: nn.Transformer(8, 2)(T.ones(2, 2, 8), T.ones(2, 3, 8)),
        lambda: nn.Transformer(8, 2)(T.ones(2, 2, 7), T.ones(2, 2, 8)),
        lambda: nn.TransformerEncoderLayer(8, 2, activation="tanh"), lambda: nn.MultiMarginLoss(p=3),
        lambda: nn.HuberLoss(delta="a"),
        lambda: nn.TripletMarginLoss(margin=0), lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 20, []),
        lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 5]), lambda: nn.MSELoss(size_average=False).reduction,
        lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5])(T.ones(2, 8), T.tensor([3, 30])),
    )]  # fmt: skip


@program
def old_loss_options(T, nn):
    return [nn.MSELoss(size_average=a, reduce=b).reduction for a in (None, True, False) for b in (None, True, False)]


# --- attention and transformers ---------------------------------------------------------------------------------------


@program
def attention_masks(T, nn):
    net = nn.MultiheadAttention(8, 2, batch_first=True)
    x = T.arange(48.0).reshape(2, 3, 8).sin()
    padding = T.tensor([[False, False, True], [False, False, False]])
    causal = nn.Transformer.generate_square_subsequent_mask(3)
    hidden = causal != 0
    results = []
    for training in (True, False):
        net.train(training)
        for grad in (True, False):
            with T.set_grad_enabled(grad):
                results += [
                    net(x, x, x), net(x, x, x, need_weights=False)[0], net(x, x, x, key_padding_mask=padding),
                    net(x, x, x, attn_mask=causal), net(x, x, x, attn_mask=hidden, average_attn_weights=False),
                    net(x, x, x, attn_mask=hidden, key_padding_mask=padding),
                    net(x, x, x, attn_mask=causal, is_causal=True, need_weights=False)[0],
                ]  # fmt: skip
    return causal, results


@program
def padded_encoders(T, nn):
    warnings.simplefilter("ignore")  # torch: nested tensors are a prototype
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), 2, nn.LayerNorm(8)).eval()
    x = T.arange(48.0).reshape(2, 3, 8).sin()
    padding = T.tensor([[False, False, True], [False, False, False]])
    other = T.tensor([[True, False, False], [False, False, False]])
    results = [net(x, src_key_padding_mask=padding), net(x, src_key_padding_mask=other)]
    with T.no_grad():
        results += [net(x, src_key_padding_mask=padding), net(x, src_key_padding_mask=other), net(x)]
        results.append(net.layers[0](x, src_key_padding_mask=padding))
    return results


@program
def causal_decoders(T, nn):
    net = nn.Transformer(8, 2, 1, 1, 16, 0.0, batch_first=True)
    x, y = T.arange(48.0).reshape(2, 3, 8).sin(), T.arange(32.0).reshape(2, 2, 8).cos()
    mask = net.generate_square_subsequent_mask(2)
    return [
        net(x, y, tgt_mask=mask), net(x, y, tgt_mask=mask, tgt_is_causal=True),
        net(x, y, tgt_mask=mask != 0, src_mask=T.zeros(3, 3), memory_mask=T.zeros(2, 3)),
    ]  # fmt: skip


# --- nn.utils ---------------------------------------------------------------------------------------------------------


def with_gradients(T, nn):
    net = nn.Linear(3, 2)
    (net(T.arange(6.0).reshape(2, 3)) ** 2).sum().backward()
    return net


@program
def clipping(T, nn):
    results = []
    for options in ({}, {"norm_type": 1}, {"norm_type": float("inf")}, {"foreach": False}, {"max_norm": 1e6}):
        net = with_gradients(T, nn)
        total = nn.utils.clip_grad_norm_(net.parameters(), **{"max_norm": 1.5, **options})
        results.append((total, [p.grad for p in net.parameters()]))
    for foreach in (None, False):
        net = with_gradients(T, nn)
        results.append(
            (nn.utils.clip_grad_value_(net.parameters(), 0.7, foreach=foreach), [p.grad for p in net.parameters()])
        )
    net = with_gradients(T, nn)
    results.append(nn.utils.get_total_norm([p.grad for p in net.parameters()]))
    results.append(nn.utils.clip_grads_with_norm_(net.weight, 1.0, T.tensor(2.0)))
    results.append(nn.utils.clip_grad_norm_([], 1.0))
    results.append(nn.utils.clip_grad_norm_(iter(()), 1.0))
    results.append(nn.utils.clip_grad_norm_((p for p in ()), 1.0))
    net.weight.grad[0, 0] = float("nan")
    results.append(error_of(lambda: nn.utils.clip_grad_norm_(net.parameters(), 1.0, error_if_nonfinite=True)))
    return results


@program
def vectors(T, nn):
    net = nn.Linear(3, 2)
    v = nn.utils.parameters_to_vector(net.parameters())
    nn.utils.vector_to_parameters(T.arange(8.0), net.parameters())
    return v, net.weight, net.bias, error_of(lambda: nn.utils.vector_to_parameters([1], net.parameters()))


@program
def packing(T, nn):
    rnn = nn.utils.rnn
    x = T.arange(24.0).reshape(4, 3, 2).requires_grad_()
    p = rnn.pack_padded_sequence(x, [4, 2, 1])
    q = rnn.pack_padded_sequence(x.transpose(0, 1), T.tensor([1, 4, 2]), batch_first=True, enforce_sorted=False)
    (q.data * T.arange(14.0).reshape(7, 2)).sum().backward()
    back, lengths = rnn.pad_packed_sequence(q, batch_first=True, padding_value=-1.0, total_length=5)
    s = [T.ones(2), T.zeros(3), T.ones(1)]
    packed = rnn.pack_sequence(s, enforce_sorted=False)
    return [
        list(p), list(q), x.grad, back, lengths, rnn.pad_packed_sequence(p), rnn.pad_sequence(s),
        rnn.pad_sequence(s, batch_first=True, padding_value=7.0, padding_side="left"), list(packed),
        rnn.unpack_sequence(packed), rnn.unpad_sequence(rnn.pad_sequence(s), T.tensor([2, 3, 1])),
        rnn.invert_permutation(T.tensor([2, 0, 1])), type(q.double()).__name__, q.double().data.dtype,
        error_of(lambda: rnn.pack_padded_sequence(x, [1, 2, 3])), error_of(lambda: rnn.pack_padded_sequence(x, [1, 0, 0])),
        error_of(lambda: rnn.pad_sequence(4)), error_of(lambda: rnn.pad_packed_sequence(p, total_length=2)),
        error_of(lambda: rnn.pad_sequence(s, padding_side="up"))[0], p.is_cuda,
    ]  # fmt: skip


@program
def recurrent_on_packed(T, nn):
    results = []
    for make in (nn.RNN, nn.LSTM, nn.GRU):
        net = make(3, 4, num_layers=2, bidirectional=True)
        x = T.arange(60.0).reshape(5, 4, 3).sin().requires_grad_()
        p = nn.utils.rnn.pack_padded_sequence(x, [3, 5, 1, 2], enforce_sorted=False)
        out, hidden = net(p)
        padded, _ = nn.utils.rnn.pad_packed_sequence(out)
        last = hidden[0] + hidden[1] if isinstance(hidden, tuple) else hidden
        (padded.sum() + (last * 2).sum()).backward()
        results += [padded, hidden, x.grad, [w.grad for w in net.parameters()]]
        given = T.ones(4, 4, 4)
        results.append(net(p, (given, given) if make is nn.LSTM else given)[1])
    return results


@program
def recurrent_weights(T, nn):
    net = nn.GRU(2, 3, num_layers=2, bidirectional=True)
    net.weight_ih_l0 = nn.Parameter(T.zeros(9, 2))
    net.flatten_parameters()
    return net(T.ones(2, 1, 2))[0], [[w.shape for w in g] for g in net.all_weights], net._flat_weights_names


@program
def old_weight_norm(T, nn):
    net = nn.utils.weight_norm(nn.Linear(3, 2))
    net(T.ones(1, 3)).sum().backward()
    first = list(net.state_dict()), net.weight_g, net.weight_g.grad, net.weight_v.grad, net(T.ones(1, 3))
    errors = error_of(lambda: nn.utils.weight_norm(net)), error_of(lambda: nn.utils.remove_weight_norm(nn.Linear(1, 1)))
    nn.utils.remove_weight_norm(net)
    return first, errors, list(net.state_dict()), nn.utils.weight_norm(nn.Conv2d(2, 3, 2), dim=None).weight_g.shape


@program
def old_spectral_norm(T, nn):
    net = nn.utils.spectral_norm(nn.Linear(3, 4), n_power_iterations=2)
    net(T.ones(1, 3)).sum().backward()
    first = (
        list(net.state_dict()),
        net.weight_u,
        net.weight_v,
        net.weight,
        net.weight_orig.grad,
        net.state_dict()._metadata,
    )
    net.load_state_dict(net.state_dict())
    eval_ = net.eval()(T.ones(1, 3))
    errors = (
        error_of(lambda: nn.utils.spectral_norm(net)),
        error_of(lambda: nn.utils.spectral_norm(nn.Linear(1, 1), n_power_iterations=0)),
    )
    nn.utils.remove_spectral_norm(net)
    conv = nn.utils.spectral_norm(nn.ConvTranspose2d(2, 3, 2))
    return first, eval_, errors, list(net.state_dict()), net.weight, conv.weight_u.shape, conv(T.ones(1, 2, 2, 2))


@program
def parametrizations(T, nn):
    P = nn.utils.parametrize

    class Symmetric(nn.Module):
        def forward(self, X):
            return X.triu() + X.triu(1).transpose(-1, -2)

        def right_inverse(self, A):
            return A.triu()

    class Double(nn.Module):
        def forward(self, X):
            return X * 2

    net = nn.Linear(3, 3)
    P.register_parametrization(net, "weight", Symmetric())
    first = repr(net), list(net.state_dict()), net.weight, type(net).__name__, P.is_parametrized(net)
    net.weight = T.arange(9.0).reshape(3, 3)
    second = net.weight, net.parametrizations.weight.original, net(T.ones(1, 3))
    P.register_parametrization(net, "weight", Double())
    net.weight.sum().backward()
    third = net.weight, net.parametrizations["weight"].original.grad, [n for n, _ in net.named_parameters()]
    with P.cached():
        same = net.weight is net.weight
    c = copy.deepcopy(net)
    errors = [
        error_of(lambda: pickle.dumps(net))[0], error_of(lambda: setattr(net, "weight", T.ones(3, 3))),
        error_of(lambda: P.register_parametrization(net, "nothing", Double()))[0],
        error_of(lambda: P.remove_parametrizations(net, "bias"))[0], P.type_before_parametrizations(net).__name__,
    ]  # fmt: skip
    P.remove_parametrizations(net, "weight")
    P.remove_parametrizations(c, "weight", leave_parametrized=False)
    return first, second, third, same, errors, net.weight, type(net).__name__, c.weight, list(net.state_dict())


@program
def wrong_parametrizations(T, nn):
    P = nn.utils.parametrize

    class Shrink(nn.Module):
        def forward(self, X):
            return X[0]

    class Cast(nn.Module):
        def forward(self, X):
            return X.double()

    class Text(nn.Module):
        def forward(self, X):
            return "text"

    return [
        error_of(lambda k=k: P.register_parametrization(nn.Linear(2, 2), "weight", k())) for k in (Shrink, Cast, Text)
    ]


@program
def new_weight_norm(T, nn):
    net = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    net(T.ones(1, 3)).sum().backward()
    state = list(net.state_dict())
    net.load_state_dict({"bias": T.ones(2), "weight_g": T.ones(2, 1), "weight_v": T.ones(2, 3)})
    return state, net.weight, net.parametrizations.weight.original0.grad, repr(net)


@program
def new_spectral_norm(T, nn):
    net = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4), n_power_iterations=2)
    net(T.ones(1, 3)).sum().backward()
    conv = nn.utils.parametrizations.spectral_norm(nn.ConvTranspose1d(2, 3, 2))
    return (
        list(net.state_dict()),
        net.weight,
        net.parametrizations.weight.original.grad,
        net.eval()(T.ones(1, 3)),
        conv.weight,
    )


@program
def orthogonal(T, nn):
    results = []
    for map_ in ("matrix_exp", "cayley", "householder"):
        for shape in ((3, 3), (4, 2), (2, 4)):
            net = nn.Linear(shape[1], shape[0])
            nn.utils.parametrizations.orthogonal(net, orthogonal_map=map_)
            w = net.weight
            gram = w @ w.mT if shape[0] <= shape[1] else w.mT @ w
            results.append(gram)
            if shape[0] == shape[1]:
                results.append(w)
                w.sin().sum().backward()
                results.append(net.parametrizations.weight.original.grad)
    return results


@program
def pruning(T, nn):
    prune = nn.utils.prune
    net = prune.l1_unstructured(nn.Linear(3, 2), "weight", 2)
    first = list(net.state_dict()), net.weight, prune.is_pruned(net), net(T.ones(1, 3))
    prune.random_unstructured(net, "weight", 0.5)
    second = net.weight_mask, net.weight
    prune.remove(net, "weight")
    conv = prune.ln_structured(nn.Conv2d(3, 4, 2), "weight", 0.5, 2, 0)
    rand = prune.random_structured(nn.Linear(4, 3), "weight", 1, dim=1)
    a, b = nn.Linear(3, 2), nn.Linear(2, 3)
    prune.global_unstructured([(a, "weight"), (b, "weight")], prune.L1Unstructured, amount=5)
    mask = prune.custom_from_mask(nn.Linear(2, 1), "bias", T.zeros(1))
    return [
        first, second, net.weight, list(net.state_dict()), conv.weight_mask, rand.weight_mask, a.weight_mask, b.weight_mask,
        mask.bias, prune.identity(nn.Linear(1, 1), "weight").weight_mask,
        error_of(lambda: prune.remove(nn.ReLU(), "weight"))[0], error_of(lambda: prune.l1_unstructured(a, "bias", 1.5)),
        error_of(lambda: prune.l1_unstructured(a, "bias", 9)), error_of(lambda: prune.random_structured(a, "bias", 1, 0)),
    ]  # fmt: skip


@program
def fusing(T, nn):
    conv, bn, linear = nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3), nn.Linear(2, 3)
    with T.no_grad():
        bn.running_mean.copy_(T.arange(3.0))
        bn.running_var.copy_(T.arange(1.0, 4.0))
        bn.weight.copy_(T.arange(2.0, 5.0))
    bn1 = nn.BatchNorm1d(3)
    bn1.load_state_dict(bn.state_dict())
    error = error_of(lambda: nn.utils.fuse_conv_bn_eval(conv, bn))
    fused = nn.utils.fuse_conv_bn_eval(conv.eval(), bn.eval())
    line = nn.utils.fuse_linear_bn_eval(linear.eval(), bn1.eval())
    x = T.arange(18.0).reshape(1, 2, 3, 3)
    return error, fused.weight, fused.bias, fused(x), bn(conv(x)), line.weight, line.bias


@program
def skipping_initialisation(T, nn):
    net = nn.utils.skip_init(nn.Linear, 2, 3, bias=False)
    return net, net.weight.shape, net.weight.device.type, error_of(lambda: nn.utils.skip_init(nn.ReLU))


@program
def functional_calls(T, nn):
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    call = nn.utils.stateless.functional_call
    given = {"0.weight": T.ones(2, 2, requires_grad=True), "1.running_mean": T.zeros(2)}
    out = call(net, given, (T.arange(4.0).reshape(2, 2),))
    out.sin().sum().backward()
    tied = nn.Module()
    tied.a = nn.Linear(1, 1)
    tied.b = tied.a
    tied.forward = lambda x: tied.a(x) + tied.b(x)
    return [
        out, given["0.weight"].grad, given["1.running_mean"], net[1].running_mean, net[0].weight,
        call(tied, {"a.weight": T.ones(1, 1), "a.bias": T.zeros(1)}, T.ones(1, 1)),
        error_of(lambda: call(net, {"0.weight": T.ones(2, 2)}, T.ones(2, 2), strict=True)),
        call(nn.LSTM(1, 1), {"weight_ih_l0": T.zeros(4, 1)}, T.ones(1, 1, 1))[0],
    ]  # fmt: skip


@program
def initialisers(T, nn):
    init = nn.init
    results = [init.calculate_gain(n) for n in ("linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu", "selu")]
    results += [
        init.calculate_gain("leaky_relu", 0.2),
        error_of(lambda: init.calculate_gain("x")),
        error_of(lambda: init.calculate_gain("leaky_relu", "a")),
    ]
    calls = (
        lambda w: init.uniform_(w, -1, 2), lambda w: init.normal_(w, 1, 0.5), lambda w: init.trunc_normal_(w, std=0.5),
        lambda w: init.trunc_normal_(w, 0, 1, 2, 3), lambda w: init.trunc_normal_(w, 0, 1, -0.1, 0.1),
        lambda w: init.constant_(w, 0.3),
        init.ones_, init.zeros_, init.eye_, init.xavier_uniform_, lambda w: init.xavier_normal_(w, 2.0), init.kaiming_uniform_,
        lambda w: init.kaiming_normal_(w, 0.1, "fan_out", "relu"), init.orthogonal_, lambda w: init.orthogonal_(w, 2),
        lambda w: init.sparse_(w, 0.5),
    )  # fmt: skip
    results += [call(T.empty(4, 3)) for call in calls]
    results += [
        init.orthogonal_(T.empty(2, 5)),
        init.dirac_(T.empty(4, 2, 3)),
        init.dirac_(T.empty(4, 2, 3, 3), groups=2),
    ]
    results += [
        init.xavier_uniform_(nn.Parameter(T.empty(2, 3, 2))),
        init.kaiming_uniform_(T.empty(0, 3)),
        init.uniform(T.empty(2)),
    ]
    results += [
        error_of(lambda: init.xavier_uniform_(T.empty(3))),
        error_of(lambda: init.eye_(T.empty(3))),
        error_of(lambda: init.dirac_(T.empty(3))),
    ]
    generator = T.Generator().manual_seed(3)
    results += [
        init.uniform_(T.empty(3), generator=generator),
        init.kaiming_normal_(T.empty(3, 2), generator=generator),
    ]
    return results


@program
def warnings_of_layers(T, nn):
    nn.LSTM(2, 2, dropout=0.5)
    return None


@program
def adaptive_softmax(T, nn):
    net = nn.AdaptiveLogSoftmaxWithLoss(4, 10, [3, 6], div_value=2.0)
    x = T.arange(24.0).reshape(6, 4).sin()
    out = net(x[0], T.tensor(7))
    return net.log_prob(x), net.predict(x), out.output, out.loss, net


@program
def spectral_state(T, nn):
    net = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2))))
    return net, net(T.arange(4.0).reshape(2, 2)), list(net.state_dict())


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_same_outcome(function):
    expected, got = outcome(function, torch), outcome(function, mindtorch_v2)
    same(got, expected, "result")
