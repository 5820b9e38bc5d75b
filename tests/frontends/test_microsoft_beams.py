# SPDX-License-Identifier: Apache-2.0
"""BeamSearch and WhisperBeamSearch around small models with an encoder, like T5 and Whisper: ref and cpu give the
tokens and scores of onnxruntime's CPU provider."""
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from test_microsoft import QUIET, floats, i32, weft
from test_microsoft_generation import HEADS, MOST, PAD, SIZE, VOCABULARY, WIDTH, constant

pytestmark = pytest.mark.rotates(2)

FEATURES, START, END = 6, 1, 18
T5, WHISPER = 1, 2
CROSS = [f"present_{kind}_cross_0" for kind in ("key", "value")]
SELF = [f"present_{kind}_self_0" for kind in ("key", "value")]
INFO = helper.make_tensor_value_info


class Graph:
    """A graph under construction: nodes and constants."""

    def __init__(self, name):
        self.name, self.nodes, self.constants, self.inputs, self.outputs = name, [], {}, [], []

    def node(self, op, *inputs, name=None, **attributes):
        name = name or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def constant(self, name, value):
        self.constants[name] = constant(name, value)
        return name

    def input(self, name, kind, dims):
        self.inputs.append(INFO(name, kind, dims))
        return name

    def output(self, name, dims):
        self.outputs.append(INFO(name, TensorProto.FLOAT, dims))

    def heads(self, x, name=None):
        """Splits the heads of [batch, n, width]: returns [batch, heads, n, size]."""
        apart = self.node("Reshape", x, self.constant("apart", np.array([0, 0, HEADS, SIZE])))
        return self.node("Transpose", apart, perm=[0, 2, 1, 3], name=name)

    def attention(self, q, k, v, bias=None):
        """Returns the attention, [batch, n, width], of q, k and v, each [batch, heads, n, size]."""
        scores = self.node("MatMul", q, self.node("Transpose", k, perm=[0, 1, 3, 2]))
        shares = self.node("Softmax", self.node("Add", scores, bias) if bias else scores, axis=-1)
        turned = self.node("Transpose", self.node("MatMul", shares, v), perm=[0, 2, 1, 3])
        return self.node("Reshape", turned, self.constant("together", np.array([0, 0, WIDTH])))

    def decode(self, ids, past, cross, mask, source=None):
        """Adds nodes that compute the scores of each token. They depend on the token, all earlier tokens, the encoder's
        unmasked tokens and, if `source` is given, the mean embedding of its tokens."""
        x = self.node("Gather", self.constant("words", floats(VOCABULARY, WIDTH)), ids)
        q = self.heads(x)
        if source:
            read = self.node("Gather", "words", source)
            x = self.node("Add", x, self.node("ReduceMean", read, axes=[1]))
        fresh = [q, self.node("Neg", q)]
        bias = None
        if mask:
            hidden = self.node("Sub", self.node("Cast", mask, to=TensorProto.FLOAT), self.constant("one", np.float32(1)))
            bias = self.node("Mul", self.node("Unsqueeze", hidden, self.constant("around", np.array([1, 2]))),
                             self.constant("much", np.float32(1e4)))
        present = [self.node("Concat", *([p] if p else []), f, axis=2, name=name) for p, f, name in zip(past, fresh, SELF)]
        for context in self.attention(q, *present), self.attention(q, *cross, bias):
            x = self.node("Add", x, context)
        self.node("MatMul", x, self.constant("out", floats(WIDTH, VOCABULARY)), name="logits")
        self.output("logits", ["batch", "length", VOCABULARY])

    def presents(self, names, length):
        for name in names:
            self.output(name, ["batch", HEADS, length, SIZE])

    def proto(self):
        return helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, list(self.constants.values()))


