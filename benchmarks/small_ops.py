"""Small operations on 4×4 tensors, where the cost of a call is nearly all there is."""

from harness import Case, compare, report

X = "x = torch.full((4, 4), 0.5)"
XY = f"{X}; y = torch.full((4, 4), 2.0)"
LINEAR = (
    "x, weight, bias = torch.ones((8, 64)), torch.ones((64, 64)), torch.ones((64,)); f = torch.nn.functional.linear"
)
TEN_OPS = f"""
{XY}
x.requires_grad_(True)
def chain(x):
    for _ in range(3):
        x = torch.tanh(x * y) + y
    return x.sum()
"""

CASES = [
    Case("x + x", "x + x", X),
    Case("x * 2.0", "x * 2.0", X),
    Case("x / y", "x / y", XY),
    Case("x @ x", "x @ x", X),
    Case("x.view(16)", "x.view(16)", X),
    Case("x[0]", "x[0]", X),
    Case("x.t()", "x.t()", X),
    Case("relu(x)", "torch.relu(x)", X),
    Case("exp(x)", "torch.exp(x)", X),
    Case("x.sum()", "x.sum()", X),
    Case("ones((4, 4))", "torch.ones((4, 4))"),
    Case("x.add_(y)", "x.add_(y)", XY),
    Case("x.item(), one element", "x.item()", "x = torch.ones((1,))"),
    Case("linear 8×64 → 64", "f(x, weight, bias)", LINEAR),
    Case("ten ops, forward + backward", "chain(x).backward()", TEN_OPS),
]

if __name__ == "__main__":
    report("small_ops", compare(CASES), "ns")
