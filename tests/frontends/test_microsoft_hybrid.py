# SPDX-License-Identifier: Apache-2.0
"""com.microsoft's operators around linear attention: ref and cpu give the answers of onnxruntime's CPU provider."""
import numpy as np
import pytest

from test_microsoft import BATCH, HEADS, SIZE, TOKENS, WIDTH, floats, judge, model_of, weft
from test_microsoft_varlen import refuses

pytestmark = pytest.mark.rotates(2)


@pytest.mark.parametrize("activation", ["silu", "sigmoid"])
def test_gated_norm(activation):
    judge("GatedRMSNorm", [floats(BATCH, TOKENS, WIDTH), floats(SIZE), floats(BATCH, TOKENS, WIDTH) / 2],
          {"activation": activation, "epsilon": 1e-5})


@pytest.mark.parametrize("scale", [None, (3 * SIZE,), (3, SIZE), (SIZE,)])
@pytest.mark.parametrize("flat", [False, True])
def test_branchwise_norm(scale, flat):
    x = floats(BATCH, TOKENS, 3 * SIZE) if flat else floats(BATCH, TOKENS, 3, SIZE)
    judge("BranchwiseRMSNorm", [x, floats(*scale)] if scale else [x], {"num_branches": 3 if flat else 0})


def test_gates():
    judge("GatedAdd", [floats(3, 4, 8), floats(3, 4, 8) + 1, floats(3, 4, 1)])
    judge("ScaledSiLU", [floats(3, 8)], {"alpha": 1.7})
    judge("ScaledSiLU", [floats(3, 8), np.float32(0.3)])
    judge("LinearAttentionGate", [floats(2, 3, HEADS), floats(HEADS), -np.abs(floats(HEADS)), floats(2, 3, HEADS) + 1], outputs=["d", "b"])


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize("tokens", [1, 70])
def test_linear_attention(rule, tokens):
    q, k, v = (floats(BATCH, tokens, WIDTH) / 4 + i / 8 for i in range(3))
    inputs = [q, k, v, floats(BATCH, HEADS, SIZE, SIZE)]
    inputs.append(-np.abs(floats(BATCH, tokens, HEADS)) if rule.startswith("gated") else None)
    inputs.append(np.abs(floats(BATCH, tokens, HEADS)) / 4 if rule.endswith("delta") else None)
    while inputs[-1] is None:
        inputs.pop()
    judge("LinearAttention", inputs, {"q_num_heads": HEADS, "kv_num_heads": HEADS, "update_rule": rule}, ["y", "state"], tolerance=1e-4)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("dilation", [1, 2])
def test_causal_convolution(last, dilation):
    channels, taps = 6, 4
    dims = lambda length: (BATCH, length, channels) if last else (BATCH, channels, length)
    judge("CausalConvWithState", [floats(*dims(9)), floats(channels, 1, taps), floats(channels), floats(*dims((taps - 1) * dilation)) + 1],
          {"activation": "silu", "dilation": dilation, "channels_last": last}, ["y", "state"])


