"""torch.utils._pytree: taking nests of containers apart into leaves, and putting them together again."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

PyTree = Any
Context = Any


class NodeDef(NamedTuple):
    """How one kind of container is taken apart and put together."""

    type: type
    flatten_fn: Callable[[Any], tuple[list[Any], Any]]
    unflatten_fn: Callable[[Iterable[Any], Any], Any]


SUPPORTED_NODES: dict[Any, NodeDef] = {}


def register_pytree_node(cls: Any, flatten_fn: Any, unflatten_fn: Any, **options: Any) -> None:
    """Have instances of `cls` taken apart like containers."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn)


_register_pytree_node = register_pytree_node


def _values_and_keys(d: Any) -> tuple[list[Any], Any]:
    return list(d.values()), list(d)


class MappingKey(NamedTuple):
    """A step of a path into a nest: the key of a mapping."""

    key: Any


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], Any]:
    """How dicts are taken apart; libraries register their own mappings with these three."""
    return _values_and_keys(d)


def _dict_unflatten(values: Iterable[Any], context: Any) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[MappingKey, Any]], Any]:
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


SUPPORTED_NODES.update(
    {
        dict: NodeDef(dict, _dict_flatten, _dict_unflatten),
        list: NodeDef(list, lambda x: (x, None), lambda v, _: list(v)),
        tuple: NodeDef(tuple, lambda x: (list(x), None), lambda v, _: tuple(v)),
        namedtuple: NodeDef(tuple, lambda x: (list(x), type(x)), lambda v, cls: cls(*v)),
        OrderedDict: NodeDef(OrderedDict, _values_and_keys, lambda v, k: OrderedDict(zip(k, v, strict=True))),
        defaultdict: NodeDef(
            defaultdict,
            lambda d: (list(d.values()), [d.default_factory, list(d)]),
            lambda v, c: defaultdict(c[0], zip(c[1], v, strict=True)),
        ),
        deque: NodeDef(deque, lambda d: (list(d), d.maxlen), lambda v, n: deque(v, maxlen=n)),
    }
)


def _is_namedtuple(tree: Any) -> bool:
    return isinstance(tree, tuple) and hasattr(tree, "_fields")


def _get_node_type(tree: Any) -> Any:
    return namedtuple if _is_namedtuple(tree) else type(tree)


class TreeSpec:
    """The shape of a nest: its container, what it needs beside its children, and theirs."""

    def __init__(self, type: Any, context: Any, children_specs: list[TreeSpec]) -> None:
        self.type, self.context, self.children_specs = type, context, children_specs
        self.num_nodes: int = 1 + sum(c.num_nodes for c in children_specs)
        self.num_leaves: int = sum(c.num_leaves for c in children_specs) if type is not None else 1
        self.num_children = len(children_specs)

    def is_leaf(self) -> bool:
        return self.type is None

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TreeSpec)
            and (self.type, self.context) == (other.type, other.context)
            and self.children_specs == other.children_specs
        )

    def __hash__(self) -> int:
        return hash((self.type, repr(self.context), self.num_leaves))

    def __repr__(self, indent: int = 0) -> str:
        if self.is_leaf():
            return "*"
        inner = (",\n" + " " * (indent + 2)).join(c.__repr__(indent + 2) for c in self.children_specs)
        return f"TreeSpec({self.type.__name__}, {self.context}, [{inner}])"

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        return tree_unflatten(leaves, self)


class LeafSpec(TreeSpec):
    """The shape of a single leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])


def tree_is_leaf(tree: Any, is_leaf: Any = None) -> bool:
    return (is_leaf is not None and is_leaf(tree)) or _get_node_type(tree) not in SUPPORTED_NODES


def tree_flatten(tree: Any, is_leaf: Any = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a nest in order, and its shape."""
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves, is_leaf)


def _flatten(tree: Any, leaves: list[Any], is_leaf: Any) -> TreeSpec:
    if tree_is_leaf(tree, is_leaf):
        leaves.append(tree)
        return LeafSpec()
    kind = _get_node_type(tree)
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten(child, leaves, is_leaf) for child in children])


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The nest of a shape with other leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"tree_unflatten(leaves, treespec): expected a TreeSpec, got {type(treespec).__name__}")
    given = list(leaves)
    if len(given) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten(leaves, treespec): `leaves` has length {len(given)} but the spec refers to a pytree that "
            f"holds {treespec.num_leaves} items ({treespec})."
        )
    return _unflatten(iter(given), treespec)


def _unflatten(leaves: Any, spec: TreeSpec) -> Any:
    if spec.is_leaf():
        return next(leaves)
    children = [_unflatten(leaves, child) for child in spec.children_specs]
    return SUPPORTED_NODES[spec.type].unflatten_fn(children, spec.context)


def tree_leaves(tree: Any, is_leaf: Any = None) -> list[Any]:
    return tree_flatten(tree, is_leaf)[0]


tree_iter = tree_leaves


def tree_structure(tree: Any, is_leaf: Any = None) -> TreeSpec:
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Any, tree: Any, *rests: Any, is_leaf: Any = None) -> Any:
    """A nest of what `func` gives for each leaf (and for the parts of `rests` in the same places)."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [_flatten_up_to(spec, rest) for rest in rests]
    return spec.unflatten([func(*values) for values in zip(leaves, *others, strict=True)])


def _flatten_up_to(spec: TreeSpec, tree: Any) -> list[Any]:
    if spec.is_leaf():
        return [tree]
    if _get_node_type(tree) is not spec.type:
        raise ValueError(f"Type mismatch; expected {spec.type.__name__}, but got {type(tree).__name__}.")
    children = SUPPORTED_NODES[spec.type].flatten_fn(tree)[0]
    if spec.type is dict:
        children = [tree[key] for key in spec.context]
    if len(children) != spec.num_children:
        raise ValueError(f"Node arity mismatch; expected {spec.num_children}, but got {len(children)}.")
    return [v for child, part in zip(spec.children_specs, children, strict=True) for v in _flatten_up_to(child, part)]


def tree_map_(func: Any, tree: Any, *rests: Any, is_leaf: Any = None) -> Any:
    """Call `func` for each leaf and give the nest back."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(type_or_types: Any, func: Any = None, tree: Any = None, is_leaf: Any = None) -> Any:
    """Like tree_map, for the leaves of some types; a predicate may stand for the types."""
    wanted = type_or_types if not isinstance(type_or_types, (type, tuple)) else None
    return tree_map(
        lambda x: func(x) if (wanted(x) if wanted is not None else isinstance(x, type_or_types)) else x,
        tree,
        is_leaf=is_leaf,
    )


def tree_all(pred: Any, tree: Any, is_leaf: Any = None) -> bool:
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Any, tree: Any, is_leaf: Any = None) -> bool:
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(kind: Any, pred: Any, tree: Any, is_leaf: Any = None) -> bool:
    return all(pred(x) for x in tree_leaves(tree, is_leaf) if isinstance(x, kind))


def tree_any_only(kind: Any, pred: Any, tree: Any, is_leaf: Any = None) -> bool:
    return any(pred(x) for x in tree_leaves(tree, is_leaf) if isinstance(x, kind))
