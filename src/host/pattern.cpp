// SPDX-License-Identifier: Apache-2.0
#include "host/pattern.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "host/functions.h"
#include "host/utf8.h"

namespace weft::host {
namespace {

constexpr int max_nested = 64, max_repeats = 1000;
constexpr size_t max_instructions = 100'000, max_visits = 10 * max_instructions;
constexpr uint32_t last_code = 0x10ffff;

using Set = Pattern::Set;
using Range = Pattern::Range;
using Op = Pattern::Op;

/// A node of the syntax tree of a regular expression.
struct Node {
  enum class Kind : uint8_t { set, place, sequence, choice, repeat } kind;
  Set set = {};
  Op place = Op::begin;
  std::vector<Node> parts = {};
  int least = 0, most = 0;  // most -1: any number
};

struct Named {
  std::string_view name;
  std::vector<Range> ranges;
};

const std::vector<Range> digits = {{'0', '9'}}, word = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                         space = {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}};

const std::vector<Named>& posix_classes() {
  static const std::vector<Named> all = {{"alnum", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
                                         {"alpha", {{'A', 'Z'}, {'a', 'z'}}},
                                         {"ascii", {{0, 127}}},
                                         {"blank", {{'\t', '\t'}, {' ', ' '}}},
                                         {"cntrl", {{0, 31}, {127, 127}}},
                                         {"digit", digits},
                                         {"graph", {{33, 126}}},
                                         {"lower", {{'a', 'z'}}},
                                         {"print", {{32, 126}}},
                                         {"punct", {{33, 47}, {58, 64}, {91, 96}, {123, 126}}},
                                         {"space", {{'\t', '\r'}, {' ', ' '}}},
                                         {"upper", {{'A', 'Z'}}},
                                         {"word", word},
                                         {"xdigit", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}}};
  return all;
}

std::vector<Range> complement(std::vector<Range> ranges) {
  std::ranges::sort(ranges, {}, &Range::first);
  std::vector<Range> rest;
  uint32_t next = 0;
  for (const Range& range : ranges) {
    if (range.first > next) rest.push_back({next, range.first - 1});
    next = std::max(next, range.last + 1);
  }
  if (next <= last_code) rest.push_back({next, last_code});
  return rest;
}

/// A recursive-descent parser of regular expressions, with a limit on the depth.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Node parse() {
    Node whole = choice(0);
    if (at_ < text_.size()) refuse_here("an unmatched )");
    return whole;
  }

 private:
  struct Flags {
    bool ignores_case = false, dot_is_all = false, lines = false;
  };

  [[noreturn]] void refuse_here(std::string_view why) const {
    throw Error({.kind = ErrorKind::unsupported,
                 .code = "E122",
                 .what = cat("the pattern '", printable(text_), "' has ", why, " at ", at_)});
  }
  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool take(std::string_view token) {
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  uint32_t next_code() {
    auto [code, length] = decode_utf8(text_.substr(at_));
    if (code == WEOF) refuse_here("bytes that are no UTF-8");
    at_ += length;
    return code;
  }

  Node choice(int depth) {
    if (depth > max_nested) refuse_here("too many nested groups");
    Flags outer = flags_;
    Node alternatives{.kind = Node::Kind::choice};
    do alternatives.parts.push_back(sequence(depth));
    while (take("|"));
    flags_ = outer;  // flags hold until their group ends
    return alternatives;
  }

  Node sequence(int depth) {
    Node parts{.kind = Node::Kind::sequence};
    while (!at_end() && peek() != '|' && peek() != ')') {
      auto item = atom(depth);
      if (item) parts.parts.push_back(repeated(std::move(*item)));
    }
    return parts;
  }

  Node repeated(Node item) {
    bool was_repeated = false;
    for (;;) {
      int least = 0, most = -1;
      size_t start = at_;
      if (take("*")) least = 0, most = -1;
      else if (take("+")) least = 1, most = -1;
      else if (take("?")) least = 0, most = 1;
      else if (!counts(least, most)) return item;
      if (was_repeated) at_ = start, refuse_here("a repetition of a repetition");
      take("?");  // laziness does not change the longest match
      was_repeated = true;
      Node outer{.kind = Node::Kind::repeat, .least = least, .most = most};
      outer.parts.push_back(std::move(item));
      item = std::move(outer);
    }
  }

  /// Parses "{2}", "{2,}" or "{2,5}"; other text in braces is literal.
  bool counts(int& least, int& most) {
    size_t start = at_;
    auto number = [&]() -> std::optional<int> {
      int value = 0;
      size_t first = at_;
      while (!at_end() && peek() >= '0' && peek() <= '9' && value <= max_repeats)
        value = value * 10 + (text_[at_++] - '0');
      return at_ > first ? std::optional(value) : std::nullopt;
    };
    if (!take("{")) return false;
    auto low = number();
    bool has_comma = low && take(",");
    auto high = has_comma ? number() : low;
    if (!low || !take("}")) return at_ = start, false;
    least = *low, most = high.value_or(-1);
    if (least > max_repeats || most > max_repeats || (most >= 0 && most < least)) refuse_here("an impossible count");
    return true;
  }

  static Node place(Op op) { return {.kind = Node::Kind::place, .place = op}; }
  Node set(std::vector<Range> ranges, bool is_negated = false) const {
    return {.kind = Node::Kind::set,
            .set = {.ranges = std::move(ranges), .is_negated = is_negated, .ignores_case = flags_.ignores_case}};
  }

  std::optional<Node> atom(int depth) {
    if (take("(")) return group(depth);
    if (take("[")) return bracket();
    if (take(".")) return flags_.dot_is_all ? set({}, true) : set({{'\n', '\n'}}, true);
    if (take("^")) return place(flags_.lines ? Op::line_begin : Op::begin);
    if (take("$")) return place(flags_.lines ? Op::line_end : Op::end);
    if (take("\\")) return escaped();
    if (std::string_view("*+?").find(peek()) != std::string_view::npos) refuse_here("nothing to repeat");
    uint32_t code = next_code();
    return set({{code, code}});
  }

  /// Parses a group after its opening bracket; returns nothing if the group has only flags.
  std::optional<Node> group(int depth) {
    if (take("?P<") || (text_.substr(at_).starts_with("?<") && !text_.substr(at_).starts_with("?<=") &&
                        !text_.substr(at_).starts_with("?<!") && take("?<"))) {
      size_t end = text_.find('>', at_);
      if (end == std::string_view::npos) refuse_here("a name without its end");
      at_ = end + 1;
    } else if (take("?")) {
      Flags outer = flags_;
      read_flags();
      if (take(")")) return std::nullopt;
      if (!take(":")) refuse_here("a group that is not supported");
      Node inside = choice(depth + 1);
      if (!take(")")) refuse_here("a missing )");
      flags_ = outer;
      return inside;
    }
    Node inside = choice(depth + 1);
    if (!take(")")) refuse_here("a missing )");
    return inside;
  }

  void read_flags() {
    for (bool value = true;;) {
      if (take("-")) value = false;
      else if (take("i")) flags_.ignores_case = value;
      else if (take("s")) flags_.dot_is_all = value;
      else if (take("m")) flags_.lines = value;
      else return;
    }
  }

  /// Returns the ranges of \d, \W ...; nothing for other letters.
  static std::optional<std::vector<Range>> class_of(char letter) {
    switch (letter) {
      case 'd': return digits;
      case 'D': return complement(digits);
      case 'w': return word;
      case 'W': return complement(word);
      case 's': return space;
      case 'S': return complement(space);
      default: return std::nullopt;
    }
  }

  Node escaped() {
    if (at_end()) refuse_here("a \\ at its end");
    if (auto ranges = class_of(peek())) return ++at_, set(std::move(*ranges));
    if (take("A")) return place(Op::begin);
    if (take("z")) return place(Op::end);
    if (take("b")) return place(Op::boundary);
    if (take("B")) return place(Op::no_boundary);
    uint32_t code = escaped_code();
    return set({{code, code}});
  }

  uint32_t escaped_code() {
    constexpr std::string_view letters = "aftnrv", codes = "\a\f\t\n\r\v";
    if (size_t at = letters.find(peek()); at != std::string_view::npos) return ++at_, static_cast<uint32_t>(codes[at]);
    if (take("x")) return hexadecimal();
    auto c = static_cast<unsigned char>(peek());
    if (c >= 0x80 || !std::ispunct(c)) refuse_here("an escape that is not supported");
    return ++at_, c;
  }

  uint32_t hexadecimal() {
    bool is_braced = take("{");
    uint32_t code = 0;
    size_t first = at_, most = is_braced ? 6 : 2;
    while (at_ - first < most && std::isxdigit(static_cast<unsigned char>(peek()))) {
      char c = static_cast<char>(std::tolower(text_[at_++]));
      code = code * 16 + static_cast<uint32_t>(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    bool is_whole = at_ > first && (is_braced ? take("}") : at_ - first == 2) && code <= last_code;
    if (!is_whole) refuse_here("a broken \\x");
    return code;
  }

  Node bracket() {
    bool is_negated = take("^");
    std::vector<Range> ranges;
    for (bool is_first = true; is_first || peek() != ']'; is_first = false) {
      if (at_end()) refuse_here("a missing ]");
      bracket_item(ranges);
    }
    ++at_;
    return set(std::move(ranges), is_negated);
  }

  void bracket_item(std::vector<Range>& ranges) {
    auto add = [&](const std::vector<Range>& more) { ranges.insert(ranges.end(), more.begin(), more.end()); };
    if (take("[:")) return add(posix());
    if (peek() == '\\' && at_ + 1 < text_.size()) {
      if (auto known = class_of(text_[at_ + 1])) return at_ += 2, add(*known);
    }
    uint32_t first = take("\\") ? escaped_code() : next_code(), last = first;
    bool is_range = peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']';
    if (is_range) ++at_, last = take("\\") ? escaped_code() : next_code();
    if (last < first) refuse_here("a range whose end is before its start");
    ranges.push_back({first, last});
  }

  std::vector<Range> posix() {
    bool is_negated = take("^");
    for (const Named& named : posix_classes()) {
      if (take(cat(named.name, ":]"))) return is_negated ? complement(named.ranges) : named.ranges;
    }
    refuse_here("an unknown [:name:]");
  }

  std::string_view text_;
  size_t at_ = 0;
  Flags flags_;
};

/// A compiler of regular expressions to NFA instructions.
class Writer {
 public:
  Writer(std::vector<Set>& sets, std::vector<Pattern::Instruction>& code) : sets_(sets), code_(code) {}

  /// Writes the instructions of a node. Also limits visits, because repeating an empty expression writes nothing.
  void write(const Node& node) {
    if (++visits_ > max_visits) refuse_size();
    switch (node.kind) {
      case Node::Kind::set:
        sets_.push_back(node.set);
        put({Op::set, static_cast<uint32_t>(sets_.size() - 1)});
        return;
      case Node::Kind::place: put({node.place}); return;
      case Node::Kind::sequence:
        for (const Node& part : node.parts) write(part);
        return;
      case Node::Kind::choice: return choice(node);
      case Node::Kind::repeat: return repeat(node);
    }
  }
  uint32_t put(Pattern::Instruction instruction) {
    if (code_.size() >= max_instructions) refuse_size();
    code_.push_back(instruction);
    return next() - 1;
  }

 private:
  [[noreturn]] static void refuse_size() {
    throw Error({.kind = ErrorKind::unsupported, .code = "E122", .what = "a pattern is too large when written out"});
  }
  uint32_t next() const { return static_cast<uint32_t>(code_.size()); }

  void choice(const Node& node) {
    std::vector<uint32_t> ends;
    for (size_t i = 0; i < node.parts.size(); ++i) {
      bool is_last = i + 1 == node.parts.size();
      uint32_t split = is_last ? 0 : put({Op::split});
      if (!is_last) code_[split].to = next();
      write(node.parts[i]);
      if (is_last) break;
      ends.push_back(put({Op::jump}));
      code_[split].other = next();
    }
    for (uint32_t end : ends) code_[end].to = next();
  }

  void repeat(const Node& node) {
    for (int i = 0; i < node.least; ++i) write(node.parts[0]);
    std::vector<uint32_t> exits;
    int optional = node.most < 0 ? 1 : node.most - node.least;
    for (int i = 0; i < optional; ++i) {
      uint32_t split = put({Op::split});
      code_[split].to = next();
      write(node.parts[0]);
      if (node.most < 0) put({Op::jump, split});
      exits.push_back(split);
    }
    for (uint32_t exit : exits) code_[exit].other = next();
  }

  std::vector<Set>& sets_;
  std::vector<Pattern::Instruction>& code_;
  size_t visits_ = 0;
};

bool is_word(uint32_t code) {
  return std::ranges::any_of(word, [&](const Range& r) { return r.first <= code && code <= r.last; });
}

}  // namespace

bool Set::contains(uint32_t code) const {
  auto has = [&](uint32_t c) {
    return std::ranges::any_of(ranges, [&](const Range& r) { return r.first <= c && c <= r.last; });
  };
  bool found = has(code) || (ignores_case && (has(to_lower(code)) || has(to_upper(code))));
  return found != is_negated;
}

/// A position between two characters, which are WEOF at the ends of the text.
struct Pattern::Place {
  uint32_t before, after;
  bool holds(Op op) const {
    switch (op) {
      case Op::begin: return before == WEOF;
      case Op::end: return after == WEOF;
      case Op::line_begin: return before == WEOF || before == '\n';
      case Op::line_end: return after == WEOF || after == '\n';
      case Op::boundary: return is_word(before) != is_word(after);
      default: return is_word(before) == is_word(after);
    }
  }
};

Pattern::Pattern(std::string_view text) {
  Node whole = Parser(text).parse();
  Writer writer(sets_, code_);
  writer.write(whole);
  writer.put({Op::done});
}

/// Adds the epsilon closure of `at`: all instructions reachable without reading a character.
void Pattern::add(uint32_t at, const Place& place, std::vector<uint32_t>& threads, std::vector<bool>& is_in) const {
  std::vector<uint32_t> pending = {at};
  while (!pending.empty()) {
    uint32_t now = pending.back();
    pending.pop_back();
    if (is_in[now]) continue;
    is_in[now] = true;
    const Instruction& i = code_[now];
    if (i.op == Op::set || i.op == Op::done) threads.push_back(now);
    else if (i.op == Op::jump) pending.push_back(i.to);
    else if (i.op == Op::split) pending.insert(pending.end(), {i.to, i.other});
    else if (place.holds(i.op)) pending.push_back(now + 1);
  }
}

size_t Pattern::longest(std::string_view text, size_t at) const {
  auto next_of = [](std::string_view rest) {
    return rest.empty() ? std::pair<wint_t, size_t>{WEOF, 0} : decode_utf8(rest);
  };
  std::string_view rest = text.substr(at);
  std::vector<uint32_t> threads, next;
  std::vector<bool> is_in(code_.size());
  wint_t before = at == 0 ? WEOF : static_cast<unsigned char>(text[at - 1]);
  size_t best = std::string_view::npos;
  auto [code, length] = next_of(rest);
  add(0, {before, code}, threads, is_in);
  for (;;) {
    bool is_done = std::ranges::any_of(threads, [&](uint32_t now) { return code_[now].op == Op::done; });
    if (is_done) best = text.size() - at - rest.size();
    if (rest.empty() || threads.empty() || code == WEOF) return best;  // a pattern matches valid UTF-8 only
    rest.remove_prefix(length);
    auto [after, after_length] = next_of(rest);
    next.clear();
    is_in.assign(code_.size(), false);
    for (uint32_t now : threads) {
      if (code_[now].op == Op::set && sets_[code_[now].to].contains(code)) add(now + 1, {code, after}, next, is_in);
    }
    threads.swap(next);
    code = after, length = after_length;
  }
}

}  // namespace weft::host
