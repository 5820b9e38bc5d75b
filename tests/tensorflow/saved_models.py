# SPDX-License-Identifier: Apache-2.0
"""Runs with the Python that has TensorFlow: writes SavedModels in the forms of TensorFlow 1 and 2, with the
control flow of each, and TensorFlow's answers. saved_models.py FOLDER"""
import os
import sys
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

v1, layers = tf.compat.v1, tf.keras.layers
rng = np.random.default_rng(7)
FOLDER = Path(sys.argv[1])


def floats(*shape):
    return rng.uniform(-1, 1, shape).astype(np.float32)


def keep(name, runs):
    """Writes the expected answers, NAME.npz. `runs`: pairs of inputs and outputs by name."""
    kept = {}
    for number, (inputs, outputs) in enumerate(runs):
        kept |= {f"{number} in {key}": value for key, value in inputs.items()}
        kept |= {f"{number} out {key}": np.asarray(value) for key, value in outputs.items()}
    np.savez(FOLDER / f"{name}.npz", **kept)


def answers(function, runs):
    return [(run, {k: v.numpy() for k, v in function(**{k: tf.constant(v) for k, v in run.items()}).items()}) for run in runs]


def spread(model):
    """Makes all weights different, so that swapped gates or layers are detected."""
    for variable in model.variables:
        low = 0.5 if variable.path.endswith(("gamma", "variance")) else -0.4
        variable.assign(rng.uniform(low, low + 1, variable.shape).astype(np.float32))
    return model


def keep_keras(name, model, *shapes):
    """Writes a Keras model with Keras's own export; the input is called x."""
    spread(model)
    spec = tf.TensorSpec(model.inputs[0].shape, model.inputs[0].dtype, "x")
    function = tf.function(lambda x: {"y": model(x, training=False)}, input_signature=[spec])
    tf.saved_model.save(model, FOLDER / name, signatures={"serving_default": function})
    keep(name, answers(function, [{"x": floats(*shape)} for shape in shapes]))


def network():
    x = layers.Input((12, 10, 3))
    y = layers.BatchNormalization()(layers.Conv2D(7, 3, 2, "same")(x))
    y = layers.Dense(5)(layers.GlobalAveragePooling2D()(layers.DepthwiseConv2D(3)(layers.ReLU(6.0)(y))))
    return tf.keras.Model(x, y)


def recurrent(kind):
    x = layers.Input((None, 6))
    if kind == "masked":
        y = layers.LSTM(5)(layers.Masking(0.0)(x))
    elif kind == "both_ways":
        y = layers.Bidirectional(layers.GRU(4, return_sequences=True))(x)
    else:
        y = getattr(layers, kind)(5, return_sequences=True)(x)
        y = getattr(layers, kind)(3, go_backwards=True, **({"reset_after": False} if kind == "GRU" else {}))(y)
    return tf.keras.Model(x, y)


class Apart(tf.train.experimental.ShardingCallback):
    """Stores each variable in a file of its own."""
    description = "apart"

    def __call__(self, shardable_tensors):
        return [{tensor.checkpoint_key: {tensor.slice_spec: tensor.tensor}} for tensor in shardable_tensors]


