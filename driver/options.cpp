// SPDX-License-Identifier: Apache-2.0
#include "driver/options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>

#include "api/c/options_text.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "driver/terminal.h"

namespace weft::driver {
namespace {

constexpr size_t help_column = 30, help_width = 118;

double parse_real(std::string_view text, std::string_view what) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error({.kind = ErrorKind::usage,
                 .code = "E203",
                 .what = cat(what, " is '", printable(text), "', which is not a number")});
  return value;
}

/// Returns `text` with line breaks and indentation for the right column of the help.
std::string wrapped(std::string_view text) {
  std::string out;
  size_t column = help_column;
  for (std::string_view word : split(text, ' ')) {
    if (column + word.size() + 1 > help_width) {
      out += "\n" + std::string(help_column, ' ');
      column = help_column;
    }
    if (column > help_column) out += ' ', ++column;
    out += word;
    column += word.size();
  }
  return out;
}

std::string help_row(const std::string& left, const std::string& right) {
  std::string text = "  " + left;
  if (text.size() + 2 > help_column) text += "\n" + std::string(help_column, ' ');
  else text.resize(help_column, ' ');
  return text + wrapped(right) + "\n";
}

}  // namespace

/// Declares an option. Its setter runs once for each occurrence of the option, in the order of the command line.
void CommandLine::declare(CLI::App& app, const Option& option) {
  std::string names = CLI::detail::join(option.names, ",");
  auto set = [&option](const std::string& text) { option.set(text); };
  auto set_to_none = [&option] { option.set({}); };
  CLI::Option* made = nullptr;
  if (option.metavar.empty()) {
    made = app.add_flag_callback(names, set_to_none)->disable_flag_override();
  } else if (option.is_optional) {  // CLI11 passes "true" for an option without a value
    made =
        app.add_option_function<std::string>(names, [set](const std::string& text) { set(text == "true" ? "" : text); })
            ->expected(0);
  } else {
    made = app.add_option_function<std::string>(names, set)->type_name(option.metavar);
  }
  made->trigger_on_parse();
}

CommandLine::CommandLine(CommandInfo info) : info_(std::move(info)) {}

void CommandLine::add(std::string names, std::string metavar, std::function<void(std::string_view)> set,
                      std::string help) {
  Option option{.metavar = std::move(metavar), .help = std::move(help), .set = std::move(set)};
  for (std::string_view name : split(names, ',')) option.names.emplace_back(trim(name));
  options_.push_back(std::move(option));
}

void CommandLine::group(std::string title) { options_.push_back({.help = std::move(title), .is_heading = true}); }

void CommandLine::flag(std::string names, bool& target, std::string help) {
  flag(std::move(names), [&target] { target = true; }, std::move(help));
}
void CommandLine::flag(std::string names, std::function<void()> set, std::string help) {
  add(std::move(names), "", [set = std::move(set)](std::string_view) { set(); }, std::move(help));
}
void CommandLine::value(std::string names, std::string metavar, std::string& target, std::string help) {
  add(std::move(names), std::move(metavar), [&target](std::string_view text) { target = text; }, std::move(help));
}
void CommandLine::value(std::string names, std::string metavar, int64_t& target, std::string help) {
  auto set = [&target, names](std::string_view text) { target = parse_number(text, names); };
  add(names, std::move(metavar), set, std::move(help));
}
void CommandLine::value(std::string names, std::string metavar, int& target, std::string help) {
  auto set = [&target, names](std::string_view text) {
    int64_t number = parse_number(text, names);
    if (number < INT32_MIN || number > INT32_MAX)
      throw Error(
          {.kind = ErrorKind::usage, .code = "E203", .what = cat(names, " is ", number, ", which is too large")});
    target = static_cast<int>(number);
  };
  add(names, std::move(metavar), set, std::move(help));
}
void CommandLine::value(std::string names, std::string metavar, double& target, std::string help) {
  auto set = [&target, names](std::string_view text) { target = parse_real(text, names); };
  add(names, std::move(metavar), set, std::move(help));
}
void CommandLine::value_or(std::string names, std::string metavar, double& target, double value, std::string help) {
  auto set = [&target, value, names](std::string_view text) {
    target = text.empty() ? value : parse_real(text, names);
  };
  add(names, std::move(metavar), set, std::move(help));
  options_.back().is_optional = true;
}
void CommandLine::value(std::string names, std::string metavar, std::vector<std::string>& target, std::string help) {
  add(
      std::move(names), std::move(metavar), [&target](std::string_view text) { target.emplace_back(text); },
      std::move(help));
}
void CommandLine::value(std::string names, std::string metavar, std::function<void(std::string_view)> set,
                        std::string help) {
  add(std::move(names), std::move(metavar), std::move(set), std::move(help));
}

