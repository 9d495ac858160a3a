"""A generated run of several steps on a GPU, as the report shows it: layers with shapes, small kernels, copies, memory,
communication on a stream of its own, a synchronising call at the end of each step, and the host late in between."""

from __future__ import annotations

from device_traces import BACKWARD_THREAD, DeviceTrace

_STEP = 4000.0
_BLOCKS = 6


def device_run(steps: int = 4) -> DeviceTrace:
    """Each step takes 4 ms: 0.4 for input, forward and backward of six blocks, an all-reduce, an update and a read."""
    # A long run has many calls before it: readers should not take these ids for small numbers.
    trace = DeviceTrace(_last_correlation=1_000_000)
    for step in range(steps):
        begin = 1000.0 + step * _STEP
        trace.annotation(f"ProfilerStep#{step}", begin, _STEP - 10)
        trace.python("train.py(40): step", begin + 2, _STEP - 20, Python_id=4 * step + 1)
        trace.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", begin + 5, 395.0)
        free = _input(trace, begin + 420, begin + 430)
        free = _forward(trace, begin + 480, free, step)
        free = _backward(trace, begin + 1500, free)
        _update(trace, begin + 2700, free)
        trace.on_device(f"ProfilerStep#{step}", begin + 430, _STEP - 700, 1)
    return trace


def _input(trace: DeviceTrace, at: float, free: float) -> float:
    trace.op("aten::to", at, 40.0)
    copy = trace.op("aten::copy_", at + 4, 30.0)
    trace.launch("copy", "Memcpy HtoD (Pageable -> Device)", at + 8, free, 60.0, copy, bytes=1 << 20)
    return free + 60


def _forward(trace: DeviceTrace, at: float, free: float, step: int) -> float:
    for block in range(_BLOCKS):
        begin = at + block * 150
        trace.python(
            f"nn.Module: Block_{block}", begin, 140.0, Python_id=100 * step + block + 1000, Python_module_id=block
        )
        trace.python("model.py(12): forward", begin + 2, 136.0, Python_id=100 * step + block + 5000)
        shapes = {"Input_Dims": [[1024], [512, 1024], [1024, 1024], [], []], "Input_type": ["c10::BFloat16"] * 3}
        addmm = trace.op("aten::addmm", begin + 10, 40.0, Sequence_number=block + 1, Fwd_thread_id=0, **shapes)
        trace.memory(begin + 14, 1 << 20, (100 + block) << 20, address=block + 1)
        free = max(free + 1, begin + 22)
        trace.launch("kernel", "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", begin + 16, free, 30.0, addmm)
        free += 30
        for place, (name, kernel) in enumerate((("aten::add", "add"), ("aten::gelu", "gelu"), ("aten::mul", "mul"))):
            dims = {"Input_Dims": [[512, 1024], [512, 1024]], "Input_type": ["c10::BFloat16"] * 2}
            op = trace.op(name, begin + 60 + 24 * place, 18.0, **dims)
            free = max(free + 1, begin + 72 + 24 * place)
            kernel = f"void at::native::vectorized_elementwise_kernel<4, {kernel}>"
            trace.launch("kernel", kernel, begin + 64 + 24 * place, free, 3.0, op)
            free += 3
    return free


def _backward(trace: DeviceTrace, at: float, free: float) -> float:
    for block in reversed(range(_BLOCKS)):
        begin = at + (_BLOCKS - 1 - block) * 180
        node = {"tid": BACKWARD_THREAD, "Sequence_number": block + 1, "Fwd_thread_id": 1}
        trace.op("autograd::engine::evaluate_function: AddmmBackward0", begin, 160.0, **node)
        trace.op("AddmmBackward0", begin + 4, 140.0, **node)
        shapes = {"Input_Dims": [[512, 1024], [1024, 1024]], "Input_type": ["c10::BFloat16"] * 2}
        for place in range(2):
            mm = trace.op("aten::mm", begin + 10 + 60 * place, 50.0, BACKWARD_THREAD, **shapes)
            free = max(free + 1, begin + 24 + 60 * place)
            trace.launch(
                "kernel",
                "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nt_n",
                begin + 16 + 60 * place,
                free,
                32.0,
                mm,
                BACKWARD_THREAD,
            )
            free += 32
    comms = trace.op("record_param_comms", at + 1080, 30.0, BACKWARD_THREAD)
    trace.launch(
        "kernel",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
        at + 1090,
        at + 1100,
        500.0,
        comms,
        BACKWARD_THREAD,
        stream=20,
    )
    return max(free, at + 1600)


def _update(trace: DeviceTrace, at: float, free: float) -> None:
    trace.annotation("Optimizer.step#SGD.step", at, 300.0)
    for place in range(4):
        op = trace.op("aten::_foreach_add_", at + 10 + 60 * place, 40.0)
        free = max(free + 2, at + 30 + 60 * place)
        trace.launch("kernel", "multi_tensor_apply_kernel", at + 20 + 60 * place, free, 12.0, op)
        free += 12
    item = trace.op("aten::item", at + 320, 700.0)
    trace.launch("copy", "Memcpy DtoH (Device -> Pageable)", at + 325, free + 5, 2.0, item, bytes=4)
    trace.call("cudaStreamSynchronize", at + 340, max(free + 20 - at - 340, 5.0), item)
    for block in range(_BLOCKS):
        trace.memory(at + 1050 + block, -(1 << 20), (99 + _BLOCKS - block) << 20, address=block + 1)