class Several(tf.Module):
    """A model with four signatures, two of which write variables. The variables have types of several sizes, so that
    some are unaligned in the file."""

    def __init__(self):
        self.bytes = tf.Variable(np.int8([1, -2, 3]))
        self.weight = tf.Variable(floats(3, 4))
        self.wide = tf.Variable(np.float64([0.25]))
        self.flag = tf.Variable(True)
        self.bias = tf.Variable(floats(4))
        self.total = tf.Variable(np.float32(0.5), name="total")

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32)])
    def affine(self, x):
        y = tf.matmul(x * tf.cast(self.bytes, tf.float32), self.weight) + self.bias
        r, handle, row = tf.raw_ops, self.weight.handle, tf.range(tf.shape(x)[0]) % 3
        y += tf.cast(r.VarIsInitializedOp(resource=handle), tf.float32)
        y += r.ResourceGatherNd(resource=handle, indices=tf.stack([row, row], 1), dtype=tf.float32)[:, tf.newaxis]
        y += r.ResourceGather(resource=handle, indices=[[0, 3], [1, 1], [2, 0]], batch_dims=1, dtype=tf.float32)[0, 1]
        return {"y": tf.where(self.flag, y, 0.0) + tf.cast(self.wide, tf.float32), "size": tf.shape(x)[0], "rows": tf.gather(self.weight, tf.range(tf.shape(x)[0]) % 3)}

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
    def add(self, x):
        before = self.total * 2.0
        self.total.assign_add(x)
        middle = self.total * 3.0
        self.total.assign_sub(x * 0.25)
        return {"before": before, "middle": middle, "after": self.total + 0.0}

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32)])
    def pick(self, k):
        """Runs branches and loops that read variables."""
        y = tf.switch_case(k, [lambda: self.weight + 1.0, lambda: -self.weight])
        while tf.reduce_sum(y) < 50.0:
            y += tf.abs(self.weight) + 0.1
        return {"y": tf.cond(k > 2, lambda: y - self.bias, lambda: y + self.bias)}

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
    def write(self, x):
        """Runs branches and loops that write variables: in one branch only, nested, and a variable that the loop's
        condition reads."""

        def grow():
            self.total.assign_add(x)
            return self.total * 2.0

        y = tf.cond(x > 0.0, grow, lambda: x)
        while self.total < 20.0:
            self.total.assign(self.total * 1.5 + tf.abs(x))
            if self.total > 10.0:
                self.bias.assign_add(tf.fill([4], x) * self.weight[0])
            y += tf.reduce_sum(self.bias)
        tf.switch_case(tf.cast(x, tf.int32), [lambda: self.total.assign(x), lambda: self.total.assign_sub(1.5), lambda: self.bias.assign(self.bias * 0.5)])
        return {"y": y, "total_now": self.total + 0.0, "bias_now": self.bias * 1.0}


def several():
    for name, policy in {"several": None, "shards": Apart()}.items():
        model = Several()
        options = tf.saved_model.SaveOptions(experimental_sharding_callback=policy)
        tf.saved_model.save(model, FOLDER / name, signatures={"affine": model.affine, "add": model.add, "pick": model.pick, "write": model.write}, options=options)
        keep(f"{name}-pick", answers(model.pick, [{"k": np.int32(k)} for k in (0, 1, 3)]))
        keep(f"{name}-affine", answers(model.affine, [{"x": floats(2, 3)}, {"x": floats(5, 3)}]))
        first = model.total.numpy()
        keep(f"{name}-add", answers(model.add, [{"x": np.float32(v)} for v in (1, 2.5, -4)]))
        model.total.assign(first)
        keep(f"{name}-write", answers(model.write, [{"x": np.float32(v)} for v in (1, 2.5, -4, 0.5, 1.75)]))


