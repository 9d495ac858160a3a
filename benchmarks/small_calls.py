"""Small calls beyond single operators: joins, indexing, layers, autograd and optimizer steps on tiny inputs."""

from harness import Case, compare, report

X = "x = torch.full((4, 4), 0.5)"
XY = f"{X}; y = torch.full((4, 4), 2.0)"
G = f"{X}; x.requires_grad_(True)"
NN = "F = torch.nn.functional"
LAYER = f"{NN}; x, w, b = torch.randn(4, 16), torch.ones(16), torch.zeros(16)"
IMAGES = f"{NN}; x = torch.rand(2, 4, 8, 8); w = torch.rand(4, 4, 1, 1); norm = torch.nn.BatchNorm2d(4)"
INDICES = "k = torch.arange(16).reshape(4, 4); i = k % 4"
CLASSES = f"{NN}; x, target = torch.randn(8, 10), torch.randint(0, 10, (8,))"
STEP = """
parameters = [torch.nn.Parameter(torch.randn(16, 16)) for _ in range(10)]
for p in parameters:
    p.grad = torch.randn(16, 16)
optimizer = torch.optim.{}
optimizer.step()
"""


def calls(*statements: str, setup: str) -> list[Case]:
    """Cases that are named by what they call; no bound is set for them."""
    return [Case(statement.replace("torch.", ""), statement, setup) for statement in statements]


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
# What programs call often beside these.
MORE = [
    *calls(
        "x.clamp(0, 1)",
        "torch.clamp_min(x, 0)",
        "x.add_(x, alpha=2.0)",
        "x.lerp_(x, 0.1)",
        "x.addcmul_(x, x)",
        "torch.add(x, y, alpha=2)",
        "torch.lerp(x, y, 0.1)",
        "k % 2",
        "k ** 2",
        "k.clamp(0, 5)",
        "k / 2",
        "k + 0.5",
        "c & c",
        "torch.equal(x, y)",
        "x.masked_fill(c, 0.0)",
        "x.tril()",
        "x.sort()",
        "x.topk(2)",
        "torch.einsum('ij,jk->ik', x, y)",
        "torch.matmul(b, x)",
        "torch.bmm(b, b)",
        "F.linear(b, x)",
        "x.masked_fill_(c, 0.5)",
        "torch.where(c, x, 0.0)",
        "torch.gather(x, 1, i)",
        "x.scatter_(1, i, y)",
        "x.index_add_(0, i[0], y)",
        "torch.add(x, y, out=z)",
        setup=f"{NN}; {XY}; {INDICES}; c = x > 1; b, z = torch.ones(2, 4, 4), torch.ones(4, 4)",
    ),
    *calls(
        "torch.zeros(4, 4)",
        "torch.zeros(4, 4, device='cpu')",
        "torch.full((4, 4), 0.5)",
        "torch.zeros_like(x)",
        "torch.ones_like(x)",
        "torch.empty_like(x)",
        "x.new_zeros(4, 4)",
        "torch.arange(10)",
        "torch.arange(0, 10, 2)",
        "torch.tensor(1.0)",
        "torch.tensor([1.0, 2.0])",
        "torch.from_numpy(a)",
        "torch.rand(4, 4)",
        "torch.randn(4, 4)",
        "torch.randint(0, 10, (4,))",
        "torch.randint(0, 10, size=(4, 4))",
        "torch.randn_like(x)",
        "torch.zeros_like(x, dtype=torch.bool)",
        "torch.linspace(0, 1, 5)",
        "torch.tensor([1, 2], dtype=torch.float32)",
        "x.normal_()",
        "x.uniform_()",
        "F.dropout(x, 0.5)",
        "F.one_hot(index, 4)",
        setup=f"import numpy; {NN}; {X}; a = x.numpy(); index = torch.tensor([0, 2, 1, 3])",
    ),
    *calls(
        "x.split(2)",
        "x.chunk(2, -1)",
        "x.unbind()",
        "b.expand(4, 4)",
        "b.expand(4, -1)",
        "x.as_strided((2, 2), (1, 2))",
        "x.flatten()",
        "x.reshape(-1)",
        "x[:, None]",
        "x[:, index]",
        "x[index, index]",
        "x.to(b)",
        "x.to('cpu', torch.float64)",
        "x.shape",
        "x.to('cpu')",
        "x.float()",
        "x.double()",
        "x.long()",
        "x.int()",
        "x.cpu()",
        "x.stride()",
        setup=f"{X}; b = torch.ones((1, 4)); index = torch.tensor([0, 2])",
    ),
    *calls(
        "x.sum(0)",
        "x.sum(-1, keepdim=True)",
        "x.mean()",
        "x.min()",
        "x.max(1)",
        "x.amax(-1)",
        "c.any()",
        "c.any(1)",
        "k.sum()",
        "k.max()",
        "x.var()",
        "x.var(-1)",
        "x.std(0)",
        "x.norm()",
        "x.norm(dim=1)",
        "x.sum((0, 1))",
        setup=f"{X}; c = x > 1; k = torch.arange(16)",
    ),
    *calls(
        "F.binary_cross_entropy(x, y)",
        "F.binary_cross_entropy_with_logits(x, y)",
        "F.softplus(x)",
        "F.logsigmoid(x)",
        "F.kl_div(x, y, reduction='batchmean')",
        "F.elu(x)",
        "F.pad(x, (1, 1))",
        "F.linear(b, x, v)",
        setup=f"{NN}; {X}; y = torch.ones((4, 4)); b = torch.ones(2, 4, 4); v = torch.ones(4)",
    ),
    *calls(
        "F.cross_entropy(x, target, reduction='none')",
        "F.cross_entropy(x, target, ignore_index=0)",
        setup=CLASSES,
    ),
    *calls(
        "norm(x)",
        "F.max_pool2d(x, 2)",
        "F.avg_pool2d(x, 2)",
        "F.adaptive_avg_pool2d(x, 1)",
        "F.conv2d(x, w)",
        "x.mean((2, 3))",
        setup=IMAGES,
    ),
    *calls(
        "F.cross_entropy(x, labels)",
        "F.nll_loss(x, labels)",
        "x.flatten(1)",
        "x.sum((0, 2, 3))",
        "x.amax((2, 3))",
        "torch.mm(m, m, out=z)",
        "torch.mul(m, 2.0, out=z)",
        "torch.cat((m[:2], m[2:]), out=z)",
        "torch.cumsum(m, 0, out=z)",
        "m.tril_()",
        "m.cumsum_(0)",
        "m.random_(0, 10)",
        "m.amax()",
        "torch.diag(m[0])",
        "column.squeeze(1)",
        "m.to(device)",
        "m.stride(0)",
        "p.grad = None",
        "p.requires_grad = True",
        "torch.finfo(torch.float32).eps",
        "torch.randn(size=(4, 4))",
        "torch.IntTensor([1, 2])",
        "torch.Size([4, 4])",
        setup=f"{NN}; x, labels = torch.randn(2, 3, 8, 8), torch.zeros(2, 8, 8, dtype=torch.int64); "
        "m, z, column = torch.rand(4, 4), torch.empty(4, 4), torch.rand(4, 1); "
        "p, device = torch.nn.Parameter(torch.ones(4)), torch.device('cpu')",
    ),
    Case(
        "a product under autocast",
        "with torch.autocast('cpu', dtype=torch.bfloat16): x @ y",
        XY,
    ),
]


if __name__ == "__main__":
    report("small_calls", compare(CASES), "ns")
    report("more_small_calls", compare(MORE), "ns")
