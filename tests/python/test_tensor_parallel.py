# SPDX-License-Identifier: Apache-2.0
"""Models split over several devices: the answers of ranks on the processor equal those of one device, and both are
compared with ref."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import weft

sys.path.insert(0, str(Path(__file__).resolve().parent))
import split_networks
from places import IS_FULL

DRAWN = 600 if IS_FULL else 24
#: The tolerance in addition to twice the error of one device, relative to the largest number of an output.
SLACK = {"f32": 2e-5, "bf16": 2.0**-7}


def compiled(path, ranks=1, **options):
    where = {"devices": ["cpu"] * ranks, "threads": ranks} if ranks > 1 else {"device": "cpu", "threads": 1}
    return weft.compile(path, **where, **options)


def answers(model, feeds):
    got = model.run({name: np.array(value) for name, value in feeds.items()})
    return {name: np.asarray(value, np.float64) for name, value in got.items()}


def check(got, one, judge, precision):
    for name, want in judge.items():
        assert got[name].shape == want.shape, name
        scale = np.abs(want).max(initial=0)
        off, off_one = (np.abs(each[name] - want).max(initial=0) for each in (got, one))
        assert off <= 2 * off_one + SLACK[precision] * scale, (name, off, off_one, scale)


def note_of(model):
    return next(note for note in model.report()["notes"] if note.startswith("split over"))


def test_networks_give_the_same_on_any_number_of_ranks(tmp_path):
    for name, network in split_networks.NETWORKS.items():
        net = network()
        path = net.save(tmp_path / f"{name}.onnx")
        judge = answers(weft.compile(path, device="ref"), net.feeds)
        for precision in ("f32", "bf16") if IS_FULL else ("f32",) if name != "bert" else ("f32", "bf16"):
            one = answers(compiled(path, precision=precision), net.feeds)
            for ranks in (2, 4, 8):
                model = compiled(path, ranks, precision=precision)
                check(answers(model, net.feeds), one, judge, precision)
                assert f"split over {ranks} ranks" in note_of(model)


def test_products_are_split_as_megatron_splits_them(tmp_path):
    """Products are split by columns, then by rows, and attention by heads: a layer makes two sums, and nothing is
    gathered between them."""
    model = compiled(split_networks.bert().save(tmp_path / "bert.onnx"), 2)
    assert "9 products by columns, 5 by rows, 2 attentions by heads; a run makes 5 sums and 0 gathers" in note_of(model)
    model = compiled(split_networks.gpt2().save(tmp_path / "gpt2.onnx"), 2)
    assert "2 attentions by heads; a run makes 4 sums and 5 gathers" in note_of(model)  # gathers: four caches and the logits
    model = compiled(split_networks.vit().save(tmp_path / "vit.onnx"), 2)
    assert "1 attentions by heads; a run makes 2 sums and 0 gathers" in note_of(model)


def test_a_cache_stays_on_its_rank(tmp_path):
    """A donated cache becomes one port per rank, and each rank writes its part in place; the parts together equal one
    device's cache."""
    net = split_networks.llama()
    path = net.save(tmp_path / "llama.onnx")
    one, two = compiled(path, donate=net.donate), compiled(path, 2, donate=net.donate)
    kept = dict(net.feeds)
    parts = {}
    for name, value in net.feeds.items():
        if name in net.donate:
            parts |= {f"{name}@{r}": np.array(part) for r, part in enumerate(np.split(value, 2, axis=1))}
        else:
            parts[name] = value
    assert {p.name for p in two.inputs} == set(parts) and all(p.is_donated == ("@" in p.name) for p in two.inputs)
    kept = {name: np.array(value) for name, value in kept.items()}
    for step in range(4):
        for feeds in (kept, parts):
            feeds["last"], feeds["ids"] = np.full(2, 5 + step, np.int32), np.array([[step], [3 * step]])
        want, got = one.run(kept), two.run(parts)
        np.testing.assert_allclose(got["logits"], want["logits"], atol=1e-4)
        for past, present in net.donate.items():
            halves = [got[f"{present}@{r}"] for r in range(2)]
            assert all(np.shares_memory(half, parts[f"{past}@{r}"]) for r, half in enumerate(halves))
            np.testing.assert_allclose(np.concatenate(halves, axis=1), want[present], atol=1e-5)


def test_drawn_graphs_of_products(tmp_path):
    """Random graphs give the same answers as on one device: for sizes that the number of ranks divides and others, and
    for operators that need whole values or parts."""
    sums = gathers = 0
    for seed in range(DRAWN):
        net = split_networks.drawn(seed)
        path = net.save(tmp_path / "drawn.onnx")
        ranks = (2, 4, 8, 3)[seed % 4]
        precision = "bf16" if seed % 8 == 5 else "f32"
        judge = answers(weft.compile(path, device="ref"), net.feeds)
        model = compiled(path, ranks, precision=precision)
        try:
            check(answers(model, net.feeds), answers(compiled(path, precision=precision), net.feeds), judge, precision)
        except AssertionError as error:
            raise AssertionError(f"seed {seed} on {ranks} ranks in {precision}") from error
        made = re.search(r"makes (\d+) sums and (\d+) gathers", note_of(model))
        sums, gathers = sums + int(made[1]), gathers + int(made[2])
    assert sums >= DRAWN // 8 and gathers >= DRAWN // 8


