"""Values as TensorBoard's protocol buffers: scalars, histograms, images, texts, precision-recall curves. Knows the
tensorboard package; does not know files.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..pictures import default_edges, laid_out, on_a_square, png

try:
    from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
    from tensorboard.plugins.hparams.api_pb2 import Experiment, MetricName
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo
    from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData
    from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData
except ImportError:
    Summary = None


def as_array(value: Any) -> np.ndarray[Any, Any]:
    """Tensors, lists and numbers as arrays."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        return np.asarray((value.float() if value.dtype.itemsize < 4 and value.is_floating_point() else value).numpy())
    return np.asarray(value)


def scalar(tag: str, value: Any, new_style: bool = False, double_precision: bool = False) -> Any:
    """One number: a field of its own, or in the new style a tensor, which alone can hold it in double precision."""
    number = float(as_array(value).reshape(-1)[0])
    if new_style:
        data = SummaryMetadata.PluginData(plugin_name="scalars")
        kind = (
            {"dtype": "DT_DOUBLE", "double_val": [number]}
            if double_precision
            else {"dtype": "DT_FLOAT", "float_val": [number]}
        )
        shown = TensorProto(**kind)
        return Summary(value=[Summary.Value(tag=tag, metadata=SummaryMetadata(plugin_data=data), tensor=shown)])
    return Summary(value=[Summary.Value(tag=tag, simple_value=number)])


def histogram(tag: str, values: Any, bins: Any = "tensorflow", max_bins: int | None = None) -> Any:
    """Counts of values between edges; empty bins at both ends are left out."""
    data = as_array(values).astype(np.float64).reshape(-1)
    if data.size == 0:
        raise ValueError("The histogram is empty, please file a bug report.")
    edges = default_edges() if isinstance(bins, str) and bins == "tensorflow" else bins
    counts, limits = np.histogram(data, edges)
    if max_bins is not None and len(counts) > max_bins:
        counts, limits = np.histogram(data, max_bins)
    filled = np.flatnonzero(counts)
    first, last = (int(filled[0]), int(filled[-1]) + 1) if filled.size else (0, len(counts))
    shown = HistogramProto(
        min=data.min(), max=data.max(), num=data.size, sum=data.sum(), sum_squares=data.dot(data),
        bucket_limit=[limits[first], *limits[first + 1 : last + 1]], bucket=[0, *counts[first:last]],
    )  # fmt: skip
    return Summary(value=[Summary.Value(tag=tag, histo=shown)])


def image(tag: str, picture: Any, dataformats: str = "CHW") -> Any:
    """One picture, or several side by side (`N` among the formats); floats are from 0 to 1."""
    data = as_array(picture)
    pixels = np.clip(data * (1 if data.dtype == np.uint8 else 255), 0, 255).astype(np.uint8)
    pixels = laid_out(pixels, dataformats.upper())
    height, width, channels = pixels.shape
    shown = Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=png(pixels))
    return Summary(value=[Summary.Value(tag=tag, image=shown)])


def _tensor(plugin: str, content: Any, tag: str, proto: Any) -> Any:
    data = SummaryMetadata.PluginData(plugin_name=plugin, content=content.SerializeToString())
    return Summary(value=[Summary.Value(tag=tag, metadata=SummaryMetadata(plugin_data=data), tensor=proto)])


def text(tag: str, words: str) -> Any:
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
    proto = TensorProto(dtype="DT_STRING", string_val=[words.encode()], tensor_shape=shape)
    return _tensor("text", TextPluginData(version=0), f"{tag}/text_summary", proto)


def pr_curve(tag: str, labels: Any, predictions: Any, thresholds: int = 127, weights: Any = None) -> Any:
    """Counts of right and wrong answers, precision and recall at evenly spaced thresholds."""
    truth, guess = as_array(labels).reshape(-1).astype(bool), as_array(predictions).reshape(-1)
    weight = np.ones(guess.shape) if weights is None else as_array(weights).reshape(-1)
    bucket = np.clip(np.floor(guess * (thresholds - 1)), 0, thresholds - 1).astype(np.int64)
    right = np.bincount(bucket[truth], weight[truth], thresholds)[::-1].cumsum()[::-1]
    wrong = np.bincount(bucket[~truth], weight[~truth], thresholds)[::-1].cumsum()[::-1]
    quiet, missed = wrong[0] - wrong, right[0] - right
    precision = right / np.maximum(1e-7, right + wrong)
    recall = right / np.maximum(1e-7, right + missed)
    rows = np.stack([right, wrong, quiet, missed, precision, recall])
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=n) for n in rows.shape])
    proto = TensorProto(dtype="DT_FLOAT", float_val=rows.reshape(-1).tolist(), tensor_shape=shape)
    return _tensor("pr_curves", PrCurvePluginData(version=0, num_thresholds=thresholds), tag, proto)


def hparams(options: dict[str, Any], metrics: dict[str, Any], domains: dict[str, list[Any]]) -> list[Any]:
    """The settings of a run, what else some of them might have been, and the names of what it measured."""
    start, experiment = SessionStartInfo(), Experiment()
    for name, value in options.items():
        if value is None:
            continue
        field, kind, held = _setting(value)
        setattr(start.hparams[name], field, held)
        info = experiment.hparam_infos.add(name=name, type=kind)
        for other in domains.get(name, ()):
            field, _, held = _setting(other)
            setattr(info.domain_discrete.values.add(), field, held)
    for name in metrics:
        experiment.metric_infos.add(name=MetricName(tag=name))
    from_start = HParamsPluginData(version=0, session_start_info=start)
    from_end = HParamsPluginData(version=0, session_end_info=SessionEndInfo(status="STATUS_SUCCESS"))
    return [
        _metadata("_hparams_/experiment", HParamsPluginData(version=0, experiment=experiment)),
        _metadata("_hparams_/session_start_info", from_start),
        _metadata("_hparams_/session_end_info", from_end),
        *(scalar(name, value) for name, value in metrics.items()),
    ]


def _setting(value: Any) -> tuple[str, str, Any]:
    """The field for a setting, its kind, and the value as it goes there."""
    if isinstance(value, bool):
        return "bool_value", "DATA_TYPE_BOOL", value
    if isinstance(value, str):
        return "string_value", "DATA_TYPE_STRING", value
    if isinstance(value, (int, float, np.number)) or hasattr(value, "detach"):
        return "number_value", "DATA_TYPE_FLOAT64", float(as_array(value).reshape(-1)[0])
    raise ValueError(f"value should be one of int, float, str, bool, or torch.Tensor, got {type(value).__name__}")


def sprite(images: Any) -> bytes:
    """Pictures of points as one PNG file."""
    data = as_array(images)
    return png(laid_out(on_a_square(data if data.dtype != np.uint8 else data / 255), "HWC"))


def _metadata(tag: str, content: Any) -> Any:
    data = SummaryMetadata.PluginData(plugin_name="hparams", content=content.SerializeToString())
    return Summary(value=[Summary.Value(tag=tag, metadata=SummaryMetadata(plugin_data=data))])


__all__ = ["Summary", "as_array", "histogram", "hparams", "image", "pr_curve", "scalar", "sprite", "text"]
