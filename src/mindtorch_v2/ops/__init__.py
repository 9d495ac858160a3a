"""The op table: one row per operator, by family. Importing this package registers every row."""

import importlib
import importlib.util
from typing import Any

from . import composed as composed
from . import door as door
from . import foreach as foreach
from . import namespace as namespace
from . import sizes as sizes
from .creation import convert as convert
from .creation import fill as fill
from .creation import gamma_samples as gamma_samples
from .creation import new as new
from .creation import random as random
from .creation import random_fills as random_fills
from .creation import ranges as ranges
from .creation import seeds as seeds
from .creation import windows as windows
from .indexing import gather as gather
from .indexing import getitem as getitem
from .indexing import index as index
from .indexing import mask as mask
from .linalg import bilinear as bilinear
from .linalg import contract as contract
from .linalg import fourier as fourier
from .linalg import function as function
from .linalg import lowrank as lowrank
from .linalg import lu as lu
from .linalg import matmul as matmul
from .linalg import norm as linalg_norm
from .linalg import products as products
from .linalg import qr as qr
from .linalg import rank as rank
from .linalg import solve as solve
from .linalg import spectral as spectral
from .linalg import triangle as triangle
from .namespace import load_library, namespace_of
from .network import activation as activation
from .network import attention as attention
from .network import convolution as convolution
from .network import decorators as decorators
from .network import distance as distance
from .network import dropout as dropout
from .network import embedding as embedding
from .network import glu as glu
from .network import linear as linear
from .network import loss as loss
from .network import margin_loss as margin_loss
from .network import multihead as multihead
from .network import nll_loss as nll_loss
from .network import norm as norm
from .network import padding as padding
from .network import pooling as pooling
from .network import recurrent as recurrent
from .network import resample as resample
from .network import sequence as sequence
from .network import softmax as softmax
from .pointwise import arithmetic as arithmetic
from .pointwise import bitwise as bitwise
from .pointwise import compare as compare
from .pointwise import complex as complex
from .pointwise import extremes as extremes
from .pointwise import special as special
from .pointwise import synonyms as synonyms
from .pointwise import ternary as ternary
from .pointwise import transcendental as transcendental
from .reduction import histogram as histogram
from .reduction import moments as moments
from .reduction import reduce as reduce
from .reduction import search as search
from .reduction import segment_reduce as segment_reduce
from .reduction import sort as sort
from .reduction import truth as truth
from .shape import copies as copies
from .shape import join as join
from .shape import permute as permute
from .shape import repeat as repeat
from .shape import resize as resize
from .shape import slice as slice
from .shape import split as split
from .shape import view as view
from .shape import view_copy as view_copy

__all__ = ["load_library"]


def __getattr__(name: str) -> Any:
    """As `torch.ops`: any name that is no module of ours is a namespace, if only an empty one."""
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if importlib.util.find_spec(f"{__name__}.{name}") is not None:
        return importlib.import_module(f"{__name__}.{name}")
    return namespace_of(name)
