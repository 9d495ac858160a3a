"""Every layer of torch.nn beside torch's: same seed, same weights; same text, keys, attributes, outputs and gradients."""

import inspect
import warnings

import numpy as np
import pytest
import torch

import mindtorch_v2

PACKAGES = (torch, mindtorch_v2)
RNG = np.random.default_rng(7)


def real(*shape, grad=True, low=None):
    """Floating point input; `low` makes it uniform on [low, 1)."""
    values = RNG.normal(size=shape) if low is None else RNG.uniform(low, 1, size=shape)
    return ("real", values.astype(np.float32), grad)


def whole(*shape, high, low=0):
    return ("whole", RNG.integers(low, high, size=shape), False)


def given(values, dtype=np.int64):
    return ("whole", np.asarray(values, dtype), False)


class Case:
    def __init__(self, text, *inputs, tolerance=2e-5, gradients=True, kwargs=None):
        self.text, self.inputs, self.tolerance, self.gradients = text, inputs, tolerance, gradients
        self.kwargs = kwargs or {}

    def make(self, T, seed=3):
        T.manual_seed(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return eval(self.text, {"nn": T.nn, "torch": T})

    def tensors(self, T):
        return [tensor(T, *spec) for spec in self.inputs], {k: tensor(T, *v) for k, v in self.kwargs.items()}


def tensor(T, kind, values, grad):
    return T.tensor(
        values.tolist(), dtype={"f": T.float32, "b": T.bool}.get(values.dtype.kind, T.int64), requires_grad=grad
    )


x2, x3, x4, x5 = real(5, 4), real(2, 4, 9), real(2, 4, 8, 9), real(2, 4, 5, 6, 7)

CASES = [
    Case("nn.Identity(3, a=4)", x2),
    Case("nn.Linear(4, 3)", x2),
    Case("nn.Linear(4, 3, bias=False)", real(2, 3, 4)),
    Case("nn.Linear(4, 3, dtype=torch.float64).float()", x2),
    Case("nn.Bilinear(4, 3, 2)", x2, real(5, 3)),
    Case("nn.Bilinear(4, 3, 2, bias=False)", x2, real(5, 3)),
    Case("nn.LazyLinear(3)", x2),
    Case("nn.LazyLinear(3, bias=False)", x2),
    Case("nn.Flatten()", x4),
    Case("nn.Flatten(2, 3)", x4),
    Case("nn.Unflatten(1, (2, 2))", x3),
    Case("nn.Conv1d(4, 6, 3)", x3),
    Case("nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2, bias=False)", x3),
    Case("nn.Conv1d(4, 6, 4, padding='same')", x3),
    Case("nn.Conv1d(4, 6, 3, padding='valid')", real(4, 9)),
    Case("nn.Conv1d(4, 6, 3, padding=2, padding_mode='circular')", x3),
    Case("nn.Conv2d(4, 6, 3)", x4),
    Case("nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2))", x4),
    Case("nn.Conv2d(4, 8, 3, groups=4)", x4),
    Case("nn.Conv2d(4, 6, 3, padding=1, padding_mode='reflect')", x4),
    Case("nn.Conv2d(4, 6, 3, padding='same', padding_mode='replicate')", x4),
    Case("nn.Conv3d(4, 5, 2, padding=1, stride=2)", x5),
    Case("nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1)", x3),
    Case("nn.ConvTranspose2d(4, 6, 3, stride=2)", x4),
    Case("nn.ConvTranspose2d(4, 6, 3, groups=2, dilation=2, bias=False)", x4),
    Case("nn.ConvTranspose3d(4, 5, 2, stride=2)", x5),
    Case("nn.LazyConv1d(6, 3)", x3),
    Case("nn.LazyConv2d(6, 3, stride=2)", x4),
    Case("nn.LazyConv3d(5, 2, bias=False)", x5),
    Case("nn.LazyConvTranspose1d(6, 3)", x3),
    Case("nn.LazyConvTranspose2d(6, 3, stride=2)", x4),
    Case("nn.LazyConvTranspose3d(5, 2)", x5),
    Case("nn.MaxPool1d(3)", x3),
    Case("nn.MaxPool1d(3, stride=2, padding=1, return_indices=True)", x3),
    Case("nn.MaxPool2d(2)", x4),
    Case("nn.MaxPool2d((3, 2), stride=(2, 1), padding=1, dilation=1, ceil_mode=True)", x4),
    Case("nn.MaxPool3d(2)", x5),
    Case("nn.AvgPool1d(3)", x3),
    Case("nn.AvgPool2d(3, stride=2, padding=1)", x4),
    Case("nn.AvgPool2d(3, ceil_mode=True, count_include_pad=False, divisor_override=5)", x4),
    Case("nn.AvgPool3d(2)", x5),
    Case("nn.LPPool1d(2, 3)", real(2, 4, 9, low=0.1)),
    Case("nn.LPPool2d(2.5, 3, stride=2)", real(2, 4, 8, 9, low=0.1)),
    Case("nn.LPPool3d(2, 2)", real(2, 4, 5, 6, 7, low=0.1)),
    Case("nn.AdaptiveMaxPool1d(4)", x3),
    Case("nn.AdaptiveMaxPool2d((3, None), return_indices=True)", x4),
    Case("nn.AdaptiveMaxPool3d(2)", x5),
    Case("nn.AdaptiveAvgPool1d(4)", x3),
    Case("nn.AdaptiveAvgPool2d(1)", x4),
    Case("nn.AdaptiveAvgPool2d((3, None))", x4),
    Case("nn.AdaptiveAvgPool3d((2, 3, 2))", x5),
    Case("nn.FractionalMaxPool2d(2, output_size=(4, 5))", x4),
    Case("nn.FractionalMaxPool2d(3, output_ratio=0.5)", x4),
    Case("nn.FractionalMaxPool3d(2, output_size=3)", x5),
    Case("nn.MaxUnpool1d(2)", real(2, 4, 3), given(np.sort(RNG.permuted(np.tile(np.arange(6), (2, 4, 1)), axis=2)[..., :3], 2))),
    Case("nn.MaxUnpool2d(2, stride=2)", real(1, 1, 2, 2), given([[[[5, 2], [8, 15]]]])),
    Case("nn.MaxUnpool3d(2)", real(1, 1, 1, 1, 2), given([[[[[1, 6]]]]])),
    Case("nn.ZeroPad1d(2)", x3),
    Case("nn.ZeroPad2d((1, 2, 0, 3))", x4),
    Case("nn.ZeroPad3d(1)", x5),
    Case("nn.ConstantPad1d((1, 2), 3.5)", x3),
    Case("nn.ConstantPad2d(2, -1.0)", x4),
    Case("nn.ConstantPad3d(1, 0.5)", x5),
    Case("nn.ReflectionPad1d(2)", x3),
    Case("nn.ReflectionPad2d((1, 2, 3, 0))", x4),
    Case("nn.ReflectionPad3d(1)", x5),
    Case("nn.ReplicationPad1d((1, 2))", x3),
    Case("nn.ReplicationPad2d(2)", x4),
    Case("nn.ReplicationPad3d(1)", x5),
    Case("nn.CircularPad1d(2)", x3),
    Case("nn.CircularPad2d((1, 2, 3, 0))", x4),
    Case("nn.CircularPad3d(1)", x5),
    Case("nn.Upsample(scale_factor=2)", x4),
    Case("nn.Upsample(size=(5, 7), mode='bilinear')", x4),
    Case("nn.Upsample(scale_factor=(2, 3), mode='bicubic', align_corners=True)", x4),
    Case("nn.Upsample(scale_factor=2, mode='linear')", x3),
    Case("nn.UpsamplingNearest2d(scale_factor=2)", x4),
    Case("nn.UpsamplingBilinear2d(size=(9, 11))", x4),
    Case("nn.PixelShuffle(2)", x4),
    Case("nn.PixelUnshuffle(2)", real(2, 3, 4, 6)),
    Case("nn.ChannelShuffle(2)", x4),
    Case("nn.Unfold(3, padding=1, stride=2)", x4),
    Case("nn.Fold((4, 5), (2, 2))", real(2, 12, 12)),
    Case("nn.BatchNorm1d(4)", x2),
    Case("nn.BatchNorm1d(4, momentum=None)", x3),
    Case("nn.BatchNorm2d(4, eps=1e-3, affine=False)", x4),
    Case("nn.BatchNorm2d(4, track_running_stats=False)", x4),
    Case("nn.BatchNorm2d(4, bias=False)", x4),
    Case("nn.BatchNorm3d(4)", x5),
    Case("nn.LazyBatchNorm1d()", x2),
    Case("nn.LazyBatchNorm2d(affine=False)", x4),
    Case("nn.LazyBatchNorm3d(track_running_stats=False)", x5),
    Case("nn.SyncBatchNorm(4).eval()", x4),
    Case("nn.InstanceNorm1d(4)", x3),
    Case("nn.InstanceNorm1d(4, affine=True)", real(4, 9)),
    Case("nn.InstanceNorm2d(4, affine=True, track_running_stats=True)", x4),
    Case("nn.InstanceNorm3d(4)", x5),
    Case("nn.LazyInstanceNorm1d(affine=True)", x3),
    Case("nn.LazyInstanceNorm2d()", x4),
    Case("nn.LazyInstanceNorm3d()", x5),
    Case("nn.GroupNorm(2, 4)", x4),
    Case("nn.GroupNorm(2, 4, affine=False)", x3),
    Case("nn.GroupNorm(4, 4, bias=False)", x3),
    Case("nn.LayerNorm(4)", x2),
    Case("nn.LayerNorm((8, 9), eps=1e-3)", x4),
    Case("nn.LayerNorm(9, elementwise_affine=False)", x4),
    Case("nn.LayerNorm(9, bias=False)", x4),
    Case("nn.RMSNorm(4)", x2),
    Case("nn.RMSNorm((8, 9), eps=1e-3, elementwise_affine=False)", x4),
    Case("nn.LocalResponseNorm(3)", x4),
    Case("nn.CrossMapLRN2d(3, alpha=0.1)", x4, gradients=False),
    Case("nn.Dropout(0.3)", x4),
    Case("nn.Dropout(0.3, inplace=True)", real(3, 4, grad=False)),
    Case("nn.Dropout1d(0.4)", x3),
    Case("nn.Dropout2d(0.4)", x4),
    Case("nn.Dropout3d(0.4)", x5),
    Case("nn.AlphaDropout(0.3)", x4),
    Case("nn.FeatureAlphaDropout(0.3)", x4),
    Case("nn.Embedding(10, 3)", whole(2, 5, high=10)),
    Case("nn.Embedding(10, 3, padding_idx=-2)", whole(2, 5, high=10)),
    Case("nn.Embedding(10, 3, max_norm=1.0)", whole(2, 5, high=10)),
    Case("nn.Embedding(10, 3, scale_grad_by_freq=True, norm_type=1.0)", whole(2, 5, high=10)),
    Case("nn.Embedding.from_pretrained(torch.ones(4, 3), freeze=False, padding_idx=1)", whole(6, high=4)),
    Case("nn.EmbeddingBag(10, 3)", whole(2, 5, high=10)),
    Case("nn.EmbeddingBag(10, 3, mode='sum')", whole(6, high=10), given([0, 2])),
    Case("nn.EmbeddingBag(10, 3, mode='max', padding_idx=2)", whole(6, high=10), given([0, 4])),
    Case("nn.EmbeddingBag(10, 3, mode='sum', include_last_offset=True)", whole(6, high=10), given([0, 4, 6])),
    Case("nn.EmbeddingBag.from_pretrained(torch.ones(4, 3), mode='mean')", whole(2, 3, high=4)),
    Case("nn.RNN(4, 5)", real(6, 3, 4)),
    Case("nn.RNN(4, 5, 2, 'relu', batch_first=True)", real(3, 6, 4)),
    Case("nn.RNN(4, 5, num_layers=2, bidirectional=True, bias=False)", real(6, 3, 4), real(4, 3, 5)),
    Case("nn.RNN(4, 5)", real(6, 4)),
    Case("nn.LSTM(4, 5)", real(6, 3, 4)),
    Case("nn.LSTM(4, 5, num_layers=2, batch_first=True)", real(3, 6, 4)),
    Case("nn.LSTM(4, 5, num_layers=2, bidirectional=True, bias=False)", real(6, 3, 4)),
    Case("nn.LSTM(4, 6, num_layers=2, proj_size=3, bidirectional=True)", real(6, 3, 4)),
    Case("nn.LSTM(4, 5)", real(6, 4)),
    Case("nn.GRU(4, 5)", real(6, 3, 4)),
    Case("nn.GRU(4, 5, num_layers=3, batch_first=True, bidirectional=True)", real(3, 6, 4), real(6, 3, 5)),
    Case("nn.GRU(4, 5, num_layers=2, dropout=0.4)", real(6, 3, 4)),
    Case("nn.GRU(4, 5, bias=False)", real(6, 4), real(1, 5)),
    Case("nn.RNNCell(4, 5)", x2),
    Case("nn.RNNCell(4, 5, nonlinearity='relu', bias=False)", real(4), real(5)),
    Case("nn.LSTMCell(4, 5)", x2),
    Case("nn.LSTMCell(4, 5)", real(4)),
    Case("nn.GRUCell(4, 5)", x2, real(5, 5)),
    Case("nn.GRUCell(4, 5, bias=False)", real(4)),
    Case("nn.MultiheadAttention(8, 2)", real(5, 3, 8), real(6, 3, 8), real(6, 3, 8)),
    Case("nn.MultiheadAttention(8, 2, batch_first=True, bias=False)", real(3, 5, 8), real(3, 6, 8), real(3, 6, 8)),
    Case("nn.MultiheadAttention(8, 2, kdim=4, vdim=6, add_bias_kv=True)", real(5, 3, 8), real(6, 3, 4), real(6, 3, 6)),
    Case("nn.MultiheadAttention(8, 4, add_zero_attn=True)", real(5, 8), real(6, 8), real(6, 8)),
    Case("nn.MultiheadAttention(8, 4, dropout=0.3)", real(5, 3, 8), real(6, 3, 8), real(6, 3, 8)),
    Case("nn.TransformerEncoderLayer(8, 2, 16)", real(5, 3, 8)),
    Case("nn.TransformerEncoderLayer(8, 2, 16, 0.0, 'gelu', batch_first=True, norm_first=True)", real(3, 5, 8)),
    Case("nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, bias=False)", real(5, 8)),
    Case("nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0)", real(5, 3, 8), real(6, 3, 8)),
    Case("nn.TransformerDecoderLayer(8, 2, 16, norm_first=True, batch_first=True)", real(3, 5, 8), real(3, 6, 8)),
    Case("nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), 2)", real(3, 5, 8)),
    Case("nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, 0.0), 2, nn.LayerNorm(8))", real(5, 3, 8), real(6, 3, 8)),
    Case("nn.Transformer(8, 2, 1, 2, 16, dropout=0.0)", real(5, 3, 8), real(6, 3, 8)),
    Case("nn.Transformer(8, 2, 1, 1, 16, batch_first=True)", real(3, 5, 8), real(3, 6, 8)),
    Case("nn.Threshold(0.1, 20)", x2),
    Case("nn.ReLU()", x2),
    Case("nn.ReLU(inplace=True)", real(3, 4, grad=False)),
    Case("nn.RReLU(0.1, 0.3)", x2),
    Case("nn.Hardtanh(-2, 0.5)", x2),
    Case("nn.ReLU6()", real(5, 4)),
    Case("nn.Sigmoid()", x2),
    Case("nn.Hardsigmoid()", x2),
    Case("nn.Tanh()", x2),
    Case("nn.SiLU()", x2),
    Case("nn.Mish()", x2),
    Case("nn.Hardswish()", x2),
    Case("nn.ELU(1.5)", x2),
    Case("nn.CELU(alpha=1.5, inplace=False)", x2),
    Case("nn.SELU()", x2),
    Case("nn.GLU()", x2),
    Case("nn.GELU()", x2),
    Case("nn.GELU(approximate='tanh')", x2),
    Case("nn.Hardshrink()", x2),
    Case("nn.LeakyReLU(0.2)", x2),
    Case("nn.LeakyReLU(0.2, inplace=True)", real(3, 4, grad=False)),
    Case("nn.LogSigmoid()", x2),
    Case("nn.Softplus(2, 3.0)", x2),
    Case("nn.Softshrink(0.3)", x2),
    Case("nn.PReLU()", x2),
    Case("nn.PReLU(4, 0.1)", x4),
    Case("nn.Softsign()", x2),
    Case("nn.Tanhshrink()", x2),
    Case("nn.Softmin(dim=1)", x2),
    Case("nn.Softmax(dim=0)", x2),
    Case("nn.Softmax2d()", x4),
    Case("nn.LogSoftmax(dim=-1)", x2),
    Case("nn.CosineSimilarity()", x2, real(5, 4)),
    Case("nn.PairwiseDistance(p=1.5, keepdim=True)", x2, real(5, 4)),
    Case("nn.L1Loss()", x2, real(5, 4)),
    Case("nn.L1Loss(reduction='none')", x2, real(5, 4)),
    Case("nn.NLLLoss()", x2, whole(5, high=4)),
    Case("nn.NLLLoss(weight=torch.tensor([1.0, 2, 3, 4]), ignore_index=1, reduction='sum')", real(2, 4, 3), whole(2, 3, high=4)),
    Case("nn.PoissonNLLLoss(full=True)", x2, real(5, 4, low=0.5, grad=False)),
    Case("nn.PoissonNLLLoss(log_input=False)", real(5, 4, low=0.5), real(5, 4, low=0.5, grad=False)),
    Case("nn.GaussianNLLLoss(full=True)", x2, real(5, 4), real(5, 4, low=0.5)),
    Case("nn.KLDivLoss(reduction='batchmean', log_target=True)", x2, real(5, 4)),
    Case("nn.KLDivLoss(reduction='sum')", x2, real(5, 4, low=0.2)),
    Case("nn.MSELoss()", x2, real(5, 4)),
    Case("nn.MSELoss(reduction='sum')", x2, real(5, 4)),
    Case("nn.BCELoss()", real(5, 4, low=0.2), real(5, 4, low=0.2)),
    Case("nn.BCELoss(weight=torch.tensor([1.0, 2, 3, 4]), reduction='none')", real(5, 4, low=0.2), real(5, 4, low=0.2)),
    Case("nn.BCEWithLogitsLoss()", x2, real(5, 4, low=0)),
    Case("nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 2, 3, 4]))", x2, real(5, 4, low=0)),
    Case("nn.HingeEmbeddingLoss(margin=0.5)", x2, given(RNG.choice([-1, 1], size=(5, 4)))),
    Case("nn.MultiLabelMarginLoss()", x2, given([[3, 0, -1, 1]] * 5)),
    Case("nn.SmoothL1Loss(beta=0.5)", x2, real(5, 4)),
    Case("nn.HuberLoss(delta=0.5)", x2, real(5, 4)),
    Case("nn.SoftMarginLoss()", x2, given(RNG.choice([-1, 1], size=(5, 4)))),
    Case("nn.CrossEntropyLoss()", x2, whole(5, high=4)),
    Case("nn.CrossEntropyLoss(label_smoothing=0.1, ignore_index=2)", x2, whole(5, high=4)),
    Case("nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2, 3, 4]), reduction='none')", x4, whole(2, 8, 9, high=4)),
    Case("nn.CrossEntropyLoss()", x2, real(5, 4, low=0)),
    Case("nn.LinearCrossEntropyLoss(4, 3)", x2, whole(5, high=3)),
    Case("nn.LinearCrossEntropyLoss(4, 3, out_features=(2,), bias=True)", x2, whole(5, 2, high=3)),
    Case("nn.MultiLabelSoftMarginLoss()", x2, real(5, 4, low=0)),
    Case("nn.CosineEmbeddingLoss(0.2)", x2, real(5, 4), given([1, -1, 1, -1, 1])),
    Case("nn.MarginRankingLoss(0.2)", real(5), real(5), given([1, -1, 1, -1, 1])),
    Case("nn.MultiMarginLoss(p=2, margin=0.7)", x2, whole(5, high=4)),
    Case("nn.TripletMarginLoss(swap=True)", x2, real(5, 4), real(5, 4)),
    Case("nn.TripletMarginWithDistanceLoss(margin=2.0)", x2, real(5, 4), real(5, 4)),
    Case("nn.CTCLoss()", real(12, 3, 6), whole(3, 4, high=6, low=1), given([12, 11, 10]), given([4, 3, 2])),
    Case("nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10], div_value=2.0, head_bias=True)", real(6, 8), whole(6, high=20)),
    Case("nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))", x2),
    Case("nn.DataParallel(nn.Linear(4, 3))", x2),
]  # fmt: skip
IDS = [f"{i}-{case.text}" for i, case in enumerate(CASES)]


def flat(value):
    if isinstance(value, (tuple, list)):
        return [leaf for v in value for leaf in flat(v)]
    return [] if value is None else [value]


def array(t):
    return t.detach().numpy()


def close(ours, theirs, tolerance, what):
    assert tuple(ours.shape) == tuple(theirs.shape), what
    assert str(ours.dtype).replace("mindtorch_v2", "torch") == str(theirs.dtype), what
    np.testing.assert_allclose(array(ours), array(theirs), rtol=tolerance, atol=tolerance, err_msg=what)


def same_state(ours, theirs, what):
    a, b = ours.state_dict(), theirs.state_dict()
    assert list(a) == list(b), what
    assert {k: dict(v) for k, v in a._metadata.items()} == {k: dict(v) for k, v in b._metadata.items()}
    for name in b:
        if type(b[name]).__name__.startswith("Uninitialized"):
            assert type(a[name]).__name__ == type(b[name]).__name__
        else:
            np.testing.assert_array_equal(array(a[name]), array(b[name]), err_msg=f"{what}: {name}")


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_same_seed_same_layer(case):
    theirs, ours = (case.make(T) for T in PACKAGES)
    assert repr(ours) == repr(theirs)
    same_state(ours, theirs, "state")
    for kind in ("named_parameters", "named_buffers", "named_modules", "named_children"):
        assert [n for n, _ in getattr(ours, kind)()] == [n for n, _ in getattr(theirs, kind)()]
    assert [p.requires_grad for p in ours.parameters()] == [p.requires_grad for p in theirs.parameters()]
    assert public(theirs) <= public(ours)


def public(module):
    return {n for n in module.__dict__ if not n.startswith("_") and n != "activation"}


def run(case, T, training):
    module = case.make(T).train(training)
    args, kwargs = case.tensors(T)
    T.manual_seed(11)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = flat(module(*args, **kwargs))
    return module, args, results


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_same_outputs_and_gradients(case, training):
    (theirs, their_args, expected), (ours, our_args, got) = (run(case, T, training) for T in PACKAGES)
    assert len(got) == len(expected)
    for i, (a, b) in enumerate(zip(got, expected, strict=True)):
        close(a, b, case.tolerance, f"output {i}")
    assert repr(ours) == repr(theirs)
    if not case.gradients or not any(e.requires_grad for e in expected):
        assert not case.gradients or not any(g.requires_grad for g in got)
        return
    for results in (expected, got):
        loss = sum((r * (i + 1)).sin().sum() for i, r in enumerate(results) if r.requires_grad)
        loss.backward()
    for i, (a, b) in enumerate(zip(our_args, their_args, strict=True)):
        assert (a.grad is None) == (b.grad is None), f"gradient of input {i}"
        if b.grad is not None:
            close(a.grad, b.grad, 5 * case.tolerance, f"gradient of input {i}")
    for (name, a), (_, b) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None), name
        if b.grad is not None:
            close(a.grad, b.grad, 5 * case.tolerance, f"gradient of {name}")
    for (name, a), (_, b) in zip(ours.named_buffers(), theirs.named_buffers(), strict=True):
        close(a, b, case.tolerance, f"buffer {name}")


