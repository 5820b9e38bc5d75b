# SPDX-License-Identifier: Apache-2.0
"""The Python module migraphx, and the command that uses it."""
import json
import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import places
from places import BUILD, ROOT

import migraphx

DIGITS = places.DIGITS / "digits.onnx"

def digits(batch=2, **options):
    return migraphx.parse_onnx(str(DIGITS), map_input_dims={"image": [batch, 1, 8, 8]}, **options)


def image(batch=2, seed=0):
    return np.random.default_rng(seed).random((batch, 1, 8, 8), dtype=np.float32)


def answer(program, x):
    return np.array(program.run({"image": migraphx.argument(x)})[0])


@pytest.fixture(scope="module")
def compiled():
    program = digits()
    program.compile(migraphx.get_target("gpu"))
    return program


@pytest.fixture(scope="module")
def reference():
    program = digits()
    program.compile(migraphx.get_target("ref"))
    return program


def test_a_model_runs(compiled, reference):
    assert compiled.is_compiled()
    assert compiled.get_parameter_names() == ["image"]
    assert compiled.get_output_shapes()[0].lens() == [2, 10]
    np.testing.assert_allclose(answer(compiled, image()), answer(reference, image()), atol=1e-6)
    np.testing.assert_array_equal(answer(compiled, np.asfortranarray(image())), answer(compiled, image()))
    with pytest.raises(RuntimeError, match="'image' is missing"):
        compiled.run({})


def test_precision(reference):
    for quantise, limit in ((migraphx.quantize_fp16, 5e-3), (migraphx.quantize_bf16, 5e-2), (int8, 1e-1), (fp8, 3e-1),
                            (migraphx.quantize_int4_weights, 1.0)):
        program = digits()
        quantise(program)
        program.compile(migraphx.get_target("cpu"))
        error = np.abs(answer(program, image()) - answer(reference, image())).max()
        assert 0 < error < limit
    with pytest.raises(RuntimeError, match="calibration data"):
        migraphx.quantize_fp8(digits(), migraphx.get_target("gpu"))


SAMPLES = [{"image": image(seed=seed)} for seed in range(3)]


def int8(program):
    migraphx.quantize_int8(program, migraphx.get_target("cpu"), SAMPLES)


def fp8(program):
    migraphx.quantize_fp8(program, migraphx.get_target("cpu"), SAMPLES)


def graph_of(node, inputs, rank, name="g"):
    """Returns a model of one node; `inputs`: (name, element type, sizes)."""
    values = [helper.make_tensor_value_info(*value) for value in inputs]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [f"y{i}" for i in range(rank)])
    return helper.make_model(helper.make_graph([node], name, values, [y]), opset_imports=[helper.make_opsetid("", 21)],
                             ir_version=10).SerializeToString()


@pytest.mark.parametrize("given", [["n"], [1]])
def test_operands_that_only_the_run_tells(given):
    """A program is compiled for each value of `axes`; the length of `axes` may be given when the model is read."""
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)
    model = graph_of(node, [("x", TensorProto.FLOAT, [2, 3, 4]), ("axes", TensorProto.INT64, given)], 2)
    program = migraphx.parse_onnx_buffer(model, map_input_dims={"axes": [1]})
    assert {name: shape.lens() for name, shape in program.get_parameter_shapes().items()} == {"x": [2, 3, 4], "axes": [1]}
    program.compile(migraphx.get_target("gpu"), offload_copy=False)
    assert sorted(program.get_parameter_names()) == ["axes", "x"]  # the sizes of the result are not known yet
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for axis in (1, 0, -1, 1):
        got = np.array(program.run({"x": migraphx.argument(x), "axes": migraphx.argument(np.array([axis]))})[0])
        np.testing.assert_allclose(got, x.sum(axis))
    with pytest.raises(RuntimeError, match="axis 7"):
        program.run({"x": migraphx.argument(x), "axes": migraphx.argument(np.array([7]))})
    with pytest.raises(RuntimeError, match="cannot be saved: values of .axes."):
        migraphx.save(program, "program.mxr")


