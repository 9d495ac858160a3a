"""Calls of ops on tensors that lie in memory in every way, as tables: what each is called with, and in which layouts.

A case is a function of a package and of tensors; `shapes` are those of the tensors. Its `mixes` are all combinations of
the layouts that `LAYOUTS` has for the ranks of its tensors (the first few of them where there is more than one).
"""

import itertools

import numpy as np


def _dense(T, shape, order, dtype):
    """A tensor of `shape` whose dimensions lie in memory in `order`, outermost first; values depend on places alone."""
    values = np.sin(np.arange(1, int(np.prod(shape)) + 1) * 1.7).reshape(shape)
    if dtype == "long":
        values = np.arange(int(np.prod(shape))).reshape(shape) * 7 % 3
    elif dtype == "bool":
        values = values > 0
    else:
        values = values.astype(dtype)
    made = T.from_numpy(np.ascontiguousarray(values.transpose(order)))
    return made.permute([order.index(d) for d in range(len(shape))])


def _channels_last_order(rank):
    return [0, *range(2, rank), 1]


def plain(T, shape, dtype):
    return _dense(T, shape, list(range(len(shape))), dtype)


def channels_last(T, shape, dtype):
    return _dense(T, shape, _channels_last_order(len(shape)), dtype)


def turned(T, shape, dtype):
    return _dense(T, shape, list(range(len(shape)))[::-1], dtype)


def swapped(T, shape, dtype):
    rank = len(shape)
    return _dense(T, shape, [*range(rank - 2), rank - 1, rank - 2], dtype)


def outer(T, shape, dtype):
    """The first two dimensions swapped in memory."""
    return _dense(T, shape, [1, 0, *range(2, len(shape))], dtype)


def sliced(T, shape, dtype):
    return plain(T, (*shape[:-1], 2 * shape[-1]), dtype)[..., ::2]


def rows(T, shape, dtype):
    """Part of the first dimension of more: dense in itself."""
    return plain(T, (2 * shape[0], *shape[1:]), dtype)[shape[0] :]


def channels_sliced(T, shape, dtype):
    return channels_last(T, (shape[0], shape[1] + 1, *shape[2:]), dtype)[:, 1:]


def channels_last_sliced(T, shape, dtype):
    return channels_last(T, (*shape[:-1], 2 * shape[-1]), dtype)[..., ::2]


def expanded(T, shape, dtype):
    return plain(T, (1, *shape[1:]), dtype).expand(shape)


def expanded_channels(T, shape, dtype):
    return channels_last(T, (shape[0], 1, *shape[2:]), dtype).expand(shape)


def expanded_last(T, shape, dtype):
    return plain(T, (*shape[:-1], 1), dtype).expand(shape)


LAYOUTS = {
    0: [plain],
    1: [plain, sliced, expanded],
    2: [plain, turned, sliced, expanded, expanded_last, rows],
    3: [plain, swapped, turned, channels_last, sliced, outer, expanded, expanded_last, rows],
    4: [
        plain, channels_last, turned, sliced, expanded, swapped, outer, channels_sliced, channels_last_sliced,
        expanded_channels, expanded_last, rows,
    ],
    5: [plain, channels_last, turned, sliced, expanded, swapped, channels_sliced, expanded_channels],
}  # fmt: skip
FEW = {0: 1, 1: 2, 2: 4, 3: 4, 4: 5, 5: 3}  # how many of them are mixed with those of other tensors

X = (2, 4, 5, 6)
# Shapes in which strides do not say which format is meant.
AMBIGUOUS = [
    (1, 4, 5, 6),
    (2, 1, 5, 6),
    (2, 4, 1, 1),
    (1, 1, 5, 6),
    (1, 4, 1, 1),
    (2, 4, 1, 6),
    (2, 4, 5, 1),
    (1, 1, 1, 1),
]
V = (2, 4, 3, 4, 5)
S = (2, 4, 6)
M = (3, 5)
ALL_RANKS = [(5,), M, S, X, V]


class Case:
    """A call, and what is compared of it: strides always, `values` and `grad`ients unless they mean nothing."""

    def __init__(self, name, function, shapes, dtypes=None, grad=True, values=True):
        self.name, self.function, self.shapes = name, function, shapes
        self.dtypes = dtypes or ["float32"] * len(shapes)
        self.grad, self.values = grad, values

    def mixes(self, few=False):
        """Layouts for its tensors, one tuple a call."""
        choices = []
        for shape in self.shapes:
            known = LAYOUTS[len(shape)]
            choices.append(known if len(self.shapes) == 1 and not few else known[: FEW[len(shape)]])
        if len(self.shapes) > 2:
            choices = [c[:3] for c in choices]
        return list(itertools.product(*choices))


CASES = []


def case(name, function, *shapes, **options):
    CASES.append(Case(name, function, shapes, **options))


def each(names, pattern, *shapes, **options):
    """A case for each name; `pattern` makes the function of a name."""
    for name in names.split():
        case(f"{name}{list(shapes)}", pattern(name), *shapes, **options)


def by_name(name):
    return lambda T, *tensors: getattr(T, name)(*tensors)


def functional(name, *args, **kwargs):
    return lambda T, *tensors: getattr(T.nn.functional, name)(*tensors, *args, **kwargs)


# --- elementwise ------------------------------------------------------------------------------------------------------

UNARY = (
    "abs neg exp sin cos tanh sigmoid relu floor ceil sign sqrt rsqrt reciprocal square isnan isinf isfinite logical_not "
    "erf erfc lgamma digamma expm1 log1p trunc frac round positive signbit sgn angle isposinf isneginf isreal deg2rad "
    "nan_to_num i0 sinc asinh atan sinh selu celu logit erfinv acos acosh atanh asin log log2 log10 exp2 real "
    "resolve_conj"
)
for shape in (M, X, (1, 4, 5, 6), (2, 1, 5, 6), (2, 4, 1, 1)):
    each(UNARY, by_name, shape)
each("relu abs isinf neg exp", by_name, (5,))
each("relu abs isinf neg exp", by_name, S)
each("relu abs isinf neg exp", by_name, V)
for shape in AMBIGUOUS:
    each("relu abs exp isinf clone zeros_like rand_like", by_name, shape)
BINARY = (
    "add sub mul div maximum minimum atan2 fmod remainder pow eq ne lt le gt ge hypot copysign fmax fmin logaddexp "
    "xlogy heaviside nextafter logical_and logical_or logical_xor floor_divide true_divide dist"
)
for shape in (M, X):
    each(BINARY, by_name, shape, shape)