def test_every_layer_of_torch_is_there_and_measured():
    names = list(torch.nn.modules.__all__)
    assert set(names) <= set(dir(mindtorch_v2.nn))
    text = " ".join(case.text for case in CASES)
    unmeasured = {n for n in names if f"nn.{n}" not in text}
    assert unmeasured == {
        "Container", "LinearCrossEntropyOptions", "Module", "ModuleDict", "ModuleList", "NLLLoss2d", "ParameterDict",
        "ParameterList", "RNNBase", "RNNCellBase",
    }  # fmt: skip


DEPRECATED = ("Container", "NLLLoss2d")  # torch wraps their constructors, which hides the signature


@pytest.mark.parametrize("name", [n for n in torch.nn.modules.__all__ if n not in DEPRECATED])
def test_same_constructor(name):
    theirs, ours = (inspect.signature(getattr(T.nn, name).__init__).parameters for T in PACKAGES)
    assert list(ours) == list(theirs)
    assert [p.kind for p in ours.values()] == [p.kind for p in theirs.values()]
    for key, p in theirs.items():
        if not callable(p.default) or p.default is inspect.Parameter.empty:
            assert ours[key].default == p.default, key


@pytest.mark.parametrize("name", torch.nn.modules.__all__)
def test_same_base_classes(name):
    theirs, ours = (getattr(T.nn, name) for T in PACKAGES)
    public = {b.__name__ for b in theirs.__mro__ if b.__name__ in torch.nn.modules.__all__}
    assert public <= {b.__name__ for b in ours.__mro__}
    assert ours.__module__.replace("mindtorch_v2", "torch") == theirs.__module__  # pickles name it
