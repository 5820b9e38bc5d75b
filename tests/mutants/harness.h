// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <string_view>

/// Shared code of the programs that damage files and read them. The outcome must be an answer or one of Weft's errors.
/// Bugs are crashes, reports of a sanitizer, more than 2 s of processor time (20 s with a sanitizer) or than 1 GiB.
namespace weft::test {

struct Sound {
  std::filesystem::path path;
  std::string bytes;
};

struct Mutants {
  std::function<std::string(const Sound&, std::mt19937_64&)> damage;
  /// Reads a damaged file as far as possible; returns a word for the outcome, or throws.
  std::function<std::string(const Sound&, std::string_view)> take;
};

/// `PROGRAM SEED FIRST COUNT FILE...`: prints the number of each mutant before it is read, "BUG: ..." if it reveals a
/// bug, and at the end how often each outcome occurred. `PROGRAM SEED N 1 FILE...` reads mutant N alone, and writes it
/// into the folder WEFT_DUMP, if set. `PROGRAM intact FIRST COUNT FILE...` reads COUNT files, from number FIRST on,
/// without damage.
int run_mutants(const Mutants& mutants, int count, char** words);

}  // namespace weft::test
