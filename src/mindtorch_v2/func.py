"""torch.func: functions made from functions: gradients, Jacobians, batches, and modules called with given parameters.

Differentiation is the engine's, in reverse; products with a Jacobian from the right take it twice. A function sees
stand-ins of the tensors it is differentiated by, so what it computes joins the caller's graph only where it depends on
something the caller differentiates by.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from .autograd.entry import grad as _gradients
from .autograd.function import PUSHING
from .autograd.grad_mode import enable_grad, is_grad_enabled
from .core.tensor import Tensor
from .nn.modules.batchnorm import _BatchNorm
from .nn.utils.stateless import _functional_call
from .ops.creation.fill import zeros_like
from .ops.creation.seeds import get_rng_state, set_rng_state
from .ops.shape.join import stack
from .utils._pytree import tree_flatten, tree_leaves, tree_map_only, tree_unflatten

Function = Callable[..., Any]

# --- stand-ins --------------------------------------------------------------------------------------------------------

_SERVED: weakref.WeakValueDictionary[int, Tensor] = (
    weakref.WeakValueDictionary()
)  # stand-ins of transforms that are over


def _stand_in(tensor: Any) -> Any:
    """A tensor to differentiate by, in another's place; a part of the caller's graph if that one is."""
    joined = tensor.requires_grad and is_grad_enabled()
    return tensor.view_as(tensor) if joined else tensor.detach().requires_grad_()


def _reaches_beyond(tensors: Sequence[Any]) -> bool:
    """Whether tensors depend on one that requires a gradient and is no stand-in that has served."""
    leaves = [t for t in tensors if t.requires_grad and t.grad_fn is None]
    waiting = [t.grad_fn for t in tensors if t.grad_fn is not None]
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if hasattr(node, "variable"):
            leaves.append(node.variable)
        waiting.extend(function for function, _ in node.next_functions if function is not None)
    return any(_SERVED.get(id(leaf)) is not leaf for leaf in leaves)


class _Run:
    """One call of a function on stand-ins, and what differentiating it gives."""

    def __init__(self, function: Function, args: Sequence[Any], kwargs: dict[str, Any], places: Sequence[int]) -> None:
        self.tracked = is_grad_enabled()
        leaves, self.input_tree = tree_flatten([args[place] for place in places])
        self.inputs = [_stand_in(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        given = list(args)
        for place, value in zip(places, tree_unflatten(self.inputs, self.input_tree)):
            given[place] = value
        with enable_grad():
            self.result = function(*given, **kwargs)
        self.inputs = [t for t in self.inputs if isinstance(t, Tensor)]
        _SERVED.update((id(t), t) for t in self.inputs if t.grad_fn is None)
        found = [t for t in tree_leaves(self.result) if isinstance(t, Tensor)]
        self.beyond = self.tracked and _reaches_beyond(found)

    def pull(self, outputs: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """The gradients by the inputs, zeros where there is no dependence."""
        linked = self.beyond or (is_grad_enabled() and _reaches_beyond(cotangents))
        return _pulled(outputs, self.inputs, cotangents, linked)

    def released(self, tree: Any) -> Any:
        """Results as the caller may have them: tensors that depend on nothing of the caller's are plain ones."""
        return tree if self.beyond else tree_map_only(Tensor, lambda t: t.detach(), tree)


def _pulled(outputs: Sequence[Any], inputs: Sequence[Any], cotangents: Sequence[Any], linked: bool) -> list[Any]:
    pairs = [(o, c) for o, c in zip(outputs, cotangents) if o.requires_grad]
    if not pairs:
        return [zeros_like(t) for t in inputs]
    roots, seeds = zip(*pairs)
    with enable_grad():
        found = _gradients(roots, inputs, seeds, retain_graph=True, create_graph=linked, allow_unused=True)
    return [zeros_like(t) if g is None else g for t, g in zip(inputs, found)]


def _places(argnums: Any, count: int) -> tuple[int, ...]:
    """The positions that argnums, an int or a tuple of them, mean among `count` arguments."""
    if not isinstance(argnums, (int, tuple)) or not all(isinstance(n, int) for n in _tupled(argnums)):
        raise RuntimeError(f"argnum must be int or Tuple[int], got: {type(argnums)}")
    if argnums == ():
        raise RuntimeError("argnum must be non-empty")
    for number in _tupled(argnums):
        if not -count <= number < count:
            raise RuntimeError(f"Got argnum={number}, but only {count} positional inputs")
    return tuple(number % count for number in _tupled(argnums))


