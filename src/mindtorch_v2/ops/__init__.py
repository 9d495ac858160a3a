"""The op table: one row per operator, by family. Importing this package registers every row."""

from . import arithmetic as arithmetic
from . import bitwise as bitwise
from . import compare as compare
from . import complex as complex
from . import contract as contract
from . import convert as convert
from . import creation as creation
from . import distance as distance
from . import door as door
from . import fused as fused
from . import join as join
from . import matrix as matrix
from . import order as order
from . import part as part
from . import random as random
from . import reduce as reduce
from . import reform as reform
from . import repeat as repeat
from . import special as special
from . import split as split
from . import synonyms as synonyms
from . import transcendental as transcendental
from . import view as view
from . import view_copy as view_copy
