"""Arguments that are of the wrong type, or that nothing here can fulfil, are refused; none is accepted and forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.dispatch.op import OPS
from op_samples import SAMPLES

x = torch.ones(3)

FACTORIES: dict[str, Callable[..., Any]] = {
    "zeros": lambda **given: torch.zeros(2, **given),
    "ones": lambda **given: torch.ones((2,), **given),
    "empty": lambda **given: torch.empty(0, **given),
    "full": lambda **given: torch.full((2,), 1.0, **given),
    "scalar_tensor": lambda **given: torch.scalar_tensor(1.0, **given),
    "empty_strided": lambda **given: torch.empty_strided((2,), (1,), **given),
    "empty_permuted": lambda **given: torch.empty_permuted((2, 3), (1, 0), **given),
    "eye": lambda **given: torch.eye(3, **given),
    "arange": lambda **given: torch.arange(3.0, **given),
    "linspace": lambda **given: torch.linspace(0, 1, 3, **given),
    "logspace": lambda **given: torch.logspace(0, 1, 3, **given),
    "hann_window": lambda **given: torch.hann_window(3, **given),
    "rand": lambda **given: torch.rand(2, **given),
    "randn": lambda **given: torch.randn((2,), **given),
    "normal": lambda **given: torch.normal(0.0, 1.0, (2,), **given),
    "randint": lambda **given: torch.randint(3, (2,), dtype=torch.float32, **given),
    "randperm": lambda **given: torch.randperm(3, dtype=torch.float32, **given),
    "zeros_like": lambda **given: torch.zeros_like(x, **given),
    "full_like": lambda **given: torch.full_like(x, 1, **given),
    "rand_like": lambda **given: torch.rand_like(x, **given),
    "randint_like": lambda **given: torch.randint_like(x, 3, **given),
    "new_zeros": lambda **given: x.new_zeros(2, **given),
    "new_full": lambda **given: x.new_full((2,), 1.0, **given),
    "new_empty_strided": lambda **given: x.new_empty_strided((2,), (1,), **given),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_no_memory_is_pinned_without_an_accelerator(name: str) -> None:
    with pytest.raises(RuntimeError, match="pin_memory=True requires a CUDA or other accelerator backend"):
        FACTORIES[name](pin_memory=True)


@pytest.mark.parametrize("name", FACTORIES)
def test_there_is_no_memory_to_pin_on_meta(name: str) -> None:
    assert FACTORIES[name](pin_memory=True, device="meta").is_meta


@pytest.mark.parametrize("name", FACTORIES)
def test_new_tensors_are_strided(name: str) -> None:
    assert FACTORIES[name](layout=torch.strided).layout is torch.strided
    with pytest.raises(NotImplementedError, match=r"got layout=torch.sparse_coo; convert one with to_sparse\(\)"):
        FACTORIES[name](layout=torch.sparse_coo)


@pytest.mark.parametrize("name", FACTORIES)
@pytest.mark.parametrize(
    ("option", "value"), [("pin_memory", 1), ("pin_memory", "no"), ("layout", "strided"), ("requires_grad", "no")]
)
def test_options_of_factories_have_types(name: str, option: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"argument '{option}'.* must be .*, not {type(value).__name__}"):
        FACTORIES[name](**{option: value})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: torch.tensor([1.0], pin_memory=True), "requires a CUDA or other accelerator"),
        (lambda: torch.sparse_coo_tensor([[0]], [1.0], (2,), pin_memory=True), "when none is available"),
        (lambda: torch.sparse_csr_tensor([0, 1], [0], [1.0], pin_memory=True), "when none is available"),
        (lambda: torch.from_file("nowhere", size=2, pin_memory=True), "from a file cannot be pinned"),
    ],
)
def test_data_is_not_pinned_either(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        call()


@pytest.mark.parametrize(
    "draw",
    [
        lambda generator: torch.rand_like(x, generator=generator),
        lambda generator: torch.randn_like(x, generator=generator),
        lambda generator: torch.randint_like(x, 1000, generator=generator),
        lambda generator: torch.randint_like(x, 7, 1000, generator=generator),
    ],
)
def test_numbers_like_a_tensor_come_from_the_given_generator(draw: Callable[[Any], Any]) -> None:
    first, again = (draw(torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, again)
    before = torch.get_rng_state()
    draw(torch.Generator())
    assert torch.equal(before, torch.get_rng_state())


NUMBERS = ("int", "float", "bool", "Scalar")


def _as_text(value: Any) -> Any:
    """A number, or the first of several, as text; None where there is none."""
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], (int, float)):
        return (str(value[0]), *value[1:])
    return None


def calls_with_text() -> Iterator[tuple[str, str]]:
    for name in SAMPLES:
        given, named = SAMPLES[name]()
        values = dict(zip((a.name for a in OPS[name].schema.arguments), given)) | named
        for argument in OPS[name].schema.arguments:
            numeric = argument.type.rstrip("?").partition("[")[0] in NUMBERS
            if (name, argument.name) == ("convolution", "output_padding"):
                continue  # only a transposed one has a use for it
            if numeric and _as_text(values.get(argument.name)) is not None:
                yield name, argument.name


@pytest.mark.parametrize(("name", "argument"), [*calls_with_text()])
def test_text_is_no_number(name: str, argument: str) -> None:
    op = OPS[name]
    given, named = SAMPLES[name]()
    positional = {a.name: value for a, value in zip(op.schema.arguments, given)}
    if argument in positional:
        positional[argument] = _as_text(positional[argument])
    else:
        named = named | {argument: _as_text(named[argument])}
    with pytest.raises(TypeError):
        op.function(*positional.values(), **named)


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.linspace("0", 1, 3),
        lambda: torch.linspace(0, 1, "3"),
        lambda: torch.logspace(0, 1, 3, base="2"),
        lambda: torch.arange("3"),
        lambda: torch.full((2,), "1"),
        lambda: torch.full(("2",), 1),
        lambda: torch.clamp(x, "0"),
        lambda: torch.randperm("3"),
        lambda: torch.randint(0, "3", (2,)),
        lambda: torch.randint_like(x, "3"),
        lambda: torch.nn.functional.dropout(x, training="False"),
        lambda: torch.nn.functional.interpolate(x.view(1, 1, 3), scale_factor="2"),
        lambda: torch.nn.functional.adaptive_avg_pool2d(torch.ones(1, 1, 4, 4), "2"),
        lambda: torch.nn.functional.huber_loss(x, x, delta="1"),
        lambda: x.std(0, unbiased="True"),
        lambda: x.nonzero(as_tuple="no"),
        lambda: x.kthvalue(b"1"),
        lambda: x.requires_grad_("yes"),
    ],
)
def test_text_is_no_number_for_public_functions_either(call: Callable[[], Any]) -> None:
    with pytest.raises(TypeError):
        call()