def encoder(kind, starts):
    """Makes an encoder; with `starts` it also runs the decoder for the first tokens."""
    g = Graph("encoder")
    if kind == T5:
        ids = g.input("encoder_input_ids", TensorProto.INT32, ["batch", "source"])
        mask = g.input("encoder_attention_mask", TensorProto.INT32, ["batch", "source"])
        x = g.node("Gather", g.constant("source_words", floats(VOCABULARY, WIDTH) / 2), ids)
    else:
        features, mask = g.input("encoder_input_ids", TensorProto.FLOAT, ["batch", FEATURES, "source"]), None
        x = g.node("MatMul", g.node("Transpose", features, perm=[0, 2, 1]), g.constant("stem", floats(FEATURES, WIDTH)))
    hidden = g.node("Tanh", g.node("MatMul", x, g.constant("mix", floats(WIDTH, WIDTH))), name="encoder_hidden_states")
    for name, weight in zip(CROSS, floats(2, WIDTH, WIDTH)):
        g.heads(g.node("MatMul", hidden, g.constant(f"w_{name}", weight)), name=name)
    if starts:
        g.decode(g.input("decoder_input_ids", TensorProto.INT32, ["batch", "length"]), [None, None], CROSS, mask)
        g.output("encoder_hidden_states", ["batch", "source", WIDTH])
        g.presents(SELF, "length")
    g.presents(CROSS, "source")
    return g.proto()


def decoder(kind, hidden=False, length=1, points=False, layers=1):
    g = Graph("decoder")
    ids = g.input("input_ids", TensorProto.INT32, ["batch", length])
    source = g.input("encoder_input_ids", TensorProto.INT32, ["batch", "source"]) if points else None
    mask = g.input("encoder_attention_mask", TensorProto.INT32, ["batch", "source"]) if kind == T5 else None
    if hidden:
        g.input("encoder_hidden_states", TensorProto.FLOAT, ["batch", "source", WIDTH])
    pasts = {which: [g.input(f"past_{part}_{which}_0", TensorProto.FLOAT, ["batch", HEADS, tokens, SIZE])
                     for part in ("key", "value")] for which, tokens in (("self", "past"), ("cross", "source"))}
    if length != 1:  # `ids` holds all tokens so far, but only the last is new
        ids = g.node("Gather", ids, g.constant("last", np.array([-1])), axis=1)
    g.decode(ids, pasts["self"], pasts["cross"], mask, source)
    g.presents(SELF * layers, "total")
    return g.proto()


