# SPDX-License-Identifier: Apache-2.0
"""Compares Weft with other engines, which alternate in one run.

  ./x bench peers [--models resnet50,bert_base] [--engines weft,onnxruntime,openvino] [--threads 1,2] [--rounds 11]
  ./x bench peers --accuracy                   # how far each engine's answers are from exact ones
  ./x bench peers --engines weft_free,weft     # a program with free sizes against one compiled for fixed sizes

Every engine runs in a process of its own. In each round each engine in turn runs for a moment. A ratio is the median
over all rounds of the first engine's time divided by the other engine's time in the same round, so a slowdown of the
machine affects both. Below 1 the first engine is faster. `cpu` is the processor time of one run, summed over all
threads; other processes hardly affect it. Loading, which lasts until the first answer, is measured in fresh processes:
`cold` with an empty cache folder, `warm` with the folder that the cold one left. `MiB` is the most memory that the
process held, Python included.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "models"))
import fill
from accuracy import judge
from engines import ENGINES, Job
from machine import keep, load, result, words
from worker import EngineError, Worker

DEFAULT = ["weft", "onnxruntime", "openvino"]
CLOCKS = ("wall", "cpu")


def quartiles(values):
    return statistics.quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3


class Race:
    """The engines of one model at one size and one number of threads: for each a worker process, and the figures of its
    starts."""

    def __init__(self, names, make_job, feeds, caches, cold=True):
        self.workers, self.starts = {}, {}
        for name in names:
            job = make_job(name)
            job.cache = tempfile.mkdtemp(dir=caches)
            try:
                self.starts[name] = [self.start_and_stop(job, feeds)] if cold else []
                self.workers[name] = Worker(job, feeds)
                self.starts[name].append(self.workers[name].start)
            except EngineError as error:
                print(f"    {name}: {error}")

    @staticmethod
    def start_and_stop(job, feeds):
        worker = Worker(job, feeds)
        worker.close()
        return worker.start

    def run(self, rounds, seconds):
        """Returns {engine: [{clock: median ms} of each round]}. Each round begins with another engine; one extra round
        warms all engines up."""
        times = {name: [] for name in self.workers}
        order = list(self.workers)
        for turn in range(rounds + 1):
            for name in order[turn % len(order) :] + order[: turn % len(order)]:
                burst = self.workers[name].burst(seconds)
                times[name].append({clock: 1e3 * statistics.median(burst[clock]) for clock in CLOCKS})
        return {name: rows[1:] for name, rows in times.items()}

    def version(self, name):
        return self.starts[name][-1]["version"]

    def close(self):
        for worker in self.workers.values():
            worker.close()


def figures(race, times):
    """Returns {engine: figures}. All engines but the first also get the ratio of the first's time to theirs."""
    first, found = next(iter(race.workers)), {}
    for name, rows in times.items():
        figure = found[name] = {"version": race.version(name)}
        for clock in CLOCKS:
            figure[f"{clock}_ms"] = statistics.median(row[clock] for row in rows)
            if name != first:
                ratios = [mine[clock] / row[clock] for mine, row in zip(times[first], rows)]
                figure[f"{clock}_ratio"] = statistics.median(ratios)
                figure[f"{clock}_ratio_quartiles"] = quartiles(ratios)[::2]
        for word, start in zip(("cold", "warm"), race.starts[name]):
            figure[f"{word}_s"] = start["load"] + start["first"]
        figure["peak_mib"] = race.workers[name].ask()["peak_rss"]
    return found


def show(measured):
    """Prints a row for each engine. From the second row on, it also shows the ratios of the first engine's time to that
    of the row."""
    columns = {
        "wall ms": ("wall_ms", "9.2f"),
        "cpu ms": ("cpu_ms", "9.2f"),
        "x wall": ("wall_ratio", "9.3f"),
        "x cpu": ("cpu_ratio", "9.3f"),
        "cold s": ("cold_s", "9.2f"),
        "warm s": ("warm_s", "9.2f"),
        "MiB": ("peak_mib", "9.0f"),
    }
    print(f"    {'':16}" + "".join(f"{title:>9}" for title in columns))
    for engine, row in measured.items():
        cells = [format(row[figure], form) if figure in row else f"{'':9}" for figure, form in columns.values()]
        print(f"    {engine:16}" + "".join(cells), flush=True)


def accuracies(race, model, sizes):
    """Returns {engine: distances from the exact answers}, and whether the first engine's answers are close enough."""
    found = {name: {"version": race.version(name)} for name in race.workers}

    def note(engine, output, figure, value):
        """Keeps the figure of the output that is farthest from the exact answers."""
        worst = min if figure == "within_one_step" else max
        found[engine][figure] = worst(value, found[engine].get(figure, value))

    return found, judge(model, sizes, {name: worker.outputs() for name, worker in race.workers.items()}, note)


def compare(model, sizes, threads, arguments, caches):
    """Compares engines on one model at one size: starts all engines, then measures times, or errors with --accuracy.
    Prints the figures and keeps a row. Returns False if the errors of the first engine's answers are too large."""
    path, feeds = str(fill.cached(model)), fill.feeds(model, sizes)
    text = " ".join(f"{symbol}={size}" for symbol, size in sizes.items())
    print(f"{model} {text} threads={threads}  load {load()}", flush=True)
    race = Race(arguments.engines, lambda name: Job(name, path, threads, sizes), feeds, caches, not arguments.accuracy)
    fine, measured = True, {}
    if arguments.accuracy:
        measured, fine = accuracies(race, model, sizes)
    elif race.workers:
        measured = figures(race, race.run(arguments.rounds, arguments.seconds))
        show(measured)
    race.close()
    if arguments.results and measured:
        first, *others = measured
        what = "error on a CPU" if arguments.accuracy else "run on a CPU"
        of = {"model": model, "sizes": sizes, "threads": threads, "engine": first}
        values = measured[first] | ({} if arguments.accuracy else {"rounds": arguments.rounds, "load": load()})
        keep(result(what, of, values, {name: measured[name] for name in others}, COMMAND), arguments.results)
    return fine


COMMAND = "./x bench peers " + " ".join(words())


def parse():
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="./x bench peers", description=__doc__, formatter_class=form)
    add = parser.add_argument
    add("--models", type=lambda text: text.split(","), default=fill.names(), help="of bench/models (default: all)")
    add(
        "--engines",
        type=lambda text: text.split(","),
        default=DEFAULT,
        help=f"of {', '.join(ENGINES)}; the first is compared with the rest",
    )
    add("--threads", type=lambda text: [int(word) for word in text.split(",")], default=[1, 2])
    add("--cases", type=int, default=2, help="how many of a model's sizes to take, from the first")
    add("--rounds", type=int, default=11)
    add("--seconds", type=float, default=0.3, help="how long an engine runs in a round; one run at least")
    add(
        "--accuracy",
        action="store_true",
        help="compare answers instead of times; exit code 1 if the first engine's are too far",
    )
    add("--results", help="append a row of figures for each case to this file, see bench/results/README.md")
    return parser.parse_args()


def main():
    arguments = parse()
    fine = True
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as caches:
        for model in arguments.models:
            for sizes in fill.cases(model)[: arguments.cases]:
                for threads in arguments.threads:
                    fine = compare(model, sizes, threads, arguments, caches) and fine
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
