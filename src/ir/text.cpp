// SPDX-License-Identifier: Apache-2.0
#include "ir/text.h"

#include <unordered_map>

#include "base/error.h"
#include "ir/control.h"
#include "ir/core_ops.h"
#include "ir/op_fields.h"

namespace weft {
namespace {

class Printer {
 public:
  explicit Printer(const PrintContext& context) : context_(context) {}

  std::string print(const Program& program) {
    out_ = cat("program ", quote(program.name), "\n");
    for (const auto& [key, value] : program.metadata) out_ += cat("metadata ", quote(key), " ", quote(value), "\n");
    for (const auto& [name, symbol] : program.symbols()) print(symbol);
    for (const Guard& guard : program.guards()) print(guard, program);
    for (const auto& [name, value] : program.defaults)
      out_ += cat("default ", quote(name), " ", fields::print(value, context_), "\n");
    for (const auto& module : program.modules()) number(*module);
    for (const auto& module : program.modules()) print(*module);
    return std::move(out_);
  }

  std::string print(const Instruction& i) const {
    std::string text = cat(name_of(&i), " = ", display_name(i.op));
    const char* separator = " ";
    for (const Value& input : i.inputs) {
      text += cat(separator, name_of(input));
      separator = ", ";
    }
    for (const Module* module : i.modules) text += cat(module == i.modules.front() ? " [" : ", ", module->name());
    if (!i.modules.empty()) text += "]";
    text += cat(attributes(i.op), " : ", types(i.types));
    if (!i.source.empty()) text += cat("  // from ", quote(i.source));
    return text;
  }

 private:
  std::string quote(const std::string& text) const { return fields::print(text, context_); }

  void print(const Symbol& symbol) {
    out_ += cat("symbol ", symbol_text(symbol.name), " min=", symbol.min);
    if (symbol.max != INT64_MAX) out_ += cat(" max=", symbol.max);
    if (symbol.multiple_of != 1) out_ += cat(" multiple_of=", symbol.multiple_of);
    out_ += "\n";
  }

  void print(const Guard& guard, const Program& program) {
    const char* relation = guard.kind == Guard::Kind::equal ? " == " : " <= ";
    bool is_in_body = guard.module && guard.module != &program.main();
    out_ += cat("guard ", guard.a, relation, guard.b, " ; ", quote(guard.what), " ", quote(guard.source),
                is_in_body ? cat(" in ", guard.module->name()) : std::string(), "\n");
  }

  void number(const Module& module) {
    for (const Instruction& i : module) numbers_.emplace(&i, numbers_.size());
  }

  void print(const Module& module) {
    out_ += cat("module ", module.name(), " {\n");
    for (const Instruction& i : module) out_ += cat("  ", print(i), "\n");
    out_ += "  return";
    for (size_t i = 0; i < module.results().size(); ++i) {
      const Result& result = module.results()[i];
      out_ += cat(i ? ", " : " ", quote(result.name), "=", name_of(result.value));
    }
    out_ += "\n}\n";
  }

  std::string name_of(const Instruction* i) const {
    auto found = numbers_.find(i);
    return cat("%", found == numbers_.end() ? i->id : found->second);
  }

  std::string name_of(Value value) const {
    std::string name = name_of(value.def);
    return value.index == 0 ? name : cat(name, ".", value.index);
  }

  std::string attributes(const Op& op) const {
    if (op.info().display) return {};
    std::string text;
    for (const Attribute& a : op.info().print(op, context_))
      text += cat(text.empty() ? " {" : ", ", a.name, "=", a.text);
    return text.empty() ? text : text + "}";
  }

  static std::string types(const Types& types) {
    if (types.size() == 1) return to_string(types[0]);
    std::string text = "(";
    for (const Type& type : types) text += cat(text.size() > 1 ? ", " : "", type);
    return text + ")";
  }

  const PrintContext& context_;
  std::string out_;
  std::unordered_map<const Instruction*, size_t> numbers_;
};

/// A reader of one line, token by token. Throws E191 if the next token is not the expected token.
class Cursor {
 public:
  Cursor(std::string_view line, size_t number) : line_(line), rest_(line), number_(number) {}

  [[noreturn]] void refuse(std::string_view wanted) const {
    throw Error({.kind = ErrorKind::model,
                 .code = "E191",
                 .what = cat("program text line ", number_, ": ", wanted, " expected at column ",
                             line_.size() - rest_.size() + 1),
                 .why = printable(line_)});
  }

  void skip_space() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\t')) rest_.remove_prefix(1);
  }

  bool take(std::string_view token) {
    skip_space();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  void expect(std::string_view token) {
    if (!take(token)) refuse(cat("'", token, "'"));
  }

  bool at_end() {
    skip_space();
    return rest_.empty();
  }

  std::string_view word() {
    skip_space();
    auto is_word = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) ||
             std::string_view("_.-$/:").find(c) != std::string_view::npos;
    };
    return take_while(is_word, "a word");
  }