def model_of(op, kind, feed, graphs, constants=("beams", "returned", "logits_processor"), outputs=("sequences", "scores"), **attributes):
    names = ["x", "most", "least", "beams", "returned", "penalty", "again", "allowed", "first", "mask", "start", "logits_processor"]
    inputs = [name if name in feed else "" for name in names]
    constants = [name for name in constants if name in feed]
    node = helper.make_node(op, inputs, outputs, "node", domain="com.microsoft", eos_token_id=END,
                            pad_token_id=PAD, model_type=kind, encoder=graphs[0], decoder=graphs[1], **attributes)
    infos = [INFO(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
             for name, value in feed.items() if name not in constants]
    results = [INFO("sequences", TensorProto.INT32, None), INFO("scores", TensorProto.FLOAT, None)]
    graph = helper.make_graph([node], "graph", infos, results, [constant(name, feed[name]) for name in constants])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    feed = {name: value for name, value in feed.items() if name not in constants}
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString(), feed


def check(op, kind, feed, graphs, **attributes):
    model, feed = model_of(op, kind, feed, graphs, **attributes)
    wanted = onnxruntime.InferenceSession(model, QUIET, providers=["CPUExecutionProvider"]).run(None, feed)
    assert len(set(wanted[0].ravel())) > 2
    for device in "ref", "cpu":
        answers = weft.compile(model, device=device).run(feed)
        np.testing.assert_array_equal(answers["sequences"], wanted[0], err_msg=device)
        np.testing.assert_allclose(answers["scores"], wanted[1], 1e-4, 1e-4, err_msg=device)


def request(kind, batch, beams, returned, penalty=1.0):
    random = np.random.default_rng([kind, batch])
    x = random.integers(4, VOCABULARY, (batch, 5)).astype(np.int32)
    x[batch // 2, 0] = x[0, 3] = PAD  # the mask hides left padding only
    if kind == WHISPER:
        x = random.standard_normal((batch, FEATURES, 7)).astype(np.float32)
    return {"x": x, "most": i32(MOST), "least": i32(1), "beams": i32(beams), "returned": i32(returned),
            "penalty": np.array([penalty], np.float32), "again": np.array([1.3], np.float32)}


@pytest.mark.parametrize("kind", [T5, WHISPER], ids=["t5", "whisper"])
@pytest.mark.parametrize("batch, beams, returned", [(1, 4, 2), (2, 3, 3), (3, 1, 1)])
@pytest.mark.parametrize("early, penalty", [(0, 1.0), (1, 0.5), (0, 2.0)])
def test_encoder_that_starts_the_decoder(kind, batch, beams, returned, early, penalty):
    check("BeamSearch", kind, request(kind, batch, beams, returned, penalty), [encoder(kind, True), decoder(kind)],
          decoder_start_token_id=START, early_stopping=early, no_repeat_ngram_size=3)


@pytest.mark.parametrize("starts, form", [(False, {}), (True, {"hidden": True}), (True, {"length": "tokens"}), (False, {"length": "tokens"})],
                         ids=["the decoder starts", "hidden states", "all tokens", "all tokens, the decoder starts"])
def test_forms_of_t5(starts, form):
    check("BeamSearch", T5, request(T5, 2, 3, 2), [encoder(T5, starts), decoder(T5, **form)], decoder_start_token_id=START)


def test_decoder_that_points_at_the_source():
    check("BeamSearch", T5, request(T5, 2, 3, 2), [encoder(T5, False), decoder(T5, points=True)], decoder_start_token_id=START)


def test_encoder_by_rules():
    allowed, first = np.ones(VOCABULARY, np.int32), np.ones((2, VOCABULARY), np.int32)
    allowed[5:8] = first[:, 9:] = 0
    mask = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 0, 1]], np.int32)
    feed = request(T5, 2, 3, 2) | {"least": i32(6), "allowed": allowed, "first": first, "mask": mask}
    check("BeamSearch", T5, feed, [encoder(T5, True), decoder(T5)], decoder_start_token_id=START)


@pytest.mark.parametrize("words, kind, graphs, more", [
    ("output 2", T5, (True, {}), {"outputs": ["sequences", "scores", "all"]}),
    ("logits_processor", WHISPER, (True, {}), {"logits_processor": i32(1)}),
    ("init_decoder", T5, (True, {}), {"init_decoder": decoder(T5)}),
    ("decoder_input_ids", T5, (True, {}), {"start": i32([1], [1])}),
    ("no logits", WHISPER, (False, {}), {}),
    ("outputs where", T5, (True, {"hidden": True, "layers": 2}), {}),
])
def test_what_is_refused(words, kind, graphs, more):
    feed = request(kind, 2, 3, 2) | {name: value for name, value in more.items() if isinstance(value, np.ndarray)}
    attributes = {name: value for name, value in more.items() if name not in feed}
    model, _ = model_of("BeamSearch", kind, feed, [encoder(kind, graphs[0]), decoder(kind, **graphs[1])], decoder_start_token_id=START, **attributes)
    with pytest.raises(weft.Error, match=words):
        weft.compile(model, device="ref")


@pytest.mark.parametrize("op", ["BeamSearch", "WhisperBeamSearch"])
def test_whisper_begins_with_given_tokens(op):
    feed = request(WHISPER, 2, 3, 2) | {"start": np.array([[1, 5, 9], [1, 6, 4]], np.int32)}
    check(op, WHISPER, feed, [encoder(WHISPER, True), decoder(WHISPER)], no_repeat_ngram_size=3)
