# SPDX-License-Identifier: Apache-2.0
"""The command `migraphx-driver`, with the subcommands of AMD's command: read, compile, quantize, run, perf, time, verify,
params, op, onnx.

Unlike AMD's, it returns an exit code: 2 for a wrong command line, 1 for a model that fails. The command `weft` can do
more: inspect, explain, perf with profiles, verify with bisection."""
import argparse
import re
import statistics
import sys
import time

import migraphx

TARGETS = ("gpu", "cpu", "ref")
# Options of AMD's command that have no effect here.
MEANINGLESS = ("--disable-fast-math", "--optimize", "-O", "--debug-symbols", "--brief")


def add_model(parser):
    parser.add_argument("file", help="a model (.onnx) or a saved program")
    parser.add_argument("--onnx", action="store_true", help="the file is ONNX, whatever its name")
    parser.add_argument("--tf", action="store_true", help="the file is a graph of TensorFlow, whatever its name")
    parser.add_argument("--nhwc", dest="nhwc", action="store_true", default=True,
                        help="a graph of TensorFlow has NHWC; parameters and results are NCHW (the default)")
    parser.add_argument("--nchw", dest="nhwc", action="store_false", help="parameters and results are as the graph has them")
    parser.add_argument("--output-names", nargs="+", default=[], metavar="NODE", help="what a graph of TensorFlow is to give")
    parser.add_argument("--migraphx", action="store_true", help="the file is a saved program, whatever its name")
    parser.add_argument("--batch", type=int, default=0, metavar="N", help="the size of axes that the model leaves open")
    parser.add_argument("--input-dim", nargs="+", default=[], metavar="@NAME SIZES",
                        help="the sizes of an input: @image 1 3 224 224")
    parser.add_argument("--dyn-input-dim", nargs="+", default=[], metavar="@NAME RANGES",
                        help="ranges of an input: @image '[{min:1, max:8}, 3, 224, 224]'")
    parser.add_argument("--default-dyn-dim", metavar="RANGE", help="the range of axes that the model leaves open")
    parser.add_argument("--output", "-o", metavar="FILE", help="where to write instead of standard output")
    parser.add_argument("--binary", action="store_true", help="write a saved program")
    parser.add_argument("--text", action="store_true", help="write text (the default)")
    for option in MEANINGLESS:
        parser.add_argument(option, action="store_true", help=argparse.SUPPRESS)


def add_compile(parser):
    for name in TARGETS:
        parser.add_argument("--" + name, dest="target", action="store_const", const=name,
                            help=f"compile for {name}" + (" (the default)" if name == "gpu" else ""))
    parser.add_argument("--enable-offload-copy", action="store_true", help="results come back in the host's memory")
    parser.add_argument("--disable-offload-copy", action="store_true", help=argparse.SUPPRESS)
    for name in ("fp16", "bf16", "int8", "fp8"):
        note = ", simulated on CPUs: rounded values are multiplied in f32, which saves no time" if name == "fp8" else ""
        parser.add_argument("--" + name, action="store_true", help=f"quantise to {name}{note}")
    parser.add_argument("--int4-weights", action="store_true", help="weights of products in 4 bits, in blocks of 32")
    parser.add_argument("--exhaustive-tune", action="store_true", help="measure which kernels are fastest")
    parser.add_argument("--fill0", nargs="+", default=[], metavar="NAME", help="inputs of zeros")
    parser.add_argument("--fill1", nargs="+", default=[], metavar="NAME", help="inputs of ones")
    parser.add_argument("--load-arg", nargs="+", default=[], metavar="@NAME FILE", help="inputs from .npy files: of a run the first one; --int8 and --fp8 learn from all")
    parser.set_defaults(target="gpu")


def by_name(words, what):
    """Converts ["@x", "1", "3", "@y", ...] to {"x": ["1", "3"], ...}."""
    groups = {}
    for word in words:
        if word.startswith("@"):
            values = groups[word[1:]] = []
        elif not groups:
            raise SystemExit(f"migraphx-driver: {what} begins with @NAME, not '{word}'")
        else:
            values.append(word)
    return groups


def parse_range(text):
    """Parses a range "{min:1, max:8}" or a size "3"."""
    numbers = {key: int(value) for key, value in re.findall(r"(min|max)\W+(\d+)", text)}
    if not numbers and text.strip().isdigit():
        numbers = {"min": int(text), "max": int(text)}
    if set(numbers) != {"min", "max"}:
        raise SystemExit(f"migraphx-driver: '{text}' is not a range; write {{min:1, max:8}}")
    return migraphx.shape.dynamic_dimension(**numbers)


