// SPDX-License-Identifier: Apache-2.0
// weft-mutants SEED FIRST COUNT MODEL...: damages models and processes each as far as possible: read, import, passes,
// lowering, and a run of the reference if the model is small (tests/mutants/harness.h).
#include <chrono>
#include <cstring>

#include "frontends/onnx/file/reader.h"
#include "frontends/onnx/import/import.h"
#include "frontends/tensorflow/graph_import.h"
#include "frontends/tensorflow/saved_model.h"
#include "ir/verify.h"
#include "lower/lower.h"
#include "mutants/harness.h"
#include "mutants/model_damage.h"
#include "mutants/wire_tree.h"
#include "passes/passes.h"
#include "runtime/ref_executable.h"

namespace {

using namespace weft;

constexpr int64_t max_elements = 1 << 20;

/// Damages a flatbuffer, which consists of words: offsets, lengths, sizes, numbers of tensors. Replaces some words by
/// other words of the file or by extreme values, or changes them slightly.
std::string damaged_words(std::string out, std::mt19937_64& random) {
  constexpr uint32_t extremes[] = {0, 1, 2, 4, 0x7fffffff, 0x80000000, 0xffffffff, 0x10000};
  for (uint64_t count = 1 + random() % 4; count > 0; --count) {
    size_t words = out.size() / 4, at = 4 * (random() % words), from = 4 * (random() % words);
    uint32_t word = 0, other = extremes[random() % std::size(extremes)];
    std::memcpy(&word, out.data() + (random() % 2 ? at : from), 4);
    word = random() % 3 == 0 ? other : random() % 2 ? word + static_cast<uint32_t>(random() % 17) - 8 : word;
    std::memcpy(out.data() + at, &word, 4);
  }
  return out;
}

std::string damaged(const test::Sound& model, std::mt19937_64& random) {
  std::string out = model.bytes;
  if (tensorflow::is_lite_model(as_bytes(out)) && random() % 4) return damaged_words(std::move(out), random);
  auto tree = test::parse_wire(out);
  uint64_t how = random() % 11;
  if (tree && how != 0) {
    if (how < 4) test::damage_number(*tree, random);
    else if (how < 8) test::damage_tree(*tree, random);
    else test::damage_model(*tree, random);
    out = test::print_wire(*tree);
  }
  if (!tree || how == 0 || how == 4) test::damage_bytes(out, random);
  return out;
}

/// Returns zeros, or empty strings, for every input, if all sizes are known and small.
std::optional<std::vector<Tensor>> small_inputs(const Module& module) {
  std::vector<Tensor> inputs;
  for (const Instruction& i : module) {
    for (const Type& type : i.types) {
      if (type.is_tensor() && (!type.shape.is_static() || type.shape.elements().value() > max_elements))
        return std::nullopt;
    }
  }
  for (const Value& parameter : module.parameters()) {
    if (!parameter.type().is_tensor()) return std::nullopt;
    std::vector<int64_t> dims;
    for (const Dim& dim : parameter.dims()) dims.push_back(dim.value());
    if (parameter.dtype() == DType::string) {
      auto count = static_cast<size_t>(element_count(dims));
      inputs.push_back(make_string_tensor(dims, std::vector<std::string>(count)));
      continue;
    }
    MutableTensor tensor = allocate_tensor(parameter.dtype(), dims);
    std::fill_n(tensor.data, tensor.tensor.data.size(), std::byte{0});
    inputs.push_back(std::move(tensor.tensor));
  }
  return inputs;
}

std::unique_ptr<Program> imported(const test::Sound& sound, std::string_view bytes) {
  Bytes file = Bytes::copy(as_bytes(bytes));
  if (tensorflow::is_lite_model(file)) return tensorflow::import_lite(tensorflow::read_lite_model(file, "mutant"));
  if (tensorflow::is_saved_model(file))
    return tensorflow::import_graph(tensorflow::read_saved_model(file, sound.path.parent_path(), "mutant"));
  if (tensorflow::is_graph_model(file)) return tensorflow::import_graph(tensorflow::read_graph_model(file, "mutant"));
  return onnx::import_model(onnx::read_model(file, {.source = "mutant"}));
}

std::string take(const test::Sound& sound, std::string_view bytes) {
  auto program = imported(sound, bytes);
  verify(*program, "import");
  Pipeline run(*program, {}, {.chip = host_chip()});
  for (PassGroup group : {PassGroup::shared, PassGroup::for_chip}) run_passes(run, group);
  verify(*program, "passes");
  lower(*program, host_chip());
  auto inputs = small_inputs(program->main());
  if (!inputs) return "accepted";
  RunOptions options{.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1)};
  make_reference(std::move(program))->new_context()->run(*inputs, options);
  return "ran";
}

}  // namespace

int main(int count, char** words) { return test::run_mutants({damaged, take}, count, words); }
