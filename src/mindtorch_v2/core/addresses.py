"""Paths of torch's modules that lead to a module of another path here (torch keeps one optimizer a file, we keep a
family; what torch calls `functional` is the package itself), and where torch keeps what we define elsewhere. It knows
names only; `missing` imports them.
"""

from __future__ import annotations

_OPTIMIZERS = {
    "optim.adam": "adamax adamw nadam radam",
    "optim.factored": "_adafactor _muon",
    "optim.adaptive": "adadelta adagrad asgd rmsprop rprop",
}

# Folders of the package that torch does not have, and that are not listed among its modules.
INNER = frozenset("binding cli compat core dispatch kernels launch".split())

# Path of torch's module → path of ours, where it lies in a folder that torch does not have; so does all that is in it.
MOVED = {
    **{
        name: f"compat.{name}"
        for name in """_dynamo _higher_order_ops _inductor _logging accelerator ao backends compiler cpu cuda distributed
        export fx jit mps mtia onnx xpu""".split()
    },
    **{
        f"distributions.{name}": f"distributions.multivariate.{name}"
        for name in "dirichlet lkj_cholesky lowrank_multivariate_normal multinomial multivariate_normal wishart".split()
    },
}
_TORCHS = {ours: torchs for torchs, ours in MOVED.items()}

# Modules of earlier versions, by whose names pickles know what was defined there.
_FORMER = {
    "_device": "core.device",
    "_dtype": "core.dtype",
    "_errors": "core.errors",
    "_legacy": "binding.legacy",
    "_methods": "binding.methods",
    "_random": "kernels.random",
    "_random.engine": "kernels.random.engine",
    "_reductions": "binding.reductions",
    "_settings": "kernels.settings",
    "_size": "core.size",
    "_storages": "binding.storage",
    "_tensor": "core.tensor",
    "_tensor_str": "core.printing",
    "distributions.transform_base": "distributions.transforms.base",
    "distributions.transform_parts": "distributions.transforms.parts",
    "ops.seeds": "ops.creation.seeds",
    "profiler.annotate": "profiler.record.annotate",
    "profiler.averages": "profiler.analyse.averages",
    "profiler.config": "profiler.record.config",
    "profiler.details": "profiler.analyse.details",
    "profiler.emit": "profiler.api.emit",
    "profiler.events": "profiler.analyse.events",
    "profiler.execution_trace": "profiler.api.execution_trace",
    "profiler.jsonstream": "profiler.read.jsonstream",
    "profiler.legacy": "profiler.api.legacy",
    "profiler.lists": "profiler.api.lists",
    "profiler.load": "profiler.api.load",
    "profiler.memory": "profiler.analyse.memory",
    "profiler.metrics": "profiler.analyse.metrics",
    "profiler.recover": "profiler.api.recover",
    "profiler.run": "profiler.api.run",
    "profiler.steps": "profiler.api.step_tracker",
    "profiler.trace": "profiler.api.trace",
    "profiler.units": "profiler.analyse.units",
}
_FORMERLY = {ours: former for former, ours in _FORMER.items()}

