"""Autograd beside torch: random programs, passes that reach some inputs only, and what nested and repeated passes do."""

import contextlib
import warnings

import numpy as np
import pytest
import torch

import mindtorch_v2
from fuzz_autograd import differs
from side_by_side import Programs, compare, named

# Programs that torch 2.13 itself answers oddly: after a function refused to change a view of a leaf, torch finds the view's
# place in the graph anew, and hooks of the old node are not called.
ODD = {1018}


@pytest.mark.parametrize("first", range(0, 240, 40))
def test_random_programs_agree(first):
    for seed in range(first, first + 40):
        assert seed in ODD or differs(seed) is None, (
            f"seed {seed}: python tests/parity/fuzz_autograd.py {seed} {seed + 1}"
        )


programs = Programs()


def attempt(call):
    try:
        return call()
    except Exception as error:
        return type(error).__name__, str(error)[:60]


ONCE = {
    "add": lambda T, x: x + 1, "mul": lambda T, x: x * 2, "square": lambda T, x: x * x, "sub": lambda T, x: 2 - x,
    "index": lambda T, x: x[1:], "sum": lambda T, x: x.sum(), "mean": lambda T, x: x.mean(), "cat": lambda T, x: T.cat([x, x]),
    "exp": lambda T, x: x.exp(), "clone": lambda T, x: x.clone(), "relu": lambda T, x: x.relu(), "flip": lambda T, x: x.flip(0),
    "set": lambda T, x: set_first(x.clone()), "masked_fill": lambda T, x: x.masked_fill(x > 0, 1.0),
    "add_": lambda T, x: x.clone().add_(2), "max": lambda T, x: x.max(), "to": lambda T, x: x.double(),
}  # fmt: skip


def set_first(x):
    x[0] = 3.0
    return x


@programs
def a_second_pass_fails_only_where_tensors_were_saved(T, nn):
    def twice(make):
        x = T.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = make(T, x)
        y.backward(T.ones_like(y))
        return attempt(lambda: y.backward(T.ones_like(y)) or x.grad)

    return {name: twice(make) for name, make in ONCE.items()}