for a, b in [
    (S, S), (V, V), (X, (4, 1, 1)), (X, (6,)), (X, (5, 6)), (X, (2, 4, 1, 1)), (X, (1, 4, 1, 1)), (X, (2, 1, 5, 6)), ((4, 1, 1), X),
    (X, ()), ((), X), (M, (5,)), (M, (3, 1)), ((3, 1), (1, 5)), ((2, 4, 1, 1), (1, 1, 5, 6)), ((1, 4, 5, 6), (1, 4, 5, 6)),
    ((2, 1, 5, 6), (2, 1, 5, 6)), ((2, 4, 1, 1), (2, 4, 1, 1)), ((1, 4, 5, 6), X), ((2, 1, 5, 6), X),
    (V, (4, 1, 1, 1)), ((5, 6), X),
]:  # fmt: skip
    each("add mul gt atan2", by_name, a, b)
for number in (2, 2.5):
    for shape in (M, X, S):
        for name in "add sub mul div pow eq lt fmod remainder".split():
            case(
                f"{name}({number}){shape}",
                lambda T, x, name=name, number=number: getattr(T, name)(x, number),
                shape,
            )
    case(f"number-x {number}", lambda T, x, number=number: number - x, X)
    case(f"number/x {number}", lambda T, x, number=number: number / x, X)
    case(f"number**x {number}", lambda T, x, number=number: number**x, X)
for dtypes in (["float32", "float64"], ["long", "float32"], ["bool", "float32"], ["long", "long"]):
    for shape in (M, X):
        case(f"add {dtypes}{shape}", by_name("add"), shape, shape, dtypes=dtypes)
        case(f"mul {dtypes}{shape}", by_name("mul"), shape, shape, dtypes=dtypes)
        case(f"div {dtypes}{shape}", by_name("div"), shape, shape, dtypes=dtypes)
for name in "bitwise_and bitwise_or bitwise_xor".split():
    case(name, by_name(name), X, X, dtypes=["long", "long"], grad=False)
case("bitwise_not", by_name("bitwise_not"), X, dtypes=["long"], grad=False)
case("iadd", lambda T, x, y: (x * 1).add_(y), X, X)
case("imul leaf layouts", lambda T, x, y: x.clone().mul_(y), X, X)
for shape in (M, X):
    case(f"lerp{shape}", by_name("lerp"), shape, shape, shape)
    case(f"lerp number{shape}", lambda T, x, y: T.lerp(x, y, 0.3), shape, shape)
    case(f"addcmul{shape}", by_name("addcmul"), shape, shape, shape)
    case(f"addcdiv{shape}", by_name("addcdiv"), shape, shape, shape)
    case(f"where{shape}", by_name("where"), shape, shape, shape, dtypes=["bool", "float32", "float32"])
    case(f"where number{shape}", lambda T, c, x: T.where(c, x, 0.0), shape, shape, dtypes=["bool", "float32"])
    case(f"where numbers{shape}", lambda T, c: T.where(c, 1.0, 0.0), shape, dtypes=["bool"])
    case(f"clamp{shape}", lambda T, x: T.clamp(x, -0.5, 0.5), shape)
    case(f"clamp_min{shape}", lambda T, x: T.clamp_min(x, 0.1), shape)
    case(f"clamp_max{shape}", lambda T, x: T.clamp_max(x, 0.1), shape)
    case(f"clamp tensors{shape}", by_name("clamp"), shape, shape, shape)
    case(f"clamp one tensor{shape}", lambda T, x, y: T.clamp(x, min=y), shape, shape)
    case(f"masked_fill{shape}", lambda T, x, m: x.masked_fill(m, 2.0), shape, shape, dtypes=["float32", "bool"])
    case(
        f"masked_fill_{shape}", lambda T, x, m: x.clone().masked_fill_(m, 2.0), shape, shape, dtypes=["float32", "bool"]
    )
    case(f"polygamma{shape}", lambda T, x: T.polygamma(1, x), shape, values=False)
    case(f"isclose{shape}", by_name("isclose"), shape, shape)
    case(f"sum of three{shape}", lambda T, x, y, z: x + y * z, shape, shape, shape)
    case(f"complex{shape}", by_name("complex"), shape, shape)
    case(f"polar{shape}", by_name("polar"), shape, shape)
    case(f"frexp{shape}", by_name("frexp"), shape)
    case(f"ldexp{shape}", by_name("ldexp"), shape, shape)
    case(f"threshold{shape}", functional("threshold", 0.1, 0.5), shape)
    case(f"rsub{shape}", by_name("rsub"), shape, shape)
case("masked_fill bcast", lambda T, x, m: x.masked_fill(m, 2.0), X, (2, 1, 5, 6), dtypes=["float32", "bool"])
case("masked_fill bcast self", lambda T, x, m: x.masked_fill(m, 2.0), (2, 1, 5, 6), X, dtypes=["float32", "bool"])
case("where bcast", by_name("where"), (2, 1, 5, 6), X, (6,), dtypes=["bool", "float32", "float32"])
case("lerp bcast", by_name("lerp"), X, (1, 4, 1, 1), X)
case("addcmul bcast", by_name("addcmul"), X, (1, 4, 1, 1), X)

# --- activations ------------------------------------------------------------------------------------------------------

for shape in (M, S, X, V):
    each(
        "relu relu6 elu selu celu leaky_relu gelu silu mish softplus softsign hardtanh hardsigmoid hardswish logsigmoid "
        "tanhshrink softshrink hardshrink rrelu sigmoid tanh",
        functional,
        shape,
    )
    for dim in range(len(shape)):
        case(f"softmax{shape}{dim}", functional("softmax", dim), shape)
        case(f"log_softmax{shape}{dim}", functional("log_softmax", dim), shape)
        case(f"softmin{shape}{dim}", functional("softmin", dim), shape)
    case(f"prelu{shape}", lambda T, x, w: T.nn.functional.prelu(x, w), shape, (shape[1],))
    case(f"prelu one{shape}", lambda T, x, w: T.nn.functional.prelu(x, w), shape, (1,))
    case(f"gelu tanh{shape}", functional("gelu", approximate="tanh"), shape)
    case(f"normalize{shape}", functional("normalize"), shape)
    case(f"rrelu train{shape}", functional("rrelu", training=True), shape)
    case(f"gumbel_softmax{shape}", functional("gumbel_softmax"), shape)
    case(f"glu last{shape}", functional("glu", -1), (*shape[:-1], 6))
    case(f"relu_{shape}", lambda T, x: T.nn.functional.relu(x * 1, inplace=True), shape)