# Path of torch's module, from `torch.` on → path of ours, from the package on ("" is the package).
ADDRESSES = {
    "utils.data.datapipes.iter.sharding": "utils.data.datapipes.iter",
    "__future__": "nn.modules.conversion",
    "_custom_ops": "library",
    "ao.nn.quantized": "compat.ao.quantization",
    "_dynamo._trace_wrapped_higher_order_op": "compat._dynamo",
    "_dynamo.eval_frame": "compat._dynamo",
    "_dynamo.utils": "compat._dynamo",
    "ao.nn": "compat.ao",
    "autograd.anomaly_mode": "autograd.anomaly",
    "cpu.amp.autocast_mode": "compat.cpu.amp",
    "cpu.amp.grad_scaler": "compat.cpu.amp",
    "cuda.amp.autocast_mode": "compat.cuda.amp",
    "cuda.amp.common": "compat.cuda.amp",
    "cuda.amp.grad_scaler": "compat.cuda.amp",
    "distributed._tensor": "compat.distributed.tensor",
    "distributed._tensor.experimental": "compat.distributed.tensor",
    "distributed.device_mesh": "compat.distributed.tensor",
    "distributed.nn": "compat.distributed",
    "distributed.nn.functional": "compat.distributed",
    "distributed.tensor.experimental": "compat.distributed.tensor",
    "distributed.tensor.parallel": "compat.distributed.tensor",
    "functional": "",
    "jit.annotations": "compat.jit",
    "nn.quantized": "compat.ao.quantization",
    "onnx.symbolic_helper": "compat.onnx",
    "onnx.symbolic_opset11": "compat.onnx",
    "quantization": "compat.ao.quantization",
    "signal.windows.windows": "signal.windows",
    "storage": "binding.storage",
    "utils.benchmark.utils": "utils.benchmark",
    "utils.benchmark.utils.common": "utils.benchmark",
    "utils.benchmark.utils.timer": "utils.benchmark",
    "utils.data._utils": "utils.data",
    "utils.data._utils.collate": "utils.data.collate",
    "utils.data._utils.worker": "utils.data.worker",
    "utils.data.dataloader": "utils.data.loader",
    **{f"optim.{name}": home for home, names in _OPTIMIZERS.items() for name in names.split()},
    **_FORMER,
}