def test_other_sizes_and_outputs_of_the_callers(tmp_path):
    net = split_networks.bert()
    path = net.save(tmp_path / "bert.onnx")
    one, two = compiled(path), compiled(path, 2)
    for batch, length in ((1, 1), (3, 9), (2, 6)):
        feeds = {"ids": np.full((batch, length), 7), "mask": np.zeros((batch, 1, 1, length), np.float32)}
        hidden = np.empty((batch, length, 64), np.float32)
        got = two(**feeds, out=(hidden, None))
        want = one(**feeds)
        assert np.shares_memory(got[0], hidden)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g, w, atol=2e-5)


def test_an_output_over_an_input(tmp_path):
    """The caller passes the memory of an input, which every rank reads, as the memory of an output."""
    net = split_networks.Net()
    x = net.floats("x", ["rows", 64], 3, 64)
    y = net.linear(net.op("Relu", net.linear(x, 64, 128)), 128, 64)
    net.output(net.op("Add", y, x), "y")
    path = net.save(tmp_path / "residual.onnx")
    want = compiled(path)(net.feeds["x"])
    model = compiled(path, 4)
    for _ in range(20):
        memory = np.array(net.feeds["x"])
        model(memory, out=memory)
        np.testing.assert_allclose(memory, want, atol=1e-5)


def test_a_failing_rank_ends_the_run_and_the_next_is_right(tmp_path):
    net = split_networks.bert()
    model = compiled(net.save(tmp_path / "bert.onnx"), 4)
    want = model.run(net.feeds)
    with pytest.raises(weft.Error) as refused:
        model.run(net.feeds | {"ids": np.full((2, 6), 5000)})  # outside the embedding table
    assert refused.value.code == "E301"
    with pytest.raises(weft.ResourceError) as late:
        model.run(net.feeds, deadline=1e-9)
    assert late.value.code == "E403"
    for name, value in model.run(net.feeds).items():
        np.testing.assert_array_equal(value, want[name])


def test_saved_programs(tmp_path):
    """A split program is not saved; a program that was saved whole can be split when loaded."""
    net = split_networks.bert()
    path = net.save(tmp_path / "bert.onnx")
    with pytest.raises(weft.Error) as refused:
        compiled(path, 2).save(tmp_path / "two.weft")
    assert refused.value.code == "E406" and "split over 2 devices" in str(refused.value)
    one = compiled(path)
    one.save(tmp_path / "one.weft")
    two = compiled(tmp_path / "one.weft", 2)
    assert "split over 2 ranks" in note_of(two)
    for name, value in two.run(net.feeds).items():
        np.testing.assert_allclose(value, one.run(net.feeds)[name], atol=2e-5)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ({"devices": ["cpu", "ref"]}, "E502", "'ref' cannot be one of several"),
        ({"devices": ["auto", "cpu"]}, "E502", "'auto' cannot be one of several"),
        ({"devices": ["cpu", "cpu:aarch64"]}, "E502", "cannot be one of several"),
        ({"devices": ["cpu", "nvidia:99"]}, "E501", "no device 'nvidia:99'"),
        ({"devices": ["cpu", ""]}, "E501", "no device ''"),
        ({"devices": ["cpu", "cpu"], "device": "cpu"}, "E203", "both given"),
        ({"devices": ["cpu", "cpu"], "tune": 0.1}, "E502", "not tuned"),
        ({"devices": ["cpu", "cpu"], "donate": {"no": "y"}}, "E310", "no input 'no'"),
    ],
)
def test_what_is_refused(options, code, words, tmp_path):
    path = split_networks.four_bits().save(tmp_path / "small.onnx")
    with pytest.raises(weft.Error) as refused:
        weft.compile(path, **options)
    assert refused.value.code == code and words in str(refused.value)


def test_the_command_splits_and_explains(weft_command, tmp_path):
    path = split_networks.bert().save(tmp_path / "bert.onnx")
    done = weft_command("explain", path, "--devices", "cpu,cpu")
    assert done.returncode == 0, done.stderr
    assert "device: cpu,cpu (" in done.stdout and "split over 2 ranks: 9 products by columns" in done.stdout
    assert "ranks_sum" in done.stdout and "the sum over 2 ranks" in done.stdout
    done = weft_command("explain", split_networks.vit().save(tmp_path / "vit.onnx"), "--devices", "cpu,cpu")
    assert "whole in each rank: node" in done.stdout and "only 640 weights" in done.stdout
    copies = re.findall(r"^ *\d+ +\w*(?:copy|concat)\w* on ", done.stdout, re.M)
    assert len(copies) <= 1, done.stdout  # weights are concatenated at load time, not in each run
    done = weft_command("verify", path, "--devices", "cpu,cpu,cpu,cpu", "--symbol", "batch=2", "--symbol", "sequence=5")
    assert done.returncode == 0, done.stdout + done.stderr
    done = weft_command("perf", path, "--devices", "cpu,cpu", "--symbol", "batch=1", "--symbol", "sequence=4", "--json", "-", "--iterations", "3")
    assert done.returncode == 0 and json.loads(done.stdout), done.stdout + done.stderr
