"""Recurrent layers and cells. What they compute is in `ops.network.recurrent`; here live parameters, checks and packing."""

from __future__ import annotations

import math
import numbers
import warnings
import weakref
from typing import Any

from ...core.tensor import Tensor
from ...ops.creation.fill import empty, zeros
from ...ops.network import recurrent
from .. import init
from ..parameter import Parameter
from ..utils.rnn import PackedSequence
from .module import Module

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def apply_permutation(tensor: Any, permutation: Any, dim: int = 1) -> Any:
    """`tensor.index_select(dim, permutation)` by its old name."""
    warnings.warn(
        "`apply_permutation` is deprecated, please use `tensor.index_select(dim, permutation)` instead",
        FutureWarning,
        stacklevel=2,
    )
    return tensor.index_select(dim, permutation)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real)


def _need(kind: type, **given: Any) -> None:
    for name, value in given.items():
        if not isinstance(value, kind):
            raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")


class RNNBase(Module):
    """Parameters of a stack of recurrent layers, and how an input reaches them."""

    __constants__ = [
        "mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional",
        "proj_size",
    ]  # fmt: skip

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        self._flat_weight_refs: list[Any] = []
        self._check_options(dropout)
        self._flat_weights_names: list[str] = []
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for suffix in ("", "_reverse") if bidirectional else ("",):
                shapes = self._shapes(layer, suffix)
                for name, shape in shapes.items():
                    setattr(self, name, Parameter(empty(shape, device=device, dtype=dtype)))
                self._flat_weights_names.extend(shapes)
                self._all_weights.append(list(shapes))
        self._init_flat_weights()
        self.reset_parameters()

    def _check_options(self, dropout: Any) -> None:
        if isinstance(dropout, bool) or not _is_number(dropout) or not 0 <= dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
            )
        if dropout > 0 and self.num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                f"num_layers greater than 1, but got dropout={dropout} and num_layers={self.num_layers}",
                stacklevel=4,
            )
        _need(bool, bias=self.bias, batch_first=self.batch_first)
        _need(int, input_size=self.input_size)
        if self.input_size <= 0:
            raise ValueError("input_size must be greater than zero")
        _need(int, hidden_size=self.hidden_size)
        if self.hidden_size <= 0:
            raise ValueError("hidden_size must be greater than zero")
        if self.num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        if self.proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if self.mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + self.mode)

    def _shapes(self, layer: int, suffix: str) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the parameters of one direction of a layer."""
        gates = _GATES[self.mode] * self.hidden_size
        out = self.proj_size or self.hidden_size
        entering = self.input_size if layer == 0 else out * (2 if self.bidirectional else 1)
        shapes: dict[str, tuple[int, ...]] = {"weight_ih": (gates, entering), "weight_hh": (gates, out)}
        if self.bias:
            shapes.update(bias_ih=(gates,), bias_hh=(gates,))
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        return {f"{name}_l{layer}{suffix}": shape for name, shape in shapes.items()}

    # --- the flat list of weights ---------------------------------------------------------------------------------

    def _init_flat_weights(self) -> None:
        self._flat_weights: list[Any] = [getattr(self, name, None) for name in self._flat_weights_names]
        self._flat_weight_refs = [None if w is None else weakref.ref(w) for w in self._flat_weights]

    def __setattr__(self, attr: str, value: Any) -> None:
        names = self.__dict__.get("_flat_weights_names")
        if names and attr in names and "_flat_weights" in self.__dict__:
            self._flat_weights[names.index(attr)] = value
        super().__setattr__(attr, value)

    def flatten_parameters(self) -> None:
        """Only cuDNN wants weights in one piece: nothing to do."""

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        result = super()._apply(fn, recurse)
        self._init_flat_weights()
        return result

    def _weights_have_changed(self) -> bool:
        for ref, name in zip(self._flat_weight_refs, self._flat_weights_names, strict=True):
            weight = getattr(self, name, None)
            if weight is not None and ref is not None and ref() is not weight:
                return True
        return False

    def _update_flat_weights(self) -> None:
        if self._weights_have_changed():
            self._init_flat_weights()

    def __getstate__(self) -> dict[str, Any]:
        self._update_flat_weights()
        state = self.__dict__.copy()
        del state["_flat_weight_refs"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("proj_size", 0)
        self._flat_weight_refs = [None if w is None else weakref.ref(w) for w in self._flat_weights]

    @property
    def all_weights(self) -> list[list[Any]]:
        """The parameters by layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def reset_parameters(self) -> None:
        """Uniform within the inverse square root of the hidden size."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    # --- checks ---------------------------------------------------------------------------------------------------

    def check_input(self, input: Any, batch_sizes: Any) -> None:
        """Rank, dtype and size of an input, or an error that says what is wrong with it."""
        wanted = self._flat_weights[0].dtype
        if input.dtype != wanted:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({wanted}). Convert input: "
                f"input.to({wanted}), or convert model: model.to({input.dtype})"
            )
        rank = 3 if batch_sizes is None else 2
        if input.dim() != rank:
            raise RuntimeError(f"input must have {rank} dimensions, got {input.dim()}")
        if input.size(-1) != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}"
            )

    def _state_size(self, input: Any, batch_sizes: Any, features: int) -> tuple[int, int, int]:
        batch = int(batch_sizes[0]) if batch_sizes is not None else input.size(0 if self.batch_first else 1)
        return self.num_layers * (2 if self.bidirectional else 1), batch, features

    def get_expected_hidden_size(self, input: Any, batch_sizes: Any) -> tuple[int, int, int]:
        """The size of the hidden state that goes with an input."""
        return self._state_size(input, batch_sizes, self.proj_size or self.hidden_size)

    def check_hidden_size(
        self, hx: Any, expected_hidden_size: Any, msg: str = "Expected hidden size {}, got {}"
    ) -> None:
        """An error unless a state has the expected size."""
        if hx.size() != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input: Any, hidden: Any, batch_sizes: Any) -> None:
        """An error unless input and state go with each other and with the layer."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Any) -> Any:
        """A state with its sequences in another order."""
        return hx if permutation is None else hx.index_select(1, permutation)

    # --- forward --------------------------------------------------------------------------------------------------

    def _fresh_state(self, input: Any, batch_sizes: Any) -> Any:
        """The state before the first step: zeros."""
        return zeros(self.get_expected_hidden_size(input, batch_sizes), dtype=input.dtype, device=input.device)

    def _batched_state(self, hx: Any, batched: bool) -> Any:
        """A given state with a batch dimension, where the input had none."""
        if hx.dim() != (3 if batched else 2):
            kind, rank = ("batched 3-D", 3) if batched else ("unbatched 2-D", 2)
            raise RuntimeError(f"For {kind} input, hx should also be {rank}-D but got {hx.dim()}-D tensor")
        return hx if batched else hx.unsqueeze(1)

    def _unbatched_state(self, hidden: Any) -> Any:
        return hidden.squeeze(1)

    def _padded(self) -> Any:
        """The row for (time, batch, feature) inputs."""
        raise NotImplementedError

    def _packed(self) -> Any:
        """The row for packed inputs."""
        raise NotImplementedError

    def _options(self) -> tuple[Any, ...]:
        return self.bias, self.num_layers, self.dropout, self.training, self.bidirectional

    def _result(self, result: tuple[Any, ...]) -> tuple[Any, Any]:
        return result[0], result[1]

    def forward(self, input: Any, hx: Any = None) -> Any:
        self._update_flat_weights()
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.dim() not in (2, 3):
            kind = self.mode.split("_")[0]
            raise ValueError(f"{kind}: Expected input to be 2D or 3D, got {input.dim()}D instead")
        batched = input.dim() == 3
        batch_dim = 0 if self.batch_first else 1
        if not batched:
            input = input.unsqueeze(batch_dim)
        hx = self._fresh_state(input, None) if hx is None else self._batched_state(hx, batched)
        self.check_forward_args(input, hx, None)
        output, hidden = self._result(
            self._padded().function(input, hx, self._flat_weights, *self._options(), self.batch_first)
        )
        if batched:
            return output, hidden
        return output.squeeze(batch_dim), self._unbatched_state(hidden)

    def _forward_packed(self, packed: PackedSequence, hx: Any) -> Any:
        data, batch_sizes, sorted_indices, unsorted_indices = packed
        self.check_input(data, batch_sizes)
        given = hx is not None
        hx = self.permute_hidden(hx, sorted_indices) if given else self._fresh_state(data, batch_sizes)
        if given or self.mode != "LSTM":  # an LSTM does not look again at states it has made itself
            self.check_forward_args(data, hx, batch_sizes)
        output, hidden = self._result(
            self._packed().function(data, batch_sizes, hx, self._flat_weights, *self._options())
        )
        whole = PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices)
        return whole, self.permute_hidden(hidden, unsorted_indices)

    def extra_repr(self) -> str:
        parts = [f"{self.input_size}, {self.hidden_size}"]
        defaults = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0,
                    "bidirectional": False}  # fmt: skip
        parts += [f"{name}={getattr(self, name)}" for name, usual in defaults.items() if getattr(self, name) != usual]
        return ", ".join(parts)


