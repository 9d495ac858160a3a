"""Errors of layers, masks of attention: the same programs as with torch, the same results."""

import importlib
import warnings

import pytest

from side_by_side import Programs, compare, error_of, named

program = Programs()


# --- errors of layers -------------------------------------------------------------------------------------------------


@program
def layer_errors(T, nn):
    return [
        error_of(call)
        for call in (
            lambda: nn.Conv2d(3, 4, 2, groups=2),
            lambda: nn.Conv2d(4, 3, 2, groups=2),
            lambda: nn.Conv2d(4, 4, 2, groups=0),
            lambda: nn.Conv2d(3, 4, 2, stride=2, padding="same"),
            lambda: nn.ConvTranspose2d(3, 4, 2, padding_mode="reflect"),
            lambda: nn.ConvTranspose2d(1, 1, 2)(T.ones(1, 1, 2, 2), output_size=(9, 9)),
            lambda: nn.ConvTranspose2d(1, 1, 2)(T.ones(1, 1, 2, 2), output_size=(9,)),
            lambda: nn.Bilinear(0, 1, 1),
            lambda: nn.Dropout(1.5),
            lambda: nn.BatchNorm1d(2)(T.ones(2)),
            lambda: nn.BatchNorm2d(2)(T.ones(2, 2)),
            lambda: nn.InstanceNorm2d(2, affine=True)(T.ones(2, 3, 4, 4)),
            lambda: nn.InstanceNorm1d(2)(T.ones(2)),
            lambda: nn.GroupNorm(3, 4),
            lambda: nn.CircularPad2d(1)(T.ones(2)),
            lambda: nn.Unflatten(0, 3),
            lambda: nn.Unflatten(0, (2.0,)),
            lambda: nn.Embedding(3, 2, padding_idx=5),
            lambda: nn.Embedding(3, 2, _weight=T.ones(2, 2)),
            lambda: nn.Embedding.from_pretrained(T.ones(2)),
            lambda: nn.Hardtanh(1, 0),
            lambda: nn.Softmax2d()(T.ones(2)),
            lambda: nn.FractionalMaxPool2d(2),
            lambda: nn.FractionalMaxPool2d(2, output_size=2, output_ratio=0.5),
            lambda: nn.FractionalMaxPool2d(2, output_ratio=2.0),
            lambda: nn.LSTM(0, 3),
            lambda: nn.LSTM(3, 0),
            lambda: nn.LSTM(3, 3, num_layers=0),
            lambda: nn.LSTM(3, 3, proj_size=3),
            lambda: nn.LSTM(3, 3, dropout=2),
            lambda: nn.LSTM("a", 3),
            lambda: nn.LSTM(3, 3, bias=1),
            lambda: nn.GRU(3, 3, proj_size=1),
            lambda: nn.RNN(3, 3, nonlinearity="x"),
            lambda: nn.LSTM(3, 3)(T.ones(2, 2, 4)),
            lambda: nn.LSTM(3, 3)(T.ones(2)),
            lambda: nn.LSTM(3, 3)(T.ones(2, 2, 3), (T.ones(1, 2, 3), T.ones(1, 2, 4))),
            lambda: nn.LSTM(3, 3)(T.ones(2, 2, 3), (T.ones(2, 3), T.ones(2, 3))),
            lambda: nn.GRU(3, 3)(T.ones(2, 2, 3), T.ones(1, 1, 3)),
            lambda: nn.GRU(3, 3)(T.ones(2, 3), T.ones(1, 1, 3)),
            lambda: nn.GRU(3, 3)(T.ones(2, 2, 3).double()),
            lambda: nn.LSTMCell(3, 3)(T.ones(1, 1, 3)),
            lambda: nn.GRUCell(3, 3)(T.ones(2, 4)),
            lambda: nn.GRUCell(3, 3)(T.ones(2, 3), T.ones(1, 3)),
            lambda: nn.MultiheadAttention(5, 2),
            lambda: nn.MultiheadAttention(0, 2),
            lambda: nn.Transformer(8, 2)(T.ones(2, 2, 8), T.ones(2, 3, 8)),
            lambda: nn.Transformer(8, 2)(T.ones(2, 2, 7), T.ones(2, 2, 8)),
            lambda: nn.TransformerEncoderLayer(8, 2, activation="tanh"),
            lambda: nn.MultiMarginLoss(p=3),
            lambda: nn.HuberLoss(delta="a"),
            lambda: nn.TripletMarginLoss(margin=0),
            lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 20, []),
            lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 5]),
            lambda: nn.MSELoss(size_average=False).reduction,
            lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5])(T.ones(2, 8), T.tensor([3, 30])),
        )
    ]


