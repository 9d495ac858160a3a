"""What a recorder adds to calls that programs make, most of which torch records as several ops: ns a call, beside torch.

python benchmarks/recorded_calls.py [PART OF AN EXPRESSION ...]
"""

import os
import statistics
import sys
import warnings
from types import ModuleType
from typing import Any

from harness import OURS, THEIRS, Row, clock, packages, report

os.environ["KINETO_LOG_LEVEL"] = "6"
warnings.simplefilter("ignore")

COUNT, ROUNDS = 200, 9
SETUP = """
F = torch.nn.functional
torch.manual_seed(0)
x, y, z = torch.rand(8, 8) + 0.1, torch.rand(8, 8) + 0.1, torch.rand(8, 8) * 0.9 + 0.05
p, b, s, q = torch.rand(8, 8, requires_grad=True), torch.rand(8), torch.tensor(1.5), torch.rand(2, 4, 8)
i, g, m = torch.arange(8), torch.zeros(8, 8, dtype=torch.int64), torch.rand(8, 8) > 0.5
image, kernels, line, taps = torch.rand(2, 4, 8, 8), torch.rand(4, 4, 3, 3), torch.rand(2, 4, 16), torch.rand(4, 4, 3)
"""
CALLS = """
1 - x; 2 / x; x * 2; x ** 2; -x; abs(x); x @ y; x > 0; ~m; m & m
x.sum(); x.sum(0); x.mean(); x.mean(1); x.max(); x.max(1); x.argmax(1); x.std(); x.var(0); x.norm(); x.cumsum(0); x.sort()
x.exp(); x.log(); x.sqrt(); x.tanh(); x.sigmoid(); x.relu(); F.gelu(x); F.softmax(x, 1); F.dropout(x, 0.5); F.glu(x)
F.layer_norm(x, (8,)); F.linear(x, y, b); F.mse_loss(x, y); F.l1_loss(x, y); F.smooth_l1_loss(x, y)
F.cross_entropy(x, i); F.binary_cross_entropy(z, z); F.binary_cross_entropy_with_logits(x, z); F.embedding(i, y)
F.one_hot(i, 8); F.pad(x, (1, 1)); F.normalize(x, dim=1); F.conv2d(image, kernels); F.conv1d(line, taps)
F.max_pool2d(image, 2); F.avg_pool2d(image, 2); F.group_norm(image, 2); F.scaled_dot_product_attention(q, q, q)
x.view(-1); x.reshape(4, 16); x.t(); x.transpose(0, 1); x.permute(1, 0); x.unsqueeze(0); x.flatten(); x.expand(3, 8, 8)
x.clone(); x.detach(); x[0]; x[:, 0]; x[1:3]; x[None]; x[i]; x[i, i]; x[m]; x.gather(1, g); x.scatter_add(1, g, y)
x.masked_fill(m, 0.0); torch.where(m, x, y); x.clamp(0, 1); torch.cat([x, y]); torch.stack([x, y]); x.chunk(2); x.split(4)
torch.einsum('ij,jk->ik', x, y); torch.bmm(q, q.transpose(1, 2)); x.mv(b); torch.outer(b, b)
torch.zeros(4, 4); torch.ones(4, 4); torch.full((4, 4), 2.0); torch.arange(8); torch.linspace(0, 1, 5); torch.rand(4, 4)
torch.randint(0, 5, (4,)); torch.zeros_like(x); torch.tensor(1.0); x.double(); x.to('cpu'); s.item(); x.any(); x.tril()
x.add_(0.0); x.mul_(1.0); x.copy_(y); x.clamp_(0, 1); x.unbind(0); x.nonzero()
(p * 2).sum().backward(); F.linear(x, p, b).mean().backward(); F.mse_loss(p, y).backward(); p[i].sum().backward()
"""
LOOP = (
    SETUP
    + "def loop(count):\n    began = clock()\n    for _ in range(count):\n        {}\n    return (clock() - began) / count"
)


def loop_of(call: str, package: ModuleType) -> Any:
    names: dict[str, Any] = {"torch": package, "clock": clock}
    exec(LOOP.format(call), names)
    names["loop"](COUNT)
    return names["loop"]


def added(loop: Any, package: ModuleType) -> float:
    """One round: what a profiler adds to a call."""
    off: float = loop(COUNT)
    with package.profiler.profile():
        loop(COUNT // 10)
        on: float = loop(COUNT)
    return on - off


def rows(wanted: list[str]) -> list[Row]:
    found = []
    for call in (part.strip() for line in CALLS.strip().splitlines() for part in line.split(";")):
        if wanted and not any(part in call for part in wanted):
            continue
        loops = {side: loop_of(call, package) for side, package in packages().items()}
        samples: dict[str, list[float]] = {side: [] for side in loops}
        for _ in range(ROUNDS):
            for side, package in packages().items():
                samples[side].append(added(loops[side], package))
        medians = {side: statistics.median(values) for side, values in samples.items()}
        found.append(Row(f"added to {call}", medians[OURS], medians.get(THEIRS)))
    return found


def main() -> None:
    report("recorded_calls", rows(sys.argv[1:]), "ns")


if __name__ == "__main__":
    main()