def _no_projection(kwargs: dict[str, Any]) -> None:
    if "proj_size" in kwargs:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class RNN(RNNBase):
    """Elman's network: a hidden state through tanh or ReLU."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _no_projection(kwargs)
        if len(args) > 3:
            nonlinearity, args = args[3], args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity

    def _padded(self) -> Any:
        return recurrent.rnn_tanh_input if self.mode == "RNN_TANH" else recurrent.rnn_relu_input

    def _packed(self) -> Any:
        return recurrent.rnn_tanh_data if self.mode == "RNN_TANH" else recurrent.rnn_relu_data


class GRU(RNNBase):
    """Gated recurrent units."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _no_projection(kwargs)
        super().__init__("GRU", *args, **kwargs)

    def _padded(self) -> Any:
        return recurrent.gru_input

    def _packed(self) -> Any:
        return recurrent.gru_data


class LSTM(RNNBase):
    """Long short-term memory; its state is a pair."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def _padded(self) -> Any:
        return recurrent.lstm_input

    def _packed(self) -> Any:
        return recurrent.lstm_data

    def get_expected_cell_size(self, input: Any, batch_sizes: Any) -> tuple[int, int, int]:
        """The size of the cell state that goes with an input."""
        return self._state_size(input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input: Any, hidden: Any, batch_sizes: Any) -> None:
        """An error unless input and states go with each other and with the layer."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(
            hidden[0], self.get_expected_hidden_size(input, batch_sizes), "Expected hidden[0] size {}, got {}"
        )
        self.check_hidden_size(
            hidden[1], self.get_expected_cell_size(input, batch_sizes), "Expected hidden[1] size {}, got {}"
        )

    def permute_hidden(self, hx: Any, permutation: Any) -> Any:
        """Both states with their sequences in another order."""
        return hx if permutation is None else tuple(h.index_select(1, permutation) for h in hx)

    def _fresh_state(self, input: Any, batch_sizes: Any) -> Any:
        if batch_sizes is None:
            sizes = self.get_expected_hidden_size(input, None), self.get_expected_cell_size(input, None)
        else:
            layers, batch = self.num_layers * (2 if self.bidirectional else 1), batch_sizes[0]
            sizes = (layers, batch, self.proj_size or self.hidden_size), (layers, batch, self.hidden_size)
        return tuple(zeros(tuple(map(int, size)), dtype=input.dtype, device=input.device) for size in sizes)

    def _batched_state(self, hx: Any, batched: bool) -> Any:
        rank = 3 if batched else 2
        if hx[0].dim() != rank or hx[1].dim() != rank:
            kind = "batched 3-D" if batched else "unbatched 2-D"
            raise RuntimeError(
                f"For {kind} input, hx and cx should also be {rank}-D but got ({hx[0].dim()}-D, {hx[1].dim()}-D) "
                "tensors"
            )
        return hx if batched else (hx[0].unsqueeze(1), hx[1].unsqueeze(1))

    def _unbatched_state(self, hidden: Any) -> Any:
        return hidden[0].squeeze(1), hidden[1].squeeze(1)

    def _result(self, result: tuple[Any, ...]) -> tuple[Any, Any]:
        return result[0], (result[1], result[2])


