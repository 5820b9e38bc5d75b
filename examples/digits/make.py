# SPDX-License-Identifier: Apache-2.0
"""Trains a network that recognises digits, and writes all other files of this folder except README.md.

  python examples/digits/make.py        # needs torch, onnx, onnxruntime, scikit-learn, pillow; under a minute, one core

The data are the 1,797 handwritten digits of 8x8 pixels that ship inside scikit-learn. A quarter of them, chosen by a
fixed seed, is not used in training: it gives the accuracy and the sample pictures.
"""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

HERE = Path(__file__).parent
NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
ENLARGE = 8  # factor of the sample pictures' height and width; every eighth pixel gives the original picture
PIXEL_SCALE = 1 / 255


def pixels():
    """Returns all pictures, u8 [1797, 8, 8], and their digits. The 17 grey levels of the source become 0 to 255, as in
    a PNG."""
    data = load_digits()
    return np.rint(data.images * (255 / 16)).astype(np.uint8), data.target


def to_input(images):
    """Converts pictures to the network's input: f32 [batch, 1, 8, 8] from 0 (paper) to 1 (ink)."""
    return images[:, None].astype(np.float32) * np.float32(PIXEL_SCALE)


class Network(nn.Module):
    """Three convolutions, two poolings that halve the picture, two matrix products. GRAPH is the same network in ONNX's
    text form, with a softmax at the end."""

    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.conv2, self.norm2 = nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32)
        self.conv3, self.norm3 = nn.Conv2d(32, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32)
        self.hidden, self.drop, self.digit = nn.Linear(128, 64), nn.Dropout(0.2), nn.Linear(64, 10)

    def forward(self, x):
        x = torch.relu(self.norm1(self.conv1(x)))
        x = torch.max_pool2d(torch.relu(self.norm2(self.conv2(x))), 2)
        x = torch.max_pool2d(torch.relu(self.norm3(self.conv3(x))), 2)
        return self.digit(self.drop(torch.relu(self.hidden(x.flatten(1)))))


GRAPH = """
<ir_version: 8, opset_import: ["" : 17], producer_name: "weft/examples/digits/make.py">
digits (float[batch, 1, 8, 8] image) => (float[batch, 10] probability) {
  [conv1] c1 = Conv <pads = [1, 1, 1, 1]> (image, conv1_weight)
  [norm1] n1 = BatchNormalization (c1, norm1_weight, norm1_bias, norm1_running_mean, norm1_running_var)
  [relu1] r1 = Relu (n1)
  [conv2] c2 = Conv <pads = [1, 1, 1, 1]> (r1, conv2_weight)
  [norm2] n2 = BatchNormalization (c2, norm2_weight, norm2_bias, norm2_running_mean, norm2_running_var)
  [relu2] r2 = Relu (n2)
  [pool2] p2 = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r2)
  [conv3] c3 = Conv <pads = [1, 1, 1, 1]> (p2, conv3_weight)
  [norm3] n3 = BatchNormalization (c3, norm3_weight, norm3_bias, norm3_running_mean, norm3_running_var)
  [relu3] r3 = Relu (n3)
  [pool3] p3 = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r3)
  [flatten] f = Flatten (p3)
  [hidden] h = Gemm <transB = 1> (f, hidden_weight, hidden_bias)
  [relu4] r4 = Relu (h)
  [digit] d = Gemm <transB = 1> (r4, digit_weight, digit_bias)
  [softmax] probability = Softmax <axis = 1> (d)
}
"""


def shifted(x):
    """Shifts all pictures of a batch by the same random step, at most one pixel along each axis, so that the network
    depends less on the position of a digit."""
    down, right = np.random.randint(-1, 2, 2)
    return torch.roll(x, (int(down), int(right)), (2, 3))


def train(net, x, y, epochs=60, batch=64):
    steps = epochs * (len(x) // batch)
    optimizer = torch.optim.AdamW(net.parameters(), weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-3, total_steps=steps)
    net.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(batch)[: len(x) // batch]:
            loss = nn.functional.cross_entropy(net(shifted(x[rows])), y[rows], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    net.eval()


def to_onnx(net):
    """Returns GRAPH with the trained weights, and with metadata: how to convert a picture to the input, and the names
    of the classes."""
    model = onnx.parser.parse_model(GRAPH)
    for name, weight in net.state_dict().items():
        if not name.endswith("num_batches_tracked"):
            model.graph.initializer.append(onnx.numpy_helper.from_array(weight.numpy(), name.replace(".", "_")))
    onnx.helper.set_model_props(
        model,
        {
            "labels": json.dumps(NAMES),
            "image.layout": "NCHW",
            "image.mean": "0",
            "image.scale": repr(PIXEL_SCALE),
        },
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def typical(images):
    """Returns the picture that is nearest to the mean of the pictures."""
    values = images.astype(np.float32)
    return images[np.square(values - values.mean(0)).sum((1, 2)).argmin()]


def write_samples(images, digits):
    """Writes an enlarged picture of every digit, and all ten digits as one input of the network."""
    chosen = [typical(images[digits == digit]) for digit in range(10)]
    for name, image in zip(NAMES, chosen):
        large = np.kron(image, np.ones((ENLARGE, ENLARGE), np.uint8))
        Image.fromarray(large).save(HERE / f"{name}.png", optimize=True)
    np.save(HERE / "ten.npy", to_input(np.stack(chosen)))


def main():
    torch.manual_seed(0)
    np.random.seed(0)
    torch.set_num_threads(1)
    images, digits = pixels()
    seen, held_out, seen_digit, held_out_digit = train_test_split(
        images, digits, test_size=0.25, random_state=0, stratify=digits
    )
    net = Network()
    train(net, torch.from_numpy(to_input(seen)), torch.from_numpy(seen_digit))
    onnx.save(to_onnx(net), HERE / "digits.onnx")
    write_samples(held_out, held_out_digit)
    (HERE / "labels.txt").write_text("\n".join(NAMES) + "\n")
    session = onnxruntime.InferenceSession(HERE / "digits.onnx")
    guess = session.run(None, {"image": to_input(held_out)})[0].argmax(1)
    right = int((guess == held_out_digit).sum())
    print(f"{right} of {len(guess)} held-out digits right ({100 * right / len(guess):.1f} %)")


if __name__ == "__main__":
    main()
