"""Stands on the path of processes that a launched program starts: the first `import torch` there installs the
launcher's import hook, and torch is mindtorch_v2 from then on.
"""

import importlib.util
import sys
from pathlib import Path

if importlib.util.find_spec("mindtorch_v2") is None:
    sys.path.append(str(Path(__file__).parents[4]))

import mindtorch_v2.launch.launcher

mindtorch_v2.launch.launcher.install()
