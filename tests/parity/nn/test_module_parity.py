"""Registration, traversal, casts, state dicts and copies of modules beside torch: the same programs, the same results."""

import copy
import pickle
from collections import OrderedDict

import pytest

from side_by_side import Programs, compare, error_of, named

program = Programs()


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
        error_of(lambda: m.add_module(5, None)),
        error_of(lambda: m.add_module("weight", nn.ReLU())),
        error_of(lambda: m.add_module("y", 4)),
        error_of(lambda: m.register_module("y", T.ones(1))),
        error_of(lambda: m.register_parameter("z", nn.Parameter(leaf) * 2))[0],
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
        len(list(net.parameters())),
        len(list(net.buffers())),
        len(list(net.modules())),
        len(list(net.children())),
        list(net.state_dict()),
        repr(net),
    ]


@program
def paths(T, nn):
    net = tree(T, nn)
    net.plain = 4
    return [
        net.get_submodule("first.1"),
        net.get_submodule("") is net,
        error_of(lambda: net.get_submodule("first.9")),
        error_of(lambda: net.get_submodule("plain")),
        net.get_parameter("first.0.weight").shape,
        error_of(lambda: net.get_parameter("state")),
        error_of(lambda: net.get_parameter("first.nothing")),
        net.get_buffer("state"),
        error_of(lambda: net.get_buffer("first.0.weight")),
        error_of(lambda: net.get_buffer("plain")),
    ]


@program
def setting_submodules(T, nn):
    net = tree(T, nn)
    net.plain = 4
    net.set_submodule("first.1", nn.Tanh())
    net.set_submodule("fresh", nn.Tanh())
    return [
        net,
        error_of(lambda: net.set_submodule("", nn.Tanh())),
        error_of(lambda: net.set_submodule("plain", nn.Tanh())),
        error_of(lambda: net.set_submodule("nowhere", nn.Tanh(), strict=True)),
        error_of(lambda: net.set_submodule("x", 3))[0],
    ]


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
        net.weight is weight,
        net.weight.grad is grad,
        net.weight.dtype,
        net.weight.grad.dtype,
        net.running_mean.dtype,
        net.num_batches_tracked.dtype,
        net.half().weight.dtype,
        net.float().weight.dtype,
        net.bfloat16().weight.dtype,
        net.to(T.float64).weight.dtype,
        net.to("cpu").weight.dtype,
        net.to(T.ones(1)).weight.dtype,
        net.to(device="cpu", dtype=T.float64).weight.dtype,
        net.type(T.float32).num_batches_tracked.dtype,
        error_of(lambda: net.to(T.int32)),
        net.cpu() is net,
    ]


@program
def moving_to_meta(T, nn):
    net = nn.Linear(2, 3)
    weight = net.weight
    net.to("meta")
    made = nn.Linear(2, 3, device="meta")
    back = made.to_empty(device="cpu")
    return [
        net.weight is weight,
        net.weight.is_meta,
        net.weight.__class__.__name__,
        back.weight.is_meta,
        tuple(back.weight.shape),
        error_of(lambda: net.to("cpu")),
        nn.Linear(2, 2, device="meta").weight.device.type,
    ]


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
        list(state),
        [type(v).__name__ for v in state.values()],
        [v.requires_grad for v in state.values()],
        [type(v).__name__ for v in kept.values()],
        list(own),
        list(old),
        state._metadata,
        type(state).__name__,
        state["p.a.weight"].data_ptr() == net.a.weight.data_ptr(),
    ]


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
        error_of(lambda: net.load_state_dict(less)),
        error_of(lambda: net.load_state_dict(more)),
        error_of(lambda: net.load_state_dict(bad)),
        error_of(lambda: net.load_state_dict([1])),
        lenient.missing_keys,
        lenient.unexpected_keys,
        repr(lenient),
    ]


@program
def reading_with_assign(T, nn):
    net = nn.BatchNorm1d(2)
    given = {k: v.clone() + 1 for k, v in net.state_dict().items()}
    net.weight.requires_grad_(False)
    net.load_state_dict(given, assign=True)
    meta = nn.Linear(2, 2, device="meta")
    meta.load_state_dict(nn.Linear(2, 2).state_dict(), assign=True)
    return [
        net.weight.data_ptr() == given["weight"].data_ptr(),
        net.running_mean is given["running_mean"],
        type(net.weight).__name__,
        net.weight.requires_grad,
        net.bias.requires_grad,
        meta.weight.is_meta,
    ]


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


# --- copies and pickles of modules ------------------------------------------------------------------------------------


@program
def copying_modules(T, nn):
    shared = nn.Linear(2, 2)
    net = nn.Sequential(shared, nn.BatchNorm1d(2), shared)
    net[0].weight.tag = 1
    c = copy.deepcopy(net)
    return [
        c,
        c[0] is c[2],
        c[0] is not net[0],
        bool((c[0].weight == net[0].weight).all()),
        c[0].weight is net[0].weight,
        pickle.loads(pickle.dumps(net)),
        copy.copy(net)[0] is net[0],
        c[0].weight.requires_grad,
    ]


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


@pytest.mark.parametrize("function", program, ids=named)
def test_same_outcome(function):
    compare(function)
