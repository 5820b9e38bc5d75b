# SPDX-License-Identifier: Apache-2.0
"""com.microsoft's operators with a state for each of several sequences: ref and cpu give the answers of onnxruntime's
CPU provider."""
import numpy as np
import onnx
import onnxruntime
import pytest

from test_microsoft import QUIET, floats, i32, judge, model_of, weft

pytestmark = pytest.mark.rotates(2)

HEADS, ALL_HEADS, SIZE, SIZE_V = 2, 4, 8, 5


def refuses(words, op, inputs, attributes=None, outputs=("y", "state"), constants=()):
    """Expects an error with `words` from compiling the model or from running it."""
    model, feed = model_of(op, inputs, outputs, attributes or {}, constants)
    for device in "ref", "cpu":
        with pytest.raises(weft.Error, match=words):
            weft.compile(model, device=device).run(feed)


def delta_net(tokens, sums=None, rule="gated_delta", leading=None, **changes):
    """Returns the inputs of GatedDeltaNet, in the node's order; `leading` replaces the axis of tokens."""
    batch = len(sums) - 1 if sums is not None else 2
    named = dict(
        query=floats(tokens, HEADS, SIZE), key=floats(tokens, HEADS, SIZE) / 4 + 0.1, value=floats(tokens, ALL_HEADS, SIZE_V),
        cu_seqlens=None if sums is None else i32(*sums), decay=-np.abs(floats(tokens, ALL_HEADS)) if rule.startswith("gated") else None,
        beta=np.abs(floats(tokens, ALL_HEADS)) / 4 if rule.endswith("delta") else None,
        initial_state=floats(batch, ALL_HEADS, SIZE_V, SIZE), a_log=None, dt_bias=None, capture_count=None, state_update_active=None)
    named |= changes
    if leading:
        for name in ("query", "key", "value", "decay", "beta"):
            if named[name] is not None:
                named[name] = named[name].reshape(*leading, *named[name].shape[1:])
    inputs = list(named.values())
    while inputs[-1] is None:
        inputs.pop()
    return inputs


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize("sums", [None, [0, 2, 6], [0, 0, 6], [0, 6], [0, 1, 2, 3, 6]], ids=str)
def test_delta_net(rule, sums):
    judge("GatedDeltaNet", delta_net(6, sums, rule), {"update_rule": rule}, ["y", "state"], tolerance=1e-4)


def test_delta_net_of_many_tokens():
    judge("GatedDeltaNet", delta_net(70, [0, 1, 68, 70]), {"qk_l2_norm": 1, "scale": 0.3}, ["y", "state"], tolerance=1e-4)


@pytest.mark.parametrize("state", [True, False])
def test_delta_net_of_batches(state):
    judge("GatedDeltaNet", delta_net(6, leading=(2, 3), **({} if state else {"initial_state": None})), {}, ["y", "state"], tolerance=1e-4)


@pytest.mark.parametrize("sums", [None, [0, 1, 6]], ids=str)
def test_delta_net_of_packed_rows(sums):
    inputs = delta_net(6, sums)
    packed = np.concatenate([x.reshape(6, -1) for x in inputs[:3]], 1)
    judge("GatedDeltaNet", [packed, None, None, *inputs[3:]], {}, ["y", "state"], tolerance=1e-4)
    if sums is None:
        gates = [x.reshape(2, 3, -1) for x in inputs[4:6]]
        judge("GatedDeltaNet", [packed.reshape(2, 3, -1), None, None, None, *gates, inputs[6]], {}, ["y", "state"], tolerance=1e-4)


@pytest.mark.parametrize("gate", ["softplus", "qwen", "sigmoid", "kda"])
@pytest.mark.parametrize("bias", [(ALL_HEADS,), (ALL_HEADS, SIZE), (ALL_HEADS * SIZE,), None], ids=str)
def test_delta_net_computes_gates(gate, bias):
    """The node computes decays from the gates: one for each head (bias None), or one for each element of its keys."""
    decay = {} if bias is None else {"decay": floats(6, ALL_HEADS, SIZE)}
    inputs = delta_net(6, [0, 2, 6], a_log=floats(ALL_HEADS), dt_bias=floats(*(bias or (ALL_HEADS,))), **decay)
    attributes = {"gate_activation": gate, "beta_activation": "sigmoid", "qk_l2_norm": 1}
    if gate == "kda":
        attributes["gate_lower_bound"] = -2.5
    judge("GatedDeltaNet", inputs, attributes, ["y", "state"], tolerance=1e-4)