def counting(T, log, save):
    class Counted(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            if save:
                ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            log.append("ran")
            if save:
                log.append(len(ctx.saved_tensors))
            return g * 2

    return Counted


@programs
def only_what_leads_to_the_inputs_runs_and_is_freed(T, nn):
    log = []
    x, w = (T.ones(3, requires_grad=True) for _ in range(2))
    y = counting(T, log, True).apply(x)
    unused = T.autograd.grad(y.sum(), [w], allow_unused=True)
    both = (y * w).sum()
    by_w = T.autograd.grad(both, [w])
    first = list(log)
    y.sum().backward()
    return unused, by_w, first, log, x.grad, attempt(lambda: y.sum().backward())


@programs
def a_function_that_saved_nothing_runs_again(T, nn):
    log = []
    x = T.ones(3, requires_grad=True)
    y = counting(T, log, False).apply(x).sum()
    y.backward()
    y.backward()
    return log, x.grad


@programs
def inputs_of_backward_keep_their_gradients(T, nn):
    x = T.ones(3, requires_grad=True)
    y = x + 1
    seen = []
    y.grad_fn.register_hook(lambda i, o: seen.append([g is None for g in i]))
    (y * y).sum().backward(inputs=[y])
    z = x * 2
    failed = attempt(lambda: T.ones(2).sum().backward(inputs=[z]))
    return y.grad, y.retains_grad, x.grad, seen, failed[0], z.retains_grad


@programs
def a_captured_gradient_has_not_gone_through_the_hooks_of_its_node(T, nn):
    x = T.ones(3, requires_grad=True)
    y = x * 2
    y.grad_fn.register_prehook(lambda g: (g[0] * 3,))
    return T.autograd.grad((y * 2).sum(), [y], retain_graph=True), T.autograd.grad((y * 2).sum(), [y, x])


@programs
def a_kept_gradient_goes_along_with_changes_in_place(T, nn):
    def kept(change, of_view):
        x = T.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = x * 2
        v = y[:2]
        t = v if of_view else y
        t.retain_grad()
        change(y, v)
        (t * 3).sum().backward()
        return t.grad, t.retains_grad, x.grad

    changes = (lambda y, v: y.mul_(2), lambda y, v: v.mul_(2), lambda y, v: y.add_(1).mul_(5))
    return [kept(change, of_view) for change in changes for of_view in (False, True)]


@programs
def a_leaf_that_requires_grad_no_more_keeps_what_it_has(T, nn):
    def left(stop):
        leaf = T.ones(2, requires_grad=True)
        leaf.grad = T.ones(2)
        seen = []
        leaf.register_hook(lambda g: seen.append(g))
        loss = (leaf * 2).sum()
        stop(leaf)
        loss.backward()
        before = leaf.grad.clone()
        leaf.requires_grad_()
        (leaf * 3).sum().backward()
        return before, leaf.grad, seen

    return left(lambda leaf: leaf.requires_grad_(False)), left(lambda leaf: leaf.detach_())


@programs
def views_made_in_no_grad_mode(T, nn):
    w = T.ones(3, requires_grad=True)
    with T.no_grad():
        v = w[:2]
        u = v[:1]
    (u * 2).sum().backward()
    found = [v.requires_grad, v.is_leaf, v.grad_fn, u.grad, v.grad, w.grad, attempt(lambda: v.add_(1))]
    with T.no_grad():
        w.add_(1)
        v.add_(1)
        inside = v * 2
    return found, inside, attempt(lambda: v * 2), attempt(lambda: v.grad_fn)


@programs
def gradients_are_set_by_their_other_name(T, nn):
    p = nn.Parameter(T.ones(3))
    p._grad = T.ones(3) * 2
    kept = p.grad.clone(), p._grad.clone()
    (p * 1).sum().backward()
    after = p.grad.clone()
    p._grad = None
    return kept, after, p.grad, attempt(lambda: setattr(p, "_grad", T.ones(2))), attempt(lambda: setattr(p, "_grad", 3))


@programs
def numbers_that_require_grad_are_refused(T, nn):
    x, a = T.ones(3), T.tensor(2.0, requires_grad=True)
    return (
        attempt(lambda: x.add(x, alpha=a)), attempt(lambda: x.addcmul(x, x, value=a)), x.add(x, alpha=a.detach()),
        attempt(lambda: T.clamp(x, a.detach())),
    )  # fmt: skip


@programs
def nothing_of_another_shape_is_copied(T, nn):
    return attempt(lambda: T.ones(2, 3).copy_(T.ones(1, 2, 3))), T.ones(2, 3).copy_(T.arange(3.0))


def reenter(T, depth):
    class Again(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, left):
            ctx.left = left
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            if not ctx.left:
                return g * 2, None
            with T.enable_grad():
                inner = x.detach().requires_grad_()
                Again.apply(inner, ctx.left - 1).sum().backward()
            return inner.grad + g, None

    x = T.ones(2, requires_grad=True)
    Again.apply(x, depth).sum().backward()
    return x.grad


@programs
def passes_nest_two_thousand_deep(T, nn):
    return reenter(T, 2000)


def through_checkpoint(T, nn, reentrant, forward_context, backward_context):
    x = T.arange(8.0).reshape(2, 4).div(7).requires_grad_()
    w = T.arange(12.0).reshape(4, 3).div(10).requires_grad_()
    kinds = []

    def block(x, w):
        h = x @ w
        kinds.append(str(h.dtype))
        return nn.functional.dropout(h.float(), 0.5).sin()

    with forward_context:
        y = T.utils.checkpoint.checkpoint(block, x, w, use_reentrant=reentrant)
    with backward_context:
        y.sum().backward()
    return x.grad, w.grad, kinds, T.rand(1)


@programs
def a_checkpoint_repeats_forward_under_its_own_autocast(T, nn):
    def both(on):
        return T.autocast("cpu") if on else contextlib.nullcontext()

    return [
        through_checkpoint(T, nn, reentrant, both(forward), both(backward))
        for reentrant in (True, False) for forward in (True, False) for backward in (True, False)
    ]  # fmt: skip


@programs
def nested_checkpoints_under_autocast(T, nn):
    def run(reentrant):
        x, w, calls = T.ones(2, 4, requires_grad=True), T.ones(4, 3, requires_grad=True), []
        again = T.utils.checkpoint.checkpoint

        def inner(h):
            calls.append("inner")
            return h.exp().sin()

        def outer(x, w):
            calls.append("outer")
            h = x @ w / 4
            return again(inner, h.cos(), use_reentrant=reentrant) * h

        with T.autocast("cpu"):
            y = again(outer, x, w, use_reentrant=reentrant)
        y.float().sum().backward()
        return x.grad, w.grad, calls

    return run(True), run(False)


@programs
def a_place_that_everything_is_hidden_from(T, nn):
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    x = T.arange(64.0).reshape(2, 4, 8).mul(0.73).cos()
    with T.no_grad():
        for module in (layer, attention):
            for i, p in enumerate(module.parameters()):
                p.copy_(T.arange(p.numel()).reshape(p.shape).mul(0.37).add(i).sin() / 2)
    padding = T.tensor([[False, False, True, True], [True] * 4])
    later = T.ones(4, 4).triu(1).bool()
    rows = later.clone()
    rows[2] = True
    half = T.full((4, 4), 0.5).triu(1)
    found = []
    for training in (True, False):
        layer.train(training)
        attention.train(training)
        for masks in ({}, {"src_key_padding_mask": padding}, {"src_mask": rows}, {"src_mask": half},
                      {"src_mask": later, "src_key_padding_mask": padding}):  # fmt: skip
            found.append(layer(x, **masks))
            with T.no_grad():
                found.append(layer(x, **masks))
                named_masks = {"src_mask": "attn_mask", "src_key_padding_mask": "key_padding_mask"}
                found.append(attention(x, x, x, **{named_masks[k]: v for k, v in masks.items()}))
    return found


def stepped(T, name, options, tensors):
    """Gradients with respect to everything a differentiable step depends on, after three of them."""
    options = dict(options)
    asked = {k: T.tensor(v, requires_grad=True) for k, v in tensors.items() if k != "betas"}
    options.update(asked)
    if "betas" in tensors:
        asked |= {f"beta{i}": T.tensor(v, requires_grad=True) for i, v in enumerate(tensors["betas"])}
        options["betas"] = (asked["beta0"], asked["beta1"])
    start = T.tensor([1.0, -2.0, 3.0], requires_grad=True)
    pull = T.tensor([0.5, 0.25, -1.0], requires_grad=True)
    p = start.clone()
    optimizer = getattr(T.optim, name)([p], differentiable=True, foreach=False, **options)
    for step in range(3):
        p.grad = pull * (step + 1)
        optimizer.step()
    (p * p).sum().backward()
    found = {"p": p.detach(), "start": start.grad, "pull": pull.grad, **{k: v.grad for k, v in asked.items()}}
    return {k: None if v is None else v.mul(1e3).round() for k, v in found.items()}


STEPS = [
    ("SGD", {}, {"lr": 0.1}),
    ("SGD", {"lr": 0.1}, {"weight_decay": 0.2}),
    ("SGD", {"momentum": 0.9, "nesterov": True, "maximize": True}, {"lr": 0.1, "weight_decay": 0.2}),
    ("Adam", {}, {"lr": 0.1}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1}, {"betas": (0.9, 0.99)}),
    ("Adam", {}, {"lr": 0.1, "weight_decay": 0.2, "betas": (0.9, 0.99)}),
    ("AdamW", {}, {"lr": 0.1, "weight_decay": 0.2, "betas": (0.9, 0.99)}),
    ("RAdam", {"weight_decay": 0.1}, {"lr": 0.1}),
    ("RAdam", {"decoupled_weight_decay": True}, {"lr": 0.1, "weight_decay": 0.2}),
]


