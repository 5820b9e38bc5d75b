#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs stock onnxruntime-genai on Weft and on its own CPU provider; test_genai.py starts this program for each check.

    python tests/ort/genai_session.py TASK ROUTE LIBRARY FOLDER...

ROUTE is amdgpu (found by AMDGPU_EP_PATH, cache in device memory) or a provider's own name, such as
WeftExecutionProvider. Prints one line of JSON for each folder; messages about compiling go to stderr, after the word
that `mark` prints."""
import json
import os
import sys

import numpy as np

TASK, ROUTE, LIBRARY = sys.argv[1:4]
if ROUTE == "amdgpu":
    os.environ["AMDGPU_EP_PATH"] = LIBRARY
import onnxruntime_genai as og  # reads AMDGPU_EP_PATH

if ROUTE != "amdgpu":
    og.register_execution_provider_library("weft", LIBRARY)


def load(folder, route):
    """Loads the model. `route` None: the CPU provider; "config": the provider that genai_config.json names."""
    config = og.Config(folder)
    if route != "config":
        config.clear_providers()
    if route and route != "config":
        config.append_provider(route)
        config.set_provider_option(route, "strict", "1")  # all nodes on Weft, or an error
    return og.Model(config)


def generator(model, **search):
    parameters = og.GeneratorParams(model)
    parameters.set_search_options(**search)
    return og.Generator(model, parameters)


def prompt(length, seed=0):
    return np.random.default_rng(1000 * length + seed).integers(3, 259, length).astype(np.int32)


def batch(lengths, pad=2):
    rows = np.full((len(lengths), max(lengths)), pad, np.int32)
    for i, length in enumerate(lengths):
        rows[i, :length] = prompt(length, i)
    return rows


def steps(model, ids, count, **search):
    """Returns the generated tokens, and the logits from which each was chosen."""
    rows = np.atleast_2d(ids)
    made = generator(model, batch_size=len(rows), max_length=rows.shape[1] + count, min_length=rows.shape[1] + count, **search)
    made.append_tokens(ids)
    tokens, logits = [], []
    for _ in range(count):
        logits.append(np.array(made.get_logits(), np.float32)[:, -1])
        made.generate_next_token()
        tokens.append([int(t) for t in made.get_next_tokens()])
        if made.is_done():
            break
    return tokens, logits


def compare(theirs, ours):
    """Returns "equal": the number of steps before the first step with different tokens; "apart": the largest difference
    of logits until the end of this step; "gap": how far the two tokens are apart in the logits of `theirs`. Both
    differences are divided by the largest logit."""
    apart, largest = 0.0, 1e-9
    for i, (want, got) in enumerate(zip(theirs[0], ours[0], strict=True)):
        largest = max(largest, float(np.abs(theirs[1][i]).max()))
        apart = max(apart, float(np.abs(theirs[1][i] - ours[1][i]).max()))
        if want != got:
            gap = max(float(theirs[1][i][row, a] - theirs[1][i][row, b]) for row, (a, b) in enumerate(zip(want, got)))
            return {"equal": i, "apart": apart / largest, "gap": gap / largest}
    return {"equal": len(theirs[0]), "apart": apart / largest, "gap": 0.0}


def memory():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def mark(word):
    sys.stdout.flush()
    print(word, file=sys.stderr, flush=True)


def tokens(folder):
    """Decodes greedily: one prompt, and three prompts of different lengths."""
    models = [load(folder, None), load(folder, ROUTE)]
    one = compare(*(steps(model, prompt(11), 64) for model in models))
    three = compare(*(steps(model, batch([3, 17, 9]), 12) for model in models))
    return {"one": one, "three": three}


def lengths(folder):
    """Decodes prompts of 100 lengths, some also in a batch with a shorter prompt. Two short runs come first."""
    theirs, ours = load(folder, None), load(folder, ROUTE)
    steps(ours, prompt(5), 2)
    steps(ours, batch([4, 2]), 2)
    mark("first answers are there")
    wrong, shapes, resident = [], [], []
    for length in np.random.default_rng(3).permutation(np.linspace(1, 512, 100).astype(int)):
        length = int(length)
        for ids in (prompt(length), batch([length, 1 + length // 2]) if length % 3 == 0 else None):
            if ids is None:
                continue
            difference = compare(steps(theirs, ids, 3), steps(ours, ids, 3))
            if difference["equal"] < 3 and difference["gap"] > 1e-3:
                wrong.append([length, difference])
        made = generator(ours, max_length=length + 8)
        made.append_tokens(prompt(length))
        shapes.append(list(np.array(made.get_output("logits")).shape)[:2] == [1, length])
        resident.append(memory())
    return {"wrong": wrong, "whole": all(shapes), "grown": max(resident[50:]) - max(resident[:50])}


def adapters(folder):
    """Decodes without, with, and again without an adapter."""
    answers = []
    for route in None, ROUTE:
        model = load(folder, route)
        given = og.Adapters(model)
        given.load(os.path.join(folder, "a.onnx_adapter"), "a")
        for name in (None, "a", None):
            made = generator(model, max_length=40)
            if name:
                made.set_active_adapter(given, name)
            made.append_tokens(prompt(9))
            while not made.is_done():
                made.generate_next_token()
            answers.append([int(t) for t in made.get_sequence(0)])
    return {"same": answers[:3] == answers[3:], "differs": answers[0] != answers[1], "back": answers[0] == answers[2]}


def configured(folder):
    """Compares the provider that genai_config.json names with the CPU provider."""
    return compare(*(steps(load(folder, route), prompt(7), 8) for route in (None, "config")))


for folder in sys.argv[4:]:
    print(json.dumps(globals()[TASK](folder)), flush=True)
