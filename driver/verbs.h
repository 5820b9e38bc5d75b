// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The command line and its verbs. A verb takes the words after its name, prints results on standard output and returns
/// the exit code; errors are thrown.
namespace weft::driver {

using Words = std::span<const std::string>;

int run_verb(Words words);
int compile_verb(Words words);
int perf_verb(Words words);
int verify_verb(Words words);
int compare_verb(Words words);
int convert_verb(Words words);
int quantize_verb(Words words);
int reduce_verb(Words words);
int inspect_verb(Words words);
int devices_verb(Words words);
int doctor_verb(Words words);
int ops_verb(Words words);
int knobs_verb(Words words);
int cache_verb(Words words);
int explain_verb(Words words);
int tune_verb(Words words);
int serve_verb(Words words);

struct Verb {
  std::string_view name;
  int (*call)(Words words);
  std::string_view purpose;
};
std::span<const Verb> verbs();

/// Runs the verb that `words` name, reports errors on standard error and returns the exit code. `program` has the words
/// by which this command can start itself again: {"weft"} or {"python3", "-m", "weft"}.
int command(Words words, std::vector<std::string> program);
const std::vector<std::string>& own_program();

/// The exit codes that do not stand for an ErrorKind.
constexpr int exit_done = 0, exit_differs = 1;

}  // namespace weft::driver
