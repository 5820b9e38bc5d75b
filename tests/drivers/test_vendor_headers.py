# SPDX-License-Identifier: Apache-2.0
"""The numbers that src/targets/gpu/products.cpp declares by hand, against the vendor's own header where a Python with
NVIDIA's wheel of cuBLAS runs the tests (pip install nvidia-cublas)."""
import pathlib
import re
import site

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = [path for folder in site.getsitepackages() for path in pathlib.Path(folder).glob("nvidia/**/include/cublasLt.h")]
NAMES = ["CUBLAS_COMPUTE_32F", "CUBLAS_OP_T", "CUBLAS_OP_N", "CUBLASLT_MATMUL_DESC_TRANSA", "CUBLASLT_MATMUL_DESC_TRANSB",
         "CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT", "CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET"]


@pytest.mark.skipif(not HEADERS, reason="no cublasLt.h here")
def test_cublaslt():
    header = HEADERS[0].read_text() + HEADERS[0].with_name("cublas_api.h").read_text()
    source = (ROOT / "src/targets/gpu/products.cpp").read_text()
    ours = [int(n) for n in re.search(r"cuda_numbers\{([\d, ]+)\}", source).group(1).split(",")]
    theirs = [int(re.search(rf"\b{name}\s*=\s*(\d+)", header).group(1)) for name in NAMES]
    assert ours == theirs
    workspace = int(re.search(r"preference_workspace = (\d+)", source).group(1))
    assert workspace == int(re.search(r"CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES\s*=\s*(\d+)", header).group(1))
    result = re.search(r"cublasLtMatmulAlgo_t algo;(.*?)\} cublasLtMatmulHeuristicResult_t", header, re.S).group(1)
    assert re.findall(r"^\s*(\w+) (\w+)(?:\[\d\])?;", result, re.M) == [
        ("size_t", "workspaceSize"), ("cublasStatus_t", "state"), ("float", "wavesCount"), ("int", "reserved")]