def _tupled(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _parted(result: Any, has_aux: bool, name: str) -> tuple[Any, Any]:
    """What is differentiated and what only comes along."""
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(
            f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True, got {type(result)}"
        )
    return result


# --- gradients and products -------------------------------------------------------------------------------------------


def grad_and_value(func: Function, argnums: Any = 0, has_aux: bool = False) -> Function:
    """A function that gives the gradient of `func`, and its value (with `has_aux`: value and extras)."""

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        run = _Run(func, args, kwargs, _places(argnums, len(args)))
        output, extra = _parted(run.result, has_aux, "grad_and_value(f)(*args)")
        if not isinstance(output, Tensor):
            raise RuntimeError(f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(output)}")
        if output.dim() != 0:
            raise RuntimeError(
                "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with "
                f"{output.dim()} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
            )
        found = tree_unflatten(run.pull([output], [output.new_ones(())]), run.input_tree)
        gradient = tuple(found) if isinstance(argnums, tuple) else found[0]
        value = run.released(output)
        return gradient, ((value, run.released(extra)) if has_aux else value)

    return wrapper


def grad(func: Function, argnums: Any = 0, has_aux: bool = False) -> Function:
    """A function that gives the gradient of `func` by its arguments `argnums` (with `has_aux`: gradient and extras)."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapper


def _tensors_of(output: Any, name: str) -> tuple[list[Any], Any]:
    leaves, tree = tree_flatten(output)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(
                f"{name}: expected f(*primals) to return only tensors, got unsupported type {type(leaf)}"
            )
    return leaves, tree


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> Any:
    """func(*primals), and a function that multiplies a vector with the Jacobian; with `has_aux`, extras too."""
    run = _Run(func, primals, {}, range(len(primals)))
    output, extra = _parted(run.result, has_aux, "vjp(f, *primals)")
    outputs, tree = _tensors_of(output, "vjp(f, *primals)")

    def vjp_fn(*cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        vectors, given = tree_flatten(cotangents[0] if len(cotangents) == 1 else cotangents)
        if given != tree:
            raise RuntimeError(
                f"Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function. "
                f"cotangents: {given}, primal output: {tree}"
            )
        for number, (vector, value) in enumerate(zip(vectors, outputs)):
            if vector.shape != value.shape:
                raise RuntimeError(
                    f"Mismatch in shape: grad_output[{number}] has a shape of {vector.shape} and output[{number}] has a "
                    f"shape of {value.shape}."
                )
        return tuple(tree_unflatten(run.pull(outputs, vectors), run.input_tree))

    value = run.released(output)
    return (value, vjp_fn, run.released(extra)) if has_aux else (value, vjp_fn)


def _check_tangents(primals: Any, tangents: Any, name: str) -> None:
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{name}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    flat, tree = tree_flatten(primals)
    vectors, given = tree_flatten(tangents)
    if given != tree:
        raise RuntimeError(
            f"{name}: Expected primals and tangents to have the same python structure. For example, if primals is a tuple "
            f"of 3 tensors, tangents also must be. Got primals with structure {tree} and tangents with structure {given}"
        )
    for primal, tangent in zip(flat, vectors):
        if primal.shape != tangent.shape:
            raise RuntimeError(
                "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
                f"supported. Tensor is of size {list(primal.shape)} while the given forward gradient is of size "
                f"{list(tangent.shape)}."
            )


def _pusher(run: _Run, outputs: Sequence[Any]) -> Callable[[Sequence[Any]], list[Any]]:
    """A function that multiplies the Jacobian with a vector: v·J is linear in v, and its derivative by v is J."""
    probes = [zeros_like(o).requires_grad_() for o in outputs]
    _SERVED.update((id(p), p) for p in probes)
    token = PUSHING.set(True)
    try:
        rows = _pulled(outputs, run.inputs, probes, linked=True)
    finally:
        PUSHING.reset(token)

    def push(tangents: Sequence[Any]) -> list[Any]:
        return _pulled(rows, probes, tangents, run.beyond or (is_grad_enabled() and _reaches_beyond(tangents)))

    return push


def jvp(func: Function, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """func(*primals), and the product of its Jacobian with a vector (by differentiating twice); maybe extras."""
    _check_tangents(primals, tangents, "jvp(f, primals, tangents)")
    run = _Run(func, primals, {}, range(len(primals)))
    output, extra = _parted(run.result, has_aux, "jvp(f, primals, tangents)")
    outputs, tree = _tensors_of(output, "jvp(f, primals, tangents)")
    product = tree_unflatten(_pusher(run, outputs)(tree_leaves(tangents)), tree)
    value = run.released(output)
    return (value, product, run.released(extra)) if has_aux else (value, product)


def linearize(func: Function, *primals: Any) -> tuple[Any, Function]:
    """func(*primals), and a function that multiplies the Jacobian at that place with a vector."""
    run = _Run(func, primals, {}, range(len(primals)))
    outputs, tree = _tensors_of(run.result, "linearize(f, *primals)")
    push = _pusher(run, outputs)

    def jvp_fn(*tangents: Any) -> Any:
        _check_tangents(primals, tangents, "jvp_fn(*tangents)")
        return tree_unflatten(push(tree_leaves(tangents)), tree)

    return run.released(run.result), jvp_fn


# --- Jacobians --------------------------------------------------------------------------------------------------------


def _jacobian_rows(run: _Run, outputs: Sequence[Any], position: int) -> list[Any]:
    """The derivatives of one output by each input: a backward pass for each element of it."""
    output = outputs[position]
    rows: list[list[Any]] = [[] for _ in run.inputs]
    unit = zeros_like(output).reshape(-1)
    for number in range(output.numel()):
        seed = unit.clone()
        seed[number] = 1
        for row, gradient in zip(rows, run.pull([output], [seed.reshape(output.shape)])):
            row.append(gradient)
    return [
        (stack(row) if row else t.new_zeros((0, *t.shape))).reshape((*output.shape, *t.shape))
        for row, t in zip(rows, run.inputs)
    ]


def jacrev(
    func: Function,
    argnums: Any = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Function:
    """A function that gives the Jacobian of `func`, one backward pass a row (so `chunk_size` changes nothing)."""
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        run = _Run(func, args, kwargs, _places(argnums, len(args)))
        output, extra = _parted(run.result, has_aux, "jacrev")
        outputs, tree = _tensors_of(output, "vjp(f, *primals)")
        blocks = []
        for position in range(len(outputs)):
            block = tree_unflatten(_jacobian_rows(run, outputs, position), run.input_tree)
            blocks.append(tuple(block) if isinstance(argnums, tuple) else block[0])
        jacobian = tree_unflatten(blocks, tree)
        return (jacobian, run.released(extra)) if has_aux else jacobian

    return wrapper


def jacfwd(func: Function, argnums: Any = 0, has_aux: bool = False, *, randomness: str = "error") -> Function:
    """A function that gives the Jacobian of `func`: the same as `jacrev`'s, and found by rows as there."""
    return jacrev(func, argnums, has_aux=has_aux)


def hessian(func: Function, argnums: Any = 0) -> Function:
    """A function that gives the Hessian of `func`: the Jacobian of its Jacobian."""
    return jacfwd(jacrev(func, argnums), argnums)


# --- batches ----------------------------------------------------------------------------------------------------------


def _is_dim(value: Any) -> bool:
    return value is None or isinstance(value, int)


def _spread(dims: Any, tree: Any) -> list[Any] | None:
    """A dimension for each leaf of a tree, of a tree of dimensions that may end earlier; None if they do not fit."""
    if _is_dim(dims):
        return [dims] * len(tree_leaves(tree, is_leaf=lambda t: t is None))
    if isinstance(dims, (tuple, list)) and isinstance(tree, (tuple, list)) and len(dims) == len(tree):
        parts = [_spread(d, t) for d, t in zip(dims, tree)]
    elif isinstance(dims, dict) and isinstance(tree, dict) and dims.keys() == tree.keys():
        parts = [_spread(dims[key], tree[key]) for key in tree]
    else:
        return None
    return (
        None
        if any(p is None for p in parts)
        else list(itertools.chain.from_iterable(p for p in parts if p is not None))
    )


def _batch_size(name: str, in_dims: Any, leaves: Sequence[Any], dims: Sequence[Any]) -> int:
    start = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): "
    for leaf, dim in zip(leaves, dims):
        if dim is None:
            continue
        if not isinstance(leaf, Tensor):
            raise ValueError(
                f"{start}Got in_dim={dim} for an input but the input is of type {type(leaf)}. We cannot vmap over "
                "non-Tensor arguments, please use None as the respective in_dim"
            )
        if not -leaf.dim() <= dim < leaf.dim():
            raise ValueError(
                f"{start}Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {leaf.dim()} so "
                f"expected in_dim to satisfy -{leaf.dim()} <= in_dim < {leaf.dim()}."
            )
    sizes = [leaf.shape[dim] for leaf, dim in zip(leaves, dims) if dim is not None]
    if not sizes:
        raise ValueError("vmap: at least one input needs a dimension to map over, but all in_dims are None")
    if any(size != sizes[0] for size in sizes):
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the mapped "
            "dimension"
        )
    if sizes[0] == 0:
        raise ValueError("vmap: the mapped dimension has size 0, which a loop over it can give no result for")
    return int(sizes[0])