@programs
def differentiable_steps_reach_their_options(T, nn):
    return [stepped(T, *case) for case in STEPS]


@programs
def options_that_an_update_cannot_reach_are_refused(T, nn):
    cases = [
        ("RMSprop", {"lr": 0.1}),
        ("Adagrad", {"lr": 0.1}),
        ("Adadelta", {"weight_decay": 0.1}),
        ("Adamax", {"lr": 0.1}),
    ]
    return [attempt(lambda case=case: stepped(T, case[0], {}, case[1]))[0] for case in cases]


@pytest.mark.parametrize("program", programs, ids=named)
def test_programs_agree(program):
    compare(program)


LISTED = {
    "cat": lambda T, r: T.cat([r(2), r(2)]), "stack": lambda T, r: T.stack([r(2), r(2)]), "mm": lambda T, r: r(3, 4) @ r(4, 3),
    "bmm": lambda T, r: r(2, 3, 4).bmm(r(2, 4, 3)), "addmm": lambda T, r: T.addmm(r(3, 3), r(3, 4), r(4, 3)),
    "linear": lambda T, r: T.nn.functional.linear(r(2, 3), r(4, 3), r(4)),
    "conv2d": lambda T, r: T.nn.functional.conv2d(r(1, 2, 5, 5), r(3, 2, 2, 2)),
    "prelu": lambda T, r: T.nn.functional.prelu(r(2, 3), r(1)), "prod": lambda T, r: r(3).prod(),
    "attention": lambda T, r: T.nn.functional.scaled_dot_product_attention(r(1, 2, 3, 4), r(1, 2, 3, 4), r(1, 2, 3, 4)),
    "mse_loss": lambda T, r: T.nn.functional.mse_loss(r(3), r(3)), "trace": lambda T, r: r(3, 3).trace(),
    "fft": lambda T, r: T.fft.fft(r(4)), "inverse": lambda T, r: T.linalg.inv(r(3, 3)), "exp": lambda T, r: r(3).exp(),
    "reflect": lambda T, r: T.nn.functional.pad(r(1, 1, 4), (1, 1), mode="reflect"),
    "mm, out": lambda T, r: T.mm(r(2, 2), r(2, 2), out=r(2, 2)), "cat, out": lambda T, r: T.cat([r(2), r(2)], out=r(4)),
}  # fmt: skip


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("name", LISTED)
def test_autocast_leaves_meta_tensors_and_out_alone(name, device):
    def run(T):
        with T.autocast("cpu"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = LISTED[name](T, lambda *s: T.from_numpy(np.eye(s[-1], dtype=np.float32).repeat(
                -(-int(np.prod(s)) // s[-1] ** 2), 0).ravel()[: int(np.prod(s))].reshape(s)).to(device))  # fmt: skip
        return tuple(made.shape), str(made.dtype).split(".")[-1], made.device.type

    assert run(mindtorch_v2) == run(torch)