for dim in range(4):
    case(f"glu{dim}", functional("glu", dim), (2, 4, 6, 8))

# --- random -----------------------------------------------------------------------------------------------------------

for shape in (M, S, X, V, (1, 4, 5, 6), (2, 1, 5, 6), (2, 4, 1, 1)):
    each("dropout alpha_dropout feature_alpha_dropout", lambda name: functional(name, 0.5, True), shape)
    case(f"dropout eval{shape}", functional("dropout", 0.5, False), shape)
    each("zeros_like ones_like empty_like rand_like randn_like", by_name, shape, values=False)
    each("rand_like randn_like", by_name, shape)
    case(f"full_like{shape}", lambda T, x: T.full_like(x, 2), shape)
    case(f"randint_like{shape}", lambda T, x: T.randint_like(x, 10), shape)
    case(f"zeros_like double{shape}", lambda T, x: T.zeros_like(x, dtype=T.float64), shape)
    case(f"zeros_like contiguous{shape}", lambda T, x: T.zeros_like(x, memory_format=T.contiguous_format), shape)
    case(f"rand_like contiguous{shape}", lambda T, x: T.rand_like(x, memory_format=T.contiguous_format), shape)
    case(
        f"empty_like preserve{shape}",
        lambda T, x: T.empty_like(x, memory_format=T.preserve_format),
        shape,
        values=False,
    )
    for fill in (
        "normal_ uniform_ exponential_ cauchy_ log_normal_ geometric_:0.4 bernoulli_ bernoulli_:0.4 random_ random_:9"
    ).split():
        name, _, number = fill.partition(":")
        args = (float(number),) if "." in number else (int(number),) if number else ()
        case(f"{fill}{shape}", lambda T, x, name=name, args=args: getattr(T.empty_like(x), name)(*args), shape)
        case(f"{fill} in place{shape}", lambda T, x, name=name, args=args: getattr(x.clone(), name)(*args), shape)
    case(f"bernoulli{shape}", lambda T, x: T.bernoulli(x.abs().clamp(0, 1)), shape)
    case(f"bernoulli p{shape}", lambda T, x: T.bernoulli(x, 0.4), shape)
    case(f"poisson{shape}", lambda T, x: T.poisson(x.abs()), shape)
    case(f"normal{shape}", lambda T, x: T.normal(x, x.abs() + 1), shape)
    case(f"normal number{shape}", lambda T, x: T.normal(x, 1.5), shape)
    case(f"native_dropout{shape}", lambda T, x: T.native_dropout(x, 0.5, True), shape)
for name, shape in (("dropout1d", S), ("dropout2d", X), ("dropout3d", V)):
    case(name, functional(name, 0.5, True), shape)

# --- copies and casts -------------------------------------------------------------------------------------------------

for shape in [*ALL_RANKS, *AMBIGUOUS]:
    case(f"clone{shape}", lambda T, x: x.clone(), shape)
    case(f"clone contiguous{shape}", lambda T, x: x.clone(memory_format=T.contiguous_format), shape)
    case(f"contiguous{shape}", lambda T, x: x.contiguous(), shape)
    case(f"double{shape}", lambda T, x: x.double(), shape)
    case(f"half{shape}", lambda T, x: x.half(), shape)
    case(f"to same{shape}", lambda T, x: x.to(T.float32), shape)
    case(f"to copy{shape}", lambda T, x: x.to(T.float32, copy=True), shape)
    case(f"type{shape}", lambda T, x: x.type(T.int64), shape)
    case(f"bool{shape}", lambda T, x: x.bool(), shape)
    case(f"to cpu{shape}", lambda T, x: x.to("cpu", copy=True), shape)
    case(f"to preserve{shape}", lambda T, x: x.to(T.float64, memory_format=T.preserve_format), shape)
    case(f"to contiguous{shape}", lambda T, x: x.to(T.float64, memory_format=T.contiguous_format), shape)
    case(f"to contiguous only{shape}", lambda T, x: x.to(memory_format=T.contiguous_format), shape)
    case(f"new_empty{shape}", lambda T, x: x.new_empty(x.shape), shape, values=False)
    case(f"copy_{shape}", lambda T, x, y: T.empty_like(x).copy_(y), shape, shape)
    case(f"detach clone{shape}", lambda T, x: x.detach().clone(), shape)
    case(f"deepcopy{shape}", lambda T, x: __import__("copy").deepcopy(x.detach()), shape)
    if len(shape) == 4:
        case(f"cl{shape}", lambda T, x: x.contiguous(memory_format=T.channels_last), shape)
        case(f"to cl{shape}", lambda T, x: x.to(memory_format=T.channels_last), shape)
        case(f"to cl double{shape}", lambda T, x: x.to(T.float64, memory_format=T.channels_last), shape)
        case(f"clone cl{shape}", lambda T, x: x.clone(memory_format=T.channels_last), shape)
        case(f"cl relu{shape}", lambda T, x: x.contiguous(memory_format=T.channels_last).relu(), shape)
        case(f"like cl{shape}", lambda T, x: T.empty_like(x, memory_format=T.channels_last), shape, values=False)
        case(f"rand_like cl{shape}", lambda T, x: T.rand_like(x, memory_format=T.channels_last), shape)
        case(f"cl + plain{shape}", lambda T, x, y: x.contiguous(memory_format=T.channels_last) + y, shape, shape)
    if len(shape) == 5:
        case(f"cl{shape}", lambda T, x: x.contiguous(memory_format=T.channels_last_3d), shape)
        case(f"to cl{shape}", lambda T, x: x.to(memory_format=T.channels_last_3d), shape)
        case(f"clone cl{shape}", lambda T, x: x.clone(memory_format=T.channels_last_3d), shape)
        case(f"like cl{shape}", lambda T, x: T.empty_like(x, memory_format=T.channels_last_3d), shape, values=False)
