"""SummaryWriter: writes event files through the tensorboard package. What a value looks like is `summaries`' business."""

from __future__ import annotations

import datetime
import io
import os
import socket
import time
import warnings
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from . import summaries

try:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
except ImportError:
    EventFileWriter = None


class FileWriter:
    """Writes summaries of steps to one event file."""

    def __init__(
        self, log_dir: str | os.PathLike[str], max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = ""
    ) -> None:
        self._file = EventFileWriter(os.fspath(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        folder: str = self._file.get_logdir()
        return folder

    def add_summary(self, summary: Any, global_step: int | None = None, walltime: float | None = None) -> None:
        event = Event(summary=summary, wall_time=time.time() if walltime is None else walltime)
        if global_step is not None:
            event.step = int(global_step)
        self._file.add_event(event)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def _default_folder(comment: str) -> str:
    now = datetime.datetime.now().strftime("%b%d_%H-%M-%S")
    return os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")


def _check_domains(options: dict[str, Any], domains: Any) -> None:
    if not isinstance(domains, dict):
        raise TypeError("parameter: hparam_domain_discrete should be a dictionary, nothing logged.")
    for name, values in domains.items():
        fits = name in options and isinstance(values, list) and all(type(v) is type(options[name]) for v in values)
        if not fits:
            raise TypeError(
                f"parameter: hparam_domain_discrete[{name}] should be a list of same type as hparam_dict[{name}]."
            )


class SummaryWriter:
    """Event files of a run in one folder; tags of a group of curves get folders of their own."""

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        self.log_dir = os.fspath(log_dir) if log_dir else _default_folder(comment)
        self.purge_step, self.max_queue, self.flush_secs = purge_step, max_queue, flush_secs
        self.filename_suffix = filename_suffix
        self.all_writers: dict[str, FileWriter] = {}
        self.file_writer: FileWriter | None = None
        self._get_file_writer()

    def _get_file_writer(self) -> FileWriter:
        """The writer of the folder, opened (again) when it is needed."""
        if self.file_writer is None:
            self.file_writer = FileWriter(self.log_dir, self.max_queue, self.flush_secs, self.filename_suffix)
            self.all_writers[self.log_dir] = self.file_writer
        return self.file_writer

    def get_logdir(self) -> str:
        return self.log_dir

    def _add(self, summary: Any, step: int | None, walltime: float | None) -> None:
        self._get_file_writer().add_summary(summary, step, walltime)

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        self._add(summaries.scalar(tag, scalar_value, new_style, double_precision), global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Several curves in one chart."""
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(self.log_dir, f"{main_tag.replace('/', '_')}_{tag}")
            if folder not in self.all_writers:
                self.all_writers[folder] = FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)
            self.all_writers[folder].add_summary(summaries.scalar(main_tag, value), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        self._add(summaries.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        self._add(summaries.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        self._add(summaries.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_figure(
        self, tag: str, figure: Any, global_step: int | None = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """A matplotlib figure, or several, as pictures."""
        for one in figure if isinstance(figure, (list, tuple)) else [figure]:
            buffer = io.BytesIO()
            one.savefig(buffer, format="raw", dpi=one.dpi)
            width, height = one.canvas.get_width_height()
            pixels = np.frombuffer(buffer.getvalue(), np.uint8).reshape(height, width, 4)
            self.add_image(tag, pixels, global_step, walltime, "HWC")
            if close:
                one.clear()

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        self._add(summaries.text(tag, text_string), global_step, walltime)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        self._add(summaries.pr_curve(tag, labels, predictions, num_thresholds, weights), global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """The settings of a run beside what it reached, in a folder of their own."""
        if not isinstance(hparam_dict, dict) or not isinstance(metric_dict, dict):
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        domains = hparam_domain_discrete or {}
        _check_domains(hparam_dict, domains)
        found = summaries.hparams(hparam_dict, metric_dict, domains)
        with SummaryWriter(os.path.join(self.log_dir, run_name or str(time.time()))) as writer:
            for summary in found:
                writer._add(summary, global_step, None)

    def add_graph(self, model: Any, input_to_model: Any = None, verbose: bool = False, **options: Any) -> None:
        """Needs a graph of the model, of which none is captured: the run goes on without it."""
        warnings.warn("SummaryWriter.add_graph writes nothing: mindtorch_v2 captures no graph of a model", stacklevel=2)

    def add_embedding(self, mat: Any, metadata: Any = None, label_img: Any = None, global_step: Any = None,
                      tag: str = "default", metadata_header: Any = None) -> None:  # fmt: skip
        """Points as text files, their pictures as one, and the projector's index of them."""
        points = summaries.as_array(mat)
        if points.ndim != 2:
            raise AssertionError("mat should be 2D, where mat.size(0) is the number of data points")
        for what, given in (("labels", metadata), ("images", label_img)):
            if given is not None and len(given) != len(points):
                raise AssertionError(f"#{what} should equal with #data points, got {len(given)} and {len(points)}")
        folder = Path(self.log_dir) / f"{0 if global_step is None else int(global_step):05d}" / tag
        folder.mkdir(parents=True, exist_ok=True)
        rows = ["\t".join(map(str, row)) for row in points.tolist()]
        (folder / "tensors.tsv").write_text("\n".join(rows) + "\n")
        place = folder.relative_to(self.log_dir).as_posix()
        lines = [f'tensor_name: "{tag}:{folder.parent.name}"', f'tensor_path: "{place}/tensors.tsv"']
        if metadata is not None:
            names = ["\t".join(map(str, m)) if isinstance(m, (list, tuple)) else str(m) for m in metadata]
            header = ["\t".join(metadata_header)] if metadata_header else []
            (folder / "metadata.tsv").write_text("\n".join(header + names) + "\n")
            lines.insert(1, f'metadata_path: "{place}/metadata.tsv"')
        if label_img is not None:
            (folder / "sprite.png").write_bytes(summaries.sprite(label_img))
            height, width = label_img.shape[2:]
            lines.append(
                f'sprite {{ image_path: "{place}/sprite.png" single_image_dim: {width} single_image_dim: {height} }}'
            )
        with open(Path(self.log_dir) / "projector_config.pbtxt", "a") as index:
            index.write("embeddings {\n" + "\n".join(lines) + "\n}\n")

    def flush(self) -> None:
        for writer in self.all_writers.values():
            writer.flush()

    def close(self) -> None:
        for writer in self.all_writers.values():
            writer.flush()
            writer.close()
        self.all_writers, self.file_writer = {}, None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()
