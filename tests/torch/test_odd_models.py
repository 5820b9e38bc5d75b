# SPDX-License-Identifier: Apache-2.0
"""Models as users write them (odd_models.py): through torch.compile and from their archives they give the answers of
eager mode, on the device that WEFT_TEST_DEVICE names (the CPU otherwise)."""

import io
import os

import odd_models
import pytest
import torch
from torch.utils import _pytree as pytree

import weft
import weft.torch

NAMES = list(odd_models.MODELS)
OLD = torch.__version__ < "2.13"
DEVICE = os.environ.get("WEFT_TEST_DEVICE", "cpu")


def copied(inputs):
    """Copies inputs with their strides, so that writes of a model do not affect other runs."""

    def copy(v):
        if not isinstance(v, torch.Tensor):
            return v
        return torch.empty_strided(v.shape, v.stride(), dtype=v.dtype).copy_(v)

    return pytree.tree_map(copy, inputs)


def compare(got, wanted, is_loose=False):
    if isinstance(wanted, torch.Tensor):
        exact = not (wanted.is_floating_point() or wanted.is_complex())
        loose = 2e-2 if is_loose or wanted.dtype in (torch.float16, torch.bfloat16) else 1e-4
        torch.testing.assert_close(got, wanted, rtol=0 if exact else loose, atol=0 if exact else loose / 10, equal_nan=True)
    else:
        assert type(got) is type(wanted) and got == wanted


@pytest.mark.rotates(2)
@pytest.mark.parametrize("name", NAMES)
def test_compiled_as_in_eager(name):
    """Results have eager's values, types, containers and strides; inputs and buffers are written as in eager."""
    model, inputs, options = odd_models.made(name)
    eager, _, _ = odd_models.made(name)
    torch._dynamo.reset()
    weft.torch.placements.clear()
    fast = torch.compile(model, backend="weft", dynamic=options.get("dynamic"), options={"device": DEVICE})
    with torch.no_grad():
        for _ in range(2):
            given, known = copied(inputs), copied(inputs)
            got, got_form = pytree.tree_flatten(fast(*given))
            wanted, form = pytree.tree_flatten(eager(*known))
            assert got_form == form
            for value, reference in zip(got + pytree.tree_leaves(given), wanted + pytree.tree_leaves(known), strict=True):
                compare(value, reference, options.get("loose"))
            for (_, value), (_, reference) in zip(model.named_buffers(), eager.named_buffers(), strict=True):
                compare(value, reference)
    left = {p.why for p in weft.torch.placements if p.on_weft < p.total}
    # Before torch 2.13 the checks of matrices are not nodes of the graph, so that nothing stays in eager.
    assert bool(left) == ("eager" in options) or (OLD and not left), left
    assert not left or options["eager"] in str(left)


@pytest.mark.rotates(2)
@pytest.mark.parametrize("name", NAMES)
def test_archives_as_in_eager(name):
    model, inputs, options = odd_models.made(name)
    refused = options.get("export")
    try:
        with torch.no_grad():
            program = torch.export.export(model, copied(inputs), strict=False)
    except Exception:
        if OLD and refused is None:
            pytest.skip(f"torch {torch.__version__} does not export it")
        assert refused == "not exported"
        return
    assert refused != "not exported"
    file = io.BytesIO()
    if refused == "not saved":
        return
    torch.export.save(program, file)
    with torch.no_grad():
        wanted = [v for v in pytree.tree_leaves(model(*copied(inputs))) if isinstance(v, (torch.Tensor, int, float))]
    tensors = [v for v in pytree.tree_leaves(inputs) if isinstance(v, torch.Tensor)]
    if refused:
        with pytest.raises(weft.Error, match=refused):
            weft.compile(file.getvalue(), device=DEVICE)(*tensors)
        return
    run = weft.compile(file.getvalue(), device=DEVICE)
    outputs = run(*[torch.view_as_real(v) if v.is_complex() else v for v in tensors])
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    got = [torch.as_tensor(v) for v, port in zip(outputs, run.outputs) if not port.name.endswith(".next")]
    for value, reference in zip(got, wanted, strict=True):
        if not isinstance(reference, torch.Tensor):
            assert value.item() == reference
            continue
        compare(value, torch.view_as_real(reference) if reference.is_complex() else reference)
