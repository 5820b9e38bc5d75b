# SPDX-License-Identifier: Apache-2.0
"""Writes the graphs without weights that are kept beside this script. Needs torch, torchvision, transformers,
onnxscript and onnxruntime; run it only to change a model (a minute each).

  python bench/models/export.py [NAME ...]

Each network of `networks.py` is exported with PyTorch's own exporter, as a user would do it. Then every weight above 1
KiB that a distribution describes is taken out: it becomes an input of the graph, and `NAME.json` names the distribution
from which `fill.py` makes it again.
"""

import json
import re
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch.utils.flop_counter import FlopCounterMode

import fill
from networks import NETWORKS

HERE = Path(__file__).resolve().parent
SMALL = 1024  # largest size in bytes of a weight that stays in the graph
SEED = 1

# TOKENS: the vocabulary of models with token ids as inputs. CASES: the sizes at which a model is checked.
TOKENS = {"bert_base": 30522, "gpt2_prefill": 50257, "gpt2_decode": 50257}
PLAIN = [{"batch": 1}, {"batch": 8}]
COUNTED = 2  # the first COUNTED cases of a model are timed and get `gflop`
CASES = {
    "bert_base": [
        {"batch": 1, "seq": 128},
        {"batch": 8, "seq": 128},
        {"batch": 2, "seq": 96},
        {"batch": 1, "seq": 1},
        {"batch": 3, "seq": 37},
        {"batch": 5, "seq": 511},
    ],
    "gpt2_prefill": [
        {"batch": 1, "seq": 128},
        {"batch": 8, "seq": 128},
        {"batch": 1, "seq": 1},
        {"batch": 3, "seq": 37},
        {"batch": 5, "seq": 511},
    ],
    "gpt2_decode": [
        {"batch": 1, "past": 128},
        {"batch": 8, "past": 128},
        {"batch": 1, "past": 1},
        {"batch": 3, "past": 37},
        {"batch": 5, "past": 511},
    ],
    "llama_2layer": [
        {"batch": 1, "seq": 128, "past": 0},
        {"batch": 8, "seq": 128, "past": 0},
        {"batch": 1, "seq": 1, "past": 128},
        {"batch": 8, "seq": 1, "past": 128},
        {"batch": 1, "seq": 1, "past": 0},
        {"batch": 3, "seq": 37, "past": 5},
        {"batch": 5, "seq": 511, "past": 0},
    ],
    "yolo_n": [
        {"batch": 1, "height": 640, "width": 640},
        {"batch": 8, "height": 640, "width": 640},
        {"batch": 1, "height": 416, "width": 672},
        {"batch": 3, "height": 96, "width": 160},
    ],
}


def enliven(module):
    """Adds noise to constant weights, because constant weights hide mistakes (a forgotten bias of zero, a swapped
    axis). The scale factors of batch normalisation stay constant: they are folded into convolutions, whose weights must
    remain multiples of the values that fill.py draws."""
    with torch.no_grad():
        for name, weight in module.named_parameters():
            factor = isinstance(module.get_submodule(name.rpartition(".")[0]), torch.nn.BatchNorm2d) and name.endswith(
                "weight"
            )
            if weight.numel() > 1 and weight.std() == 0 and not factor:
                weight += 0.1 * torch.randn_like(weight)


def draw_convolutions(module):
    """Gives each convolution the weights that `fill.py` will draw; returns {name: (weights, standard deviation)}."""
    drawn = {}
    with torch.no_grad():
        for name, part in module.named_modules():
            if isinstance(part, torch.nn.Conv2d):
                key, std = f"{name}.weight", float(part.weight.std())
                value = fill.draw({"normal": [0.0, std]}, part.weight.shape, np.float32, SEED, key)
                part.weight.copy_(torch.from_numpy(value))
                drawn[key] = value, std
    return drawn


def take_statistics(norm, arguments, _):
    """A forward hook that sets the statistics of batch normalisation from its input. It sets a mean for each channel
    but one variance for all channels, so that folding it multiplies all weights of the convolution by the same
    number."""
    x = arguments[0]
    norm.running_mean.copy_(x.mean((0, 2, 3)))
    norm.running_var.fill_(x.var((0, 2, 3), unbiased=False).mean())
    return torch.nn.functional.batch_norm(x, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps)


