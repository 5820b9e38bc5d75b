# SPDX-License-Identifier: Apache-2.0
"""Compares the numbers that src/targets/gpu declares by hand for vendors' libraries with the vendors' own headers, if
these are installed. They are in NVIDIA's wheels of cuBLAS and cuDNN (pip install nvidia-cublas nvidia-cudnn-cu13) and
in a folder of ROCm."""
import pathlib
import re
import site

import pytest

GPU = pathlib.Path(__file__).resolve().parents[2] / "src/targets/gpu"
WHEELS = [pathlib.Path(folder) for folder in site.getsitepackages()]


def headers(name):
    return [path for folder in WHEELS for path in folder.glob(f"nvidia/**/include/{name}")]


CUBLASLT, CUDNN = headers("cublasLt.h"), headers("cudnn_graph.h")
MIOPEN = sorted(pathlib.Path("/").glob("opt/rocm*/include/miopen/miopen.h"))


def enumerators(text):
    """Returns every enumerator of a header or source, by name."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*|CUDNN_DEPRECATED_ENUM|^#.*?$", " ", text, flags=re.S | re.M)
    found = {}
    for body in re.findall(r"\benum\b[^{;]*\{([^}]*)\}", text):
        number = -1
        for entry in filter(None, map(str.strip, body.split(","))):
            name, _, value = map(str.strip, entry.partition("="))
            number = number + 1 if not value else found[value] if value in found else int(value, 0)
            found[name] = number
    return found


def constants(source):
    return {name: int(value) for name, value in re.findall(r"\b(\w+) = (\d+)[,;]", source)}


@pytest.mark.skipif(not CUBLASLT, reason="no cublasLt.h here")
def test_cublaslt():
    header = CUBLASLT[0].read_text() + CUBLASLT[0].with_name("cublas_api.h").read_text()
    source = (GPU / "products.cpp").read_text()
    names = ["CUBLAS_COMPUTE_32F", "CUBLAS_OP_T", "CUBLAS_OP_N", "CUBLASLT_MATMUL_DESC_TRANSA", "CUBLASLT_MATMUL_DESC_TRANSB",
             "CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT", "CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET"]
    ours = [int(n) for n in re.search(r"cuda_numbers\{([\d, ]+)\}", source).group(1).split(",")]
    theirs = [int(re.search(rf"\b{name}\s*=\s*(\d+)", header).group(1)) for name in names]
    assert ours == theirs
    assert constants(source)["preference_workspace"] == int(
        re.search(r"CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES\s*=\s*(\d+)", header).group(1))
    result = re.search(r"cublasLtMatmulAlgo_t algo;(.*?)\} cublasLtMatmulHeuristicResult_t", header, re.S).group(1)
    assert re.findall(r"^\s*(\w+) (\w+)(?:\[\d\])?;", result, re.M) == [
        ("size_t", "workspaceSize"), ("cublasStatus_t", "state"), ("float", "wavesCount"), ("int", "reserved")]


# Kinds whose name here differs from the vendor's name in lower case.
CUDNN_KINDS = {"engine_configuration": "enginecfg", "heuristics": "engineheur", "plan": "execution_plan",
               "convolution_forward": "operation_convolution_forward", "pointwise_operation": "operation_pointwise",
               "graph": "operationgraph"}
CUDNN_TYPES = {"float32": "float", "pointer": "void_ptr", "heuristics_mode": "heur_mode", "nan_propagation": "nan_propogation",
               "descriptor": "backend_descriptor"}
CUDNN_CONSTANTS = {
    "cross_correlation": "CUDNN_CROSS_CORRELATION", "pointwise_add": "CUDNN_POINTWISE_ADD", "pointwise_relu": "CUDNN_POINTWISE_RELU_FWD",
    "propagate_nan": "CUDNN_PROPAGATE_NAN", "heuristics_a": "CUDNN_HEUR_MODE_A", "heuristics_fallback": "CUDNN_HEUR_MODE_FALLBACK",
    "note_tensor_core": "CUDNN_NUMERICAL_NOTE_TENSOR_CORE", "note_down_convert": "CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS",
    "note_strict_nan": "CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP", "note_runtime_compilation": "CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION",
    "filter_reorder": "CUDNN_BEHAVIOR_NOTE_REQUIRES_FILTER_INT8x32_REORDER",
    "bias_reorder": "CUDNN_BEHAVIOR_NOTE_REQUIRES_BIAS_INT8x32_REORDER"}


@pytest.mark.skipif(not CUDNN, reason="no cudnn_graph.h here")
def test_cudnn():
    theirs, source = enumerators(CUDNN[0].read_text()), (GPU / "cudnn.cpp").read_text()
    for kind, prefix, suffix, other in (("Kind", "CUDNN_BACKEND_", "_DESCRIPTOR", CUDNN_KINDS), ("Type", "CUDNN_TYPE_", "", CUDNN_TYPES),
                                        ("Name", "CUDNN_ATTR_", "", {})):
        ours = enumerators(re.search(rf"enum class {kind} : int \{{.*?\}}", source, re.S).group(0))
        assert ours
        assert ours == {name: theirs[f"{prefix}{other.get(name, name).upper()}{suffix}"] for name in ours}
    ours = constants(source)
    assert {name: ours[name] for name in CUDNN_CONSTANTS} == {name: theirs[full] for name, full in CUDNN_CONSTANTS.items()}
    types = dict(re.findall(r"case DType::(\w+): return (\d+);", source))
    assert types == {name: str(theirs[f"CUDNN_DATA_{full}"]) for name, full in (("f32", "FLOAT"), ("f16", "HALF"), ("bf16", "BFLOAT16"))}


@pytest.mark.skipif(not MIOPEN, reason="no miopen.h here")
def test_miopen():
    header = MIOPEN[0].read_text()
    theirs, source = enumerators(header), (GPU / "miopen.cpp").read_text()
    names = {"mode_convolution": "miopenConvolution", "attribute_deterministic": "MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC",
             "algorithm_fft": "miopenConvolutionAlgoFFT", "algorithm_winograd": "miopenConvolutionAlgoWinograd"}
    ours = constants(source)
    assert {name: ours[name] for name in names} == {name: theirs[full] for name, full in names.items()}
    types = dict(re.findall(r"case DType::(\w+): return (\d+);", source))
    assert types == {name: str(theirs[full]) for name, full in (("f32", "miopenFloat"), ("f16", "miopenHalf"), ("bf16", "miopenBFloat16"))}
    solution = re.search(r"typedef struct\s*\{([^}]*)\}\s*miopenConvSolution_t;", re.sub(r"/\*.*?\*/", "", header, flags=re.S)).group(1)
    assert re.findall(r"(\w+) (\w+);", solution) == [("float", "time"), ("size_t", "workspace_size"), ("uint64_t", "solution_id"),
                                                      ("miopenConvAlgorithm_t", "algorithm")]
