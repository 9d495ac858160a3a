"""Large inputs, where arithmetic and memory are nearly all there is, and the bounds kept on them.

python benchmarks/kernels.py [--quick] [WORD ...]

Words choose the cases whose names have one of them. The same cases run three times, the last two in processes of their
own: on one thread by its CPU time; the same without anything compiled; on two threads by the clock on the wall.
`--quick` leaves all but the first out.
"""

import sys

from harness import PURE, Case, compare, named, report, run_otherwise

SOFTMAX, LAYER_NORM = (2.0, 3.0) if PURE else (1.5, 2.0)  # the bounds that differ without the compiled kernels

MILLION = "x, y = torch.randn(1000, 1000), torch.randn(1000, 1000)"
ROWS = "x = torch.randn(2048, 512); F = torch.nn.functional"
IMAGES = "x = torch.randn(8, 64, 56, 56); F = torch.nn.functional"
CONV = f"{IMAGES}; w, b = torch.randn(64, 64, 3, 3) * 0.05, torch.randn(64)"
NORM = f"{IMAGES}; w, b, mean, var = torch.ones(64), torch.zeros(64), torch.zeros(64), torch.ones(64)"
WORDS = """
table = torch.randn(10000, 256)
index = torch.randint(0, 10000, (4096,))
F = torch.nn.functional
g = torch.randn(4096, 256)
"""
CLASSES = "x, target = torch.randn(512, 10000), torch.randint(0, 10000, (512,)); F = torch.nn.functional"
INDEX = """
x = torch.randn(1000, 1000)
index = torch.randint(0, 1000, (1000, 1000))
places = torch.randint(0, 100000, (1000000,))
flat = torch.zeros(100000)
values = torch.randn(1000000)
"""
LSTM = "net = torch.nn.LSTM(128, 256); x = torch.randn(32, 16, 128)"
GRU = LSTM.replace("LSTM", "GRU")
FEW_CHANNELS = "x, w = torch.randn(32, 16, 32, 32), torch.randn(16, 16, 3, 3) * 0.05; F = torch.nn.functional"
FIVE = "x, w = torch.randn(16, 16, 32, 32), torch.randn(32, 16, 5, 5) * 0.05; F = torch.nn.functional"
FEATURES = "x, g, w, b = *torch.randn(2, 4096, 256), torch.ones(256), torch.zeros(256); F = torch.nn.functional"


def with_gradient(setup: str, names: str = "x") -> str:
    return setup + "".join(f"\n{name}.requires_grad_(True)" for name in names.split())


