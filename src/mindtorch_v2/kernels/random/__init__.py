"""Random numbers of torch 2.13's CPU kernels, as NumPy arrays: the same values, from the same count of raw words.

Integers and uniform numbers agree to the last bit, normals to about 1e-7. The published builds of torch draw
everything from MT19937, bulk `bernoulli_` and `exponential_` included (MKL's generators are compiled out), so the
values do not depend on the CPU's maker; they were taken on the AVX2 path, whose kernels fuse multiply and add.
Tensors are not known here: a function named `f` returns a new array, `f_` fills one (of any strides) in place.
"""

from .continuous import (
    WIDEST,
    cauchy,
    cauchy_,
    check_deviations,
    exponential,
    exponential_,
    geometric,
    geometric_,
    log_normal,
    log_normal_,
    normal,
    normal_,
    normal_of,
    uniform,
    uniform_,
)
from .discrete import (
    bernoulli,
    bernoulli_,
    bernoulli_of,
    dropout_mask,
    dropout_noise,
    randint,
    random,
    random_,
    rrelu_noise,
)
from .engine import DEFAULT_SEED, Engine, Generator, default_generator, engine_of, exchange_states_as
from .permutation import randperm
from .sampling import binomial, dirichlet, multinomial, poisson, standard_gamma

__all__ = [
    "DEFAULT_SEED",
    "WIDEST",
    "Engine",
    "Generator",
    "bernoulli",
    "bernoulli_",
    "bernoulli_of",
    "binomial",
    "cauchy",
    "cauchy_",
    "check_deviations",
    "default_generator",
    "dirichlet",
    "dropout_mask",
    "dropout_noise",
    "engine_of",
    "exchange_states_as",
    "exponential",
    "exponential_",
    "geometric",
    "geometric_",
    "log_normal",
    "log_normal_",
    "multinomial",
    "normal",
    "normal_",
    "normal_of",
    "poisson",
    "randint",
    "random",
    "random_",
    "randperm",
    "rrelu_noise",
    "standard_gamma",
    "uniform",
    "uniform_",
]
