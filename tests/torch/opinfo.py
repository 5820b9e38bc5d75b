#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests every operator of torch with torch's own samples (op_db). Each sample is exported with torch.export, run by
Weft from the archive, and compared with torch within the tolerances of torch's own tests.

    ./x python tests/torch/opinfo.py --samples 3 --device cpu [--dtype float32] [--core | --compiled] [--jobs 16] [NAME...]
                                     [--out FILE]

A sample is right, refused (Weft names the unsupported feature), wrong, or not exported (torch.export fails). Entries
that lack f32 are tested in i64 or in complex numbers. Random results must have the sizes and types of torch's. With
--core, programs are decomposed by torch.core_aten_decompositions(), and only those entries count whose first sample
becomes core ATen. With --compiled, samples run through torch.compile: whole (right, no node in eager), partly (right,
some nodes in eager) or wrong. --out appends a row to a file of bench/results; --limit SECONDS ends the count early, and
the row says how many samples are left. --part 1/4 takes a fourth of the entries; --sum adds the --json files of all
parts.
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
import zlib
from pathlib import Path

os.environ.setdefault("TORCH_LOGS", "-all")
import torch
from torch.export import exported_program
from torch.testing._internal import common_utils
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
import machine

import weft

# Replaces torch's search for a TestCase in the sources of all callers, which takes half of the time and finds nothing
# here.
common_utils.extract_test_fn = lambda: None

#: Operators whose results are uninitialised memory.
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}


class Sample(torch.nn.Module):
    """A call of an operator as a model: tensors among its arguments are inputs, all other arguments constants."""

    def __init__(self, op, args, kwargs):
        super().__init__()
        self.op = op
        self.names, self.fixed = [], {}
        given = [self.written(v) for v in args] + [f"{key}={self.written(v)}" for key, v in kwargs.items()]
        # The call is written out as source text, because torch.compile would otherwise trace the traversal of each
        # sample's arguments.
        code = f"lambda op, {', '.join(self.names)}: op({', '.join(given)})"
        self.call = eval(code, self.fixed)

    def written(self, value):
        """Returns an argument as Python source; tensors become parameters."""
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


#: The least relative and absolute tolerance of floats; sums of many elements and functions near poles need it. torch
#: uses these numbers to compare CPU and GPU.
LOOSE = (1e-4, 1e-4)


@functools.cache
def core_tables():
    """Returns torch's decompositions to core ATen: those of composite operators and those of other operators.
    Composites with their default decomposition are left out, because run_decompositions() would write each of
    them into torch's dispatcher for each program."""
    table = torch.export.default_decompositions().materialize()
    composite, others = exported_program._split_decomp_table_to_cia_and_python_decomp(dict(table))
    own = torch._decomp._core_aten_decompositions_post_autograd()
    keep = exported_program._special_op_to_preserve_cia
    return {op: call for op, call in composite.items() if op in own or call is keep}, others


def in_core(program):
    """Decomposes a program to core ATen as run_decompositions() does, in a fifth of the time."""
    composite, others = core_tables()
    return exported_program._decompose_exported_program(
        program, cia_to_decomp=composite, python_decomp_table=dict(others), joint_loss_index=None, decompose_custom_triton_ops=False)


def known(results):
    return [v for v in pytree.tree_leaves(results) if v is not None]


def model_of(sample_input, op):
    """Returns the sample as a model, and its inputs."""
    args = (sample_input.input, *sample_input.args)
    tensors = [v.detach() for v in pytree.tree_leaves((args, sample_input.kwargs)) if isinstance(v, torch.Tensor)]
    return Sample(op.op, args, sample_input.kwargs).eval(), tensors


def answers(model, tensors):
    return [v.cpu() if isinstance(v, torch.Tensor) else v for v in known(model(*[t.clone() for t in tensors]))]


def archive(sample_input, op, decomposed=False):
    """Returns the .pt2 of one sample, its inputs, torch's results, and the program."""
    model, tensors = model_of(sample_input, op)
    with torch.no_grad():
        wanted = answers(model, tensors)
        program = torch.export.export(model, tuple(tensors), strict=False)
        if decomposed:
            program = in_core(program)
    file = io.BytesIO()
    torch.export.save(program, file)
    return file.getvalue(), tensors, wanted, program


