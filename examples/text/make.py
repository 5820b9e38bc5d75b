# SPDX-License-Identifier: Apache-2.0
"""Trains a small language model and writes it to `text.onnx` beside this script.

  python examples/text/make.py          # needs torch, onnx, onnxruntime; about two minutes on one core

The training text is this project's own text: every Markdown page that git tracks, then the comments of every C++ file,
in order of path. One in twenty blocks of 256 bytes, chosen by a fixed seed, is not used in training; the model is
measured on these blocks.
"""

import math
import re
import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from torch import nn
from torch.nn import functional as F

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WIDTH, HEADS, INNER, LAYERS, CONTEXT = 96, 3, 240, 2, 256
NEAR = 3  # kernel size, in bytes, of the convolution before the layers
BLOCK, HELD_OUT = 256, 20
STEPS, BATCH, LEARNING_RATE = 1400, 8, 5e-3


def tracked(*patterns):
    out = subprocess.run(["git", "-C", ROOT, "ls-files", *patterns], capture_output=True, text=True, check=True).stdout
    return [ROOT / line for line in sorted(out.splitlines()) if not line.startswith("third_party/")]


def comments(source):
    """Returns the text of the comment lines of a C++ file, with a blank line between separate comments."""
    lines = [re.match(r"\s*//[/!]? ?(.*)", line) for line in source.splitlines()]
    text = "\n".join(line[1] if line else "" for line in lines if line is None or "SPDX" not in line[1])
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def corpus():
    """Returns the whole text as bytes, without the few characters beyond ASCII."""
    pages = [path.read_text() for path in tracked("*.md")]
    pages += [comments(path.read_text()) for path in tracked("*.h", "*.hpp", "*.cpp")]
    return "\n\n".join(page for page in pages if page).encode("ascii", "ignore")


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        q, k, v = (part.unflatten(2, (HEADS, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, 2))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.drop(self.out(seen.transpose(1, 2).flatten(2)))
        return x + self.drop(self.down(F.silu(self.up(self.norm2(x)))))


class Writer(nn.Module):
    """Maps bytes to the logits of the next byte at each position. GRAPH is the same network in ONNX's text form."""

    def __init__(self):
        super().__init__()
        self.byte, self.place = nn.Embedding(256, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.near = nn.Conv1d(WIDTH, WIDTH, NEAR)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        for table in (self.byte, self.place):
            nn.init.normal_(table.weight, std=0.05)

    def forward(self, bytes):
        x = self.byte(bytes) + self.place(torch.arange(bytes.shape[1]))
        x = x + F.silu(self.near(F.pad(x.transpose(1, 2), (NEAR - 1, 0))).transpose(1, 2))
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) @ self.byte.weight.T


GRAPH = """
<ir_version: 8, opset_import: ["" : 17], producer_name: "weft/examples/text/make.py">
text (int64[batch, seq] bytes) => (float[batch, seq, 256] logits) {{
  shape = Shape <start = 1, end = 2> (bytes)
  seq = Squeeze (shape)
  places = Range (zero, seq, one)
  row = Unsqueeze (places, axis1)
  later = Less (row, places)
  b = Gather (byte_weight, bytes)
  p = Gather (place_weight, places)
  e = Add (b, p)
  et = Transpose <perm = [0, 2, 1]> (e)
  [near] ct = Conv <pads = [{before}, 0]> (et, near_weight, near_bias)
  c = Transpose <perm = [0, 2, 1]> (ct)
  cg = Sigmoid (c)
  ch = Mul (c, cg)
  x0 = Add (e, ch)
  {layers}
  [norm] y = LayerNormalization (x{last}, norm_weight, norm_bias)
  back = Transpose <perm = [1, 0]> (byte_weight)
  [logits] logits = MatMul (y, back)
}}
"""

LAYER = """
  [norm1_{n}] a{n} = LayerNormalization (x{n}, layers_{n}_norm1_weight, layers_{n}_norm1_bias)
  [qkv_{n}] b{n} = MatMul (a{n}, layers_{n}_qkv_weight)
  q{n}, k{n}, v{n} = Split <axis = 2> (b{n})
  qh{n} = Reshape (q{n}, by_head)
  kh{n} = Reshape (k{n}, by_head)
  vh{n} = Reshape (v{n}, by_head)
  qt{n} = Transpose <perm = [0, 2, 1, 3]> (qh{n})
  kt{n} = Transpose <perm = [0, 2, 3, 1]> (kh{n})
  vt{n} = Transpose <perm = [0, 2, 1, 3]> (vh{n})
  [score_{n}] s{n} = MatMul (qt{n}, kt{n})
  t{n} = Mul (s{n}, score_scale)
  m{n} = Where (later, never, t{n})
  [softmax_{n}] w{n} = Softmax <axis = -1> (m{n})
  [attend_{n}] o{n} = MatMul (w{n}, vt{n})
  ot{n} = Transpose <perm = [0, 2, 1, 3]> (o{n})
  of{n} = Reshape (ot{n}, together)
  [out_{n}] pr{n} = MatMul (of{n}, layers_{n}_out_weight)
  r{n} = Add (x{n}, pr{n})
  [norm2_{n}] c{n} = LayerNormalization (r{n}, layers_{n}_norm2_weight, layers_{n}_norm2_bias)
  [up_{n}] u{n} = MatMul (c{n}, layers_{n}_up_weight)
  ub{n} = Add (u{n}, layers_{n}_up_bias)
  g{n} = Sigmoid (ub{n})
  h{n} = Mul (ub{n}, g{n})
  [down_{n}] d{n} = MatMul (h{n}, layers_{n}_down_weight)
  db{n} = Add (d{n}, layers_{n}_down_bias)
  x{next} = Add (r{n}, db{n})
"""

CONSTANTS = {
    "zero": np.int64(0),
    "one": np.int64(1),
    "axis1": np.array([1]),
    "by_head": np.array([0, 0, HEADS, WIDTH // HEADS]),
    "together": np.array([0, 0, WIDTH]),
    "score_scale": np.float32(1 / math.sqrt(WIDTH // HEADS)),
    "never": np.float32(-np.inf),
}


def to_onnx(net):
    layers = "".join(LAYER.format(n=n, next=n + 1) for n in range(LAYERS))
    model = onnx.parser.parse_model(GRAPH.format(layers=layers, last=LAYERS, before=NEAR - 1))
    for name, value in CONSTANTS.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value), name))
    for name, weight in net.state_dict().items():
        is_linear = weight.ndim == 2 and name.startswith("layers.")  # stored [out, in]; MatMul wants [in, out]
        value = np.ascontiguousarray(weight.numpy().T if is_linear else weight.numpy())
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name.replace(".", "_")))
    onnx.helper.set_model_props(model, {"text.encoding": "bytes", "text.context": str(CONTEXT)})
    onnx.checker.check_model(model, full_check=True)
    return model


