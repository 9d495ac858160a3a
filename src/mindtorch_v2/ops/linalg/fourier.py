"""Rows of Fourier transforms, by NumPy's pocketfft: three primitives, and the public transforms made of them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core import dtype as _dtype
from ...core.errors import wrap_dim
from ...dispatch.front import front
from ...dispatch.op import composite, op
from .. import flops
from ..creation.convert import to_dtype
from ..creation.fill import _OPTIONS
from ..creation.ranges import arange
from ..meta import shapes
from ..network.padding import constant_pad_nd, pad
from ..shape.copies import clone
from ..shape.join import cat
from ..shape.resize import view_as_real

# How a transform is scaled: not at all, by the root of its length, by its length.
NONE, BY_ROOT_N, BY_N = 0, 1, 2
_FORWARD: dict[int, Any] = {NONE: "backward", BY_ROOT_N: "ortho", BY_N: "forward"}
_INVERSE: dict[int, Any] = {NONE: "forward", BY_ROOT_N: "ortho", BY_N: "backward"}


@op(
    "_fft_c2c(Tensor self, int[] dim, int normalization, bool forward) -> Tensor",
    out_dtype="cast",
    all_flops=lambda record: flops.transform(flops.numel(record), flops.transform_points(record), 2),
    meta=shapes.like_nth(0),
    self=lambda g, dim, normalization, forward: c2c(g, dim, normalization, not forward),
)
def _c2c(a: Any, dim: Any, normalization: int, forward: bool) -> Any:
    dim = tuple(dim)
    if not dim or 0 in a.shape:
        return a.copy()
    if forward:
        return np.fft.fftn(a, axes=dim, norm=_FORWARD[normalization])
    return np.fft.ifftn(a, axes=dim, norm=_INVERSE[normalization])


c2c: Any = _c2c.function


def _r2c_gradient(g: Any, self_sizes: Any, dim: Any, normalization: int, onesided: bool) -> Any:
    if not onesided:
        return c2c(g, dim, normalization, False).real
    last = dim[-1]
    missing = self_sizes[last] - g._a.shape[last]
    if missing:
        shape = tuple(missing if d == wrap_dim(last, g._a.ndim) else n for d, n in enumerate(g._a.shape))
        g = cat([g, g.new_zeros(shape)], last)
    return c2c(g, dim, normalization, False).real


@op(
    "_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor",
    out_dtype="cast",
    all_flops=lambda record: flops.transform(flops.numel(record), flops.transform_points(record), 1),
    meta=shapes.fft_r2c,
    self=lambda g, self_sizes, dim, normalization, onesided: _r2c_gradient(g, self_sizes, dim, normalization, onesided),
)
def _r2c(a: Any, dim: Any, normalization: int, onesided: bool) -> Any:
    dim = tuple(dim)
    if onesided:
        return np.fft.rfftn(a, axes=dim, norm=_FORWARD[normalization])
    return np.fft.fftn(a, axes=dim, norm=_FORWARD[normalization])


r2c: Any = _r2c.function


def _c2r_gradient(g: Any, dim: Any, normalization: int) -> Any:
    last = wrap_dim(dim[-1], g._a.ndim)
    spectrum = r2c(g, dim, normalization, True)
    doubled = g._a.shape[last] - spectrum._a.shape[last]
    if doubled > 0:
        n = spectrum._a.shape[last]
        parts = [spectrum.narrow(last, 0, 1), spectrum.narrow(last, 1, doubled) * 2]
        if n - 1 - doubled:
            parts.append(spectrum.narrow(last, 1 + doubled, n - 1 - doubled))
        spectrum = cat(parts, last)
    return spectrum


@op(
    "_fft_c2r(Tensor self, int[] dim, int normalization, int last_dim_size) -> Tensor",
    all_flops=flops.fft_c2r,
    meta=shapes.fft_c2r,
    self=lambda g, dim, normalization: _c2r_gradient(g, dim, normalization),
)
def _c2r(a: Any, dim: Any, normalization: int, last_dim_size: int) -> Any:
    dim = tuple(dim)
    sizes = [a.shape[d] for d in dim]
    sizes[-1] = last_dim_size
    return np.fft.irfftn(a, s=sizes, axes=dim, norm=_INVERSE[normalization])


c2r: Any = _c2r.function


# --- preparing input --------------------------------------------------------------------------------------------------


def _norm(norm: str | None, forward: bool) -> int:
    choices = {None: NONE, "backward": NONE, "ortho": BY_ROOT_N, "forward": BY_N}
    if not forward:
        choices = {None: BY_N, "backward": BY_N, "ortho": BY_ROOT_N, "forward": NONE}
    if norm not in choices:
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    return choices[norm]


def _promoted(t: Any, complex_: bool) -> Any:
    d = t.dtype
    if d.category < 2:
        d = _dtype.get_default_dtype()
    if d in (_dtype.float16, _dtype.bfloat16):
        raise RuntimeError(f"Unsupported dtype {'Half' if d is _dtype.float16 else 'BFloat16'}")
    if complex_:
        d = d.to_complex()
    return to_dtype(t, d)


def _resized(t: Any, dims: list[int], sizes: list[int]) -> Any:
    """The input cut or padded with zeros to the wanted sizes."""
    for d, n in zip(dims, sizes, strict=True):
        have = t._a.shape[d]
        if n < 1:
            raise RuntimeError(f"Invalid number of data points ({n}) specified")
        if n < have:
            t = t.narrow(d, 0, n)
        elif n > have:
            t = constant_pad_nd(t, (0, 0) * (t._a.ndim - 1 - d) + (0, n - have))
    return t


def _one(t: Any, n: Any, dim: int) -> tuple[int, int]:
    if t._a.ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    d = wrap_dim(dim, t._a.ndim)
    return d, t._a.shape[d] if n is None else operator.index(n)


def _several(t: Any, s: Any, dim: Any) -> tuple[list[int], list[int]]:
    ndim = t._a.ndim
    if isinstance(s, int):
        s = (s,)
    if isinstance(dim, int):
        dim = (dim,)
    if dim is not None:
        dims = [wrap_dim(d, ndim) for d in dim]
        if len(set(dims)) != len(dims):
            raise RuntimeError("FFT dims must be unique")
    elif s is not None:
        dims = list(range(ndim - len(s), ndim))
    else:
        dims = list(range(ndim))
    if s is not None:
        if dim is not None and len(s) != len(dims):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
        if len(s) > ndim:
            raise RuntimeError(f"Got shape with {len(s)} values but input tensor only has {ndim} dimensions.")
        sizes = [t._a.shape[d] if n == -1 else operator.index(n) for d, n in zip(dims, s, strict=True)]
    else:
        sizes = [t._a.shape[d] for d in dims]
    return dims, sizes


# --- the transforms ---------------------------------------------------------------------------------------------------


def _complex_one(t: Any, dims: list[int], sizes: list[int], norm: Any, forward: bool) -> Any:
    """One dimension; the transform of something real is half the work, and the inverse its conjugate."""
    if t.is_complex():
        return _complex_nd(t, dims, sizes, norm, forward)
    spectrum = r2c(_resized(_promoted(t, False), dims, sizes), dims, _norm(norm, forward), False)
    return spectrum if forward else spectrum.conj()


def _complex_nd(t: Any, dims: list[int], sizes: list[int], norm: Any, forward: bool) -> Any:
    return c2c(_resized(_promoted(t, True), dims, sizes), dims, _norm(norm, forward), forward)


def _real_nd(t: Any, dims: list[int], sizes: list[int], norm: Any) -> Any:
    if t.is_complex():
        raise RuntimeError(f"rfft expects a real input tensor, but got {_type(t)}")
    return r2c(_resized(_promoted(t, False), dims, sizes), dims, _norm(norm, True), True)


def _type(t: Any) -> str:
    return {"complex64": "ComplexFloat", "complex128": "ComplexDouble"}[t.dtype.name]


def _half(t: Any, dims: list[int], sizes: list[int], given_last: Any) -> tuple[Any, int]:
    """The half spectrum an inverse real transform reads, and the length of its result."""
    last = operator.index(given_last) if given_last is not None else 2 * (t._a.shape[dims[-1]] - 1)
    if last < 1:
        raise RuntimeError(f"Invalid number of data points ({last}) specified")
    return _resized(_promoted(t, True), dims, [*sizes[:-1], last // 2 + 1]), last


def _inverse_real_nd(t: Any, dims: list[int], sizes: list[int], given_last: Any, norm: int) -> Any:
    half, last = _half(t, dims, sizes, given_last)
    return c2r(half, dims, norm, last)


def _last(s: Any) -> Any:
    return None if s is None or (not isinstance(s, int) and s[-1] == -1) else s if isinstance(s, int) else s[-1]


def _row(name: str, arguments: str, body: Callable[..., Any]) -> None:
    """A composite row `fft_name`, in torch's signature."""
    autocast = None if name in ("hfft2", "hfftn", "ihfft2", "ihfftn") else "float32"
    composite(f"fft_{name}(Tensor self, {arguments}, str? norm=None) -> Tensor", out=True, autocast=autocast)(body)


