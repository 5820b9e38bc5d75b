# SPDX-License-Identifier: Apache-2.0
"""ai.onnx.ml, node by node: ref and cpu give the answers of onnxruntime's CPU provider."""
import os
import pathlib
import sys

import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build" / "release")) / "python"))

import weft

QUIET = onnxruntime.SessionOptions()
QUIET.log_severity_level = 4
ROWS, FEATURES = 9, 5
X = np.random.default_rng(3).standard_normal((ROWS, FEATURES)).astype(np.float32)


def model_of(op, feed, attributes, outputs=("y",), version=3):
    names = [f"x{i}" for i in range(len(feed))]
    feed = dict(zip(names, map(np.asarray, feed)))
    infos = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
             for name, value in feed.items()]
    node = helper.make_node(op, names, outputs, "node", domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph([node], "graph", infos, [helper.make_empty_tensor_value_info(name) for name in outputs])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString(), feed


def judge(op, feed, attributes, outputs=("y",), tolerance=1e-5, judged=None, version=3):
    model, feed = model_of(op, feed, attributes, outputs, version)
    wanted = onnxruntime.InferenceSession(model, QUIET, providers=["CPUExecutionProvider"]).run(None, feed)
    for device in "ref", "cpu":
        answers = weft.compile(model, device=device).run(feed)
        for name, expected in zip(outputs, wanted, strict=True):
            if name not in (judged or outputs):
                continue
            assert answers[name].shape == expected.shape and answers[name].dtype == expected.dtype, (device, name)
            np.testing.assert_allclose(answers[name], expected, tolerance, tolerance, err_msg=f"{op} {name} on {device}")


def random_trees(seed, modes, trees=3, depth=3):
    """Returns the columns of a node table, and (tree, node) of the leaves; some branches end early."""
    rng = np.random.default_rng(seed)
    columns = {f"nodes_{name}": [] for name in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids",
                                                "falsenodeids", "missing_value_tracks_true")}
    leaves = []
    for tree in range(trees):
        pending, count = [(0, 0)], 1
        while pending:
            node, level = pending.pop(0)
            is_leaf = level == depth or (level > 1 and rng.random() < 0.3)
            row = [tree, node, 0, "LEAF", 0.0, 0, 0, 0]
            if is_leaf:
                leaves.append((tree, node))
            else:
                value = X[rng.integers(ROWS), rng.integers(FEATURES)] if rng.random() < 0.5 else rng.standard_normal()
                row = [tree, node, rng.integers(FEATURES), rng.choice(modes), value, count, count + 1, rng.integers(2)]
                pending += [(count, level + 1), (count + 1, level + 1)]
                count += 2
            for column, entry in zip(columns.values(), row):
                column.append(entry.item() if hasattr(entry, "item") else entry)
    return columns, leaves


def weighed(kind, leaves, targets, positive=False):
    """Returns columns in which each leaf has one weight for each of `targets`."""
    rng = np.random.default_rng(len(leaves))
    rows = [(tree, node, target) for tree, node in leaves for target in targets]
    weights = rng.random(len(rows)) / 3 if positive else rng.standard_normal(len(rows))
    return {f"{kind}_treeids": [r[0] for r in rows], f"{kind}_nodeids": [r[1] for r in rows],
            f"{kind}_ids": [r[2] for r in rows], f"{kind}_weights": weights.astype(np.float32).tolist()}


MODES = [["BRANCH_LEQ"], ["BRANCH_LT"], ["BRANCH_GTE"], ["BRANCH_GT"], ["BRANCH_EQ"], ["BRANCH_NEQ"],
         ["BRANCH_LEQ", "BRANCH_GT", "BRANCH_EQ"]]


@pytest.mark.parametrize("modes", MODES, ids="+".join)
def test_tree_branches(modes):
    x = X.copy()
    x[::3, ::2] = np.nan
    columns, leaves = random_trees(len(modes), modes)
    judge("TreeEnsembleRegressor", [x], {**columns, **weighed("target", leaves, [0, 1]), "n_targets": 2})


