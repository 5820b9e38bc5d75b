# SPDX-License-Identifier: Apache-2.0
"""com.microsoft's operators, node by node: ref and cpu give the answers of onnxruntime's CPU provider."""
import os
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build" / "release")) / "python"))

import weft

pytestmark = pytest.mark.rotates(2)

QUIET = onnxruntime.SessionOptions()
QUIET.log_severity_level = 4
BATCH, TOKENS, HEADS, SIZE, KV_HEADS = 2, 5, 4, 16, 2
WIDTH = HEADS * SIZE


def floats(*dims):
    return np.random.default_rng(dims).standard_normal(dims).astype(np.float32)


def flags(*dims):
    return np.random.default_rng(dims).integers(0, 2, dims).astype(np.int32)


def i32(*values):
    return np.array(values, np.int32)


def model_of(op, inputs, outputs, attributes, constants=()):
    """Returns a model of one node: its bytes and its feeds."""
    names = [f"i{i}" if value is not None else "" for i, value in enumerate(inputs)]
    given = {name: np.asarray(value) for name, value in zip(names, inputs) if name}
    kept = [numpy_helper.from_array(given.pop(f"i{i}"), f"i{i}") for i in constants]
    infos = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
             for name, value in given.items()]
    node = helper.make_node(op, names, outputs, "node", domain="com.microsoft", **attributes)
    # onnxruntime does not infer the type of an attention's scores
    results = [helper.make_tensor_value_info(o, onnx.TensorProto.FLOAT, None) if o == "qk" else helper.make_empty_tensor_value_info(o)
               for o in outputs if o]
    graph = helper.make_graph([node], "graph", infos, results, kept)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString(), given


def judge(op, inputs, attributes=None, outputs=("y",), constants=(), compared=None, tolerance=1e-5):
    """Compares the outputs with onnxruntime's. `compared` converts a list of outputs into arrays to compare."""
    model, feed = model_of(op, inputs, outputs, attributes or {}, constants)
    wanted = onnxruntime.InferenceSession(model, QUIET, providers=["CPUExecutionProvider"]).run(None, feed)
    for device in "ref", "cpu":
        answers = weft.compile(model, device=device).run(feed)
        answers = [answers[name] for name in outputs if name]
        pairs = zip((compared or list)(answers), (compared or list)(wanted), strict=True)
        for answer, expected in pairs:
            assert answer.shape == expected.shape and answer.dtype == expected.dtype
            np.testing.assert_allclose(answer, expected, tolerance, tolerance, err_msg=f"{op} on {device}")


def qkv(keys=TOKENS):
    return [floats(BATCH, TOKENS, WIDTH), floats(BATCH, keys, WIDTH) + 1, floats(BATCH, keys, WIDTH) - 1]


@pytest.mark.parametrize("mask", [i32(3, 7), flags(BATCH, 7), flags(BATCH, TOKENS, 7)], ids=str)
@pytest.mark.parametrize("bias", [None, floats(1, HEADS, TOKENS, 7)], ids=["plain", "biased"])
def test_multi_head_attention_masks(mask, bias):
    judge("MultiHeadAttention", [*qkv(7), floats(3 * WIDTH), mask, bias],
          {"num_heads": HEADS, "mask_filter_value": -50.0, "scale": 0.3})


def test_multi_head_attention_with_past():
    past = floats(BATCH, HEADS, 3, SIZE)
    judge("MultiHeadAttention", [*qkv(), None, None, floats(BATCH, 1, TOKENS, TOKENS + 3), past, past + 1],
          {"num_heads": HEADS, "unidirectional": 1}, ["y", "k", "v"])


def test_multi_head_attention_over_heads_of_an_encoder():
    heads = floats(BATCH, HEADS, 6, SIZE)
    judge("MultiHeadAttention", [floats(BATCH, TOKENS, WIDTH), heads, heads + 1], {"num_heads": HEADS})
    judge("MultiHeadAttention", [floats(BATCH, TOKENS, WIDTH), heads, heads + 1, floats(3 * WIDTH)], {"num_heads": HEADS})
    inputs = [floats(BATCH, 1, WIDTH), heads, heads + 1, *[None] * 7, floats(3 * WIDTH)]
    judge("DecoderMaskedMultiHeadAttention", inputs, {"num_heads": HEADS})


