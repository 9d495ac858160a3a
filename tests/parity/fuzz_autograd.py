"""Random programs around autograd, run with torch and with mindtorch_v2: values, gradients and what is refused must agree.

A program is a list of steps on a growing list of tensors. Each step is made from a seed alone and does to both packages
the same: ops, views, changes in place, hooks, custom functions, modes, and backward passes of every kind in between. To
look for more than the test does: `python tests/parity/fuzz_autograd.py FIRST LAST`, with src on PYTHONPATH.
"""

import random
import sys
import warnings

import numpy as np
import torch

import mindtorch_v2

SHAPES = ((3,), (2, 3), (2, 2))


def functions(T):
    """Custom functions of one package, by name."""

    class Double(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 + 0 * x

    class Dirty(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(3)

        @staticmethod
        def backward(ctx, g):
            return g * 3

    class Two(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x + 1, x * 2

        @staticmethod
        def backward(ctx, g, h):
            return (0 if g is None else g) + (0 if h is None else 2 * h)

    class Silent(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            second = x.round()
            ctx.mark_non_differentiable(second)
            return x * 1.5, second

        @staticmethod
        def backward(ctx, g, h):
            return g * 1.5

    class Once(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @T.autograd.function.once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    class Through(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return -g

    class Output(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return g * y

    return {f.__name__: f for f in (Double, Dirty, Two, Silent, Once, Through, Output)}


OPS = {
    "sin": lambda T, x, y: x.sin(),
    "exp": lambda T, x, y: x.clamp(-2, 2).exp(),
    "add": lambda T, x, y: x + y.sum(),
    "mul": lambda T, x, y: x * y.mean(),
    "times itself": lambda T, x, y: x * x,
    "neg": lambda T, x, y: -x,
    "clone": lambda T, x, y: x.clone(),
    "sum": lambda T, x, y: x.sum(0, keepdim=True).expand(x.shape) * 1,
    "where": lambda T, x, y: T.where(x > 0, x, x * 2),
    "relu": lambda T, x, y: x.relu(),
    "cat": lambda T, x, y: T.cat([x, x])[: x.shape[0]] * 1,
    "div": lambda T, x, y: x / 3,
    "plus one": lambda T, x, y: x + 1,
    "index": lambda T, x, y: x[T.tensor([0, 1])],
    "detach": lambda T, x, y: x.detach(),
    "max": lambda T, x, y: x.max(0).values,
    "softmax": lambda T, x, y: x.softmax(0),
}
VIEWS = {
    "row": lambda x: x[0],
    "rest": lambda x: x[1:],
    "flat": lambda x: x.view(-1),
    "turned": lambda x: x.transpose(0, -1),
    "split": lambda x: x.split(1)[-1],
    "chunk": lambda x: x.chunk(2)[0],
    "unsqueezed": lambda x: x.unsqueeze(0),
    "all": lambda x: x[...],
    "detached": lambda x: x.detach()[:1],
}
CHANGES = {
    "mul_": lambda x, y: x.mul_(2),
    "add_": lambda x, y: x.add_(y.sum()),
    "sin_": lambda x, y: x.sin_(),
    "zero_": lambda x, y: x.zero_(),
    "copy_": lambda x, y: x.copy_(y.mean().expand(x.shape)),
    "item": lambda x, y: x.__setitem__(0, 0.5),
    "times": lambda x, y: x.mul_(x.detach() + y.mean()),
    "exp_": lambda x, y: x.clamp_(-1, 1).exp_(),
    "add_ one": lambda x, y: x.add_(1),
    "detach_": lambda x, y: x.detach_(),
    "requires_grad_": lambda x, y: x.requires_grad_(),
}
KINDS = ("op",) * 6 + ("view",) * 3 + ("change",) * 3 + (
    "function", "function", "leaf", "no_grad", "inference", "hook", "retain", "backward", "backward", "grad", "grad",
    "node hook", "second", "zero", "set grad",
)  # fmt: skip


def program(seed):
    """The steps of one program."""
    rng = random.Random(seed)
    steps = [("leaf", rng.choice(SHAPES), rng.random()), ("leaf", rng.choice(SHAPES), rng.random())]
    names = sorted(functions(torch))
    for _ in range(rng.randint(4, 14)):
        kind = rng.choice(KINDS)
        table = {"op": OPS, "view": VIEWS, "change": CHANGES, "no_grad": CHANGES, "inference": OPS}.get(kind)
        what = rng.choice(names) if kind == "function" else rng.choice(sorted(table)) if table else None
        steps.append((kind, what if kind != "leaf" else rng.choice(SHAPES), rng.random(), rng.random(), rng.random()))
    return [*steps, ("backward", None, 0.999, 0.1, 0.1)]


class Run:
    """A program under way with one package."""

    def __init__(self, T):
        self.T, self.own = T, functions(T)
        self.tensors, self.leaves, self.log = [], [], []
        self.numbers = np.random.RandomState(0)

    def pick(self, u):
        return self.tensors[int(u * len(self.tensors))]

    def keep(self, made):
        made = made if isinstance(made, tuple) else (made,)
        self.tensors.extend(t for t in made if isinstance(t, self.T.Tensor))

    def step(self, kind, what, *u):
        T = self.T
        if kind == "leaf":
            self.leaves.append(T.tensor(self.numbers.randn(*what).astype(np.float64), requires_grad=u[0] < 0.85))
            self.keep(self.leaves[-1])
            return
        x, y = self.pick(u[0]), self.pick(u[1])
        match kind:
            case "op":
                self.keep(OPS[what](T, x, y))
            case "view":
                self.keep(VIEWS[what](x))
            case "change":
                CHANGES[what](x, y)
            case "no_grad":
                with T.no_grad():
                    CHANGES[what](x, y)
            case "inference":
                with T.inference_mode():
                    self.keep(OPS[what](T, x, y))
            case "function":
                # Where it refuses to change a view, torch forgets the gradients that were kept.
                if what != "Dirty" or not any(t.retains_grad for t in self.tensors):
                    self.keep(self.own[what].apply(x))
            case "hook":
                if x.is_leaf and x._is_view():
                    return  # torch 2.13 crashes
                x.register_hook([lambda g: g * 2, lambda g: None, lambda g: self.seen(g)][int(u[2] * 3)])
            case "node hook":
                x.grad_fn.register_hook(lambda i, o: self.log.append(("hook", [g is None for g in i])))
            case "retain":
                x.retain_grad()
            case "zero":
                x.grad = None
            case "set grad":
                x._grad = T.ones_like(x) * 0.5
            case "backward":
                inputs = None if u[1] < 0.7 else [y]
                scalar(T, x).backward(retain_graph=u[2] < 0.5, inputs=inputs)
            case "grad":
                other = self.pick(u[2])  # of a tensor asked for twice, torch gives one gradient past its hooks
                inputs = [y] if u[1] < 0.5 or other is y else [y, other]
                made = T.autograd.grad(scalar(T, x), inputs, allow_unused=u[2] < 0.8, retain_graph=u[1] < 0.6)
                self.log.append(("grad", [shown(g) for g in made]))
            case "second":
                (first,) = T.autograd.grad(scalar(T, x), [y], create_graph=True)
                self.keep(first)

    def seen(self, g):
        self.log.append(("seen", shown(g)))

    def everything(self):
        """What is left at the end: values, gradients, places in the graph."""
        return [
            (shown(t), attempt(lambda t=t: shown(t.grad)), attempt(lambda t=t: (t.requires_grad, t.is_leaf)))
            for t in self.tensors
        ]


def scalar(T, x):
    return (x * x).sum() if x.dtype.is_floating_point else x.double().sum()


def shown(t):
    return None if t is None else t.detach().numpy().copy()


def attempt(call):
    try:
        return call()
    except Exception as error:
        return type(error).__name__


def run(T, steps):
    """What a program logs, step by step, and leaves."""
    state = Run(T)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, step in enumerate(steps):
            try:
                state.step(*step)
            except Exception as error:
                state.log.append(("error", number, type(error).__name__, str(error)))
        return state.log, state.everything()


def same(a, b):
    """Whether two results agree; of errors their types do."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        if len(a) == 4 and a[0] == "error" and b[0] == "error":
            return a[1:3] == b[1:3]
        return len(a) == len(b) and all(same(p, q) for p, q in zip(a, b))
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and np.allclose(a, b, rtol=1e-6, atol=1e-6, equal_nan=True)
    return type(a) is type(b) and a == b


def differs(seed):
    """What both packages made of a program, where that is not the same."""
    steps = program(seed)
    expected, got = run(torch, steps), run(mindtorch_v2, steps)
    return None if same(expected, got) else (steps, expected, got)


def main(first, last):
    found = 0
    for seed in range(first, last):
        different = differs(seed)
        if different is not None:
            found += 1
            steps, expected, got = different
            print(f"seed {seed}")
            for number, step in enumerate(steps):
                print("  ", number, *step[:2], *(round(u, 3) for u in step[2:]))
            for name, e, g in zip(("log", "left"), expected, got):
                if not same(e, g):
                    pairs = [(p, q) for p, q in zip(e, g) if not same(p, q)] or [(e, g)]
                    print(f"   {name}: torch {pairs[0][0]}\n   {name}: ours  {pairs[0][1]}")
    print(f"{last - first} programs, {found} differ")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