class Flow(tf.Module):
    """Control flow and lists of tensors as TensorFlow 2 writes them."""

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32), tf.TensorSpec([], tf.int32)])
    def choose(self, x, k):
        return {"y": tf.switch_case(k, [lambda: tf.sin(x), lambda: x * 2.0, lambda: x - 1.0])}

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32)])
    def lists(self, x):
        mapped = tf.map_fn(lambda row: tf.cumsum(row) * tf.reduce_max(row), x)
        grown = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[3])
        for i in tf.range(tf.shape(x)[0] + 1):
            grown = grown.write(i, x[0] * tf.cast(i, tf.float32))
        return {"mapped": mapped, "summed": tf.scan(lambda a, row: a * 0.5 + row, x), "grown": grown.stack()}

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32)])
    def raw(self, x):
        """Calls list operators directly."""
        r, kind = tf.raw_ops, {"element_shape": [3], "element_dtype": tf.float32}
        a = r.EmptyTensorList(**kind | {"element_shape": -1}, max_num_elements=-1)
        for factor in (1.0, 2.0, 3.0):
            a = r.TensorListPushBack(input_handle=a, tensor=x[0] * factor)
        a, last = r.TensorListPopBack(input_handle=a, **kind)
        b = r.TensorListFromTensor(tensor=x, element_shape=[3])
        b = r.TensorListScatterIntoExistingList(input_handle=b, tensor=x[:1] * 5.0, indices=[0])
        b = r.TensorListResize(input_handle=b, size=tf.shape(x)[0] + 2)
        joined, lengths = r.TensorListConcatV2(input_handle=b, leading_dims=tf.constant([], tf.int64), **kind)
        return {"last": last, "joined": joined, "lengths": lengths, "length": r.TensorListLength(input_handle=a),
                "two": r.TensorListGather(input_handle=b, indices=[1, 0], **kind),
                "shape": r.TensorListElementShape(input_handle=b, shape_type=tf.int32)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def nested(self, x):
        total = tf.zeros([])
        for i in tf.range(tf.size(x)):
            j = 0
            while tf.cast(j, tf.float32) < x[i]:
                total += x[i] if total < 20.0 else -1.0
                j += 1
        return {"total": total}


def flow():
    model = Flow()
    names = {"choose": [{"x": floats(2, 3), "k": np.int32(k)} for k in (0, 1, 2, 7, -1)],
             "lists": [{"x": floats(4, 3)}, {"x": floats(1, 3)}],
             "raw": [{"x": floats(2, 3)}, {"x": floats(5, 3)}],
             "nested": [{"x": np.float32([1, 3, 2])}, {"x": np.float32([9, 0, 4, 1])}]}
    tf.saved_model.save(model, FOLDER / "flow", signatures={name: getattr(model, name) for name in names})
    for name, runs in names.items():
        keep(f"flow-{name}", answers(getattr(model, name), runs))
        if name == "choose":
            continue  # lowering to TensorFlow 1 writes a special form of Case
        frozen = convert_variables_to_constants_v2(getattr(model, name).get_concrete_function(), lower_control_flow=True)
        (FOLDER / f"lowered-{name}.pb").write_bytes(frozen.graph.as_graph_def().SerializeToString())
        outputs = [[o.numpy() for o in frozen(**{k: tf.constant(v) for k, v in run.items()})] for run in runs]
        keep(f"lowered-{name}", [(run, dict(zip([t.op.name for t in frozen.outputs], found))) for run, found in zip(runs, outputs)])


class Tables(tf.Module):
    """Tables whose keys are numbers and strings."""

    def __init__(self):
        super().__init__()
        fill = tf.lookup.KeyValueTensorInitializer
        self.prices = tf.lookup.StaticHashTable(fill(np.int64([3, 1, 7]), np.float32([0.5, 2, -1])), 9.0)
        self.words = tf.lookup.StaticHashTable(fill(tf.constant(["a", "bb", "a c"]), np.int64([4, 5, 6])), -1)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, "i")])
    def look(self, i):
        word = tf.gather(tf.constant(["bb", "zz", "a c", "a"]), i % 4)
        return {"price": self.prices.lookup(i), "word": self.words.lookup(word), "count": self.words.size() + self.prices.size()}


def tables():
    model = Tables()
    tf.saved_model.save(model, FOLDER / "tables", signatures={"look": model.look})
    keep("tables", answers(model.look, [{"i": np.int64([3, 4, 1, 7, 0])}, {"i": np.int64([])}]))


