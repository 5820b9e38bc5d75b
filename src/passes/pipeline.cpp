// SPDX-License-Identifier: Apache-2.0
#include "passes/pipeline.h"

#include <chrono>
#include <cstdio>

#include "base/chip_features.h"
#include "base/error.h"
#include "base/file.h"
#include "base/knobs.h"
#include "base/log.h"
#include "base/watch.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/program_files.h"

namespace weft {
namespace {

#ifdef NDEBUG
constexpr bool is_debug_build = false;
#else
constexpr bool is_debug_build = true;
#endif

/// Returns the folder for dumps of the program: `asked_for`, or else WEFT_DUMP; empty if neither is set.
std::filesystem::path dump_folder(const std::filesystem::path& asked_for) {
  return asked_for.empty() ? std::filesystem::path(knobs().dump) : asked_for;
}

void write_text(const std::filesystem::path& path, std::string_view text) { write_file(path, as_bytes(text)); }

/// Returns the options of weft-pass for this context.
std::string words_for(const PassContext& context) {
  std::string words = cat(" --chip '", chip_name(context.chip), "'");
  if (context.precision != DType::f32) words += cat(" --precision ", name(context.precision));
  if (context.ranks.count > 1) words += cat(" --rank ", context.ranks.number, "/", context.ranks.count);
  for (const std::string& node : context.keep_f32) words += cat(" --keep-f32 '", node, "'");
  return words;
}

/// Writes the program from before the failed pass, and the command that runs the pass on it.
void keep_failure(const std::filesystem::path& folder, std::string_view pass, std::string_view before,
                  const PassContext& context) {
  std::filesystem::path program = folder / cat("before_", pass, ".txt");
  write_text(program, before);
  write_text(folder / cat("failed_", pass, ".sh"),
             cat("weft-pass ", pass, " before_", pass, ".txt", words_for(context), "\n"));
  log(LogLevel::error, "pass ", pass, " failed; the program before it is ", program.string());
}

}  // namespace

void Pipeline::operator()(std::string_view name, const Pass& pass) {
  if (stopped_) return;
  // Keeps the text of the program for keep_failure, because the pass changes the program in place.
  std::filesystem::path folder = dump_folder(options_.dump_directory);
  std::string before = folder.empty() ? "" : text_with_blobs(program_, folder);
  auto begin = std::chrono::steady_clock::now();
  try {
    run_on_all(name, pass);
    if (is_debug_build || knobs().verify_passes) verify(program_, name);
  } catch (Error&) {
    if (!folder.empty()) keep_failure(folder, name, before, context_);
    throw;
  }
  std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  seconds_.emplace_back(name, taken.count());
  show(name);
  stopped_ = name == options_.stop_after;
}

void Pipeline::run_on_all(std::string_view name, const Pass& pass) {
  for (size_t i = 0; i < program_.modules().size(); ++i) {
    check_watch();
    Module& module = *program_.modules()[i];
    changes_[name] += pass(module);
    module.remove_dead();
  }
  program_.remove_unused_modules();
}

void Pipeline::show(std::string_view name) {
  if (debug_enabled(5, name))
    std::fprintf(stderr, "--- after %s\n%s", std::string(name).c_str(), print(program_).c_str());
  if (options_.dump_directory.empty()) return;
  std::filesystem::create_directories(options_.dump_directory);
  size_t number = options_.first_number + seconds_.size() - 1;
  write_text(options_.dump_directory / cat(number < 10 ? "0" : "", number, "_", name, ".txt"),
             text_with_blobs(program_, options_.dump_directory));
}

Pass until_settled(Pass pass, int limit) {
  return [pass = std::move(pass), limit](Module& module) {
    bool changed = false;
    for (int round = 0; round < limit && pass(module); ++round) changed = true;
    return changed;
  };
}

}  // namespace weft
