// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>

#include "base/knobs.h"

namespace weft {
namespace {

std::atomic<LogLevel> log_level{LogLevel::warning};
std::mutex logger_mutex;

const char* name(LogLevel level) {
  switch (level) {
    case LogLevel::error: return "error";
    case LogLevel::warning: return "warning";
    case LogLevel::note: return "note";
    case LogLevel::info: return "info";
    case LogLevel::debug: return "debug";
    case LogLevel::trace: return "trace";
  }
  return "";
}

void write_to_stderr(LogLevel level, std::string_view text) {
  std::fprintf(stderr, "%s: %.*s\n", name(level), static_cast<int>(text.size()), text.data());
}

Logger& logger() {
  static Logger current = write_to_stderr;
  return current;
}

}  // namespace

void set_logger(Logger replacement) {
  std::scoped_lock lock(logger_mutex);
  logger() = replacement ? std::move(replacement) : write_to_stderr;
}

void set_log_level(LogLevel level) { log_level = level; }

bool log_enabled(LogLevel level) { return level <= log_level.load(std::memory_order_relaxed); }

void log_text(LogLevel level, std::string_view text) {
  std::scoped_lock lock(logger_mutex);
  logger()(level, text);
}

bool debug_enabled(int scale, std::string_view part) {
  const std::string& knob = knobs().debug;
  if (knob.empty()) return false;
  auto pieces = split(knob, ',');
  int wanted = 0;
  std::from_chars(pieces[0].data(), pieces[0].data() + pieces[0].size(), wanted);
  if (wanted < scale) return false;
  if (pieces.size() == 1 || part.empty()) return true;
  return std::find(pieces.begin() + 1, pieces.end(), part) != pieces.end();
}

}  // namespace weft
