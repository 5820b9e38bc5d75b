// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/error.h"
#include "frontends/onnx/file/reader.h"
#include "onnx_writer.h"
#include "scratch.h"

namespace {

using namespace weft;
using namespace weft::test;
namespace fs = std::filesystem;

Bytes bytes_of(const std::string& text) { return Bytes::copy(as_bytes(text)); }

onnx::Model read(const Message& m, const onnx::ReadOptions& options = {}) {
  return onnx::read_model(bytes_of(m.data), options);
}

/// Returns the message of the error that `read` throws; "" if it throws none.
template <class Read>
std::string error_of(Read&& read) {
  try {
    read();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}
std::string error_in(const std::string& file) {
  return error_of([&] { onnx::read_model(bytes_of(file)); });
}
std::string error_in(const Message& m) { return error_in(m.data); }
Message with_initializer(const Message& initializer) { return model(Message().message(5, initializer)); }

bool has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

struct Folder : test::Scratch {
  fs::path write(const fs::path& name, const std::string& data) const {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name, std::ios::binary) << data;
    return path / name;
  }
};

Message external(std::string_view location, std::string_view offset = "", std::string_view length = "") {
  Message t = tensor("w", 1, {2});
  auto entry = [&](std::string_view key, std::string_view value) {
    if (!value.empty() || key == "location") t.message(13, Message().text(1, key).text(2, value));
  };
  entry("location", location);
  entry("offset", offset);
  entry("length", length);
  return t.number(14, 1);
}

TEST_CASE("onnx reader: a model as plain data") {
  Message attribute = Message().text(1, "axis").number(3, -1).number(20, 2);
  Message relu = node("Softmax", {"x"}, {"y"}, "s").text(7, "ai.onnx").message(5, attribute);
  Message graph = Message().text(2, "g").message(1, relu).message(11, value("x", 1, {"batch", "3", "?"}));
  graph.message(12, value("y", 1, {"batch", "3", "?"})).message(5, float_tensor("w", {2}, {1.5f, -2.f}));
  Message m = model(graph).text(2, "me").message(14, Message().text(1, "k").text(2, "v"));
  auto read_back = read(m);
  CHECK(read_back.ir_version == 9);
  CHECK(read_back.opsets.at(0).version == 18);
  CHECK(read_back.producer_name == "me");
  CHECK(read_back.metadata.at(0).second == "v");
  const auto& n = read_back.graph.nodes.at(0);
  CHECK(n.op_type == "Softmax");
  CHECK(n.domain.empty());
  CHECK(std::get<int64_t>(n.attributes.at(0).value) == -1);
  const auto& dims = *read_back.graph.inputs.at(0).type.dims;
  CHECK(dims[0].name == "batch");
  CHECK(*dims[1].value == 3);
  CHECK(!dims[2].value);
  const auto& w = read_back.graph.initializers.at(0);
  CHECK(as_text(w.bytes) == float_bytes({1.5f, -2.f}));
  CHECK(w.bytes.data() > read_back.file.data());  // points into the file: not copied
  CHECK(w.bytes.data() < read_back.file.data() + read_back.file.size());
}

TEST_CASE("onnx reader: numbers in typed fields") {
  auto bytes = [](const Message& t) {
    return std::string(as_text(read(with_initializer(t)).graph.initializers.at(0).bytes));
  };
  CHECK(bytes(tensor("w", 10, {2}).packed(5, {0x3c00, 0xc000})) == std::string("\x00\x3c\x00\xc0", 4));
  CHECK(bytes(tensor("w", 3, {3}).number(5, -1).packed(5, {2, -128})) == "\xff\x02\x80");
  CHECK(bytes(tensor("w", 9, {2}).packed(5, {1, 0})) == std::string("\1\0", 2));
  CHECK(bytes(tensor("w", 22, {3}).packed(5, {0x21, 0x0f})) == "\x21\x0f");
  CHECK(bytes(tensor("w", 7, {1}).packed(7, {-2})) == "\xfe\xff\xff\xff\xff\xff\xff\xff");
  CHECK(bytes(tensor("w", 12, {1}).packed(11, {0xffffffff})) == "\xff\xff\xff\xff");
  CHECK(bytes(tensor("w", 1, {3}).float32(4, 1).text(4, float_bytes({2, 3}))) == float_bytes({1, 2, 3}));
  auto strings = read(with_initializer(tensor("w", 8, {2}).text(6, "a").text(6, "b")));
  CHECK(strings.graph.initializers.at(0).strings.at(1) == "b");
}

TEST_CASE("onnx reader: every kind of attribute") {
  Message inner = Message().text(2, "body").message(1, node("Relu", {"a"}, {"b"}));
  Message n = node("Op", {}, {});
  auto add = [&](Message body, std::string_view name, int type) { n.message(5, body.text(1, name).number(20, type)); };
  add(Message().float32(2, 0.5f), "f", 1);
  add(Message().text(4, "text"), "s", 3);
  add(Message().message(5, float_tensor("", {}, {4})), "t", 4);
  add(Message().message(6, inner), "g", 5);
  add(Message().text(7, float_bytes({1, 2})).float32(7, 3), "fs", 6);
  add(Message().packed(8, {1, -2}).number(8, 3), "is", 7);
  add(Message().text(9, "a").text(9, ""), "ss", 8);
  add(Message().message(11, inner).message(11, inner), "gs", 10);
  add(Message(), "default", 2);
  n.message(5, Message().text(1, "untyped").number(3, 7));
  auto m = read(model(Message().message(1, n)));
  const auto& a = m.graph.nodes.at(0).attributes;
  CHECK(std::get<float>(a[0].value) == 0.5f);
  CHECK(std::get<std::string_view>(a[1].value) == "text");
  CHECK(std::get<std::vector<onnx::TensorData>>(a[2].value).at(0).bytes.size() == 4);
  CHECK(std::get<std::vector<const onnx::Graph*>>(a[3].value).at(0)->nodes.at(0).op_type == "Relu");
  CHECK(std::get<std::vector<float>>(a[4].value) == std::vector<float>{1, 2, 3});
  CHECK(std::get<std::vector<int64_t>>(a[5].value) == std::vector<int64_t>{1, -2, 3});
  CHECK(std::get<std::vector<std::string_view>>(a[6].value).size() == 2);
  CHECK(std::get<std::vector<const onnx::Graph*>>(a[7].value).at(1)->name == "body");
  CHECK(std::get<int64_t>(a[8].value) == 0);
  CHECK(a[9].kind == onnx::AttributeKind::integer);
}

TEST_CASE("onnx reader: types of values") {
  auto wrap = [](int field, const Message& type) { return Message().message(field, Message().message(1, type)); };
  Message tensor_type = Message().message(1, Message().number(1, 7));
  auto read_type = [](const Message& type) {
    return read(model(Message().message(11, Message().text(1, "x").message(2, type)))).graph.inputs.at(0).type;
  };
  auto nested = read_type(wrap(9, wrap(4, tensor_type)));
  CHECK(nested.kind == onnx::TypeProto::Kind::optional);
  CHECK(nested.inner.at(0).kind == onnx::TypeProto::Kind::sequence);
  CHECK(nested.inner.at(0).inner.at(0).element == DType::i64);
  CHECK(!nested.inner.at(0).inner.at(0).dims);
  auto map = read_type(Message().message(5, Message().number(1, 8).message(2, tensor_type)));
  CHECK(map.element == DType::string);
  Message deep = tensor_type;
  for (int i = 0; i < 70; ++i) deep = wrap(4, deep);
  CHECK(has(error_of([&] { read_type(deep); }), "E152"));
}

TEST_CASE("onnx reader: functions") {
  Message f = Message().text(1, "F").text(10, "mine").text(4, "a").text(5, "b").text(6, "alpha");
  f.message(7, node("Relu", {"a"}, {"b"}).message(5, Message().text(1, "k").text(21, "alpha").number(20, 2)));
  f.message(9, Message().text(1, "").number(2, 17)).message(11, Message().text(1, "beta").number(3, 5).number(20, 2));
  auto m = read(model(Message()).message(25, f));
  const auto& function = m.functions.at(0);
  CHECK(function.domain == "mine");
  CHECK(function.nodes.at(0).attributes.at(0).reference == "alpha");
  CHECK(std::get<int64_t>(function.attribute_defaults.at(0).value) == 5);
  CHECK(function.opsets.at(0).version == 17);
}

TEST_CASE("onnx reader: files that are not a model") {
  CHECK(has(error_in(""), "error[E101]: the model is empty (0 bytes)"));
  CHECK(has(error_in("\x1f\x8b\x08 gzip"), "error[E102]: the model is gzip data"));
  CHECK(has(error_in("\xd5\x11\x22\x33 noise"), "(starts d5 11 22 33)"));
  CHECK(has(error_in("version https://git-lfs.github.com/spec/v1\noid sha256:00"), "error[E104]"));
  CHECK(has(error_in("<!DOCTYPE html><html><title>404 Not Found</title>"),
            "E105]: the model is an HTML page (\"404 Not Found\")"));
  CHECK(has(error_in(std::string("\x80\x02}q\x00.", 6)), "error[E107]"));
  CHECK(has(error_in("PK\x03\x04....archive/data.pkl"), "error[E107]"));
  CHECK(has(error_in("PK\x03\x04" + std::string(100'000, ' ') + "archive/data.pkl"), "torch.export.export(model,"));
  CHECK(has(error_of([] { onnx::read_model("no/such/file.onnx"); }), "error[E106]"));
  CHECK(has(error_of([] { onnx::read_model("/"); }), "error[E106]"));
}

TEST_CASE("onnx reader: files of other frameworks: what they are, and how they become ONNX") {
  const std::string weights = std::string("\x40\0\0\0\0\0\0\0", 8) + "{\"w\":{\"dtype\":\"F32\"}}";
  const struct {
    std::string file, what, remedy;
  } files[] = {
      {"PK\x03\x04....m/archive_format", "is a program of torch.export (.pt2)", "torch.export.load(FILE)"},
      {"PK\x03\x04....serialized_exported_program.json....data.pkl", "(.pt2)", "dynamo=True"},
      {weights, "is a safetensors file, weights without a model", "optimum-cli export onnx"},
      {"\x08" + weights.substr(1), "is a safetensors file", "optimum-cli"},  // begins as an ONNX file does
      {Message().number(1, 1).message(2, Message().message(1, Message().text(4, "serve"))).data,
       "is a TensorFlow SavedModel", "this reads ONNX models only"},
      {"GGUF\x03", "is a GGUF file", "onnxruntime_genai.models.builder"},
      {"\x89HDF\r\n", "is an HDF5 file", "format='onnx'"},
  };
  for (const auto& [file, what, remedy] : files) {
    const std::string error = error_in(file);
    CAPTURE(error);
    CHECK(has(error, "error[E102]"));
    CHECK(has(error, what));
    CHECK(has(error, remedy));
  }
}

TEST_CASE("onnx reader: models cut short name the innermost field") {
  std::string file = with_initializer(float_tensor("w", {192}, std::vector<float>(192))).data;
  auto error = error_in(file.substr(0, file.size() - 437));
  CHECK(has(
      error,
      "error[E103]: the model ends inside graph.initializer[0].raw_data: 768 bytes claimed, 331 left at offset 0x"));
  for (size_t length = 0; length < file.size(); ++length) {
    CAPTURE(length);
    CHECK(!error_in(file.substr(0, length)).empty());
  }
  CHECK(has(error_in(Message().number(1, 9).tag(7, 2).raw(std::string(10, '\xff')).raw("\x7f")), "E108"));
  CHECK(has(error_in(Message().number(1, 9).tag(7, 3)), "wire type 3"));
  CHECK(has(error_in(model(Message().message(1, Message().number(4, 1)))),
            "graph.node[0].op_type has wire type 0 where 2 belongs"));
}

TEST_CASE("onnx reader: parts and versions") {
  CHECK(has(error_in(Message().number(1, 9)), "error[E110]"));
  CHECK(has(error_in(Message().number(1, 9).message(7, Message())), "E111]: the model has no opset_import; need 1-28"));
  CHECK(has(error_in(model(Message(), 999)), "error[E112]: opset 999 is newer than 28"));
  CHECK(has(error_in(model(Message(), 0)), "error[E113]: opset 0 is older than 1"));
  CHECK(has(error_in(model(Message()).number(1, 999)), "error[E112]: IR version 999 is newer than 14"));
  CHECK(read(model(Message(), 999), {.assume_opset = 18}).opsets.at(0).version == 18);
  Message nodes;
  for (int i = 0; i < 4; ++i) nodes.message(1, node("Relu", {"a"}, {"b"}));
  CHECK(has(error_of([&] { read(model(nodes), {.max_nodes = 3}); }), "more than 3 nodes"));
}

TEST_CASE("onnx reader: tensors whose dims, type and bytes disagree") {
  auto error = [](const Message& t) { return error_in(with_initializer(t)); };
  CHECK(has(error(tensor("w", 1, {1LL << 33, 1LL << 33}).text(9, "abcd")), "E146"));
  CHECK(has(error(tensor("w", 11, {1LL << 60}).text(9, "abcd")), "E146"));
  CHECK(has(error(tensor("w", 1, {1000000, 1000000}).text(9, "abcd")),
            "E147]: tensor 'w' (graph.initializer[0]) claims 4000000000000 bytes (f32[1000000, 1000000]), has 4"));
  CHECK(has(error(tensor("w", 1, {3}).text(9, "abcdefgh")),
            "E148]: tensor 'w' (graph.initializer[0]) claims 12 bytes (f32[3]), has 8"));
  CHECK(has(error(tensor("w", 1, {1}).text(9, "abcdefgh")), "E148"));
  CHECK(
      has(error(tensor("w", 99, {1}).text(9, "abcd")), "E149]: tensor 'w' (graph.initializer[0]) has element type 99"));
  CHECK(has(error(tensor("w", 1, {-2, 2}).text(9, "abcd")), "E150]: tensor 'w' (graph.initializer[0]) has dim -2"));
  CHECK(has(error(tensor("w", 8, {2}).text(6, "a")), "E148"));
  CHECK(has(error(tensor("w", 1, {2})), "E148"));
  CHECK(error(tensor("w", 1, {1LL << 62, 1LL << 62, 0})).empty());
  CHECK(has(error(tensor("w\x1b[2J\xff", 99, {})), "'w\\x1b[2J\\xff'"));
}

TEST_CASE("onnx reader: nesting is bounded and costs no stack") {
  auto nested = [](int depth) {
    Message g;
    for (int i = 0; i < depth; ++i) {
      g = Message().message(
          1, node("If", {"c"}, {"y"}).message(5, Message().text(1, "then_branch").message(6, g).number(20, 5)));
    }
    return model(g);
  };
  CHECK(read(nested(256)).subgraphs.size() == 256);
  CHECK(has(error_in(nested(257)), "E152]: graphs are nested more than 256 deep"));
  CHECK(has(error_in(nested(2000)), "error[E152]"));
}

TEST_CASE("onnx reader: a file of 5 GiB") {
  Folder folder;
  constexpr uint64_t size = 5ULL << 30;
  std::string head = tensor("big", 2, {static_cast<int64_t>(size)}).tag(9, 2).raw(varint(size)).data;
  Message start = Message().number(1, 9).message(8, Message().number(2, 18));
  start.tag(7, 2).raw(varint(1 + varint(head.size() + size).size() + head.size() + size));
  start.tag(5, 2).raw(varint(head.size() + size)).raw(head);
  fs::path file = folder.write("big.onnx", start.data);
  fs::resize_file(file, start.data.size() + size);
  std::ofstream(file, std::ios::app | std::ios::binary) << Message().text(2, "after").data;
  auto m = onnx::read_model(file);
  CHECK(m.graph.initializers.at(0).bytes.size() == size);
  CHECK(m.producer_name == "after");
}

TEST_CASE("onnx reader: external data that is beside the model") {
  Folder folder;
  std::string weights = "0123" + float_bytes({7, 8}) + "tail";
  auto values = [&](const fs::path& model_file) {
    return std::string(as_text(onnx::read_model(model_file).graph.initializers.at(0).bytes));
  };
  folder.write("w.bin", weights);
  folder.write("sub/w.bin", weights);
  CHECK(values(folder.write("a.onnx", with_initializer(external("w.bin", "4", "8")).data)) == float_bytes({7, 8}));
  CHECK(values(folder.write("b.onnx", with_initializer(external("sub/w.bin", "4")).data)) == float_bytes({7, 8}));
  // A cache in the layout of Hugging Face: both files are links to files in one folder of blobs.
  folder.write("blobs/11", with_initializer(external("model.onnx_data", "4")).data);
  folder.write("blobs/22", weights);
  fs::create_directories(folder.path / "snapshots/main");
  fs::create_symlink("../../blobs/11", folder.path / "snapshots/main/model.onnx");
  fs::create_symlink("../../blobs/22", folder.path / "snapshots/main/model.onnx_data");
  CHECK(values(folder.path / "snapshots/main/model.onnx") == float_bytes({7, 8}));
  // A model given as bytes, with a folder for its weight files.
  auto m =
      onnx::read_model(bytes_of(with_initializer(external("w.bin", "4")).data), {.external_data_dir = folder.path});
  CHECK(as_text(m.graph.initializers.at(0).bytes) == float_bytes({7, 8}));
  CHECK(has(error_in(with_initializer(external("w.bin"))), "error[E160]"));
}

TEST_CASE("onnx reader: external data that leaves the folder") {
  Folder outer;
  fs::path home = outer.path / "model";
  std::string weights = float_bytes({7, 8});
  outer.write("secret", weights);
  outer.write("model/w.bin", weights);
  fs::create_directories(home / "folder");
  fs::create_symlink("../secret", home / "link");
  fs::create_symlink("..", home / "parent");
  fs::create_hard_link(outer.path / "secret", home / "hard");
  REQUIRE(::mkfifo((home / "fifo").c_str(), 0600) == 0);
  fs::create_symlink("/proc/self/environ", home / "proc");
  fs::create_symlink("/dev/zero", home / "zero");
  auto error = [&](const Message& t) {
    fs::path file = outer.write("model/m.onnx", with_initializer(t).data);
    return error_of([&] { onnx::read_model(file); });
  };
  const std::string refused[] = {"../secret",
                                 "folder/../../secret",
                                 (outer.path / "secret").string(),
                                 "link",
                                 "parent/secret",
                                 "hard",
                                 "fifo",
                                 "zero",
                                 "/dev/zero",
                                 "folder",
                                 ".",
                                 "proc",
                                 "/proc/self/environ",
                                 "",
                                 std::string(5000, 'a'),
                                 std::string("w.bin\0x", 7),
                                 "./../model/../secret"};
  for (const auto& location : refused) {
    CAPTURE(location);
    CHECK(has(error(external(location)), "error[E160]: external data 'w' leaves the model's folder"));
  }
  CHECK(error(external("w.bin")).empty());
  CHECK(has(error(external("w.bin", "18446744073709551615", "8")), "E161"));
  CHECK(has(error(external("w.bin", "18446744073709551616")), "E161"));
  CHECK(has(error(external("w.bin", "-4")), "E161"));
  CHECK(has(error(external("w.bin", "4")),
            "E161]: tensor 'w' (graph.initializer[0]) needs 8 bytes at 4 of w.bin, which has 8"));
  CHECK(has(error(external("w.bin", "0", "4")), "E148"));
  CHECK(has(error(external("w.bin", "0", "99999999999999")), "E148"));
  CHECK(has(error(external("none.bin")), "E161"));
}

TEST_CASE("onnx reader: damaged models give errors, never crashes") {
  Message inner = Message().text(2, "body").message(1, node("Relu", {"a"}, {"b"}));
  Message cond = node("If", {"c"}, {"y"}).message(5, Message().text(1, "then_branch").message(6, inner).number(20, 5));
  Message graph = Message().message(1, node("Add", {"x", "w"}, {"c"})).message(1, cond);
  graph.message(5, float_tensor("w", {2}, {1, 2})).message(5, tensor("i", 7, {2}).packed(7, {300, -1}));
  graph.message(11, value("x", 1, {"n", "2"})).message(12, value("y", 1, {"n", "2"}));
  const std::string good = model(graph).data;
  REQUIRE(error_in(good).empty());
  std::mt19937 random(20261121);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bad = good;
    for (uint32_t flips = 1 + random() % 4; flips; --flips) bad[random() % bad.size()] = static_cast<char>(random());
    if (random() % 8 == 0) bad.resize(random() % bad.size());
    std::string error = error_in(bad);
    refused += !error.empty();
    auto is_unsafe = [](unsigned char c) { return (c < 0x20 && c != '\n') || c == 0x7f; };
    CHECK(std::ranges::none_of(error, is_unsafe));
  }
  CHECK(refused > 10000);
}

}  // namespace