# --- cells ------------------------------------------------------------------------------------------------------------


class RNNCellBase(Module):
    """Parameters of one step."""

    __constants__ = ["input_size", "hidden_size", "bias"]

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        gates = num_chunks * hidden_size
        options = {"device": device, "dtype": dtype}
        self.weight_ih = Parameter(empty((gates, input_size), **options))
        self.weight_hh = Parameter(empty((gates, hidden_size), **options))
        self.register_parameter("bias_ih", Parameter(empty((gates,), **options)) if bias else None)
        self.register_parameter("bias_hh", Parameter(empty((gates,), **options)) if bias else None)
        self.reset_parameters()

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.__dict__.get("bias", True) is not True:
            text += f", bias={self.bias}"
        if self.__dict__.get("nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    def reset_parameters(self) -> None:
        """Uniform within the inverse square root of the hidden size."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _check_rank(self, what: str, value: Tensor) -> None:
        if value.dim() not in (1, 2):
            raise ValueError(f"{type(self).__name__}: Expected {what} to be 1D or 2D, got {value.dim()}D instead")

    def _weights(self) -> tuple[Any, ...]:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def _fresh(self, input: Any) -> Any:
        return zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)


class _SimpleCell(RNNCellBase):
    """A cell with one state."""

    def _row(self) -> Any:
        raise NotImplementedError

    def forward(self, input: Any, hx: Any = None) -> Any:
        self._check_rank("input", input)
        if hx is not None:
            self._check_rank("hidden", hx)
        if input.dim() == 2:
            hx = self._fresh(input) if hx is None else hx
            return self._row().function(input, hx, *self._weights())
        input = input.unsqueeze(0)
        hx = self._fresh(input) if hx is None else hx.unsqueeze(0)
        return self._row().function(input, hx, *self._weights()).squeeze(0)


class RNNCell(_SimpleCell):
    """One step of an RNN."""

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def _row(self) -> Any:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return recurrent.rnn_tanh_cell if self.nonlinearity == "tanh" else recurrent.rnn_relu_cell


class GRUCell(_SimpleCell):
    """One step of a GRU."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def _row(self) -> Any:
        return recurrent.gru_cell


class LSTMCell(RNNCellBase):
    """One step of an LSTM."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Any, hx: Any = None) -> Any:
        self._check_rank("input", input)
        for position, value in enumerate(hx or ()):
            self._check_rank(f"hx[{position}]", value)
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
        if hx is None:
            nothing = self._fresh(input)
            hx = (nothing, nothing)
        elif not batched:
            hx = (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        hidden, cell = recurrent.lstm_cell.function(input, hx, *self._weights())
        return (hidden, cell) if batched else (hidden.squeeze(0), cell.squeeze(0))


__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]
