# SPDX-License-Identifier: Apache-2.0
"""The networks of gpu_control.py: as ONNX models for Weft, and as functions of PyTorch.

`NETWORKS[name](name, sizes, folder)` yields a `Case` for each size; `sizes` is FULL or TINY with the folder of silero-vad.
"""

import copy
import dataclasses
import warnings
from collections.abc import Callable
from pathlib import Path

import gpu
import numpy as np
import onnx
import torch
from gpu_peers import captured
from onnx import TensorProto, compose, helper, numpy_helper

TOKENS = {"f32": 0, "f16": 1}  # in f16 the share of different tokens is only reported
FULL = {"batches": (1, 4), "tokens": 64, "prompt": 32, "lengths": (37, 120, 300), "width": 256, "chunks": (100, 400),
        "gpt2": {"initializer_range": 0.1}, "whisper": {"init_std": 0.1}}
TINY = {"batches": (1, 2), "tokens": 12, "prompt": 6, "lengths": (3, 7), "width": 16, "chunks": (3,),
        "gpt2": {"initializer_range": 0.3, "n_layer": 2, "n_embd": 32, "n_head": 2, "vocab_size": 99, "eos_token_id": 98, "bos_token_id": 98},
        "whisper": {"init_std": 0.3, "d_model": 32, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2, "vocab_size": 99,
                    "decoder_attention_heads": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_source_positions": 20,
                    "pad_token_id": 98, "bos_token_id": 98, "eos_token_id": 98, "decoder_start_token_id": 97}}


