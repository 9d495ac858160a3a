"""How much memory a training step takes at its peak beside torch, and whether a step leaves reference cycles behind.

Each program runs in a process of its own, first on a small batch, so that what is made once is made; then the growth of
the resident set to its peak in a step on a large batch is read from the kernel.
"""

import importlib.util
import json
import os
import subprocess
import sys

from harness import OURS, THEIRS, Row, report

BOUND = 1.2

MLP = """
net = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
def batch(count):
    return torch.randn(count, 784), torch.randint(0, 10, (count,))
LARGE = 8192
"""
CNN = """
net = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Dropout(0.1), nn.Linear(64 * 64, 10),
)
def batch(count):
    return torch.randn(count, 3, 32, 32), torch.randint(0, 10, (count,))
LARGE = 256
"""
TRANSFORMER = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, activation="gelu", batch_first=True)
        self.words, self.body, self.head = nn.Embedding(100, 128), nn.TransformerEncoder(layer, 2), nn.Linear(128, 100)
    def forward(self, x):
        return self.head(self.body(self.words(x))).flatten(0, 1)
net = Model()
def batch(count):
    return torch.randint(0, 100, (count, 64)), torch.randint(0, 100, (count * 64,))
LARGE = 128
"""
LSTM = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.rnn, self.head = nn.Embedding(500, 128), nn.LSTM(128, 256, 2), nn.Linear(256, 500)
    def forward(self, x):
        return self.head(self.rnn(self.words(x))[0]).flatten(0, 1)
net = Model()
def batch(count):
    return torch.randint(0, 500, (35, count)), torch.randint(0, 500, (35 * count,))
LARGE = 256
"""
PROGRAMS = {"MLP": MLP, "CNN with batch_norm": CNN, "transformer": TRANSFORMER, "LSTM": LSTM}

CHILD = """
import gc, importlib, json, sys, warnings
warnings.simplefilter("ignore")
torch = importlib.import_module(sys.argv[1])
torch.set_num_threads(1)
nn, F = torch.nn, torch.nn.functional
PROGRAM
optimizer = torch.optim.Adam(net.parameters())
def step(x, y):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
def status(name):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024
for _ in range(3):
    step(*batch(4))
x, y = batch(LARGE)
gc.collect()
gc.disable()
with open("/proc/self/clear_refs", "w") as reset:
    reset.write("5")
before = status("VmRSS")
step(x, y)
peak = status("VmHWM") - before
gc.collect()
for _ in range(3):
    step(*batch(4))
print(json.dumps({"peak": peak, "cycles": gc.collect()}))
"""


def child(package: str, program: str) -> dict[str, int]:
    """Bytes a step needs at its peak, and how many objects in cycles three steps leave, in a process of its own."""
    script = CHILD.replace("PROGRAM", program)
    done = subprocess.run(
        [sys.executable, "-c", script, package], capture_output=True, text=True, check=True, env=os.environ
    )
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    names = [name for name in (OURS, THEIRS) if importlib.util.find_spec(name)]
    peaks, cycles = [], []
    for title, program in PROGRAMS.items():
        found = {name: child(name, program) for name in names}
        theirs = found.get(THEIRS, {})
        sides = (found[OURS]["peak"], theirs.get("peak"))
        peaks.append(Row(f"peak of a step, {title}", *sides, bound=BOUND).scaled(2.0**-20))
        cycles.append(Row(f"objects in cycles after three steps, {title} (bound 0)", found[OURS]["cycles"], None))
    report("memory_peak", peaks, "MiB")
    report("memory_cycles", cycles, "objects")


if __name__ == "__main__":
    main()
