"""The op table: one row per operator, by family. Importing this package registers every row."""

import importlib
import importlib.util
from typing import Any

from . import activation as activation
from . import arithmetic as arithmetic
from . import attention as attention
from . import bitwise as bitwise
from . import class_loss as class_loss
from . import compare as compare
from . import complex as complex
from . import composed as composed
from . import contract as contract
from . import convert as convert
from . import convolution as convolution
from . import copies as copies
from . import creation as creation
from . import distance as distance
from . import door as door
from . import dropout as dropout
from . import embedding as embedding
from . import foreach as foreach
from . import fourier as fourier
from . import fused as fused
from . import gamma_samples as gamma_samples
from . import gates as gates
from . import gather as gather
from . import getitem as getitem
from . import histogram as histogram
from . import index as index
from . import join as join
from . import linalg_function as linalg_function
from . import linalg_lu as linalg_lu
from . import linalg_norm as linalg_norm
from . import linalg_qr as linalg_qr
from . import linalg_rank as linalg_rank
from . import linalg_solve as linalg_solve
from . import linalg_spectral as linalg_spectral
from . import linear as linear
from . import loss as loss
from . import lowrank as lowrank
from . import mask as mask
from . import matrix as matrix
from . import moments as moments
from . import multihead as multihead
from . import namespace as namespace
from . import network as network
from . import norm as norm
from . import order as order
from . import padding as padding
from . import part as part
from . import permute as permute
from . import pooling as pooling
from . import random as random
from . import ranges as ranges
from . import recurrent as recurrent
from . import reduce as reduce
from . import reform as reform
from . import repeat as repeat
from . import resample as resample
from . import search as search
from . import seeds as seeds
from . import segments as segments
from . import sequence as sequence
from . import shapes as shapes
from . import shapes_linalg as shapes_linalg
from . import shapes_network as shapes_network
from . import sizes as sizes
from . import softmax as softmax
from . import special as special
from . import split as split
from . import synonyms as synonyms
from . import transcendental as transcendental
from . import triangle as triangle
from . import view as view
from . import view_copy as view_copy
from . import windows as windows
from .namespace import OpNamespace, load_library

__all__ = ["load_library"]


def __getattr__(name: str) -> Any:
    """As `torch.ops`: any name that is no module of ours is a namespace, if only an empty one."""
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if importlib.util.find_spec(f"{__name__}.{name}") is not None:
        return importlib.import_module(f"{__name__}.{name}")
    return OpNamespace(name)
