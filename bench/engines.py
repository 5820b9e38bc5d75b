# SPDX-License-Identifier: Apache-2.0
"""The engines that are measured side by side, behind one small interface.

An engine is a function `load(job) -> (run, version)`. `run(feeds)` takes and returns dicts of numpy arrays. A `Job`
names the model file and how to run it; `worker.py` measures its time and `peers.py` compares engines.
"""

import os
import sys
from dataclasses import dataclass, field, replace


@dataclass
class Job:
    engine: str
    model: str  # path of an ONNX file, a SavedModel or a .tflite file
    threads: int
    sizes: dict[str, int] = field(default_factory=dict)  # symbol -> number bound when loading; empty: all stay free
    cache: str = ""  # folder for the engine's cache of compiled code
    python: str = ""  # a Python that can import the engine; empty: the one that runs the benchmark


def bound_shapes(job, inputs):
    """Returns {input name: dims}, with symbols replaced by `job.sizes`; `inputs` holds (name, dims)."""
    return {name: [job.sizes.get(dim, dim) for dim in dims] for name, dims in inputs}


def onnxruntime_engine(job, providers=("CPUExecutionProvider",)):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = job.threads
    options.inter_op_num_threads = 1
    for symbol, size in job.sizes.items():
        options.add_free_dimension_override_by_name(symbol, size)
    session = onnxruntime.InferenceSession(job.model, options, providers=list(providers))
    names = [output.name for output in session.get_outputs()]
    return lambda feeds: dict(zip(names, session.run(names, feeds))), onnxruntime.__version__


def onnxruntime_weft_engine(job):
    """Runs Weft as a provider of onnxruntime (docs/onnxruntime.md)."""
    os.environ["WEFT_CACHE_DIR"] = job.cache
    import weft_library

    sys.path.insert(0, str(weft_library.library_path().parents[1] / "python"))
    import onnxruntime_ep_weft

    onnxruntime_ep_weft.register()
    options = {"threads": str(job.threads)}
    return onnxruntime_engine(job, [(onnxruntime_ep_weft.get_ep_name(), options), "CPUExecutionProvider"])


def openvino_engine(job, precision):
    import openvino

    core = openvino.Core()
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": job.threads,
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": precision,
    }
    if job.cache:
        settings["CACHE_DIR"] = job.cache
    if job.sizes:
        model = core.read_model(job.model)
        model.reshape(openvino_shapes(job))
        compiled = core.compile_model(model, "CPU", settings)
    else:
        compiled = core.compile_model(job.model, "CPU", settings)
    request = compiled.create_infer_request()
    names = {output: next(iter(output.get_names())) for output in compiled.outputs}

    def run(feeds):
        results = request.infer(feeds, share_inputs=True, share_outputs=True)
        return {name: results[output] for output, name in names.items()}

    return run, openvino.__version__.split("-")[0]


def openvino_shapes(job):
    """Returns the shapes for `job.sizes`. Reads the names of symbols from the file, because OpenVINO does not keep
    them."""
    import onnx
    import openvino

    graph = onnx.load(job.model, load_external_data=False).graph
    inputs = [
        (value.name, [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim])
        for value in graph.input
    ]
    return {name: openvino.PartialShape(dims) for name, dims in bound_shapes(job, inputs).items()}


def weft_engine(job, precision):
    os.environ["WEFT_CACHE_DIR"] = job.cache
    from weft_library import Program

    program = Program(job.model, job.threads, precision, job.sizes)
    return program.run, program.version()


def weft_before_engine(job):
    """Runs another build of Weft, to compare it with this one. The variable BENCH_BEFORE is
    COMMIT=path/of/libweft.so."""
    commit, _, library = os.environ.get("BENCH_BEFORE", "").partition("=")
    if not library:
        raise RuntimeError("weft_before needs BENCH_BEFORE=COMMIT=path/of/libweft.so")
    os.environ["WEFT_LIBRARY"] = library
    run, version = weft_engine(job, "f32")
    return run, f"{version} of {commit}"


def tensorflow_engine(job):
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(job.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    model = tf.saved_model.load(job.model)  # a default argument of `run` keeps the model alive for `function`
    function = model.signatures["serving_default"]

    def run(feeds, model=model):
        results = function(**{name: tf.constant(value) for name, value in feeds.items()})
        return {name: value.numpy() for name, value in results.items()}

    return run, tf.__version__


def litert_engine(job, kernels="AUTO"):
    """Runs LiteRT's interpreter, from TensorFlow or from its own package. By default LiteRT uses XNNPACK for every
    operator that it supports; `kernels` selects other kernels."""
    try:
        from tensorflow import __version__, lite

        resolvers = lite.experimental.OpResolverType
    except ImportError:
        from importlib.metadata import version

        from ai_edge_litert import interpreter as lite

        __version__, resolvers = version("ai-edge-litert"), lite.OpResolverType
    interpreter = lite.Interpreter(job.model, num_threads=job.threads, experimental_op_resolver_type=resolvers[kernels])
    interpreter.allocate_tensors()
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()

    def run(feeds):
        for detail, value in zip(inputs, feeds.values()):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
        return {detail["name"]: interpreter.get_tensor(detail["index"]) for detail in outputs}

    return run, __version__


def free(load):
    """Returns a copy of the engine function `load` that leaves all sizes free when it loads a model."""
    return lambda job: load(replace(job, sizes={}))


BOUND = {
    "weft": lambda job: weft_engine(job, "f32"),
    "weft_before": weft_before_engine,
    "weft_bf16": lambda job: weft_engine(job, "bf16"),
    "onnxruntime": onnxruntime_engine,
    "onnxruntime_weft": onnxruntime_weft_engine,
    "tensorflow": tensorflow_engine,
    "litert": litert_engine,
    "litert_reference": lambda job: litert_engine(job, "BUILTIN_REF"),
    "openvino": lambda job: openvino_engine(job, "f32"),
    "openvino_bf16": lambda job: openvino_engine(job, "bf16"),
}
ENGINES = {**BOUND, **{f"{name}_free": free(load) for name, load in BOUND.items()}}
