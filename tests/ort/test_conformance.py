# SPDX-License-Identifier: Apache-2.0
"""ONNX's own cases with Weft's provider: Weft passes every case that the CPU provider passes. A plain run takes a
sample, WEFT_TEST_FULL=1 all cases."""

import onnx_cases
from places import IS_FULL


def test_no_case_is_lost():
    results = onnx_cases.run(every=1 if IS_FULL else 97)
    assert [(r["name"], r["weft"], r["message"]) for r in results if r["lost"]] == []
    summary = onnx_cases.summary(results)
    assert summary["whole on Weft"] >= 0.9 * summary["passed by the CPU provider"] > 0


def test_element_types_that_onnxruntime_numbers_otherwise():
    """2-bit integers and f8e8m0 have other numbers in onnx.proto than in onnxruntime's interface."""
    results = onnx_cases.run(match="castlike_FLOAT16_to_UINT2")
    assert results and [(r["name"], r["weft"]) for r in results if r["lost"]] == []
