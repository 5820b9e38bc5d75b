// SPDX-License-Identifier: Apache-2.0
#include "passes/pipeline.h"

#include <chrono>
#include <cstdio>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/knobs.h"
#include "base/log.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace weft {
namespace {

#ifdef NDEBUG
constexpr bool is_debug_build = false;
#else
constexpr bool is_debug_build = true;
#endif

/// The folder that says everything about a failing step, or empty when none was asked for.
std::filesystem::path failure_folder(const std::filesystem::path& dump_directory, std::string_view pass) {
  std::filesystem::path base = dump_directory.empty() ? std::filesystem::path(knobs().dump) : dump_directory;
  return base.empty() ? base : base / cat("failed_", pass);
}

void write_text(const std::filesystem::path& path, std::string_view text) { write_file(path, as_bytes(text)); }

}  // namespace

void write_program(const Program& program, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder / "blobs");
  PrintContext context{.name_blob = [&](const Tensor& tensor) {
    std::string name = to_string(hash128(std::span<const std::byte>(tensor.data)));
    std::filesystem::path path = folder / "blobs" / cat(name, ".bin");
    if (!std::filesystem::exists(path)) write_file(path, tensor.data);
    return name;
  }};
  write_text(folder / "program.txt", print(program, context));
}

void Pipeline::operator()(std::string_view name, const Pass& pass) {
  if (stopped_) return;
  // What is needed to run a failing step again must be kept before it: the pass works in place.
  std::string before;
  std::filesystem::path folder = failure_folder(options_.dump_directory, name);
  if (!folder.empty()) before = print(program_);
  auto begin = std::chrono::steady_clock::now();
  try {
    run_on_all(pass);
    if (is_debug_build || knobs().verify_passes) verify(program_, name);
  } catch (Error&) {
    if (!folder.empty()) {
      std::filesystem::create_directories(folder);
      write_text(folder / "before.txt", before);
      write_text(folder / "command.txt", cat(options_.command_line, "\n"));
      log(LogLevel::error, "pass ", name, " failed; ", folder.string(), " holds the program before it");
    }
    throw;
  }
  std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  seconds_.emplace_back(name, taken.count());
  show(name);
  stopped_ = name == options_.stop_after;
}

void Pipeline::run_on_all(const Pass& pass) {
  for (size_t i = 0; i < program_.modules().size(); ++i) {
    Module& module = *program_.modules()[i];
    pass(module);
    module.remove_dead();
  }
}

void Pipeline::show(std::string_view name) {
  if (debug_enabled(5, name))
    std::fprintf(stderr, "--- after %s\n%s", std::string(name).c_str(), print(program_).c_str());
  if (options_.dump_directory.empty()) return;
  std::filesystem::create_directories(options_.dump_directory);
  write_text(options_.dump_directory / cat(seconds_.size() < 10 ? "0" : "", seconds_.size(), "_", name, ".txt"),
             print(program_));
}

Pass until_settled(Pass pass, int limit) {
  return [pass = std::move(pass), limit](Module& module) {
    bool changed = false;
    for (int round = 0; round < limit && pass(module); ++round) changed = true;
    return changed;
  };
}

}  // namespace weft
