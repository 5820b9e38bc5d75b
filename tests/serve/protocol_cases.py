# SPDX-License-Identifier: Apache-2.0
"""Tests the v2 protocol with independent clients: tritonclient over HTTP and gRPC, Prometheus' parser, plain
requests."""
import json
import struct

import numpy as np
import pytest
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http
from server import DIGITS, MODEL, Server, double, numbers

TEN = np.load(DIGITS / "ten.npy")
LIKELY = list(range(10))


def text_model(path):
    """Writes a model with strings as input and output; each variant of the protocol represents strings differently."""
    import weft

    text = 'symbol n\nmodule main {\n  %t = parameter {name="t", type=string[n]}\n  return "same"=%t\n}\n'
    weft.Graph.parse(text).compile(device="cpu").save(path)
    return path


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    with Server(MODEL, double(folder / "double.weft"), grpc=True) as server:
        yield server


@pytest.fixture(params=["http", "grpc"])
def client(request, server):
    """Provides tritonclient's module for HTTP or gRPC, and a client."""
    if request.param == "http":
        with over_http.InferenceServerClient(server.place) as client:
            yield over_http, client
    else:
        with over_grpc.InferenceServerClient(server.grpc) as client:
            yield over_grpc, client


def as_dict(answer):
    """Converts a message of gRPC to the JSON form of HTTP."""
    from google.protobuf import json_format

    return answer if isinstance(answer, (dict, list)) else json_format.MessageToDict(answer, preserving_proto_field_name=True)


def image(module, array):
    given = module.InferInput("image", list(array.shape), "FP32")
    given.set_data_from_numpy(array)
    return given


def test_health_and_metadata(client):
    _, client = client
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("digits")
    metadata = as_dict(client.get_model_metadata("digits"))
    assert metadata["versions"] == ["1"] and metadata["platform"] == "weft"
    assert [(p["name"], p["datatype"], list(map(int, p["shape"]))) for p in metadata["inputs"]] == [("image", "FP32", [-1, 1, 8, 8])]
    if "properties" in metadata:  # an extension of the JSON form, for the page
        assert "seven" in metadata["properties"]["labels"]
    config = as_dict(client.get_model_config("digits"))
    config = config.get("config", config)
    assert config["input"][0]["data_type"] == "TYPE_FP32" and list(map(int, config["input"][0]["dims"])) == [-1, 1, 8, 8]
    assert as_dict(client.get_server_metadata())["name"] == "weft"


@pytest.mark.parametrize("rows", [1, 3, 10])
def test_answers(client, rows):
    module, client = client
    answer = client.infer("digits", [image(module, TEN[:rows])], request_id="mine")
    assert answer.as_numpy("probability").argmax(1).tolist() == LIKELY[:rows]
    head = as_dict(answer.get_response())
    assert head["id"] == "mine" and head["model_name"] == "digits" and head["model_version"] == "1"
    named = client.infer("digits", [image(module, TEN[:rows])], model_version="1", outputs=[module.InferRequestedOutput("probability")])
    np.testing.assert_array_equal(named.as_numpy("probability"), answer.as_numpy("probability"))


def test_json_data_both_ways(server):
    with over_http.InferenceServerClient(server.place) as client:
        given = over_http.InferInput("image", [2, 1, 8, 8], "FP32")
        given.set_data_from_numpy(TEN[:2], binary_data=False)
        wanted = over_http.InferRequestedOutput("probability", binary_data=False)
        assert client.infer("digits", [given], outputs=[wanted]).as_numpy("probability").argmax(1).tolist() == [0, 1]
    nested = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 2], "data": [[1, 2], [3.5, 4]]}]}
    status, answer = server.ask("/v2/models/double/infer", nested)
    assert status == 200 and answer["outputs"] == [{"name": "y", "datatype": "FP32", "shape": [2, 2], "data": [2, 4, 7, 8]}]


def test_streams_answer_in_order(server):
    answers = []
    with over_grpc.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: answers.append((result, error)))
        for n in (3, 1, 2):
            given = over_grpc.InferInput("x", [1, n], "FP32")
            given.set_data_from_numpy(np.full((1, n), n, np.float32))
            client.async_stream_infer("double", [given])
        client.async_stream_infer("nowhere", [given])
        client.stop_stream()
    assert [result.as_numpy("y").tolist() for result, _ in answers[:3]] == [[[6.0] * 3], [[2.0]], [[4.0, 4.0]]]
    assert "nowhere" in str(answers[3][1])


def test_typed_contents(server):
    from tritonclient.grpc import service_pb2

    with over_grpc.InferenceServerClient(server.grpc) as client:
        request = service_pb2.ModelInferRequest(model_name="double")
        given = request.inputs.add(name="x", datatype="FP32", shape=[1, 2])
        given.contents.fp32_contents.extend([1, 4])
        answer = client._client_stub.ModelInfer(request)
        assert np.frombuffer(answer.raw_output_contents[0], np.float32).tolist() == [2, 8]
        given.contents.int_contents.append(1)
        with pytest.raises(Exception, match="fp32_contents"):
            client._client_stub.ModelInfer(request)


def test_errors_say_whose_fault_it_is(client):
    module, client = client
    for name, version, array in (("nowhere", "", TEN), ("digits", "7", TEN), ("digits", "", TEN[:, :, :4])):
        given = module.InferInput("image", list(array.shape), "FP32")
        given.set_data_from_numpy(array)
        with pytest.raises(Exception) as caught:
            client.infer(name, [given], model_version=version)
        assert any(word in str(caught.value) for word in ("nowhere", "'7'", "E311")), caught.value


