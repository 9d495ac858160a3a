"""Records what torch gives for elementwise functions at a few points, with first and second derivatives.

    python tests/parity/record_elementwise.py

writes tests/mindtorch_v2/data/elementwise.json, which the tests without torch compare with.
"""

import json
from pathlib import Path
from typing import Any

import torch

TARGET = Path(__file__).parents[1] / "mindtorch_v2" / "data" / "elementwise.json"

LINE = [-1.5, -0.5, 0.25, 0.75, 2.0]
POSITIVE = [0.1, 0.4, 1.3, 2.7, 5.0]
UNIT = [-0.9, -0.3, 0.1, 0.5, 0.8]
OPEN = [0.05, 0.3, 0.45, 0.6, 0.95]
OTHER = [1.25, -0.75, 0.5, -2.0, 1.5]

# points -> expressions of x (and y, which takes the points of OTHER, or their absolute values where x is positive)
EXPRESSIONS = {
    "LINE": """torch.neg(x) torch.abs(x) torch.sgn(x) torch.square(x) torch.exp(x) torch.exp2(x) torch.expm1(x)
        torch.sin(x) torch.cos(x) torch.tan(x) torch.atan(x) torch.sinh(x) torch.cosh(x) torch.tanh(x) torch.asinh(x)
        torch.ceil(x) torch.floor(x) torch.round(x) torch.trunc(x) torch.frac(x) torch.sigmoid(x) torch.erf(x)
        torch.erfc(x) torch.sinc(x) torch.i0(x) torch.deg2rad(x) torch.rad2deg(x) torch.nan_to_num(x) torch.relu(x)
        torch.celu(x,0.7) torch.selu(x) torch.rrelu(x,0.2,0.4) torch.threshold(x,0.3,-7) torch.hardshrink(x,0.6)
        torch.special.erfcx(x) torch.special.ndtr(x) torch.special.log_ndtr(x) torch.special.i0e(x)
        torch.special.i1(x) torch.special.i1e(x) x+y x-y x*y x/y 3-x 3/x x**2 x**3 x%y x%0.4
        torch.fmod(x,y) torch.maximum(x,y) torch.minimum(x,y) torch.fmax(x,y) torch.fmin(x,y) torch.hypot(x,y)
        torch.copysign(x,y) torch.atan2(x,y) torch.logaddexp(x,y) torch.logaddexp2(x,y) torch.lerp(x,y,0.3)
        torch.lerp(x,y,0.8) torch.addcmul(x,x,y,value=0.5) torch.addcdiv(x,x,y,value=0.5) torch.clamp(x,-1,1)
        torch.clamp(x,min=y) torch.clamp_max(x,0.5) torch.clamp_min(x,y) torch.rsub(x,y,alpha=2) 1.5**x
        torch.div(x,y,rounding_mode='floor') torch.float_power(x,2) torch.add(x,y,alpha=3) torch.sub(x,y,alpha=3)""",
    "POSITIVE": """torch.sqrt(x) torch.rsqrt(x) torch.reciprocal(x) torch.log(x) torch.log2(x) torch.log10(x)
        torch.log1p(x) torch.lgamma(x) torch.digamma(x) torch.polygamma(1,x) torch.polygamma(3,x)
        torch.mvlgamma(x+1,2) torch.acosh(x+1) torch.special.entr(x) torch.xlogy(x,y) torch.special.xlog1py(x,y)
        torch.xlogy(x,3) x**y x**0.5 x**-1.5 torch.special.zeta(y+1,x) torch.igamma(y.detach(),x)""",
    "UNIT": "torch.asin(x) torch.acos(x) torch.atanh(x) torch.erfinv(x)",
    "OPEN": "torch.logit(x) torch.logit(x,0.1) torch.special.ndtri(x)",
    "ACTIVATION": """relu(x) relu6(x) leaky_relu(x,0.2) elu(x,1.3) selu(x) celu(x) gelu(x) gelu(x,approximate='tanh')
        silu(x) mish(x) softplus(x) softplus(x,2,1) hardtanh(x) hardswish(x) hardsigmoid(x) logsigmoid(x)
        softshrink(x) tanhshrink(x) softsign(x) threshold(x,0.1,4.)""",
}


def points_of(group: str) -> list[float]:
    return {"LINE": LINE, "ACTIVATION": LINE, "POSITIVE": POSITIVE, "UNIT": UNIT, "OPEN": OPEN}[group]


def record(group: str, expression: str) -> dict[str, Any]:
    """Values, then gradients of their sum by x and y, then those of the sum of the gradients."""
    x = torch.tensor(points_of(group), dtype=torch.float64, requires_grad=True)
    other = torch.tensor(OTHER, dtype=torch.float64)
    y = (other.abs() if group == "POSITIVE" else other).requires_grad_()
    namespace = {"torch": torch, "x": x, "y": y} | (vars(torch.nn.functional) if group == "ACTIVATION" else {})
    result = eval(expression, namespace)
    found: dict[str, Any] = {"points": group, "value": rounded(result)}
    leaves = [x, y] if "y" in expression.replace("torch.xlogy", "").replace("special.xlog1py", "") else [x]
    try:
        first = torch.autograd.grad(result.sum(), leaves, create_graph=True, allow_unused=True)
        found["gradient"] = [None if g is None else rounded(g) for g in first]
        total = sum(g.sum() for g in first if g is not None)
        second = torch.autograd.grad(total, leaves, allow_unused=True) if total.requires_grad else [None] * len(leaves)
        found["second"] = [None if g is None else rounded(g) for g in second]
    except (RuntimeError, NotImplementedError):
        found.pop("gradient", None)
    return found


def rounded(t: torch.Tensor) -> list[float]:
    values = torch.zeros_like(t) if t._is_zerotensor() else t.detach()
    return [float(f"{v:.9g}") for v in values.tolist()]


def main() -> None:
    rows = {
        ("F." if group == "ACTIVATION" else "") + expression: record(group, expression)
        for group, text in EXPRESSIONS.items()
        for expression in text.split()
    }
    lines = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items()]
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(rows)} expressions written to {TARGET}")


if __name__ == "__main__":
    main()