@pytest.mark.parametrize("last", [0, 1])
def test_the_state_of_a_causal_convolution_may_have_a_layout_of_its_own(last):
    """If the state's layout differs from that of x (new in onnxruntime 1.32, not in its CPU provider), y is the same
    and the state is transposed."""
    x, state = floats(BATCH, 9, 6), floats(BATCH, 3, 6) + 1

    def answer(state, **layout):
        inputs = [x if last else x.transpose(0, 2, 1), floats(6, 1, 4), floats(6), state]
        model, feed = model_of("CausalConvWithState", inputs, ["y", "state"], {"channels_last": last} | layout)
        return weft.compile(model, device="ref").run(feed)

    plain, turned = state if last else state.transpose(0, 2, 1), state.transpose(0, 2, 1) if last else state
    usual, other = answer(plain), answer(turned, state_channels_last=1 - last)
    np.testing.assert_array_equal(answer(plain, state_channels_last=-1)["state"], usual["state"])
    np.testing.assert_array_equal(other["y"], usual["y"])
    np.testing.assert_array_equal(other["state"].transpose(0, 2, 1), usual["state"])


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("interleaved", [0, 1])
def test_three_way_rotary(layout, interleaved):
    tables = [np.cos(floats(32, SIZE // 2)), np.sin(floats(32, SIZE // 2))]
    positions = np.random.default_rng(0).integers(0, 32, (3, BATCH, TOKENS))
    judge("MRotaryEmbedding", [floats(BATCH, TOKENS, WIDTH), positions, *tables],
          {"num_heads": HEADS, "mrope_section": [4, 2, 2], "mrope_layout": layout, "interleaved": interleaved,
           "scale": 1.0 + layout, "is_packed_batching": interleaved})


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_runs_are_not_repeated(size):
    ids = np.array([[1, 2, 3, 1, 2, 3, 1, 2], [4, 4, 4, 4, 4, 4, 4, 4]])
    judge("NGramRepeatBlock", [ids, floats(2, 6)], {"ngram_size": size})


def test_other_forms_of_onnx():
    judge("ExpandDims", [floats(2, 3), np.int32(-1)], constants=(1,))
    numbers = np.random.default_rng(0).integers(-300, 300, (3, 4)).astype(np.int16)
    judge("MatMulInteger16", [numbers, numbers.T.copy()])


@pytest.mark.parametrize("type", [np.float32, np.float16])
@pytest.mark.parametrize("normed", [False, True])
def test_engram_gate(type, normed):
    key = floats(2, 3, 4, 8)
    key[0, 0] = 0
    inputs = [key, floats(2, 3, 4, 8) + 0.1, floats(2, 3, 8), *(floats(4, 8) + i for i in range(2 + normed))]
    judge("EngramGate", [x.astype(type) for x in inputs], {"epsilon": 1e-3}, ["y", "normed"][:1 + normed],
          tolerance=1e-5 if type == np.float32 else 4e-3)


def test_engram_gate_refuses():
    inputs = [floats(2, 3, 4, 8), floats(2, 3, 4, 8), floats(2, 3, 8), floats(4, 8), floats(4, 8)]
    refuses("needs input 5", "EngramGate", inputs, outputs=("y", "normed"))
    refuses("sizes of query", "EngramGate", [inputs[0], floats(2, 3, 1, 8), *inputs[2:]], outputs=("y",))
    refuses("sizes of value", "EngramGate", [*inputs[:2], floats(2, 3, 1), *inputs[3:]], outputs=("y",))
    refuses("sizes of scales", "EngramGate", [*inputs[:4], floats(1, 8)], outputs=("y",))


@pytest.mark.parametrize("gate", [(2, 3, 4), (2, 3, 4, 1), (2, 3, 4, 8), (2, 3, 32)], ids=str)
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("half", [False, True])
def test_hyper_connections(gate, flat, half):
    streams = floats(2, 3, 32) if flat else floats(2, 3, 4, 8)
    streams, tolerance = (streams.astype(np.float16), 4e-3) if half else (streams, 1e-5)
    attributes = {"num_branches": 4 if flat else 0}
    if flat or gate[-1] != 32:
        judge("HyperConnectionPreMix", [streams, floats(*gate)], attributes | {"reduction_scale": 0.3}, tolerance=tolerance)
    if gate[-1] != 32:
        block = floats(2, 3, 8).astype(streams.dtype)
        judge("HyperConnectionPostMix", [streams, block, floats(*gate)], attributes, tolerance=tolerance)
        judge("HyperConnectionPostMix", [streams, block, floats(*gate), floats(2, 3, 4, 4)], attributes, tolerance=tolerance)


@pytest.mark.parametrize("words, op, inputs, branches", [
    ("sizes of gates", "HyperConnectionPreMix", [floats(2, 3, 4), floats(1, 3)], 0),
    ("sizes of gates", "HyperConnectionPreMix", [floats(2, 3, 4), floats(2, 12)], 0),
    ("gates of rank 3", "HyperConnectionPreMix", [floats(2, 3, 4), floats(3)], 0),
    ("12.* into 5 heads", "HyperConnectionPreMix", [floats(2, 12), floats(2, 5)], 5),
    ("num_branches must be", "HyperConnectionPreMix", [floats(2, 12), floats(2, 5)], -1),
    ("rank 2 or more", "HyperConnectionPreMix", [floats(12), floats(5)], 0),
    ("sizes of gates", "HyperConnectionPostMix", [floats(2, 12), floats(2, 4), floats(2, 12)], 3),
    ("sizes of block_output", "HyperConnectionPostMix", [floats(2, 3, 4), floats(2, 3), floats(2, 3)], 0),
    ("sizes of stream_mix", "HyperConnectionPostMix", [floats(2, 3, 4), floats(2, 4), floats(2, 3), floats(1, 3, 3)], 0),
], ids=lambda value: value if isinstance(value, str) else None)
def test_hyper_connections_refuse(words, op, inputs, branches):
    refuses(words, op, inputs, {"num_branches": branches}, ("y",))
