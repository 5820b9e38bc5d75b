// SPDX-License-Identifier: Apache-2.0
#include "driver/options.h"

#include <charconv>
#include <cstdio>

#include "api/c/options_text.h"
#include "base/error.h"
#include "base/text.h"
#include "driver/terminal.h"

namespace weft::driver {
namespace {

constexpr size_t help_column = 30, help_width = 110;

double parse_real(std::string_view text, std::string_view what) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error({.kind = ErrorKind::usage,
                 .code = "E203",
                 .what = cat(what, " is '", printable(text), "', which is not a number")});
  return value;
}

/// `text` in lines of the help's right column.
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

std::string row(const std::string& left, const std::string& right) {
  std::string text = "  " + left;
  if (text.size() + 2 > help_column) text += "\n" + std::string(help_column, ' ');
  else text.resize(help_column, ' ');
  return text + wrapped(right) + "\n";
}

}  // namespace

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
  for (const Positional& p : positionals_) text += row(p.metavar, p.help);
  text += "\n";
  for (const Option& option : options_) {
    if (option.is_heading) {
      text += cat("\n", option.help, ":\n");
      continue;
    }
    std::string left;
    for (const std::string& name : option.names) left += (left.empty() ? "" : ", ") + name;
    text += row(option.metavar.empty() ? left : cat(left, " ", option.metavar), option.help);
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

const CommandLine::Option& CommandLine::find(const std::string& name) const {
  std::vector<std::string> known;
  for (const Option& option : options_) {
    for (const std::string& own : option.names) {
      if (own == name) return option;
      if (own.starts_with("--")) known.push_back(own);
    }
  }
  std::string near = nearest_names(name, known);
  refuse(cat("weft ", info_.name, " has no option '", printable(name), "'"),
         near.empty() ? "" : cat("did you mean ", near, "?"));
}

size_t CommandLine::take_option(std::span<const std::string> words, size_t i) {
  const std::string& word = words[i];
  bool is_long = word.starts_with("--");
  size_t equals = is_long ? word.find('=') : std::string::npos;
  bool is_joined = !is_long && word.size() > 2;
  std::string name = is_joined ? word.substr(0, 2) : word.substr(0, equals);
  if (is_joined) {
    // -vv is one flag given twice as far as it is declared so.
    for (const Option& option : options_) {
      for (const std::string& own : option.names) {
        if (own == word) return option.set({}), 1;
      }
    }
  }
  const Option& option = find(name);
  if (option.metavar.empty()) {
    if (equals != std::string::npos || is_joined) refuse(cat("option ", name, " takes no value"));
    return option.set({}), 1;
  }
  if (is_joined) return option.set(std::string_view(word).substr(2)), 1;
  if (equals != std::string::npos) return option.set(std::string_view(word).substr(equals + 1)), 1;
  if (i + 1 == words.size()) refuse(cat("option ", name, " needs a value: ", name, " ", option.metavar));
  return option.set(words[i + 1]), 2;
}

bool CommandLine::parse(std::span<const std::string> words) {
  group("General");
  flag("-q,--quiet", [] { set_noise(Noise::quiet); }, "errors only");
  flag("-v,--verbose", [] { set_noise(Noise::verbose); }, "say more; -vv says everything");
  flag("-h,--help", [] {}, "show this help");
  for (const std::string& word : words) {
    if (word == "--") break;
    if (word == "-h" || word == "--help") return std::fputs(help().c_str(), stdout), false;
  }
  flag("-vv", [] { set_noise(Noise::everything); }, "");  // after the help, which shows it with -v
  size_t next = 0;
  bool options_ended = false;
  for (size_t i = 0; i < words.size();) {
    const std::string& word = words[i];
    if (!options_ended && word == "--") {
      options_ended = true;
      ++i;
    } else if (!options_ended && word.size() > 1 && word[0] == '-') {
      i += take_option(words, i);
    } else {
      if (next == positionals_.size()) refuse(cat("'", printable(word), "' is one argument too many"));
      *positionals_[next++].target = word;
      ++i;
    }
  }
  if (next < positionals_.size() && positionals_[next].required) refuse(cat(positionals_[next].metavar, " is missing"));
  return true;
}

}  // namespace weft::driver
