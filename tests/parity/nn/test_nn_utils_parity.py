"""nn.utils and nn.init beside torch: the same programs, the same results and errors."""

import copy
import pickle

import pytest
import torch.nn.utils.prune  # noqa: F401 - torch loads it on demand

from side_by_side import Programs, compare, error_of, named

program = Programs()


# --- nn.utils ---------------------------------------------------------------------------------------------------------


def with_gradients(T, nn):
    net = nn.Linear(3, 2)
    (net(T.arange(6.0).reshape(2, 3)) ** 2).sum().backward()
    return net


@program
def clipping(T, nn):
    results = []
    for options in ({}, {"norm_type": 1}, {"norm_type": float("inf")}, {"foreach": False}, {"max_norm": 1e6}):
        net = with_gradients(T, nn)
        total = nn.utils.clip_grad_norm_(net.parameters(), **{"max_norm": 1.5, **options})
        results.append((total, [p.grad for p in net.parameters()]))
    for foreach in (None, False):
        net = with_gradients(T, nn)
        results.append(
            (nn.utils.clip_grad_value_(net.parameters(), 0.7, foreach=foreach), [p.grad for p in net.parameters()])
        )
    net = with_gradients(T, nn)
    results.append(nn.utils.get_total_norm([p.grad for p in net.parameters()]))
    results.append(nn.utils.clip_grads_with_norm_(net.weight, 1.0, T.tensor(2.0)))
    results.append(nn.utils.clip_grad_norm_([], 1.0))
    results.append(nn.utils.clip_grad_norm_(iter(()), 1.0))
    results.append(nn.utils.clip_grad_norm_((p for p in ()), 1.0))
    net.weight.grad[0, 0] = float("nan")
    results.append(error_of(lambda: nn.utils.clip_grad_norm_(net.parameters(), 1.0, error_if_nonfinite=True)))
    return results


@program
def vectors(T, nn):
    net = nn.Linear(3, 2)
    v = nn.utils.parameters_to_vector(net.parameters())
    nn.utils.vector_to_parameters(T.arange(8.0), net.parameters())
    return v, net.weight, net.bias, error_of(lambda: nn.utils.vector_to_parameters([1], net.parameters()))


@program
def packing(T, nn):
    rnn = nn.utils.rnn
    x = T.arange(24.0).reshape(4, 3, 2).requires_grad_()
    p = rnn.pack_padded_sequence(x, [4, 2, 1])
    q = rnn.pack_padded_sequence(x.transpose(0, 1), T.tensor([1, 4, 2]), batch_first=True, enforce_sorted=False)
    (q.data * T.arange(14.0).reshape(7, 2)).sum().backward()
    back, lengths = rnn.pad_packed_sequence(q, batch_first=True, padding_value=-1.0, total_length=5)
    s = [T.ones(2), T.zeros(3), T.ones(1)]
    packed = rnn.pack_sequence(s, enforce_sorted=False)
    return [
        list(p),
        list(q),
        x.grad,
        back,
        lengths,
        rnn.pad_packed_sequence(p),
        rnn.pad_sequence(s),
        rnn.pad_sequence(s, batch_first=True, padding_value=7.0, padding_side="left"),
        list(packed),
        rnn.unpack_sequence(packed),
        rnn.unpad_sequence(rnn.pad_sequence(s), T.tensor([2, 3, 1])),
        rnn.invert_permutation(T.tensor([2, 0, 1])),
        type(q.double()).__name__,
        q.double().data.dtype,
        error_of(lambda: rnn.pack_padded_sequence(x, [1, 2, 3])),
        error_of(lambda: rnn.pack_padded_sequence(x, [1, 0, 0])),
        error_of(lambda: rnn.pad_sequence(4)),
        error_of(lambda: rnn.pad_packed_sequence(p, total_length=2)),
        error_of(lambda: rnn.pad_sequence(s, padding_side="up"))[0],
        p.is_cuda,
    ]


