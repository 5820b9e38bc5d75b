# SPDX-License-Identifier: Apache-2.0
"""Makes the page /metrics in Prometheus' text format."""

from __future__ import annotations

import bisect
from collections.abc import Iterable

from ._repository import Repository

BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


def quoted(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def labels(**given: object) -> str:
    return "{" + ",".join(f'{name}="{quoted(str(value))}"' for name, value in given.items()) + "}"


class Metrics:
    """Counts of inference requests over HTTP by model and status, and a histogram of the durations of successful requests.
    `_queues` adds the figures of the request queues."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._counts: dict[tuple[str, int], int] = {}
        self._times: dict[str, list[float]] = {}  # by model: the number of requests in each bucket, then the sum of all seconds

    def count(self, model: str, status: int, seconds: float) -> None:
        if model not in self._repository.models:
            model = ""  # unknown model names of requests must not fill the memory
        self._counts[model, status] = self._counts.get((model, status), 0) + 1
        if status == 200:
            row = self._times.setdefault(model, [0.0] * (len(BOUNDS) + 2))
            row[bisect.bisect_left(BOUNDS, seconds)] += 1
            row[-1] += seconds

    def _requests(self) -> Iterable[str]:
        yield "# HELP weft_requests_total Inference requests over HTTP by status."
        yield "# TYPE weft_requests_total counter"
        for (model, status), count in sorted(self._counts.items()):
            yield f"weft_requests_total{labels(model=model, status=status)} {count}"
        yield "# HELP weft_request_seconds Time of successful requests over HTTP, from the first byte to the answer."
        yield "# TYPE weft_request_seconds histogram"
        for model, row in sorted(self._times.items()):
            total = 0
            for bound, count in zip((*BOUNDS, "+Inf"), row, strict=False):
                total += int(count)
                yield f"weft_request_seconds_bucket{labels(model=model, le=bound)} {total}"
            yield f"weft_request_seconds_sum{labels(model=model)} {row[-1]}"
            yield f"weft_request_seconds_count{labels(model=model)} {total}"

    def _queues(self) -> Iterable[str]:
        rows = [(labels(model=s.name, version=s.version), s.queue.stats()) for s in self._repository.all_served()]
        kinds = [
            ("waiting", "gauge", "waiting", "Requests that wait for a run."), ("running", "gauge", "running", "Requests that run."),
            ("answered_total", "counter", "answered", "Requests with an answer."), ("failed_total", "counter", "failed", "Requests whose run failed."),
            ("cancelled_total", "counter", "cancelled", "Requests that were taken back."), ("expired_total", "counter", "expired", "Requests whose deadline passed."),
            ("refused_total", "counter", "refused", "Requests that found the queue full."),
            ("queue_nanoseconds_total", "counter", "queue_ns", "Time that requests waited, in all."),
            ("run_nanoseconds_total", "counter", "run_ns", "Time that requests ran, in all."),
        ]
        for name, type_, key, help_ in kinds:
            yield f"# HELP weft_model_{name} {help_}"
            yield f"# TYPE weft_model_{name} {type_}"
            for label, stats in rows:
                yield f"weft_model_{name}{label} {stats[key]}"
        yield "# HELP weft_model_runs_total Runs by how many rows they had."
        yield "# TYPE weft_model_runs_total counter"
        for label, stats in rows:
            for size, (count, _) in sorted(stats["runs_by_rows"].items()):
                yield f'weft_model_runs_total{label[:-1]},rows="{size}"}} {count}'

    def text(self) -> str:
        return "\n".join([*self._requests(), *self._queues()]) + "\n"
