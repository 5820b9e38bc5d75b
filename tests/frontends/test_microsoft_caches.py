# SPDX-License-Identifier: Apache-2.0
"""com.microsoft's attention over caches that are quantised, hold only the last tokens, or are masked block by block.
ref and cpu give the answers of onnxruntime's CPU provider, or, where it lacks the operator, those of a plain
definition."""
import numpy as np
import onnxruntime
import pytest

from test_microsoft import BATCH, HEADS, KV_HEADS, QUIET, SIZE, WIDTH, floats, i32, judge, model_of, weft

pytestmark = pytest.mark.rotates(2)


def grouped(rows, cache, lengths, attributes, scales=(None, None), bias=None):
    """Runs grouped-query attention with a cache and checks it. `lengths`: tokens of each row of the batch after the
    call."""
    batch = len(lengths)
    q, k, v = floats(batch, rows, WIDTH), floats(batch, rows, KV_HEADS * SIZE), floats(batch, rows, KV_HEADS * SIZE) + 1
    inputs = [q, k, v, cache, cache + np.asarray(1, cache.dtype), i32(*lengths) - 1, np.int32(max(lengths)), None, None, None, bias,
              None, *scales]
    while inputs[-1] is None:
        inputs.pop()
    attributes = {"num_heads": HEADS, "kv_num_heads": KV_HEADS, **attributes}
    window, capacity = attributes.get("local_window_size", 0), cache.shape[2]

    def held(length):
        if not attributes.get("sliding_window_cache") or length <= capacity:
            return min(length, capacity)
        step = capacity - window + 1
        return length - step * -(-(length - capacity) // step)

    def valid(answers):  # entries after the last key of a row are unspecified
        caches = [cache[i, :, :held(length)] for cache in answers[1:3] for i, length in enumerate(lengths)]
        return [answers[0], *caches, *(np.zeros(cache.shape) for cache in answers[1:3])]

    judge("GroupQueryAttention", inputs, attributes, ["y", "k", "v"], constants=(6,), compared=valid)


def bytes_of(*dims):
    return np.random.default_rng(dims).integers(0, 256, dims).astype(np.uint8)


@pytest.mark.parametrize("rows, lengths", [(5, [5, 5]), (1, [5, 3])])
@pytest.mark.parametrize("width", [8, 4])
@pytest.mark.parametrize("kind", ["PER_TENSOR", "PER_CHANNEL"])
def test_quantised_caches(rows, lengths, width, kind):
    cache = bytes_of(len(lengths), KV_HEADS, 8, SIZE * width // 8)
    if width == 8:
        cache = cache.astype(np.int8)
    count = (1,) if kind == "PER_TENSOR" else (1, KV_HEADS, 1, SIZE)
    scales = [np.abs(floats(*count)) * 0.02 + 0.01, np.abs(floats(*count)) * 0.01 + 0.02]
    grouped(rows, cache, lengths, {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": width}, scales)


@pytest.mark.parametrize("capacity", [3, 5])
@pytest.mark.parametrize("rows, lengths", [(2, [2, 2]), (9, [9, 9]), (1, [4, 2]), (1, [11, 6]), (4, [13])])
def test_window_caches(rows, lengths, capacity):
    grouped(rows, floats(len(lengths), KV_HEADS, capacity, SIZE), lengths, {"local_window_size": 3, "sliding_window_cache": 1})


def compressed(blocks):
    """Converts dense [layouts, rows, columns] to CSR: returns row pointers, and columns padded with -1."""
    pointers = np.concatenate([np.zeros((len(blocks), 1)), blocks.sum(2).cumsum(1)], 1).astype(np.int32)
    columns = np.full((len(blocks), pointers.max()), -1, np.int32)
    for layout, own in enumerate(blocks):
        found = np.nonzero(own)[1]
        columns[layout, :len(found)] = found
    return pointers, columns


@pytest.mark.parametrize("rows, lengths", [(40, [40, 40]), (1, [41, 41])])
@pytest.mark.parametrize("rotary", [0, 1])
def test_sparse_attention(rows, lengths, rotary):
    batch, block, most = len(lengths), 16, 64
    blocks = np.tril(np.random.default_rng(1).integers(0, 2, (2, 4, 4))) | np.eye(4, dtype=int)
    tables = [np.cos(floats(most, SIZE // 2)), np.sin(floats(most, SIZE // 2))] if rotary else []
    inputs = [floats(batch, rows, WIDTH), floats(batch, rows, KV_HEADS * SIZE), floats(batch, rows, KV_HEADS * SIZE) + 1,
              floats(batch, KV_HEADS, most, SIZE), floats(batch, KV_HEADS, most, SIZE) + 1, *compressed(blocks),
              i32(max(lengths)), i32(*lengths), *tables]

    attributes = {"num_heads": HEADS, "kv_num_heads": KV_HEADS, "sparse_block_size": block, "do_rotary": rotary}
    model, feed = model_of("SparseAttention", inputs, ["y", "k", "v"], attributes)
    wanted = in_one_buffer(model, feed, {"i3": "k", "i4": "v"})
    for device in "ref", "cpu":
        answers = weft.compile(model, device=device).run(feed)
        np.testing.assert_allclose(answers["y"], wanted["y"], 1e-5, 1e-5)
        for name in "k", "v":
            for i, length in enumerate(lengths):
                np.testing.assert_allclose(answers[name][i, :, :length], wanted[name][i, :, :length], 1e-5, 1e-5)


def in_one_buffer(model, feed, shared):
    """Returns onnxruntime's answers for an operator whose inputs and outputs must share memory."""
    session = onnxruntime.InferenceSession(model, QUIET, providers=["CPUExecutionProvider"])
    held = {name: np.array(value) for name, value in feed.items()}  # kept alive: values below do not own their memory
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(value) for name, value in held.items()}
    binding = session.io_binding()
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
        if name in shared:
            binding.bind_ortvalue_output(shared[name], value)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    return {"y": binding.get_outputs()[-1].numpy(), **{shared[name]: held[name] for name in shared}}


@pytest.mark.parametrize("apart", [{"q_norm_epsilon": 0.5}, {"k_norm_epsilon": 0.5}])
def test_each_norm_may_have_an_epsilon_of_its_own(apart):
    """The norms of queries and of keys have separate epsilons (new in onnxruntime 1.32), and the cache holds the
    normalised keys."""
    cache = floats(1, KV_HEADS, 8, SIZE)
    inputs = [floats(1, 5, WIDTH), floats(1, 5, KV_HEADS * SIZE), floats(1, 5, KV_HEADS * SIZE) + 1, cache, cache + 1, i32(4),
              np.int32(5), *[None] * 7, floats(SIZE), floats(SIZE) + 1]

    def answer(**epsilons):
        model, feed = model_of("GroupQueryAttention", inputs, ["y", "k", "v"],
                               {"num_heads": HEADS, "kv_num_heads": KV_HEADS} | epsilons, (6,))
        return weft.compile(model, device="ref").run(feed)

    both, usual = answer(qk_norm_epsilon=0.5), answer()
    one, other = answer(**apart), answer(qk_norm_epsilon=0.5, **dict.fromkeys(apart, 1e-6))
    is_key = "k_norm_epsilon" in apart
    np.testing.assert_array_equal(one["k"], (both if is_key else usual)["k"])
    np.testing.assert_array_equal(other["k"], (usual if is_key else both)["k"])
    assert all(np.abs(one["y"] - answers["y"]).max() > 1e-3 for answers in (both, usual, other))


def plain_attention(q, k, v, sees):
    """Returns softmax(q k^T / sqrt(size)) v of one head. `sees`[row, key] is false for masked keys."""
    scores = np.where(sees, q @ k.T / np.sqrt(q.shape[1]), -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True) @ v


def by_heads(q, k, v, sees):
    """Returns plain_attention of all heads as rows [tokens, heads * SIZE]. Several heads of q share a head of k and
    v."""
    heads, kv_heads = q.shape[1] // SIZE, k.shape[1] // SIZE
    part = lambda x, head: x[:, head * SIZE:(head + 1) * SIZE]
    return np.concatenate([plain_attention(part(q, h), part(k, h * kv_heads // heads), part(v, h * kv_heads // heads), sees)
                           for h in range(heads)], 1)


LENGTHS = [3, 1, 5]


def answers_of(op, inputs, attributes, outputs=("y",), constants=()):
    model, feed = model_of(op, inputs, list(outputs), attributes, constants)
    return [weft.compile(model, device=device).run(feed) for device in ("ref", "cpu")]


@pytest.mark.parametrize("layout", ["apart", "packed", "weights"])
def test_packed_attention(layout):
    """Compares with plain_attention, because onnxruntime has these operators on GPUs only."""
    tokens, most = sum(LENGTHS), max(LENGTHS) + 1
    ends = np.cumsum([0, *LENGTHS])
    places = np.concatenate([row * most + np.arange(length) for row, length in enumerate(LENGTHS)])
    spare = np.setdiff1d(np.arange(len(LENGTHS) * most), places)
    offsets = np.concatenate([places, spare]).astype(np.int32).reshape(len(LENGTHS), most)
    q, k, v = (floats(tokens, WIDTH) + i for i in range(3))
    bias = floats(3 * WIDTH)
    if layout == "weights":
        x, weights = floats(tokens, 24), floats(24, 3 * WIDTH) / 5
        q, k, v = np.split(x @ weights, 3, 1)
        op, inputs = "PackedAttention", [x, weights, bias, offsets, ends.astype(np.int32)]
    else:
        packed = np.stack([x.reshape(tokens, HEADS, SIZE) for x in (q, k, v)], 2)
        given = [q, k, v] if layout == "apart" else [packed, None, None]
        op, inputs = "PackedMultiHeadAttention", [*given, bias, offsets, ends.astype(np.int32)]
    q, k, v = (x + part for x, part in zip((q, k, v), np.split(bias, 3)))
    wanted = [by_heads(q[a:b], k[a:b], v[a:b], np.ones((b - a, b - a), bool)) for a, b in zip(ends, ends[1:])]
    for answers in answers_of(op, inputs, {"num_heads": HEADS}):
        np.testing.assert_allclose(answers["y"], np.concatenate(wanted), 1e-4, 1e-5)


@pytest.mark.parametrize("slots", [False, True])
@pytest.mark.parametrize("window", [-1, 4])
def test_paged_attention(slots, window):
    """Compares with plain_attention, because onnxruntime has this operator on GPUs only. The cache has blocks of 4
    tokens, and the blocks of a sequence may be anywhere in the cache."""
    past, block, blocks = [5, 0, 2], 4, 9
    table = np.array([[7, 2, -1], [4, 1, -1], [0, 3, -1]], np.int32)
    ends, tokens = np.cumsum([0, *LENGTHS]), sum(LENGTHS)
    q, k, v = floats(tokens, WIDTH), floats(tokens, KV_HEADS * SIZE), floats(tokens, KV_HEADS * SIZE) + 1
    caches = [floats(blocks, block, KV_HEADS, SIZE), floats(blocks, block, KV_HEADS, SIZE) - 1]
    after = [cache.copy().reshape(-1, KV_HEADS * SIZE) for cache in caches]
    slot = lambda row, at: table[row, at // block] * block + at % block
    chosen = np.array([slot(row, past[row] + i) for row, length in enumerate(LENGTHS) for i in range(length)], np.int32)
    after[0][chosen], after[1][chosen] = k, v
    wanted = []
    for row, length in enumerate(LENGTHS):
        held = [slot(row, at) for at in range(past[row] + length)]
        own, key = past[row] + np.arange(length)[:, None], np.arange(len(held))
        sees = (key <= own) & ((key > own - window) | (window < 0))
        wanted.append(by_heads(q[ends[row]:ends[row + 1]], after[0][held], after[1][held], sees))
    inputs = [q, k, v, *caches, ends.astype(np.int32), i32(*past), table]
    if slots:  # slot -1: the second token is not written, because the cache already holds its values
        for cache, fresh in zip(caches, (k, v)):
            cache.reshape(-1, KV_HEADS * SIZE)[chosen[1]] = fresh[1]
        chosen[1] = -1
        inputs += [None, None, chosen]
    attributes = {"num_heads": HEADS, "kv_num_heads": KV_HEADS, "local_window_size": window}
    for answers in answers_of("PagedAttention", inputs, attributes, ["y", "k", "v"]):
        np.testing.assert_allclose(answers["y"], np.concatenate(wanted), 1e-4, 1e-5)
        for name, cache in zip("kv", after):
            np.testing.assert_array_equal(answers[name].reshape(cache.shape), cache)


NAN = np.float32(np.nan)


def with_room(cache, used):
    """Returns the cache with NaN, as fresh memory may hold it, behind the `used` tokens of each sequence."""
    cache = cache.copy()
    cache[:, :, used:] = NAN
    return cache


@pytest.mark.parametrize("op, rows, more", [("GroupQueryAttention", 1, {}), ("GroupQueryAttention", 3, {}), ("GroupQueryAttention", 3, {"qk_output": 1}),
                                            ("DecoderMaskedMultiHeadAttention", 1, {}), ("DecoderMaskedMultiHeadAttention", 1, {"output_qk": 1})])
def test_room_behind_the_tokens_is_not_read(op, rows, more):
    past, words, outputs = 4, {"num_heads": HEADS} | more, ["y", "k", "v"] + ["qk"] * len(more)
    if op == "GroupQueryAttention":
        caches = [with_room(floats(1, KV_HEADS, 9, SIZE) + i, past) for i in range(2)]
        inputs = [floats(1, rows, WIDTH), floats(1, rows, KV_HEADS * SIZE), floats(1, rows, KV_HEADS * SIZE) + 1, *caches, i32(past + rows - 1), np.int32(past + rows)]
        words |= {"kv_num_heads": KV_HEADS}
    else:
        caches = [with_room(floats(BATCH, HEADS, 9, SIZE) + i, past) for i in range(2)]
        inputs = [*(floats(BATCH, rows, WIDTH) + i for i in range(3)), None, None, *caches, i32(past)]
        words |= {"past_present_share_buffer": 1}
    model, feed = model_of(op, inputs, outputs, words)
    wanted = onnxruntime.InferenceSession(model, QUIET, providers=["CPUExecutionProvider"]).run(None, feed)
    for device in "ref", "cpu":
        answers = weft.compile(model, device=device).run(feed)
        np.testing.assert_allclose(answers["y"], wanted[0], 1e-5, 1e-5)
        if more:
            np.testing.assert_allclose(answers["qk"][..., :past + rows], wanted[3][..., :past + rows], 1e-5, 1e-5)


def test_blocks_of_other_sequences_are_not_read():
    table, past = np.array([[2, -1], [1, 3]], np.int32), i32(5, 1)
    caches = [floats(5, 8, KV_HEADS, SIZE) + i for i in range(2)]
    q, k, v = floats(3, WIDTH), floats(3, KV_HEADS * SIZE), floats(3, KV_HEADS * SIZE) + 1
    answers = []
    for fill in (np.float32(0), NAN):
        for cache in caches:
            cache[[0, 3, 4]] = cache[2, 6:] = cache[1, 3:] = fill
        inputs = [q, k, v, *caches, i32(0, 1, 3), past, table]
        answers += answers_of("PagedAttention", inputs, {"num_heads": HEADS, "kv_num_heads": KV_HEADS}, ["y", "k", "v"])
    for other in answers[1:]:
        np.testing.assert_allclose(other["y"], answers[0]["y"], 1e-5, 1e-5)
