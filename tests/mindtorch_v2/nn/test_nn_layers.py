"""Layers: the weights and outputs torch 2.13 has under the same seed, shapes, text and errors."""

from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn


def seeded(make: Any) -> Any:
    torch.manual_seed(0)
    return make()


def close(t: Any, values: list[float]) -> None:
    assert t.detach().flatten().tolist() == pytest.approx(values, abs=2e-6)


# --- the same draws as torch ------------------------------------------------------------------------------------------


def test_linear_weights() -> None:
    net = seeded(lambda: nn.Linear(2, 2))
    close(net.weight, [-0.005294, 0.379323, -0.581981, -0.520387])
    close(net.bias, [-0.272345, 0.189616])


def test_convolution_weights() -> None:
    net = seeded(lambda: nn.Conv1d(1, 2, 2))
    close(net.weight, [-0.005294, 0.379323, -0.581981, -0.520387])
    close(net.bias, [-0.272345, 0.189616])


def test_embedding_weights() -> None:
    close(seeded(lambda: nn.Embedding(2, 2)).weight, [1.540996, -0.293429, -2.178789, 0.568431])


def test_dropout_draws() -> None:
    net = nn.Dropout(0.5)
    torch.manual_seed(0)
    close(net(torch.ones(8)), [0, 0, 2, 0, 0, 0, 2, 2])
    assert net.eval()(torch.ones(3)).tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("fill", "shape", "values"),
    [
        (nn.init.orthogonal_, (2, 2), [0.57744, 0.816433, -0.816433, 0.57744]),
        (nn.init.trunc_normal_, (4,), [1.540996, -0.293429, 0.403347, 0.568431]),
        (nn.init.kaiming_normal_, (2, 2), [1.540996, -0.293429, -2.178789, 0.568431]),
    ],
    ids=["orthogonal", "trunc_normal", "kaiming_normal"],
)
def test_initialisers(fill: Any, shape: tuple[int, ...], values: list[float]) -> None:
    close(seeded(lambda: fill(torch.empty(shape))), values)


# --- outputs ----------------------------------------------------------------------------------------------------------


def test_batch_norm_keeps_running_statistics() -> None:
    net = nn.BatchNorm1d(1)
    close(net(torch.tensor([[1.0], [2.0], [6.0]])), [-0.925819, -0.46291, 1.388729])
    close(net.running_mean, [0.3])
    close(net.running_var, [1.6])
    assert net.num_batches_tracked.item() == 1


def test_batch_norm_without_momentum_averages() -> None:
    net = nn.BatchNorm1d(1, momentum=None)
    net(torch.tensor([[0.0], [2.0]]))
    net(torch.tensor([[4.0], [6.0]]))
    close(net.running_mean, [3.0])


def test_attention() -> None:
    net = seeded(lambda: nn.MultiheadAttention(2, 1))
    x = torch.eye(2).unsqueeze(1)
    output, weights = net(x, x, x)
    close(output, [0.164106, -0.128554, 0.165742, -0.136553])
    close(weights, [0.503726, 0.496274, 0.478625, 0.521375])


def test_attention_is_the_same_in_inference() -> None:
    net = seeded(lambda: nn.MultiheadAttention(4, 2, batch_first=True)).eval()
    x = torch.arange(24.0).reshape(2, 3, 4).sin()
    hidden = torch.tensor([[False, False, True], [False, True, True]])
    slow = net(x, x, x, key_padding_mask=hidden)
    with torch.no_grad():
        fast = net(x, x, x, key_padding_mask=hidden)
    for a, b in zip(slow, fast, strict=True):
        close(b, a.detach().flatten().tolist())


def test_encoder_layer() -> None:
    net = seeded(lambda: nn.TransformerEncoderLayer(2, 1, 2, dropout=0.0))
    close(net(torch.eye(2).unsqueeze(1)), [0.999994, -0.999994, -0.999993, 0.999993])


def test_encoder_leaves_padding_out_in_inference() -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    net = nn.TransformerEncoder(layer, 1).eval()
    with torch.no_grad():
        output = net(torch.ones(1, 3, 4), src_key_padding_mask=torch.tensor([[False, False, True]]))
    assert output[0, 2].tolist() == [0, 0, 0, 0]
    assert output[0, 1].abs().sum() > 0


