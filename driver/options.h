// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

/// The command line of one verb. Options are declared as data, from which parsing (by CLI11) and help are derived:
///
///     CommandLine line({.name = "run", .purpose = "Run a model once.", .examples = {"weft run m.onnx"}});
///     line.positional("MODEL", path, "the model");
///     line.value("--threads", "N", threads, "threads of the CPU");
///     if (!line.parse(words)) return 0;  // help was printed
///
/// `--name value`, `--name=value`, `-n value` and `-nvalue` are the same; `--` ends the options.
namespace weft::driver {

struct CommandInfo {
  std::string name;                   ///< "run"
  std::string purpose;                ///< a sentence or two
  std::vector<std::string> examples;  ///< command lines
};

class CommandLine {
 public:
  explicit CommandLine(CommandInfo info);

  /// Adds a heading to the help, above the options that are added next. Options without a help text are not shown.
  void group(std::string title);
  void flag(std::string names, bool& target, std::string help);
  void flag(std::string names, std::function<void()> set, std::string help);
  void value(std::string names, std::string metavar, std::string& target, std::string help);
  void value(std::string names, std::string metavar, int& target, std::string help);
  void value(std::string names, std::string metavar, int64_t& target, std::string help);
  void value(std::string names, std::string metavar, double& target, std::string help);
  /// Adds an option that may be given several times.
  void value(std::string names, std::string metavar, std::vector<std::string>& target, std::string help);
  void value(std::string names, std::string metavar, std::function<void(std::string_view)> set, std::string help);
  /// Declares an option with an optional number: `--name` alone means `value`.
  void value_or(std::string names, std::string metavar, double& target, double value, std::string help);
  void positional(std::string metavar, std::string& target, std::string help, bool required = true);

  /// Parses the words and sets the targets. Returns false if help was requested and printed. Throws E202 for words that
  /// fit no option, with the nearest names.
  bool parse(std::span<const std::string> words);
  std::string help() const;

 private:
  struct Option {
    std::vector<std::string> names{};  // "-n", "--iterations"
    std::string metavar{};             // empty for a flag
    std::string help{};
    std::function<void(std::string_view)> set{};
    bool is_heading = false, is_optional = false;
  };
  struct Positional {
    std::string metavar, help;
    std::string* target;
    bool required;
  };

  void add(std::string names, std::string metavar, std::function<void(std::string_view)> set, std::string help);
  static void declare(CLI::App& app, const Option& option);
  void add_general_options();
  [[noreturn]] void refuse(std::string what, std::string hint = {}) const;
  [[noreturn]] void refuse_word(const std::string& word) const;
  std::string usage() const;

  CommandInfo info_;
  std::vector<Option> options_;
  std::vector<Positional> positionals_;
};

}  // namespace weft::driver