def test_a_branch_that_does_not_compile_is_compiled_without():
    """The ranks of the inputs decide which branch fits, as in the expanded form of an ONNX function."""
    def branch(name, *nodes):
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)])

    choose = helper.make_node("If", ["is_flat"], ["y"], then_branch=branch("same", helper.make_node("Neg", ["x"], ["same"])),
                              else_branch=branch("turned", helper.make_node("Transpose", ["x"], ["turned"], perm=[0, 2, 1])))
    model = graph_of(choose, [("is_flat", TensorProto.BOOL, []), ("x", TensorProto.FLOAT, ["n", 3])], 2)
    program = migraphx.parse_onnx_buffer(model, map_input_dims={"x": [2, 3], "is_flat": [1]})
    program.compile(migraphx.get_target("gpu"), offload_copy=False)
    assert sorted(program.get_parameter_names()) == ["is_flat", "x"]
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for flat in np.array(True), np.array([True]):
        got = np.array(program.run({"x": migraphx.argument(x), "is_flat": migraphx.argument(flat)})[0])
        np.testing.assert_array_equal(got, -x)
    with pytest.raises(RuntimeError, match="Transpose"):
        program.run({"x": migraphx.argument(x), "is_flat": migraphx.argument(np.array(False))})


def test_a_body_of_control_flow_is_judged_when_it_runs():
    """onnxruntime's provider gives the bodies of control flow names such as MGXKernel_subgraph_g1_1_0. The provider
    compiles bodies although they may never run."""
    node = helper.make_node("Transpose", ["x"], ["y"], perm=[0, 2, 1])
    x = ("x", TensorProto.FLOAT, [2, 3])
    with pytest.raises(RuntimeError, match="Transpose"):
        migraphx.parse_onnx_buffer(graph_of(node, [x], 3, "MGXKernel_graph_main_1_0"))
    program = migraphx.parse_onnx_buffer(graph_of(node, [x], 3, "MGXKernel_subgraph_g1_1_0"))
    migraphx.quantize_fp16(program)
    int8(program)
    program.compile(migraphx.get_target("gpu"), offload_copy=False)
    assert len(program.get_output_shapes()) == 1
    assert [(name, shape.lens()) for name, shape in program.get_parameter_shapes().items()] == [("x", [0])]
    with pytest.raises(RuntimeError, match="Transpose"):
        program.run({"x": migraphx.argument(np.zeros((2, 3), np.float32))})


def test_an_input_without_a_rank_has_the_one_that_is_given():
    node = helper.make_node("Neg", ["x"], ["y"])
    model = graph_of(node, [("x", TensorProto.FLOAT, None)], 2)
    with pytest.raises(RuntimeError, match="has no rank"):
        migraphx.parse_onnx_buffer(model)
    x = np.array([[1, 2, 3]], np.float32)
    program = migraphx.parse_onnx_buffer(model, map_input_dims={"x": [1, 3], "no_input": [2]})
    program.compile(migraphx.get_target("cpu"))
    assert program.get_parameter_shapes()["x"].lens() == [1, 3]
    np.testing.assert_array_equal(np.array(program.run({"x": x})[0]), -x)
    scalar = migraphx.parse_onnx_buffer(model, map_input_dims={"x": []})
    assert scalar.get_parameter_shapes()["x"].lens() == []


