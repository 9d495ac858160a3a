"""L-BFGS: curvature from the last few steps, optionally with a line search by the strong Wolfe conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autograd.grad_mode import enable_grad, no_grad
from ..ops.shape.join import cat
from .optimizer import Optimizer, check_options, number


def _cubic_minimum(
    x1: float, f1: float, g1: float, x2: float, f2: float, g2: float, bounds: tuple[float, float] | None = None
) -> float:
    """Where the cubic through two points with given slopes is lowest, within bounds."""
    low, high = bounds if bounds is not None else (min(x1, x2), max(x1, x2))
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1**2 - g1 * g2
    if square < 0:
        return (low + high) / 2.0
    d2 = square**0.5
    if x1 <= x2:
        lowest = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else:
        lowest = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(lowest, low), high)


class _Point:
    """One trial of a line search: step length, loss, gradient, slope along the direction."""

    __slots__ = ("f", "g", "slope", "t")

    def __init__(self, t: float, f: float, g: Any, slope: Any) -> None:
        self.t, self.f, self.g, self.slope = t, f, g, slope


class _WolfeSearch:
    """Finds a step that lowers the loss enough and flattens its slope enough."""

    c1, c2 = 1e-4, 0.9

    def __init__(self, evaluate: Callable[[float], tuple[float, Any]], direction: Any, start: _Point, tolerance: float,
                 limit: int) -> None:  # fmt: skip
        self.evaluate, self.direction, self.start, self.tolerance, self.limit = (
            evaluate,
            direction,
            start,
            tolerance,
            limit,
        )
        self.count = 0
        self.rounds = 0

    def _try(self, t: float) -> _Point:
        f, g = self.evaluate(t)
        self.count += 1
        return _Point(t, f, g, g.dot(self.direction))

    def _too_high(self, p: _Point) -> bool:
        return bool(p.f > self.start.f + self.c1 * p.t * float(self.start.slope))

    def _flat(self, p: _Point) -> bool:
        return bool(abs(float(p.slope)) <= -self.c2 * float(self.start.slope))

    def run(self, t: float) -> _Point:
        bracket, done = self._bracket(t)
        return bracket[0] if done else self._zoom(bracket)

    def _bracket(self, t: float) -> tuple[list[_Point], bool]:
        """Grow the step until a good one lies between two trials."""
        previous = self.start
        point = self._try(t)
        while self.rounds < self.limit:
            if self._too_high(point) or (self.rounds > 1 and point.f >= previous.f):
                return [previous, point], False
            if self._flat(point):
                return [point], True
            if point.slope >= 0:
                return [previous, point], False
            low, high = point.t + 0.01 * (point.t - previous.t), point.t * 10
            longer = _cubic_minimum(
                previous.t, previous.f, float(previous.slope), point.t, point.f, float(point.slope), (low, high)
            )
            previous, point = point, self._try(longer)
            self.rounds += 1
        return [self.start, point], False

    def _zoom(self, bracket: list[_Point]) -> _Point:
        """Shrink the bracket around a good step."""
        low, high = (0, 1) if bracket[0].f <= bracket[-1].f else (1, 0)
        scale = float(self.direction.abs().max())
        stuck = False
        while self.rounds < self.limit:
            width = abs(bracket[1].t - bracket[0].t)
            if width * scale < self.tolerance:
                break
            a, b = bracket
            t = _cubic_minimum(a.t, a.f, float(a.slope), b.t, b.f, float(b.slope))
            t, stuck = self._kept_inside(t, bracket, stuck)
            point = self._try(t)
            self.rounds += 1
            if self._too_high(point) or point.f >= bracket[low].f:
                bracket[high] = point
                low, high = (0, 1) if bracket[0].f <= bracket[1].f else (1, 0)
                continue
            done = self._flat(point)
            if not done and point.slope * (bracket[high].t - bracket[low].t) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = point
            if done:
                break
        return bracket[low]

    @staticmethod
    def _kept_inside(t: float, bracket: list[_Point], stuck: bool) -> tuple[float, bool]:
        """A trial not too near the ends of the bracket, twice in a row."""
        largest, smallest = max(p.t for p in bracket), min(p.t for p in bracket)
        margin = 0.1 * (largest - smallest)
        if min(largest - t, t - smallest) >= margin:
            return t, False
        if stuck or t >= largest or t <= smallest:
            nearer_top = abs(t - largest) < abs(t - smallest)
            return (largest - margin if nearer_top else smallest + margin), False
        return t, True


class LBFGS(Optimizer):
    """Limited-memory BFGS; `step` needs a closure that computes the loss and its gradients."""

    def __init__(self, params: Any, lr: Any = 1, max_iter: int = 20, max_eval: int | None = None,
                 tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9, history_size: int = 100,
                 line_search_fn: str | None = None) -> None:  # fmt: skip
        check_options(learning_rate=(lr, lambda v: v >= 0))
        super().__init__(
            params,
            {
                "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
                "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
                "line_search_fn": line_search_fn,
            },
        )  # fmt: skip
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def _gradient(self) -> Any:
        parts = [p.new_zeros(p.numel()) if p.grad is None else p.grad.to_dense().reshape(-1) for p in self._params]
        return cat(parts, 0)

    def _move(self, step: float, direction: Any) -> None:
        offset = 0
        for p in self._params:
            n = p.numel()
            p.add_(direction[offset : offset + n].view_as(p), alpha=step)
            offset += n

    def _at(self, closure: Callable[[], Any], start: list[Any], step: float, direction: Any) -> tuple[float, Any]:
        """Loss and gradient after a step, which is taken back."""
        self._move(step, direction)
        loss = float(closure())
        gradient = self._gradient()
        for p, value in zip(self._params, start, strict=True):
            p.copy_(value)
        return loss, gradient

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Run up to `max_iter` iterations; the loss before the first is returned."""
        with no_grad():
            return self._minimize(enable_grad()(closure))

    def _minimize(self, closure: Callable[[], Any]) -> Any:
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = closure()
        loss = float(first_loss)
        evaluations = 1
        state["func_evals"] += 1
        gradient = self._gradient()
        if gradient.abs().max() <= group["tolerance_grad"]:
            return first_loss
        iterations = 0
        while iterations < group["max_iter"]:
            iterations += 1
            state["n_iter"] += 1
            direction, step = self._direction(state, group, gradient)
            slope = gradient.dot(direction)
            before = state["prev_loss"] = loss
            if slope > -group["tolerance_change"]:
                break
            loss, gradient, step, used, small = self._advance(
                closure, group, loss, gradient, direction, step, slope, iterations
            )
            state["t"] = step
            evaluations += used
            state["func_evals"] += used
            if evaluations >= group["max_eval"] or small:
                break
            if float(direction.mul(step).abs().max()) <= group["tolerance_change"]:
                break
            if abs(loss - before) < group["tolerance_change"]:
                break
        return first_loss

    def _advance(self, closure: Any, group: Any, loss: float, gradient: Any, direction: Any, step: float, slope: Any,
                 iteration: int) -> tuple[float, Any, float, int, bool]:  # fmt: skip
        """One step along the direction: (loss, gradient, step length, evaluations, gradient small enough)."""
        used = 0
        if group["line_search_fn"] is not None:
            if group["line_search_fn"] != "strong_wolfe":
                raise RuntimeError("only 'strong_wolfe' is supported")
            start = [p.clone() for p in self._params]
            search = _WolfeSearch(
                lambda t: self._at(closure, start, t, direction), direction, _Point(0, loss, gradient, slope), 1e-9, 25
            )
            best = search.run(step)
            self._move(best.t, direction)
            loss, gradient, step, used = best.f, best.g, best.t, search.count
        else:
            self._move(step, direction)
            if iteration != group["max_iter"]:
                with enable_grad():
                    loss = float(closure())
                gradient = self._gradient()
                used = 1
        return loss, gradient, step, used, bool(gradient.abs().max() <= group["tolerance_grad"])

    def _direction(self, state: dict[str, Any], group: dict[str, Any], gradient: Any) -> tuple[Any, float]:
        """Where to go, by the curvature seen so far, and how far to try first."""
        rate = number(group["lr"])
        if state["n_iter"] == 1:
            direction = gradient.neg()
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1, al=None)
            step = min(1.0, 1.0 / float(gradient.abs().sum())) * rate
        else:
            self._remember(state, group, gradient)
            direction = self._two_loops(state, gradient)
            step = rate
        state["d"] = direction
        if state.get("prev_flat_grad") is None:
            state["prev_flat_grad"] = gradient.clone()
        else:
            state["prev_flat_grad"].copy_(gradient)
        return direction, step

    def _remember(self, state: dict[str, Any], group: dict[str, Any], gradient: Any) -> None:
        change = gradient.sub(state["prev_flat_grad"])
        moved = state["d"].mul(state["t"])
        curvature = change.dot(moved)
        if curvature > 1e-10:
            if len(state["old_dirs"]) == group["history_size"]:
                for name in ("old_dirs", "old_stps", "ro"):
                    state[name].pop(0)
            state["old_dirs"].append(change)
            state["old_stps"].append(moved)
            state["ro"].append(1.0 / curvature)
            state["H_diag"] = curvature / change.dot(change)

    def _two_loops(self, state: dict[str, Any], gradient: Any) -> Any:
        """The product of the inverse curvature with the gradient, from the remembered steps."""
        changes, moves, ratios = state["old_dirs"], state["old_stps"], state["ro"]
        q = gradient.neg()
        weights: list[Any] = [None] * len(changes)
        for i in range(len(changes) - 1, -1, -1):
            weights[i] = moves[i].dot(q) * ratios[i]
            q.add_(changes[i] * -weights[i])
        r = q.mul(state["H_diag"])
        for i in range(len(changes)):
            r.add_(moves[i] * (weights[i] - changes[i].dot(r) * ratios[i]))
        return r
