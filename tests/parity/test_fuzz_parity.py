"""Fuzz: random shapes, layouts, dtypes and numbers through operators, beside torch; the same examples in every run."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz import DTYPES, FLOATS, Size, TensorSpec, broadcastable, compare, compare_call, made, numbers, shapes, tensors

EVERYDAY = ("float32", "float64", "int64", "int32", "uint8", "bool", "complex64")
REAL = ("float32", "float64", "int64", "int32", "uint8", "bool")


def fuzz(examples: int) -> Any:
    return settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


# --- elementwise ------------------------------------------------------------------------------------------------------

UNARY = """abs acos acosh angle asin asinh atan atanh bitwise_not ceil clone conj_physical cos cosh deg2rad digamma erf
erfc erfinv exp exp2 expm1 fix floor frac isfinite isinf isnan isneginf isposinf isreal lgamma log log10 log1p log2
logical_not logit nan_to_num neg positive rad2deg reciprocal relu round rsqrt sgn sigmoid sign signbit sin sinc sinh
special.entr special.erfcx special.i0 special.ndtr sqrt square tan tanh trunc""".split()


@fuzz(400)
@given(name=st.sampled_from(UNARY), x=tensors(dtypes=DTYPES, special=True))
def test_unary(name: str, x: TensorSpec) -> None:
    if name.startswith("special.") and x.dtype == "float16":
        x = x._replace(dtype="float32")  # torch has few of them for halves
    compare_call(name, [x], rough=10)


BINARY = """add sub mul div floor_divide remainder fmod pow maximum minimum fmax fmin atan2 hypot eq ne lt le gt ge
logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor copysign logaddexp xlogy true_divide float_power
rsub heaviside gcd""".split()


@st.composite
def operands(draw: Any) -> list[Any]:
    first, second = draw(broadcastable(2))
    a, b = draw(tensors(st.just(first), EVERYDAY)), draw(tensors(st.just(second), EVERYDAY))
    kind = draw(st.integers(0, 4))
    return [a, draw(numbers)] if kind == 0 else [draw(numbers), b] if kind == 1 else [a, b]


@fuzz(600)
@given(name=st.sampled_from(BINARY), args=operands())
def test_binary(name: str, args: list[Any]) -> None:
    if "bitwise" in name and all(isinstance(a, TensorSpec) for a in args):
        args[1] = args[1]._replace(shape=args[0].shape)  # which of two faults is named is torch's own choice
    compare_call(name, args, rough=10)


IN_PLACE = "add_ sub_ mul_ div_ pow_ eq_ masked_fill_ logical_and_ fill_".split()


@fuzz(250)
@given(name=st.sampled_from(IN_PLACE), args=operands(), mask=tensors(shapes(0, 2), ("bool",)))
def test_in_place(name: str, args: list[Any], mask: TensorSpec) -> None:
    if not isinstance(args[0], TensorSpec):
        args = args[::-1]
    if name == "masked_fill_":
        args = [args[0], mask, args[1]]
    compare_call("." + name, args)


@fuzz(200)
@given(
    name=st.sampled_from(["where", "lerp", "addcmul", "addcdiv", "clamp"]),
    shape=broadcastable(3),
    dtypes=st.lists(st.sampled_from(REAL), min_size=3, max_size=3),
    layout=st.sampled_from(["plain", "transposed", "stepped"]),
)
def test_ternary(name: str, shape: list[tuple[int, ...]], dtypes: list[str], layout: str) -> None:
    args = [TensorSpec(s, d, layout, i) for i, (s, d) in enumerate(zip(shape, dtypes))]
    if name == "where":
        args[0] = args[0]._replace(dtype="bool")
    elif name in ("lerp", "addcdiv", "addcmul"):
        args = [a._replace(dtype="float32") for a in args[:2]] + [args[2]._replace(dtype="float32")]
    compare_call(name, args)


# --- reductions -------------------------------------------------------------------------------------------------------

REDUCTIONS = """sum mean prod amax amin all any argmax argmin logsumexp std var nansum count_nonzero median max min
norm cumsum cumprod softmax""".split()
AXES = st.one_of(st.none(), st.integers(-4, 3), st.lists(st.integers(-3, 2), max_size=3).map(lambda d: Size(tuple(d))))


@fuzz(500)
@given(name=st.sampled_from(REDUCTIONS), x=tensors(dtypes=(*EVERYDAY, "float16")), dim=AXES, keepdim=st.booleans())
def test_reductions(name: str, x: TensorSpec, dim: Any, keepdim: bool) -> None:
    one_dim = ("prod", "argmax", "argmin", "median", "max", "min", "cumsum", "cumprod", "softmax")
    if isinstance(dim, Size) and (0 in x.shape or len(x.shape) < 3 or name == "logsumexp"):
        dim = Size(dim.values[:1] or (0,))  # which of two faults is named is torch's own choice
    if isinstance(dim, Size) and name in one_dim:
        dim = dim.values[0] if dim.values else None
    kwargs: dict[str, Any] = (
        {"keepdim": keepdim} if name not in ("count_nonzero", "cumsum", "cumprod", "softmax") else {}
    )
    if dim is None:
        kwargs = {}
    if dim is None and name in ("cumsum", "cumprod", "softmax", "logsumexp", "amax"):
        dim = -1
    if name in ("median", "max", "min", "softmax") and x.dtype != "float32":
        x = x._replace(dtype="float64")
    compare_call("." + name, [x] + ([] if dim is None else [dim]), kwargs, rough=100)


@fuzz(150)
@given(
    name=st.sampled_from(["sort", "topk", "kthvalue", "unique", "flip", "roll", "diff", "cummax", "argsort", "msort"]),
    x=tensors(dtypes=("float32", "int64", "float64")),
    dim=st.integers(-3, 2),
    k=st.integers(0, 3),
)
def test_order(name: str, x: TensorSpec, dim: int, k: int) -> None:
    # Places of equal values are torch's own choice, so values alone are compared.
    def call(framework: Any) -> Any:
        t = x.make(framework)
        match name:
            case "sort":
                return t.sort(dim=dim, stable=True)
            case "argsort":
                return t.argsort(dim=dim, stable=True)
            case "topk":
                return t.topk(k, dim)[0]
            case "kthvalue":
                return t.kthvalue(k, dim)[0]
            case "unique":
                return t.unique(return_inverse=True, return_counts=True)
            case "flip":
                return t.flip(dim)
            case "roll":
                return t.roll(k, dim)
            case "diff":
                return t.diff(k, dim)
            case "msort":
                return framework.msort(t)
        return t.cummax(dim)[0]

    compare(call, f"{name} of {x}, dim {dim}, k {k}")


# --- indexing ---------------------------------------------------------------------------------------------------------

bounds = st.one_of(st.none(), st.integers(-5, 5))
slices = st.builds(slice, bounds, bounds, st.sampled_from([None, 1, 2, 3, -1, 0]))
indices = st.one_of(
    st.integers(-4, 3),
    slices,
    st.none(),
    st.just(Ellipsis),
    st.booleans(),
    st.lists(st.integers(-2, 1), min_size=1, max_size=3),
    tensors(shapes(0, 2), ("bool",), layouts=("plain",)),
    st.builds(TensorSpec, shapes(0, 2), st.sampled_from(["int64", "uint8"]), st.just("plain"), st.integers(0, 3)),
)


@fuzz(600)
@given(x=tensors(shapes(0, 4), ("float32", "int64")), index=st.lists(indices, min_size=1, max_size=3))
def test_indexing(x: TensorSpec, index: list[Any]) -> None:
    compare(lambda f: x.make(f)[made(tuple(index) if len(index) > 1 else index[0], f)], f"{x}[{index}]")


@fuzz(400)
@given(
    x=tensors(shapes(0, 3), ("float32", "int64"), layouts=("plain", "transposed", "stepped")),
    index=st.lists(indices, min_size=1, max_size=2),
    value=st.one_of(numbers, tensors(shapes(0, 2), ("float32", "int64"))),
)
def test_assignment(x: TensorSpec, index: list[Any], value: Any) -> None:
    def call(framework: Any) -> Any:
        t = x.make(framework)
        t[made(tuple(index) if len(index) > 1 else index[0], framework)] = made(value, framework)
        return t

    index = [i._replace(dtype="int64") if isinstance(i, TensorSpec) and i.dtype == "uint8" else i for i in index]
    # Which of several values wins a place is not defined: integer tensors repeat places.
    if any(isinstance(i, list) or (isinstance(i, TensorSpec) and i.dtype == "int64") for i in index):
        value = 3
    compare(call, f"{x}[{index}] = {value}")


GATHERS = "gather index_select take take_along_dim scatter_add index_add index_fill masked_select nonzero".split()


@fuzz(300)
@given(
    name=st.sampled_from(GATHERS),
    x=tensors(shapes(0, 3), ("float32", "int64")),
    index=tensors(shapes(0, 3), ("uint8",)),
    dim=st.integers(-3, 2),
)
def test_gathering(name: str, x: TensorSpec, index: TensorSpec, dim: int) -> None:
    if 0 in x.shape:
        x = x._replace(shape=tuple(max(n, 1) for n in x.shape))  # torch looks at no index where nothing is there

    def call(framework: Any) -> Any:
        t, places = x.make(framework), index.make(framework).long() % 3
        match name:
            case "take":
                return t.take(places)
            case "scatter_add":
                return t.scatter_add(dim, places, framework.ones_like(places).to(t.dtype))
            case "index_add":
                return t.index_add(dim, places, framework.ones_like(t))
            case "index_fill":
                return t.index_fill(dim, places, 7)
            case "masked_select":
                return t.masked_select(places > 0)
            case "nonzero":
                return t.nonzero()
            case "take_along_dim":
                return framework.take_along_dim(t, places, dim)
        return getattr(t, name)(dim, places)

    compare(call, f"{name} of {x} at {index}, dim {dim}")


# --- shapes -----------------------------------------------------------------------------------------------------------

small = st.integers(-3, 3)
SHAPE_CALLS: dict[str, st.SearchStrategy[list[Any]]] = {
    "reshape": st.lists(st.integers(-1, 6), max_size=4).map(lambda v: [Size(tuple(v))]),
    "view": st.lists(st.integers(-1, 6), max_size=4).map(lambda v: [Size(tuple(v))]),
    "permute": st.permutations([0, 1, 2]).map(lambda v: [Size(tuple(v))]),
    "transpose": st.lists(small, min_size=2, max_size=2),
    "swapaxes": st.lists(small, min_size=2, max_size=2),
    "movedim": st.lists(small, min_size=2, max_size=2),
    "squeeze": st.lists(small, max_size=1),
    "unsqueeze": st.lists(st.integers(-5, 4), min_size=1, max_size=1),
    "flatten": st.lists(small, max_size=2),
    "expand": st.lists(st.integers(-1, 4), max_size=4).map(lambda v: [Size(tuple(v))]),
    "repeat": st.lists(st.integers(-1, 3), max_size=4).map(lambda v: [Size(tuple(v))]),
    "tile": st.lists(st.integers(0, 3), max_size=4).map(lambda v: [Size(tuple(v))]),
    "flip": st.lists(small, max_size=1).map(lambda v: [Size(tuple(v))]),
    "rot90": st.lists(small, min_size=1, max_size=1),
    "narrow": st.lists(small, min_size=3, max_size=3),
    "select": st.lists(small, min_size=2, max_size=2),
    "split": st.lists(small, min_size=1, max_size=2),
    "chunk": st.tuples(st.integers(1, 3), small).map(list),
    "tensor_split": st.lists(small, min_size=1, max_size=2),
    "unbind": st.lists(small, max_size=1),
    "unfold": st.lists(small, min_size=3, max_size=3),
    "diagonal": st.lists(small, max_size=3),
    "diag": st.lists(small, max_size=1),
    "tril": st.lists(small, max_size=1),
    "triu": st.lists(small, max_size=1),
    "diag_embed": st.lists(small, max_size=1),
    "broadcast_to": st.lists(st.integers(-1, 4), max_size=4).map(lambda v: [Size(tuple(v))]),
    "repeat_interleave": st.lists(small, min_size=1, max_size=2),
    "contiguous": st.just([]),
    "mT": st.just([]),
    "unflatten": st.tuples(small, st.lists(st.integers(-1, 4), min_size=1, max_size=2)).map(
        lambda v: [v[0], Size(tuple(v[1]))]
    ),
}


@st.composite
def shape_calls(draw: Any) -> tuple[str, list[Any]]:
    name = draw(st.sampled_from(sorted(SHAPE_CALLS)))
    return name, draw(SHAPE_CALLS[name])


@fuzz(600)
@given(x=tensors(dtypes=("float32", "int64")), call=shape_calls())
def test_shapes(x: TensorSpec, call: tuple[str, list[Any]]) -> None:
    name, args = call
    if name == "mT":
        compare(lambda f: x.make(f).mT, f"{x}.mT")
    else:
        compare_call("." + name, [x, *args])


@fuzz(200)
@given(
    name=st.sampled_from(["cat", "stack", "hstack", "vstack", "dstack", "block_diag", "broadcast_tensors", "meshgrid"]),
    shape=broadcastable(3, 3),
    dtypes=st.lists(st.sampled_from(EVERYDAY), min_size=3, max_size=3),
    dim=st.integers(-3, 2),
    equal=st.booleans(),
)
def test_joining(name: str, shape: list[tuple[int, ...]], dtypes: list[str], dim: int, equal: bool) -> None:
    parts = [TensorSpec(shape[0] if equal else s, d, "plain", i) for i, (s, d) in enumerate(zip(shape, dtypes))]
    if name in ("block_diag", "broadcast_tensors"):
        compare_call(name, parts)
    elif name == "meshgrid":
        compare_call(name, parts, {"indexing": "ij"})
    else:
        compare_call(name, [parts] + ([dim] if name in ("cat", "stack") else []))


# --- products ---------------------------------------------------------------------------------------------------------


@st.composite
def factors(draw: Any) -> list[Any]:
    n, m, k = (draw(st.sampled_from([0, 1, 2, 3])) for _ in range(3))
    lead = draw(broadcastable(2, 2))
    a, b = (*lead[0], n, m), (*lead[1], m, k)
    if draw(st.integers(0, 5)) == 0:
        a = a[-1:]
    if draw(st.integers(0, 5)) == 0:
        b = (*b[:-2], b[-2]) if len(b) == 2 else b
    dtypes = draw(st.sampled_from([("float32", "float32"), ("float64", "float64"), ("int64", "int64"),
                                   ("complex64", "complex64"), ("float32", "float64"), ("float32", "int64")]))  # fmt: skip
    layouts = draw(st.tuples(*[st.sampled_from(["plain", "transposed", "stepped", "expanded"])] * 2))
    return [TensorSpec(s, d, layout, i) for i, (s, d, layout) in enumerate(zip((a, b), dtypes, layouts))]


@fuzz(400)
@given(name=st.sampled_from(["matmul", "mm", "bmm", "mv", "dot", "inner", "outer", "kron", "vdot"]), args=factors())
def test_products(name: str, args: list[Any]) -> None:
    if any(0 in a.shape for a in args):
        args[1] = args[1]._replace(dtype=args[0].dtype)  # of dtypes torch takes no notice where nothing is computed
    if name == "kron":
        args = [a._replace(layout="plain") for a in args]  # torch views its product, which layouts can forbid
    compare_call(name, args, rough=20)


@pytest.mark.parametrize("dtype", [*FLOATS, "int64", "bool", "complex64"])
@fuzz(60)
@given(x=tensors(shapes(0, 3)), target=st.sampled_from(DTYPES))
def test_conversion(dtype: str, x: TensorSpec, target: str) -> None:
    if target == "uint8" and dtype != "bool":
        target = "int32"  # what becomes of a negative number is left open
    x = x._replace(dtype=dtype)
    compare_call(".to", [x, f"dtype:{target}"])
