# SPDX-License-Identifier: Apache-2.0
"""The models that are served, their versions, and the folder that is watched. All functions run on one event loop; only
loading a model uses another thread."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import weft

from .. import _weft
from ._options import Options
from ._tensors import TYPES, Output, Refused

log = logging.getLogger("weft.serve")
SUFFIXES = (".weft", ".onnx", ".pt2", ".tflite", ".pb")
#: codes of Weft's errors that have their own status in HTTP and gRPC: a full queue, a missed deadline, a stopped queue
TOO_MANY, TOO_LATE, GONE = "E407", "E403", "E404"


def devices(device: str) -> list[str]:
    """Lists the devices: "gpu:*" is every GPU, "gpu:1" the second one. A name with commas stays one entry: the model is split over
    these devices."""
    if not device.startswith("gpu:") or "," in device:
        return [device]
    gpus = _weft.gpus()
    if device == "gpu:*":
        chosen = gpus
    else:
        number = device.removeprefix("gpu:")
        chosen = gpus[int(number) : int(number) + 1] if number.isdecimal() else []
    if not chosen:
        raise weft.DeviceError(f"error[E501]: --device {device}: this machine has {len(gpus)} GPUs", "E501")
    return chosen


class Served:
    """One version of a model: a program for each device, and the request queue that the programs share."""

    def __init__(self, name: str, version: str, path: Path, options: Options) -> None:
        self.name, self.version, self.path = name, version, path
        self.device_names = options.devices or devices(options.device)
        self.models = [self._compiled(device, options) for device in self.device_names]
        self.model = self.models[0]
        self.inputs, self.outputs = self.model.inputs, self.model.outputs
        self._check_ports()
        self.properties: dict[str, str] = self.model.report()["metadata"]  # the model's own metadata
        natives = [model._native for model in self.models for _ in range(options.instances)]
        self.queue = _weft.Queue(natives, options.max_batch, options.batch_delay, options.queue)
        self.default_deadline = options.deadline
        self.last_inference_ms = 0
        self._waiting: dict[int, asyncio.Future[list[Any]]] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def _compiled(self, device: str, options: Options) -> weft.Model:
        if self.path.suffix == ".weft" and device == "auto":
            return weft.load(self.path, threads=options.threads)
        return weft.compile(self.path, device=device, threads=options.threads, precision=options.precision)

    def _check_ports(self) -> None:
        for port in (*self.inputs, *self.outputs):
            if port.dtype not in TYPES:
                text = f"'{port.name}' is {port.type}, and the v2 protocol has no such type"
                raise weft.UnsupportedError(f"error[E310]: {text}", "E310")

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        loop.add_reader(self.queue.fileno(), self._take)

    def _take(self) -> None:
        for ticket, values, error in self.queue.take():
            future = self._waiting.pop(ticket)
            if future.done():
                pass
            elif error is not None:
                future.set_exception(error)
            else:
                future.set_result(values)
        if not self._waiting:
            self._idle.set()

    async def infer(self, inputs: list[_weft.Tensor | None], deadline: float = 0.0) -> list[Output]:
        """Queues a request and waits for its answer. The deadline or a cancellation withdraws the request."""
        assert self._loop is not None
        deadline = deadline or self.default_deadline
        ticket = self.queue.submit(inputs, deadline)
        future: asyncio.Future[list[Any]] = self._loop.create_future()
        self._waiting[ticket] = future
        self._idle.clear()
        try:
            values = await (asyncio.wait_for(future, deadline) if deadline else future)
        except (asyncio.CancelledError, asyncio.TimeoutError):
            self.queue.cancel(ticket)
            raise
        self.last_inference_ms = int(time.time() * 1000)
        return [Output(port.name, port.dtype, value) for port, value in zip(self.outputs, values, strict=True)]

    async def retire(self) -> None:
        """Waits until open requests are answered, then closes the queue."""
        await self._idle.wait()
        if self._loop:
            self._loop.remove_reader(self.queue.fileno())
        self.queue.close()

    def metadata(self, versions: list[str]) -> dict[str, Any]:
        def port(p: weft.Port) -> dict[str, Any]:
            shape = [size if isinstance(size, int) else -1 for size in p.shape]
            return {"name": p.name, "datatype": TYPES[p.dtype][0], "shape": shape}

        return {
            "name": self.name, "versions": versions, "platform": "weft",
            "inputs": [port(p) for p in self.inputs], "outputs": [port(p) for p in self.outputs],
        }

    def statistics(self) -> dict[str, Any]:
        """Returns statistics in the form of Triton's extension of the protocol."""
        stats = self.queue.stats()
        runs = stats["runs_by_rows"]
        failed = stats["failed"] + stats["cancelled"] + stats["expired"]
        both = stats["queue_ns"] + stats["run_ns"]
        return {
            "name": self.name, "version": self.version, "last_inference": self.last_inference_ms,
            "inference_count": sum(rows * count for rows, (count, _) in runs.items()),
            "execution_count": sum(count for count, _ in runs.values()),
            "inference_stats": {
                "success": {"count": stats["answered"], "ns": both}, "fail": {"count": failed, "ns": 0},
                "queue": {"count": stats["answered"] + failed, "ns": stats["queue_ns"]},
                "compute_infer": {"count": stats["answered"], "ns": stats["run_ns"]},
            },
            "batch_stats": [
                {"batch_size": rows, "compute_infer": {"count": count, "ns": ns}} for rows, (count, ns) in sorted(runs.items())
            ],
        }