_ONE = "int? n=None, int dim=-1"
_row("fft", _ONE, lambda t, n, dim, norm: _complex_one(t, *_listed(_one(t, n, dim)), norm, True))
_row("ifft", _ONE, lambda t, n, dim, norm: _complex_one(t, *_listed(_one(t, n, dim)), norm, False))
_row("rfft", _ONE, lambda t, n, dim, norm: _real_nd(t, *_listed(_one(t, n, dim)), norm))
_row("irfft", _ONE, lambda t, n, dim, norm: _inverse_real_nd(t, *_listed(_one(t, n, dim)), n, _norm(norm, False)))
_row("hfft", _ONE, lambda t, n, dim, norm: _hermitian(t, *_listed(_one(t, n, dim)), n, norm))
_row("ihfft", _ONE, lambda t, n, dim, norm: _inverse_hermitian(t, *_listed(_one(t, n, dim)), norm))


def _listed(pair: tuple[int, int]) -> tuple[list[int], list[int]]:
    return [pair[0]], [pair[1]]


def _hermitian(t: Any, dims: list[int], sizes: list[int], given_last: Any, norm: Any) -> Any:
    half, last = _half(t, dims, sizes, given_last)
    if len(dims) > 1:
        half = c2c(half, dims[:-1], _norm(norm, True), True)
    return c2r(half.conj(), dims[-1:], _norm(norm, True), last)