  std::string symbol_name() {
    skip_space();
    if (!rest_.starts_with('"')) return std::string(word());
    size_t end = rest_.find('"', 1);
    if (end == rest_.npos) refuse("'\"'");
    std::string name = weft::symbol_name(rest_.substr(0, end + 1));
    rest_.remove_prefix(end + 1);
    return name;
  }

  std::string quoted() {
    skip_space();
    std::string text;
    fields::parse(balanced(' '), text, {});
    return text;
  }

  /// Returns the text up to the first `stop`, comma or closing bracket outside brackets and quotes.
  std::string_view balanced(char stop) {
    skip_space();
    int depth = 0;
    bool is_quoted = false;
    size_t i = 0;
    for (; i < rest_.size(); ++i) {
      char c = rest_[i];
      if (c == '\\' && is_quoted) {
        ++i;
        continue;
      }
      if (c == '"') is_quoted = !is_quoted;
      if (is_quoted) continue;
      if (depth == 0 && (c == stop || c == ',' || c == '}' || c == ')' || c == ']')) break;
      if (c == '(' || c == '[' || c == '{') ++depth;
      if (c == ')' || c == ']' || c == '}') --depth;
    }
    i = std::min(i, rest_.size());
    if (i == 0) refuse("a value");
    std::string_view text = rest_.substr(0, i);
    rest_.remove_prefix(i);
    return trim(text);
  }

  std::string_view until(std::string_view stop) {
    size_t end = rest_.find(stop);
    if (end == std::string_view::npos) refuse(cat("'", stop, "'"));
    std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + stop.size());
    return trim(text);
  }

 private:
  std::string_view take_while(auto predicate, std::string_view wanted) {
    size_t end = 0;
    while (end < rest_.size() && predicate(rest_[end])) ++end;
    if (end == 0) refuse(wanted);
    std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return text;
  }

  std::string_view line_, rest_;
  size_t number_;
};

/// Parses `{name=value, ...}`; the attributes' names point into the line's text.
std::vector<Attribute> parse_attributes(Cursor& cursor) {
  std::vector<Attribute> attributes;
  if (!cursor.take("{")) return attributes;
  while (!cursor.take("}")) {
    if (!attributes.empty()) cursor.expect(",");
    std::string_view name = cursor.word();
    cursor.expect("=");
    attributes.push_back({name, std::string(cursor.balanced('}'))});
  }
  return attributes;
}

class Parser {
 public:
  Parser(const OpFactory& make_op, std::function<Tensor(std::string_view)> blob_of) : make_op_(make_op) {
    context_.blob_of = std::move(blob_of);
    context_.symbol_of = [this](std::string_view name) { return symbol(name); };
  }

  std::unique_ptr<Program> parse(std::string_view text) {
    declare_modules(text);
    size_t number = 0;
    for (std::string_view line : split(text, '\n')) {
      Cursor cursor(line, ++number);
      if (!cursor.at_end() && !cursor.take("#")) parse_line(cursor);
    }
    check_nesting(*program_);
    return std::move(program_);
  }

 private:
  Symbol symbol(std::string_view name) {
    auto found = program_->symbols().find(name);
    if (found != program_->symbols().end()) return found->second;
    Symbol added{.name = std::string(name)};
    if (!is_placeholder(added)) program_->symbol(added);
    return added;
  }

  /// Declares all modules first, because instructions may name bodies that are defined later.
  void declare_modules(std::string_view text) {
    size_t number = 0;
    for (std::string_view line : split(text, '\n')) {
      Cursor cursor(line, ++number);
      if (!cursor.take("module ")) continue;
      std::string name(cursor.word());
      Module& module = name == "main" ? program_->main() : program_->add_module(name);
      if (!modules_.emplace(name, &module).second) cursor.refuse("a new module name");
    }
  }

  void parse_line(Cursor& cursor) {
    if (cursor.take("program ")) program_->name = cursor.quoted();
    else if (cursor.take("metadata ")) parse_metadata(cursor);
    else if (cursor.take("symbol ")) parse_symbol(cursor);
    else if (cursor.take("guard ")) parse_guard(cursor);
    else if (cursor.take("default ")) parse_default(cursor);
    else if (cursor.take("module ")) current_ = modules_.at(std::string(cursor.word()));
    else if (cursor.take("return")) parse_return(cursor);
    else if (cursor.take("%")) parse_instruction(cursor);
    else if (!cursor.take("}")) cursor.refuse("an instruction");
  }

  void parse_metadata(Cursor& cursor) {
    std::string key = cursor.quoted();
    program_->metadata[key] = cursor.quoted();
  }

  void parse_default(Cursor& cursor) {
    std::string name = cursor.quoted();
    fields::parse(cursor.balanced('\n'), program_->defaults[name], context_);
  }

  void parse_symbol(Cursor& cursor) {
    Symbol symbol{.name = cursor.symbol_name()};
    while (!cursor.at_end()) {
      int64_t* field = cursor.take("min=")           ? &symbol.min
                       : cursor.take("max=")         ? &symbol.max
                       : cursor.take("multiple_of=") ? &symbol.multiple_of
                                                     : nullptr;
      if (!field) cursor.refuse("min=, max= or multiple_of=");
      fields::parse(cursor.word(), *field, context_);
    }
    program_->symbol(symbol);
  }

