"""Ends pools of recorded workers at random moments, while the machine is busy: each `terminate` has to come back.

    python tests/attack/pools.py --seed 1 --seconds 30

A worker that is told to end may be anywhere: just born, about to wait for a task in C, in a task, on its way out.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import random
import sys
import threading
import time
import warnings

import mindtorch_v2 as torch
from mindtorch_v2.profiler import profile
from options import attack_parser

# A round that takes longer hangs; the stacks of all threads are shown then.
LONGEST_S = 20.0
WORKERS = 3


def work(n: int) -> float:
    return float((torch.ones(n + 1) * n).sum())


def round_of(context: multiprocessing.context.BaseContext, chance: random.Random) -> None:
    with profile(workers=True, record_shapes=chance.random() < 0.5):
        pool = context.Pool(WORKERS, maxtasksperchild=chance.choice([None, 1, 3]))
        results = pool.map_async(work, range(chance.randrange(20)), chunksize=1)
        if chance.random() < 0.3:
            results.get(LONGEST_S)
        time.sleep(chance.choice([0, 0.001, 0.01, 0.03]))
        pool.terminate()
        pool.join()


def main(seed: int, seconds: float) -> int:
    """How many rounds did not come back: a first one ends the process."""
    warnings.simplefilter("ignore", DeprecationWarning)  # forks of processes with threads are what is looked at here
    chance, stop = random.Random(seed), threading.Event()
    busy = threading.Thread(target=lambda: [sum(range(1000)) for _ in iter(stop.is_set, True)], daemon=True)
    busy.start()
    deadline, rounds = time.monotonic() + seconds, 0
    while time.monotonic() < deadline:
        faulthandler.dump_traceback_later(LONGEST_S, exit=True)
        round_of(multiprocessing.get_context("fork"), chance)
        faulthandler.cancel_dump_traceback_later()
        rounds += 1
    stop.set()
    print(f"pools: seed {seed}, {rounds} pools ended, none hung", flush=True)
    return 0


if __name__ == "__main__":
    options = attack_parser(__doc__).parse_args()
    sys.exit(main(options.seed, options.seconds))
