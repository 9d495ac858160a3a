"""Copies and pickles of objects that find their attributes themselves, which an unfinished copy cannot do."""

import copy
import importlib
import pickle
import pkgutil

import pytest

import mindtorch_v2 as torch


def modules():
    """The package's modules, those apart that need what is not installed or that run something when imported."""
    for found in pkgutil.walk_packages(torch.__path__, "mindtorch_v2."):
        if found.name.endswith("__main__"):
            continue
        try:
            yield importlib.import_module(found.name)
        except ImportError:
            continue


def finders():
    """Every class of the package that has a `__getattr__` of its own."""
    found = {}
    for module in modules():
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__.startswith("mindtorch_v2") and "__getattr__" in vars(value):
                found[f"{value.__module__}.{value.__qualname__}"] = value
    return found


def test_an_unfinished_object_never_looks_for_an_attribute_without_end():
    classes = finders()
    assert len(classes) >= 8
    for name, cls in classes.items():
        blank = cls.__new__(cls)
        for attribute in ("__setstate__", "__deepcopy__", "no_such_name", *getattr(cls, "__annotations__", {})):
            try:
                getattr(blank, attribute)
            except RecursionError:
                pytest.fail(f"{name}.{attribute} of an unfinished object recurs without end")
            except Exception:
                continue  # whatever it says of a missing attribute is its own business


@torch.library.custom_op("copies_of_odd_objects::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


OPERATORS = {
    "packet": lambda: torch.ops.aten.add,
    "overload": lambda: torch.ops.aten.add.Tensor,
    "namespace": lambda: torch.ops.aten,
    "custom": lambda: torch.ops.copies_of_odd_objects.twice,
    "definition": lambda: twice,
}


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_is_one_object_however_it_is_copied(name):
    operator = OPERATORS[name]()
    assert OPERATORS[name]() is operator
    assert copy.copy(operator) is operator
    assert copy.deepcopy({"key": [operator]})["key"][0] is operator
    assert pickle.loads(pickle.dumps(operator)) is operator


def test_operators_are_listed_and_say_what_they_lack():
    assert "add" in dir(torch.ops.aten)
    assert "Tensor" in dir(torch.ops.aten.add)
    with pytest.raises(AttributeError, match=r"The underlying op of 'aten.add' has no overload name 'nope'; it has"):
        torch.ops.aten.add.nope  # noqa: B018


def test_settings_of_absent_parts_can_be_copied():
    settings = torch._dynamo.config
    settings.some_name = 3
    assert copy.deepcopy(settings).some_name == 3
    assert pickle.loads(pickle.dumps(settings)).some_name == 3
    del settings.some_name