def exported(network, inputs, path, names, results, **options):
    """Exports a module to ONNX, and returns the path."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(network.eval(), inputs, str(path), input_names=names, output_names=results, dynamo=False,
                          opset_version=18, **options)
    return path


class Place:
    """Where PyTorch runs, and in which precision."""

    def __init__(self, device, precision):
        self.device = "cpu" if device == "cpu" or not torch.cuda.is_available() else "cuda"
        self.type = torch.half if precision == "f16" and self.device == "cuda" else torch.float

    def __call__(self, x):
        """Returns a copy of a module, or a tensor of an array, in this place."""
        if isinstance(x, torch.nn.Module):
            return copy.deepcopy(x).to(self.device, self.type)
        x = torch.from_numpy(x).to(self.device)
        return x.to(self.type) if x.is_floating_point() else x

    def modes(self, module, *inputs):
        """Returns functions that prepare each mode of a module that needs no decisions of the host."""
        run = lambda: module(*inputs)
        return {"eager_ms": lambda: run} | self.on_gpu(graph_ms=lambda: captured(run), compile_graph_ms=lambda: captured(torch.compile(run)))

    def on_gpu(self, **modes):
        return modes if self.device == "cuda" else {}


def same_numbers(got, want):
    return {"error": max(gpu.distance(y, r) for y, r in zip(got, want))}


def same_tokens(got, want):
    """Compares texts without the padding at their ends."""
    got, want = (answer[0].reshape(len(answer[0]), -1) for answer in (got, want))
    room = min(got.shape[1], want.shape[1])
    differs = (got[:, :room] != want[:, :room]).any(0)
    return {"error": float((got[:, :room] != want[:, :room]).mean()), "tokens": got.shape[1],
            "first_difference": int(differs.argmax()) if differs.any() else room}


@dataclasses.dataclass
class Case:
    """A model with inputs. `modes(place)` returns functions that prepare PyTorch's modes; `judge(got, want)` returns a
    dict with `error`, which is at most `limits[precision]` for right answers."""

    sizes: dict
    path: Path
    feeds: dict
    modes: Callable
    judge: Callable = same_numbers
    limits: dict = dataclasses.field(default_factory=lambda: gpu.TOLERANCE)


# --- Detectors -------------------------------------------------------------------------------------------------------


class Detector(torch.nn.Module):
    """A detector for one picture [3, 320, 320]; returns boxes, scores and labels."""

    def __init__(self, core):
        super().__init__()
        self.core = core

    def forward(self, x):
        found = self.core([x])[0]
        return found["boxes"], found["scores"], found["labels"]


def boxes(got, want):
    """Compares detections: a box has a partner if one with the same label overlaps it to 95 %, with about the same
    score."""
    from torchvision.ops import box_iou

    got, want = ([torch.from_numpy(np.array(x)) for x in answer] for answer in (got, want))
    near = (box_iou(got[0].float(), want[0].float()) > 0.95) & (got[2][:, None] == want[2])
    near &= (got[1].float()[:, None] - want[1].float()).abs() < 0.02
    alone = (~near.any(0)).sum() + (~near.any(1)).sum()
    return {"error": alone.item() / max(len(got[0]) + len(want[0]), 1), "boxes": len(got[0])}


def detector(name, sizes, folder):
    from torchvision.models import detection

    function = {"ssdlite": "ssdlite320_mobilenet_v3_large", "fasterrcnn": "fasterrcnn_mobilenet_v3_large_320_fpn"}[name]
    core = getattr(detection, function)(weights=None, weights_backbone=None).eval()
    pictures = list(torch.rand(4, 3, 320, 320))
    # As in trained detectors, activations are normalised, and few boxes of a class have a score above the threshold.
    for part in core.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.momentum = None
            part.train()
    core(pictures)
    core.eval()
    heads = [part[-1] for part in core.head.classification_head.module_list] if name == "ssdlite" else [core.roi_heads.box_predictor.cls_score]
    for head in heads:
        spread = []
        hook = head.register_forward_hook(lambda _, __, y: spread.append(y.std()))
        core(pictures)
        hook.remove()
        head.weight *= 3 / spread[0]
        head.bias.view(-1, 91)[:, 0] += {"ssdlite": 18, "fasterrcnn": 8}[name]
    network = Detector(core)
    path = exported(network, (pictures[0],), Path(folder, f"{name}.onnx"), ["x"], ["boxes", "scores", "labels"])

    def modes(place):
        ready, x = place(network), place(pictures[0].numpy())

        def compiled():
            ready.core.backbone = torch.compile(ready.core.backbone, mode="reduce-overhead")
            return lambda: ready(x)

        return {"eager_ms": lambda: lambda: ready(x)} | place.on_gpu(compile_ms=compiled)

    yield Case({"batch": 1, "picture": 320}, path, {"x": pictures[0].numpy()}, modes, boxes, {"f32": 0, "f16": 0.2})


# --- silero-vad ------------------------------------------------------------------------------------------------------


class Silero(torch.nn.Module):
    """silero-vad at 16 kHz for one chunk of many streams, or for all chunks of one stream (`whole`)."""

    def __init__(self, weights, whole):
        super().__init__()
        self.whole = whole
        self.stft = torch.nn.Conv1d(1, 258, 256, 128, bias=False)
        sizes = (129, 128, 64, 64, 128)
        self.encoder = torch.nn.ModuleList(
            torch.nn.Conv1d(a, b, 3, stride, 1) for a, b, stride in zip(sizes, sizes[1:], (1, 2, 2, 1)))
        self.rnn = torch.nn.LSTM(128, 128) if whole else torch.nn.LSTMCell(128, 128)
        self.out = torch.nn.Linear(128, 1)
        for mine, theirs in zip(self.parameters(), weights.values(), strict=True):
            mine.copy_(theirs.view(mine.shape))

    def forward(self, x, state):
        x = self.stft(torch.nn.functional.pad(x, (0, 64), mode="reflect")[:, None])
        x = (x[:, :129] ** 2 + x[:, 129:] ** 2).sqrt()
        for layer in self.encoder:
            x = layer(x).relu()
        if self.whole:
            h, _ = self.rnn(x.transpose(1, 2), (state[:1], state[1:]))
            return self.out(h[:, 0].relu()).sigmoid()[:, 0]
        h, c = self.rnn(x[:, :, 0], tuple(state))
        return self.out(h.relu()).sigmoid(), torch.stack([h, c])


def silero(name, sizes, folder):
    package = torch.jit.load(sizes.silero / "silero_vad.jit")._model.eval()
    chunks = torch.from_numpy(np.random.default_rng(0).standard_normal((400, 576), np.float32)) * torch.rand(400, 1)
    one = Silero(package.state_dict(), False)
    state = torch.zeros(2, 32, 128)
    for mine, theirs in zip(one(chunks[:32], state), package(chunks[:32], state)):
        torch.testing.assert_close(mine, theirs)
    for batch in (1, 32):
        x, state = chunks[:batch].numpy(), np.random.default_rng(1).standard_normal((2, batch, 128), np.float32)
        feeds = {"input": x, "state": state, "sr": np.array(16000)}
        yield Case({"batch": batch, "chunks": 1}, sizes.silero / "silero_vad.onnx", feeds,
                   lambda place, x=x, state=state: place.modes(place(one), place(x), place(state)))
    whole, state = Silero(package.state_dict(), True), np.zeros((2, 1, 128), np.float32)
    for count in sizes.chunks:
        x = chunks[:count].numpy()
        feeds = {"input": x, "h": state[:1], "c": state[1:]}
        yield Case({"batch": 1, "chunks": count}, sizes.silero / "silero_vad_16k_sequence.onnx", feeds,
                   lambda place, x=x: place.modes(place(whole), place(x), place(state)))


# --- Whisper ---------------------------------------------------------------------------------------------------------


def attention(q, k, v, mask=None):
    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return y.transpose(1, 2).flatten(2)


class Start(torch.nn.Module):
    """Whisper's encoder, and the keys and values that each layer of the decoder reads from it."""

    def __init__(self, model):
        super().__init__()
        self.model, self.heads = model, model.config.decoder_attention_heads

    def forward(self, features):
        x = self.model.model.encoder(features).last_hidden_state
        parts = [part(x) for layer in self.model.model.decoder.layers
                 for part in (layer.encoder_attn.k_proj, layer.encoder_attn.v_proj)]
        return [part.unflatten(-1, (self.heads, -1)).transpose(1, 2).contiguous() for part in parts]


