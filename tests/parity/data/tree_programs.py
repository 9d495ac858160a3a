"""The small programs whose event trees are compared with torch 2.13's, one statement each.

Nobody imports this file: measure_trees.py executes it statement by statement, so a part of the package that is not
built yet costs the programs that use it and no others. It brings the names used here: torch, nn, F, data,
record_function, and program(name, function, *makers), which registers a function and the makers of its arguments.
"""


def normal(*shape):
    return lambda: torch.randn(*shape)


def leaf(*shape):
    return lambda: torch.randn(*shape, requires_grad=True)


def index(high, *shape):
    return lambda: torch.randint(0, high, shape)


# creation
program("torch.empty(2,3)", lambda: torch.empty(2, 3))
program("torch.ones(2,3)", lambda: torch.ones(2, 3))
program("torch.zeros(2,3)", lambda: torch.zeros(2, 3))
program("torch.full((2,3),1.5)", lambda: torch.full((2, 3), 1.5))
program("torch.rand(2,3)", lambda: torch.rand(2, 3))
program("torch.randn(2,3)", lambda: torch.randn(2, 3))
program("torch.randint(0,10,(2,3))", lambda: torch.randint(0, 10, (2, 3)))
program("torch.arange(5)", lambda: torch.arange(5))
program("torch.linspace(0,1,5)", lambda: torch.linspace(0, 1, 5))
program("torch.eye(3)", lambda: torch.eye(3))
program("torch.tensor([1.,2.])", lambda: torch.tensor([1.0, 2.0]))
program("torch.ones_like(x)", lambda x: torch.ones_like(x), normal(2, 3))
program("torch.zeros_like(x)", lambda x: torch.zeros_like(x), normal(2, 3))
program("torch.from_numpy", lambda: torch.from_numpy(__import__("numpy").ones((2, 2))))
program("x.numpy()", lambda x: x.numpy(), normal(2, 3))
# arithmetic
program("x+y", lambda x, y: x + y, normal(2, 3), normal(2, 3))
program("torch.add(x,y,alpha=2)", lambda x, y: torch.add(x, y, alpha=2), normal(2, 3), normal(2, 3))
program("x+1", lambda x: x + 1, normal(2, 3))
program("1-x (rsub)", lambda x: 1 - x, normal(2, 3))
program("x-y", lambda x, y: x - y, normal(2, 3), normal(2, 3))
program("x*y", lambda x, y: x * y, normal(2, 3), normal(2, 3))
program("x*2.0", lambda x: x * 2.0, normal(2, 3))
program("x/y", lambda x, y: x / y, normal(2, 3), normal(2, 3))
program("x/2", lambda x: x / 2, normal(2, 3))
program("-x", lambda x: -x, normal(2, 3))
program("x**2", lambda x: x**2, normal(2, 3))
program("x.add_(y)", lambda x, y: x.add_(y), normal(2, 3), normal(2, 3))
program("x.mul_(2)", lambda x: x.mul_(2), normal(2, 3))
program("x.zero_()", lambda x: x.zero_(), normal(2, 3))
program("x.fill_(3)", lambda x: x.fill_(3), normal(2, 3))
program("x.copy_(y)", lambda x, y: x.copy_(y), normal(2, 3), normal(2, 3))
program("torch.exp", lambda x: torch.exp(x), normal(2, 3))
program("torch.sqrt", lambda x: torch.sqrt(x.abs()), normal(2, 3))
program("torch.sin", lambda x: torch.sin(x), normal(2, 3))
program("torch.clamp(x,0,1)", lambda x: torch.clamp(x, 0, 1), normal(2, 3))
program("x>y", lambda x, y: x > y, normal(2, 3), normal(2, 3))
program("x==0", lambda x: x == 0, normal(2, 3))
program("torch.where(c,x,y)", lambda x, y: torch.where(x > y, x, y), normal(2, 3), normal(2, 3))
# matmul
program("matmul 2Dx2D", torch.matmul, normal(4, 5), normal(5, 6))
program("x@y 2D", lambda x, y: x @ y, normal(4, 5), normal(5, 6))
program("torch.mm", torch.mm, normal(4, 5), normal(5, 6))
program("matmul 3Dx3D", torch.matmul, normal(2, 4, 5), normal(2, 5, 6))
program("matmul 3Dx2D", torch.matmul, normal(2, 4, 5), normal(5, 6))
program("matmul 4Dx4D", torch.matmul, normal(2, 3, 4, 5), normal(2, 3, 5, 6))
program("matmul 2Dx1D", torch.matmul, normal(4, 5), normal(5))
program("matmul 1Dx1D", torch.matmul, normal(5), normal(5))
program("torch.bmm", torch.bmm, normal(2, 4, 5), normal(2, 5, 6))
program("torch.addmm", torch.addmm, normal(4, 6), normal(4, 5), normal(5, 6))
program("torch.einsum ij,jk->ik", lambda x, y: torch.einsum("ij,jk->ik", x, y), normal(4, 5), normal(5, 6))
program("F.linear 2D bias", F.linear, normal(4, 5), normal(6, 5), normal(6))
program("F.linear 2D nobias", F.linear, normal(4, 5), normal(6, 5))
program("F.linear 3D bias", F.linear, normal(2, 4, 5), normal(6, 5), normal(6))
program("F.linear 3D nobias", F.linear, normal(2, 4, 5), normal(6, 5))
program("nn.Linear(5,6)(x) [grad]", lambda m, x: m(x), lambda: nn.Linear(5, 6), normal(4, 5))
# activations
program("relu", F.relu, normal(2, 3))
program("F.relu_ inplace", lambda x: F.relu(x, inplace=True), normal(2, 3))
program("nn.ReLU grad", lambda x: F.relu(x), leaf(2, 3))
program("gelu", F.gelu, normal(2, 3))
program("gelu tanh", lambda x: F.gelu(x, approximate="tanh"), normal(2, 3))
program("sigmoid", torch.sigmoid, normal(2, 3))
program("tanh", torch.tanh, normal(2, 3))
program("silu", F.silu, normal(2, 3))
program("leaky_relu", F.leaky_relu, normal(2, 3))
program("softmax", lambda x: F.softmax(x, dim=-1), normal(2, 3))
program("log_softmax", lambda x: F.log_softmax(x, dim=-1), normal(2, 3))
# losses
program("cross_entropy", F.cross_entropy, normal(4, 3), index(3, 4))
program("nll_loss", F.nll_loss, normal(4, 3), index(3, 4))
program("mse_loss", F.mse_loss, normal(4, 3), normal(4, 3))
program("mse_loss [grad] + backward", lambda x, y: F.mse_loss(x, y).backward(), leaf(4, 3), normal(4, 3))
program("l1_loss", F.l1_loss, normal(4, 3), normal(4, 3))
program("bce_with_logits", F.binary_cross_entropy_with_logits, normal(4, 3), lambda: torch.rand(4, 3))
# conv/pool/norm
program("conv2d", lambda x, w, b: F.conv2d(x, w, b, padding=1), normal(1, 3, 8, 8), normal(4, 3, 3, 3), normal(4))
program("nn.Conv2d [grad]", lambda m, x: m(x), lambda: nn.Conv2d(3, 4, 3, padding=1), normal(1, 3, 8, 8))
program("conv1d", lambda x, w, b: F.conv1d(x, w, b), normal(1, 3, 8), normal(4, 3, 3), normal(4))
program("conv_transpose2d", lambda x, w: F.conv_transpose2d(x, w), normal(1, 3, 8, 8), normal(3, 4, 3, 3))
program("max_pool2d", lambda x: F.max_pool2d(x, 2), normal(1, 3, 8, 8))
program("max_pool2d [grad]", lambda x: F.max_pool2d(x, 2), leaf(1, 3, 8, 8))
program("avg_pool2d", lambda x: F.avg_pool2d(x, 2), normal(1, 3, 8, 8))
program("adaptive_avg_pool2d(1)", lambda x: F.adaptive_avg_pool2d(x, 1), normal(1, 3, 8, 8))
program("adaptive_avg_pool2d(2)", lambda x: F.adaptive_avg_pool2d(x, 2), normal(1, 3, 8, 8))
program("BatchNorm2d train", lambda m, x: m(x), lambda: nn.BatchNorm2d(3), normal(2, 3, 4, 4))
program("BatchNorm2d eval", lambda m, x: m(x), lambda: nn.BatchNorm2d(3).eval(), normal(2, 3, 4, 4))
program("BatchNorm1d train", lambda m, x: m(x), lambda: nn.BatchNorm1d(3), normal(4, 3))
program("LayerNorm", lambda m, x: m(x), lambda: nn.LayerNorm(8), normal(2, 8))
program("GroupNorm", lambda m, x: m(x), lambda: nn.GroupNorm(2, 4), normal(2, 4, 3, 3))
program("Embedding", lambda m, x: m(x), lambda: nn.Embedding(10, 4), index(10, 2, 3))
program("F.dropout train", lambda x: F.dropout(x, 0.5, True), normal(2, 3))
program("F.dropout train [grad]", lambda x: F.dropout(x, 0.5, True), leaf(2, 3))
program("F.dropout eval", lambda x: F.dropout(x, 0.5, False), normal(2, 3))
# shape
program("torch.cat dim0", lambda x, y: torch.cat([x, y]), normal(2, 3), normal(2, 3))
program("torch.stack", lambda x, y: torch.stack([x, y]), normal(2, 3), normal(2, 3))
program("view", lambda x: x.view(3, 2), normal(2, 3))
program("reshape contig", lambda x: x.reshape(3, 2), normal(2, 3))
program("reshape noncontig", lambda x: x.t().reshape(2, 3), normal(2, 3))
program("reshape(-1)", lambda x: x.reshape(-1), normal(2, 3))
program("flatten(1)", lambda x: x.flatten(1), normal(2, 3, 4))
program("transpose", lambda x: x.transpose(0, 1), normal(2, 3))
program("x.t()", lambda x: x.t(), normal(2, 3))
program("x.T", lambda x: x.T, normal(2, 3))
program("x.mT", lambda x: x.mT, normal(2, 3))
program("permute", lambda x: x.permute(2, 0, 1), normal(2, 3, 4))
program("unsqueeze", lambda x: x.unsqueeze(0), normal(2, 3))
program("squeeze", lambda x: x.squeeze(), normal(1, 3))
program("squeeze(0)", lambda x: x.squeeze(0), normal(1, 3))
program("expand", lambda x: x.expand(4, 3), normal(1, 3))
program("repeat", lambda x: x.repeat(2, 2), normal(1, 3))
program("chunk", lambda x: x.chunk(2), normal(4, 3))
program("split(2)", lambda x: x.split(2), normal(4, 3))
program("split([1,3])", lambda x: x.split([1, 3]), normal(4, 3))
program("unbind", lambda x: x.unbind(0), normal(2, 3))
program("contiguous (noncontig)", lambda x: x.t().contiguous(), normal(2, 3))
program("contiguous (contig)", lambda x: x.contiguous(), normal(2, 3))
# indexing
program("x[0]", lambda x: x[0], normal(4, 3))
program("x[1:3]", lambda x: x[1:3], normal(4, 3))
program("x[:,1]", lambda x: x[:, 1], normal(4, 3))
program("x[0,1]", lambda x: x[0, 1], normal(4, 3))
program("x[...,None]", lambda x: x[..., None], normal(4, 3))
program("x[idx]", lambda x, i: x[i], normal(4, 3), index(4, 2))
program("x[mask]", lambda x: x[x > 0], normal(4, 3))
program("x[[0,2]]", lambda x: x[[0, 2]], normal(4, 3))
program("x[0]=1", lambda x: x.__setitem__(0, 1), normal(4, 3))
program("x[1:3]=y", lambda x, y: x.__setitem__(slice(1, 3), y), normal(4, 3), normal(2, 3))
program("x[mask]=0", lambda x: x.__setitem__(x > 0, 0), normal(4, 3))
program("x[idx]=1.", lambda x, i: x.__setitem__(i, 1.0), normal(4, 3), index(4, 2))
program("gather", lambda x, i: x.gather(1, i), normal(4, 3), index(3, 4, 2))
program("index_select", lambda x, i: x.index_select(0, i), normal(4, 3), index(4, 2))
program("masked_fill", lambda x: x.masked_fill(x > 0, 0), normal(4, 3))
program("scatter", lambda x, i: x.scatter(1, i, 1.0), normal(4, 3), index(3, 4, 2))
program("triu", lambda x: x.triu(1), normal(4, 4))
# dtype
program("to(float64)", lambda x: x.to(torch.float64), normal(2, 3))
program("to(float32) noop", lambda x: x.to(torch.float32), normal(2, 3))
program(".double()", lambda x: x.double(), normal(2, 3))
program(".long()", lambda x: x.long(), normal(2, 3))
program("to('cpu') noop", lambda x: x.to("cpu"), normal(2, 3))
program(".type(torch.int)", lambda x: x.type(torch.int), normal(2, 3))
program("clone", lambda x: x.clone(), normal(2, 3))
program("detach", lambda x: x.detach(), leaf(2, 3))
# reductions
program("sum", lambda x: x.sum(), normal(2, 3))
program("sum(0)", lambda x: x.sum(0), normal(2, 3))
program("mean", lambda x: x.mean(), normal(2, 3))
program("mean(1)", lambda x: x.mean(1), normal(2, 3))
program("max()", lambda x: x.max(), normal(2, 3))
program("max(1)", lambda x: x.max(1), normal(2, 3))
program("argmax(1)", lambda x: x.argmax(1), normal(2, 3))
program("std", lambda x: x.std(), normal(2, 3))
program("var", lambda x: x.var(), normal(2, 3))
program("norm", lambda x: x.norm(), normal(2, 3))
program("all", lambda x: (x > 0).all(), normal(2, 3))
program("prod", lambda x: x.prod(), normal(2, 3))
program("cumsum", lambda x: x.cumsum(0), normal(2, 3))
program("topk", lambda x: x.topk(2), normal(2, 3))
program("sort", lambda x: x.sort(), normal(2, 3))
program("item", lambda x: x.item(), normal(1))
program("tolist", lambda x: x.tolist(), normal(2, 3))
program("float(x)", lambda x: float(x), normal(1))
program("bool(x>0)", lambda x: bool(x > 0), normal(1))
program("print(x)", lambda x: str(x), normal(2, 2))
program(
    "len/shape/numel",
    lambda x: (len(x), x.shape, x.numel(), x.size(0), x.dim(), x.is_leaf, x.grad_fn, x.requires_grad),
    normal(2, 2),
)
program("torch.equal", torch.equal, normal(2, 2), normal(2, 2))
program("torch.allclose", torch.allclose, normal(2, 2), normal(2, 2))
# autograd
program("(x*2).sum().backward()", lambda x: (x * 2).sum().backward(), leaf(2, 3))
program("(x*y).sum().backward()", lambda x, y: (x * y).sum().backward(), leaf(2, 3), leaf(2, 3))
program("x.pow(2).mean().backward()", lambda x: x.pow(2).mean().backward(), leaf(2, 3))
program("matmul backward", lambda x, y: (x @ y).sum().backward(), leaf(2, 3), leaf(3, 4))
program("second backward accumulates", lambda x: [(x * 2).sum().backward() for _ in range(2)], leaf(2, 3))
program("torch.autograd.grad", lambda x: torch.autograd.grad((x * 2).sum(), x), leaf(2, 3))
program("linear backward", lambda m, x: m(x).sum().backward(), lambda: nn.Linear(3, 4), normal(2, 3))
program("conv2d backward", lambda m, x: m(x).sum().backward(), lambda: nn.Conv2d(3, 4, 3), normal(1, 3, 8, 8))
program("layernorm backward", lambda m, x: m(x).sum().backward(), lambda: nn.LayerNorm(3), leaf(2, 3))
program("batchnorm backward", lambda m, x: m(x).sum().backward(), lambda: nn.BatchNorm1d(3), leaf(4, 3))
program("relu backward", lambda x: F.relu(x).sum().backward(), leaf(2, 3))
program("softmax backward", lambda x: F.softmax(x, -1).sum().backward(), leaf(2, 3))
program("cross_entropy backward", lambda x, y: F.cross_entropy(x, y).backward(), leaf(4, 3), index(3, 4))
program("embedding backward", lambda m, x: m(x).sum().backward(), lambda: nn.Embedding(10, 4), index(10, 2, 3))
program("cat backward", lambda x, y: torch.cat([x, y]).sum().backward(), leaf(2, 3), leaf(2, 3))
program("index backward", lambda x: x[0].sum().backward(), leaf(2, 3))
program("maxpool backward", lambda x: F.max_pool2d(x, 2).sum().backward(), leaf(1, 1, 4, 4))
program("dropout backward", lambda x: F.dropout(x).sum().backward(), leaf(2, 3))


class MyFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


program("custom autograd.Function fwd+bwd", lambda x: MyFn.apply(x).sum().backward(), leaf(2, 3))
program("record_function nested", lambda x: nested(x), normal(2, 3))


def nested(x):
    with record_function("outer"):
        y = x + 1
        with record_function("inner", "some args"):
            return y * 2


@record_function("decorated")
def deco(x):
    return x + 1


program("record_function decorator", lambda x: deco(x), normal(2, 3))


# optim
def mkopt(cls, **kw):
    def f():
        m = nn.Linear(3, 2)
        o = (getattr(torch.optim, cls) if isinstance(cls, str) else cls)(m.parameters(), **kw)
        m(torch.randn(2, 3)).sum().backward()
        return (m, o)

    return f


for nm, c, kw in [
    ("SGD", "SGD", {"lr": 0.1}),
    ("SGD momentum", "SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD foreach=False", "SGD", {"lr": 0.1, "foreach": False}),
    ("Adam", "Adam", {"lr": 0.1}),
    ("AdamW", "AdamW", {"lr": 0.1}),
    ("Adam foreach=True", "Adam", {"lr": 0.1, "foreach": True}),
    ("RMSprop", "RMSprop", {"lr": 0.1}),
    ("Adagrad", "Adagrad", {"lr": 0.1}),
]:
    program(f"optim.{nm}.step() (first)", lambda mo: mo[1].step(), mkopt(c, **kw))

    def second(c=c, kw=kw):
        m, o = mkopt(c, **kw)()
        o.step()
        return (m, o)

    program(f"optim.{nm}.step() (second)", lambda mo: mo[1].step(), second)