@dataclasses.dataclass
class Entry:
    """A known version of a model: its file and its state."""

    path: Path
    mark: tuple[int, int] = (0, 0)  #: time and size of the file when it was loaded
    served: Served | None = None
    reason: str = ""
    is_wanted: bool = True


def mark_of(path: Path) -> tuple[int, int]:
    try:
        stat = path.stat()
    except OSError:
        return (0, 0)
    return stat.st_mtime_ns, stat.st_size


class Repository:
    def __init__(self, options: Options) -> None:
        self.options = options
        self.models: dict[str, dict[str, Entry]] = {}
        self._fixed: dict[str, Path] = {}
        for word in options.models:
            name, _, path = word.rpartition("=") if "=" in word and not Path(word).exists() else ("", "", word)
            name = name or Path(path).stem
            if name in self._fixed:
                raise SystemExit(f"error[E202]: two models are called '{name}': give one another name with NAME=FILE")
            self._fixed[name] = Path(path)
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_live = False
        self.before_stop: list[Callable[[], Awaitable[None]]] = []

    # --- loading ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Loads all models. A model of the command line that cannot be loaded ends the server."""
        for name, path in self._fixed.items():
            entry = self.models.setdefault(name, {})["1"] = Entry(path)
            await self._load(name, "1", entry)
            if entry.reason:
                raise SystemExit(entry.reason)
        await self.look()
        self.is_live = True
        if self.options.model_folder:
            self._spawn(self._watch())

    async def stop(self) -> None:
        self.is_live = False
        for work in self.before_stop:
            await work()
        for task in list(self._tasks):
            task.cancel()
        for entry in self._entries():
            if entry.served:
                await entry.served.retire()

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _entries(self) -> list[Entry]:
        return [entry for versions in self.models.values() for entry in versions.values()]

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self.options.poll)
            try:
                await self.look()
            except Exception:  # such as a folder that is missing for a moment: the loaded models stay
                log.exception("looking at the model folder")

    def _found(self) -> dict[str, dict[str, Path]]:
        """Finds the newest versions of each model in the folder: NAME.onnx and NAME/VERSION/model.onnx, or other formats."""
        found: dict[str, dict[str, Path]] = {}
        root = Path(self.options.model_folder or "")
        for path in sorted(root.iterdir()) if self.options.model_folder else []:
            if path.suffix in SUFFIXES and path.is_file():
                found.setdefault(path.stem, {})["1"] = path
            numbers = [p for p in path.iterdir() if p.name.isdecimal()] if path.is_dir() else []
            for version in sorted(numbers, key=lambda p: int(p.name))[-self.options.versions :]:
                files = [version / f"model{suffix}" for suffix in SUFFIXES if (version / f"model{suffix}").is_file()]
                if files:
                    found.setdefault(path.name, {})[version.name] = files[0]
        return {name: versions for name, versions in found.items() if name not in self._fixed}

    async def look(self) -> None:
        """Loads new and changed versions of the folder, then drops the outdated ones."""
        async with self._lock:
            found = self._found()
            for name, versions in found.items():
                for version, path in versions.items():
                    await self._refresh(name, version, path)
            for name in [name for name in self.models if name not in self._fixed]:
                for version in self._outdated(name, found.get(name, {})):
                    self._drop(self.models[name].pop(version))
                if not self.models[name]:
                    del self.models[name]

    def _outdated(self, name: str, found: dict[str, Path]) -> list[str]:
        """Returns the versions to drop: those that are not in `found`, if their file is gone or a version in `found` is ready."""
        entries = self.models[name]
        has_newer = any(entries[version].served for version in found)
        return [v for v, entry in entries.items() if v not in found and (has_newer or not entry.path.exists())]

    async def _refresh(self, name: str, version: str, path: Path) -> None:
        entry = self.models.setdefault(name, {}).setdefault(version, Entry(path))
        if entry.is_wanted and entry.mark != mark_of(path):
            entry.path = path
            await self._load(name, version, entry)

    async def _load(self, name: str, version: str, entry: Entry) -> None:
        """Loads a version from its file. A program that was loaded before is served until the new one is ready."""
        mark = mark_of(entry.path)
        try:
            served = await asyncio.to_thread(Served, name, version, entry.path, self.options)
        except weft.Error as error:
            entry.mark, entry.reason = mark, str(error)
            log.error("%s version %s: %s", name, version, error)
            return
        served.attach(asyncio.get_running_loop())
        before, entry.served, entry.mark, entry.reason = entry.served, served, mark, ""
        log.info("%s version %s is ready on %s: %s", name, version, ", ".join(served.device_names), self.describe(served))
        if before:
            self._spawn(before.retire())

    @staticmethod
    def describe(served: Served) -> str:
        if not served.queue.joins:
            return f"requests are not joined: {served.queue.reason}"
        return f"requests are joined{f', sequences of {served.queue.length} are padded' if served.queue.length else ''}"

    def _drop(self, entry: Entry) -> None:
        if entry.served:
            self._spawn(entry.served.retire())
        entry.served = None

    # --- lookup -----------------------------------------------------------------------------------------------------

    def find(self, name: str, version: str = "") -> Served:
        """Returns a version of a model, by default the newest that is ready."""
        versions = self.models.get(name)
        if versions is None:
            raise Refused(404, f"there is no model '{name}'")
        if version and version not in versions:
            raise Refused(404, f"model '{name}' has no version '{version}'")
        ready = {v: e.served for v, e in versions.items() if e.served and (not version or v == version)}
        if not ready:
            raise Refused(400, f"model '{name}' is not loaded")
        return ready[max(ready, key=int)]

    def is_ready(self, name: str = "", version: str = "") -> bool:
        if not name:
            return self.is_live and all(any(e.served for e in versions.values()) for versions in self.models.values())
        try:
            return self.find(name, version) is not None
        except Refused as error:
            if error.status == 404:
                raise
            return False

    def versions(self, name: str) -> list[str]:
        return sorted((v for v, e in self.models[name].items() if e.served), key=int)

    def all_served(self) -> list[Served]:
        return [entry.served for entry in self._entries() if entry.served]

    def index(self, only_ready: bool = False) -> list[dict[str, str]]:
        rows = []
        for name, versions in sorted(self.models.items()):
            for version, entry in sorted(versions.items(), key=lambda item: int(item[0])):
                state = "READY" if entry.served else "UNAVAILABLE"
                if entry.served or not only_ready:
                    rows.append({"name": name, "version": version, "state": state, "reason": entry.reason.partition("\n")[0]})
        return rows

    async def load(self, name: str) -> None:
        """Loads the versions of a known model again, also after `unload`. Raises Refused at the first that fails."""
        async with self._lock:
            if name not in self.models:
                raise Refused(404, f"there is no model '{name}'")
            for version, entry in self.models[name].items():
                entry.is_wanted = True
                await self._load(name, version, entry)
                if entry.reason:
                    raise Refused(400, entry.reason.partition("\n")[0])

    async def unload(self, name: str) -> None:
        async with self._lock:
            if name not in self.models:
                raise Refused(404, f"there is no model '{name}'")
            for entry in self.models[name].values():
                entry.is_wanted = False
                self._drop(entry)