case("empty cl", lambda T: T.empty(2, 3, 4, 5, memory_format=T.channels_last), values=False)
case("empty cl 1", lambda T: T.empty(2, 1, 4, 5, memory_format=T.channels_last), values=False)
case("empty cl 11", lambda T: T.empty(2, 3, 1, 1, memory_format=T.channels_last), values=False)
case("empty cl3d", lambda T: T.empty(2, 3, 4, 5, 6, memory_format=T.channels_last_3d), values=False)
case("resize_ cl", lambda T: T.empty(2).resize_(2, 3, 4, 5, memory_format=T.channels_last), values=False)
case("resize_as_", lambda T, x: T.empty(2).resize_as_(x), X, values=False, grad=False)
case(
    "resize_as_ preserve",
    lambda T, x: T.empty(2).resize_as_(x, memory_format=T.preserve_format),
    X,
    values=False,
    grad=False,
)

# --- out= -------------------------------------------------------------------------------------------------------------

for shape in (M, X):
    case(f"add out{shape}", lambda T, x, y: T.add(x, y, out=T.empty_like(x)), shape, shape, grad=False)
    case(f"add out resized{shape}", lambda T, x, y: T.add(x, y, out=T.empty(0)), shape, shape, grad=False)
    case(f"exp out resized{shape}", lambda T, x: T.exp(x, out=T.empty(0)), shape, grad=False)
    case(f"exp out given{shape}", lambda T, x, y: T.exp(x, out=T.empty_like(y)), shape, shape, grad=False)
    case(f"sum out resized{shape}", lambda T, x: T.sum(x, 0, out=T.empty(0)), shape, grad=False)
    case(f"cat out resized{shape}", lambda T, x, y: T.cat([x, y], 1, out=T.empty(0)), shape, shape, grad=False)
    case(f"sort out{shape}", lambda T, x: T.sort(x, out=(T.empty(0), T.empty(0, dtype=T.int64))), shape, grad=False)
case("mm out", lambda T, x: T.mm(x, x.t(), out=T.empty(0)), M, grad=False)

# --- reductions -------------------------------------------------------------------------------------------------------

REDUCTIONS = (
    "sum mean amax amin prod var std all any argmax argmin logsumexp max min median nanmedian mode norm "
    "nansum nanmean count_nonzero cumsum cumprod logcumsumexp cummax cummin sort argsort softmax aminmax"
)
for shape in (M, S, X, V):
    for dim in range(len(shape)):
        for name in REDUCTIONS.split():
            if name in "norm":
                case(f"norm{shape}{dim}", lambda T, x, dim=dim: T.norm(x, 2, dim), shape)
                case(f"norm keepdim{shape}{dim}", lambda T, x, dim=dim: T.norm(x, 2, dim, keepdim=True), shape)
                continue
            options = {"grad": name not in ("argmax", "argmin", "all", "any", "count_nonzero", "argsort")}
            case(f"{name}{shape}{dim}", lambda T, x, name=name, dim=dim: getattr(T, name)(x, dim=dim), shape, **options)
            if name not in "count_nonzero cumsum cumprod logcumsumexp cummax cummin sort argsort softmax".split():
                case(
                    f"{name} keepdim{shape}{dim}",
                    lambda T, x, name=name, dim=dim: getattr(T, name)(x, dim=dim, keepdim=True),
                    shape,
                    **options,
                )
for shape in (S, X):
    for dims in ((0, 1), (1, 2), (0, 2), (0, 2, 3), (2, 3), (1, 2, 3)):
        if max(dims) < len(shape):
            for name in "sum mean amax var std norm logsumexp all std_mean var_mean".split():
                for keep in (False, True):
                    case(
                        f"{name}{shape}{dims}{keep}",
                        lambda T, x, name=name, dims=dims, keep=keep: (
                            T.norm(x, 2, dims, keepdim=keep)
                            if name == "norm"
                            else getattr(T, name)(x, dim=dims, keepdim=keep)
                        ),
                        shape,
                        grad=name != "all",
                    )
for shape in (M, X):
    each(
        "sum mean prod max min var std norm median argmax all",
        by_name,
        shape,
    )
    case(f"kthvalue{shape}", lambda T, x: T.kthvalue(x, 2), shape)
    case(f"topk{shape}", lambda T, x: T.topk(x, 2), shape)
    case(f"topk 0{shape}", lambda T, x: T.topk(x, 2, dim=0), shape)
    case(f"topk 1{shape}", lambda T, x: T.topk(x, 2, dim=1), shape)
    case(f"quantile{shape}", lambda T, x: T.quantile(x, 0.3, dim=0), shape)
    case(f"quantile keep{shape}", lambda T, x: T.quantile(x, 0.3, dim=1, keepdim=True), shape)
    case(f"unique{shape}", lambda T, x: T.unique(x, dim=0), shape, grad=False)
    case(f"diff{shape}", lambda T, x: T.diff(x), shape)
    case(f"diff 0{shape}", lambda T, x: T.diff(x, dim=0), shape)
    case(f"sort descending{shape}", lambda T, x: T.sort(x, descending=True), shape)
    case(f"msort{shape}", by_name("msort"), shape)
    case(f"sum dtype{shape}", lambda T, x: x.sum(0, dtype=T.float64), shape)
    case(f"renorm{shape}", lambda T, x: T.renorm(x, 2, 0, 1.0), shape)
    case(f"vector_norm{shape}", lambda T, x: T.linalg.vector_norm(x, dim=1), shape)

# --- shapes and places ------------------------------------------------------------------------------------------------