def first_version():
    """Writes a graph for each of two sets of tags, with variables, branches, loops and arrays of TensorFlow 1."""
    v1.disable_control_flow_v2()
    builder = v1.saved_model.Builder(str(FOLDER / "first"))
    for number, tags in enumerate([["serve"], ["serve", "gpu"]]):
        with tf.Graph().as_default(), v1.Session() as session:
            v1.disable_resource_variables()
            x = v1.placeholder(tf.float32, [None, 3], "x")
            training = v1.placeholder_with_default(False, [], "training")
            w = v1.get_variable("w", initializer=floats(3, 3) + number)
            v1.enable_resource_variables()
            b = v1.get_variable("b", initializer=floats(3))
            y = tf.matmul(x, w) + b
            y = v1.cond(training, lambda: y * 0.0, lambda: y)
            y = v1.cond(tf.reduce_sum(y) > 0, lambda: v1.cond(y[0, 0] > 0, lambda: y + 1.0, lambda: y * w[0]), lambda: y - b)
            count, z = v1.while_loop(lambda i, v: tf.logical_and(i < 7, tf.reduce_sum(tf.abs(v)) < 100.0),
                                     lambda i, v: (i + 1, v1.cond(v[0, 0] > 0, lambda: v * 1.5 + b, lambda: tf.matmul(v, w))), [0, y])
            rows = v1.scan(lambda a, row: tf.tanh(a + row), x)
            handle, written = tf.raw_ops.TensorArrayV3(size=tf.shape(x)[0] + 1, dtype=tf.float32)
            written = tf.raw_ops.TensorArrayScatterV3(handle=handle, indices=tf.range(tf.shape(x)[0]), value=x, flow_in=written)
            size = tf.raw_ops.TensorArraySizeV3(handle=handle, flow_in=written)
            session.run(v1.global_variables_initializer())
            results = {"z": z, "count": count, "rows": rows, "size": size}
            ports = [{k: v1.saved_model.build_tensor_info(v) for k, v in part.items()} for part in ({"x": x}, results)]
            signature = v1.saved_model.build_signature_def(*ports, "predict")
            if number == 0:
                builder.add_meta_graph_and_variables(session, tags, {"serving_default": signature})
                runs = [{"x": floats(2, 3)}, {"x": -np.abs(floats(4, 3))}, {"x": np.abs(floats(3, 3))}]
                keep("first", [(run, session.run(results, {x: run["x"]})) for run in runs])
            else:
                builder.add_meta_graph(tags, {"serving_default": v1.saved_model.build_signature_def(ports[0], {"y": v1.saved_model.build_tensor_info(x * 2.0)}, "predict")})
    builder.save()
    v1.enable_control_flow_v2()


def partitioned():
    """Makes variables of TensorFlow 1 that are saved in parts. One graph has the parts as variables, the other the
    whole variable."""
    builder = v1.saved_model.Builder(str(FOLDER / "parts"))
    for tags in (["serve"], ["serve", "whole"]):
        with tf.Graph().as_default(), v1.Session() as session:
            def table(name, shape, parts, axis):
                partitioner = v1.fixed_size_partitioner(parts, axis) if len(tags) == 1 else None
                return tf.convert_to_tensor(v1.get_variable(name, shape, initializer=v1.random_uniform_initializer(-1, 1, 3), partitioner=partitioner))

            x = v1.placeholder(tf.float32, [None, 7], "x")
            y = tf.matmul(tf.matmul(x, table("rows", [7, 4], 3, 0)), table("columns", [4, 150], 2, 1)) + table("bias", [150], 2, 0)
            ports = [{k: v1.saved_model.build_tensor_info(v)} for k, v in (("x", x), ("y", y))]
            signatures = {"serving_default": v1.saved_model.build_signature_def(*ports, "predict")}
            if len(tags) == 1:
                session.run(v1.global_variables_initializer())
                builder.add_meta_graph_and_variables(session, tags, signatures)
                keep("parts", [({"x": v}, {"y": session.run(y, {x: v})}) for v in (floats(2, 7), floats(1, 7))])
            else:
                builder.add_meta_graph(tags, signatures)
    builder.save()


def main():
    keep_keras("network", network(), (2, 12, 10, 3), (1, 12, 10, 3))
    for kind in ("LSTM", "GRU", "SimpleRNN", "both_ways", "masked"):
        keep_keras(kind, recurrent(kind), (2, 4, 6), (3, 7, 6), (1, 1, 6))
    several()
    flow()
    tables()
    tf.saved_model.save(tf.Module(), FOLDER / "nothing")
    first_version()
    partitioned()


main()