@program
def recurrent_on_packed(T, nn):
    results = []
    for make in (nn.RNN, nn.LSTM, nn.GRU):
        net = make(3, 4, num_layers=2, bidirectional=True)
        x = T.arange(60.0).reshape(5, 4, 3).sin().requires_grad_()
        p = nn.utils.rnn.pack_padded_sequence(x, [3, 5, 1, 2], enforce_sorted=False)
        out, hidden = net(p)
        padded, _ = nn.utils.rnn.pad_packed_sequence(out)
        last = hidden[0] + hidden[1] if isinstance(hidden, tuple) else hidden
        (padded.sum() + (last * 2).sum()).backward()
        results += [padded, hidden, x.grad, [w.grad for w in net.parameters()]]
        given = T.ones(4, 4, 4)
        results.append(net(p, (given, given) if make is nn.LSTM else given)[1])
    return results


@program
def recurrent_weights(T, nn):
    net = nn.GRU(2, 3, num_layers=2, bidirectional=True)
    net.weight_ih_l0 = nn.Parameter(T.zeros(9, 2))
    net.flatten_parameters()
    return net(T.ones(2, 1, 2))[0], [[w.shape for w in g] for g in net.all_weights], net._flat_weights_names


@program
def old_weight_norm(T, nn):
    net = nn.utils.weight_norm(nn.Linear(3, 2))
    net(T.ones(1, 3)).sum().backward()
    first = list(net.state_dict()), net.weight_g, net.weight_g.grad, net.weight_v.grad, net(T.ones(1, 3))
    errors = error_of(lambda: nn.utils.weight_norm(net)), error_of(lambda: nn.utils.remove_weight_norm(nn.Linear(1, 1)))
    nn.utils.remove_weight_norm(net)
    return first, errors, list(net.state_dict()), nn.utils.weight_norm(nn.Conv2d(2, 3, 2), dim=None).weight_g.shape


@program
def old_spectral_norm(T, nn):
    net = nn.utils.spectral_norm(nn.Linear(3, 4), n_power_iterations=2)
    net(T.ones(1, 3)).sum().backward()
    first = (
        list(net.state_dict()),
        net.weight_u,
        net.weight_v,
        net.weight,
        net.weight_orig.grad,
        net.state_dict()._metadata,
    )
    net.load_state_dict(net.state_dict())
    eval_ = net.eval()(T.ones(1, 3))
    errors = (
        error_of(lambda: nn.utils.spectral_norm(net)),
        error_of(lambda: nn.utils.spectral_norm(nn.Linear(1, 1), n_power_iterations=0)),
    )
    nn.utils.remove_spectral_norm(net)
    conv = nn.utils.spectral_norm(nn.ConvTranspose2d(2, 3, 2))
    return first, eval_, errors, list(net.state_dict()), net.weight, conv.weight_u.shape, conv(T.ones(1, 2, 2, 2))


@program
def parametrizations(T, nn):
    P = nn.utils.parametrize

    class Symmetric(nn.Module):
        def forward(self, X):
            return X.triu() + X.triu(1).transpose(-1, -2)

        def right_inverse(self, A):
            return A.triu()

    class Double(nn.Module):
        def forward(self, X):
            return X * 2

    net = nn.Linear(3, 3)
    P.register_parametrization(net, "weight", Symmetric())
    first = repr(net), list(net.state_dict()), net.weight, type(net).__name__, P.is_parametrized(net)
    net.weight = T.arange(9.0).reshape(3, 3)
    second = net.weight, net.parametrizations.weight.original, net(T.ones(1, 3))
    P.register_parametrization(net, "weight", Double())
    net.weight.sum().backward()
    third = net.weight, net.parametrizations["weight"].original.grad, [n for n, _ in net.named_parameters()]
    with P.cached():
        same = net.weight is net.weight
    c = copy.deepcopy(net)
    errors = [
        error_of(lambda: pickle.dumps(net))[0],
        error_of(lambda: setattr(net, "weight", T.ones(3, 3))),
        error_of(lambda: P.register_parametrization(net, "nothing", Double()))[0],
        error_of(lambda: P.remove_parametrizations(net, "bias"))[0],
        P.type_before_parametrizations(net).__name__,
    ]
    copied = c.weight, type(c).__name__
    P.remove_parametrizations(net, "weight")
    other = P.register_parametrization(nn.Linear(3, 3), "weight", Double())
    P.remove_parametrizations(other, "weight", leave_parametrized=False)
    return (
        first,
        second,
        third,
        same,
        errors,
        net.weight,
        type(net).__name__,
        copied,
        other.weight,
        list(net.state_dict()),
    )