class Draws(TorchDispatchMode):
    """Records whether an operator draws random numbers. (Some entries set the seed themselves, so comparing two runs
    would not show it.)"""

    found = False

    def __torch_dispatch__(self, call, types, args=(), kwargs=None):
        self.found |= torch.Tag.nondeterministic_seeded in call.tags and "attention" not in str(call)
        return call(*args, **(kwargs or {}))


def is_random(op, model, tensors):
    """True if results are undefined (uninitialised memory) or random."""
    with torch.no_grad(), Draws() as draws:
        model(*[t.clone() for t in tensors])
    return draws.found or op.name in UNDEFINED


def are_alike(got, wanted):
    """True if results have the sizes and types of torch's. Values of random operators are not compared;
    test_random_numbers.py tests their distributions."""
    return all(value.shape == reference.shape and value.dtype == reference.dtype for value, reference in zip(got, wanted))


def is_same(got, wanted):
    got = torch.as_tensor(got)
    if isinstance(wanted, torch.Tensor) and wanted.is_complex() and not got.is_complex():
        wanted = torch.view_as_real(wanted.resolve_conj())
    if not isinstance(wanted, torch.Tensor):  # a Python number
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
    """Converts numpy's bf16 to torch; other results stay as they are. Results are numpy's if no input is a tensor."""
    is_bf16 = str(getattr(value, "dtype", "")) == "bfloat16"
    return torch.as_tensor(value.astype("float32")).bfloat16() if is_bf16 else value


def in_f64(sample_input, op, unit=0.0):
    """Returns torch's results for the same numbers in f64 (in f32 if the operator lacks f64). With `unit`, each number
    of a narrow type is first changed by up to this many rounding errors of its type."""
    for wider in (torch.float64, torch.float32):

        def wide(v):
            if isinstance(v, torch.Tensor) and v.dtype in NARROW:
                return v.to(wider) * (1 + unit * torch.finfo(v.dtype).eps * (torch.rand(v.shape, dtype=wider) - 0.5))
            return wider if v in NARROW else v

        args, kwargs = pytree.tree_map(wide, ((sample_input.input, *sample_input.args), sample_input.kwargs))
        try:
            with torch.no_grad():
                return known(op.op(*args, **kwargs))
        except (RuntimeError, ValueError):
            continue
    return None


def rounded(values, wanted):
    """Rounds to the types of `wanted`."""
    return values and [v.to(w.dtype) if isinstance(w, torch.Tensor) else v for v, w in zip(values, wanted, strict=True)]


def is_conditioned(got, i, sample_input, op):
    """True if result `i` is within the tolerance of the exact answer, or no further from it than the exact answer
    moves when the inputs are rounded once more. 16-bit inputs are rounded anyway, so such an error is accepted
    (backward error: Higham 2002, 1.5). Only sums that cancel need this rule: elsewhere one rounding moves the answer by
    less than the tolerances."""
    exact, moved = in_f64(sample_input, op), [in_f64(sample_input, op, 1.0) for _ in range(32)]
    if not exact or not all(moved):
        return False
    relative, absolute = tolerance(got.dtype)
    moves = torch.stack([(m[i] - exact[i]).abs() for m in moved]).amax(0)
    return bool(((got.to(exact[i].dtype) - exact[i]).abs() <= torch.maximum(absolute + relative * exact[i].abs(), moves)).all())


def of_program(tensors, program):
    """Returns torch's results of the program that Weft read, in which each operator rounds to the narrow type; None
    without a program."""
    with torch.no_grad():
        return known(program.module()(*[t.clone() for t in tensors])) if program else None


#: Sorting operators, which may put equal elements in any order: the values at the positions are compared.
ORDERS = {"sort", "argsort", "topk", "kthvalue"}