program("optim.SGD.zero_grad()", lambda mo: mo[1].zero_grad(), mkopt("SGD", lr=0.1))
program("optim.SGD.zero_grad(set_to_none=False)", lambda mo: mo[1].zero_grad(set_to_none=False), mkopt("SGD", lr=0.1))
program("module.zero_grad()", lambda mo: mo[0].zero_grad(), mkopt("SGD", lr=0.1))
program("clip_grad_norm_", lambda mo: nn.utils.clip_grad_norm_(mo[0].parameters(), 1.0), mkopt("SGD", lr=0.1))
DataLoader, TensorDataset = data.DataLoader, data.TensorDataset
program(
    "DataLoader iterate batch 2 of 4",
    lambda dl: [b for b in dl],
    lambda: DataLoader(TensorDataset(torch.randn(4, 3), torch.randint(0, 2, (4,))), batch_size=2),
)
program(
    "DataLoader shuffle",
    lambda dl: [b for b in dl],
    lambda: DataLoader(TensorDataset(torch.randn(2, 3)), batch_size=2, shuffle=True),
)
# attention / rnn
program(
    "MultiheadAttention eval no_grad fastpath",
    lambda m, x: nogr(m, x),
    lambda: nn.MultiheadAttention(8, 2, batch_first=True).eval(),
    normal(2, 4, 8),
)


