// SPDX-License-Identifier: Apache-2.0
// weft-mutants SEED FIRST COUNT MODEL...: damages models and takes each as far as it goes: read, import, passes,
// lowering, and a run of the reference when it is small. Every outcome but an error of its own or an answer is a bug: a
// crash, a report of a sanitizer, more than 2 s of processor time, more than 1 GiB of memory. Prints the number of each
// mutant before it and the outcomes at the end; `weft-mutants SEED N 1 MODEL... > /dev/null` is mutant N alone, and
// WEFT_DUMP keeps it as a file.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <map>

#include "base/error.h"
#include "base/knobs.h"
#include "frontends/onnx/import.h"
#include "frontends/onnx/reader.h"
#include "ir/verify.h"
#include "lower/lower.h"
#include "mutants/wire_tree.h"
#include "passes/channels_last.h"
#include "passes/expand_quantize.h"
#include "passes/passes.h"
#include "passes/rows_last.h"
#include "targets/ref/ref.h"

namespace {

using namespace weft;

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr double most_seconds = 20;  // an instrumented build without optimisation is some ten times slower
#else
constexpr double most_seconds = 2;
#endif
#else
constexpr double most_seconds = 2;
#endif
constexpr int64_t most_kilobytes = 1 << 20, most_elements = 1 << 20;

std::string read_file(const char* path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string mutant(const std::string& model, std::mt19937_64& random) {
  std::string out = model;
  auto tree = test::parse_wire(model);
  if (tree && random() % 4) {
    test::damage_tree(*tree, random);
    out = test::print_wire(*tree);
  }
  if (!tree || random() % 3 == 0) test::damage_bytes(out, random);
  return out;
}

/// Zeros for every input, when all sizes are known and small.
std::optional<std::vector<Tensor>> small_inputs(const Module& module) {
  std::vector<Tensor> inputs;
  for (const Instruction& i : module) {
    for (const Type& type : i.types) {
      if (!type.is_tensor() || !type.shape.is_static() || type.shape.elements().value() > most_elements)
        return std::nullopt;
    }
  }
  for (const Value& parameter : module.parameters()) {
    std::vector<int64_t> dims;
    for (const Dim& dim : parameter.dims()) dims.push_back(dim.value());
    MutableTensor tensor = allocate_tensor(parameter.dtype(), dims);
    std::fill_n(tensor.data, tensor.tensor.data.size(), std::byte{0});
    inputs.push_back(std::move(tensor.tensor));
  }
  return inputs;
}

std::string outcome(std::string_view bytes) {
  try {
    auto program = onnx::import_model(onnx::read_model(Bytes::copy(as_bytes(bytes)), {.source = "mutant"}));
    verify(*program, "import");
    Pipeline run(*program, {});
    add_passes(run);
    run("expand_quantize", expand_quantize);
    run("channels_last", channels_last);
    run("rows_last", rows_last);
    verify(*program, "passes");
    lower(*program, host_chip());
    auto inputs = small_inputs(program->main());
    if (!inputs) return "accepted";
    RunOptions options{.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1)};
    make_reference(std::move(program))->new_context()->run(*inputs, options);
    return "ran";
  } catch (const Error& error) {
    if (error.info().kind == ErrorKind::internal) std::printf("BUG: %s\n", error.what());
    return error.info().code;
  } catch (const std::bad_alloc&) {
    return "E400";
  }
}

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

int64_t peak_kilobytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

}  // namespace

int main(int count, char** words) {
  if (count < 5) {
    std::fprintf(stderr, "usage: weft-mutants SEED FIRST COUNT MODEL...\n");
    return 2;
  }
  uint64_t seed = std::stoull(words[1]), first = std::stoull(words[2]), mutants = std::stoull(words[3]);
  std::vector<std::string> models;
  for (int i = 4; i < count; ++i) models.push_back(read_file(words[i]));
  std::map<std::string, int> outcomes;
  int64_t start = peak_kilobytes();
  for (uint64_t number = first; number < first + mutants; ++number) {
    std::seed_seq seeds{seed, number};
    std::mt19937_64 random(seeds);
    std::string bytes = mutant(models[random() % models.size()], random);
    std::printf("%llu\n", static_cast<unsigned long long>(number));
    std::fflush(stdout);
    if (!knobs().dump.empty()) write_file(std::filesystem::path(knobs().dump) / "mutant.onnx", as_bytes(bytes));
    double begin = cpu_seconds();
    ++outcomes[outcome(bytes)];
    double taken = cpu_seconds() - begin;
    if (taken > most_seconds) std::printf("BUG: took %.1f s\n", taken);
    if (peak_kilobytes() - start > most_kilobytes) {
      std::printf("BUG: took %lld MiB\n", static_cast<long long>((peak_kilobytes() - start) >> 10));
      start = peak_kilobytes();
    }
  }
  for (const auto& [what, times] : outcomes) std::printf("%s %d\n", what.c_str(), times);
}
