# SPDX-License-Identifier: Apache-2.0
"""EPContext models: a model whose nodes hold saved programs."""
import numpy as np
import onnx
import onnxruntime as ort
import pytest

from models import NAME, assigned, mlp, numbers, session

X = {"x": numbers(3, 64)}


def make(folder, embed, name="made.onnx"):
    target = folder / name
    session(mlp(), entries={"ep.context_enable": "1", "ep.context_file_path": str(target),
                            "ep.context_embed_mode": str(embed)})
    return target


@pytest.mark.parametrize("embed", [0, 1])
def test_a_context_model_runs_without_its_source(tmp_path, embed):
    target = make(tmp_path, embed)
    graph = onnx.load(target).graph
    assert [node.op_type for node in graph.node] == ["EPContext"]
    assert not graph.initializer
    beside = [file.name for file in tmp_path.iterdir() if file.suffix == ".weft"]
    assert len(beside) == 1 - embed
    made = session(str(target))
    assert assigned(made) == {NAME: 1}
    np.testing.assert_array_equal(made.run(None, X)[0], session(mlp()).run(None, X)[0])


@pytest.mark.parametrize("embed", [{}, {"ep.context_embed_mode": "1"}], ids=["beside", "embedded"])
def test_a_context_model_without_a_name_lies_beside_its_source(tmp_path, monkeypatch, embed):
    """By default the context model of source.onnx is source_ctx.onnx in the same folder, with the programs beside it,
    as onnxruntime documents."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models/source.onnx").write_bytes(mlp().SerializeToString())
    monkeypatch.chdir(tmp_path)
    session("models/source.onnx", entries={"ep.context_enable": "1", **embed})
    written = sorted(path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*") if path.is_file())
    assert set(written) == {"models"} and len(written) == 3 - len(embed)
    made = session(str(tmp_path / "models/source_ctx.onnx"))
    assert assigned(made) == {NAME: 1}
    np.testing.assert_array_equal(made.run(None, X)[0], session(mlp()).run(None, X)[0])


def test_a_context_model_in_memory_is_told_where_its_programs_are(tmp_path):
    target = make(tmp_path, 0)
    proto, want = onnx.load(target), session(mlp()).run(None, X)[0]
    made = session(proto, entries={"ep.context_file_path": str(target)})
    np.testing.assert_array_equal(made.run(None, X)[0], want)
    with pytest.raises(Exception, match="E106"):
        session(proto)


def test_a_program_elsewhere_is_refused(tmp_path):
    target = make(tmp_path, 0)
    model = onnx.load(target)
    for attribute in model.graph.node[0].attribute:
        if attribute.name == "ep_cache_context":
            attribute.s = b"../stolen.weft"
    onnx.save(model, target)
    with pytest.raises(Exception, match="E160"):
        session(str(target))


def test_a_damaged_program_is_refused(tmp_path):
    target = make(tmp_path, 0)
    program = next(tmp_path.glob("*.weft"))
    data = bytearray(program.read_bytes())
    data[len(data) // 2] ^= 0x40
    program.write_bytes(data)
    with pytest.raises(Exception, match="E17"):
        session(str(target))


def test_the_model_compiler(tmp_path):
    source, target = tmp_path / "source.onnx", tmp_path / "target.onnx"
    source.write_bytes(mlp().SerializeToString())
    settings = ort.SessionOptions()
    settings.add_provider_for_devices([d for d in ort.get_ep_devices() if d.ep_name == NAME][:1], {})
    ort.ModelCompiler(settings, str(source), embed_compiled_data_into_model=True).compile_to_file(str(target))
    np.testing.assert_array_equal(session(str(target)).run(None, X)[0], session(mlp()).run(None, X)[0])
    metadata = {entry.key: entry.value for entry in onnx.load(target).metadata_props}
    assert metadata.get("ep_compatibility_info." + NAME, "").startswith("weft ")
