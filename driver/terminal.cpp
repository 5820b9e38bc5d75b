// SPDX-License-Identifier: Apache-2.0
#include "driver/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/knobs.h"
#include "base/log.h"
#include "base/text.h"

namespace weft::driver {
namespace {

using Clock = std::chrono::steady_clock;

bool is_json_log = false;

bool wants_colour(int stream) {
  if (!environment("NO_COLOR").empty()) return false;
  std::string force = environment("CLICOLOR_FORCE");
  if (!force.empty() && force != "0") return true;
  return isatty(stream) && environment("TERM") != "dumb";
}

std::string_view ink_code(Ink ink) {
  switch (ink) {
    case Ink::plain: return "";
    case Ink::bold: return "\033[1m";
    case Ink::dim: return "\033[2m";
    case Ink::red: return "\033[1;31m";
    case Ink::green: return "\033[32m";
    case Ink::yellow: return "\033[33m";
    case Ink::cyan: return "\033[36m";
  }
  return "";
}

/// Returns the number of terminal columns of a text: one for each UTF-8 character.
size_t cells(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

bool looks_like_number(std::string_view text) {
  return text.empty() || std::string_view("0123456789+-.").find(text[0]) != std::string_view::npos;
}

void write_line(std::FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fputc('\n', stream);
}

constexpr std::string_view log_levels[] = {"error", "warning", "note", "info", "debug", "trace"};

void say(LogLevel level, std::string_view text, std::string_view code = {}) {
  if (!is_json_log) return write_line(stderr, text);
  nlohmann::ordered_json line{{"level", log_levels[static_cast<size_t>(level)]}, {"text", text}};
  if (!code.empty()) line["code"] = code;
  write_line(stderr, line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::string scaled(double value, const char* unit) { return cat(show_number(value), " ", unit); }

}  // namespace

LogLevel parse_log_level(std::string_view text) {
  for (size_t i = 0; i < std::size(log_levels); ++i) {
    if (text == log_levels[i]) return static_cast<LogLevel>(i);
  }
  throw Error({.kind = ErrorKind::usage,
               .code = "E203",
               .what = cat("'", printable(text), "' is not a level of the log"),
               .hint = "one of error, warning, note, info, debug, trace"});
}

void write_log_as_json() {
  is_json_log = true;
  set_logger([](LogLevel level, std::string_view text) { say(level, text); });
}

std::string paint(std::string_view text, Ink ink, bool on_stderr) {
  if (ink == Ink::plain || !wants_colour(on_stderr ? STDERR_FILENO : STDOUT_FILENO)) return std::string(text);
  return cat(ink_code(ink), text, "\033[0m");
}

void print(std::string_view text) { write_line(stdout, text); }
void note(std::string_view text) {
  if (log_enabled(LogLevel::warning)) say(LogLevel::note, text);
}
void detail(std::string_view text) {
  if (log_enabled(LogLevel::info)) say(LogLevel::info, text);
}

void print_error(std::string_view message, std::string_view code) {
  std::fflush(stdout);
  if (is_json_log) return say(LogLevel::error, message, code);
  size_t colon = message.find(':');
  std::string text = cat(paint(message.substr(0, colon), Ink::red, true), message.substr(colon));
  if (!code.empty()) text += cat("\n   more: weft explain ", code);
  write_line(stderr, text);
}

void write_result_file(const std::string& file, std::string_view text) {
  if (file == "-") return static_cast<void>(std::fwrite(text.data(), 1, text.size(), stdout));
  write_file(file, as_bytes(text));
  note_written(file);
}

void note_written(const std::string& file) {
  std::error_code none;
  const auto size = std::filesystem::file_size(file, none);
  note(cat("wrote ", printable(file), none ? "" : cat(": ", show_bytes(static_cast<double>(size)))));
}

std::string show_number(double value, int digits) {
  if (!std::isfinite(value) || value == 0) return cat(value);
  double size = std::fabs(value);
  if (size != 0 && (size >= 1e7 || size < 1e-4)) {
    char text[32];
    std::snprintf(text, sizeof text, "%.*e", digits - 1, value);
    return text;
  }
  int whole = size < 1 ? 1 : static_cast<int>(std::log10(size)) + 1;
  int leading_zeros = size > 0 && size < 1 ? static_cast<int>(-std::floor(std::log10(size))) - 1 : 0;
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", std::max(0, digits - (size < 1 ? 0 : whole) + leading_zeros), value);
  return text;
}

std::string show_seconds(double seconds) {
  if (seconds >= 1) return scaled(seconds, "s");
  return seconds >= 1e-3 ? scaled(seconds * 1e3, "ms") : scaled(seconds * 1e6, "us");
}

std::string show_bytes(double bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit) bytes /= 1024;
  return unit == 0 ? cat(static_cast<int64_t>(bytes), " B") : scaled(bytes, units[unit]);
}

std::string bar(double fraction, int width) {
  constexpr const char* eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  int filled = static_cast<int>(std::lround(std::clamp(fraction, 0.0, 1.0) * width * 8));
  std::string text;
  for (int i = 0; i < filled / 8; ++i) text += "█";
  return text + eighths[filled % 8];
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  std::vector<char> right;
  for (size_t r = 0; r < rows.size(); ++r) {
    widths.resize(std::max(widths.size(), rows[r].size()));
    right.resize(widths.size(), true);
    for (size_t i = 0; i < rows[r].size(); ++i) {
      widths[i] = std::max(widths[i], cells(rows[r][i]));
      if (r > 0 && !looks_like_number(rows[r][i])) right[i] = false;
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      std::string space(widths[i] - cells(row[i]), ' ');
      line += cat(i ? "  " : "", right[i] ? space : "", row[i], right[i] ? "" : space);
    }
    line.resize(line.find_last_not_of(' ') + 1);
    text += (text.empty() ? "" : "\n") + line;
  }
  return text;
}

ProgressLine::ProgressLine() : start_(Clock::now()), last_(start_), phase_start_(start_) {}

ProgressLine::~ProgressLine() {
  if (is_shown_) std::fputs("\r\033[K", stderr);
}

void ProgressLine::show(const Progress& progress) {
  auto now = Clock::now();
  if (progress.phase != phase_) phase_ = progress.phase, phase_start_ = now;
  bool is_terminal = isatty(STDERR_FILENO) && environment("TERM") != "dumb";
  if (!is_terminal || is_json_log || !log_enabled(LogLevel::warning) || now - start_ < std::chrono::seconds(1) ||
      (is_shown_ && now - last_ < std::chrono::milliseconds(100)))
    return;
  last_ = now;
  is_shown_ = true;
  std::string text = cat("\r\033[K", printable(progress.phase));
  if (progress.total > 0) text += cat(" ", progress.done, "/", progress.total);
  if (progress.total > 0 && progress.done > 0) {
    std::chrono::duration<double> spent = now - phase_start_;
    double left =
        spent.count() * static_cast<double>(progress.total - progress.done) / static_cast<double>(progress.done);
    text += cat(", about ", show_seconds(std::max(left, 0.1)), " left");
  }
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace weft::driver
