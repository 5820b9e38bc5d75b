#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every operator of torch by torch's own samples of it (op_db): exported with torch.export, run by Weft from the archive,
compared with torch within the tolerances that torch's own tests allow.

    ./x python tests/torch/opinfo.py --samples 3 --device cpu [--dtype float32] [--core | --compiled] [--jobs 16] [NAME...]
                                     [--out FILE]

A sample is right, refused (Weft says what it lacks), wrong, random, or not exported (torch.export has no program of it). With
--core only entries count of which torch writes the first sample in core ATen, and programs are so written. With --compiled
samples run through torch.compile instead: whole (right, no node in eager), partly (right, the rest in eager) or wrong; random ones differ from call to call in eager, too.
--out appends a row to a file of bench/results; --limit ends the count after so many seconds, and the row says how many samples
are left. --part 1/4 takes a fourth of the entries, and --sum makes one row of such parts.
"""
import argparse
import collections
import functools
import io
import json
import logging
import multiprocessing
import os
import random
import sys
import time
import warnings
from pathlib import Path

os.environ.setdefault("TORCH_LOGS", "-all")
import torch
from torch.export import exported_program
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
import machine

import weft

#: Operators with random or undefined results, which cannot be compared.
RANDOM = {"bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal", "rand_like", "randint",
          "randint_like", "randn", "randn_like", "randperm", "uniform", "empty", "empty_like", "empty_permuted",
          "empty_strided", "new_empty", "new_empty_strided", "nn.functional.dropout", "nn.functional.dropout2d",
          "nn.functional.dropout3d", "nn.functional.alpha_dropout", "nn.functional.feature_alpha_dropout",
          "nn.functional.feature_alpha_dropout", "nn.functional.rrelu", "nn.functional.fractional_max_pool2d",
          "nn.functional.fractional_max_pool3d", "as_strided", "as_strided_copy", "normal.number_mean", "rand", "tensor"}  # fmt: skip


class Sample(torch.nn.Module):
    """A call of an operator as a model: its tensors are inputs, all else stays in the program."""

    def __init__(self, op, args, kwargs):
        super().__init__()
        self.op = op
        self.names, self.fixed = [], {}
        given = [self.written(v) for v in args] + [f"{key}={self.written(v)}" for key, v in kwargs.items()]
        # Written out, since torch.compile would trace the walk through the arguments of each sample.
        code = f"lambda op, {', '.join(self.names)}: op({', '.join(given)})"
        self.call = eval(code, self.fixed)

    def written(self, value):
        """An argument as text of Python, whose tensors are parameters."""
        if isinstance(value, torch.Tensor):
            self.names.append(f"t{len(self.names)}")
            return self.names[-1]
        if type(value) in (list, tuple):
            inner = "".join(self.written(v) + ", " for v in value)
            return f"[{inner}]" if type(value) is list else f"({inner})"
        if type(value) in (bool, int, str, type(None)):
            return repr(value)
        name = f"k{len(self.fixed)}"
        self.fixed[name] = value
        return name

    def forward(self, *tensors):
        return pytree.tree_leaves(self.call(self.op, *tensors))


def tolerance(dtype):
    return {torch.float16: (1e-3, 1e-3), torch.bfloat16: (1.6e-2, 1e-2), torch.float64: (1e-7, 1e-7)}.get(dtype, (1.3e-6, 1e-5))


#: Sums over many elements, and functions near their poles: the tolerances of torch's own comparisons of CPU and GPU.
LOOSE = (1e-4, 1e-4)


@functools.cache
def core_tables():
    """Torch's decompositions to core ATen, gathered once: of composite operators and of others. Composites with their default
    decomposition are left out, since run_decompositions() would write each of them into torch's dispatcher for each program."""
    table = torch.export.default_decompositions().materialize()
    composite, others = exported_program._split_decomp_table_to_cia_and_python_decomp(dict(table))
    own = torch._decomp._core_aten_decompositions_post_autograd()
    keep = exported_program._special_op_to_preserve_cia
    return {op: call for op, call in composite.items() if op in own or call is keep}, others


def in_core(program):
    """run_decompositions(), in a fifth of the time."""
    composite, others = core_tables()
    return exported_program._decompose_exported_program(
        program, cia_to_decomp=composite, python_decomp_table=dict(others), joint_loss_index=None, decompose_custom_triton_ops=False)


def known(results):
    return [v for v in pytree.tree_leaves(results) if v is not None]


class RandomResult(Exception):
    """torch gives other results at each call."""


