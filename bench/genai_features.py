#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks for each feature of stock onnxruntime-genai that it generates the same tokens on Weft as on its own CPU
provider.

    python bench/genai_features.py MODEL_FOLDER                     # Weft is registered as GenAI's provider "amdgpu"
    python bench/genai_features.py MODEL_FOLDER --provider WeftExecutionProvider

MODEL_FOLDER is a folder that GenAI's model builder has written. Prints "same" or both answers for each feature. Exits
with 1 if an answer differs; features that GenAI itself refuses for the provider do not count."""
import argparse
import json
import os
import pathlib
import sys

import numpy as np

LIBRARY = pathlib.Path(__file__).parents[1] / "build/release/lib/libamdgpu-ep.so"
SHORT, LONG = "Who are you?", "A compiler turns a graph into machine code."
SCHEMA = '{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}'
# GenAI's messages for features that it lacks on devices that capture graphs.
REFUSALS = ("Graph capture is not supported with past_present_share_buffer", "Continuous decoding is not supported")


def load(og, folder, provider):
    config = og.Config(str(folder))
    config.clear_providers()
    if provider:
        config.append_provider(provider)
    return og.Model(config)


class Features:
    """One method for each feature; each method returns the values to compare."""

    def __init__(self, og, model):
        self.og, self.model, self.tokenizer = og, model, og.Tokenizer(model)

    def generator(self, speculation=None, guidance=None, **search):
        parameters = self.og.GeneratorParams(self.model)
        parameters.set_search_options(**search)
        if speculation:
            parameters.set_speculative_options(**speculation)
        if guidance:
            parameters.set_guidance(*guidance)
        return self.og.Generator(self.model, parameters)

    def generate(self, *prompts, tokens=12, speculation=None, guidance=None, **search):
        is_batch = len(prompts) > 1
        ids = self.tokenizer.encode_batch(list(prompts)) if is_batch else self.tokenizer.encode(prompts[0])
        length = ids.shape()[1] if is_batch else len(ids)
        search.setdefault("max_length", length + tokens)
        if is_batch:
            search["batch_size"] = len(prompts)
        generator = self.generator(speculation, guidance, **search)
        generator.append_tokens(ids.as_numpy() if is_batch else ids)
        while not generator.is_done():
            generator.generate_next_token()
        count = len(prompts) * search.get("num_return_sequences", 1)
        return [[int(t) for t in generator.get_sequence(i)][length:] for i in range(count)]

    def continued(self, rewinds):
        generator = self.generator(max_length=64)
        generator.append_tokens(self.tokenizer.encode(SHORT))
        for _ in range(5):
            generator.generate_next_token()
        if rewinds:
            generator.rewind_to(6)
        generator.append_tokens(self.tokenizer.encode(" I am"))
        for _ in range(5):
            generator.generate_next_token()
        return [int(t) for t in generator.get_sequence(0)]

    def logits(self):
        generator = self.generator(max_length=32)
        generator.append_tokens(self.tokenizer.encode(SHORT))
        chosen = np.zeros_like(np.array(generator.get_logits()))
        chosen[..., 7] = 9
        generator.set_logits(chosen)
        generator.generate_next_token()
        return int(generator.get_next_tokens()[0]), list(generator.get_output("logits").shape)

    def two_at_once(self):
        generators = []
        for prompt in (SHORT, LONG):
            generators.append(self.generator(max_length=32))
            generators[-1].append_tokens(self.tokenizer.encode(prompt))
        for _ in range(6):
            for generator in generators:
                generator.generate_next_token()
        return [[int(t) for t in generator.get_sequence(0)] for generator in generators]

    def text(self):
        stream = self.tokenizer.create_stream()
        message = json.dumps([{"role": "user", "content": "hi"}])
        return ("".join(stream.decode(int(t)) for t in self.tokenizer.encode(LONG)),
                self.tokenizer.apply_chat_template(messages=message, add_generation_prompt=True))

    def engine(self):
        engine = self.og.Engine(self.model)
        events, requests, tokens = engine.create_event_buffer(64), [], {}
        for prompt in (SHORT, "A compiler turns", "0 1 2 3"):
            request, options = engine.create_request(), None
            options = self.og.TurnOptions(request)
            options.set_max_generated_tokens(8)
            options.set_do_sample(False)
            request.begin_turn(np.array(self.tokenizer.encode(prompt), np.int32), options)
            requests.append(request)
        for _ in range(99):
            if not engine.has_pending_requests():
                break
            for event in engine.run(events):
                if int(event.flags) & int(self.og.EngineEventFlags.TOKEN.value):
                    tokens.setdefault(requests.index(event.request), []).append(int(event.token))
        return tokens


CASES = {
    "greedy": lambda f: f.generate(SHORT),
    "sampling, seeded": lambda f: f.generate(SHORT, do_sample=True, top_k=5, top_p=0.9, temperature=0.8, random_seed=7),
    "repetition penalty": lambda f: f.generate(SHORT, repetition_penalty=1.5),
    "no repeated n-grams": lambda f: f.generate(SHORT, no_repeat_ngram_size=2),
    "least length": lambda f: f.generate(SHORT, min_length=10),
    "batch of two, ragged": lambda f: f.generate(SHORT, LONG),
    "three beams": lambda f: f.generate(SHORT, num_beams=3, length_penalty=0.7),
    "two sequences": lambda f: f.generate(SHORT, num_return_sequences=2, num_beams=2),
    "separate caches": lambda f: f.generate(SHORT, past_present_share_buffer=False),
    "continued": lambda f: f.continued(False),
    "rewound, continued": lambda f: f.continued(True),
    "tokenizer, template": lambda f: f.text(),
    "logits read and set": lambda f: f.logits(),
    "two at once": lambda f: f.two_at_once(),
    "prompt in chunks of 4": lambda f: f.generate(LONG, chunk_size=4),
    "regular expression": lambda f: f.generate(SHORT, guidance=("regex", "[0-9]{3}")),
    "JSON schema": lambda f: f.generate(SHORT, tokens=30, guidance=("json_schema", SCHEMA)),
    "grammar": lambda f: f.generate(SHORT, guidance=("lark_grammar", 'start: "10" | "100"')),
    "n-gram speculation": lambda f: f.generate("0 1 2 3 4 5 0 1 2 3", tokens=24,
                                               speculation={"ngram_size": 2, "max_draft_tokens": 4}),
    "engine of three": lambda f: f.engine(),
}


def answer(case, features):
    try:
        return case(features)
    except Exception as error:  # whatever GenAI raises is the answer
        return f"error: {str(error)[-200:]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--library", type=pathlib.Path, default=LIBRARY)
    parser.add_argument("--provider", default="amdgpu")
    options = parser.parse_args()
    if options.provider == "amdgpu":
        os.environ["AMDGPU_EP_PATH"] = str(options.library.absolute())
    import onnxruntime_genai as og

    if options.provider != "amdgpu":
        og.register_execution_provider_library("weft", str(options.library.absolute()))
    theirs, ours = (Features(og, load(og, options.model, provider)) for provider in (None, options.provider))
    same = refused = 0
    for name, case in CASES.items():
        want, got = answer(case, theirs), answer(case, ours)
        same += want == got
        refused += want != got and any(text in str(got) for text in REFUSALS)
        print(f"{name:24} {'same' if want == got else f'{want} | {got}'}", flush=True)
    print(f"{same} of {len(CASES)} the same; {refused} refused by GenAI")
    return 1 if same + refused < len(CASES) else 0


if __name__ == "__main__":
    sys.exit(main())