@program
def wrong_parametrizations(T, nn):
    P = nn.utils.parametrize

    class Shrink(nn.Module):
        def forward(self, X):
            return X[0]

    class Cast(nn.Module):
        def forward(self, X):
            return X.double()

    class Text(nn.Module):
        def forward(self, X):
            return "text"

    return [
        error_of(lambda k=k: P.register_parametrization(nn.Linear(2, 2), "weight", k())) for k in (Shrink, Cast, Text)
    ]


@program
def new_weight_norm(T, nn):
    net = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    net(T.ones(1, 3)).sum().backward()
    state = list(net.state_dict())
    net.load_state_dict({"bias": T.ones(2), "weight_g": T.ones(2, 1), "weight_v": T.ones(2, 3)})
    return state, net.weight, net.parametrizations.weight.original0.grad, repr(net)


@program
def new_spectral_norm(T, nn):
    net = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4), n_power_iterations=2)
    net(T.ones(1, 3)).sum().backward()
    conv = nn.utils.parametrizations.spectral_norm(nn.ConvTranspose1d(2, 3, 2))
    return (
        list(net.state_dict()),
        net.weight,
        net.parametrizations.weight.original.grad,
        net.eval()(T.ones(1, 3)),
        conv.weight,
    )


@program
def orthogonal(T, nn):
    results = []
    for map_ in ("matrix_exp", "cayley", "householder"):
        for shape in ((3, 3), (4, 2), (2, 4)):
            net = nn.Linear(shape[1], shape[0])
            nn.utils.parametrizations.orthogonal(net, orthogonal_map=map_)
            w = net.weight
            gram = w @ w.mT if shape[0] <= shape[1] else w.mT @ w
            results.append(gram)
            if shape[0] == shape[1]:
                results.append(w)
                w.sin().sum().backward()
                results.append(net.parametrizations.weight.original.grad)
    return results


@program
def pruning(T, nn):
    prune = nn.utils.prune
    net = prune.l1_unstructured(nn.Linear(3, 2), "weight", 2)
    first = list(net.state_dict()), net.weight, prune.is_pruned(net), net(T.ones(1, 3))
    prune.random_unstructured(net, "weight", 0.5)
    second = net.weight_mask, net.weight
    prune.remove(net, "weight")
    conv = prune.ln_structured(nn.Conv2d(3, 4, 2), "weight", 0.5, 2, 0)
    rand = prune.random_structured(nn.Linear(4, 3), "weight", 1, dim=1)
    a, b = nn.Linear(3, 2), nn.Linear(2, 3)
    prune.global_unstructured([(a, "weight"), (b, "weight")], prune.L1Unstructured, amount=5)
    mask = prune.custom_from_mask(nn.Linear(2, 1), "bias", T.zeros(1))
    return [
        first,
        second,
        net.weight,
        list(net.state_dict()),
        conv.weight_mask,
        rand.weight_mask,
        a.weight_mask,
        b.weight_mask,
        mask.bias,
        prune.identity(nn.Linear(1, 1), "weight").weight_mask,
        error_of(lambda: prune.remove(nn.ReLU(), "weight"))[0],
        error_of(lambda: prune.l1_unstructured(a, "bias", 1.5)),
        error_of(lambda: prune.l1_unstructured(a, "bias", 9)),
        error_of(lambda: prune.random_structured(a, "bias", 1, 0)),
    ]


@program
def fusing(T, nn):
    conv, bn, linear = nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3), nn.Linear(2, 3)
    with T.no_grad():
        bn.running_mean.copy_(T.arange(3.0))
        bn.running_var.copy_(T.arange(1.0, 4.0))
        bn.weight.copy_(T.arange(2.0, 5.0))
    bn1 = nn.BatchNorm1d(3)
    bn1.load_state_dict(bn.state_dict())
    error = error_of(lambda: nn.utils.fuse_conv_bn_eval(conv, bn))
    fused = nn.utils.fuse_conv_bn_eval(conv.eval(), bn.eval())
    line = nn.utils.fuse_linear_bn_eval(linear.eval(), bn1.eval())
    x = T.arange(18.0).reshape(1, 2, 3, 3)
    return error, fused.weight, fused.bias, fused(x), bn(conv(x)), line.weight, line.bias