def split(text):
    """Returns training bytes, and the held-out blocks as [count, BLOCK]."""
    blocks = text[: len(text) // BLOCK * BLOCK].reshape(-1, BLOCK)
    held_out = np.random.default_rng(0).permutation(len(blocks)) < len(blocks) // HELD_OUT
    return blocks[~held_out].ravel(), blocks[held_out]


def train(net, text):
    optimizer = torch.optim.AdamW(net.parameters(), weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=LEARNING_RATE, total_steps=STEPS, pct_start=0.1)
    data = torch.from_numpy(text.astype(np.int64))
    net.train()
    for step in range(STEPS):
        rows = torch.stack([data[at : at + CONTEXT + 1] for at in torch.randint(len(data) - CONTEXT, (BATCH,))])
        loss = F.cross_entropy(net(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            print(f"step {step} of {STEPS}: {loss.item() / math.log(2):.2f} bits a byte", flush=True)
    net.eval()


def bits(session, blocks):
    """Returns the mean cross entropy of the model in bits per byte, over all bytes but the first of each block."""
    logits = session.run(None, {"bytes": blocks[:, :-1].astype(np.int64)})[0].astype(np.float64)
    chance = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return -np.take_along_axis(chance, blocks[:, 1:, None].astype(np.int64), -1).mean() / math.log(2)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    text = np.frombuffer(corpus(), np.uint8)
    seen, held_out = split(text)
    net = Writer()
    train(net, seen)
    onnx.save(to_onnx(net), HERE / "text.onnx")
    session = onnxruntime.InferenceSession(HERE / "text.onnx")
    some = seen[: len(seen) // BLOCK * BLOCK].reshape(-1, BLOCK)[::HELD_OUT]
    print(
        f"{len(text)} bytes of text; bits a byte: {bits(session, some):.2f} seen, {bits(session, held_out):.2f} held out"
    )


if __name__ == "__main__":
    main()