@pytest.mark.parametrize("unidirectional", [0, 1])
@pytest.mark.parametrize("mask", [None, flags(BATCH, TOKENS)], ids=["all keys", "masked"])
def test_attention_scores_before_the_softmax(mask, unidirectional):
    judge("MultiHeadAttention", [*qkv(), None, mask], {"num_heads": HEADS, "unidirectional": unidirectional}, ["y", "k", "v", "qk"])
    rows, past = [x[:, :1] for x in qkv()], floats(BATCH, HEADS, 10, SIZE)
    words = {"num_heads": HEADS, "past_present_share_buffer": 1, "output_qk": 1}
    judge("DecoderMaskedMultiHeadAttention", [*rows, mask, None, past, past + 1, i32(TOKENS - 1)], words, ["y", "k", "v", "qk"],
          compared=lambda answers: [answers[0], answers[3]])


@pytest.mark.parametrize("op", ["MultiHeadAttention", "DecoderMaskedMultiHeadAttention", "Attention", "heads of an encoder"])
def test_attention_over_an_open_number_of_heads(op):
    past, words = floats(BATCH, HEADS, 3, SIZE), {"num_heads": HEADS}
    inputs, outputs, name = [*qkv(), None, None, None, past, past + 1], ["y", "k", "v"], op
    if op == "DecoderMaskedMultiHeadAttention":
        inputs, words = [*(x[:, :1] for x in qkv()), None, None, past, past + 1, i32(2)], words | {"past_present_share_buffer": 1}
    if op == "Attention":
        inputs = [floats(BATCH, TOKENS, 24), floats(24, 3 * WIDTH) / 5, floats(3 * WIDTH), None, floats(2, BATCH, HEADS, 3, SIZE)]
        outputs = outputs[:2]
    if op == "heads of an encoder":
        inputs, outputs, name = [floats(BATCH, TOKENS, WIDTH), past, past + 1], outputs[:1], "MultiHeadAttention"
    model, feed = model_of(name, inputs, outputs, words)
    wanted = onnxruntime.InferenceSession(model, QUIET, providers=["CPUExecutionProvider"]).run(None, feed)
    model = onnx.load_from_string(model)
    for port in model.graph.input:
        dims = port.type.tensor_type.shape.dim
        if len(dims) > 3:
            dims[-3].dim_param = f"heads of {port.name}"
    program = weft.compile(model.SerializeToString(), device="cpu")
    answers = program.run(feed)
    for output, expected in zip(outputs, wanted):
        np.testing.assert_allclose(answers[output], expected, 1e-5, 1e-5)
    few = {k: v[..., :2, :, :] if v.ndim > 3 else v for k, v in feed.items()}
    with pytest.raises(weft.Error, match="heads of"):
        program.run(few)


@pytest.mark.parametrize("bias", [None, floats(3 * WIDTH)], ids=["plain", "biased"])
@pytest.mark.parametrize("layout", ["qkv", "rows", "kv"])
def test_multi_head_attention_packed(layout, bias):
    """onnxruntime's CPU provider lacks the packed form; the answers must equal those for the same numbers in
    separate tensors."""
    q, k, v = qkv()
    apart = [x.reshape(BATCH, TOKENS, HEADS, SIZE) for x in (q, k, v)]
    packed = {"qkv": [np.stack(apart, 3), None, None], "rows": [np.concatenate([q, k, v], 2), None, None],
              "kv": [q, np.stack(apart[1:], 3), None]}[layout]
    if bias is not None and layout == "kv":
        model, _ = model_of("MultiHeadAttention", [*packed, bias], ["y"], {"num_heads": HEADS})
        with pytest.raises(weft.Error, match="packed keys and values and a bias"):
            weft.compile(model)
        return
    answers = []
    for inputs in [q, k, v, bias], [*packed, bias]:
        model, feed = model_of("MultiHeadAttention", inputs, ["y"], {"num_heads": HEADS})
        answers.append(weft.compile(model, device="cpu").run(feed)["y"])
    np.testing.assert_allclose(*answers, 1e-5, 1e-6)