class Step(torch.nn.Module):
    """Whisper's decoder for one token, with caches of fixed length. `end` is the token that ends a text."""

    def __init__(self, model, end, in_place=False):
        super().__init__()
        self.model, self.heads, self.end, self.in_place = model, model.config.decoder_attention_heads, end, in_place

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def stored(self, cache, row, at, places):
        return cache.index_copy_(2, at[None], row) if self.in_place else torch.where((places == at)[:, None], row, cache)

    def forward(self, at, token, ended, *caches):
        decoder = self.model.model.decoder
        own, cross = caches[: len(caches) // 2], caches[len(caches) // 2 :]
        places = torch.arange(own[0].shape[2], device=at.device)
        x, new = decoder.embed_tokens(token) + torch.nn.functional.embedding(at, decoder.embed_positions.weight), []
        for i, layer in enumerate(decoder.layers):
            y, a = layer.self_attn_layer_norm(x), layer.self_attn
            k, v = (self.stored(cache, self.split(part(y)), at, places)
                    for cache, part in ((own[2 * i], a.k_proj), (own[2 * i + 1], a.v_proj)))
            new += [k, v]
            x = x + a.out_proj(attention(self.split(a.q_proj(y)), k, v, (places <= at)[None]))
            y, a = layer.encoder_attn_layer_norm(x), layer.encoder_attn
            x = x + a.out_proj(attention(self.split(a.q_proj(y)), *cross[2 * i : 2 * i + 2]))
            x = x + layer.fc2(layer.activation_fn(layer.fc1(layer.final_layer_norm(x))))
        following = self.model.proj_out(decoder.layer_norm(x)).argmax(-1)
        following = torch.where(ended[:, None], self.end, following)
        ended = ended | (following[:, 0] == self.end)
        return ended.logical_not().any(), following, ended, *new


def whisper_loop(model, step, features, room, batch, folder):
    """Writes a model with the encoder and a Loop that ends when all texts have ended or have `room` tokens."""
    config, info = model.config, helper.make_tensor_value_info
    count = 2 * config.decoder_layers
    cross = Start(model)(features)
    caches = [torch.zeros(*cross[0].shape[:2], room, cross[0].shape[3])] * count
    names = lambda name: [f"{name}_{i}" for i in range(count)]
    first = exported(Start(model), (features,), Path(folder, "start.onnx"), ["features"], names("step_cross"))
    token, ended = torch.full((batch, 1), config.decoder_start_token_id), torch.zeros(batch, dtype=torch.bool)
    body = exported(step, (torch.tensor(0), token, ended, *caches, *cross), Path(folder, "step.onnx"),
                    ["at", "token", "ended", *names("cache"), *names("cross")], ["more", "next", "done", *names("new")])
    first, body = onnx.load(first), compose.add_prefix(onnx.load(body), "step_").graph
    inputs, outputs = list(body.input), list(body.output)
    body.node.append(helper.make_node("Identity", ["step_next"], ["step_row"]))
    loop = helper.make_graph(
        body.node, "step", [inputs[0], info("step_more_in", TensorProto.BOOL, []), *inputs[1 : 3 + count]],
        [*outputs, info("step_row", TensorProto.INT64, [batch, 1])])
    values = {"room": np.array(room), "more": np.array(True), "token": token.numpy(), "ended": ended.numpy(), "empty": caches[0].numpy()}
    first.graph.initializer.extend([*body.initializer, *(numpy_helper.from_array(v, k) for k, v in values.items())])
    first.graph.initializer.append(numpy_helper.from_array(np.array([2]), "last"))
    first.graph.node.extend([
        helper.make_node("Loop", ["room", "more", "token", "ended", *["empty"] * count],
                         ["end_token", "end_ended", *names("end"), "rows"], body=loop),
        helper.make_node("Squeeze", ["rows", "last"], ["row"]),
        helper.make_node("Transpose", ["row"], ["tokens"], perm=[1, 0])])
    del first.graph.output[:]
    first.graph.output.append(info("tokens", TensorProto.INT64, [batch, None]))
    onnx.save(first, Path(folder, f"whisper{batch}.onnx"))
    return Path(folder, f"whisper{batch}.onnx")


class Decoding:
    """The same loop in PyTorch. `prepare` makes a function of the encoder or of a step."""

    def __init__(self, model, end, room, features, prepare):
        self.room, self.first = room, model.config.decoder_start_token_id
        self.start, self.step, self.features = Start(model), Step(model, end, True), features
        self.cross = self.start(features)
        self.caches = [torch.zeros(*k.shape[:2], room, k.shape[3], dtype=k.dtype, device=k.device) for k in self.cross]
        self.at = torch.zeros((), dtype=torch.long, device=features.device)
        self.token = self.at.new_zeros(len(features), 1)
        self.ended = self.token[:, 0] > 0
        self.encode, self.advance = prepare(self.start, self.encode), prepare(self.step, self.advance)

    def encode(self):
        for kept, fresh in zip(self.cross, self.start(self.features)):
            kept.copy_(fresh)
        self.token.fill_(self.first)
        self.ended.zero_()
        self.at.zero_()

    def advance(self):
        self.more, token, ended, *_ = self.step(self.at, self.token, self.ended, *self.caches, *self.cross)
        self.token.copy_(token)
        self.ended.copy_(ended)
        self.at += 1

    def __call__(self):
        self.encode()
        tokens = []
        for _ in range(self.room):
            self.advance()
            tokens.append(self.token.clone())
            if not self.more:
                break
        return torch.cat(tokens, 1)


def whisper(name, sizes, folder):
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    model = WhisperForConditionalGeneration(WhisperConfig(**sizes.whisper)).eval()
    for batch in sizes.batches:
        features = torch.randn(batch, 80, 2 * model.config.max_source_positions)
        plain = lambda part, run: run
        tokens = Decoding(model, -1, sizes.tokens, features, plain)()
        given = torch.cat([torch.full((batch, 1), model.config.decoder_start_token_id), tokens[:, :-1]], 1)
        assert torch.equal(model(input_features=features, decoder_input_ids=given).logits.argmax(-1), tokens)
        # The first text ends with the last of its tokens that is new in the last quarter.
        late = [t for i, t in enumerate(tokens[0].tolist()) if t not in tokens[0, :i].tolist()]
        end = late[-1]
        path = whisper_loop(model, Step(model, end), features, sizes.tokens, batch, folder)

        def modes(place, features=features.numpy(), end=end):
            make = lambda prepare: Decoding(place(model), end, sizes.tokens, place(features), prepare)

            def compiled(part, run):
                part.compile()
                run()
                return captured(run)

            return {"eager_ms": lambda: make(plain)} | place.on_gpu(
                graph_ms=lambda: make(lambda part, run: captured(run)), compile_graph_ms=lambda: make(compiled))

        yield Case({"batch": batch, "tokens": sizes.tokens}, path, {"features": features.numpy()}, modes, same_tokens, TOKENS)


# --- Beam search -----------------------------------------------------------------------------------------------------


class Decoder(torch.nn.Module):
    """GPT-2 with the inputs and outputs that BeamSearch asks for."""

    def __init__(self, model):
        super().__init__()
        self.model, self.heads = model, model.config.n_head

    def forward(self, ids, positions, mask, *pasts):
        core, new = self.model.transformer, []
        places = torch.arange(mask.shape[1])
        seen = (places <= places[-ids.shape[1] :, None]) & mask.bool()[:, None, None, :]
        x = core.wte(ids) + core.wpe(positions)
        for block, past in zip(core.h, pasts):
            fresh = block.attn.c_attn(block.ln_1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            new.append(torch.cat([past, fresh[1:]], 3))
            x = x + block.attn.c_proj(attention(fresh[0], new[-1][0], new[-1][1], seen))
            x = x + block.mlp(block.ln_2(x))
        return self.model.lm_head(core.ln_f(x)), *new


def beam_model(model, prompt, most, folder):
    """Writes a model of one node, BeamSearch of com.microsoft with 4 beams."""
    config, info = model.config, helper.make_tensor_value_info
    layers, size = config.n_layer, config.n_embd // config.n_head
    names = lambda name: [f"{name}_{i}" for i in range(layers)]
    one = torch.ones(2, 3, dtype=torch.int32)
    inputs = ["input_ids", "position_ids", "attention_mask", *names("past")]
    axes = {name: {0: "batch", 1: "length"} for name in inputs[:2]} | {"attention_mask": {0: "batch", 1: "total"}}
    axes |= {name: {1: "batch", 3: "past"} for name in names("past")}
    path = exported(Decoder(model), (one, one, torch.ones(2, 8, dtype=torch.int32), *[torch.zeros(2, 2, config.n_head, 5, size)] * layers),
                    Path(folder, "decoder.onnx"), inputs, ["logits", *names("present")], dynamic_axes=axes)
    graph = onnx.load(path).graph
    del graph.output[:]
    graph.output.append(info("logits", TensorProto.FLOAT, ["batch", "length", config.vocab_size]))
    graph.output.extend(info(name, TensorProto.FLOAT, [2, "batch", config.n_head, "total", size]) for name in names("present"))
    values = {"most": np.int32([most]), "least": np.int32([0]), "beams": np.int32([4]), "one": np.int32([1]),
              "penalty": np.float32([1]), "again": np.float32([1])}
    node = helper.make_node("BeamSearch", ["ids", *values], ["tokens"], domain="com.microsoft", decoder=graph,
                            eos_token_id=config.eos_token_id, pad_token_id=config.eos_token_id, model_type=0)
    whole = helper.make_graph([node], "beams", [info("ids", TensorProto.INT32, ["batch", prompt])],
                              [info("tokens", TensorProto.INT32, ["batch", 1, None])],
                              [numpy_helper.from_array(v, k) for k, v in values.items()])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(whole, opset_imports=opsets, ir_version=8), path)
    return path


def beams(name, sizes, folder):
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(**sizes.gpt2)).eval()
    path = beam_model(model, sizes.prompt, sizes.prompt + sizes.tokens, folder)
    for batch in sizes.batches:
        ids = np.random.default_rng(2).integers(0, model.config.vocab_size - 1, (batch, sizes.prompt))

        def modes(place, ids=ids):
            ready, x = place(model), place(ids)
            options = {"attention_mask": torch.ones_like(x), "num_beams": 4, "do_sample": False, "length_penalty": 1.0,
                       "max_new_tokens": sizes.tokens, "pad_token_id": model.config.eos_token_id}
            search = lambda **more: ready.generate(x, **options, **more)
            return {"eager_ms": lambda: search} | place.on_gpu(compile_ms=lambda: lambda: search(cache_implementation="static"))

        yield Case({"batch": batch, "prompt": sizes.prompt, "tokens": sizes.tokens, "beams": 4}, path,
                   {"ids": ids.astype(np.int32)}, modes, same_tokens, TOKENS)


# --- LSTM ------------------------------------------------------------------------------------------------------------


class Recurrent(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.rnn = torch.nn.LSTM(width, width, 2, bidirectional=True, batch_first=True)

    def forward(self, x):
        return self.rnn(x)[0]


def lstm(name, sizes, folder):
    network = Recurrent(sizes.width).eval()
    axes = {"x": {0: "batch", 1: "length"}}
    path = exported(network, (torch.randn(2, 5, sizes.width),), Path(folder, "lstm.onnx"), ["x"], ["y"], dynamic_axes=axes)
    for batch in sizes.batches:
        for length in sizes.lengths:
            x = np.random.default_rng(3).standard_normal((batch, length, sizes.width), np.float32)
            yield Case({"batch": batch, "length": length}, path, {"x": x},
                       lambda place, x=x: place.modes(place(network), place(x)))


NETWORKS = {"ssdlite": detector, "fasterrcnn": detector, "silero": silero, "whisper": whisper, "beams": beams, "lstm": lstm}