void CommandLine::positional(std::string metavar, std::string& target, std::string help, bool required) {
  positionals_.push_back({std::move(metavar), std::move(help), &target, required});
}

std::string CommandLine::usage() const {
  std::string text = cat("weft ", info_.name);
  for (const Positional& p : positionals_) text += p.required ? cat(" ", p.metavar) : cat(" [", p.metavar, "]");
  return text + " [options]";
}

std::string CommandLine::help() const {
  std::string text = cat(info_.purpose, "\n\nusage: ", usage(), "\n");
  if (!positionals_.empty()) text += "\n";
  for (const Positional& p : positionals_) text += help_row(p.metavar, p.help);
  text += "\n";
  for (const Option& option : options_) {
    if (option.is_heading) {
      text += cat("\n", option.help, ":\n");
      continue;
    }
    if (option.help.empty()) continue;
    std::string left;
    for (const std::string& name : option.names) left += (left.empty() ? "" : ", ") + name;
    text += help_row(option.metavar.empty()
                         ? left
                         : cat(left, option.is_optional ? "[=" : " ", option.metavar, option.is_optional ? "]" : ""),
                     option.help);
  }
  text += "\nexamples:\n";
  for (const std::string& example : info_.examples) text += cat("  ", example, "\n");
  return text;
}

void CommandLine::refuse(std::string what, std::string hint) const {
  if (!hint.empty()) hint += "; ";
  hint += cat("usage: ", usage(), "; weft ", info_.name, " --help says more");
  throw Error({.kind = ErrorKind::usage, .code = "E202", .what = std::move(what), .hint = std::move(hint)});
}

void CommandLine::refuse_word(const std::string& word) const {
  if (!word.starts_with('-') || word == "-") refuse(cat("'", printable(word), "' is one argument too many"));
  std::vector<std::string> known;
  for (const Option& option : options_) std::ranges::copy(option.names, std::back_inserter(known));
  std::string near = nearest_names(word.substr(0, word.find('=')), known);
  refuse(cat("weft ", info_.name, " has no option '", printable(word), "'"),
         near.empty() ? "" : cat("did you mean ", near, "?"));
}

void CommandLine::add_general_options() {
  group("General");
  flag("-q,--quiet", [] { set_log_level(LogLevel::error); }, "errors only");
  flag(
      "-v,--verbose", [said = 0]() mutable { set_log_level(said++ ? LogLevel::trace : LogLevel::info); },
      "say more; -vv says everything");
  value(
      "--log-level", "LEVEL", [](std::string_view text) { set_log_level(parse_log_level(text)); },
      "error, warning, note, info, debug or trace");
  flag("--log-json", [] { write_log_as_json(); }, "words on standard error as lines of JSON");
  flag("-h,--help", [] { throw CLI::CallForHelp(); }, "show this help");
}

bool CommandLine::parse(std::span<const std::string> words) {
  add_general_options();
  CLI::App app(info_.purpose, cat("weft ", info_.name));
  app.set_help_flag();  // help() replaces CLI11's help: help() wraps lines and shows examples
  app.allow_extras();   // unknown words reach refuse_word, which names the nearest options
  for (const Option& option : options_) {
    if (!option.is_heading) declare(app, option);
  }
  for (const Positional& positional : positionals_) app.add_option(positional.metavar, *positional.target);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::CallForHelp&) {
    return std::fputs(help().c_str(), stdout), false;
  } catch (const CLI::ParseError& error) {
    refuse(cat("a value is missing, or one too many: ", error.what()));
  }
  if (!app.remaining().empty()) refuse_word(app.remaining().front());
  for (const Positional& positional : positionals_) {
    if (positional.required && app.count(positional.metavar) == 0) refuse(cat(positional.metavar, " is missing"));
  }
  return true;
}

}  // namespace weft::driver
