"""Paths of torch's modules that lead to a module of another path here: torch keeps one optimizer a file, we keep a
family; what torch calls `functional` is the package itself. It knows names only; `_missing` imports them.
"""

from __future__ import annotations

_OPTIMIZERS = {
    "optim.adam": "adamax adamw nadam radam sparse_adam",
    "optim.factored": "_adafactor _muon",
    "optim.adaptive": "adadelta adagrad asgd rmsprop rprop",
}

# Path of torch's module, from `torch.` on → path of ours, from the package on ("" is the package).
ADDRESSES = {
    "utils.data.datapipes.iter.sharding": "utils.data.datapipes.iter",
    "_custom_ops": "library",
    "ao.nn.quantized": "ao.quantization",
    "_dynamo._trace_wrapped_higher_order_op": "_dynamo",
    "_dynamo.eval_frame": "_dynamo",
    "_dynamo.utils": "_dynamo",
    "ao.nn": "ao",
    "autograd.anomaly_mode": "autograd.anomaly",
    "cpu.amp.autocast_mode": "cpu.amp",
    "cpu.amp.grad_scaler": "cpu.amp",
    "cuda.amp.autocast_mode": "cuda.amp",
    "cuda.amp.common": "cuda.amp",
    "cuda.amp.grad_scaler": "cuda.amp",
    "distributed._tensor": "distributed.tensor",
    "distributed._tensor.experimental": "distributed.tensor",
    "distributed.device_mesh": "distributed.tensor",
    "distributed.nn": "distributed",
    "distributed.nn.functional": "distributed",
    "distributed.tensor.experimental": "distributed.tensor",
    "distributed.tensor.parallel": "distributed.tensor",
    "functional": "",
    "jit.annotations": "jit",
    "nn.quantized": "ao.quantization",
    "onnx.symbolic_helper": "onnx",
    "onnx.symbolic_opset11": "onnx",
    "quantization": "ao.quantization",
    "signal.windows.windows": "signal.windows",
    "storage": "_methods",
    "utils.benchmark.utils": "utils.benchmark",
    "utils.benchmark.utils.common": "utils.benchmark",
    "utils.benchmark.utils.timer": "utils.benchmark",
    "utils.data._utils": "utils.data",
    "utils.data._utils.collate": "utils.data.collate",
    "utils.data._utils.worker": "utils.data.worker",
    "utils.data.dataloader": "utils.data.loader",
    **{f"optim.{name}": home for home, names in _OPTIMIZERS.items() for name in names.split()},
}
