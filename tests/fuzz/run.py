"""Fuzzes the readers of checkpoints, traces and spools, one after the other: `make fuzz SECONDS=60`.

What is found is kept in `fuzz/findings` with the command that tries it again; what has been learned stays in
`fuzz/corpus`, so that the next run goes on from there.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
KEPT = HERE.parents[1] / "fuzz"
READERS = ("checkpoint", "trace", "spool")


def fuzz(reader: str, seconds: int, largest: int) -> list[str]:
    """Fuzz one reader; a command for each finding that tries it again."""
    findings, corpus = KEPT / "findings", KEPT / "corpus" / reader
    for folder in (findings, corpus):
        folder.mkdir(parents=True, exist_ok=True)
    known = set(findings.iterdir())
    harness = str(HERE / f"{reader}.py")
    limits = [f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048", f"-max_len={largest}"]
    told = [f"-artifact_prefix={findings}/{reader}-", "-print_final_stats=1", "-verbosity=1"]
    done = subprocess.run(
        [sys.executable, harness, str(corpus), *limits, *told], check=False, text=True, stderr=subprocess.PIPE
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("stat::") or "cov:" in line]
    print(f"{reader}:", *lines[-8:], sep="\n  ")
    found = sorted(set(findings.iterdir()) - known)
    if done.returncode and not found:
        print(done.stderr[-3000:])
        return [f"{reader}: the harness ended with code {done.returncode}"]
    if found:
        print(done.stderr[-3000:])
    return [f"PYTHONPATH=src {Path(sys.executable)} {Path(harness).relative_to(KEPT.parent)} {path}" for path in found]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="for each reader (60)")
    parser.add_argument("--largest", type=int, default=20_000, metavar="BYTES", help="of a file (20,000)")
    parser.add_argument("readers", nargs="*", default=READERS, help=", ".join(READERS))
    options = parser.parse_args()
    commands = [command for reader in options.readers for command in fuzz(reader, options.seconds, options.largest)]
    for command in commands:
        print("a finding; try it again with:\n  " + command)
    print(f"{len(commands)} findings")
    return bool(commands)


if __name__ == "__main__":
    sys.exit(main())
