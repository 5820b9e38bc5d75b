// SPDX-License-Identifier: Apache-2.0
// Lowers custom operators: source in the kernel language, or a function of the host.
#include <cctype>

#include "base/error.h"
#include "lower/lowering.h"
#include "ops/custom.h"

namespace weft {
namespace {

/// Returns C++ that declares an attribute such as "alpha=0.5" as a constant: a number, a list of numbers or a string.
std::string declaration(const std::string& attribute) {
  size_t equals = attribute.find('=');
  std::string name = attribute.substr(0, equals), value = attribute.substr(equals + 1);
  bool is_list = value.starts_with('[');
  bool is_real = value.find_first_of(".en") != std::string::npos;  // 0.5, 1e-3, inf, nan
  std::string type = value.starts_with('"') ? "char" : is_real ? "f64" : "i64";
  if (is_list) value = cat("{", value.substr(1, value.size() - 2), "}");
  bool is_array = is_list || value.starts_with('"');
  return cat("[[maybe_unused]] constexpr ", type, " ", name, is_array ? "[]" : "", " = ", value, ";\n");
}

std::string prelude(const Custom& op) {
  std::string text = "namespace {\n";
  for (const std::string& attribute : op.attributes) text += declaration(attribute);
  return text + op.source + "\n}\n";
}

struct Arguments {
  std::vector<std::string> inputs, outputs;
};

Arguments arguments(Lowering& lowering, const Region& region, KernelBuilder& kernel) {
  Arguments arguments;
  for (const Value& input : region.anchor->inputs) {
    View view = lowering.contiguous_view_of(input);
    arguments.inputs.push_back(cat(kernel.buffer(view.buffer, view.dtype, false), " + ", kernel.size(view.offset)));
  }
  for (uint32_t k = 0; k < region.anchor->types.size(); ++k) {
    View view = lowering.new_result({region.anchor, k});
    arguments.outputs.push_back(kernel.buffer(view.buffer, view.dtype, true));
  }
  return arguments;
}

/// Emits the loop over vectors: loads the operands, converts them to their compute types, calls the operator's
/// function, and converts and stores the result.
void emit_pointwise(Lowering& lowering, const Region& region, KernelBuilder& kernel, const Custom& op) {
  const Instruction& i = *region.anchor;
  if (i.types.size() != 1) internal_error(cat(op.op, " is pointwise and has ", i.types.size(), " results"));
  Arguments at = arguments(lowering, region, kernel);
  std::string count = kernel.size(i.types[0].shape.elements()), lanes = cat(lowering.tile().lanes), call;
  for (size_t k = 0; k < at.inputs.size(); ++k) {
    std::string type = kernel_type(compute_type(i.inputs[k].dtype()));
    call += cat(k ? ", " : "", "convert<", type, ">(load<W>(", at.inputs[k], " + at[0], lanes))");
  }
  kernel.line("constexpr int W = ", lanes, ";");
  kernel.line("pointwise<W>(WEFT_LAUNCH, Space<1>{{", count, "}}, [&](const Coords<1>& at, auto lanes) WEFT_LAMBDA {");
  kernel.line("  store(", at.outputs[0], " + at[0], convert<", kernel_type(i.types[0].shape.dtype), ">(", op.function,
              "(", call, ")), lanes);");
  kernel.line("});");
  kernel.set_tasks(cat("tasks::pointwise_tasks(1, ", count, ", ", lanes, ")"));
}

Dim task_count(const Custom& op, const BoundRule& rule) {
  return parse_dim(op.tasks, [](std::string_view name) { return Symbol{.name = std::string(name)}; })
      .substitute([&](const Symbol& symbol) {
        for (const auto& [name, size] : rule.sizes) {
          if (name == symbol.name) return size;
        }
        throw Error({.kind = ErrorKind::usage,
                     .code = "E217",
                     .what = cat("custom operator ", printable(op.op), " shares out '", op.tasks, "' tasks, but '",
                                 symbol.name, "' is not a size of its rule")});
      });
}

void emit_whole(Lowering& lowering, const Region& region, KernelBuilder& kernel, const Custom& op,
                const BoundRule& rule) {
  Arguments at = arguments(lowering, region, kernel);
  std::string call = "WEFT_LAUNCH";
  for (const std::string& input : at.inputs) call += cat(", ", input);
  for (const std::string& output : at.outputs) call += cat(", ", output);
  for (const auto& [name, size] : rule.sizes) call += cat(", ", kernel.size(size));
  kernel.line(op.function, "(", call, ");");
  kernel.set_tasks(kernel.size(task_count(op, rule)));
}

void emit_host_call(Lowering& lowering, const Region& region, KernelBuilder& kernel, const BoundRule& rule) {
  Arguments at = arguments(lowering, region, kernel);
  std::string address = at.inputs.back(), buffers, sizes;
  at.inputs.pop_back();
  for (const std::string& input : at.inputs) buffers += cat("(void*)(", input, "), ");
  for (const std::string& output : at.outputs) buffers += cat("(void*)(", output, "), ");
  for (const auto& [name, size] : rule.sizes) sizes += cat("i64(", kernel.size(size), "), ");
  kernel.line("void* const buffers[] = {", buffers, "nullptr};");
  kernel.line("const i64 sizes[] = {", sizes, "0};");
  kernel.line("const i64* const held = ", address, ";");
  kernel.line("using Call = i32 (*)(void*, const char*, void* const*, const i64*);");
  kernel.line("const i32 failed = ((Call)held[0])((void*)held[1], (const char*)(held + 2), buffers, sizes);");
  kernel.line("if (failed) note_fault(", kernel.launch_noting_faults(),
              ".args->fault, FaultKind::host_function, failed);");
}

}  // namespace

void lower_custom(Lowering& lowering, const Region& region) {
  const Custom& op = *region.anchor->as<Custom>();
  Types types;
  for (const Value& input : region.anchor->inputs) types.push_back(input.type());
  BoundRule rule = bind_rule(op, types);
  KernelBuilder kernel("pointwise.h");
  std::string stem = "custom_";
  for (char c : op.op) stem += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (op.calls_host()) {
    emit_host_call(lowering, region, kernel, rule);
    stem = "host_call";
    kernel.set_kind(KernelKind::host_function);
  } else {
    kernel.set_kind(KernelKind::custom);
    kernel.set_prelude(prelude(op));
    if (op.pointwise) emit_pointwise(lowering, region, kernel, op);
    else emit_whole(lowering, region, kernel, op, rule);
  }
  lowering.add_step(kernel.finish(lowering.plan(), stem), cat("operator ", op.op, " of the embedding program"));
}

}  // namespace weft
