"""Training steps of whole programs beside torch, and how long a small script takes from its start to its result.

python benchmarks/programs.py [--quick]

The bounds are for one thread. The same programs run without anything compiled and on two threads, too, unless `--quick`
leaves that out.
"""

import importlib.util
import os
import statistics
import subprocess
import sys

from harness import OURS, THEIRS, Case, Row, compare, named, report, run_otherwise

MLP = """
nn = torch.nn
net = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
loss_of = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
x, y = torch.randn(64, 784), torch.randint(0, 10, (64,))
def step():
    optimizer.zero_grad()
    loss_of(net(x), y).backward()
    optimizer.step()
"""

GPT = """
nn, F = torch.nn, torch.nn.functional
WIDTH, HEADS, TOKENS, WORDS = 128, 4, 64, 65
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(c, dim=2)
        q, k, v = (part.view(b, t, HEADS, c // HEADS).transpose(1, 2) for part in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).contiguous().view(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))
class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
    def forward(self, x):
        return self.head(self.norm(self.blocks(self.words(x) + self.places.weight)))
net = GPT()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
x, y = torch.randint(0, WORDS, (8, TOKENS)), torch.randint(0, WORDS, (8, TOKENS))
def step():
    loss = F.cross_entropy(net(x).view(-1, WORDS), y.view(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

LSTM = """
nn, F = torch.nn, torch.nn.functional
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(1000, 128)
        self.rnn = nn.LSTM(128, 128, num_layers=2)
        self.head = nn.Linear(128, 1000)
    def forward(self, x):
        return self.head(self.rnn(self.words(x))[0])
net = Model()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randint(0, 1000, (35, 20)), torch.randint(0, 1000, (35, 20))
def step():
    optimizer.zero_grad()
    F.cross_entropy(net(x).view(-1, 1000), y.view(-1)).backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.25)
    optimizer.step()
"""

CNN = """
nn, F = torch.nn, torch.nn.functional
net = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(32 * 7 * 7, 10),
)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
x, y = torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))
def step():
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
"""

VAE = """
nn, F = torch.nn, torch.nn.functional
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.mean, self.spread = nn.Linear(784, 400), nn.Linear(400, 20), nn.Linear(400, 20)
        self.leave, self.out = nn.Linear(20, 400), nn.Linear(400, 784)
    def forward(self, x):
        h = F.relu(self.enter(x))
        mean, spread = self.mean(h), self.spread(h)
        deviation = torch.exp(0.5 * spread)
        z = mean + torch.randn_like(deviation) * deviation
        return torch.sigmoid(self.out(F.relu(self.leave(z)))), mean, spread
net = Model()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
x = torch.rand(64, 784)
def step():
    optimizer.zero_grad()
    made, mean, spread = net(x)
    near = F.binary_cross_entropy(made, x, reduction="sum")
    loss = near - 0.5 * torch.sum(1 + spread - mean.pow(2) - spread.exp())
    loss.backward()
    optimizer.step()
"""

LENET = """
nn, F = torch.nn, torch.nn.functional
net = nn.Sequential(
    nn.Conv2d(1, 6, 5, padding=2), nn.Sigmoid(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Sigmoid(), nn.AvgPool2d(2),
    nn.Flatten(), nn.Linear(400, 120), nn.Sigmoid(), nn.Linear(120, 84), nn.Sigmoid(), nn.Linear(84, 10),
)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))
def step():
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
"""

AUTOENCODER = """
nn, F = torch.nn, torch.nn.functional
net = nn.Sequential(
    nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
    nn.Conv2d(32, 64, 7), nn.ReLU(), nn.ConvTranspose2d(64, 32, 7), nn.ReLU(),
    nn.ConvTranspose2d(32, 16, 3, stride=2, padding=1, output_padding=1), nn.ReLU(),
    nn.ConvTranspose2d(16, 1, 3, stride=2, padding=1, output_padding=1), nn.Sigmoid(),
)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
x = torch.rand(64, 1, 28, 28)
def step():
    optimizer.zero_grad()
    F.mse_loss(net(x), x).backward()
    optimizer.step()
"""

CASES = [
    Case("MLP 784-256-10, batch 64", "step()", MLP, 0.8),
    Case("tiny GPT, 2 layers, 128 wide, 64 tokens, batch 8", "step()", GPT, 1.2),
    Case("LSTM language model, 2 layers, 128 wide, 35×20", "step()", LSTM, 1.5),
    Case("small CNN, 28×28, batch 64", "step()", CNN, 1.6),
    Case("LeNet, 28×28, batch 64", "step()", LENET, 1.6),
    Case("convolutional autoencoder, 28×28, batch 64", "step()", AUTOENCODER, 1.6),
    Case("VAE 784-400-20, batch 64", "step()", VAE, 1.0),
]

SCRIPT = """
import {name} as torch
net = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(8, 16), torch.randn(8, 1)
loss = torch.nn.functional.mse_loss(net(x), y)
loss.backward()
optimizer.step()
print(loss.item())
"""
STARTS = 7


def cpu_ms(script: str) -> float:
    """Run a script in a fresh process, and return the CPU time the process took."""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"the script failed in a fresh process with exit code {process.returncode}")
    return (usage.ru_utime + usage.ru_stime) * 1e3


def start() -> Row:
    """From the start of a process to its first result, imports included."""
    scripts = {name: SCRIPT.format(name=name) for name in (OURS, THEIRS) if importlib.util.find_spec(name)}
    for script in scripts.values():  # once unmeasured, so that bytecode is cached and files are in memory
        cpu_ms(script)
    samples: dict[str, list[float]] = {name: [] for name in scripts}
    for _ in range(STARTS):
        for name, script in scripts.items():
            samples[name].append(cpu_ms(script))
    medians = {name: statistics.median(values) for name, values in samples.items()}
    return Row("start to first result of a small script", medians[OURS], medians.get(THEIRS), "CPU time", 0.3)


def main() -> None:
    rows = [row.scaled(1e-6) for row in compare(CASES)]
    report(named("programs"), [*rows, start()], "ms")
    if "--quick" not in sys.argv:
        run_otherwise(__file__, [])


if __name__ == "__main__":
    main()