@pytest.mark.parametrize("rule", ["linear", "gated_delta"])
@pytest.mark.parametrize("counts, active", [((1, 3), None), ((0, 9), None), ((2, 2), 1), ((2, 2), 0)])
@pytest.mark.parametrize("sums", [None, [0, 2, 6]], ids=str)
def test_delta_net_tells_first_updates(rule, counts, active, sums):
    judge("GatedDeltaNet", delta_net(6, sums, rule, capture_count=i32(*counts), state_update_active=None if active is None else i32(active)),
          {"update_rule": rule, "state_update_capacity": 4, "qk_l2_norm": 1}, ["y", "state", "update"], tolerance=1e-4)


def test_delta_net_tells_updates_of_decays_for_each_element():
    judge("GatedDeltaNet", delta_net(6, [0, 2, 6], capture_count=i32(2, 2), decay=-np.abs(floats(6, ALL_HEADS, SIZE))),
          {"state_update_capacity": 2}, ["y", "state", "update"], tolerance=1e-4)
    judge("GatedDeltaNet", delta_net(6, [0, 2, 6]), {}, ["y", "state", "update"], tolerance=1e-4)


@pytest.mark.parametrize("wide_gates", [False, True])
def test_delta_net_in_half_precision(wide_gates):
    inputs = [x.astype(np.float16) if i < 3 or (i in (4, 5) and not wide_gates) else x for i, x in enumerate(delta_net(6, [0, 2, 6]))]
    judge("GatedDeltaNet", inputs, {}, ["y", "state"], tolerance=2e-3)


@pytest.mark.parametrize("words, changes, attributes", [
    ("where the first sequence begins", {"cu_seqlens": i32(1, 2, 6)}, {}),
    ("where the last sequence ends", {"cu_seqlens": i32(0, 2, 5)}, {}),
    ("E314.* -1", {"cu_seqlens": i32(0, 7, 6)}, {}),
    ("number of sequences", {"cu_seqlens": i32(0)}, {}),
    ("sizes of initial_state", {"initial_state": floats(3, ALL_HEADS, SIZE_V, SIZE)}, {}),
    ("sizes of initial_state", {"initial_state": floats(2, ALL_HEADS, SIZE, SIZE_V)}, {}),
    ("multiple of those of queries", {"value": floats(6, 3, SIZE_V), "decay": floats(6, 3), "beta": floats(6, 3),
                                      "initial_state": floats(2, 3, SIZE_V, SIZE)}, {}),
    ("heads of keys and queries", {"key": floats(6, 4, SIZE)}, {}),
    ("sizes of keys and queries", {"key": floats(6, HEADS, 4)}, {}),
    ("tokens of its inputs", {"value": floats(7, ALL_HEADS, SIZE_V)}, {}),
    ("tokens of gates", {"beta": floats(7, ALL_HEADS)}, {}),
    ("heads of gates", {"beta": floats(6, HEADS)}, {}),
    ("sizes of decays", {"decay": floats(6, ALL_HEADS, 3)}, {}),
    ("decay and beta.*linear", {}, {"update_rule": "linear"}),
    ("decay and beta", {"beta": None}, {}),
    ("update_rule 'x'", {}, {"update_rule": "x"}),
    ("a_log and dt_bias", {}, {"gate_activation": "softplus"}),
    ("a_log and dt_bias", {"a_log": floats(4), "dt_bias": floats(4)}, {}),
    ("gate_activation 'x'", {}, {"gate_activation": "x"}),
    ("beta_activation 'x'", {}, {"beta_activation": "x"}),
    ("gate_lower_bound.* 1", {}, {"gate_lower_bound": 1.0}),
    ("chunk_size must be", {}, {"chunk_size": 0}),
    ("capture_count exactly", {}, {"state_update_capacity": 1}),
    ("capture_count exactly", {"capture_count": i32(1, 1)}, {}),
    ("state_update_capacity must be 0 to 8, is 9", {"capture_count": i32(1, 1)}, {"state_update_capacity": 9}),
    ("needs key and value", {"value": None}, {}),
    ("cu_seqlens to tell the batch", {"cu_seqlens": None, "initial_state": None}, {}),
], ids=lambda value: None if isinstance(value, dict) else value)
def test_delta_net_refuses(words, changes, attributes):
    refuses(words, "GatedDeltaNet", delta_net(6, [0, 2, 6], **changes), attributes)