def parse_ranges(words):
    return [parse_range(part) for part in re.findall(r"\{[^{}]*\}|\d+", re.sub(r"optimals\W*\[[^]]*\]", "", " ".join(words)))]


def read(options):
    if options.migraphx or options.file.endswith((".mxr", ".weft")) and not options.onnx:
        return migraphx.load(options.file)
    fixed = {name: [int(n) for n in sizes] for name, sizes in by_name(options.input_dim, "--input-dim").items()}
    if options.tf or options.file.endswith(".pb") and not options.onnx:
        return migraphx.parse_tf(options.file, is_nhwc=options.nhwc, batch_size=options.batch or 1, map_input_dims=fixed,
                                 output_names=options.output_names)
    ranges = {name: parse_ranges(words) for name, words in by_name(options.dyn_input_dim, "--dyn-input-dim").items()}
    return migraphx.parse_onnx(options.file, default_dim_value=options.batch, map_input_dims=fixed,
                               map_dyn_input_dims=ranges,
                               default_dyn_dim_value=options.default_dyn_dim and parse_range(options.default_dyn_dim))


def least(shape):
    """Returns the shape with the least size of each range, at least 1."""
    if not shape.dynamic():
        return shape
    return migraphx.shape(shape.type(), [max(size.min, 1) for size in shape.dyn_dims()])


def make_inputs(program, options, seed=0):
    files = by_name(options.load_arg, "--load-arg")
    inputs = {}
    for name, shape in program.get_parameter_shapes().items():
        fixed = least(shape)
        if name in files:
            inputs[name] = migraphx.argument.load(files[name][seed % len(files[name])])
        elif name in options.fill0 or name in options.fill1:
            inputs[name] = migraphx.fill_argument(fixed, int(name in options.fill1))
        elif fixed.type().name.startswith(("int", "uint")):
            # Integers may be indices, and 0 is always a valid index.
            inputs[name] = migraphx.fill_argument(fixed, 0)
        else:
            inputs[name] = migraphx.generate_argument(fixed, seed)
    unknown = set(files) | set(options.fill0) | set(options.fill1)
    if unknown - set(inputs):
        raise SystemExit(f"migraphx-driver: {sorted(unknown - set(inputs))} are not inputs; the inputs are {sorted(inputs)}")
    return inputs


def quantise(program, options):
    """Quantises the program. Each file of --load-arg is an example; without any, four random examples are used (MIGraphX uses one)."""
    if options.fp16:
        migraphx.quantize_fp16(program)
    if options.bf16:
        migraphx.quantize_bf16(program)
    for wanted, calibrate in ((options.int8, migraphx.quantize_int8), (options.fp8, migraphx.quantize_fp8)):
        if wanted:
            files = by_name(options.load_arg, "--load-arg").values()
            samples = [make_inputs(program, options, seed) for seed in range(max(map(len, files), default=4))]
            calibrate(program, migraphx.get_target("cpu"), samples)
    if options.int4_weights:
        migraphx.quantize_int4_weights(program)


def prepare(options, target=None, exact=False):
    program = read(options)
    if program.is_compiled():
        return program
    if not exact:
        quantise(program, options)
    tune = options.exhaustive_tune and not exact
    program.compile(migraphx.get_target(target or options.target), exhaustive_tune=tune)
    return program


def show(options, program):
    if options.binary:
        if not options.output:
            raise SystemExit("migraphx-driver: --binary needs --output FILE")
        return migraphx.save(program, options.output)
    if not options.output:
        return program.print()
    with open(options.output, "w") as file:
        file.write(program.text())


def read_command(options):
    show(options, read(options))


def compile_command(options):
    show(options, prepare(options))


def quantize_command(options):
    if not any((options.fp16, options.bf16, options.int8, options.fp8, options.int4_weights)):
        raise SystemExit("migraphx-driver: quantize needs --fp16, --bf16, --int8, --fp8 or --int4-weights")
    if not options.output:
        raise SystemExit("migraphx-driver: quantize needs --output FILE, where the program goes")
    migraphx.save(prepare(options), options.output)