def _joined(name: str, results: Sequence[Any], out_dims: Any) -> Any:
    """One result of those of all samples, stacked at `out_dims`."""
    flat = [tree_flatten(result, is_leaf=lambda t: t is None)[0] for result in results]
    tree = tree_flatten(results[0], is_leaf=lambda t: t is None)[1]
    dims = (
        _spread(_tupled(out_dims), _tupled(results[0]))
        if isinstance(out_dims, tuple)
        else _spread(out_dims, results[0])
    )
    if dims is None:
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of "
            f"`outputs`. out_dims has structure {tree_flatten(out_dims)[1]} but outputs has structure {tree}."
        )
    made = []
    for values, dim in zip(zip(*flat), dims):
        if dim is None:
            made.append(values[0])
            continue
        if not isinstance(values[0], Tensor):
            raise ValueError(
                f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(values[0])}. Did you mean to set "
                "out_dims= to None for output?"
            )
        made.append(stack(list(values), dim))
    return tree_unflatten(made, tree)


class _Randomness:
    """What random numbers do between the samples of a batch: differ, stay the same, or raise."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.start: Any = None if mode == "different" else get_rng_state()

    def before_sample(self) -> None:
        if self.mode == "same":
            set_rng_state(self.start)

    def after_sample(self) -> None:
        if self.mode == "error" and not get_rng_state().equal(self.start):
            raise RuntimeError(
                "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
                "randomness flags on vmap or perform the randomness operation out of vmap"
            )


def vmap(
    func: Function, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None
) -> Function:
    """A function that applies `func` to every sample of a batch.

    It is a loop: `func` runs once for each sample and the results are stacked, so it saves writing, not time, and
    `chunk_size` changes nothing. Keyword arguments go to every sample whole. A function may call `.item()` or branch on
    values here, which torch refuses. With `randomness="different"` each sample draws its own numbers, in another order
    than torch's.
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")
    name = getattr(func, "__name__", repr(func))

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        leaves, tree, dims = _mapped_inputs(name, in_dims, args)
        results, random = [], _Randomness(randomness)
        for number in range(_batch_size(name, in_dims, leaves, dims)):
            sample = [t if d is None else t.select(d, number) for t, d in zip(leaves, dims)]
            random.before_sample()
            results.append(func(*tree_unflatten(sample, tree), **kwargs))
            random.after_sample()
        return _joined(name, results, out_dims)

    return wrapper