def settle(network):
    """Sets the statistics of batch normalisation from random data, so that activations stay near unit scale and answers
    differ. Without these statistics a deep random network gives nearly the same answer for every input."""
    norms = [part for part in network.module.modules() if isinstance(part, torch.nn.BatchNorm2d)]
    hooks = [norm.register_forward_hook(take_statistics) for norm in norms]
    with torch.no_grad():
        network.module.eval()(*(torch.randn(8, *value.shape[1:]) for value in network.inputs.values()))
    for hook in hooks:
        hook.remove()


def prepare(name):
    """Returns the network ready for export, and the convolution weights that draw_convolutions has set ({} if none)."""
    torch.manual_seed(SEED)
    network = NETWORKS[name]()
    enliven(network.module)
    drawn = {}
    if network.calibrate:
        drawn = draw_convolutions(network.module)
        settle(network)
    network.module.eval().requires_grad_(False)
    return network, drawn


def free_sizes(network):
    sizes = {}
    for symbol in {symbol for axes in network.free.values() for symbol in axes.values()}:
        factor = network.multiple_of.get(symbol, 1)
        sizes[symbol] = torch.export.Dim(symbol) if factor == 1 else factor * torch.export.Dim(f"{symbol}_units")
    free = tuple({axis: sizes[symbol] for axis, symbol in network.free.get(key, {}).items()} for key in network.inputs)
    return (free,) if type(network.module).__name__ == "Only" else free  # Only.forward takes *values


def export(network):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            network.module,
            tuple(network.inputs.values()),
            None,
            input_names=list(network.inputs),
            output_names=network.outputs,
            dynamic_shapes=free_sizes(network),
            dynamo=True,
            opset_version=18,
            verbose=False,
        )
    return program.model_proto


def plain_symbols(text):
    """Gives sizes plain names: '32*height_units' becomes `height`, which must be a multiple of 32."""
    return re.sub(r"\d+\*(\w+)_units", r"\1", text)


def tidy(model):
    """Removes the exporter's notes about Python source lines, and the types of intermediate values; gives sizes plain
    names."""
    graph = model.graph
    for part in [model, graph, *graph.node, *graph.input, *graph.output, *graph.initializer]:
        del part.metadata_props[:]
        part.doc_string = ""
    del graph.value_info[:]
    for value in [*graph.input, *graph.output]:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = plain_symbols(dim.dim_param)


def distribution(name, value):
    """Returns the entry of a recipe that describes a weight, or None if the weight's values must be kept."""
    flat = value.ravel()
    if (flat == flat[0]).all():
        return {"constant": flat[0].item()}
    if flat.size > 1 and np.array_equal(flat, flat[0] + (flat[1] - flat[0]) * np.arange(flat.size)):
        return {"count": [flat[0].item(), (flat[1] - flat[0]).item()]}
    if value.dtype != np.float32:
        return None
    mean, std = flat.mean(dtype=np.float64), flat.std(dtype=np.float64)
    spread = (flat.max() - flat.min()) / std
    if spread < 3.47 and flat.size > 1000:  # the width of a uniform distribution is sqrt(12) = 3.46 standard deviations
        return {"uniform": [float(f"{flat.min():.4g}"), float(f"{flat.max():.4g}")]}
    return {"normal": [float(f"{mean:.4g}"), float(f"{std:.4g}")]}


def describe_with(drawn):
    """Returns a function that describes a weight as `distribution` does, with two exceptions. Weights set by
    draw_convolutions are described by their recipe, and biases that come from batch normalisation are kept."""

    def describe(name, value):
        if name.endswith("weight_bias"):
            return None
        if name not in drawn:
            return distribution(name, value)
        before, std = drawn[name]
        factor = np.vdot(value, before) / np.vdot(before, before)
        if not np.allclose(value, before * factor, rtol=1e-5, atol=0):
            raise SystemExit(f"{name} is not a multiple of the drawn values")
        return {"normal": [0.0, float(std * factor)]}

    return describe


def strip(model, describe):
    """Turns large weights into inputs; returns their recipe. Weights without a description stay."""
    recipe, kept = {}, []
    for weight in model.graph.initializer:
        value = numpy_helper.to_array(weight)
        how = describe(weight.name, value) if value.nbytes > SMALL else None
        if how is None:
            kept.append(weight)
            if value.nbytes > SMALL:
                print(f"  {weight.name} {value.dtype}{list(value.shape)} stays in the graph")
            continue
        recipe[weight.name] = how
        model.graph.input.append(onnx.helper.make_tensor_value_info(weight.name, weight.data_type, value.shape))
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    return recipe


