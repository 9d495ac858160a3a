"""Small calls beyond single operators: joins, indexing, layers, autograd and optimizer steps on tiny inputs."""

from harness import Case, compare, report

X = "x = torch.full((4, 4), 0.5)"
XY = f"{X}; y = torch.full((4, 4), 2.0)"
G = f"{X}; x.requires_grad_(True)"
NN = "F = torch.nn.functional"
LAYER = f"{NN}; x, w, b = torch.randn(4, 16), torch.ones(16), torch.zeros(16)"
CLASSES = f"{NN}; x, target = torch.randn(8, 10), torch.randint(0, 10, (8,))"
STEP = """
parameters = [torch.nn.Parameter(torch.randn(16, 16)) for _ in range(10)]
for p in parameters:
    p.grad = torch.randn(16, 16)
optimizer = torch.optim.{}
optimizer.step()
"""


def optimizer(name: str, call: str) -> Case:
    return Case(f"{name}, ten parameters 16×16", "optimizer.step()", STEP.format(call), 0.5)


CASES = [
    Case("cat of two", "torch.cat((x, y))", XY, 1.0),
    Case("stack of two", "torch.stack((x, y))", XY, 1.0),
    Case("softmax", "torch.softmax(x, 1)", X, 1.0),
    Case("log_softmax", "torch.log_softmax(x, 1)", X, 1.0),
    Case("softmax, forward + backward", "torch.softmax(x, 1).backward(x)", G, 1.0),
    Case("layer_norm 4×16", "F.layer_norm(x, (16,), w, b)", LAYER, 1.0),
    Case(
        "layer_norm 4×16, forward + backward",
        "F.layer_norm(x, (16,), w, b).backward(x)",
        f"{LAYER}; x.requires_grad_(True); w.requires_grad_(True); b.requires_grad_(True)",
        1.0,
    ),
    Case("cross_entropy 8×10", "F.cross_entropy(x, target)", CLASSES, 1.0),
    Case(
        "cross_entropy 8×10, forward + backward",
        "F.cross_entropy(x, target).backward()",
        f"{CLASSES}; x.requires_grad_(True)",
        1.0,
    ),
    Case("mse_loss", "F.mse_loss(x, y)", f"{NN}; {XY}", 1.0),
    Case("x[1:3]", "x[1:3]", X, 1.0),
    Case("x[:, 1]", "x[:, 1]", X, 1.0),
    Case("x[index]", "x[index]", f"{X}; index = torch.tensor([0, 2])", 1.0),
    Case("x[mask]", "x[mask]", f"{X}; mask = x > 0", 1.0),
    Case("x[0] = 1.0", "x[0] = 1.0", X, 1.0),
    Case("embedding of 4", "F.embedding(index, x)", f"{NN}; {X}; index = torch.tensor([0, 2, 1, 3])", 1.0),
    Case("mean over a dimension", "x.mean(1)", X, 1.0),
    Case("x.max()", "x.max()", X, 1.0),
    Case("argmax over a dimension", "x.argmax(1)", X, 1.0),
    Case("where", "torch.where(c, x, y)", f"{XY}; c = x > 1", 1.0),
    Case("transpose and reshape", "x.transpose(0, 1).reshape(16)", X, 1.0),
    Case("x + x, tracked", "x + x", G, 1.0),
    Case("(x * x).sum().backward()", "(x * x).sum().backward()", G, 1.0),
    Case("a linear layer called", "layer(x)", "layer, x = torch.nn.Linear(16, 16), torch.randn(4, 16)", 1.0),
    Case(
        "a linear layer, forward + backward",
        "layer(x).sum().backward()",
        "layer, x = torch.nn.Linear(16, 16), torch.randn(4, 16)",
        1.0,
    ),
    optimizer("SGD", "SGD(parameters, lr=0.01)"),
    optimizer("SGD with momentum", "SGD(parameters, lr=0.01, momentum=0.9)"),
    optimizer("Adam", "Adam(parameters)"),
    optimizer("AdamW", "AdamW(parameters)"),
    Case("zero_grad, ten parameters", "optimizer.zero_grad()", STEP.format("SGD(parameters, lr=0.01)"), 1.0),
]

if __name__ == "__main__":
    report("small_calls", compare(CASES), "ns")