def is_same_order(got, wanted, sample_input, name):
    x, got, args = sample_input.input, torch.as_tensor(got), sample_input.args
    args = args[1:] if name in ("topk", "kthvalue") else args  # drops the number of elements
    dim = next((v for v in (*args, sample_input.kwargs.get("dim")) if isinstance(v, int) and not isinstance(v, bool)), -1)
    if x.ndim == 0 or got.shape != wanted.shape:
        return False
    if got.ndim < x.ndim:
        got, wanted = got.unsqueeze(dim), wanted.unsqueeze(dim)
    return is_same(x.gather(dim, got), x.gather(dim, wanted))


def in_factors(values, name):
    """Returns the left and right orthogonal matrices (vectors as columns), the singular values or eigenvalues, and the
    product of the three."""
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
    """Returns ("right" | "refused" | "wrong" | "no export", why)"""
    try:
        file, tensors, wanted, program = archive(sample_input, op, decomposed)
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
    return judged_result(got, wanted, sample_input, op, program)


def judged_result(got, wanted, sample_input, op, program=None):
    """Returns ("right" | "wrong", why)"""
    model, tensors = model_of(sample_input, op)
    got = [in_torch(value) for value in got]
    if len(got) != len(wanted):
        return "wrong", f"{len(got)} outputs, torch has {len(wanted)}"
    outcome, why = compared(got, wanted, tensors, sample_input, op, program)
    if outcome == "wrong" and is_random(op, model, tensors):
        return ("right", "random") if are_alike(map(torch.as_tensor, got), wanted) else (outcome, why)
    return outcome, why


def compared(got, wanted, tensors, sample_input, op, program):
    """Returns ("right" | "wrong", why). Results must agree with torch's. A 16-bit result may instead agree with torch's
    run of the imported program or with f64 rounded once, or have an error that the rounding of its inputs explains.
    `why` names the reference that was used instead of torch's results."""
    if op.name in FACTORS:
        return ("right", "") if are_factors(got, wanted, op.name) else ("wrong", f"weft {got} torch {wanted}"[:600])
    others, beside = {}, set()
    for i, (value, reference) in enumerate(zip(got, wanted)):
        if is_same(value, reference):
            continue
        is_places = op.name in ORDERS and isinstance(reference, torch.Tensor) and reference.dtype == torch.int64
        if is_places and is_same_order(value, reference, sample_input, op.name):
            continue
        is_narrow = isinstance(reference, torch.Tensor) and reference.dtype in NARROW
        if is_narrow and not others:
            others = {"program": of_program(tensors, program), "f64": rounded(in_f64(sample_input, op), wanted)}
        matches = [name for name, answers in others.items() if answers and is_same(value, answers[i])] if is_narrow else []
        if is_narrow and not matches and is_conditioned(torch.as_tensor(value), i, sample_input, op):
            matches = ["f64 of rounded inputs"]
        if not matches:
            shown = "".join(f" {name} {str(answers and answers[i])[:300]}" for name, answers in others.items())
            return "wrong", f"result {i} weft {str(value)[:300]} torch {str(reference)[:300]}{shown} inputs {str(tensors)[:300]}"
        beside.add("+".join(matches))
    return "right", ", ".join(sorted(beside))


def judge_compiled(sample_input, op, device):
    """Returns ("whole" | "partly" | "wrong" | "not compiled", why). "not compiled": torch itself refuses to compile the
    sample."""
    import weft.torch

    model, tensors = model_of(sample_input, op)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    weft.torch.placements.clear()
    with torch.no_grad():
        wanted = answers(model, tensors)
        fast = torch.compile(model, backend="weft", options={"device": device})
        try:
            got = answers(fast, tensors)
        except Exception as error:
            torch._dynamo.reset()
            try:
                torch.compile(model, backend="eager")(*[t.clone() for t in tensors])
            except Exception as other:
                return "not compiled", f"{type(other).__name__}: {other}".partition("\n")[0]
            return "wrong", f"{type(error).__name__}: {error}".partition("\n")[0]
    outcome, why = judged_result(got, wanted, sample_input, op)
    if outcome == "wrong":
        return outcome, why
    breaks = torch._dynamo.utils.counters["graph_break"]
    left = [str(p) for p in weft.torch.placements if p.on_weft < p.total]
    if breaks or left:
        return "partly", (left or list(breaks))[0].partition("\n")[0]
    return "whole", ""