@program
def skipping_initialisation(T, nn):
    net = nn.utils.skip_init(nn.Linear, 2, 3, bias=False)
    return net, net.weight.shape, net.weight.device.type, error_of(lambda: nn.utils.skip_init(nn.ReLU))


@program
def functional_calls(T, nn):
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    call = nn.utils.stateless.functional_call
    given = {"0.weight": T.ones(2, 2, requires_grad=True), "1.running_mean": T.zeros(2)}
    out = call(net, given, (T.arange(4.0).reshape(2, 2),))
    out.sin().sum().backward()
    tied = nn.Module()
    tied.a = nn.Linear(1, 1)
    tied.b = tied.a
    tied.forward = lambda x: tied.a(x) + tied.b(x)
    return [
        out,
        given["0.weight"].grad,
        given["1.running_mean"],
        net[1].running_mean,
        net[0].weight,
        call(tied, {"a.weight": T.ones(1, 1), "a.bias": T.zeros(1)}, T.ones(1, 1)),
        error_of(lambda: call(net, {"0.weight": T.ones(2, 2)}, T.ones(2, 2), strict=True)),
        call(nn.LSTM(1, 1), {"weight_ih_l0": T.zeros(4, 1)}, T.ones(1, 1, 1))[0],
    ]


@program
def initialisers(T, nn):
    init = nn.init
    results = [init.calculate_gain(n) for n in ("linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu", "selu")]
    results += [
        init.calculate_gain("leaky_relu", 0.2),
        error_of(lambda: init.calculate_gain("x")),
        error_of(lambda: init.calculate_gain("leaky_relu", "a")),
    ]
    calls = (
        lambda w: init.uniform_(w, -1, 2),
        lambda w: init.normal_(w, 1, 0.5),
        lambda w: init.trunc_normal_(w, std=0.5),
        lambda w: init.trunc_normal_(w, 0, 1, 2, 3),
        lambda w: init.trunc_normal_(w, 0, 1, -0.1, 0.1),
        lambda w: init.constant_(w, 0.3),
        init.ones_,
        init.zeros_,
        init.eye_,
        init.xavier_uniform_,
        lambda w: init.xavier_normal_(w, 2.0),
        init.kaiming_uniform_,
        lambda w: init.kaiming_normal_(w, 0.1, "fan_out", "relu"),
        init.orthogonal_,
        lambda w: init.orthogonal_(w, 2),
        lambda w: init.sparse_(w, 0.5),
    )
    results += [call(T.empty(4, 3)) for call in calls]
    results += [
        init.orthogonal_(T.empty(2, 5)),
        init.dirac_(T.empty(4, 2, 3)),
        init.dirac_(T.empty(4, 2, 3, 3), groups=2),
    ]
    results += [
        init.xavier_uniform_(nn.Parameter(T.empty(2, 3, 2))),
        init.kaiming_uniform_(T.empty(0, 3)),
        init.uniform(T.empty(2)),
    ]
    results += [
        error_of(lambda: init.xavier_uniform_(T.empty(3))),
        error_of(lambda: init.eye_(T.empty(3))),
        error_of(lambda: init.dirac_(T.empty(3))),
    ]
    generator = T.Generator().manual_seed(3)
    results += [
        init.uniform_(T.empty(3), generator=generator),
        init.kaiming_normal_(T.empty(3, 2), generator=generator),
    ]
    return results


@program
def warnings_of_layers(T, nn):
    nn.LSTM(2, 2, dropout=0.5)
    return None


@program
def adaptive_softmax(T, nn):
    net = nn.AdaptiveLogSoftmaxWithLoss(4, 10, [3, 6], div_value=2.0)
    x = T.arange(24.0).reshape(6, 4).sin()
    out = net(x[0], T.tensor(7))
    return net.log_prob(x), net.predict(x), out.output, out.loss, net


@program
def spectral_state(T, nn):
    net = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2))))
    return net, net(T.arange(4.0).reshape(2, 2)), list(net.state_dict())


@pytest.mark.parametrize("function", program, ids=named)
def test_same_outcome(function):
    compare(function)