  void parse_guard(Cursor& cursor) {
    Guard guard;
    std::string_view condition = cursor.until(";");
    size_t equal = condition.find(" == ");
    if (equal == std::string_view::npos) guard.kind = Guard::Kind::less_equal;
    size_t at = equal != std::string_view::npos ? equal : condition.find(" <= ");
    if (at == std::string_view::npos) cursor.refuse("== or <=");
    guard.a = parse_dim(trim(condition.substr(0, at)), context_.symbol_of);
    guard.b = parse_dim(trim(condition.substr(at + 4)), context_.symbol_of);
    guard.what = cursor.quoted();
    guard.source = cursor.quoted();
    if (cursor.take("in ")) guard.module = module(cursor);
    program_->add_guard(std::move(guard));
  }

  Value parse_value(Cursor& cursor) {
    cursor.expect("%");
    return parse_operand(cursor);
  }

  void parse_return(Cursor& cursor) {
    std::vector<Result> results;
    while (!cursor.at_end()) {
      if (!results.empty()) cursor.expect(",");
      std::string name;
      fields::parse(cursor.balanced('='), name, context_);
      cursor.expect("=");
      results.push_back({name, parse_value(cursor)});
    }
    current_->set_results(std::move(results));
  }

  Module* module(Cursor& cursor) const {
    auto found = modules_.find(std::string(cursor.word()));
    if (found == modules_.end()) cursor.refuse("a module of this program");
    return found->second;
  }

  std::vector<Module*> parse_modules(Cursor& cursor) {
    std::vector<Module*> modules;
    if (!cursor.take("[")) return modules;
    do modules.push_back(module(cursor));
    while (cursor.take(","));
    cursor.expect("]");
    return modules;
  }

  void parse_instruction(Cursor& cursor) {
    if (!current_) cursor.refuse("a module before instructions");
    std::string name(cursor.word());
    cursor.expect("=");
    std::string_view op_name = cursor.word();
    std::vector<Value> inputs;
    if (cursor.take("%")) {
      inputs.push_back(parse_operand(cursor));
      while (cursor.take(",")) inputs.push_back(parse_value(cursor));
    }
    std::vector<Module*> modules = parse_modules(cursor);
    std::vector<Attribute> attributes = parse_attributes(cursor);
    std::string types;
    if (cursor.take(":"))
      types = cursor.take("(") ? cat("(", cursor.until(")"), ")") : std::string(cursor.balanced(' '));
    std::string source;
    if (cursor.take("// from ")) source = cursor.quoted();
    SourceScope scope(*current_, source);
    Op op = make_op_(op_name, attributes, context_);
    Value value = op.is<Parameter>() ? current_->parameter(op.as<Parameter>()->parameter, op.as<Parameter>()->type)
                                     : current_->append(op, inputs, modules);
    check_types(cursor, types, value.def->types);
    if (!values_.emplace(name, value.def).second) cursor.refuse(cat("a new name instead of %", name));
  }

  Value parse_operand(Cursor& cursor) {
    std::string name(cursor.word());
    uint32_t index = 0;
    if (size_t dot = name.find('.'); dot != std::string::npos) {
      int64_t number = 0;
      fields::parse(std::string_view(name).substr(dot + 1), number, context_);
      index = static_cast<uint32_t>(number);
      name.resize(dot);
    }
    auto found = values_.find(name);
    if (found == values_.end() || index >= found->second->types.size())
      cursor.refuse(cat("a value defined before (%", name, ")"));
    return {found->second, index};
  }

  /// Throws unless the written type equals the type from the shape rule. Does not check a missing type or a list.
  void check_types(Cursor& cursor, const std::string& written, const Types& inferred) {
    if (written.empty() || written.front() == '(') return;
    Type type;
    fields::parse(written, type, context_);
    if (inferred.size() != 1 || type != inferred[0]) cursor.refuse(cat("type ", inferred[0], " instead of ", written));
  }

  const OpFactory& make_op_;
  ParseContext context_;
  std::unique_ptr<Program> program_ = std::make_unique<Program>();
  Module* current_ = nullptr;
  std::unordered_map<std::string, Module*> modules_;
  std::unordered_map<std::string, Instruction*> values_;
};

}  // namespace

std::string print(const Program& program, const PrintContext& context) { return Printer(context).print(program); }

std::string print(const Instruction& instruction) { return Printer({}).print(instruction); }

OpText parse_op_text(std::string_view text) {
  Cursor cursor(text, 1);
  OpText op{.name = cursor.word(), .attributes = parse_attributes(cursor)};
  if (!cursor.at_end()) cursor.refuse("the end of the operator");
  return op;
}

std::unique_ptr<Program> parse_program(std::string_view text, const OpFactory& make_op,
                                       std::function<Tensor(std::string_view)> blob_of) {
  return Parser(make_op, std::move(blob_of)).parse(text);
}

}  // namespace weft
