// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "compile.h"

/// Output of the command line: results on standard output, messages on standard error; colours and progress only on a
/// terminal (NO_COLOR, CLICOLOR_FORCE and TERM=dumb are honoured).
namespace weft::driver {

/// "error", "warning", "note", "info", "debug", "trace": the least important messages that are shown, the library's
/// included.
LogLevel parse_log_level(std::string_view text);
/// From now on messages on standard error are lines of JSON: {"level": "error", "text": "...", "code": "E143"}.
void write_log_as_json();

enum class Ink : uint8_t { plain, bold, dim, red, green, yellow, cyan };
/// `text` in colour, if the stream is a terminal that wants it.
std::string paint(std::string_view text, Ink ink, bool on_stderr = false);

void print(std::string_view text);   ///< a line on standard output
void note(std::string_view text);    ///< a line on standard error, unless -q asks for errors only
void detail(std::string_view text);  ///< a line on standard error with -v
/// Prints the error in the common form, with the line that names `weft explain`.
void print_error(std::string_view message, std::string_view code);

/// Writes a whole file and reports it; "-" is standard output.
void write_result_file(const std::string& file, std::string_view text);
/// Reports on standard error which file was written, and its size.
void note_written(const std::string& file);

/// "12.3 ms", "1.20 s", "450 us"
std::string show_seconds(double seconds);
/// "1.5 GiB"
std::string show_bytes(double bytes);
/// "3.42" with three significant digits.
std::string show_number(double value, int digits = 3);
/// A bar of `width` cells, the filled part for `fraction`.
std::string bar(double fraction, int width);

/// Rows of cells in columns as wide as they need; columns whose cells are all numbers are right-aligned.
std::string table(const std::vector<std::vector<std::string>>& rows);

/// A progress line on a terminal, shown from the first second on, with the remaining time.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  void show(const Progress& progress);

 private:
  std::chrono::steady_clock::time_point start_, last_;
  std::string phase_;
  std::chrono::steady_clock::time_point phase_start_;
  bool is_shown_ = false;
};

}  // namespace weft::driver
