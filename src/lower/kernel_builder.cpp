// SPDX-License-Identifier: Apache-2.0
#include "lower/kernel_builder.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"

namespace weft {

std::string kernel_type(DType type) {
  if (type == DType::boolean) return "u8";
  if (type == DType::string) return "i64";  // a string's number (base/strings.h)
  bool addressable = bits(type) >= 8 && !is_complex(type);
  if (!addressable) {
    throw Error({.kind = ErrorKind::unsupported,
                 .code = "E149",
                 .what = cat("kernels for elements of ", type, " are not supported")});
  }
  return to_string(type);
}

DType compute_type(DType type) {
  if (type == DType::boolean) return DType::u8;
  if (type == DType::string) return DType::i64;
  if (is_integer(type) && bits(type) < 8) return is_signed_integer(type) ? DType::i8 : DType::u8;
  return is_float(type) && bits(type) < 32 ? DType::f32 : type;
}

std::string converted(const std::string& text, DType from, DType to) {
  return from == to ? text : cat("convert<", kernel_type(to), ">(", text, ")");
}

SizeId PlanDraft::size_id(const Dim& dim) {
  std::vector<SizeId>& ids = size_ids_[to_string(dim)];
  auto found = std::ranges::find_if(ids, [&](SizeId id) { return sizes[id] == dim; });
  return found != ids.end() ? *found : ids.emplace_back(sizes.add(dim));
}

std::string KernelBuilder::buffer(BufferId buffer, DType type, bool written) {
  auto same = [&](const Argument& a) { return a.buffer == buffer && a.type == type; };
  auto found = std::ranges::find_if(buffers_, same);
  if (found == buffers_.end()) found = buffers_.insert(buffers_.end(), {buffer, type, false, false});
  (written ? found->written : found->read) = true;
  return cat("b", found - buffers_.begin());
}

std::string KernelBuilder::size(const Dim& dim) {
  if (known_equal(dim, 0)) return "0";
  if (known_equal(dim, 1)) return "1";
  return number(dim);
}

std::string KernelBuilder::number(const Dim& dim) {
  sizes_.push_back(dim);
  return cat("s", sizes_.size() - 1);
}

void KernelBuilder::share(const std::string& header, const std::string& functions) {
  shared_ += cat("WEFT_SHARED_PART(\"", header, "\", ", functions, ")\n");
}

std::string KernelBuilder::once(const std::string& expression) {
  std::string name = cat("once", constants_++);
  head_ += cat("  const auto ", name, " = ", expression, ";\n");
  return name;
}

void KernelBuilder::name_part(std::string_view word) {
  constexpr size_t longest = 60;
  if (words_.size() + word.size() < longest) words_ += cat("_", word);
}

void KernelBuilder::set_tasks(std::string tasks, std::string scratch_bytes) {
  tasks_ = std::move(tasks);
  scratch_ = std::move(scratch_bytes);
}

void KernelBuilder::set_grid(Dim blocks, int threads, int shared_bytes, int cluster) {
  blocks_ = std::move(blocks);
  threads_ = threads;
  shared_bytes_ = shared_bytes;
  cluster_ = cluster;
}

std::string KernelBuilder::text(const std::string& name) const {
  std::string out =
      cat("#include \"", header_, "\"\n#include \"fused.h\"\nusing namespace weft;\nusing namespace weft::kernel;\n");
  out += cat(shared_, prelude_);
  out += blocks_ ? cat("WEFT_KERNEL_AHEAD(", name, ", ", buffers_.size(), ", ", threads_, ") {\n")
                 : cat("WEFT_KERNEL(", name, ") {\n");
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const char* constness = buffers_[i].written ? "" : "const ";
    out += cat("  [[maybe_unused]] auto b", i, " = WEFT_BUFFER(", constness, kernel_type(buffers_[i].type), ", ", i,
               ");\n");
  }
  for (size_t i = 0; i < sizes_.size(); ++i)
    out += cat("  [[maybe_unused]] const i64 s", i, " = WEFT_SIZE(", i, ");\n");
  out += ahead_;
  if (blocks_ && !waits_itself_) out += "  wait_for_inputs();\n";
  out += cat(head_, body_, "}\n");
  if (blocks_) return out;
  out += cat("WEFT_PLAN(", name, ") {\n");
  for (size_t i = 0; i < sizes_.size(); ++i) out += cat("  [[maybe_unused]] const i64 s", i, " = sizes[", i, "];\n");
  out += cat("  out[0] = ", tasks_, ";\n  out[1] = ", scratch_, ";\n}\n");
  return out;
}

void KernelBuilder::replace(std::string_view from, std::string_view to) {
  size_t at = body_.find(from);
  check(at != body_.npos, "a kernel has the words that are to be replaced");
  body_.replace(at, from.size(), to);
}

bool KernelBuilder::uses(BufferId buffer) const {
  return std::ranges::find(buffers_, buffer, &Argument::buffer) != buffers_.end();
}

/// Checks that kernels declare buffers with their stored types; a wrong width would read past the end of the buffer.
void KernelBuilder::check_types(const PlanDraft& plan) const {
  for (const Argument& argument : buffers_) {
    DType stored = plan.buffers[argument.buffer].shape.dtype;
    bool same = is_packed_type(stored) ? argument.type == DType::u8 : kernel_type(stored) == kernel_type(argument.type);
    if (!same) internal_error(cat("a kernel takes a buffer of ", stored, " for one of ", argument.type));
  }
}

PlanStep KernelBuilder::finish(PlanDraft& plan, const std::string& stem) {
  check_types(plan);
  PlanKernel kernel{.name = cat(stem, words_, "_", to_string(hash128(text(""))).substr(0, 6)),
                    .code = {},
                    .threads = threads_,
                    .shared_bytes = shared_bytes_,
                    .occupancy = occupancy_,
                    .cluster = cluster_,
                    .kind = kind_,
                    .notes_faults = notes_faults_};
  auto code = [&](const std::string& name) { return text(name); };
  LaunchStep launch{.kernel = plan.kernel_names.find_or_add(plan.kernels, std::move(kernel), code)};
  if (blocks_) launch.blocks = *blocks_;
  PlanStep step{.action = std::move(launch)};
  for (const Argument& argument : buffers_) {
    step.buffers.push_back(argument.buffer);
    if (argument.written) step.outputs.push_back(argument.buffer);
  }
  step.writes_apart = std::ranges::none_of(step.outputs, [&](BufferId id) {
    return std::ranges::any_of(buffers_, [&](const Argument& a) { return a.buffer == id && a.read; });
  });
  for (const Dim& dim : sizes_) step.sizes.push_back(plan.size_id(dim));
  step.in_place = in_place_;
  return step;
}

}  // namespace weft
