"""Runs every benchmark in this directory, each in a process of its own. A benchmark joins by being a file here.

All figures go to results.json, and from there to results.md as tables.

python benchmarks/run.py [NAME ...]
"""

import subprocess
import sys
from pathlib import Path

from harness import write_summary

HERE = Path(__file__).parent
NOT_BENCHMARKS = {"harness", "quick", "run"}


def main() -> int:
    known = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in NOT_BENCHMARKS)
    names = sys.argv[1:] or known
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    failed = []
    for name in names:
        print(f"\n{name}", flush=True)
        if subprocess.run([sys.executable, str(HERE / f"{name}.py")]).returncode != 0:
            failed.append(name)
    write_summary()
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