for shape in (M, S, X, V):
    rank = len(shape)
    for dim in range(rank):
        case(f"cat{shape}{dim}", lambda T, x, y, dim=dim: T.cat([x, y], dim), shape, shape)
        case(f"stack{shape}{dim}", lambda T, x, y, dim=dim: T.stack([x, y], dim), shape, shape)
        case(f"flip{shape}{dim}", lambda T, x, dim=dim: T.flip(x, (dim,)), shape)
        case(f"roll{shape}{dim}", lambda T, x, dim=dim: T.roll(x, 1, dim), shape)
        case(f"index_select{shape}{dim}", lambda T, x, dim=dim: T.index_select(x, dim, T.tensor([0, 1])), shape)
        case(
            f"index_add{shape}{dim}",
            lambda T, x, dim=dim: T.index_add(x, dim, T.tensor([0, 1]), x.narrow(dim, 0, 2)),
            shape,
        )
        case(f"index_fill{shape}{dim}", lambda T, x, dim=dim: T.index_fill(x, dim, T.tensor([0, 1]), 2.0), shape)
        case(
            f"index_copy{shape}{dim}",
            lambda T, x, dim=dim: T.index_copy(x, dim, T.tensor([0, 1]), x.narrow(dim, 0, 2)),
            shape,
        )
        case(
            f"gather{shape}{dim}",
            lambda T, x, i, dim=dim: T.gather(x, dim, i * 0),
            shape,
            shape,
            dtypes=["float32", "long"],
        )
        case(
            f"scatter{shape}{dim}",
            lambda T, x, i, dim=dim: T.scatter(x, dim, i * 0, 2.0),
            shape,
            shape,
            dtypes=["float32", "long"],
        )
        case(
            f"scatter_add{shape}{dim}",
            lambda T, x, i, dim=dim: T.scatter_add(x, dim, i * 0, x),
            shape,
            shape,
            dtypes=["float32", "long"],
        )
        case(
            f"take_along_dim{shape}{dim}",
            lambda T, x, i, dim=dim: T.take_along_dim(x, i * 0, dim),
            shape,
            shape,
            dtypes=["float32", "long"],
        )
        case(f"repeat_interleave{shape}{dim}", lambda T, x, dim=dim: T.repeat_interleave(x, 2, dim), shape)
        case(f"narrow_copy{shape}{dim}", lambda T, x, dim=dim: T.narrow_copy(x, dim, 0, 2), shape)
        case(f"split{shape}{dim}", lambda T, x, dim=dim: T.split(x, 1, dim), shape)
        case(f"select{shape}{dim}", lambda T, x, dim=dim: x.select(dim, 0) * 1, shape)
        case(f"unbind{shape}{dim}", lambda T, x, dim=dim: x.unbind(dim), shape)
        case(f"unsqueeze{shape}{dim}", lambda T, x, dim=dim: x.unsqueeze(dim) * 1, shape)
        case(f"index list{shape}{dim}", lambda T, x, dim=dim: x[(slice(None),) * dim + ([0, 1],)], shape)
        case(
            f"index mask row{shape}{dim}",
            lambda T, x, dim=dim: x[(slice(None),) * dim + (T.arange(x.shape[dim]) > 0,)],
            shape,
        )
        case(f"index_put{shape}{dim}", lambda T, x, dim=dim: T.index_put(x, (T.tensor([0, 1]),), T.tensor(1.0)), shape)
    case(f"repeat{shape}", lambda T, x: x.repeat(*[2] * x.dim()), shape)
    case(f"tile{shape}", lambda T, x: T.tile(x, (2,)), shape)
    case(f"rot90{shape}", lambda T, x: T.rot90(x), shape)
    case(f"fliplr{shape}", lambda T, x: T.fliplr(x), shape)
    case(f"roll flat{shape}", lambda T, x: T.roll(x, 1), shape)
    case(f"flip all{shape}", lambda T, x: T.flip(x, tuple(range(x.dim()))), shape)
    case(f"tril{shape}", lambda T, x: T.tril(x), shape)
    case(f"triu{shape}", lambda T, x: T.triu(x, 1), shape)
    case(f"triu_{shape}", lambda T, x: x.clone().triu_(1), shape)
    case(f"reshape{shape}", lambda T, x: x.reshape(-1), shape)
    case(f"reshape 2{shape}", lambda T, x: x.reshape(x.shape[0], -1), shape)
    case(f"flatten{shape}", lambda T, x: x.flatten(), shape)
    case(f"flatten 1{shape}", lambda T, x: x.flatten(1), shape)
    case(f"masked_select{shape}", lambda T, x, m: T.masked_select(x, m), shape, shape, dtypes=["float32", "bool"])
    case(
        f"masked_scatter{shape}",
        lambda T, x, m: T.masked_scatter(x, m, x.flatten()),
        shape,
        shape,
        dtypes=["float32", "bool"],
    )
    case(f"nonzero{shape}", lambda T, x: T.nonzero(x), shape, grad=False)
    case(f"diag_embed{shape}", lambda T, x: T.diag_embed(x), shape)
    case(f"diagonal_scatter{shape}", lambda T, x: T.diagonal_scatter(x, x.diagonal() * 2), shape)
    case(f"select_scatter{shape}", lambda T, x: T.select_scatter(x, x.select(0, 0) * 2, 0, 1), shape)
    case(f"slice_scatter{shape}", lambda T, x: T.slice_scatter(x, x[:1] * 2, 0, 1, 2), shape)
    case(f"take{shape}", lambda T, x: T.take(x, T.tensor([[0, 1], [2, 3]])), shape)
    case(f"broadcast_tensors{shape}", lambda T, x: [t * 1 for t in T.broadcast_tensors(x, T.ones(1))], shape)
    case(f"atleast{shape}", lambda T, x: T.atleast_3d(x) * 1, shape)
    case(f"hstack{shape}", lambda T, x, y: T.hstack([x, y]), shape, shape)
    case(f"vstack{shape}", lambda T, x, y: T.vstack([x, y]), shape, shape)
    case(f"dstack{shape}", lambda T, x, y: T.dstack([x, y]), shape, shape)
    case(f"put{shape}", lambda T, x: T.put(x, T.tensor([0, 1]), T.tensor([1.0, 2.0])), shape)
    case(f"setitem{shape}", lambda T, x: setitem(x.clone()), shape)
    case(f"index all{shape}", lambda T, x: x[T.tensor([0, 1])], shape)
    case(f"index two{shape}", lambda T, x: x[T.tensor([0, 1]), T.tensor([0, 1])], shape)
    case(f"index mask{shape}", lambda T, x, m: x[m], shape, shape, dtypes=["float32", "bool"])
    case(f"index none{shape}", lambda T, x: x[None, T.tensor([0, 1])], shape)
    case(f"unfold view{shape}", lambda T, x: x.unfold(-1, 2, 1) * 1, shape)
    case(f"searchsorted{shape}", lambda T, x: T.searchsorted(T.tensor([0.0, 0.5]), x), shape, grad=False)
    case(f"bucketize{shape}", lambda T, x: T.bucketize(x, T.tensor([0.0, 0.5])), shape, grad=False)
    case(f"histc{shape}", lambda T, x: T.histc(x, 4), shape, grad=False)
    case(f"one_hot{shape}", lambda T, x: T.nn.functional.one_hot(x, 3), shape, dtypes=["long"], grad=False)
    case(f"embedding{shape}", lambda T, x, w: T.nn.functional.embedding(x, w), shape, M, dtypes=["long", "float32"])
    case(f"expand add{shape}", lambda T, x: x[:1].expand(x.shape) + x, shape)
    case(f"foreach add{shape}", lambda T, x, y: T._foreach_add([x, y], [y, x]), shape, shape, grad=False)
    case(f"foreach number{shape}", lambda T, x: T._foreach_mul([x], 2.0), shape, grad=False)
    case(f"foreach sqrt{shape}", lambda T, x: T._foreach_abs([x]), shape, grad=False)
    case(f"foreach lerp{shape}", lambda T, x, y: T._foreach_lerp([x], [y], 0.5), shape, shape, grad=False)
    case(f"foreach addcmul{shape}", lambda T, x, y: T._foreach_addcmul([x], [y], [x]), shape, shape, grad=False)
