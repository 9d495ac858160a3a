"""Interrupts a program at random moments while it records, in each mode of recording, and sees what is left switched.

    python tests/attack/interrupts.py --seed 1 --seconds 30

The program switches all there is to switch, trains, and is interrupted somewhere (by SIGALRM, whose handler raises). After
each interrupt the modes must be those from before, and the next step must give the losses that a process gives which was
never interrupted. It runs with the compiled modules and without: there, more of it is Python, amid which interrupts come.
There an interrupt may end the `__exit__` of a context manager before its first line, which nothing in Python can mend; such
ones are not looked at. Stacks are left out there: Python calls the profile function, which is Python itself then, as each
function begins and ends, and an interrupt that comes amid it does the same.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from typing import Any

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2.autograd import engine, grad_mode, graph
from mindtorch_v2.core import tap
from mindtorch_v2.profiler import profile, record_function
from mindtorch_v2.utils.checkpoint import checkpoint
from options import attack_parser

MODES: list[dict[str, Any]] = [
    {},
    {"record_shapes": True},
    {"profile_memory": True},
    {"with_stack": True},
    {"record_shapes": True, "profile_memory": True, "with_stack": True, "with_modules": True, "with_flops": True},
]
if tap.HELPER is None:
    MODES = [mode for mode in MODES if "with_stack" not in mode]
LONGEST_WAIT_S = 0.03
# A finalizer cannot raise: an interrupt amid one is lost, and has to come again.
AGAIN_S = 0.1


class Interrupt(BaseException):
    """What comes; of no kind that anybody handles."""


class _Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2


class _Empty(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class Program:
    """Steps that switch modes, build graphs, walk them, and train."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4))
        self.conv = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU())
        self.gru = nn.GRU(4, 4)

    def step(self) -> float:
        """The loss of a step that is the same each time, since what it changed is taken back first."""
        torch.manual_seed(0)
        for parameter in (*self.net.parameters(), *self.conv.parameters(), *self.gru.parameters()):
            parameter.grad = None
        weight = self.net[0].weight.detach().clone().requires_grad_()
        optimizer = torch.optim.AdamW([weight])
        loss = nn.functional.cross_entropy(self.net(torch.randn(4, 8)), torch.randint(0, 4, (4,)))
        (loss + (weight**2).sum()).backward()
        optimizer.step()
        self.conv(torch.randn(2, 1, 6, 6)).mean().backward()
        self.gru(torch.randn(2, 1, 4))[0].sum().backward()
        with torch.no_grad(), record_function("products"):
            square = torch.ones(3, 3) @ torch.ones(3, 3)
            torch.stack([square.softmax(-1), square]).std()
        with torch.inference_mode():
            torch.ones(2).exp()
        with torch.autocast("cpu"):
            torch.ones(3, 3) @ torch.ones(3, 3)
        with _Empty():
            _Double.apply(torch.ones(2, requires_grad=True)).sum().backward()
        checkpoint(self.net, torch.randn(2, 8), use_reentrant=False).sum().backward()
        return float(loss) + float(weight.detach().sum())


def state() -> dict[str, Any]:
    """All that is switched."""
    return {
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "hooks on saved tensors": graph.active_hooks(),
        "backward pass": engine.is_running(),
        "profile function": sys.getprofile(),
        "recorder": tap.SLOT.recorder is not None,
    }


def reset() -> None:
    """Switch back what was left, so that it is counted once."""
    grad_mode.set_enabled(True)
    grad_mode.set_inference(False)
    torch.set_autocast_enabled("cpu", False)
    while graph.active_hooks() is not None:
        graph.saved_tensors_hooks.__exit__(None)  # type: ignore[arg-type]


def before_first_line(error: Interrupt) -> bool:
    """Whether this interrupt ended an `__exit__` in Python before it had begun."""
    *_, (frame, line), _ = [*traceback.walk_tb(error.__traceback__)]  # the last one is the handler's
    return frame.f_code.co_name == "__exit__" and line == frame.f_code.co_firstlineno


def attack(seed: int, seconds: float) -> Counter[str]:
    """Interrupt for so many seconds; what was found, and under "interrupts" how many there were."""
    chance, program, armed = random.Random(seed), Program(), [False]

    def handler(number: int, frame: object) -> None:
        if armed[0]:
            armed[0] = False
            raise Interrupt

    signal.signal(signal.SIGALRM, handler)
    program.step()
    expected, before, found = program.step(), state(), Counter[str]()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if interrupted(program, armed, chance, found) and tap.HELPER is None:
            reset()
            continue
        for name, value in state().items():
            if value != before[name]:
                found[f"{name} left at {value!r}"] += 1
                reset()
        got = program.step()
        if got != expected:
            found["another loss afterwards"] += 1
    return found


def interrupted(program: Program, armed: list[bool], chance: random.Random, found: Counter[str]) -> bool:
    """Let an interrupt come while the program records; whether it came before the first line of an `__exit__`."""
    too_early = False
    prof = profile(**chance.choice(MODES))
    prof.start()
    try:
        armed[0] = True
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-5, LONGEST_WAIT_S), AGAIN_S)
        while True:
            program.step()
            armed[0] = True  # where the last one was lost
    except Interrupt as error:
        found["interrupts"] += 1
        too_early = before_first_line(error)
    finally:
        armed[0] = False
        signal.setitimer(signal.ITIMER_REAL, 0)
    prof.stop()
    return too_early


def main(seed: int, seconds: float) -> int:
    """Half of the time with the compiled modules, half without; how many findings."""
    findings = 0
    for pure in ("0", "1"):
        environment = {**os.environ, "MINDTORCH_PURE": pure}
        command = [
            sys.executable,
            "-W",
            "ignore",
            __file__,
            "--seed",
            str(seed),
            "--seconds",
            str(seconds / 2),
            "--worker",
        ]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds + 120)
        lines = done.stdout.splitlines() if done.returncode == 0 else [f"0 interrupts; ended with {done.returncode}"]
        print(f"interrupts: seed {seed}, MINDTORCH_PURE={pure}: {lines[-1]}", flush=True)
        if done.returncode or not lines[-1].endswith("interrupts, nothing left"):
            findings += 1
            print(done.stderr[-4000:], flush=True)
    return findings


if __name__ == "__main__":
    parser = attack_parser(__doc__)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.worker:
        sys.exit(main(options.seed, options.seconds) > 0)
    counted = attack(options.seed, options.seconds)
    count = counted.pop("interrupts", 0)
    print(f"{count} interrupts, {dict(counted) or 'nothing left'}")