def is_core(op, dtype):
    """True if torch.core_aten_decompositions() decomposes the entry's first sample to core ATen."""
    from torch.fx.experimental.proxy_tensor import make_fx

    for sample in samples(op, dtype, 1):
        model, tensors = model_of(sample, op)
        try:
            with torch.no_grad():
                traced = make_fx(model, decomposition_table=core_aten())(*tensors)
        except Exception:  # the operator's steps depend on the data
            return False
        calls = [node.target for node in traced.graph.nodes if node.op == "call_function"]
        return all(torch.Tag.core in target.tags for target in calls if isinstance(target, torch._ops.OpOverload))
    return False


@functools.cache
def core_aten():
    return torch._decomp.core_aten_decompositions()


def entries(names):
    return [op for op in op_db if not names or op.name in names]


def own_type(op, wanted):
    """Returns `wanted`; if f32 is wanted and the entry lacks it, returns i64, complex64 or None."""
    known = op.supported_dtypes("cpu")
    return next((t for t in (wanted, torch.int64, torch.complex64) if t in known), None) if wanted == torch.float32 else wanted


def samples(op, dtype, most):
    """Yields the first `most` samples (0: all of them), with tensors on the CPU."""
    dtype = own_type(op, dtype)
    if dtype not in op.supported_dtypes("cpu"):
        return
    given = op.sample_inputs("cpu", dtype, requires_grad=False)
    for number, sample in enumerate(given):
        if most and number >= most:
            return
        yield sample


def name_of(op):
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


PIECE = 24  #: samples of one entry that a process tests at a time


def number_of_samples(task):
    index, args = task
    op, dtype = entries(args.names)[index], getattr(torch, args.dtype)
    try:
        count = sum(1 for _ in samples(op, dtype, args.samples))
    except Exception:  # torch cannot make the samples on this machine
        count = 0
    return count if count == 0 or not args.core or is_core(op, dtype) else 0


def judged(task):
    """Returns the outcomes of a piece of an entry's samples."""
    index, start, args = task
    op, found = entries(args.names)[index], []
    torch.manual_seed(zlib.crc32(name_of(op).encode()))
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
        except Exception as error:  # torch cannot run the sample on this machine
            outcome, why = "not run", f"{type(error).__name__}: {error}".partition("\n")[0]
        found.append((outcome, name_of(op), number, why))
    return found


def prepare():
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.getLogger("weft.torch").setLevel(logging.ERROR)
    torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0  # else each new graph's guards are timed, for a log


def results(found, end):
    """Yields the results that arrive before the time `end`."""
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
    counts, beside, reasons, end = collections.Counter(), collections.Counter(), collections.defaultdict(list), time.monotonic() + args.limit
    with multiprocessing.get_context("spawn").Pool(args.jobs, prepare) as pool:
        chosen = range(len(entries(args.names)))[part::parts]
        sizes = pool.map(number_of_samples, [(i, args) for i in chosen], chunksize=4)
        tasks = [(i, start, args) for i, size in zip(chosen, sizes) for start in range(0, size, PIECE)]
        random.Random(0).shuffle(tasks)  # so that the results before an early end are representative
        for found in results(pool.imap_unordered(judged, tasks), end):
            for outcome, *what in found:
                counts[outcome] += 1
                reasons[outcome].append(what)
                if outcome == "right" and what[2]:
                    beside[what[2]] += 1
                if outcome == "wrong":
                    print(f"WRONG {what[0]} sample {what[1]}: {what[2]}", flush=True)
        summary = {"samples": sum(sizes), "entries": sum(size > 0 for size in sizes), **counts, "not judged": sum(sizes) - sum(counts.values()),
                   **{f"right beside {name}" if name != "random" else "random": n for name, n in beside.items()}}
        form = "torch.compile" if args.compiled else "core ATen" if args.core else "decomposed" if args.decomposed else "as exported"
        of = {"form": form, "type": args.dtype, "device": args.device, "torch": torch.__version__}
        told(summary, of, args.out)
        if args.json:
            with open(args.json, "w") as file:
                json.dump({"of": of, "counts": summary, **{k: v for k, v in reasons.items() if k not in ("right", "whole")}}, file, indent=1)
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