case("cat three", lambda T, x, y, z: T.cat([x, y, z], 1), X, X, X)
case("cat ambiguous", lambda T, x, y: T.cat([x, y], 1), (2, 1, 5, 6), (2, 1, 5, 6))
case("cat ambiguous 2", lambda T, x, y: T.cat([x, y], 1), (2, 4, 1, 1), (2, 4, 1, 1))
case("cat ambiguous 3", lambda T, x, y: T.cat([x, y], 1), (2, 1, 5, 6), X)
case("cat ambiguous 4", lambda T, x, y: T.cat([x, y], 0), (1, 4, 5, 6), (1, 4, 5, 6))
case("cat empty", lambda T, x: T.cat([x, T.empty(0)], 1), X)
case("cat one", lambda T, x: T.cat([x]), X)
case("cat dtypes", lambda T, x, y: T.cat([x, y], 1), X, X, dtypes=["float32", "float64"])


def setitem(x):
    x[0] = 2.0
    return x


# --- products ---------------------------------------------------------------------------------------------------------

case("mm", lambda T, x, y: T.mm(x, y), M, (5, 4))
case("mv", lambda T, x, y: T.mv(x, y), M, (5,))
case("matmul 2", lambda T, x, y: x @ y, M, (5, 4))
case("matmul 3", lambda T, x, y: x @ y, S, (6, 3))
case("matmul 33", lambda T, x, y: x @ y, S, (2, 6, 3))
case("matmul 44", lambda T, x, y: x @ y, X, (2, 4, 6, 3))
case("matmul 42", lambda T, x, y: x @ y, X, (6, 3))
case("matmul 24", lambda T, x, y: x @ y, (3, 5), X)
case("matmul 41", lambda T, x, y: x @ y, X, (6,))
case("matmul 14", lambda T, x, y: x @ y, (5,), X)
case("bmm", lambda T, x, y: T.bmm(x, y), S, (2, 6, 3))
case("baddbmm", lambda T, b, x, y: T.baddbmm(b, x, y), (2, 4, 3), S, (2, 6, 3))
case("addmm", lambda T, b, x, y: T.addmm(b, x, y), (3, 4), M, (5, 4))
case("addmm row", lambda T, b, x, y: T.addmm(b, x, y), (4,), M, (5, 4))
case("addmv", lambda T, b, x, y: T.addmv(b, x, y), (3,), M, (5,))
case("addr", lambda T, b, x, y: T.addr(b, x, y), M, (3,), (5,))
case("outer", lambda T, x, y: T.outer(x, y), (3,), (5,))
case("linear 2", lambda T, x, w: T.nn.functional.linear(x, w), M, (4, 5))
case("linear 3", lambda T, x, w: T.nn.functional.linear(x, w), S, (3, 6))
case("linear 4", lambda T, x, w: T.nn.functional.linear(x, w), X, (3, 6))
case("linear bias 2", lambda T, x, w: T.nn.functional.linear(x, w, T.ones(4)), M, (4, 5))
case("linear bias 3", lambda T, x, w: T.nn.functional.linear(x, w, T.ones(3)), S, (3, 6))
case("linear bias 4", lambda T, x, w: T.nn.functional.linear(x, w, T.ones(3)), X, (3, 6))
case("bilinear", lambda T, x, y: T.nn.functional.bilinear(x, y, T.ones(2, 5, 5)), M, M)
for text, a, b in [
    ("ij,jk->ik", M, (5, 4)), ("bij,bjk->bik", S, (2, 6, 3)), ("bchw,bdhw->bcd", X, X), ("bchw,cd->bdhw", X, (4, 3)),
    ("ij,ij->ij", M, M),
    ("bchw,bchw->bhw", X, X), ("bnqd,bnkd->bnqk", X, X), ("bnqd,bnkd->bqnk", X, X),
]:  # fmt: skip
    case(f"einsum {text}", lambda T, x, y, text=text: T.einsum(text, x, y), a, b)
case("einsum one", lambda T, x: T.einsum("bchw->bhwc", x), X)
case("einsum sum", lambda T, x: T.einsum("bchw->bc", x), X)
case("tensordot", lambda T, x, y: T.tensordot(x, y, dims=([1, 2], [1, 2])), S, S)
case("kron", lambda T, x, y: T.kron(x, y), M, M)
case("cdist", lambda T, x, y: T.cdist(x, y), S, S)
case("cross", lambda T, x, y: T.linalg.cross(x, y, dim=0), M, M)
case("dot", lambda T, x, y: T.dot(x, y), (5,), (5,))
case("chain_matmul", lambda T, x, y: T.linalg.multi_dot([x, y]), M, (5, 4))
case("sdpa", lambda T, q, k, v: T.nn.functional.scaled_dot_product_attention(q, k, v), X, X, X)
case("sdpa 3", lambda T, q, k, v: T.nn.functional.scaled_dot_product_attention(q, k, v), S, S, S)

# --- convolutions -----------------------------------------------------------------------------------------------------


def conv(name, bias=False, **options):
    def call(T, x, w, *b):
        return getattr(T.nn.functional, name)(x, w, T.ones(bias) if bias else None, **options)

    return call


