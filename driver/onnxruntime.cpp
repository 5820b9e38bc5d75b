// SPDX-License-Identifier: Apache-2.0
#include "driver/onnxruntime.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/knobs.h"
#include "base/text.h"
#include "driver/tensor_files.h"

extern char** environ;

namespace weft::driver {
namespace {

// The arrays in the files `inputs` and `outputs` (.npz) are named by position, because the names of tensors may not be
// valid file names.
constexpr const char* reference_script = R"(
import sys
import numpy, onnxruntime
model, inputs, outputs = sys.argv[1:]
options = onnxruntime.SessionOptions()
options.log_severity_level = 3
session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
given = numpy.load(inputs)
feeds = {port.name: given[str(i)] for i, port in enumerate(session.get_inputs())}
numpy.savez(outputs, **{str(i): value for i, value in enumerate(session.run(None, feeds))})
)";

[[noreturn]] void refuse_python(std::string what, std::string why, std::string hint) {
  throw Error({.kind = ErrorKind::unsupported,
               .code = "E216",
               .what = std::move(what),
               .why = std::move(why),
               .hint = std::move(hint)});
}

/// A private temporary folder; the destructor removes it with its contents.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "weft-verify-XXXXXX").string();
    if (!mkdtemp(pattern.data())) refuse_python(cat("cannot make a folder like ", pattern), "", "set TMPDIR");
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  std::filesystem::path operator/(const char* name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// Runs a program found by PATH and writes its output to `log`. Returns the exit code; -1 if it did not start or was
/// killed.
int run_program(std::vector<std::string> words, const std::filesystem::path& log) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t child = 0;
  int error = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (error != 0 || waitpid(child, &status, 0) < 0) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string last_line(const std::filesystem::path& log) {
  if (!std::filesystem::exists(log)) return {};
  std::string text(trim(as_text(map_file(log))));
  return printable(std::string_view(text).substr(text.rfind('\n') + 1));
}

}  // namespace

std::vector<Tensor> run_onnxruntime(const std::string& python, const std::filesystem::path& model,
                                    const Executable& executable, std::span<const Tensor> inputs) {
  TemporaryFolder folder;
  NamedTensors given;
  for (size_t i = 0; i < inputs.size(); ++i) given.emplace_back(cat(i), inputs[i]);
  write_tensors(folder / "inputs.npz", given);
  int code = run_program(
      {python, "-c", reference_script, model.string(), folder / "inputs.npz", folder / "outputs.npz"}, folder / "log");
  if (code != 0)
    refuse_python(cat("onnxruntime did not run the model (", python,
                      code < 0 ? " did not start" : cat(" gave exit code ", code), ")"),
                  last_line(folder / "log"), "--python PATH names a Python with onnxruntime and numpy");
  NamedTensors results = read_tensors(folder / "outputs.npz");
  check(results.size() == executable.outputs().size(), "onnxruntime gives as many outputs as the program");
  std::vector<Tensor> outputs;
  for (auto& [name, tensor] : results) outputs.push_back(std::move(tensor));
  return outputs;
}

}  // namespace weft::driver