CHANNELS, TAPS = 3, 4


def convolved(tokens, sums, dilation=1, bias=True, counts=None):
    inputs = [floats(tokens, CHANNELS), floats(CHANNELS, 1, TAPS), i32(*sums), floats(CHANNELS) if bias else None,
              floats(len(sums) - 1, CHANNELS, (TAPS - 1) * dilation) + 1]
    return inputs if counts is None else [*inputs, i32(*counts)]


@pytest.mark.parametrize("sums", [[0, 2, 7], [0, 0, 7], [0, 7], [0, 1, 2, 3, 7]], ids=str)
@pytest.mark.parametrize("dilation", [1, 3])
@pytest.mark.parametrize("activation", ["none", "silu"])
def test_varlen_convolution(sums, dilation, activation):
    judge("VarlenCausalConvWithState", convolved(7, sums, dilation, activation == "silu"),
          {"dilation": dilation, "activation": activation}, ["y", "state"])


@pytest.mark.parametrize("counts", [(5, 3), (0, 9), (1, 1)])
def test_varlen_convolution_tells_first_tokens(counts):
    judge("VarlenCausalConvWithState", convolved(7, [0, 2, 7], counts=counts), {"state_update_capacity": 4, "activation": "swish"},
          ["y", "state", "update"])
    judge("VarlenCausalConvWithState", convolved(7, [0, 2, 7]), {}, ["y", "state", "update"])


def test_varlen_convolution_of_one_tap():
    judge("VarlenCausalConvWithState", [floats(7, 3), floats(3, 1, 1), i32(0, 2, 7), None, floats(2, 3, 0)], {}, ["y", "state"])


def test_varlen_convolution_in_half_precision():
    inputs = [x.astype(np.float16) if x.dtype == np.float32 else x for x in convolved(7, [0, 2, 7])]
    judge("VarlenCausalConvWithState", inputs, {"activation": "silu"}, ["y", "state"], tolerance=2e-3)


@pytest.mark.parametrize("words, place, value, attributes", [
    ("where the first sequence begins", 2, i32(1, 2, 7), {}),
    ("where the last sequence ends", 2, i32(0, 2, 6), {}),
    ("E314.* -1", 2, i32(0, 8, 7), {}),
    ("sizes of initial_state", 4, floats(2, CHANNELS, 2), {}),
    ("channels of the weight", 1, floats(4, 1, TAPS), {}),
    ("a depthwise weight", 1, floats(CHANNELS, 2, TAPS), {}),
    ("activation 'relu'", None, None, {"activation": "relu"}),
    ("dilation must be", None, None, {"dilation": 0}),
    ("capture_count exactly", None, None, {"state_update_capacity": 2}),
    ("kernel_delta for group_size", None, None, {"group_size": 3}),
], ids=lambda value: value if isinstance(value, str) else None)
def test_varlen_convolution_refuses(words, place, value, attributes):
    inputs = convolved(7, [0, 2, 7])
    if place is not None:
        inputs[place] = value
    refuses(words, "VarlenCausalConvWithState", inputs, attributes)


def test_varlen_convolution_refuses_taps_that_data_tell():
    inputs = [*convolved(7, [0, 2, 7]), None, floats(7, 2, CHANNELS), floats(7, 1)]
    refuses("E122.*kernel_delta", "VarlenCausalConvWithState", inputs)


def hashed(ids, longest=3, heads=2, past=None, offsets=None, eos=None, segments=None):
    """Returns inputs of NGramHashMapping; ids[batch, tokens]."""
    ids = np.asarray(ids)
    rng = np.random.default_rng(5)
    multipliers = rng.integers(1, 1 << 30, longest).astype(ids.dtype)
    sizes = rng.integers(5, 200, (longest - 1) * heads).astype(ids.dtype)
    inputs = [ids, multipliers, sizes, past, offsets, eos if eos is None else np.array(eos, ids.dtype), segments]
    while inputs[-1] is None:
        inputs.pop()
    return inputs


IDS = np.random.default_rng(4).integers(0, 5, (2, 9))
SEGMENTS = i32(0, 0, 1, 1, 1, 2, 2, 0, 0)