I1, I2, I3 = (2, 4, 9), (2, 4, 7, 6), (2, 4, 5, 4, 6)
for bias in (0, 1):
    tag = " bias" if bias else ""
    for size in (1, 3):
        case(f"conv1d {size}{tag}", conv("conv1d", bias * 6), I1, (6, 4, size))
        case(f"conv2d {size}{tag}", conv("conv2d", bias * 6), I2, (6, 4, size, size))
        case(f"conv3d {size}{tag}", conv("conv3d", bias * 6), I3, (6, 4, size, size, size))
        case(f"conv_transpose1d {size}{tag}", conv("conv_transpose1d", bias * 6), I1, (4, 6, size))
        case(f"conv_transpose2d {size}{tag}", conv("conv_transpose2d", bias * 6), I2, (4, 6, size, size))
        case(f"conv_transpose3d {size}{tag}", conv("conv_transpose3d", bias * 6), I3, (4, 6, size, size, size))
    case(f"conv2d stride{tag}", conv("conv2d", bias * 6, stride=2, padding=1), I2, (6, 4, 3, 3))
    case(f"conv2d same{tag}", conv("conv2d", bias * 6, padding="same"), I2, (6, 4, 3, 3))
    case(f"conv2d dilated{tag}", conv("conv2d", bias * 6, dilation=2, padding=2), I2, (6, 4, 3, 3))
    case(f"conv2d grouped{tag}", conv("conv2d", bias * 6, groups=2), I2, (6, 2, 3, 3))
    case(f"conv2d depthwise{tag}", conv("conv2d", bias * 4, groups=4), I2, (4, 1, 3, 3))
    case(f"conv1d depthwise{tag}", conv("conv1d", bias * 4, groups=4), I1, (4, 1, 3))
    case(f"conv3d grouped{tag}", conv("conv3d", bias * 6, groups=2), I3, (6, 2, 3, 3, 3))
    case(f"conv_transpose2d grouped{tag}", conv("conv_transpose2d", bias * 6, groups=2, stride=2), I2, (4, 3, 3, 3))
    case(f"conv2d one in{tag}", conv("conv2d", bias * 6), (2, 1, 7, 6), (6, 1, 3, 3))
    case(f"conv2d one out{tag}", conv("conv2d", bias), I2, (1, 4, 3, 3))
    case(f"conv2d one image{tag}", conv("conv2d", bias * 6), (1, 4, 7, 6), (6, 4, 3, 3))
    case(f"conv2d to a point{tag}", conv("conv2d", bias * 6), (2, 4, 3, 3), (6, 4, 3, 3))
    case(f"conv2d of points{tag}", conv("conv2d", bias * 6), (2, 4, 1, 1), (6, 4, 1, 1))
    case(f"conv2d unbatched{tag}", conv("conv2d", bias * 6), (4, 7, 6), (6, 4, 3, 3))
    case(f"conv1d unbatched{tag}", conv("conv1d", bias * 6), (4, 9), (6, 4, 3))
    case(f"conv3d unbatched{tag}", conv("conv3d", bias * 6), (4, 5, 4, 6), (6, 4, 3, 3, 3))
    case(
        f"conv2d double{tag}",
        lambda T, x, w, bias=bias: T.nn.functional.conv2d(x, w, T.ones(6, dtype=T.float64) if bias else None),
        I2,
        (6, 4, 3, 3),
        dtypes=["float64", "float64"],
    )

# --- pools ------------------------------------------------------------------------------------------------------------

for shape, d in ((S, 1), (X, 2), (V, 3), ((4, 5, 6), 2), ((1, 4, 5, 6), 2), ((2, 1, 5, 6), 2)):
    for name in (f"max_pool{d}d", f"avg_pool{d}d"):
        case(f"{name}{shape}", functional(name, 2), shape)
        case(f"{name} stride 1{shape}", functional(name, 3, 1, 1), shape)
    case(f"max_pool{d}d indices{shape}", functional(f"max_pool{d}d", 2, return_indices=True), shape)
    case(f"avg_pool{d}d ceil{shape}", functional(f"avg_pool{d}d", 2, ceil_mode=True), shape)
    case(f"lp_pool{d}d{shape}", functional(f"lp_pool{d}d", 2, 2), shape)
    for size in (1, 2):
        case(f"adaptive_avg_pool{d}d {size}{shape}", functional(f"adaptive_avg_pool{d}d", size), shape)
        case(f"adaptive_max_pool{d}d {size}{shape}", functional(f"adaptive_max_pool{d}d", size), shape)
        case(f"adaptive_max_pool{d}d indices {size}{shape}", functional(f"adaptive_max_pool{d}d", size, True), shape)
    if d > 1:
        case(f"fractional{d}{shape}", functional(f"fractional_max_pool{d}d", 2, output_size=2), shape)
    case(
        f"max_unpool{d}d{shape}",
        lambda T, x, d=d: getattr(T.nn.functional, f"max_unpool{d}d")(
            *getattr(T.nn.functional, f"max_pool{d}d")(x, 2, return_indices=True), 2
        ),
        shape,
    )

# --- resampling -------------------------------------------------------------------------------------------------------

for shape, modes in (
    (S, "nearest linear area nearest-exact"),
    (X, "nearest bilinear bicubic area nearest-exact"),
    (V, "nearest trilinear area nearest-exact"),
    ((1, 4, 5, 6), "nearest bilinear bicubic"),
    ((2, 1, 5, 6), "nearest bilinear bicubic"),
    ((2, 4, 1, 1), "nearest bilinear bicubic"),
    ((2, 3, 5, 6), "nearest bilinear bicubic nearest-exact"),
):
    for mode in modes.split():
        for factor in (2, 0.5, 1):
            if shape[-1] == 1 and factor == 0.5:
                continue
            case(
                f"interpolate {mode} {factor}{shape}", functional("interpolate", scale_factor=factor, mode=mode), shape
            )
        if "linear" in mode or mode == "bicubic":
            case(
                f"interpolate {mode} corners{shape}",
                functional("interpolate", scale_factor=2, mode=mode, align_corners=True),
                shape,
            )
for mode in ("bilinear", "bicubic"):
    case(f"interpolate {mode} antialias", functional("interpolate", scale_factor=2, mode=mode, antialias=True), X)
    case(
        f"interpolate {mode} antialias 3",
        functional("interpolate", scale_factor=2, mode=mode, antialias=True),
        (2, 3, 5, 6),
    )
for mode in ("bilinear", "nearest", "bicubic"):
    for padding in ("zeros", "border", "reflection"):
        case(
            f"grid_sample {mode} {padding}",
            lambda T, x, g, mode=mode, padding=padding: T.nn.functional.grid_sample(
                x, g, mode, padding, align_corners=False
            ),
            X,
            (2, 3, 3, 2),
        )