def test_causal_mask() -> None:
    inf = float("inf")
    assert nn.Transformer.generate_square_subsequent_mask(2).tolist() == [[0, -inf], [0, 0]]


def test_padding_index_stays_zero() -> None:
    net = nn.Embedding(3, 2, padding_idx=-1)
    assert net.padding_idx == 2
    assert net.weight[2].tolist() == [0, 0]
    net(torch.tensor([0, 2])).sum().backward()
    assert net.weight.grad[2].tolist() == [0, 0]


def test_pretrained_embeddings_are_frozen() -> None:
    assert not nn.Embedding.from_pretrained(torch.ones(2, 2)).weight.requires_grad
    assert nn.EmbeddingBag.from_pretrained(torch.ones(2, 2), freeze=False).weight.requires_grad


def test_adaptive_softmax_is_a_distribution() -> None:
    net = seeded(lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 10, [3, 6], div_value=2.0))
    x = torch.arange(8.0).reshape(2, 4).sin()
    whole = net.log_prob(x)
    close(whole.exp().sum(1), [1.0, 1.0])
    target = torch.tensor([1, 8])
    close(net(x, target).output, [whole[0, 1].item(), whole[1, 8].item()])
    assert net.predict(x).tolist() == whole.argmax(1).tolist()


def test_losses_with_weights_keep_them_as_state() -> None:
    assert list(nn.CrossEntropyLoss(weight=torch.ones(2)).state_dict()) == ["weight"]
    assert list(nn.BCEWithLogitsLoss(pos_weight=torch.ones(2)).state_dict()) == ["pos_weight"]


# --- text and errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (nn.Conv2d(2, 4, 3, padding=1, groups=2, bias=False),
         "Conv2d(2, 4, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), groups=2, bias=False)"),
        (nn.ConvTranspose1d(1, 1, 2, output_padding=1, stride=2),
         "ConvTranspose1d(1, 1, kernel_size=(2,), stride=(2,), output_padding=(1,))"),
        (nn.MaxPool2d(2), "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)"),
        (nn.BatchNorm2d(3),
         "BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)"),
        (nn.LayerNorm(3), "LayerNorm((3,), eps=1e-05, elementwise_affine=True, bias=True)"),
        (nn.LSTM(2, 3, num_layers=2, batch_first=True), "LSTM(2, 3, num_layers=2, batch_first=True)"),
        (nn.ReLU(inplace=True), "ReLU(inplace=True)"),
        (nn.LeakyReLU(0.1), "LeakyReLU(negative_slope=0.1)"),
        (nn.Dropout(0.1), "Dropout(p=0.1, inplace=False)"),
        (nn.Upsample(scale_factor=2), "Upsample(scale_factor=2.0, mode='nearest')"),
        (nn.EmbeddingBag(2, 3, mode="sum"), "EmbeddingBag(2, 3, mode='sum')"),
        (nn.ZeroPad2d(1), "ZeroPad2d((1, 1, 1, 1))"),
        (nn.CrossEntropyLoss(), "CrossEntropyLoss()"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)  # fmt: skip
def test_text(layer: Any, text: str) -> None:
    assert repr(layer) == text


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: nn.Conv2d(3, 4, 2, groups=2), ValueError, "in_channels must be divisible by groups"),
        (lambda: nn.Conv2d(1, 1, 2, padding="equal"), ValueError, "Invalid padding string 'equal'"),
        (lambda: nn.Dropout(2), ValueError, "between 0 and 1, but got 2"),
        (lambda: nn.BatchNorm2d(2)(torch.ones(2, 2)), ValueError, r"expected 4D input \(got 2D input\)"),
        (lambda: nn.GroupNorm(3, 4), ValueError, r"num_channels \(4\) must be divisible by num_groups \(3\)"),
        (lambda: nn.MultiheadAttention(5, 2), AssertionError, "embed_dim must be divisible by num_heads"),
        (lambda: nn.Unflatten(0, 3), TypeError, "unflattened_size must be a tuple of ints, but found type int"),
        (lambda: nn.Embedding(2, 2, padding_idx=4), AssertionError, "Padding_idx must be within num_embeddings"),
    ],
)
def test_errors(make: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        make()