def draw_inputs(name, network):
    how = {}
    for key in network.inputs:
        if key == "input_ids":
            how[key] = {"integers": [0, TOKENS[name]]}
        elif key == "token_type_ids":
            how[key] = {"integers": [0, 2]}
        elif key == "attention_mask":
            how[key] = {"prefix": 0.9}
        else:
            how[key] = {"normal": [0.0, 1.0]}
    return how


def gflop(network, sizes):
    """Returns the multiplications and additions of the matrix products and convolutions of one run, in units of 1e9.
    Decomposes fused attention first, because the counter skips it."""
    inputs = []
    for key, value in network.inputs.items():
        dims = list(value.shape)
        for axis, symbol in network.free.get(key, {}).items():
            dims[axis] = sizes[symbol]
        inputs.append(torch.ones(dims, dtype=value.dtype))
    torch.backends.mha.set_fastpath_enabled(False)
    counter = FlopCounterMode(display=False)
    plain = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)
    with torch.no_grad(), plain, counter:
        network.module(*inputs)
    return counter.get_total_flops() / 1e9


def save(name, model, network, recipe):
    cases = CASES.get(name, PLAIN)
    cases = [{**sizes, "gflop": round(gflop(network, sizes), 3)} for sizes in cases[:COUNTED]] + cases[COUNTED:]
    text = {"seed": SEED, "multiple_of": network.multiple_of, "inputs": draw_inputs(name, network), "cases": cases}
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in text.items()]
    weights = [f"    {json.dumps(key)}: {json.dumps(value)}" for key, value in recipe.items()]
    lines.append('  "weights": {\n' + ",\n".join(weights) + "\n  }")
    (HERE / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    onnx.save(model, HERE / f"{name}.onnx")
    print(f"{name}: {len(model.graph.node)} nodes, {(HERE / f'{name}.onnx').stat().st_size / 1e3:.0f} kB, {cases[0]}")


def export_network(name):
    network, drawn = prepare(name)
    model = export(network)
    tidy(model)
    recipe = strip(model, describe_with(drawn))
    save(name, model, network, recipe)


def quantize(name, source):
    """Quantises the model `source` to 8 bits, with QuantizeLinear and DequantizeLinear. The recipe derives weights and
    biases from those of `source`; the calibrated scales stay in the graph."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Pictures(CalibrationDataReader):
        def __init__(self):
            generator = np.random.default_rng(3)
            self.left = [{"image": generator.standard_normal((2, 3, 224, 224), dtype=np.float32)} for _ in range(4)]

        def get_next(self):
            return self.left.pop() if self.left else None

    with tempfile.TemporaryDirectory() as folder:
        prepared, result = f"{folder}/prepared.onnx", f"{folder}/quantized.onnx"
        quant_pre_process(str(fill.cached(source)), prepared, skip_symbolic_shape=True)
        quantize_static(
            prepared,
            result,
            Pictures(),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
        )
        model = onnx.load(result)
    tidy(model)
    weights = {weight.name for weight in fill.filled(source).graph.initializer}
    scales = {node.input[0]: node.input[1] for node in model.graph.node if node.op_type == "DequantizeLinear"}

    def describe(key, value):
        origin = key.removesuffix("_quantized")
        if origin != key and origin in weights:
            return {"quantized": {"model": source, "weight": origin, "scale": scales[key]}}
        return None if value.dtype == np.float32 else distribution(key, value)

    truth = {weight.name: numpy_helper.to_array(weight) for weight in model.graph.initializer}
    recipe = strip(model, describe)
    save(name, model, prepare(source)[0], recipe)
    fill.recipe.cache_clear()
    for weight in fill.filled(name).graph.initializer:
        value = numpy_helper.to_array(weight)
        worst = np.abs(value - truth[weight.name].astype(np.float64)).max(initial=0)
        if worst > (1 if value.dtype == np.int32 else 0):  # a 32-bit bias may be off by one from rounding its scale
            raise SystemExit(f"{name}: {weight.name} differs by {worst} from what the quantiser wrote")


QUANTIZED = {"resnet50_qdq": "resnet50"}


def main():
    for name in sys.argv[1:] or [*NETWORKS, *QUANTIZED]:
        if name in QUANTIZED:
            quantize(name, QUANTIZED[name])
        else:
            export_network(name)


if __name__ == "__main__":
    main()
