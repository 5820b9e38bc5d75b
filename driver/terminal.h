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

/// Parses a level of messages: "error", "warning", "note", "info", "debug" or "trace". Throws E203 for any other text.
LogLevel parse_log_level(std::string_view text);
/// Writes all later messages on standard error as lines of JSON: {"level": "error", "text": "...", "code": "E143"};
/// only errors have a code.
void write_log_as_json();

enum class Ink : uint8_t { plain, bold, dim, red, green, yellow, cyan };
/// Returns `text` in colour if the stream is a terminal with colours.
std::string paint(std::string_view text, Ink ink, bool on_stderr = false);

void print(std::string_view text);   ///< a line on standard output
void note(std::string_view text);    ///< a line on standard error, unless -q asks for errors only
void detail(std::string_view text);  ///< a line on standard error with -v
/// Prints an error. Outside JSON, also prints a line that suggests `weft explain CODE`, if the error has a code.
void print_error(std::string_view message, std::string_view code);

/// Writes a file atomically and reports its name and size on standard error; "-" is standard output.
void write_result_file(const std::string& file, std::string_view text);
/// Reports on standard error the name and size of a written file.
void note_written(const std::string& file);

/// Formats a time: "12.3 ms", "1.20 s", "450 us".
std::string show_seconds(double seconds);
/// Formats a number of bytes: "1.5 GiB".
std::string show_bytes(double bytes);
/// Formats a number with `digits` significant digits, but at least all digits before the point: "3.42", "1234". Numbers
/// below 1e-4 or from 1e7 on get an exponent.
std::string show_number(double value, int digits = 3);
/// Returns a bar as long as `fraction` (0 to 1) of `width` terminal columns.
std::string bar(double fraction, int width);

/// Formats rows of cells as columns of the needed width; columns of numbers are right-aligned.
std::string table(const std::vector<std::vector<std::string>>& rows);

/// A progress line with the remaining time, shown on a terminal after the first second.
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
