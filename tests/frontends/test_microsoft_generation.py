# SPDX-License-Identifier: Apache-2.0
"""GreedySearch, Sampling and BeamSearch around a small decoder: ref and cpu give the tokens of onnxruntime's CPU
provider."""
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from test_microsoft import QUIET, floats, i32, weft

pytestmark = pytest.mark.rotates(2)

VOCABULARY, HEADS, SIZE, MOST = 23, 2, 4, 14
WIDTH = HEADS * SIZE
END, PAD = 3, 0


def constant(name, value):
    return numpy_helper.from_array(np.asarray(value), name)


def decoder():
    """Makes a decoder whose scores depend on the token, its position and the mean of all tokens that the mask shows."""
    node = helper.make_node
    nodes = [
        node("Gather", ["words", "input_ids"], ["word"]),
        node("Gather", ["places", "position_ids"], ["place"]),
        node("Add", ["word", "place"], ["x"]),
        node("Reshape", ["x", "heads"], ["apart"]),
        node("Transpose", ["apart"], ["kv"], perm=[0, 2, 1, 3]),
        node("Unsqueeze", ["kv", "zero"], ["k"]),
        node("Neg", ["k"], ["v"]),
        node("Concat", ["k", "v"], ["fresh"], axis=0),
        node("Concat", ["past_0", "fresh"], ["present_0"], axis=3),
        node("Gather", ["present_0", "second"], ["values"], axis=0),
        node("Cast", ["attention_mask"], ["shown"], to=TensorProto.FLOAT),
        node("Unsqueeze", ["shown", "around"], ["weights"]),
        node("Mul", ["values", "weights"], ["weighted"]),
        node("ReduceSum", ["weighted", "tokens"], ["sum"], keepdims=1),
        node("ReduceSum", ["weights", "tokens"], ["count"], keepdims=1),
        node("Div", ["sum", "count"], ["mean"]),
        node("Transpose", ["mean"], ["turned"], perm=[0, 2, 1, 3]),
        node("Reshape", ["turned", "flat"], ["context"]),
        node("Add", ["x", "context"], ["state"]),
        node("MatMul", ["state", "out"], ["logits"]),
    ]
    info = helper.make_tensor_value_info
    inputs = [info(name, TensorProto.INT32, ["batch", "length"]) for name in ("input_ids", "position_ids", "attention_mask")]
    inputs.append(info("past_0", TensorProto.FLOAT, [2, "batch", HEADS, "past", SIZE]))
    outputs = [info("logits", TensorProto.FLOAT, ["batch", "length", VOCABULARY]),
               info("present_0", TensorProto.FLOAT, [2, "batch", HEADS, "total", SIZE])]
    constants = [constant("words", floats(VOCABULARY, WIDTH)), constant("places", floats(MOST + 8, WIDTH) / 2),
                 constant("out", floats(WIDTH, VOCABULARY)), constant("heads", np.array([0, 0, HEADS, SIZE])),
                 constant("zero", np.array([0])), constant("second", np.array(1)), constant("around", np.array([1, 3])),
                 constant("tokens", np.array([2])), constant("flat", np.array([0, 0, WIDTH]))]
    return helper.make_graph(nodes, "decoder", inputs, outputs, constants)