def _inverse_hermitian(t: Any, dims: list[int], sizes: list[int], norm: Any) -> Any:
    if t.is_complex():
        raise RuntimeError(f"ihfft expects a real input tensor, but got {_type(t)}")
    real = _resized(_promoted(t, False), dims, sizes)
    half = r2c(real, dims[-1:], _norm(norm, False), True)
    if len(dims) == 1:
        return half.conj()
    return c2c(half.conj_physical(), dims[:-1], _norm(norm, False), False)


def _nd_rows(suffix: str, dim_default: str) -> None:
    arguments = f"int[]? s=None, int[]{'' if dim_default else '?'} dim={dim_default or 'None'}"
    _row(f"fft{suffix}", arguments, lambda t, s, dim, norm: _complex_nd(t, *_several(t, s, dim), norm, True))
    _row(f"ifft{suffix}", arguments, lambda t, s, dim, norm: _complex_nd(t, *_several(t, s, dim), norm, False))
    _row(f"rfft{suffix}", arguments, lambda t, s, dim, norm: _real_nd(t, *_several(t, s, dim), norm))
    _row(
        f"irfft{suffix}",
        arguments,
        lambda t, s, dim, norm: _inverse_real_nd(t, *_several(t, s, dim), _last(s), _norm(norm, False)),
    )
    _row(f"hfft{suffix}", arguments, lambda t, s, dim, norm: _hermitian(t, *_several(t, s, dim), _last(s), norm))
    _row(f"ihfft{suffix}", arguments, lambda t, s, dim, norm: _inverse_hermitian(t, *_several(t, s, dim), norm))