case("grid_sample 3d", lambda T, x, g: T.nn.functional.grid_sample(x, g, align_corners=False), V, (2, 3, 3, 2, 3))
case("affine_grid", lambda T, x: T.nn.functional.affine_grid(x, (2, 3, 4, 4), align_corners=False), (2, 2, 3))
for mode in ("constant", "reflect", "replicate", "circular"):
    for shape, widths in (
        (S, (1, 2)),
        (X, (1, 2, 1, 1)),
        (V, (1, 2, 1, 1, 1, 1)),
        ((2, 1, 5, 6), (1, 2, 1, 1)),
        ((1, 4, 5, 6), (1, 2, 1, 1)),
    ):
        case(f"pad {mode}{shape}", functional("pad", widths, mode), shape)
    case(f"pad {mode} unbatched", functional("pad", (1, 2, 1, 1), mode), (4, 5, 6))
case("pad channels", functional("pad", (0, 0, 0, 0, 1, 1)), X)
case("pad negative", functional("pad", (-1, 0, 0, 0)), X)
case("pad none", functional("pad", (0, 0, 0, 0)), X)
case("pad matrix", functional("pad", (1, 1)), M)
case("pixel_shuffle", functional("pixel_shuffle", 2), (2, 8, 3, 4))
case("pixel_unshuffle", functional("pixel_unshuffle", 2), (2, 3, 4, 6))
case("pixel_shuffle 1", functional("pixel_shuffle", 2), (2, 4, 3, 4))
case("channel_shuffle", functional("channel_shuffle", 2), (2, 8, 3, 4))
case("native_channel_shuffle", lambda T, x: T.native_channel_shuffle(x, 2), (2, 8, 3, 4))
case("unfold", functional("unfold", 2), X)
case("fold", functional("fold", (4, 4), 2, stride=2), (2, 8, 4))
case("fold one", functional("fold", (4, 4), 2, stride=2), (8, 4))

# --- norms ------------------------------------------------------------------------------------------------------------


def batch_norm(train, affine=True):
    def call(T, x):
        c = x.shape[1]
        w = T.arange(c, dtype=x.dtype) + 1 if affine else None
        b = T.ones(c) if affine else None
        return T.nn.functional.batch_norm(x, T.zeros(c), T.ones(c), w, b, train)

    return call


for shape in (M, S, X, V, (1, 4, 5, 6), (2, 1, 5, 6), (2, 4, 1, 1)):
    for train in (False, True):
        case(f"batch_norm {train}{shape}", batch_norm(train), shape)
        case(f"batch_norm plain {train}{shape}", batch_norm(train, False), shape)
    case(f"batch_norm no stats{shape}", lambda T, x: T.nn.functional.batch_norm(x, None, None, training=True), shape)
    case(
        f"native_batch_norm{shape}", lambda T, x: T.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5), shape
    )
    if shape[1] == 4:
        case(f"group_norm{shape}", functional("group_norm", 2), shape)
        case(f"group_norm affine{shape}", lambda T, x: T.nn.functional.group_norm(x, 2, T.ones(4), T.ones(4)), shape)
    case(f"group_norm 1{shape}", functional("group_norm", 1), shape)
    if len(shape) > 2 and shape[-1] > 1:
        case(f"instance_norm{shape}", functional("instance_norm"), shape)
        case(
            f"instance_norm affine{shape}",
            lambda T, x: T.nn.functional.instance_norm(x, None, None, T.ones(x.shape[1]), T.ones(x.shape[1])),
            shape,
        )
        case(
            f"instance_norm stats{shape}",
            lambda T, x: T.nn.functional.instance_norm(
                x, T.zeros(x.shape[1]), T.ones(x.shape[1]), use_input_stats=False
            ),
            shape,
        )
        case(f"local_response_norm{shape}", functional("local_response_norm", 2), shape)
    case(f"layer_norm{shape}", lambda T, x: T.nn.functional.layer_norm(x, x.shape[1:]), shape)
    case(
        f"layer_norm last{shape}",
        lambda T, x: T.nn.functional.layer_norm(x, x.shape[-1:], T.ones(x.shape[-1]), T.ones(x.shape[-1])),
        shape,
    )
    case(f"rms_norm{shape}", lambda T, x: T.nn.functional.rms_norm(x, x.shape[-1:]), shape)

# --- losses -----------------------------------------------------------------------------------------------------------

for shape in (M, X):
    for name in "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy_with_logits soft_margin_loss".split():
        for reduction in ("none", "mean"):
            case(f"{name} {reduction}{shape}", functional(name, reduction=reduction), shape, shape)
    case(f"kl_div{shape}", functional("kl_div", reduction="none"), shape, shape)
    case(f"cosine_similarity{shape}", functional("cosine_similarity"), shape, shape)
for reduction in ("none", "mean"):
    case(
        f"cross_entropy {reduction}",
        functional("cross_entropy", reduction=reduction),
        X,
        (2, 5, 6),
        dtypes=["float32", "long"],
    )
    case(f"nll_loss {reduction}", functional("nll_loss", reduction=reduction), X, (2, 5, 6), dtypes=["float32", "long"])
    case(
        f"cross_entropy matrix {reduction}",
        functional("cross_entropy", reduction=reduction),
        M,
        (3,),
        dtypes=["float32", "long"],
    )
    case(f"cross_entropy soft {reduction}", functional("cross_entropy", reduction=reduction), X, X)

# --- fourier and linear algebra, small ----------------------------------------------------------------------------------

case("fft", lambda T, x: T.fft.fft(x), M)
case("fft 0", lambda T, x: T.fft.fft(x, dim=0), M)
case("rfft", lambda T, x: T.fft.rfft(x), M)
case("fft2", lambda T, x: T.fft.fft2(x), X)
case("irfft", lambda T, x: T.fft.irfft(x), M)
case("inv", lambda T, x: T.linalg.inv(x + 3 * T.eye(4)), (4, 4))
case("solve", lambda T, x, y: T.linalg.solve(x + 3 * T.eye(4), y), (4, 4), (4, 2))
case("cholesky", lambda T, x: T.linalg.cholesky(x @ x.mT + 3 * T.eye(4)), (4, 4))
case("qr", lambda T, x: T.linalg.qr(x), (4, 4), grad=False)
case("svd", lambda T, x: T.linalg.svd(x), (4, 3), grad=False, values=False)
case("eigh", lambda T, x: T.linalg.eigh(x + x.mT), (4, 4), grad=False, values=False)
case("det", lambda T, x: T.linalg.det(x), (4, 4))