def test_exhaustive_tuning_is_kept(tmp_path):
    """Runs in a new process, because a process reads WEFT_TUNINGS only once."""
    def weights(name, *sizes):
        array = np.random.default_rng(0).standard_normal(sizes).astype(np.float32)
        return onnx.numpy_helper.from_array(array, name)

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 32, 24, 24]) for name in "xy")
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    graph = helper.make_graph([node], "g", [x], [y], [weights("w", 32, 32, 3, 3)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    kept = tmp_path / "tunings.db"
    for flags, is_measured in (([], False), (["--exhaustive-tune"], True)):
        command = [sys.executable, BUILD / "bin/migraphx-driver", "compile", tmp_path / "m.onnx", "--cpu", *flags]
        paths = {"PYTHONPATH": str(BUILD / "python"), "WEFT_TUNINGS": str(kept), "WEFT_CUDA_LIBRARY": "none"}
        done = subprocess.run(command, env=os.environ | paths, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert kept.exists() == is_measured


def test_a_range_of_sizes():
    ranges = [migraphx.shape.dynamic_dimension(1, 8), *([migraphx.shape.dynamic_dimension(n, n) for n in (1, 8, 8)])]
    program = migraphx.parse_onnx(str(DIGITS), map_dyn_input_dims={"image": ranges})
    program.compile(migraphx.get_target("cpu"))
    shape = program.get_parameter_shapes()["image"]
    assert shape.dynamic() and shape.dyn_dims() == ranges
    assert [answer(program, image(batch)).shape for batch in (1, 3, 8)] == [(1, 10), (3, 10), (8, 10)]


def test_a_program_built_by_hand():
    program = migraphx.program()
    main = program.get_main_module()
    x = main.add_parameter("x", migraphx.shape(type="float", lens=[2, 3]))
    w = main.add_literal(np.arange(6, dtype=np.float32).reshape(3, 2))
    product = main.add_instruction(migraphx.op("dot"), [x, w])
    assert product.shape() == migraphx.shape(type="float", lens=[2, 2])
    main.add_return([main.add_instruction(migraphx.op("softmax", axis=1), [product])])
    copy = program.clone()
    assert copy == program
    program.compile(migraphx.get_target("cpu"))
    values = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    got = np.array(program.run({"x": values})[0])
    exact = np.exp(values @ np.arange(6).reshape(3, 2))
    np.testing.assert_allclose(got, exact / exact.sum(1, keepdims=True), rtol=1e-5)
    assert copy != program
    with pytest.raises(RuntimeError, match="lstm"):
        copy.create_module("other").add_instruction(migraphx.op("lstm"), [])
    assert "dot" in migraphx.get_operators() and "Conv" in migraphx.get_onnx_operators()


def test_files(compiled, tmp_path):
    migraphx.save(compiled, str(tmp_path / "digits.mxr"))
    for again in (migraphx.load(str(tmp_path / "digits.mxr")), migraphx.load_buffer(migraphx.save_buffer(compiled))):
        np.testing.assert_array_equal(answer(again, image()), answer(compiled, image()))
    argument = migraphx.argument(image())
    argument.save(tmp_path / "image.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "image.npy"), image())
    assert migraphx.argument.load(tmp_path / "image.npy") == argument


def test_shapes_and_arguments():
    shape = migraphx.shape(type="int32_type", lens=[2, 3], strides=[1, 2])
    assert (shape.elements(), shape.bytes(), shape.ndim(), shape.type_size()) == (6, 24, 2, 4)
    assert shape.transposed() and shape.packed() and not shape.standard()
    numbers = migraphx.create_argument(shape, range(6))
    assert numbers.tolist() == list(range(6))
    np.testing.assert_array_equal(np.array(numbers), np.arange(6).reshape(2, 3))
    assert migraphx.fill_argument(migraphx.shape(lens=[3]), 2).tolist() == [2, 2, 2]
    assert migraphx.argument(b"\x01\x02").get_shape().type_string() == "uint8_type"
    assert migraphx.generate_argument(shape, 1) == migraphx.generate_argument(shape, 1)


def driver(*words):
    done = subprocess.run([BUILD / "bin/migraphx-driver", *map(str, words)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_fp8_is_verified_by_a_limit_of_its_own_and_says_that_it_is_simulated():
    dims = ("--input-dim", "@image", 2, 1, 8, 8)
    code, out, err = driver("verify", DIGITS, "--cpu", "--fp8", *dims)
    assert code == 0 and "limit 0.16: passed" in out
    assert err.count("fp8 is simulated") == 1
    assert "simulated" in driver("compile", "--help")[1]
    code, out, _ = driver("verify", DIGITS, "--cpu", "--fp8", "--rms-tol", "0", *dims)
    assert code == 1 and "limit 0: FAILED" in out


def in_python(script, **variables):
    """Runs a script in a new Python process; returns its standard output and standard error."""
    done = subprocess.run([sys.executable, "-c", script], env=os.environ | {"PYTHONPATH": str(BUILD / "python")} | variables,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


COMPILE = f"""
import migraphx
for target in {{targets}}:
    program = migraphx.parse_onnx({str(DIGITS)!r}, map_input_dims={{{{"image": [2, 1, 8, 8]}}}})
    program.compile(migraphx.get_target(target))
"""


def test_the_target_gpu_says_once_that_there_is_none():
    hidden = {"WEFT_HIP_LIBRARY": "none", "WEFT_CUDA_LIBRARY": "none"}
    assert "no GPU" not in in_python(COMPILE.format(targets=["cpu"]), **hidden)[1]
    said = in_python(COMPILE.format(targets=["gpu", "gpu"]), **hidden)[1]
    assert said.count("there is no GPU here") == 1 and said.count("run on the cpu") == 1


@pytest.mark.parametrize("name, words", [
    ("MIGRAPHX_TRACE_COMPILE", "change nothing in Weft: MIGRAPHX_TRACE_COMPILE"),
    ("MIGRAPHX_TRACE_COMPIEL", "not known: MIGRAPHX_TRACE_COMPIEL (the nearest is MIGRAPHX_TRACE_COMPILE)")])
def test_variables_of_migraphx_are_noted_once(name, words):
    said = in_python(COMPILE.format(targets=["cpu", "cpu"]), **{name: "1"})[1]
    assert said.count(words) == 1 and said.count("environment variables") == 1


@pytest.mark.parametrize("keyword, words", [
    ("skip_unknown_operators=True", "skip_unknown_operators changes nothing"),
    ("print_program_on_error=True", "print_program_on_error changes nothing"),
    ("max_loop_iterations=3", "default_loop_iterations changes nothing"),
    ("limit_max_iterations=3", "limit_loop_iterations changes nothing"),
    ("map_dyn_input_dims={'image': [migraphx.shape.dynamic_dimension(1, 8, {4}), 1, 8, 8]}", "optimals of a dynamic dimension"),
    ("use_debug_symbols=False", "")])
def test_options_that_change_nothing_say_so_once(keyword, words):
    script = f"import migraphx\nfor _ in range(2): migraphx.parse_onnx({str(DIGITS)!r}, {keyword})"
    said = in_python(script)[1]
    assert said.count("warning") == (1 if words else 0) and words in said


def test_operators_have_the_names_that_migraphx_gives():
    names = migraphx.get_onnx_operators()
    assert {"Conv", "GroupQueryAttention", "MatMulNBits", "SkipLayerNormalization", "FastGelu"} <= set(names)
    assert not any(":" in name for name in names) and len(names) == len(set(names))


def test_the_command(tmp_path):
    dims = ("--input-dim", "@image", 2, 1, 8, 8)
    assert "output 0: float_type, [2, 10]" in driver("params", DIGITS, *dims)[1]
    code, out, _ = driver("verify", DIGITS, "--cpu", "--int8", *dims)
    assert code == 0 and "passed" in out
    assert driver("verify", DIGITS, "--fp16", "--rms-tol", "1e-9")[0] == 1
    assert driver("compile", DIGITS, "--binary", "-o", tmp_path / "d.mxr", *dims)[0] == 0
    code, out, _ = driver("perf", tmp_path / "d.mxr", "-n", 3)
    assert code == 0 and "Rate:" in out
    examples = [tmp_path / f"{i}.npy" for i in range(3)]
    for i, path in enumerate(examples):
        np.save(path, image(seed=i))
    for words in ("--int4-weights",), ("--int8", "--load-arg", "@image", *examples):
        assert driver("quantize", DIGITS, "--cpu", *words, "-o", tmp_path / "q.mxr", *dims) == (0, "", "")
        assert "output 0" in driver("run", tmp_path / "q.mxr", "--cpu")[1]
    for words in (), ("--int8",):
        assert "quantize needs" in driver("quantize", DIGITS, "--cpu", *words)[2]
    assert "parameter" in driver("read", DIGITS)[1]
    assert "output 0" in driver("run", DIGITS, "--fill1", "image")[1]
    assert driver("run", DIGITS, "--fill1", "picture")[0] == 1
    assert driver("bogus")[0] == 2
    code, _, err = driver("read", ROOT / "README.md")
    assert code == 1 and "README.md" in err


def test_the_module_needs_no_numpy():
    code = "import sys; sys.modules['numpy'] = None; import migraphx; print(migraphx.argument(b'ab').tolist())"
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(BUILD / "python")}, capture_output=True,
                          text=True)
    assert done.stdout == "[97, 98]\n", done.stderr


ON_GPU = """
import migraphx, numpy
program = migraphx.parse_onnx({model!r}, map_input_dims={{"image": [2, 1, 8, 8]}})
program.compile(migraphx.get_target("gpu"), offload_copy=False)
image = migraphx.argument(numpy.random.default_rng(0).random((2, 1, 8, 8), dtype=numpy.float32))
given = migraphx.allocate_gpu(program.get_output_shapes()[0])
results = [program.run({{"image": migraphx.to_gpu(image)}})[0],
           program.run({{"image": migraphx.to_gpu(image), "main:#output_0": given}})[0]]
print(numpy.array([migraphx.from_gpu(result).tolist() for result in results]).tolist())
"""


needs_emulator = pytest.mark.skipif(not (BUILD / "lib/libamdemu.so").exists(),
                                    reason="the emulator is built with LLVM's libraries only")


@needs_emulator
def test_arguments_on_an_amd_gpu(tmp_path, reference):
    for got in json.loads(on_amd(tmp_path, ON_GPU)[0]):
        np.testing.assert_allclose(np.reshape(got, (2, 10)), answer(reference, image()), atol=1e-5)


ON_STREAMS = """
import ctypes, gc, json, migraphx, numpy

gc.disable()  # freeing memory would wait for all streams
HIP = ctypes.CDLL("libamdhip64.so.7")
BYTES = 2 * 64 * 4
CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def address(value):
    return ctypes.c_void_p(value)


def pinned(shape, values=None):
    data = ctypes.c_void_p()
    assert HIP.hipHostMalloc(ctypes.byref(data), ctypes.c_size_t(4 * int(numpy.prod(shape))), 0) == 0
    array = numpy.ctypeslib.as_array(ctypes.cast(data, ctypes.POINTER(ctypes.c_float)), shape)
    array[...] = numpy.nan if values is None else values
    return array


def stream():
    made = ctypes.c_void_p()
    assert HIP.hipStreamCreateWithFlags(ctypes.byref(made), 1) == 0
    return made.value


def wait(queue):
    assert HIP.hipStreamSynchronize(address(queue)) == 0


class Request:
    # Brings an image, runs, takes the result and spoils the image again, all queued on one stream.
    def __init__(self, queue, seed, has_output=True):
        self.queue, self.seen = queue, []
        self.image = pinned((2, 1, 8, 8), numpy.random.default_rng(seed).random((2, 1, 8, 8), dtype=numpy.float32))
        self.x = migraphx.allocate_gpu(program.get_parameter_shapes()["image"])
        self.y = migraphx.allocate_gpu(program.get_output_shapes()[0]) if has_output else None
        self.result, self.note = pinned((2, 10)), CALL(lambda _: self.seen.append(1))

    def start(self):
        self.seen.clear()
        x, queue = self.x.data_ptr(), address(self.queue)
        given = dict(image=self.x, **(dict([("main:#output_0", self.y)]) if self.y else dict()))
        assert HIP.hipMemcpyHtoDAsync(address(x), address(self.image.ctypes.data), ctypes.c_size_t(BYTES), queue) == 0
        assert HIP.hipLaunchHostFunc(queue, self.note, None) == 0
        self.kept = program.run_async(given, self.queue or 0)
        self.was_asynchronous = not self.seen
        y = self.kept[0].data_ptr()
        assert HIP.hipMemcpyDtoHAsync(address(self.result.ctypes.data), address(y), ctypes.c_size_t(80), queue) == 0
        assert HIP.hipMemsetD8Async(address(x), ctypes.c_ubyte(255), ctypes.c_size_t(BYTES), queue) == 0
        return self

    def end(self):
        wait(self.queue)
        return self.told()

    def told(self):
        return [self.image.tolist(), self.result.tolist(), self.was_asynchronous]


program = migraphx.parse_onnx({model!r}, map_input_dims={{"image": [2, 1, 8, 8]}})
program.compile(migraphx.get_target("gpu"), offload_copy=False)
answers = {{}}
again = Request(stream(), 1)
answers["a stream"] = again.start().end()
answers["the default stream"] = Request(None, 2).start().end()
answers["memory of the program"] = Request(stream(), 3, has_output=False).start().end()
first, second = Request(stream(), 4).start(), Request(stream(), 5).start()
answers["one of two streams"], answers["the other of two streams"] = second.end(), first.end()
before = Request(stream(), 6).start()
x = numpy.random.default_rng(7).random((2, 1, 8, 8), dtype=numpy.float32)
waited = program.run({{"image": migraphx.to_gpu(migraphx.argument(x))}})[0]
answers["a run that is waited for"] = [x.tolist(), numpy.reshape(migraphx.from_gpu(waited).tolist(), (2, 10)).tolist(), True]
answers["a stream before it"] = before.end()
plain = Request(None, 8)
HIP.hipMemcpyHtoDAsync(address(plain.x.data_ptr()), address(plain.image.ctypes.data), ctypes.c_size_t(BYTES), None)
late = program.run({{"image": plain.x, "main:#output_0": plain.y}})[0]
answers["a run after a copy in the default stream"] = [
    plain.image.tolist(), numpy.reshape(migraphx.from_gpu(late).tolist(), (2, 10)).tolist(), True]
again.result[...] = numpy.nan
again.start()
migraphx.gpu_sync()
answers["gpu_sync"] = again.told()
refused = ""
try:
    program.run_async({{"image": plain.x}}, 0, "CUstream_st")
except RuntimeError as error:
    refused = str(error)
print(json.dumps({{"answers": answers, "refused": refused}}))
"""


def on_amd(tmp_path, script, **variables):
    """Runs a script in a Python whose AMD driver is the emulated one, where device addresses are not valid host
    addresses; returns what in_python returns."""
    (tmp_path / "libamdhip64.so.7").symlink_to(BUILD / "lib/libamdemu.so")
    return in_python(script.format(model=str(DIGITS)), LD_LIBRARY_PATH=str(tmp_path), WEFT_CUDA_LIBRARY="none",
                     AMDEMU_CHIPS="gfx1100", **variables)


@needs_emulator
@pytest.mark.parametrize("interleave", ["0", "1"])
def test_asynchronous_runs_are_in_order_with_their_streams(tmp_path, reference, interleave):
    """The emulator runs the work of a stream only when the program waits for it or, with `interleave`, in alternation
    with other streams. A missing wait between streams gives wrong answers."""
    found = json.loads(on_amd(tmp_path, ON_STREAMS, AMDEMU_INTERLEAVE=interleave)[0])
    for name, (x, got, was_asynchronous) in found["answers"].items():
        np.testing.assert_allclose(got, answer(reference, np.float32(x)), atol=1e-5, err_msg=name)
        assert was_asynchronous or interleave == "1", name
    assert "of kind 'CUstream_st'" in found["refused"]
