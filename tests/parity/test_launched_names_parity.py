"""Under the launcher, modules and classes give the names that torch's give: `type(x).__module__`, `torch.nn.__name__`."""

import json
import subprocess
import sys
from typing import Any

MODULES = """nn nn.functional nn.init nn.parameter nn.utils.rnn optim optim.lr_scheduler optim.swa_utils autograd autograd.graph
    autograd.profiler autograd.profiler_util utils.data utils.checkpoint utils.hooks utils.benchmark distributions
    distributions.transforms distributions.constraints amp serialization random profiler overrides linalg sparse storage
    testing""".split()
# A module of another path here, and what torch keeps in private modules.
ELSEWHERE = {
    "torch.storage",
    "torch.storage.Storage",
    "torch.utils.data.DataChunk",
    "torch.utils.data.functional_datapipe",
}
COLLECT = """
def collect(names):
    import importlib
    found = {}
    for name in names:
        module = importlib.import_module(name)
        found[name] = module.__name__
        for key, value in list(vars(module).items()):
            if isinstance(value, type) and not key.startswith("_") and value.__name__ == key:
                found[f"{name}.{key}"] = value.__module__
    return found
"""


def test_classes_name_the_modules_that_torchs_name() -> None:
    names = ["torch", *(f"torch.{name}" for name in MODULES)]
    program = f"{COLLECT}\nimport json\nprint(json.dumps(collect({names!r})))"
    done = subprocess.run(
        [sys.executable, "-m", "mindtorch_v2", "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    ours = json.loads(done.stdout)
    namespace: dict[str, Any] = {}
    exec(COLLECT, namespace)
    theirs = namespace["collect"](names)
    shared = {k: v for k, v in theirs.items() if k in ours and v.startswith("torch") and k not in ELSEWHERE}
    differing = {k: (ours[k], v) for k, v in shared.items() if ours[k] != v}
    assert len(shared) > 400
    assert differing == {}