@pytest.mark.parametrize("how", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_tree_aggregates(how):
    columns, leaves = random_trees(5, ["BRANCH_LEQ"], trees=4)
    judge("TreeEnsembleRegressor", [X], {**columns, **weighed("target", leaves, [0]), "n_targets": 1,
                                         "aggregate_function": how, "base_values": [0.5]})
    lists = weighed("target", leaves, [0, 1, 2])
    some = {name: column[::2] + column[3:6] for name, column in lists.items()}  # gaps, and more than one weight for a leaf
    judge("TreeEnsembleRegressor", [X], {**columns, **some, "n_targets": 4, "aggregate_function": how})


@pytest.mark.parametrize("how", range(4))
def test_aggregates_of_leaves_with_one_target_each(how):
    """In order: AVERAGE, SUM, MIN, MAX. The first tree reaches targets 0 and 1, the second one target 0 only."""
    attributes = dict(n_targets=3, aggregate_function=how, tree_roots=[0, 1], nodes_featureids=[0, 1], nodes_truenodeids=[0, 2],
                      nodes_modes=numpy_helper.from_array(np.zeros(2, np.uint8)), nodes_falsenodeids=[1, 3], nodes_trueleafs=[1, 1],
                      nodes_splits=numpy_helper.from_array(np.zeros(2, np.float32)), nodes_falseleafs=[1, 1],
                      leaf_targetids=[0, 1, 0, 0], leaf_weights=numpy_helper.from_array(np.float32([5, -7, 3, 2])))
    judge("TreeEnsemble", [X], attributes, version=5)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("classes", [[0, 1, 2], [0, 1], [0], [1]], ids=str)
@pytest.mark.parametrize("positive", [False, True])
def test_tree_classes(transform, classes, positive):
    columns, leaves = random_trees(7, ["BRANCH_LEQ"])
    labels = [4, 7, 9] if len(classes) == 3 else [4, 7]
    # With two classes that both have weights, onnxruntime returns 1 or 0 by the sign of the second score, not a label.
    judged = ["scores"] if len(classes) == 2 else None
    judge("TreeEnsembleClassifier", [X], {**columns, **weighed("class", leaves, classes, positive),
                                          "classlabels_int64s": labels, "post_transform": transform}, ["label", "scores"], judged=judged)


def test_a_tree_that_leads_nowhere_is_refused():
    columns, leaves = random_trees(5, ["BRANCH_LEQ"])
    columns["nodes_truenodeids"][0] = 99
    model, _ = model_of("TreeEnsembleRegressor", [X], {**columns, **weighed("target", leaves, [0]), "n_targets": 1})
    with pytest.raises(Exception, match="leads to node 99 of tree 0, which it does not have"):
        weft.compile(model)


def floats(*dims):
    return np.random.default_rng(dims).standard_normal(dims).astype(np.float32)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_linear_models(transform):
    judge("LinearRegressor", [X], {"coefficients": floats(2 * FEATURES).tolist(), "intercepts": [0.5, -1.0], "targets": 2,
                                   "post_transform": transform})
    for classes in 3, 2:
        judge("LinearClassifier", [X], {"coefficients": floats(classes * FEATURES).tolist(), "intercepts": floats(classes).tolist(),
                                        "classlabels_ints": list(range(classes)), "post_transform": transform},
              ["label", "scores"])
    judge("LinearClassifier", [X], {"coefficients": floats(FEATURES).tolist(), "intercepts": [0.2], "classlabels_ints": [4, 7],
                                    "post_transform": transform}, ["label", "scores"])


KERNELS = ["LINEAR", "POLY", "RBF", "SIGMOID"]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("classes", [2, 3])
def test_support_vectors(kernel, classes):
    supports = 2 * classes
    common = {"kernel_type": kernel, "kernel_params": [0.2, 0.5, 3.0], "support_vectors": floats(supports * FEATURES).tolist()}
    judge("SVMClassifier", [X], {**common, "coefficients": floats((classes - 1) * supports).tolist(),
                                 "vectors_per_class": [2] * classes, "rho": floats(classes * (classes - 1) // 2).tolist(),
                                 "classlabels_ints": list(range(classes))}, ["label", "scores"], 1e-4)
    for one_class in 0, 1:
        judge("SVMRegressor", [X], {**common, "coefficients": floats(supports).tolist(), "n_supports": supports, "rho": [0.3],
                                    "one_class": one_class}, tolerance=1e-4)


def test_preparation():
    numbers = floats(FEATURES).tolist()
    judge("Scaler", [X], {"offset": numbers, "scale": numbers[::-1]})
    judge("Scaler", [X], {"offset": [0.5], "scale": [2.0]})
    judge("Binarizer", [X], {"threshold": 0.2})
    for norm in "MAX", "L1", "L2":
        judge("Normalizer", [X], {"norm": norm})
    judge("FeatureVectorizer", [X, X[:, :2]], {"inputdimensions": [FEATURES, 2]})
    judge("ArrayFeatureExtractor", [X, np.array([3, 1])], {})
    holes = X.copy()
    holes[::2] = np.nan
    judge("Imputer", [holes], {"imputed_value_floats": numbers, "replaced_value_float": float("nan")})
    judge("Imputer", [np.arange(10).reshape(2, 5)], {"imputed_value_int64s": [9], "replaced_value_int64": 3})


def test_integers_beyond_those_of_f64():
    """2^53 + 1 and its neighbours stay apart."""
    big = 2**53 + 1
    for op, attributes in (("Imputer", {"imputed_value_int64s": [big + 2], "replaced_value_int64": big}),
                           ("LabelEncoder", {"keys_int64s": [big], "values_int64s": [big + 2], "default_int64": big}),
                           ("CategoryMapper", {"cats_int64s": [1], "cats_strings": ["a"], "default_int64": big})):
        x = np.array([["a", "b"]]) if op == "CategoryMapper" else np.array([[big - 1, big]])
        model, feed = model_of(op, [x], attributes)
        wanted = {"Imputer": [big - 1, big + 2], "LabelEncoder": [big, big + 2], "CategoryMapper": [1, big]}[op]
        for device in "ref", "cpu":
            assert weft.compile(model, device=device).run(feed)["y"].tolist() == [wanted], (op, device)


def test_categories():
    judge("OneHotEncoder", [np.array([[1, 3], [4, 9]])], {"cats_int64s": [1, 3, 4], "zeros": 1})
    judge("OneHotEncoder", [np.array([[1, 3], [4, 1]])], {"cats_int64s": [1, 3, 4], "zeros": 0})
    judge("LabelEncoder", [np.array([5, 7, 6])], {"keys_int64s": [5, 6], "values_floats": [0.5, 0.25], "default_float": -3.0})
    # The standard also maps NaN; onnxruntime does so only for the newest version of the operator.
    model, feed = model_of("LabelEncoder", [np.float32([1, np.nan, 2])], {"keys_floats": [float("nan"), 2.0], "values_int64s": [8, 9]})
    np.testing.assert_array_equal(weft.compile(model).run(feed)["y"], [-1, 8, 9])


@pytest.mark.parametrize("depth", [63, 64, 65, 300])
def test_deep_trees(depth):
    """The first levels of a tree are unrolled; deeper levels are walked in a loop."""
    count = 2 * depth + 1  # node 2 * i leads to leaf 2 * i + 1 or to node 2 * i + 2
    inner = range(0, count - 1, 2)
    rng = np.random.default_rng(depth)
    is_inner = [i in inner for i in range(count)]
    columns = {"nodes_treeids": [0] * count, "nodes_nodeids": list(range(count)),
               "nodes_featureids": rng.integers(FEATURES, size=count).tolist(),
               "nodes_modes": ["BRANCH_LEQ" if is_inner[i] else "LEAF" for i in range(count)],
               "nodes_values": (rng.random(count) / 9 - 2).astype(np.float32).tolist(),
               "nodes_truenodeids": [i + 1 if is_inner[i] else 0 for i in range(count)],
               "nodes_falsenodeids": [i + 2 if is_inner[i] else 0 for i in range(count)]}
    leaves = [(0, i) for i in range(count) if not is_inner[i]]
    judge("TreeEnsembleRegressor", [X], {**columns, **weighed("target", leaves, [0]), "n_targets": 1})