def test_statistics_and_index(client, server):
    module, client = client
    client.infer("digits", [image(module, TEN[:1])])
    get = client.get_inference_statistics
    stats = as_dict(get("digits"))["model_stats"][0]
    assert int(stats["inference_stats"]["success"]["count"]) >= 1 and int(stats["execution_count"]) >= 1
    assert len(as_dict(get())["model_stats"]) == 2
    index = as_dict(client.get_model_repository_index())
    index = index.get("models", []) if isinstance(index, dict) else index
    assert {row["name"]: row["state"] for row in index} == {"digits": "READY", "double": "READY"}


def test_unload_and_load(client):
    module, client = client
    client.unload_model("double")
    assert not client.is_model_ready("double")
    given = module.InferInput("x", [1, 1], "FP32")
    given.set_data_from_numpy(np.ones((1, 1), np.float32))
    with pytest.raises(Exception, match="not loaded"):
        client.infer("double", [given])
    client.load_model("double")
    assert client.infer("double", [given]).as_numpy("y").tolist() == [[2.0]]
    with pytest.raises(Exception, match="brings none|parameter"):
        client.load_model("double", config='{"platform": "other"}')


def test_metrics_are_prometheus_text(server):
    from prometheus_client.parser import text_string_to_metric_families

    server.ask("/v2/models/double/infer", numbers()[0])
    status, text = server.ask("/metrics")
    families = {family.name: family for family in text_string_to_metric_families(text.decode())}
    assert status == 200 and {"weft_requests", "weft_request_seconds", "weft_model_answered", "weft_model_waiting"} <= set(families)
    answered = {s.labels["model"]: s.value for s in families["weft_model_answered"].samples}
    assert answered["double"] >= 1


def test_strings(tmp_path):
    words = np.array(["ein", "zwölf", ""], dtype=object)
    with Server(text_model(tmp_path / "texts.weft"), grpc=True) as server:
        for module, place in ((over_http, server.place), (over_grpc, server.grpc)):
            with module.InferenceServerClient(place) as client:
                given = module.InferInput("t", [3], "BYTES")
                given.set_data_from_numpy(words)
                assert [text.decode() for text in client.infer("texts", [given]).as_numpy("same")] == words.tolist()
        request = {"inputs": [{"name": "t", "datatype": "BYTES", "shape": [2], "data": ["a", "ß"]}]}
        assert server.ask("/v2/models/texts/infer", request)[1]["outputs"][0]["data"] == ["a", "ß"]


def test_the_descriptors_are_those_of_protoc(tmp_path):
    """_proto.py reads v2.proto as protoc does, and its field numbers are those of the standard's own messages."""
    import subprocess
    import sys

    from google.protobuf import descriptor_pb2
    from tritonclient.grpc import service_pb2
    from weft.serve import _proto

    folder = next(iter(__import__("weft.serve").serve.__path__))
    out = tmp_path / "v2.pb"
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"--descriptor_set_out={out}", "v2.proto"], check=True)
    (wanted,) = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file

    def fields(file):
        def walk(prefix, messages):
            for message in messages:
                name = prefix + message.name
                yield from (((name, f.name), (f.number, f.label, f.type, f.type_name.rpartition(".")[2])) for f in message.field)
                yield from walk(name + ".", message.nested_type)

        return dict(walk("", file.message_type))

    made = descriptor_pb2.FileDescriptorProto.FromString(_proto.file().serialized_pb)
    resolved = descriptor_pb2.FileDescriptorProto()
    _proto.file().CopyToProto(resolved)

    def methods(file):
        return [(m.name, m.input_type, m.output_type, m.client_streaming, m.server_streaming) for m in file.service[0].method]

    assert methods(resolved) == methods(wanted)
    ours, theirs = fields(made), fields(wanted)
    assert ours.keys() == theirs.keys()
    for key, (number, label, type_, type_name) in theirs.items():
        assert ours[key][:2] == (number, label) and ours[key][3] == type_name and ours[key][2] in (0, type_), key
    for name, message in service_pb2.DESCRIPTOR.message_types_by_name.items():
        for field in message.fields:
            if (name, field.name) in theirs:
                assert theirs[name, field.name][0] == field.number, (name, field.name)


def test_binary_sizes_are_checked(server):
    head = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": 8}}]}).encode()
    data = struct.pack("<2f", 1, 2)

    def ask(body, length):
        return server.ask("/v2/models/double/infer", body, {"Inference-Header-Content-Length": str(length)})

    assert ask(head + data, len(head))[0] == 200
    for body, length in ((head + data[:7], len(head)), (head + data + b"x", len(head)), (head + data, len(head) + 8), (head, 10**20), (head, "-1")):
        status, answer = ask(body, length)
        assert status == 400 and answer["error"]


def test_the_example_of_the_documents():
    import subprocess
    import sys

    from server import ROOT

    with Server(MODEL, ROOT / "examples/text/text.onnx") as server:
        done = subprocess.run([sys.executable, ROOT / "examples/serving/ask.py", server.url], capture_output=True, text=True)
    assert done.returncode == 0 and "the picture: seven" in done.stdout and "the text: after" in done.stdout, done.stderr
