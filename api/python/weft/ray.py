# SPDX-License-Identifier: Apache-2.0
"""Weft on Ray: `Deployment` serves models by Ray Serve, `map_batches` runs a model over a dataset (docs/serving.md).

    serve.run(weft.ray.Deployment(["digits.onnx"], num_replicas=2))
    answers = weft.ray.map_batches(dataset, "digits.onnx", columns={"picture": "image"})

Models are sent as saved programs: a replica compiles nothing and needs no file of this machine. Needs `pip install 'ray[serve,data]'`.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import weft

ERROR = "error"  #: name of the column with the reason why a row has no answer; "" for rows with an answer


@dataclasses.dataclass(frozen=True)
class Shipped:
    """A compiled model as bytes, for any machine with the kind of chip that the model was compiled for."""

    name: str
    program: bytes
    threads: int = 0
    device: str = "auto"

    @classmethod
    def of(cls, model: str | os.PathLike[str], *, device: str = "auto", threads: int = 0, **options: Any) -> Shipped:
        """Compiles a model for `device`, which may name a chip that this machine lacks. Uses a saved program unchanged."""
        path = Path(model)
        if path.suffix == ".weft":
            return cls(path.stem, path.read_bytes(), threads, device)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.weft"
            weft.compile(path, device=device, threads=threads, **options).save(file)
            return cls(path.stem, file.read_bytes(), threads, device)

    def write(self, folder: str | os.PathLike[str]) -> Path:
        """Writes the program to a file in the folder and returns its path."""
        path = Path(folder) / f"{self.name}.weft"
        path.write_bytes(self.program)
        return path

    def load(self) -> weft.Model:
        """Loads the program on this machine."""
        with tempfile.TemporaryDirectory() as folder:
            return weft.load(self.write(folder), threads=self.threads)


# --- Ray Serve ------------------------------------------------------------------------------------------------------

_repository: Any = None  # the repository of this replica; each replica is a process
_folder: Any = None  # the temporary folder with the replica's models


def _builder(models: list[Shipped], options: Any) -> Callable[[], Any]:
    def build() -> Any:
        import weft.ray
        from weft.serve import Repository, web

        # Ray pickles this function for other processes without the module's globals, so the function imports the module.
        weft.ray._folder = tempfile.TemporaryDirectory(prefix="weft-ray-")
        words = [str(model.write(weft.ray._folder.name)) for model in models]
        weft.ray._repository = Repository(dataclasses.replace(options, models=words))
        return web.build(weft.ray._repository)

    return build


class _Replica:
    """One replica: the methods that a Ray handle of the deployment can call, besides the v2 protocol over HTTP."""

    async def infer(self, inputs: Mapping[str, Any], model: str = "", deadline: float = 0.0) -> dict[str, Any]:
        """Answers one request, with inputs and outputs by name: {"x": array} gives {"y": array}. Several requests may share a run.

        model: name of the model; default: the first. deadline: limit in seconds; 0: the deadline in the options. Raises UsageError for an
        unknown input."""
        served = weft.ray._repository.find(model or next(iter(weft.ray._repository.models)))
        unknown = sorted(set(inputs) - {port.name for port in served.inputs})
        if unknown:
            raise weft.UsageError(f"error[E310]: the model has no input '{unknown[0]}'", "E310")
        tensors = [weft._tensor(inputs[port.name], port) if port.name in inputs else None for port in served.inputs]
        outputs = await served.infer(tensors, deadline)
        return {output.name: output.array() for output in outputs}

    async def process(self) -> int:
        """Returns the process id of the replica."""
        return os.getpid()


def Deployment(
    models: Iterable[str | os.PathLike[str] | Shipped], *, name: str = "weft", threads: int = 1, num_cpus: float = 1,
    num_gpus: float = 0, options: Any = None, **serve_options: Any,
) -> Any:
    """Makes an application for `serve.run`. Each replica serves the models by the KServe v2 protocol, with a queue for each model.

    models: files, or models made by `Shipped.of`. threads: CPU threads of a replica. num_cpus, num_gpus: what Ray reserves for a
    replica. options: a weft.serve.Options; its models, model folder, host, ports, TLS files and threads are ignored. serve_options:
    options of `serve.deployment`, such as num_replicas, autoscaling_config or max_ongoing_requests.
    """
    from ray import serve

    from weft.serve import Options

    options = options or Options()
    shipped = [m if isinstance(m, Shipped) else Shipped.of(m, device=options.device, threads=threads, precision=options.precision) for m in models]
    # With the host "0.0.0.0", `Guard` in web.py accepts every host name. Weft itself does not listen; Ray's proxy does.
    options = dataclasses.replace(options, host="0.0.0.0", threads=threads, device="auto", model_folder=None)
    serve_options.setdefault("max_ongoing_requests", 2 * options.max_batch)
    actor = {"num_cpus": num_cpus, "num_gpus": num_gpus} | serve_options.pop("ray_actor_options", {})
    replica = serve.ingress(_builder(shipped, options))(_Replica)
    return serve.deployment(name=name, ray_actor_options=actor, **serve_options)(replica).bind()


# --- Ray Data -------------------------------------------------------------------------------------------------------


class _Predictor:
    """Runs a model over batches of rows; if a row fails, the other rows still get their answers."""

    def __init__(self, model: Shipped, columns: Mapping[str, str], prepare: Callable[[dict[str, Any]], dict[str, Any]] | None) -> None:
        self._model = model.load()
        self._columns, self._prepare = columns, prepare

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        import numpy as np

        count = len(next(iter(batch.values())))
        answers: list[dict[str, Any] | None] = [None] * count
        errors = [""] * count
        self._fill(batch, 0, count, answers, errors)
        right = [row for row in answers if row is not None]
        columns = dict(batch)
        for port in self._model.outputs:
            shape, type_ = (right[0][port.name].shape, right[0][port.name].dtype) if right else ((0,), np.float32)
            nothing = np.zeros(shape, type_)
            rows = [nothing if row is None else row[port.name] for row in answers]
            columns[port.name] = np.stack(rows) if len({row.shape for row in rows}) == 1 else np.array(rows, dtype=object)
        columns[ERROR] = np.array(errors, dtype=object)
        return columns

    def _fill(self, batch: dict[str, Any], first: int, end: int, answers: list[Any], errors: list[str]) -> None:
        """Fills the answers of rows [first, end) by one run. If the run fails, fills each half of the rows separately."""
        try:
            outputs = self._run({name: column[first:end] for name, column in batch.items()}, end - first)
            for i in range(first, end):
                answers[i] = {name: value[i - first] for name, value in outputs.items()}
        except Exception as error:
            if end - first == 1:
                errors[first] = f"{type(error).__name__}: {error}"
                return
            middle = (first + end) // 2
            self._fill(batch, first, middle, answers, errors)
            self._fill(batch, middle, end, answers, errors)

    def _run(self, rows: dict[str, Any], count: int) -> dict[str, Any]:
        given = self._prepare(rows) if self._prepare else rows
        feeds = {port: _stacked(given[column]) for column, port in self._columns.items()}
        outputs = self._model.run(feeds)
        for name, value in outputs.items():
            if len(getattr(value, "shape", ())) == 0 or value.shape[0] != count:
                raise weft.UsageError(f"error[E310]: output '{name}' has no row for each of {count} rows", "E310")
        return outputs


def _stacked(column: Any) -> Any:
    """Joins the arrays of a column to one array; Ray may pass a column of arrays as an array of objects."""
    import numpy as np

    is_of_arrays = isinstance(column, np.ndarray) and column.dtype.kind == "O" and len(column) > 0 and hasattr(column[0], "shape")
    return np.stack(list(column)) if is_of_arrays else column


def map_batches(
    dataset: Any, model: str | os.PathLike[str] | Shipped, *, columns: Mapping[str, str] | None = None,
    prepare: Callable[[dict[str, Any]], dict[str, Any]] | None = None, batch_size: int = 64, concurrency: int | tuple[int, int] = 1,
    threads: int = 1, device: str = "auto", num_cpus: float = 1, num_gpus: float = 0, **options: Any,
) -> Any:
    """Runs a model over a dataset. Returns the dataset with a column for each output of the model, and a column "error".

    columns: the input for each column, {"picture": "image"}; by default columns have the names of the inputs without a default.
    prepare: a function that converts pictures or texts to arrays. It gets a batch (columns by name) and returns one with the columns of
    `columns`.
    batch_size: most rows of a run. concurrency: the number of processes, or its limits (least, most). threads: CPU threads of a process.
    num_gpus, num_cpus: what Ray reserves for a process; with num_gpus, num_cpus is ignored. device: as for `weft.compile`.
    options: options of `Dataset.map_batches`.

    If `prepare` or the model refuses a row, its "error" has the reason, and its outputs have no meaning; the other rows get their
    answers. `answers.filter(lambda row: row["error"])` selects the refused rows.
    """
    shipped = model if isinstance(model, Shipped) else Shipped.of(model, device=device, threads=threads)
    columns = columns or {port.name: port.name for port in shipped.load().inputs if not port.has_default}
    return dataset.map_batches(
        _Predictor, fn_constructor_args=(shipped, dict(columns), prepare), batch_size=batch_size, batch_format="numpy",
        concurrency=concurrency, num_cpus=num_cpus if not num_gpus else None, num_gpus=num_gpus or None, **options,
    )