@pytest.mark.parametrize("past", [0, 2])
@pytest.mark.parametrize("keys", [3, 7])
def test_unidirectional_attention_over_keys_of_another_length(keys, past):
    cache = [floats(BATCH, HEADS, past, SIZE), floats(BATCH, HEADS, past, SIZE) + 1] if past else []
    outputs = ["y", "k", "v"] if past else ["y"]
    attributes = {"num_heads": HEADS, "unidirectional": 1}
    judge("MultiHeadAttention", [*qkv(keys), *([None] * 3 if past else []), *cache], attributes, outputs)
    seen = flags(BATCH, keys + past)
    seen[:, 0] = 1  # onnxruntime adds -10000 in f32 to the scores of other keys: a row of these alone loses three digits
    judge("MultiHeadAttention", [*qkv(keys), None, seen, *([None] if past else []), *cache], attributes, outputs)


@pytest.mark.parametrize("device", ["ref", "cpu"])
def test_unidirectional_attention_over_an_open_number_of_keys(device):
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
        main (float[b, n, 64] q, float[b, m, 64] k, float[b, m, 64] v) => (float y) {
            y = com.microsoft.MultiHeadAttention <num_heads = 4, unidirectional = 1> (q, k, v)
        }""").SerializeToString()
    session, program = onnxruntime.InferenceSession(model, QUIET, providers=["CPUExecutionProvider"]), weft.compile(model, device=device)
    for keys in TOKENS, 7, TOKENS, 3:
        feed = dict(zip("qkv", qkv(keys)))
        np.testing.assert_allclose(program.run(feed)["y"], session.run(None, feed)[0], 1e-5, 1e-5)


@pytest.mark.parametrize("beams", [False, True])
def test_decoder_masked_attention(beams):
    past = floats(BATCH, HEADS, 10, SIZE)
    rows = [floats(BATCH, 1, WIDTH), floats(BATCH, 1, WIDTH) + 1, floats(BATCH, 1, WIDTH) - 1]
    mask, bias = (None, None) if beams else (flags(BATCH, 5), floats(1, HEADS, 1, 5))
    order = flags(1, BATCH, 10) if beams else None
    judge("DecoderMaskedMultiHeadAttention",
          [*rows, mask, bias, past, past + 1, i32(4), i32(2 if beams else 1), order, floats(3 * WIDTH)],
          {"num_heads": HEADS, "past_present_share_buffer": 1}, ["y", "k", "v"],
          compared=lambda answers: [answers[0], *(cache[:, :, :5] for cache in answers[1:])])


@pytest.mark.parametrize("mask", [None, i32(3, 5), i32(4, 5, 1, 0), flags(BATCH, TOKENS), flags(BATCH, TOKENS, TOKENS)], ids=str)
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_packed_attention_masks(mask, unidirectional):
    weights = floats(24, 3 * WIDTH) / 5
    judge("Attention", [floats(BATCH, TOKENS, 24), weights, floats(3 * WIDTH), mask],
          {"num_heads": HEADS, "unidirectional": unidirectional, "mask_filter_value": -30.0})


def test_packed_attention_with_past():
    judge("Attention", [floats(BATCH, TOKENS, 24), floats(24, 3 * WIDTH) / 5, floats(3 * WIDTH), None,
                        floats(2, BATCH, HEADS, 3, SIZE)], {"num_heads": HEADS, "unidirectional": 1}, ["y", "present"])


def test_packed_attention_sizes_and_bias():
    judge("Attention", [floats(BATCH, TOKENS, 24), floats(24, 2 * WIDTH + 16) / 5, floats(2 * WIDTH + 16)],
          {"num_heads": HEADS, "qkv_hidden_sizes": [WIDTH, WIDTH, 16]})
    judge("Attention", [floats(BATCH, TOKENS, 24), floats(24, 3 * WIDTH) / 5, floats(3 * WIDTH), None, None,
                        floats(BATCH, HEADS, TOKENS, TOKENS)], {"num_heads": HEADS, "scale": 0.2}, ["y", "present"])


def grouped(rows, past, lengths, attributes=None, packed=False, rotary=False, positions=None, bias=None, sink=None,
            outputs=("y", "k", "v")):
    """Runs grouped-query attention and checks it. `past`: capacity of the cache in tokens; `lengths`: number of valid
    keys of each row of the batch after the run."""
    batch, total = len(lengths), max(lengths)
    q, k, v = floats(batch, rows, WIDTH), floats(batch, rows, KV_HEADS * SIZE), floats(batch, rows, KV_HEADS * SIZE) + 1
    tables = [np.cos(floats(64, SIZE // 2)), np.sin(floats(64, SIZE // 2))] if rotary else [None, None]
    inputs = [np.concatenate([q, k, v], 2), None, None] if packed else [q, k, v]
    inputs += [floats(batch, KV_HEADS, past, SIZE), floats(batch, KV_HEADS, past, SIZE) + 1,
               np.array(lengths, np.int32) - 1, np.int32(total), *tables, positions, bias, sink]
    while inputs[-1] is None:
        inputs.pop()

    def valid(answers):  # entries after the last valid key of a row are unspecified
        caches = [cache[i, :, :length] for cache in answers[1:3] for i, length in enumerate(lengths)]
        return [answers[0], *answers[3:], *caches, *(np.zeros(cache.shape) for cache in answers[1:3])]

    attributes = {"num_heads": HEADS, "kv_num_heads": KV_HEADS, "do_rotary": int(rotary), **(attributes or {})}
    judge("GroupQueryAttention", inputs, attributes, outputs, constants=(6,), compared=valid)


def test_grouped_attention_prompt():
    grouped(5, 0, [5, 5])
    grouped(5, 0, [5, 5], packed=True, rotary=True)
    grouped(5, 10, [5, 5], rotary=True)  # a buffer with room for more tokens


def test_grouped_attention_tokens():
    grouped(1, 4, [5, 3], rotary=True)
    grouped(1, 10, [5, 3], rotary=True, attributes={"rotary_interleaved": 1})
    grouped(3, 4, [7], rotary=True)


def test_grouped_attention_windows():
    grouped(6, 0, [6, 6], {"local_window_size": 3})
    grouped(1, 8, [9, 6], {"local_window_size": 4})


def test_grouped_attention_variants():
    grouped(6, 0, [6, 6], {"softcap": 5.0, "scale": 0.4})
    grouped(6, 0, [6, 6], {"causal": 0})
    grouped(6, 0, [6, 6], {"smooth_softmax": 1})
    grouped(1, 6, [7, 7], rotary=True, positions=np.array([[6], [9]]))
    grouped(6, 0, [6, 6], bias=floats(1, HEADS, 6, 6))
    grouped(1, 6, [7, 7], bias=floats(2, 1, 1, 7))


SINK = 3 * floats(HEADS)


@pytest.mark.parametrize("case", [
    dict(rows=1, past=6, lengths=[7, 7]),
    dict(rows=5, past=0, lengths=[5, 5], packed=True, rotary=True),
    dict(rows=5, past=10, lengths=[5, 5], rotary=True),  # a buffer with room for more tokens
    dict(rows=1, past=10, lengths=[5, 3], rotary=True),
    dict(rows=3, past=4, lengths=[7]),
    dict(rows=300, past=0, lengths=[300]),
    dict(rows=1, past=600, lengths=[520, 400]),
    dict(rows=6, past=0, lengths=[6, 6], attributes={"local_window_size": 3}),
    dict(rows=1, past=8, lengths=[9, 6], attributes={"local_window_size": 4, "softcap": 2.0}),
    dict(rows=6, past=0, lengths=[6, 6], bias=floats(1, HEADS, 6, 6)),
    dict(rows=1, past=6, lengths=[7, 7], bias=floats(2, 1, 1, 7), attributes={"scale": 0.4}),
], ids=str)
def test_grouped_attention_sinks(case):
    grouped(**case, sink=SINK)


def test_grouped_attention_smooth():
    grouped(6, 0, [6, 6], {"smooth_softmax": 1})
    grouped(1, 10, [5, 3], {"smooth_softmax": 1}, rotary=True)


@pytest.mark.parametrize("sink", [None, SINK], ids=["plain", "sinks"])
def test_grouped_attention_reads_only_what_tokens_wrote(sink):
    """Only the valid rows are read; the rest of the cache may contain anything."""
    rows = [floats(2, 1, width) for width in (WIDTH, KV_HEADS * SIZE, KV_HEADS * SIZE)]
    answers = []
    for rubbish in 0, np.nan:
        cache = floats(2, KV_HEADS, 9, SIZE)
        cache[0, :, 4:], cache[1, :, 2:] = rubbish, rubbish
        tail = [i32(4, 2), np.int32(5), *[None] * 4, sink] if sink is not None else [i32(4, 2), np.int32(5)]
        answers.append(answer("GroupQueryAttention", [*rows, cache, cache, *tail],
                              {"num_heads": HEADS, "kv_num_heads": KV_HEADS})[0])
    assert np.isfinite(answers[0]).all()
    np.testing.assert_array_equal(*answers)


@pytest.mark.parametrize("sink", [None, SINK], ids=["plain", "sinks"])
@pytest.mark.parametrize("shown", [1, 2])
def test_grouped_attention_scores(shown, sink):
    grouped(6, 0, [6, 6], {"qk_output": shown, "softcap": 3.0}, bias=floats(1, HEADS, 6, 6), sink=sink,
            outputs=["y", "k", "v", "qk"])


def test_grouped_attention_prompts_of_different_lengths():
    """onnxruntime-genai's provider for AMD passes the capacity of the cache as the total length, and rows that end
    in padding."""
    q, k, v = floats(2, 4, WIDTH), floats(2, 4, KV_HEADS * SIZE), floats(2, 4, KV_HEADS * SIZE)
    cache = np.zeros((2, KV_HEADS, 8, SIZE), np.float32)
    attributes = {"num_heads": HEADS, "kv_num_heads": KV_HEADS}
    room, exact = (answer("GroupQueryAttention", [q, k, v, cache, cache, i32(1, 3), np.int32(total)], attributes)
                   for total in (8, 4))
    np.testing.assert_allclose(room[0][0, :2], exact[0][0, :2], 1e-5, 1e-6)
    np.testing.assert_allclose(room[0][1], exact[0][1], 1e-5, 1e-6)


def test_grouped_attention_norms():
    """Compares with q and k that numpy normalised, because only onnxruntime's GPU providers have these norms."""
    q, k, v = floats(1, 4, WIDTH), floats(1, 4, KV_HEADS * SIZE), floats(1, 4, KV_HEADS * SIZE)
    weights = floats(SIZE), floats(SIZE) + 2

    def normalised(x, weight):
        heads = x.reshape(1, 4, -1, SIZE)
        return (heads / np.sqrt((heads ** 2).mean(-1, keepdims=True) + 1e-6) * weight).reshape(x.shape).astype(np.float32)

    attributes = {"num_heads": HEADS, "kv_num_heads": KV_HEADS}
    tail = [None, None, i32(3), np.int32(4)]
    inside = [q, k, v, *tail, *[None] * 7, *weights]
    before = [normalised(q, weights[0]), normalised(k, weights[1]), v, *tail]
    answers = []
    for inputs in inside, before:
        model, feed = model_of("GroupQueryAttention", inputs, ["y"], attributes)
        answers.append(weft.compile(model, device="ref").run(feed)["y"])
    np.testing.assert_allclose(*answers, 1e-5, 1e-6)