@pytest.mark.parametrize("type", [np.int32, np.int64])
@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("eos, resets", [(None, 0), (3, 0), (3, 1)])
@pytest.mark.parametrize("segments", [False, True])
def test_hashes_of_ngrams(type, past, eos, resets, segments):
    ids = IDS.astype(type) * (-7 if past else 7)
    inputs = hashed(ids, 4, past=np.array([[3, 1, 21], [1, 3, 2]], type) if past else None,
                    offsets=np.arange(6, dtype=type) * 1000 if segments else None, eos=eos if eos is None else 21,
                    segments=np.stack([SEGMENTS, SEGMENTS[::-1]]) if segments else None)
    attributes = {"max_ngram_size": 4, "n_head_per_ngram": 2, "pad_id": 1, "reset_on_eos": resets}
    judge("NGramHashMapping", inputs, attributes, ["hash", "present"])
    judge("NGramHashMapping", [ids[:, :1], *inputs[1:6], *([inputs[6][:, :1]] if segments else [])], attributes, ["hash", "present"])


@pytest.mark.parametrize("words, changes, attributes", [
    ("max_ngram_size must be >=2", {}, {"max_ngram_size": 1}),
    ("E122.*max_ngram_size 300", {}, {"max_ngram_size": 300}),
    ("n_head_per_ngram must be", {}, {"n_head_per_ngram": 0}),
    ("pad_id 4294967296", {}, {"pad_id": 1 << 32}),
    ("multipliers for max_ngram_size", {1: i32(1, 2)}, {}),
    ("sizes of vocab_sizes", {2: i32(5, 5, 5)}, {}),
    ("vocab_sizes|E314", {2: i32(5, 5, 0, 5)}, {}),
    ("sizes of past_ids", {3: np.zeros((2, 3), np.int32)}, {}),
    ("head_offsets|E314.* -1", {4: i32(0, 0, -1, 0)}, {}),
    ("leave of the ids|E314", {4: i32(0, 2**31 - 2, 0, 0)}, {}),
    ("eos_token_id of rank 0", {5: i32(3)}, {}),
    ("sizes of segment_ids", {6: np.zeros((2, 8), np.int32)}, {}),
], ids=lambda value: value if isinstance(value, str) else None)
@pytest.mark.parametrize("constant", [False, True])
def test_hashes_refuse(words, changes, attributes, constant):
    inputs = hashed(IDS.astype(np.int32)) + [None] * 4
    for place, value in changes.items():
        inputs[place] = value
    while inputs[-1] is None:
        inputs.pop()
    refuses(words, "NGramHashMapping", inputs, {"max_ngram_size": 3, "n_head_per_ngram": 2, "pad_id": 1} | attributes,
            ("hash", "present"), constants=(1, 2) if constant else ())


@pytest.mark.parametrize("sums", [[0, 2, 18], [0, 18], [0, 1, 2, 3, 18]], ids=str)
@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("eos, resets", [(None, 0), (3, 0), (3, 1)])
@pytest.mark.parametrize("segments", [None, "new", "past"])
def test_hashes_of_ngrams_of_several_sequences(sums, past, eos, resets, segments):
    batch = len(sums) - 1
    ids, multipliers, sizes, _, offsets = hashed(IDS.reshape(-1), 4, offsets=np.array([0, -5, 2**62, 1, 2, 3]))
    before = np.random.default_rng(1).integers(0, 4, (2, batch, 3))
    inputs = [ids, multipliers, sizes, i32(*sums), before[0] if past else None, offsets, None if eos is None else np.array(eos),
              np.concatenate([SEGMENTS, SEGMENTS]) if segments else None, before[1].astype(np.int32) // 2 if segments == "past" else None,
              i32(*range(1, batch + 1))]
    outputs = ["hash", "present", "segments" if segments else "", "update"]
    judge("VarlenNGramHashMapping", inputs, {"max_ngram_size": 4, "n_head_per_ngram": 2, "pad_id": 1, "reset_on_eos": resets,
                                             "state_update_capacity": 3}, outputs)


