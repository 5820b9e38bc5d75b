// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/knobs.h"
#include "base/text.h"
#include "driver/options.h"
#include "driver/verbs.h"

namespace weft::driver {
namespace {

constexpr const char* server_script = R"(
import importlib.util, sys
if importlib.util.find_spec("weft") is None:
    print(f"error[E219]: {sys.executable} has no package weft\n   hint: pip install 'weft[serve]', or name a Python that has it with --python", file=sys.stderr)
    sys.exit(4)
from weft.serve.__main__ import main
sys.exit(main(sys.argv[1:]))
)";

/// In a build tree, adds the build's Python package to PYTHONPATH. An installed command uses the package that is
/// installed for its Python.
void find_package_of_build() {
  std::error_code none;
  auto package = std::filesystem::read_symlink("/proc/self/exe", none).parent_path().parent_path() / "python";
  if (none || !std::filesystem::exists(package / "weft" / "__init__.py", none)) return;
  std::string before = environment("PYTHONPATH");
  ::setenv("PYTHONPATH", (before.empty() ? package.string() : cat(package.string(), ":", before)).c_str(), 1);
}

/// Removes `--python PATH` or `--python=PATH` from the words and returns PATH, else the default Python.
std::string take_python(std::vector<std::string>& words) {
  std::string python = own_program().size() > 1 ? own_program()[0] : "python3", prefix = "--python=";
  for (auto at = words.begin(); at != words.end();) {
    if (at->starts_with(prefix)) {
      python = at->substr(prefix.size());
      at = words.erase(at);
    } else if (*at == "--python" && at + 1 != words.end()) {
      python = *(at + 1);
      at = words.erase(at, at + 2);
    } else ++at;
  }
  return python;
}

[[noreturn]] void exec_python(std::string python, std::vector<std::string> words) {
  words.insert(words.begin(), {python, "-c", server_script});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(python.c_str(), arguments.data());
  throw Error(
      {.kind = ErrorKind::unsupported,
       .code = "E219",
       .what = cat("weft serve needs Python, and ", printable(python), " did not start: ", std::strerror(errno)),
       .hint = "pip install 'weft[serve]'; --python PATH names a Python that has it"});
}

}  // namespace

int serve_verb(Words words) {
  CommandLine line(
      {.name = "serve",
       .purpose = "Serve models over HTTP and gRPC by the KServe v2 protocol, with a page to try them in a browser.\n"
                  "It runs in Python, which needs `pip install 'weft[serve]'`. All words but --python go there:\n"
                  "`weft serve --options` lists them.",
       .examples = {"weft serve model.onnx --port 8000",
                    "weft serve classify=model.onnx --model-folder models --grpc-port 8001 --max-batch 32"}});
  std::string shown;
  line.value("--python", "PATH", shown, "the Python that has the package (this one, or python3)");
  bool wants_help = std::ranges::any_of(words, [](const std::string& w) { return w == "-h" || w == "--help"; });
  if (wants_help) return line.parse(std::vector<std::string>{"--help"}), exit_done;
  std::vector<std::string> rest(words.begin(), words.end());
  std::string python = take_python(rest);
  if (rest == std::vector<std::string>{"--options"}) rest = {"--help"};
  find_package_of_build();
  exec_python(std::move(python), std::move(rest));
}

}  // namespace weft::driver