def archive(sample_input, op, decomposed=False):
    """The .pt2 of one sample, its inputs, torch's results, and the program."""
    args = (sample_input.input, *sample_input.args)
    tensors = [v.detach() for v in pytree.tree_leaves((args, sample_input.kwargs)) if isinstance(v, torch.Tensor)]
    model = Sample(op.op, args, sample_input.kwargs).eval()
    with torch.no_grad():
        wanted, again = (pytree.tree_map(lambda v: v.cpu() if isinstance(v, torch.Tensor) else v, model(*[t.clone() for t in tensors]))
                         for _ in range(2))  # fmt: skip
        if not all(map(is_same, wanted, again)):
            raise RandomResult
        program = torch.export.export(model, tuple(tensors), strict=False)
        if decomposed:
            program = in_core(program)
    file = io.BytesIO()
    torch.export.save(program, file)
    return file.getvalue(), tensors, known(wanted), program


def is_same(got, wanted):
    got = torch.as_tensor(got)
    if isinstance(wanted, torch.Tensor) and wanted.is_complex() and not got.is_complex():
        wanted = torch.view_as_real(wanted.resolve_conj())
    if not isinstance(wanted, torch.Tensor):  # a number of Python's
        wanted = torch.tensor(wanted, dtype=got.dtype)
    relative, absolute = tolerance(wanted.dtype)
    if wanted.is_floating_point():
        relative, absolute = max(relative, LOOSE[0]), max(absolute, LOOSE[1])
    try:
        torch.testing.assert_close(got, wanted.detach(), rtol=relative, atol=absolute, equal_nan=True, check_stride=False)
    except AssertionError:
        return False
    return True


NARROW = (torch.float16, torch.bfloat16)


def in_torch(value):
    """Results are numpy's where no input is a tensor."""
    is_bf16 = str(getattr(value, "dtype", "")) == "bfloat16"
    return torch.as_tensor(value.astype("float32")).bfloat16() if is_bf16 else value


def is_between(got, *answers):
    """Whether each element of a narrow type lies between torch's answers, within the tolerance: rounded at every step, at fewer or
    at none."""
    relative, absolute = (max(pair) for pair in zip(tolerance(answers[0].dtype), LOOSE))
    got, answers = torch.as_tensor(got).float(), [torch.as_tensor(a).float() for a in answers]
    if any(got.shape != a.shape for a in answers):
        return False
    least, most = torch.stack(answers).amin(0), torch.stack(answers).amax(0)
    within = (got >= least - absolute - relative * least.abs()) & (got <= most + absolute + relative * most.abs())
    return bool((within | (got == answers[0]) | (got.isnan() & answers[0].isnan())).all())


def in_f32(sample_input, op):
    """torch's results in f32 for the same numbers: a narrow type may agree with these instead, because torch itself
    rounds more often."""

    def wide(v):
        if isinstance(v, torch.Tensor):
            return v.float() if v.dtype in NARROW else v
        return torch.float32 if v in NARROW else v

    args, kwargs = pytree.tree_map(wide, ((sample_input.input, *sample_input.args), sample_input.kwargs))
    try:
        with torch.no_grad():
            return known(op.op(*args, **kwargs))
    except RuntimeError:
        return None


def other_answers(tensors, sample_input, op, program):
    """Of torch: in f32, and of the program that Weft has read."""
    with torch.no_grad():
        own = known(program.module()(*[t.clone() for t in tensors])) if program else None
    return [answers for answers in (in_f32(sample_input, op), own) if answers]


#: Sorting operators, which may put equal elements in any order: the values at the positions are compared.
ORDERS = {"sort", "argsort", "topk"}


def is_same_order(got, wanted, sample_input, name):
    x, got, args = sample_input.input, torch.as_tensor(got), sample_input.args
    args = args[1:] if name == "topk" else args  # how many
    dim = next((v for v in (*args, sample_input.kwargs.get("dim")) if isinstance(v, int) and not isinstance(v, bool)), -1)
    if x.ndim == 0 or got.shape != wanted.shape:
        return False
    return is_same(x.gather(dim, got), x.gather(dim, wanted))


def in_factors(values, name):
    """The orthogonal matrices with vectors as columns, the singular values or eigenvalues, and the product of all."""
    values = [torch.as_tensor(v) for v in values]
    if name == "linalg.eigh":
        between, left = values
        right = left
    else:
        left, between, right = values
        right = right.mT if name == "linalg.svd" else right
    k = between.shape[-1]
    return [left, right], between, (left[..., :k] * between[..., None, :]) @ right[..., :k].mT


#: Factors whose vectors have any sign and, for equal values, any rotation.
FACTORS = {"svd", "linalg.svd", "linalg.eigh"}