_nd_rows("2", "[-2,-1]")
_nd_rows("n", "")


@composite("fft_fftshift(Tensor self, int[]? dim=None) -> Tensor")
def _fftshift(self: Any, dim: Any) -> Any:
    dims = _shift_dims(self, dim)
    return self.roll([self._a.shape[d] // 2 for d in dims], dims) if dims else clone(self)


@composite("fft_ifftshift(Tensor self, int[]? dim=None) -> Tensor")
def _ifftshift(self: Any, dim: Any) -> Any:
    dims = _shift_dims(self, dim)
    return self.roll([(self._a.shape[d] + 1) // 2 for d in dims], dims) if dims else clone(self)


def _shift_dims(t: Any, dim: Any) -> list[int]:
    if dim is None:
        return list(range(t._a.ndim))
    return [wrap_dim(d, t._a.ndim) for d in ((dim,) if isinstance(dim, int) else dim)]


def _places(count: int, dtype: Any, device: Any) -> Any:
    return arange(count, dtype=dtype or _dtype.get_default_dtype(), device=device)


@composite(f"fft_fftfreq(int n, float d=1.0, {_OPTIONS}) -> Tensor", method=False)
def _fftfreq(n: int, d: float, dtype: Any, layout: Any, device: Any, pin_memory: Any) -> Any:
    made = _places(n, dtype, device)
    half = (n + 1) // 2
    made.narrow(0, half, n - half).copy_(arange(-(n // 2), 0, dtype=made.dtype, device=device))
    return made.mul_(1.0 / (n * d))


@composite(f"fft_rfftfreq(int n, float d=1.0, {_OPTIONS}) -> Tensor", method=False)
def _rfftfreq(n: int, d: float, dtype: Any, layout: Any, device: Any, pin_memory: Any) -> Any:
    return _places(n // 2 + 1, dtype, device).mul_(1.0 / (n * d))


fftfreq, rfftfreq = _fftfreq.function, _rfftfreq.function


# --- short-time transforms --------------------------------------------------------------------------------------------


@composite(
    "stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool normalized=False, "
    "bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor",
    autocast="float32",
)
def _stft(self: Any, n_fft: int, hop_length: Any, win_length: Any, window: Any, normalized: bool, onesided: Any,
          return_complex: Any, align_to_window: Any) -> Any:  # fmt: skip
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    if return_complex is None and not self.is_complex() and (window is None or not window.is_complex()):
        raise RuntimeError("stft requires the return_complex parameter be given for real inputs")
    if self._a.ndim not in (1, 2):
        raise RuntimeError(f"stft: expected a 1D or 2D tensor, but got {self._a.ndim}D tensor")
    signal = self if self._a.ndim == 2 else self.unsqueeze(0)
    if not 0 < n_fft <= signal._a.shape[-1]:
        raise RuntimeError(f"stft: expected 0 < n_fft < {signal._a.shape[-1]}, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(f"stft: expected hop_length > 0, but got hop_length={hop}")
    shape = _window(signal, window, length, n_fft)
    frames = signal.unfold(-1, n_fft, hop)
    frames = frames if shape is None else frames * shape
    is_complex = frames.is_complex()
    sided = (not is_complex) if onesided is None else onesided
    norm = BY_ROOT_N if normalized else NONE
    spectrum = c2c(frames, [2], norm, True) if is_complex else r2c(frames, [2], norm, sided)
    spectrum = spectrum.transpose_(1, 2)
    spectrum = spectrum if self._a.ndim == 2 else spectrum.squeeze_(0)
    return view_as_real(spectrum) if return_complex is False else spectrum


@front("stft")
def stft(input: Any, n_fft: int, hop_length: Any = None, win_length: Any = None, window: Any = None, center: bool = True,
         pad_mode: str = "reflect", normalized: bool = False, onesided: Any = None, return_complex: Any = None,
         align_to_window: Any = None) -> Any:  # fmt: skip
    """Spectra of overlapping pieces of a signal."""
    if center:
        shape = input._a.shape
        extended = input.view((1,) * (3 - len(shape)) + shape)
        padded = pad(extended, (n_fft // 2, n_fft // 2), pad_mode)
        input = padded.view(padded._a.shape[-len(shape) :] if shape else ())
    return _stft.function(input, n_fft, hop_length, win_length, window, normalized, onesided, return_complex,
                          align_to_window)  # fmt: skip


def _window(like: Any, window: Any, length: int, n_fft: int) -> Any:
    if window is None and length == n_fft:
        return None
    shape = like.new_ones((length,)) if window is None else window
    if shape._a.ndim != 1 or shape._a.shape[0] != length:
        raise RuntimeError(
            f"stft: expected a 1D window tensor of size equal to win_length={length}, but got window with size "
            f"{list(shape._a.shape)}"
        )
    if length < n_fft:
        left = (n_fft - length) // 2
        shape = cat([shape.new_zeros((left,)), shape, shape.new_zeros((n_fft - length - left,))], 0)
    return shape


@composite(
    "istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, "
    "bool normalized=False, bool? onesided=None, int? length=None, bool return_complex=False) -> Tensor"
)
def _istft(input: Any, n_fft: int, hop_length: Any, win_length: Any, window: Any, center: bool, normalized: bool,
           onesided: Any, length: Any, return_complex: bool) -> Any:  # fmt: skip
    """The signal whose short-time spectra these are, by overlap and add."""
    if not input.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    hop = n_fft // 4 if hop_length is None else hop_length
    size = n_fft if win_length is None else win_length
    spectrum = input if input._a.ndim == 3 else input.unsqueeze(0)
    sided = (spectrum._a.shape[1] != n_fft) if onesided is None else onesided
    norm = BY_ROOT_N if normalized else BY_N
    frames = spectrum.transpose(1, 2)
    if return_complex:
        pieces = c2c(frames, [2], norm, False)
    else:
        pieces = c2r(frames if sided else frames.narrow(2, 0, n_fft // 2 + 1), [2], norm, n_fft)
    shape = _window(pieces, window, size, n_fft)
    shape = pieces.new_ones((n_fft,)) if shape is None else shape
    count = pieces._a.shape[1]
    total = n_fft + hop * (count - 1)
    signal = _overlap(pieces * shape, hop, total)
    weight = _overlap((shape * shape).expand(1, count, n_fft), hop, total)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else total - (n_fft // 2 if center else 0)
    stop = min(end, total)
    signal, weight = signal.narrow(1, start, stop - start), weight.narrow(1, start, stop - start)
    if float(np.abs(weight._a).min(initial=math.inf)) < 1e-11:
        raise RuntimeError("istft: window overlap add min: 1")
    signal = signal / weight
    if end > total:
        signal = cat([signal, signal.new_zeros((signal._a.shape[0], end - total))], 1)
    return signal if input._a.ndim == 3 else signal.squeeze(0)


def _overlap(pieces: Any, hop: int, total: int) -> Any:
    """Pieces laid down at every `hop` and added up."""
    batch, count, size = pieces._a.shape
    positions = (np.arange(count)[:, None] * hop + np.arange(size)).reshape(-1)
    index = pieces.new_tensor(positions, dtype=_dtype.int64)
    return pieces.new_zeros((batch, total)).index_add(1, index, pieces.reshape(batch, count * size))