def nogr(m, x):
    with torch.no_grad():
        return m(x, x, x)


program(
    "MultiheadAttention train",
    lambda m, x: m(x, x, x),
    lambda: nn.MultiheadAttention(8, 2, batch_first=True),
    normal(2, 4, 8),
)
program(
    "MultiheadAttention train need_weights=False",
    lambda m, x: m(x, x, x, need_weights=False),
    lambda: nn.MultiheadAttention(8, 2, batch_first=True),
    normal(2, 4, 8),
)
program(
    "sdpa no grad",
    lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
    normal(1, 2, 4, 8),
    normal(1, 2, 4, 8),
    normal(1, 2, 4, 8),
)
program(
    "sdpa grad causal",
    lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    leaf(1, 2, 4, 8),
    leaf(1, 2, 4, 8),
    leaf(1, 2, 4, 8),
)
program(
    "sdpa math (dropout)",
    lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=0.1),
    normal(1, 2, 4, 8),
    normal(1, 2, 4, 8),
    normal(1, 2, 4, 8),
)
program("LSTM eval", lambda m, x: nogr1(m, x), lambda: nn.LSTM(4, 3, batch_first=True).eval(), normal(1, 2, 4))
program("LSTM train", lambda m, x: m(x), lambda: nn.LSTM(4, 3, batch_first=True), normal(1, 2, 4))
program("GRU train", lambda m, x: m(x), lambda: nn.GRU(4, 3, batch_first=True), normal(1, 2, 4))


def nogr1(m, x):
    with torch.no_grad():
        return m(x)


program(
    "TransformerEncoderLayer train",
    lambda m, x: m(x),
    lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
    normal(2, 4, 8),
)


def mlp():
    m = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    return m, torch.optim.SGD(m.parameters(), lr=0.1), nn.CrossEntropyLoss()


def tstep(a, x, y):
    m, o, loss_fn = a
    o.zero_grad()
    out = m(x)
    loss = loss_fn(out, y)
    loss.backward()
    o.step()


program("MLP training step", tstep, mlp, normal(5, 8), index(4, 5))
