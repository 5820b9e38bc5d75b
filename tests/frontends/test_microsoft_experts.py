# SPDX-License-Identifier: Apache-2.0
"""com.microsoft's mixtures of experts and their routers. ref and cpu give the answers of onnxruntime's CPU provider, or
those of a plain definition where it lacks the operator."""
import numpy as np
import pytest

from test_microsoft import floats, judge, model_of, weft
from test_microsoft_caches import bytes_of
from test_microsoft_varlen import refuses

pytestmark = pytest.mark.rotates(2)

EXPERTS, HIDDEN, INNER = 4, 32, 16


@pytest.mark.parametrize("tokens, k", [(1, 2), (5, 1), (70, 2), (3, 4)])
@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "identity", "swiglu"])
def test_experts(tokens, k, activation):
    wide = 2 * INNER if activation == "swiglu" else INNER
    inputs = [floats(tokens, HIDDEN), floats(tokens, EXPERTS), floats(EXPERTS, wide, HIDDEN) / 5, floats(EXPERTS, wide),
              floats(EXPERTS, HIDDEN, INNER) / 3, floats(EXPERTS, HIDDEN)]
    attributes = {"k": k, "activation_type": activation, "normalize_routing_weights": tokens % 2}
    if activation == "swiglu":
        attributes |= {"swiglu_fusion": 1, "activation_alpha": 1.7, "activation_beta": 1.0, "swiglu_limit": 2.0}
    judge("MoE", inputs, attributes, constants=(2, 4))


@pytest.mark.parametrize("after", [0, 1])
def test_the_limit_of_gates(after):
    """The limit applies to the gate or, as in onnxruntime's CUDA provider since 1.32, to the gate times its sigmoid.
    There is one expert, with weight 1."""
    x, up, down = floats(5, HIDDEN), floats(1, 2 * INNER, HIDDEN), floats(1, HIDDEN, INNER)
    attributes = {"activation_type": "swiglu", "swiglu_fusion": 1, "activation_alpha": 1.7, "activation_beta": 1.0, "swiglu_limit": 2.0,
                  "swiglu_limit_after_activation": after}
    model, feed = model_of("MoE", [x, floats(5, 1), up, None, down], ["y"], attributes, (2, 4))
    gate, linear = ((x @ up[0].T)[:, i::2].astype(np.float64) for i in (0, 1))
    limited = gate if after else np.minimum(gate, 2)
    gated = limited / (1 + np.exp(-1.7 * limited))
    wanted = ((np.minimum(gated, 2) if after else gated) * (np.clip(linear, -2, 2) + 1)) @ down[0].T
    for device in "ref", "cpu":
        np.testing.assert_allclose(weft.compile(model, device=device).run(feed)["y"], wanted, 1e-4, 1e-4)