def test_hashes_of_several_sequences_refuse():
    ids, multipliers, sizes = hashed(IDS.reshape(-1).astype(np.int32))
    attributes = {"max_ngram_size": 3, "n_head_per_ngram": 2, "pad_id": 1}
    refuses("shortest sequence", "VarlenNGramHashMapping", [ids, multipliers, sizes, i32(0, 0, 18)], attributes, ["hash"], (3,))
    refuses("where the last sequence ends", "VarlenNGramHashMapping", [ids, multipliers, sizes, i32(0, 17)], attributes, ["hash"])
    refuses("capture_count exactly", "VarlenNGramHashMapping", [ids, multipliers, sizes, i32(0, 18)],
            attributes | {"state_update_capacity": 2}, ["hash"])
    refuses("needs segment_ids", "VarlenNGramHashMapping", [ids, multipliers, sizes, i32(0, 18)], attributes, ["hash", "", "segments"])


def hyper_connected(n):
    return [floats(n, n + 1, 4, 8), floats(n, n + 1, 8), floats(n, n + 1, 4), floats(n, n + 1, 4, 4)]


OPEN = [  # (operator, function that returns the inputs for a value of the open size, attributes, outputs)
    ("GatedDeltaNet", lambda n: delta_net(n, [*range(n - 3), n]), {}, ["y", "state"]),
    ("GatedDeltaNet", lambda n: delta_net(2 * n), {}, ["y", "state"]),
    ("VarlenCausalConvWithState", lambda n: convolved(n, [*range(n - 3), n]), {"activation": "silu"}, ["y", "state"]),
    ("NGramHashMapping", lambda n: hashed(IDS[:n - 4, :n]), {"max_ngram_size": 3, "n_head_per_ngram": 2, "pad_id": 1}, ["y", "past"]),
    ("VarlenNGramHashMapping", lambda n: hashed(IDS[0, :n]) + [i32(*range(n - 3), n)],
     {"max_ngram_size": 3, "n_head_per_ngram": 2, "pad_id": 1}, ["y", "past"]),
    ("MoEGroupRouter", lambda n: [floats(n, n + 1, 8), floats(8)], {"top_k": 2, "n_group": 4, "topk_group": 2}, ["y"]),
    ("EngramGate", lambda n: [floats(n, n + 1, 4, 8), floats(n, n + 1, 4, 8) + 1, floats(n, n + 1, 8), floats(4, 8), floats(4, 8)], {}, ["y"]),
    ("HyperConnectionPreMix", lambda n: hyper_connected(n)[::2], {}, ["y"]),
    ("HyperConnectionPostMix", hyper_connected, {}, ["y"]),
    ("CropAndResize", lambda n: [floats(2, 3, n, n + 1), np.abs(floats(n, 4)) / 3, i32(*[1] * n), i32(n, 4)], {}, ["y"]),
    ("MaxpoolWithMask", lambda n: [floats(n, 3, n + 1, n), (floats(1, 1, n + 1, n) > 0).astype(np.int32)], {"kernel_shape": [3, 2]}, ["y"]),
    ("ConvTransposeWithDynamicPads", lambda n: [floats(n, 3, n + 1, n), floats(3, 2, 3, 3), np.array([1, 0, n - 4, 1])], {}, ["y"]),
    ("Pad", lambda n: [floats(n, n + 1), np.array([n, 0, 1, n])], {}, ["y"]),
    ("MurmurHash3", lambda n: [floats(n, n + 1)], {}, ["y"]),
]


@pytest.mark.parametrize("op, inputs, attributes, outputs", OPEN, ids=lambda value: value if isinstance(value, str) else None)
def test_sizes_may_be_open(op, inputs, attributes, outputs):
    """A model with open sizes gives the same answers as models with fixed sizes."""
    models = [model_of(op, inputs(n), outputs, attributes) for n in (5, 6)]
    open_one, other = (onnx.load_from_string(model) for model, _ in models)
    for own, others in zip(open_one.graph.input, other.graph.input):
        for size, second in zip(own.type.tensor_type.shape.dim, others.type.tensor_type.shape.dim):
            if size.dim_value != second.dim_value:
                size.dim_param = f"n{size.dim_value}_{second.dim_value}"
    model = open_one.SerializeToString()
    session = onnxruntime.InferenceSession(model, QUIET, providers=["CPUExecutionProvider"])
    for device in "ref", "cpu":
        program = weft.compile(model, device=device)
        for _, feed in models:
            answers = program.run(feed)
            for name, wanted in zip(outputs, session.run(None, feed)):
                np.testing.assert_allclose(answers[name], wanted, 1e-4, 1e-4, err_msg=f"{op} on {device}")