def test_rotary_embedding():
    tables = [np.cos(floats(16, SIZE // 2)), np.sin(floats(16, SIZE // 2))]
    x = floats(BATCH, TOKENS, WIDTH)
    judge("RotaryEmbedding", [x, np.array([3]), *tables])
    judge("RotaryEmbedding", [x, np.tile(np.arange(TOKENS), (BATCH, 1)), *tables], {"interleaved": 1})
    judge("RotaryEmbedding", [x, np.array([3]), *tables], {"scale": 2.0, "is_packed_batching": 1})


@pytest.mark.parametrize("activation", ["Relu", "LeakyRelu", "Tanh", "Sigmoid", "HardSigmoid"])
def test_fused_gemm(activation):
    judge("FusedGemm", [floats(3, 4), floats(4, 5), floats(5)],
          {"activation": activation, "alpha": 0.5, "activation_alpha": 0.3, "activation_beta": 0.4})


def test_same_as_onnx():
    judge("TransposeMatMul", [floats(2, 4, 3), floats(2, 4, 5)], {"transA": 1, "alpha": 0.5})


@pytest.mark.parametrize("a, b", [((3,), (3, 5)), ((4, 3), (3,)), ((3,), (3,))], ids=str)
def test_fused_product_leaves_vectors_untransposed(a, b):
    judge("FusedMatMul", [floats(*a), floats(*b)], {"transA": int(len(a) == 1), "transB": int(len(b) == 1)})


def test_attention_refuses_a_mask_of_texts():
    inputs = [floats(BATCH, TOKENS, WIDTH)] * 3 + [None, np.array([["a"] * TOKENS] * BATCH, object)]
    with pytest.raises(weft.Error, match="E141.*string"):
        weft.compile(model_of("MultiHeadAttention", inputs, ["y"], {"num_heads": HEADS})[0], device="ref")
    judge("Trilu", [floats(2, 4, 4), np.array(1)], {"upper": 1})
    judge("Range", [np.int32(1), np.int32(9), np.int32(2)], constants=(0, 1, 2))
    judge("GatherND", [floats(3, 4, 5), np.array([[0, 1], [2, 3]])])


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample(mode, padding):
    for aligned in 0, 1:
        judge("GridSample", [floats(1, 2, 4, 5), floats(1, 3, 3, 2)],
              {"mode": mode, "padding_mode": padding, "align_corners": aligned})


@pytest.mark.parametrize("type", [np.float32, np.float64, np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("attributes", [{}, {"seed": 3}, {"seed": 4294967295, "positive": 0}], ids=str)
def test_hashes(type, attributes):
    judge("MurmurHash3", [np.array([[0, 1, 255], [1.5, 123456.7, 4e9 if type != np.int32 else 7]]).astype(type)], attributes)


def test_hashes_refuse():
    for words, inputs, attributes in [("E122.*string", [np.array(["a"], object)], {}), ("seed must be", [floats(2)], {"seed": -1})]:
        with pytest.raises(weft.Error, match=words):
            weft.compile(model_of("MurmurHash3", inputs, ["y"], attributes)[0], device="ref")


def test_distances():
    judge("CDist", [floats(3, 4), floats(5, 4)], {"metric": "euclidean"})
    judge("CDist", [floats(3, 4), floats(5, 4)], {"metric": "sqeuclidean"})


def test_skip_layer_normalization():
    x, gamma = floats(2, 5, 16), floats(16)
    judge("SkipLayerNormalization", [x, x + 1, gamma, gamma + 1, gamma - 1], {}, ["y", "", "", "sum"])
    judge("SkipLayerNormalization", [x, floats(5, 16), gamma], {"epsilon": 1e-5}, ["y", "", "", "sum"])
    judge("SkipSimplifiedLayerNormalization", [x, x + 1, gamma, gamma - 1], {}, ["y", "", "", "sum"])


@pytest.mark.parametrize("axis", [-1, 1])
def test_simplified_layer_normalization_in_both_domains(axis):
    """onnxruntime has the operator in ONNX's own domain; some models have it in com.microsoft."""
    answers = []
    x, gamma = floats(2, 5, 16), floats(*(2, 5, 16)[axis:])
    model, feed = model_of("SimplifiedLayerNormalization", [x, gamma], ["y", "scale"], {"axis": axis, "epsilon": 1e-3})
    for device in "ref", "cpu":
        answers.append(weft.compile(model, device=device).run(feed))
    model = onnx.load_from_string(model)
    model.graph.node[0].domain = ""
    session = onnxruntime.InferenceSession(model.SerializeToString(), QUIET, providers=["CPUExecutionProvider"])
    wanted = session.run(["y", "scale"], feed)
    for answer in answers:
        for name, expected in zip(("y", "scale"), wanted):
            np.testing.assert_allclose(answer[name], expected, 1e-5, 1e-5)


def test_embed_layer_normalization():
    ids, kinds, mask = i32([1, 2, 3], [3, 2, 1]), i32([0, 1, 0], [1, 1, 0]), i32([1, 1, 1], [1, 0, 1])
    words, places, gamma = floats(10, 8), floats(6, 8), floats(8)
    judge("EmbedLayerNormalization", [ids, kinds, words, places, floats(2, 8), gamma, gamma + 1, mask], {}, ["y", "counts"])
    judge("EmbedLayerNormalization", [ids, None, words, places, None, gamma, gamma + 1], {"epsilon": 1e-5}, ["y", "counts", "sum"])


def answer(op, inputs, attributes=None, outputs=("y",), constants=()):
    """Returns the cpu target's results for a node that onnxruntime implements only for GPUs."""
    model, feed = model_of(op, inputs, outputs, attributes or {}, constants)
    answers = weft.compile(model, device="cpu").run(feed)
    return [answers[name] for name in outputs]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("last", [0, 1])
def test_group_norm(last):
    x, skip, bias, gamma, beta = floats(2, 3, 3, 8), floats(2, 8), floats(8), floats(8), floats(8) + 1
    total = x + skip[:, None, None] + bias
    grouped = total.reshape(2, 9, 2, 4)
    deviation = np.sqrt(grouped.var((1, 3), keepdims=True) + 1e-5)
    y = ((grouped - grouped.mean((1, 3), keepdims=True)) / deviation).reshape(x.shape) * gamma + beta
    y *= sigmoid(y)
    attributes = {"groups": 2, "activation": 1, "channels_last": last}
    first = lambda v: v if last else v.transpose(0, 3, 1, 2)
    np.testing.assert_allclose(answer("GroupNorm", [first(total), gamma, beta], attributes)[0], first(y), 1e-4, 1e-5)
    if last:
        got = answer("SkipGroupNorm", [x, gamma, beta, skip, bias], attributes, ["y", "total"])
        np.testing.assert_allclose(got[0], y, 1e-4, 1e-5)
        np.testing.assert_allclose(got[1], total, 1e-6, 1e-6)


@pytest.mark.parametrize("last", [0, 1])
def test_group_norm_of_open_channels(last):
    """The channels of the input are open, or follow from another size that is not known to be divisible."""
    sizes = "b, h, w, c" if last else "b, c, h, w"
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
        main (float[{sizes}] x, float[c] gamma, float[c] beta) => (float y) {{
            y = com.microsoft.GroupNorm <groups = 2, activation = 0, channels_last = {last}> (x, gamma, beta)
        }}""").SerializeToString()
    program = weft.compile(model, device="cpu")
    for channels in 8, 6:
        x, gamma, beta = floats(2, 3, 3, channels), floats(channels), floats(channels) + 1
        grouped = x.reshape(2, 9, 2, channels // 2)
        y = (grouped - grouped.mean((1, 3), keepdims=True)) / np.sqrt(grouped.var((1, 3), keepdims=True) + 1e-5)
        first = lambda v: v if last else v.transpose(0, 3, 1, 2)
        np.testing.assert_allclose(program(first(x), gamma, beta), first(y.reshape(x.shape) * gamma + beta), 1e-4, 1e-5)
    with pytest.raises(weft.Error, match="(?s)E312.*GroupNorm"):
        program(floats(*(2, 3, 3, 7) if last else (2, 7, 3, 3)), floats(7), floats(7))


def test_nhwc_convolution():
    x, w, bias, skip = floats(1, 5, 5, 3), floats(4, 3, 3, 3), floats(4), floats(1, 5, 5, 4)
    attributes = {"pads": [1, 1, 1, 1]}
    first, last = (0, 3, 1, 2), (0, 2, 3, 1)
    wanted = answer("FusedConv", [x.transpose(first), w, bias, skip.transpose(first)], {**attributes, "activation": "Relu"})[0]
    got = answer("NhwcFusedConv", [x, w, bias, skip], {**attributes, "activation": "Relu"})[0]
    np.testing.assert_allclose(got, wanted.transpose(last), 1e-5, 1e-6)
    judge("FusedConv", [x.transpose(first), w, bias], attributes)  # without activation
    plain = answer("NhwcConv", [x, w, bias], attributes)[0]
    np.testing.assert_allclose(np.maximum(plain + skip, 0), got, 1e-5, 1e-6)


def test_bias_split_gelu_and_complex_products():
    x, bias, skip = floats(2, 3, 8), floats(8), floats(2, 3, 8) + 1
    np.testing.assert_allclose(answer("BiasAdd", [x, bias, skip])[0], x + bias + skip, 1e-6)
    gelu = answer("Gelu", [(x + bias)[..., 4:]])[0]
    np.testing.assert_allclose(answer("BiasSplitGelu", [x, bias])[0], (x + bias)[..., :4] * gelu, 1e-5, 1e-6)
    a, b = floats(3, 4, 2), floats(3, 4, 2) + 1
    for op, conjugate in ("ComplexMul", False), ("ComplexMulConj", True):
        product = (a[..., 0] + 1j * a[..., 1]) * (b[..., 0] + (-1j if conjugate else 1j) * b[..., 1])
        np.testing.assert_allclose(answer(op, [a, b])[0], np.stack([product.real, product.imag], -1), 1e-5, 1e-6)


@pytest.mark.parametrize("both_ways", [0, 1])
def test_relative_position_bias(both_ways):
    """The bias matches the buckets of T5 (Raffel et al. 2020, section 2.1), computed here for one position at a
    time."""
    table, most, queries, keys = floats(32, 4), 20, 30, 45
    count = 32 // (1 + both_ways)
    exact = count // 2

    def bucket(away):
        distance = abs(away) if both_ways else max(-away, 0)
        far = exact + int(np.log(max(distance, 1) / exact) / np.log(most / exact) * (count - exact))
        return (count if both_ways and away > 0 else 0) + (distance if distance < exact else min(far, count - 1))

    wanted = np.array([[table[bucket(k - q)] for k in range(keys)] for q in range(queries)]).transpose(2, 0, 1)[None]
    got = answer("RelativePositionBias", [table, np.array([queries]), np.array([keys])],
                 {"max_distance": most, "is_bidirectional": both_ways}, constants=(1, 2))[0]
    np.testing.assert_array_equal(got, wanted)


def test_gated_relative_position_bias():
    q, bias, positions, weight, offset, eco = (floats(2, 5, 16), floats(16), floats(1, 4, 5, 5), floats(4, 8), floats(8),
                                               floats(1, 4, 1, 1))
    heads = (q + bias).reshape(2, 5, 4, 4).transpose(0, 2, 1, 3)
    gates = sigmoid((heads @ weight + offset).reshape(2, 4, 5, 2, 4).sum(-1))
    wanted = (gates[..., :1] * (gates[..., 1:] * eco - 1) + 2) * positions
    got = answer("GatedRelativePositionBias", [q, bias, positions, weight, offset, eco], {"num_heads": 4})[0]
    np.testing.assert_allclose(got, wanted, 1e-5, 1e-5)


def test_pool_with_channels_last():
    x = np.random.default_rng(3).integers(0, 255, (2, 7, 6, 5)).astype(np.uint8)
    judge("NhwcMaxPool", [x], {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]})
    judge("NhwcMaxPool", [(x // 2).astype(np.int8)], {"kernel_shape": [2, 2], "ceil_mode": 1, "strides": [2, 2]})


def test_values_in_the_order_in_which_they_come():
    judge("Unique", [np.array([3, 1, 3, 2, 1, 7, 3], np.float32)], outputs=["y", "places", "counts"])


@pytest.mark.parametrize("dim, size, step", [(0, 2, 1), (1, 3, 2), (-1, 4, 3)])
def test_unfold(dim, size, step):
    judge("UnfoldTensor", [floats(3, 7, 9)], {"dim": dim, "size": size, "step": step})


@pytest.mark.parametrize("segments", [False, True])
def test_embeddings_of_bytes(segments):
    random = np.random.default_rng(4)
    table = lambda *dims: random.integers(0, 255, dims).astype(np.uint8)
    ids, parts = i32([1, 4, 0], [9, 2, 2]), i32([0, 0, 1], [1, 1, 0]) if segments else None
    steps, zeros = [np.float32(0.02 + i / 100) for i in range(5)], [np.uint8(120 + i) for i in range(5)]
    if not segments:
        steps[2] = zeros[2] = None
    tables = [table(10, 16), table(6, 16), table(2, 16) if segments else None, table(16), table(16)]
    for mask in None, i32([1, 1, 0], [1, 1, 1]):
        judge("QEmbedLayerNormalization", [ids, parts, *tables, mask, *steps, *zeros], {"epsilon": 1e-5}, outputs=["y", "counts"], tolerance=1e-4)


def test_a_skip_larger_than_its_input_is_refused():
    model, _ = model_of("SkipLayerNormalization", [floats(1, 3, 4), floats(2, 3, 4), floats(4)], ["y"], {})
    for device in "ref", "cpu":
        with pytest.raises(weft.Error, match="SkipLayerNormalization"):
            weft.compile(model, device=device)