TIES = np.array([[1, 1, 1, 1], [0, 2, 2, 0], [3, 0, 0, 0], [200, 0, 1, 2]], np.float32)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("adds_up", [0, 1])
def test_experts_that_are_preferred_alike(k, adds_up):
    """Of experts with equal scores, the last is chosen first."""
    inputs = [floats(4, HIDDEN), TIES, floats(EXPERTS, INNER, HIDDEN) / 5, None, floats(EXPERTS, HIDDEN, INNER) / 3]
    judge("MoE", inputs, {"k": k, "normalize_routing_weights": adds_up}, constants=(2, 4))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_quantised_experts_that_are_preferred_alike(k):
    """Preferred experts are found by their scores, because three probabilities of the last row of TIES are 0 in f32."""
    scales = np.full((EXPERTS, INNER), 0.05, np.float32), np.full((EXPERTS, HIDDEN), 0.05, np.float32)
    inputs = [floats(4, HIDDEN), TIES, bytes_of(EXPERTS, INNER, HIDDEN // 2), scales[0], None,
              bytes_of(EXPERTS, HIDDEN, INNER // 2), scales[1]]
    judge("QMoE", inputs, {"k": k, "expert_weight_bits": 4}, constants=(2, 3, 5, 6), tolerance=1e-4)


ROUTING = [{}, {"n_group": 4, "topk_group": 2}, {"n_group": 2, "group_topk": 9}, {"n_group": 4, "group_topk": 1}, {"n_group": 8, "topk_group": 5}]


@pytest.mark.parametrize("groups", ROUTING, ids=str)
@pytest.mark.parametrize("type", [np.float32, np.float16])
def test_group_router(groups, type):
    scores, bias = floats(2, 5, 8).astype(type), floats(8)
    scores[0, 0] -= 90  # sigmoids of nearly 0
    scores[0, 1, :4] = scores[0, 1, 4:]
    judge("MoEGroupRouter", [scores, bias], {"top_k": 3, "router_sentinel": -50.0, **groups},
          tolerance=1e-5 if type == np.float32 else 4e-3)
    judge("MoEGroupRouter", [np.zeros((3, 8), type), np.zeros(8, np.float32)], {"top_k": 3, **groups})


def test_group_router_passes_over_nan():
    scores = floats(2, 8)
    scores[0, 3] = np.nan
    judge("MoEGroupRouter", [scores, floats(8)], {"top_k": 3})


def test_group_router_gives_all_scores():
    judge("MoEGroupRouter", [floats(2, 5, 8), floats(8)], {"top_k": 2}, ["", "scores", "weights"])
    judge("MoEGroupRouter", [floats(3, 256) / 8, floats(8), floats(8, 256)], {"top_k": 2}, ["", "scores", "weights"])


@pytest.mark.parametrize("words, changes, attributes, outputs", [
    ("top_k and experts", {}, {"top_k": 9}, "y"),
    ("top_k must be >=1, is 0", {}, {"top_k": 0}, "y"),
    ("group_topk must be >=1", {}, {"group_topk": 0}, "y"),
    ("multiple of n_group", {}, {"n_group": 3}, "y"),
    ("topk_group 3 is more than n_group 2", {}, {"n_group": 2, "topk_group": 3}, "y"),
    ("biases and experts", {1: floats(7)}, {}, "y"),
    ("rank 2 or more", {0: floats(8)}, {}, "y"),
    ("gives router_probs, or", {}, {}, ["", "scores"]),
    ("gives router_probs, or", {}, {}, ["y", "scores", "weights"]),
    ("full scores and 2 groups", {}, {"n_group": 2}, ["", "scores", "weights"]),
    ("projection_weight, but no full scores", {2: floats(8, 8)}, {}, "y"),
], ids=lambda value: value if isinstance(value, str) else None)
def test_group_router_refuses(words, changes, attributes, outputs):
    inputs = [changes.get(i, value) for i, value in enumerate([floats(2, 8), floats(8), None])]
    refuses(words, "MoEGroupRouter", inputs if inputs[2] is not None else inputs[:2], {"top_k": 2, **attributes}, outputs)


def test_experts_with_a_gate_of_their_own():
    """Compares with y = second (silu(first x) * (third x)), because onnxruntime's CPU provider lacks the third weight.
    Each token has one expert."""
    x, scores, first, second, third = (floats(6, HIDDEN), floats(6, EXPERTS), floats(EXPERTS, INNER, HIDDEN),
                                       floats(EXPERTS, HIDDEN, INNER), floats(EXPERTS, INNER, HIDDEN) + 0.1)
    model, feed = model_of("MoE", [x, scores, first, None, second, None, third], ["y"],
                           {"k": 1, "activation_type": "silu", "normalize_routing_weights": 1})
    answers = [weft.compile(model, device=device).run(feed)["y"] for device in ("ref", "cpu")]
    for token, expert in enumerate(scores.argmax(1)):
        inner = first[expert] @ x[token]
        wanted = second[expert] @ (inner / (1 + np.exp(-inner)) * (third[expert] @ x[token]))
        for answer in answers:
            np.testing.assert_allclose(answer[token], wanted, 1e-3, 1e-3)


@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize("block", [0, 16])
@pytest.mark.parametrize("zeros", [False, True])
def test_quantised_experts(width, block, zeros):
    tokens, rows = 5, {0: 2 * INNER, 1: HIDDEN}
    depth = {0: HIDDEN, 1: INNER}
    inputs, points = [floats(tokens, HIDDEN), floats(tokens, EXPERTS)], []
    for layer in 0, 1:
        blocks = depth[layer] // block if block else 1
        inputs += [bytes_of(EXPERTS, rows[layer], depth[layer] * width // 8),
                   np.abs(floats(EXPERTS, rows[layer], blocks) if block else floats(EXPERTS, rows[layer])) / 2**width, None]
        points.append(bytes_of(EXPERTS, rows[layer], -(-blocks * width // 8)) if block else bytes_of(EXPERTS, rows[layer] * width // 8))
    if zeros:
        inputs += [None, None, None, *points]
    attributes = {"k": 2, "activation_type": "swiglu", "swiglu_fusion": 1, "expert_weight_bits": width}
    if block:
        attributes["block_size"] = block
    weights = [2, 3, 5, 6] + ([11, 12] if zeros else [])
    while inputs[-1] is None:
        inputs.pop()
    if width == 4 or not block:
        return judge("QMoE", inputs, attributes, constants=weights, tolerance=1e-4)
    # With blocks of 8-bit weights, onnxruntime rounds the activations to 8 bits. The definition does not.
    model, feed = model_of("QMoE", inputs, ["y"], attributes, weights)
    middle = [points[layer] if zeros else np.full(inputs[3 * layer + 3].shape, 128) for layer in (0, 1)]
    up, down = ((inputs[at].astype(np.float64) - np.repeat(zero, block, -1)) * np.repeat(inputs[at + 1], block, -1)
                for at, zero in zip((2, 5), middle))
    wanted = np.zeros((tokens, HIDDEN))
    for token, (x, scores) in enumerate(zip(inputs[0], inputs[1])):
        chosen = np.argsort(-scores)[:2]
        for expert, share in zip(chosen, np.exp(scores[chosen]) / np.exp(scores[chosen]).sum()):
            gate, linear = (up[expert] @ x).reshape(-1, 2).T
            wanted[token] += share * (down[expert] @ (gate / (1 + np.exp(-gate)) * linear))
    for device in "ref", "cpu":
        np.testing.assert_allclose(weft.compile(model, device=device).run(feed)["y"], wanted, 1e-4, 1e-4 * np.abs(wanted).max())