# Path of our module → path of torch's module, for the classes and functions that torch defines at another place.
_HOMES = {
    "core.device": {"": "device layout memory_format set_default_device"},
    "core.dtype": {"": "dtype finfo iinfo get_default_dtype set_default_dtype"},
    "core.errors": {"": "OutOfMemoryError", "_C": "_LinAlgError"},
    "binding.legacy": {"": "is_storage is_tensor set_default_tensor_type typename"},
    "binding.methods": {"utils.dlpack": "from_dlpack"},
    "kernels.random.engine": {"_C": "Generator"},
    "kernels.settings": {
        "": "are_deterministic_algorithms_enabled get_deterministic_debug_mode get_float32_matmul_precision "
        "get_num_interop_threads get_num_threads is_deterministic_algorithms_warn_only_enabled is_warn_always_enabled "
        "set_deterministic_debug_mode set_float32_matmul_precision set_flush_denormal set_num_interop_threads "
        "set_num_threads set_warn_always use_deterministic_algorithms"
    },
    "core.size": {"": "Size SymBool SymFloat SymInt sym_float sym_int sym_ite sym_max sym_min sym_not sym_sum"},
    "binding.storage": {"storage": "TypedStorage UntypedStorage"},
    "core.tensor": {"": "Tensor"},
    "nn.modules.conversion": {
        "__future__": "get_overwrite_module_params_on_conversion get_swap_module_params_on_conversion "
        "set_overwrite_module_params_on_conversion set_swap_module_params_on_conversion"
    },
    "compat.accelerator": {"": "get_device_module"},
    "amp.old_names": {"cuda.amp.grad_scaler": "GradScaler"},
    "autograd.anomaly": {"autograd.anomaly_mode": "detect_anomaly set_detect_anomaly"},
    "autograd.entry": {"autograd": "backward grad"},
    "autograd.node": {"autograd.graph": "Node", "utils.hooks": "RemovableHandle"},
    "autograd.swapping": {"utils": "swap_tensors"},
    "autograd.overrides": {"overrides": "TorchFunctionMode handle_torch_function"},
    "compat.compiler": {"": "compile"},
    "distributions.transforms.base": {"distributions.transforms": "ComposeTransform IndependentTransform Transform"},
    "distributions.transforms.parts": {
        "distributions.transforms": "CatTransform CorrCholeskyTransform CumulativeDistributionTransform "
        "LowerCholeskyTransform PositiveDefiniteTransform ReshapeTransform StackTransform"
    },
    "library": {"": "Tag"},
    "ops.creation.seeds": {"random": "get_rng_state initial_seed manual_seed seed set_rng_state"},
    "optim.adam": {
        "optim.adamax": "Adamax",
        "optim.adamw": "AdamW",
        "optim.nadam": "NAdam",
        "optim.radam": "RAdam",
    },
    "optim.adaptive": {
        "optim.adadelta": "Adadelta",
        "optim.adagrad": "Adagrad",
        "optim.asgd": "ASGD",
        "optim.rmsprop": "RMSprop",
        "optim.rprop": "Rprop",
    },
    "optim.cycles": {"optim.lr_scheduler": "CyclicLR OneCycleLR"},
    "optim.factored": {"optim": "Adafactor Muon"},
    "optim.schedule": {"optim.lr_scheduler": "LRScheduler"},
    "profiler.record.annotate": {"autograd.profiler": "record_function"},
    "profiler.analyse.averages": {"autograd.profiler_util": "FunctionEventAvg"},
    "profiler.record.config": {
        "_C._autograd": "DeviceType",
        "_C._profiler": "ProfilerActivity ProfilerState RecordScope",
        "profiler.profiler": "ProfilerAction supported_activities",
    },
    "profiler.analyse.details": {"autograd.profiler_util": "EventMetadata"},
    "profiler.api.emit": {"autograd.profiler": "EnforceUnique emit_itt emit_nvtx load_nvprof parse_nvprof_trace"},
    "profiler.analyse.events": {
        "autograd.profiler_util": "FormattedTimesMixin FunctionEvent Interval Kernel MemRecordsAcc StringTable"
    },
    "profiler.api.execution_trace": {"profiler.profiler": "ExecutionTraceObserver"},
    "profiler.api.lists": {"autograd.profiler_util": "EventList"},
    "profiler.api.run": {"autograd.profiler": "profile"},
    "profiler.api.step_tracker": {"autograd.profiler": "KinetoStepTracker"},
    "serialization.names": {"serialization": "add_safe_globals clear_safe_globals get_safe_globals safe_globals"},
    "serialization.options": {
        "serialization": "LoadEndianness default_restore_location get_crc32_options get_default_load_endianness "
        "get_default_mmap_options location_tag set_crc32_options set_default_load_endianness set_default_mmap_options"
    },
    "serialization.reading": {"": "PyTorchFileReader", "serialization": "load"},
    "serialization.writing": {"serialization": "save"},
    "sparse.invariants": {"sparse": "check_sparse_tensor_invariants"},
    "utils.benchmark.measurement": {"utils.benchmark.utils.common": "Measurement"},
    "utils.benchmark.timing": {"utils.benchmark.utils.timer": "Timer"},
    "utils.data.collate": {"utils.data._utils.collate": "default_collate default_convert"},
    "utils.data.loader": {"utils.data.dataloader": "DataLoader"},
    "utils.data.sampler": {"utils.data.distributed": "DistributedSampler"},
    "utils.data.worker": {"_utils": "ExceptionWrapper", "utils.data._utils.worker": "get_worker_info"},
}

# (path of our module, name) → path of torch's module, both from the package on.
HOMES = {
    (ours, name): torchs
    for ours, places in _HOMES.items()
    for torchs, names in places.items()
    for name in names.split()
}


def _moved(path: str, table: dict[str, str]) -> str:
    """A path whose beginning stands in a table, with the other beginning."""
    head = path
    while head:
        if head in table:
            return table[head] + path[len(head) :]
        head = head.rpartition(".")[0]
    return path


def our_path(path: str) -> str:
    """Where the module lies that torch has at a path, both from the package on."""
    home = ADDRESSES.get(path)
    return _moved(path, MOVED) if home is None else home


def torch_path(path: str) -> str:
    """Under which path torch has a module of ours."""
    return _moved(path, _TORCHS)


def other_paths(path: str) -> list[str]:
    """The paths that lead to a module of ours beside its own: torch's, and that of an earlier version."""
    paths = [torch_path(path), _FORMERLY.get(path, path)]
    return [other for other in paths if other != path]
