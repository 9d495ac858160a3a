"""The op table: one row per operator, by family. Importing this package registers every row."""

from . import arithmetic as arithmetic
from . import contract as contract
from . import convert as convert
from . import creation as creation
from . import distance as distance
from . import door as door
from . import join as join
from . import matrix as matrix
from . import order as order
from . import random as random
from . import reduce as reduce
from . import view as view