def _mapped_inputs(name: str, in_dims: Any, args: tuple[Any, ...]) -> tuple[list[Any], Any, list[Any]]:
    """The arguments' leaves, the tree they are of, and the dimension each is mapped over."""
    start = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): "
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"{start}expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, got: "
            f"{type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
            "function with no inputs. The latter is unsupported."
        )
    leaves, tree = tree_flatten(args, is_leaf=lambda t: t is None)
    dims = _spread(in_dims, args)
    if dims is None:
        raise ValueError(
            f"{start}in_dims is not compatible with the structure of `inputs`. in_dims has structure "
            f"{tree_flatten(in_dims)[1]} but inputs has structure {tree}."
        )
    return leaves, tree, dims


# --- modules ----------------------------------------------------------------------------------------------------------


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """The result of a module with the given parameters and buffers in place of its own."""
    given = parameter_and_buffer_dicts
    if not isinstance(given, dict):
        if not isinstance(given, Sequence) or not all(isinstance(d, dict) for d in given):
            raise ValueError(
                "Expected all elements of parameter_and_buffer_dicts to be dictionaries, got "
                f"{type(given) if not isinstance(given, Sequence) else [type(d) for d in given]}"
            )
        names = [name for d in given for name in d]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(
                f"{repeated[0]} appeared in multiple dictionaries; behavior of functional call is ambiguous"
            )
        given = {name: value for d in given for name, value in d.items()}
    return _functional_call(module, given, args, kwargs, tie_weights=tie_weights, strict=strict)


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the buffers of several modules of one class, stacked: one more first dimension each."""
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or all(not m.training for m in models)):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = [dict(m.named_parameters()) for m in models]
    buffers = [dict(m.named_buffers()) for m in models]
    return (
        {name: _stacked_leaf([p[name] for p in parameters], name) for name in parameters[0]},
        {name: _stacked_leaf([b[name] for b in buffers], name) for name in buffers[0]},
    )


def _stacked_leaf(tensors: Sequence[Any], name: str) -> Any:
    wanted = {t.requires_grad for t in tensors}
    if len(wanted) > 1:
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    return stack([t.detach() for t in tensors]).requires_grad_(wanted.pop())


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Make every batch norm inside a module, in place, normalize by its batch alone and keep no running statistics."""
    for module in root.modules():
        if isinstance(module, _BatchNorm) and module.track_running_stats:
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]