def check(op, feed, inputs, attributes, outputs=("sequences",), constants=()):
    """Compares an operator with onnxruntime. `inputs`: the inputs of the node, in order; those named in `constants`
    become weights of the model."""
    node = helper.make_node(op, inputs, outputs, "node", domain="com.microsoft", decoder=decoder(), eos_token_id=END,
                            pad_token_id=PAD, model_type=0, **attributes)
    infos = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
             for name, value in feed.items() if name not in constants]
    results = [helper.make_tensor_value_info("sequences", TensorProto.INT32, None)]
    if len(outputs) > 1:
        results.append(helper.make_tensor_value_info(outputs[1], TensorProto.FLOAT, None))
    graph = helper.make_graph([node], "graph", infos, results, [constant(name, feed[name]) for name in constants])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    feed = {name: value for name, value in feed.items() if name not in constants}
    wanted = onnxruntime.InferenceSession(model, QUIET, providers=["CPUExecutionProvider"]).run(None, feed)
    for device in "ref", "cpu":
        answers = weft.compile(model, device=device).run(feed)
        tokens = answers["sequences"]
        assert tokens.shape == wanted[0].shape
        # onnxruntime does not write the output after the end of all rows; Weft writes padding there.
        end = int((tokens != PAD).any(tuple(range(tokens.ndim - 1))).nonzero()[0].max()) + 1
        np.testing.assert_array_equal(tokens[..., :end], wanted[0][..., :end], err_msg=device)
        if len(outputs) > 1:
            np.testing.assert_allclose(answers[outputs[1]], wanted[1], 1e-4, 1e-4, err_msg=device)


def prompts(batch):
    ids = np.random.default_rng(batch).integers(4, VOCABULARY, (batch, 4)).astype(np.int32)
    ids[batch // 2, 0] = PAD
    return ids


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("rules", ["none", "all"])
def test_greedy_search(batch, rules):
    feed = {"ids": prompts(batch), "most": i32(MOST)}
    inputs = ["ids", "most"]
    attributes = {}
    if rules == "all":
        allowed = np.ones(VOCABULARY, np.int32)
        allowed[5:8] = 0
        first = np.ones((batch, VOCABULARY), np.int32)
        first[:, 9:] = 0
        feed |= {"least": i32(9), "penalty": np.array([1.7], np.float32), "allowed": allowed, "first": first}
        inputs += ["least", "penalty", "allowed", "first"]
        attributes["no_repeat_ngram_size"] = 2
    check("GreedySearch", feed, inputs, attributes)


@pytest.mark.parametrize("batch, beams, returned", [(1, 4, 2), (2, 3, 3), (1, 1, 1)])
@pytest.mark.parametrize("early, penalty", [(0, 1.0), (1, 1.0), (0, 0.4), (0, 2.0)])
def test_beam_search(batch, beams, returned, early, penalty):
    feed = {"ids": prompts(batch), "most": i32(MOST), "least": i32(1), "beams": i32(beams), "returned": i32(returned),
            "penalty": np.array([penalty], np.float32), "again": np.array([1.3], np.float32)}
    check("BeamSearch", feed, list(feed), {"early_stopping": early, "no_repeat_ngram_size": 3}, ["sequences", "scores"],
          ["beams", "returned"])


@pytest.mark.parametrize("batch, seed", [(1, 0), (1, 7), (3, 123456), (3, 2147483647)])
@pytest.mark.parametrize("custom", [0, 1], ids=["least likely first", "most likely first"])
@pytest.mark.parametrize("top_p, temperature", [(0.05, 1.0), (0.6, 0.7), (0.95, 2.0)])
def test_sampling(batch, seed, custom, top_p, temperature):
    """The same seed gives the same tokens as onnxruntime."""
    feed = {"ids": prompts(batch), "most": i32(MOST), "seed": i32(seed)}
    inputs = ["ids", "most", "", "", "", "", "", "", "seed"]
    check("Sampling", feed, inputs, {"top_p": top_p, "temperature": temperature, "custom": custom, "min_tokens_to_keep": 2})


def test_sampling_by_rules():
    allowed = np.ones(VOCABULARY, np.int32)
    allowed[5:8] = 0
    first = np.ones((2, VOCABULARY), np.int32)
    first[:, 9:] = 0
    feed = {"ids": prompts(2), "most": i32(MOST), "least": i32(9), "penalty": np.array([1.7], np.float32),
            "allowed": allowed, "first": first}
    check("Sampling", feed, list(feed), {"top_p": 0.8, "no_repeat_ngram_size": 2, "filter_value": -100.0})
