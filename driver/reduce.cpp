// SPDX-License-Identifier: Apache-2.0
// weft reduce shrinks a failing model by delta debugging (Zeller and Hildebrandt, "Simplifying and isolating
// failure-inducing input", 2002): it drops sequences of nodes, at first half of the nodes, as long as the rest fails in
// the same way. A run of the whole model on the reference computes the inputs of the remaining nodes. Each try is a
// `weft verify` in its own process, so a crash ends only that try.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "api/c/options_text.h"
#include "base/error.h"
#include "base/file.h"
#include "base/file_reading.h"
#include "base/text.h"
#include "compile/stages.h"
#include "driver/inputs.h"
#include "driver/model_options.h"
#include "driver/model_parts.h"
#include "driver/terminal.h"
#include "driver/verbs.h"
#include "frontends/onnx/export/export.h"
#include "frontends/onnx/file/reader.h"

extern char** environ;

namespace weft::driver {
namespace {

namespace fs = std::filesystem;

struct ReduceSettings {
  ModelOptions model;
  InputOptions input;
  std::string out = "reduced", against = "ref", python = "python3";
  int64_t seconds = 120;
};

/// How a model fails: "signal 11", "it takes too long", "answers differ", or an error code such as "E402" ("no code" if
/// the output has none). Empty if the model does not fail.
using Failure = std::string;

/// Runs `weft` with these words and its output in `log`. Returns the status of waitpid, or -1 if it took too long.
int run_command(const std::vector<std::string>& words, const fs::path& log, int64_t seconds) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  pid_t child = 0;
  int failed = posix_spawn(&child, "/proc/self/exe", &files, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (failed)
    throw Error({.kind = ErrorKind::resource,
                 .code = "E106",
                 .what = cat("weft cannot start itself: ", std::strerror(failed))});
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  for (int status = 0;; std::this_thread::sleep_for(std::chrono::milliseconds(2))) {
    if (waitpid(child, &status, WNOHANG) == child) return status;
    if (std::chrono::steady_clock::now() < end) continue;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return -1;
  }
}

std::string read_text(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Returns the error code in the output of a command: E402 for "error[E402]".
std::string code_in(const std::string& text) {
  size_t at = text.find("error[");
  return at == std::string::npos ? "no code" : text.substr(at + 6, 4);
}

Failure failure_of(int status, const std::string& said) {
  if (status == -1) return "it takes too long";
  if (WIFSIGNALED(status)) return cat("signal ", WTERMSIG(status));
  int code = WEXITSTATUS(status);
  if (code == exit_done) return {};
  return code == exit_differs ? "answers differ" : code_in(said);
}

/// True if the value is or contains a map. Maps cannot be written as test data, so no part of a model can read them.
bool holds_map(const Tensor& value) {
  return value.kind == Type::Kind::map || (!value.is_tensor() && std::ranges::any_of(*value.items, holds_map));
}

class Reduction {
 public:
  Reduction(ReduceSettings& settings, const fs::path& folder)
      : s_(settings), folder_(folder), parts_(model_of(settings.model)) {
    find_values();
  }

  void run() {
    std::vector<size_t> nodes(parts_.node_count());
    for (size_t i = 0; i < nodes.size(); ++i) nodes[i] = i;
    wanted_ = failure(nodes);
    if (wanted_.empty()) {
      open_.clear();  // the model does not fail with symbolic sizes: tries fixed sizes
      wanted_ = failure(nodes);
    }
    if (wanted_.empty())
      throw Error({.kind = ErrorKind::usage,
                   .code = "E215",
                   .what = "the model does not fail with these inputs",
                   .hint = "give the device, the inputs and the seed that it fails with"});
    note(cat("the model fails: ", wanted_, "; ", nodes.size(), " nodes"));
    for (size_t length = std::max<size_t>(nodes.size() / 2, 1); length > 0; length /= 2) {
      for (size_t at = 0; at < nodes.size();) {
        std::vector<size_t> rest = without(nodes, at, length);
        bool is_enough = !rest.empty() && failure(rest) == wanted_;
        if (is_enough) nodes = std::move(rest), note(cat("  ", nodes.size(), " nodes"));
        else at += length;
      }
    }
    failure(nodes);  // writes the files of the smallest failing model
    note(cat("wrote ", printable(s_.out), ": model.onnx and its inputs"));
    print(cat(s_.out, ": ", nodes.size(), " of ", parts_.node_count(), " nodes; ", wanted_, " (", tries_, " tries)"));
  }

 private:
  /// Reads the model. A model of another framework is first written as an ONNX model, as `weft convert` does.
  static onnx::Model model_of(ModelOptions& options) {
    fs::path file = model_file(options.model);
    auto other = reading_files([&] { return import_other(map_file(file), place_of(file), options.compile); });
    if (!other) return onnx::read_model(file);
    CompileOptions& chosen = options.compile;  // the imported program already reflects these options
    chosen.signature.clear(), chosen.tag.clear(), chosen.outputs.clear(), chosen.channels_first = false;
    return onnx::read_model(Bytes::copy(as_bytes(onnx::export_program(*other))), {.source = options.model});
  }

  static std::vector<size_t> without(const std::vector<size_t>& nodes, size_t at, size_t length) {
    std::vector<size_t> rest(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(at));
    size_t next = std::min(at + length, nodes.size());
    rest.insert(rest.end(), nodes.begin() + static_cast<std::ptrdiff_t>(next), nodes.end());
    return rest;
  }

  /// Makes the inputs and computes the values of all nodes by the reference. If the reference cannot run the whole
  /// model, computes only the values of the first nodes, as many as the reference can run.
  void find_values() {
    size_t known = 0, refused = parts_.node_count() + 1;
    if (try_values(refused - 1)) return;
    while (refused - known > 1) {
      size_t middle = (known + refused) / 2;
      (try_values(middle) ? known : refused) = middle;
    }
    if (known == 0) find_values_of(0);  // throws the error, which occurs before the first node
    note(cat("the reference takes the first ", known, " nodes only"));
  }

  bool try_values(size_t count) {
    try {
      find_values_of(count);
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  void find_values_of(size_t count) {
    CompileOptions compile = s_.model.compile;
    compile.device = "ref";
    compile.precision = Precision::f32;
    compile.keep_f32.clear();
    compile.folder = fs::path(s_.model.model).parent_path();
    std::string nodes = parts_.first_nodes(count);
    auto executable = compile_bytes(Bytes::copy(as_bytes(nodes)), compile);
    auto inputs = make_inputs(*executable, s_.input);
    auto results = executable->new_context()->run(inputs);
    auto enter = [&](const Port& port, const Tensor& value) {
      values_[port.name] = value;
      if (value.is_tensor()) open_[port.name] = port.type.shape.dims;
    };
    for (size_t i = 0; i < inputs.size(); ++i) enter(executable->inputs()[i], inputs[i]);
    for (size_t i = 0; i < results.size(); ++i) enter(executable->outputs()[i], results[i]);
  }

  Failure failure(const std::vector<size_t>& nodes) {
    ++tries_;
    ModelParts::Part part = parts_.part(nodes, values_, open_);
    if (!part.is_whole ||
        std::ranges::any_of(part.inputs, [&](const std::string& name) { return holds_map(values_.at(name)); }))
      return {};
    fs::path model = folder_ / "model.onnx";
    write_file(model, as_bytes(part.bytes));
    std::vector<std::string> words = own_program();
    words.insert(words.end(), {"verify", model.string(), "--device", s_.model.compile.device, "--against", s_.against,
                               "--python", s_.python, "--precision", std::string(name(s_.model.compile.precision)),
                               "--threads", cat(s_.model.compile.threads)});
    for (const std::string& node : s_.model.compile.keep_f32) words.insert(words.end(), {"--keep-f32", node});
    for (size_t i = 0; fs::exists(folder_ / cat("input_", i, ".pb")); ++i)
      fs::remove(folder_ / cat("input_", i, ".pb"));
    for (size_t i = 0; i < part.inputs.size(); ++i) {
      fs::path file = folder_ / cat("input_", i, ".pb");
      std::string bytes = value_bytes(values_.at(part.inputs[i]));
      write_file(file, as_bytes(bytes));
      words.insert(words.end(), {"--input", cat(part.inputs[i], "=", file.string())});
    }
    fs::path log = folder_ / "said.txt";
    int status = run_command(words, log, s_.seconds);
    Failure found = failure_of(status, read_text(log));
    fs::remove(log);
    return found;
  }

  ReduceSettings& s_;
  fs::path folder_;
  ModelParts parts_;
  std::map<std::string, Tensor> values_;
  std::map<std::string, Dims> open_;
  Failure wanted_;
  int tries_ = 0;
};

}  // namespace

int reduce_verb(Words words) {
  CommandLine line(
      {.name = "reduce",
       .purpose = "Shrink a model that fails - answers that differ from the reference, a crash, a refusal - to\n"
                  "the few nodes that fail in the same way, in ONNX. Writes model.onnx and input_N.pb into a folder.",
       .examples = {"weft reduce model.onnx -o small --device gpu --precision f16",
                    "weft reduce model.onnx -o small --against onnxruntime --input test_data_set_0"}});
  ReduceSettings s;
  s.model.compile.device = "cpu";
  add_model_options(line, s.model);
  add_input_options(line, s.input);
  line.group("Results");
  line.value("--output,-o", "FOLDER", s.out, "folder for the small model and its inputs (reduced)");
  line.group("What fails");
  line.value("--against", "WHAT", s.against,
             "the reference to compare with: ref, or onnxruntime (in a Python that has it)");
  line.value("--python", "PATH", s.python, "the Python that has onnxruntime");
  line.value("--seconds", "N", s.seconds, "a trial that takes longer counts as failing");
  if (!line.parse(words)) return exit_done;
  fs::create_directories(s.out);
  Reduction(s, s.out).run();
  return exit_done;
}

}  // namespace weft::driver