LARGE = [
    Case("add 1M", "x + y", MILLION, 1.1),
    Case("mul 1M", "x * y", MILLION, 1.1),
    Case("add 1M, a row", "x + y[0]", MILLION, 1.1),
    Case("mul 1M, a column", "x * y[:, :1]", MILLION, 1.1),
    Case("clamp 1M", "x.clamp(-1, 1)", MILLION, 1.5),
    Case("exp 1M", "torch.exp(x)", MILLION, 1.1),
    Case("tanh 1M", "torch.tanh(x)", MILLION, 1.1),
    Case("gelu 1M", "F(x)", f"{MILLION}; F = torch.nn.functional.gelu", 1.1),
    Case("gelu 1M, tanh", "F(x, approximate='tanh')", f"{MILLION}; F = torch.nn.functional.gelu", 1.1),
    Case("relu 1M", "torch.relu(x)", MILLION, 1.5),
    Case("sigmoid 1M", "torch.sigmoid(x)", MILLION),
    Case("sum 1M", "x.sum()", MILLION, 1.5),
    Case("mean 1M", "x.mean()", MILLION, 1.5),
    Case("max 1M", "x.max()", MILLION, 1.5),
    Case("sum 1M, dim 0", "x.sum(0)", MILLION, 1.5),
    Case("sum 1M, dim 1", "x.sum(1)", MILLION, 1.5),
    Case("mean 1M, dim 1", "x.mean(1)", MILLION, 1.5),
    Case("max 1M, dim 1", "x.max(1)", MILLION, 1.5),
    Case("amax 1M, dim 1", "x.amax(1)", MILLION, 1.5),
    Case("max 1M, dim 0", "x.max(0)", MILLION, 1.5),
    Case("cumsum 1M, dim 1", "x.cumsum(1)", MILLION),
    Case("softmax 2048×512", "torch.softmax(x, 1)", ROWS, SOFTMAX),
    Case("log_softmax 2048×512", "torch.log_softmax(x, 1)", ROWS, SOFTMAX),
    Case("softmax 2048×512, forward + backward", "torch.softmax(x, 1).backward(x)", with_gradient(ROWS), SOFTMAX),
    Case(
        "log_softmax 2048×512, forward + backward", "torch.log_softmax(x, 1).backward(x)", with_gradient(ROWS), SOFTMAX
    ),
    Case(
        "layer_norm 2048×512",
        "F.layer_norm(x, (512,), w, b)",
        f"{ROWS}; w, b = torch.ones(512), torch.ones(512)",
        LAYER_NORM,
    ),
    Case(
        "layer_norm 2048×512, forward + backward",
        "F.layer_norm(x, (512,), w, b).backward(x)",
        with_gradient(f"{ROWS}; w, b = torch.ones(512), torch.ones(512)", "x w b"),
        LAYER_NORM,
    ),
    Case("matmul 512", "x @ y", "x, y = torch.randn(512, 512), torch.randn(512, 512)", 1.1),
    Case("matmul 1024", "x @ y", "x, y = torch.randn(1024, 1024), torch.randn(1024, 1024)", 1.1),
    Case("bmm 16×128×128", "torch.bmm(x, y)", "x, y = torch.randn(16, 128, 128), torch.randn(16, 128, 128)", 1.1),
    Case(
        "linear 512×1024 → 1024",
        "F(x, w, b)",
        "x, w, b, F = torch.randn(512, 1024), torch.randn(1024, 1024), torch.randn(1024), torch.nn.functional.linear",
        1.1,
    ),
    Case("conv2d 3×3 64 ch 56×56 b8", "F.conv2d(x, w, b, padding=1)", CONV, 1.6),
    Case(
        "conv2d 3×3 64 ch 56×56 b8, forward + backward",
        "y = F.conv2d(x, w, b, padding=1); y.backward(y.detach())",
        with_gradient(CONV, "x w b"),
        1.6,
    ),
    Case(
        "conv2d 3×3 16 ch 32×32 b32, forward + backward",
        "y = F.conv2d(x, w, padding=1); y.backward(y.detach())",
        with_gradient(FEW_CHANNELS, "x w"),
        1.6,
    ),
    Case(
        "conv2d 5×5 16 → 32 ch 32×32 b16, forward + backward",
        "y = F.conv2d(x, w, padding=2); y.backward(y.detach())",
        with_gradient(FIVE, "x w"),
        1.6,
    ),
    Case("max_pool2d 2×2", "F.max_pool2d(x, 2)", IMAGES, 1.0),
    Case("max_pool2d 3×3 stride 2", "F.max_pool2d(x, 3, 2, 1)", IMAGES, 1.0),
    Case(
        "max_pool2d 2×2, forward + backward",
        "F.max_pool2d(x, 2).backward(g)",
        with_gradient(IMAGES) + "; g = torch.randn(8, 64, 28, 28)",
        1.0,
    ),
    Case(
        "max_pool2d 3×3 stride 2, forward + backward",
        "F.max_pool2d(x, 3, 2, 1).backward(g)",
        with_gradient(IMAGES) + "; g = torch.randn(8, 64, 28, 28)",
        1.0,
    ),
    Case(
        "avg_pool2d 2×2, forward + backward",
        "F.avg_pool2d(x, 2).backward(g)",
        with_gradient(IMAGES) + "; g = torch.randn(8, 64, 28, 28)",
    ),
    Case("batch_norm", "F.batch_norm(x, mean, var, w, b, True)", NORM, 1.0),
    Case("batch_norm, evaluation", "F.batch_norm(x, mean, var, w, b)", NORM, 1.0),
    Case(
        "batch_norm, forward + backward",
        "F.batch_norm(x, mean, var, w, b, True).backward(g)",
        with_gradient(NORM, "x w b") + "; g = torch.randn(8, 64, 56, 56)",
        1.0,
    ),
    Case(
        "batch_norm 4096×256, forward + backward",
        "F.batch_norm(x, None, None, w, b, True).backward(g)",
        with_gradient(FEATURES, "x w b"),
        1.6,
    ),
    Case("embedding 4096×256", "F.embedding(index, table)", WORDS, 2.0),
    Case(
        "embedding 4096×256, forward + backward",
        "F.embedding(index, table).backward(g)",
        with_gradient(WORDS, "table"),
        2.0,
    ),
    Case("cross_entropy 512×10000", "F.cross_entropy(x, target)", CLASSES, 1.0),
    Case(
        "cross_entropy 512×10000, forward + backward",
        "F.cross_entropy(x, target).backward()",
        with_gradient(CLASSES),
        1.0,
    ),
    Case("randn 1M", "torch.randn(1000000)", "pass", 2.5),
    Case("rand 1M", "torch.rand(1000000)", "pass"),
    Case("randperm 100k", "torch.randperm(100000)", "pass"),
    Case("dropout 1M", "F(x, 0.5)", f"{MILLION}; F = torch.nn.functional.dropout"),
    Case("sort 1000×1000", "x.sort(1)", INDEX, 2.0),
    Case("sort 1M", "x.view(-1).sort()", INDEX, 2.0),
    Case("topk 10 of 1000×1000", "x.topk(10, 1)", INDEX, 2.0),
    Case("gather 1M", "x.gather(1, index)", INDEX, 2.0),
    Case("scatter_add 1M into 100k", "flat.scatter_add(0, places, values)", INDEX, 2.0),
    Case("scatter_add 1000×1000", "x.scatter_add(1, index, x)", INDEX, 2.0),
    Case("index_put 1M into 100k, duplicates", "flat.index_put((places,), values, accumulate=True)", INDEX, 2.0),
    Case("index_put 1M into 100k", "flat.index_put((places,), values)", INDEX, 2.0),
    Case("index 1M of 100k", "flat[places]", INDEX, 2.0),
    Case("LSTM layer 32×16×128 → 256", "net(x)", LSTM, 1.5),
    Case("LSTM layer, forward + backward", "net(x)[0].sum().backward()", LSTM, 1.5),
    Case("GRU layer 32×16×128 → 256", "net(x)", GRU),
    Case("GRU layer, forward + backward", "net(x)[0].sum().backward()", GRU),
    Case("erfc 1M", "torch.special.erfc(x)", MILLION),
    Case("ndtr 1M", "torch.special.ndtr(x)", MILLION),
    Case(
        "grid_sample 8×16×64×64",
        "F(x, g, align_corners=False)",
        "x, g, F = torch.randn(8, 16, 64, 64), torch.rand(8, 64, 64, 2) * 2 - 1, torch.nn.functional.grid_sample",
    ),
]


def main(arguments: list[str]) -> None:
    words = [word for word in arguments if not word.startswith("-")]
    cases = [case for case in LARGE if not words or any(word in case.name for word in words)]
    rows = [row.scaled(1e-3) for row in compare(cases)]
    report(named("kernels"), rows, "us")
    if "--quick" not in arguments:
        run_otherwise(__file__, words)


if __name__ == "__main__":
    main(sys.argv[1:])