@program
def old_loss_options(T, nn):
    return [nn.MSELoss(size_average=a, reduce=b).reduction for a in (None, True, False) for b in (None, True, False)]


# --- attention and transformers ---------------------------------------------------------------------------------------


@program
def attention_masks(T, nn):
    net = nn.MultiheadAttention(8, 2, batch_first=True)
    x = T.arange(48.0).reshape(2, 3, 8).sin()
    padding = T.tensor([[False, False, True], [False, False, False]])
    causal = nn.Transformer.generate_square_subsequent_mask(3)
    hidden = causal != 0
    results = []
    for training in (True, False):
        net.train(training)
        for grad in (True, False):
            with T.set_grad_enabled(grad):
                results += [
                    net(x, x, x),
                    net(x, x, x, need_weights=False)[0],
                    net(x, x, x, key_padding_mask=padding),
                    net(x, x, x, attn_mask=causal),
                    net(x, x, x, attn_mask=hidden, average_attn_weights=False),
                    net(x, x, x, attn_mask=hidden, key_padding_mask=padding),
                    net(x, x, x, attn_mask=causal, is_causal=True, need_weights=False)[0],
                ]
    return causal, results


@program
def padded_encoders(T, nn):
    warnings.simplefilter("ignore")  # torch: nested tensors are a prototype
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), 2, nn.LayerNorm(8)).eval()
    x = T.arange(48.0).reshape(2, 3, 8).sin()
    padding = T.tensor([[False, False, True], [False, False, False]])
    other = T.tensor([[True, False, False], [False, False, False]])
    results = [net(x, src_key_padding_mask=padding), net(x, src_key_padding_mask=other)]
    with T.no_grad():
        results += [net(x, src_key_padding_mask=padding), net(x, src_key_padding_mask=other), net(x)]
        results.append(net.layers[0](x, src_key_padding_mask=padding))
    return results


@program
def causal_decoders(T, nn):
    net = nn.Transformer(8, 2, 1, 1, 16, 0.0, batch_first=True)
    x, y = T.arange(48.0).reshape(2, 3, 8).sin(), T.arange(32.0).reshape(2, 2, 8).cos()
    mask = net.generate_square_subsequent_mask(2)
    return [
        net(x, y, tgt_mask=mask),
        net(x, y, tgt_mask=mask, tgt_is_causal=True),
        net(x, y, tgt_mask=mask != 0, src_mask=T.zeros(3, 3), memory_mask=T.zeros(2, 3)),
    ]


@program
def attention_by_functions(T, nn):
    warnings.simplefilter("ignore")  # torch: without compilation it is slow
    flex = importlib.import_module(f"{T.__name__}.nn.attention.flex_attention")
    q, k, v = (T.arange(80.0).reshape(2, 2, 5, 4).add(i).sin() for i in range(3))
    slope = T.tensor([0.5, -0.2])
    causal = flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, 5, 5, device="cpu")
    near = flex.and_masks(lambda b, h, i, j: i >= j, lambda b, h, i, j: i - j < 2)
    window = flex.create_block_mask(near, 2, 2, 5, 5, device="cpu")
    return [
        flex.flex_attention(q, k, v),
        flex.flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + slope[h] * (i - j)),
        flex.flex_attention(q, k, v, block_mask=causal),
        flex.flex_attention(q, k, v, block_mask=window, scale=0.3),
        flex.create_mask(flex.or_masks(lambda b, h, i, j: i > j, lambda b, h, i, j: j == 2), 1, 1, 3, 3, device="cpu"),
    ]


@pytest.mark.parametrize("function", program, ids=named)
def test_same_outcome(function):
    compare(function)