def params_command(options):
    program = read(options)
    for name, shape in program.get_parameter_shapes().items():
        print(f"{name}: {shape}")
    for i, shape in enumerate(program.get_output_shapes()):
        print(f"output {i}: {shape}")


def run_command(options):
    program = prepare(options)
    for i, result in enumerate(program.run(make_inputs(program, options))):
        print(f"output {i}: {result.get_shape()}\n{result.tolist()[:20]}")


def perf_command(options):
    begin = time.perf_counter()
    program = prepare(options)
    print(f"Compiled in {time.perf_counter() - begin:.3f} s")
    inputs = make_inputs(program, options)
    program.run(inputs)
    times = []
    for _ in range(options.iterations):
        begin = time.perf_counter()
        program.run(inputs)
        times.append((time.perf_counter() - begin) * 1e3)
    middle, quantiles = statistics.median(times), statistics.quantiles([*times, *times], n=20)
    print(f"Total time: {middle:.4f} ms (least {min(times):.4f}, 95 % {quantiles[-1]:.4f}, of {len(times)} runs)")
    print(f"Rate: {1e3 / middle:.2f}/sec")


def difference(wanted, got):
    """Returns the root mean square of the differences, relative to that of the expected values, and the greatest difference."""
    pairs = list(zip(wanted, got, strict=True))
    power = sum(float(w) ** 2 for w, _ in pairs) / max(len(pairs), 1)
    noise = sum((float(w) - float(g)) ** 2 for w, g in pairs) / max(len(pairs), 1)
    return (noise / power) ** 0.5 if power > 0 else noise**0.5, max((abs(w - g) for w, g in pairs), default=0)


def rms_limit(options):
    """Returns the limit of --rms-tol, else a default for the precision; fp8 has only 4 significant bits."""
    if options.rms_tol is not None:
        return options.rms_tol
    return 0.16 if options.fp8 or options.int4_weights else 0.08 if options.fp16 or options.bf16 or options.int8 else 0.001


def verify_command(options):
    program, reference = prepare(options), prepare(options, "ref", exact=True)
    inputs = make_inputs(reference, options)
    limit = rms_limit(options)
    failed = False
    for i, (wanted, got) in enumerate(zip(reference.run(inputs), program.run(inputs), strict=True)):
        rms, most = difference(wanted.tolist(), got.tolist())
        fails = not rms <= limit
        failed |= fails
        print(f"output {i}: rms {rms:.3g}, largest difference {most:.3g}, limit {limit:g}: {'FAILED' if fails else 'passed'}")
    return 1 if failed else 0


def onnx_command(options):
    print("\n".join(migraphx.get_onnx_operators()))


def op_command(options):
    print("\n".join(migraphx.get_operators()))


def command_line():
    parser = argparse.ArgumentParser(prog="migraphx-driver", description="MIGraphX's command over Weft.")
    parser.add_argument("--version", "-v", action="version", version=f"MIGraphX interface {migraphx.__version__} (Weft)")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="COMMAND")

    def verb(name, function, purpose, needs_compile=False, needs_model=True):
        made = verbs.add_parser(name, help=purpose, description=purpose)
        made.set_defaults(function=function)
        if needs_model:
            add_model(made)
        if needs_compile:
            add_compile(made)
        return made

    verb("read", read_command, "print the program of a model")
    verb("params", params_command, "print inputs and outputs")
    verb("compile", compile_command, "compile, and print or save the program", True)
    verb("quantize", quantize_command, "compile in fewer bits, and save the program", True)
    verb("run", run_command, "compile, run once, print the results", True)
    for name in ("perf", "time"):
        verb(name, perf_command, "compile, and measure runs", True).add_argument(
            "--iterations", "-n", type=int, default=100, help="how many runs")
    verb("verify", verify_command, "compare with the reference", True).add_argument(
        "--rms-tol", type=float, help="the greatest root mean square of the differences, relative (0.001; 0.08 for 16 bits and int8, 0.16 for fp8 and 4 bits)")
    for name, function, purpose in (("onnx", onnx_command, "list ONNX operators"),
                                    ("op", op_command, "list operators of programs built by hand")):
        verb(name, function, purpose, needs_model=False).add_argument("--list", "-l", action="store_true")
    return parser


def main(words=None):
    options = command_line().parse_args(words)
    try:
        return options.function(options)
    except (RuntimeError, OSError, ValueError) as error:
        print(f"migraphx-driver: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