def are_factors(got, wanted, name):
    (sides, between, product), known = in_factors(got, name), in_factors(wanted, name)
    same_sizes = [s.shape for s in sides] == [s.shape for s in known[0]]
    units = all(is_same(s.mT @ s, torch.eye(s.shape[-1], dtype=s.dtype).expand_as(s.mT @ s)) for s in sides)
    return same_sizes and units and is_same(between, known[1]) and is_same(product, known[2])


def judge(sample_input, op, device, decomposed=False):
    """("right" | "refused" | "wrong" | "random" | "no export", why)"""
    try:
        file, tensors, wanted, program = archive(sample_input, op, decomposed)
    except RandomResult:
        return "random", ""
    except Exception as error:  # torch.export refuses in many ways
        return "no export", f"{type(error).__name__}: {error}".partition("\n")[0]
    try:
        model = weft.compile(file, device=device)
        outputs = model(*[v.resolve_conj().resolve_neg() for v in tensors])
    except weft.Error as error:
        kind = "wrong" if error.code in ("E900", "E151", "E108", "E132") else "refused"
        return kind, str(error).partition("\n")[0]
    got = outputs if isinstance(outputs, tuple) else (outputs,)
    names = [port.name for port in model.outputs]
    got = [value for value, name in zip(got, names) if not name.endswith(".next")]
    return compared(got, wanted, tensors, sample_input, op, program)


def compared(got, wanted, tensors, sample_input, op, program=None):
    got = [in_torch(value) for value in got]
    if len(got) != len(wanted):
        return "wrong", f"{len(got)} outputs, torch has {len(wanted)}"
    if op.name in FACTORS:
        return ("right", "") if are_factors(got, wanted, op.name) else ("wrong", f"weft {got} torch {wanted}"[:600])
    others = None
    for i, (value, reference) in enumerate(zip(got, wanted)):
        if is_same(value, reference):
            continue
        is_places = op.name in ORDERS and isinstance(reference, torch.Tensor) and reference.dtype == torch.int64
        if is_places and is_same_order(value, reference, sample_input, op.name):
            continue
        is_narrow = isinstance(reference, torch.Tensor) and reference.dtype in NARROW
        if is_narrow and others is None:
            others = other_answers(tensors, sample_input, op, program)
        if not is_narrow or not is_between(value, reference, *(answer[i] for answer in others)):
            return "wrong", f"weft {str(value)[:300]} torch {str(reference)[:300]} inputs {str(tensors)[:300]}"
    return "right", ""


def judge_compiled(sample_input, op, device):
    """("whole" | "partly" | "wrong" | "random" | "not compiled", why): torch itself refuses to compile some."""
    import weft.torch

    args = (sample_input.input, *sample_input.args)
    tensors = [v.detach() for v in pytree.tree_leaves((args, sample_input.kwargs)) if isinstance(v, torch.Tensor)]
    model = Sample(op.op, args, sample_input.kwargs).eval()
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    weft.torch.placements.clear()
    with torch.no_grad():
        wanted, again = ([v for v in pytree.tree_leaves(model(*[t.clone() for t in tensors])) if v is not None] for _ in range(2))
        if not all(map(is_same, wanted, again)):
            return "random", ""
        fast = torch.compile(model, backend="weft", options={"device": device})
        try:
            got = [v for v in pytree.tree_leaves(fast(*[t.clone() for t in tensors])) if v is not None]
        except Exception as error:
            torch._dynamo.reset()
            try:
                torch.compile(model, backend="eager")(*[t.clone() for t in tensors])
            except Exception as other:
                return "not compiled", f"{type(other).__name__}: {other}".partition("\n")[0]
            return "wrong", f"{type(error).__name__}: {error}".partition("\n")[0]
    outcome, why = compared(got, wanted, tensors, sample_input, op)
    if outcome == "wrong":
        return outcome, why
    breaks = torch._dynamo.utils.counters["graph_break"]
    left = [str(p) for p in weft.torch.placements if p.on_weft < p.total]
    if breaks or left:
        return "partly", (left or list(breaks))[0].partition("\n")[0]
    return "whole", ""


def is_core(op, dtype):
    """Whether torch writes the entry's first sample in core ATen."""
    for sample in samples(op, dtype, 1):
        model = Sample(op.op, (sample.input, *sample.args), sample.kwargs).eval()
        args = ((sample.input, *sample.args), sample.kwargs)
        tensors = [v.detach() for v in pytree.tree_leaves(args) if isinstance(v, torch.Tensor)]
        try:
            with torch.no_grad():
                program = in_core(torch.export.export(model, tuple(tensors), strict=False))
        except Exception:  # torch.export refuses in many ways
            return False
        calls = [node.target for node in program.graph.nodes if node.op == "call_function"]
        return all(torch.Tag.core in target.tags for target in calls if isinstance(target, torch._ops.OpOverload))
    return False


