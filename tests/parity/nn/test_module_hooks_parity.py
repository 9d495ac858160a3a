"""Hooks of modules beside torch: the same programs, the same calls in the same order."""

import pytest

from side_by_side import Programs, compare, error_of, named

program = Programs()


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
        error_of(of(lambda m, gi, go: (None, None))),
        error_of(of(lambda m, go: (None, None), pre=True)),
        error_of(lambda: mixed.register_backward_hook(lambda *a: None)),
        error_of(lambda: other.register_full_backward_hook(lambda *a: None)),
    ]


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


@pytest.mark.parametrize("function", program, ids=named)
def test_same_outcome(function):
    compare(function)