def entries(names):
    return [op for op in op_db if op.name not in RANDOM and (not names or op.name in names)]


def samples(op, dtype, most):
    """The first `most` samples with tensors on the CPU."""
    if dtype not in op.supported_dtypes("cpu"):
        return
    given = op.sample_inputs("cpu", dtype, requires_grad=False)
    for number, sample in enumerate(given):
        if most and number >= most:
            return
        yield sample


def name_of(op):
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


PIECE = 24  #: samples of one entry that a process judges at a time


def number_of_samples(task):
    index, args = task
    op, dtype = entries(args.names)[index], getattr(torch, args.dtype)
    try:
        count = sum(1 for _ in samples(op, dtype, args.samples))
    except Exception:  # some need what this machine lacks
        count = 0
    return count if count == 0 or not args.core or is_core(op, dtype) else 0


def judged(task):
    """The outcomes of a piece of an entry's samples."""
    index, start, args = task
    op, found = entries(args.names)[index], []
    torch.manual_seed(index)
    for number, sample in enumerate(samples(op, getattr(torch, args.dtype), args.samples)):
        if number >= start + PIECE:
            break
        if number < start:
            continue
        try:
            if args.compiled:
                outcome, why = judge_compiled(sample, op, args.device)
            else:
                outcome, why = judge(sample, op, args.device, args.decomposed or args.core)
        except Exception as error:  # torch itself lacks it on this machine
            outcome, why = "not run", f"{type(error).__name__}: {error}".partition("\n")[0]
        found.append((outcome, name_of(op), number, why))
    return found


def prepare():
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.getLogger("weft.torch").setLevel(logging.ERROR)
    torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0  # times each new graph's guards with flushed caches, for a log


def results(found, end):
    """What comes until the time `end`."""
    while (left := end - time.monotonic()) > 0:
        try:
            yield found.next(min(left, 1e6))
        except StopIteration:
            return
        except multiprocessing.TimeoutError:
            return


def told(summary, of, out):
    summary = {key: count for key, count in summary.items() if count or key == "wrong"}
    print(json.dumps(summary))
    machine.keep(machine.result("OpInfo samples of torch", of, {"wrong": 0} | summary, machine=machine.of_device(of["device"])), out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--samples", type=int, default=0, help="of each entry; 0: all")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--json", default="")
    parser.add_argument("--decomposed", action="store_true", help="programs of core ATen: run_decompositions()")
    parser.add_argument("--core", action="store_true")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--part", default="0/1", help="this part of the entries: 1/4")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--sum", action="store_true", help="NAMEs are files of --json, of parts of one count")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds")
    parser.add_argument("--out", help="a file of bench/results")
    args = parser.parse_args()
    if args.sum:
        files = [json.loads(Path(name).read_text()) for name in args.names]
        assert all(file["of"] == files[0]["of"] for file in files)
        return told(sum((collections.Counter(file["counts"]) for file in files), collections.Counter()), files[0]["of"], args.out)
    part, parts = map(int, args.part.split("/"))
    counts, reasons, end = collections.Counter(), collections.defaultdict(list), time.monotonic() + args.limit
    with multiprocessing.get_context("spawn").Pool(args.jobs, prepare) as pool:
        chosen = range(len(entries(args.names)))[part::parts]
        sizes = pool.map(number_of_samples, [(i, args) for i in chosen], chunksize=4)
        tasks = [(i, start, args) for i, size in zip(chosen, sizes) for start in range(0, size, PIECE)]
        random.Random(0).shuffle(tasks)  # so that a part of them stands for all
        for found in results(pool.imap_unordered(judged, tasks), end):
            for outcome, *what in found:
                counts[outcome] += 1
                reasons[outcome].append(what)
                if outcome == "wrong":
                    print(f"WRONG {what[0]} sample {what[1]}: {what[2]}", flush=True)
        summary = {"samples": sum(sizes), "entries": sum(size > 0 for size in sizes), **counts, "not judged": sum(sizes) - sum(counts.values())}
        form = "torch.compile" if args.compiled else "core ATen" if args.core else "decomposed" if args.decomposed else "as exported"
        of = {"form": form, "type": args.dtype, "device": args.device, "torch": torch.__version__}
        told(summary, of, args.out)
        if args.json:
            with open(args.json, "w") as file:
                json.dump({"of": of, "counts": summary, **{k: v for k, v in reasons.items() if k not in ("right", "whole")}}, file, indent=1)
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
