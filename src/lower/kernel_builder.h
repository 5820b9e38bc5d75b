// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/gpu_tasks.h"
#include "lower/view.h"
#include "plan/plan.h"

namespace weft {

/// The name of an element type in kernel sources. E149 for types that kernels cannot address (packed, complex, string).
std::string kernel_type(DType type);
/// The type in which kernels compute: f32 for narrow floats, u8 for bool, a byte for packed integers, else the type
/// itself.
DType compute_type(DType type);

/// C++ text that converts elements of `from`, which `text` loads, to `to`.
std::string converted(const std::string& text, DType from, DType to);

/// Types with several elements in a byte. Programs may have such inputs and constants; they are unpacked first.
inline bool is_packed_type(DType type) { return bits(type) > 0 && bits(type) < 8 && type != DType::boolean; }

/// A plan under construction, with tables for entries that must not occur twice.
struct PlanDraft : Plan {
  /// The number of a kernel; `code` makes its text if the name is new.
  template <class Code>
  int kernel_number(PlanKernel kernel, const Code& code) {
    auto [entry, is_new] = kernel_numbers_.try_emplace(kernel.name, static_cast<int>(kernels.size()));
    if (!is_new) return entry->second;
    kernel.code = code();
    kernels.push_back(std::move(kernel));
    return entry->second;
  }
  /// The number of a size in Plan::sizes; a new size is added.
  int size_number(const Dim& dim);

 private:
  std::unordered_map<std::string, int> kernel_numbers_;
  std::unordered_map<std::string, std::vector<int>> size_numbers_;  // by text
};

/// Writes one kernel's source and collects the arguments of its launch. Buffers and sizes are numbered in order of
/// first use, so equal work gives equal text for all sizes. Two sizes that happen to be equal still get two numbers: a
/// coincidence (as many channels out as in) must not make another kernel.
///
///     KernelBuilder k("pointwise.h");
///     std::string x = k.buffer(view.buffer, DType::f32, false), n = k.size(dim);
///     k.line("store(", y, " + i, load<W>(", x, " + i, lanes), lanes);");
///     PlanStep step = k.finish(plan, "copy");
class KernelBuilder {
 public:
  explicit KernelBuilder(std::string header) : header_(std::move(header)) {}

  /// The variable that points to the buffer's elements.
  std::string buffer(int buffer, DType type, bool written);
  /// A variable that holds a size; 0 and 1 are written as literals, so that code can depend on them.
  std::string size(const Dim& dim);
  /// The same without literals, for sizes that affect only numbers: offsets, the geometry of windows.
  std::string number(const Dim& dim);

  void set_header(std::string header) { header_ = std::move(header); }
  /// Functions of a header that are compiled once for all kernels that use them: "Micro<MacF32, native_tile>". CPUs.
  void share(const std::string& header, const std::string& functions);
  /// Sets declarations before the kernel.
  void set_prelude(std::string text) { prelude_ = std::move(text); }
  /// A statement of the kernel's body.
  template <class... Args>
  void line(const Args&... args) {
    body_ += cat("  ", args..., "\n");
  }
  /// Replaces a text in the lines so far.
  void replace(std::string_view from, std::string_view to);
  /// The name of a constant with this value, made when the kernel begins.
  std::string once(const std::string& expression);
  /// GPUs: adds a statement that runs before the kernel waits for the previous launch.
  void before_wait(const std::string& statement) {
    if (ahead_.find(statement) == ahead_.npos) ahead_ += cat("  ", statement, "\n");
  }
  /// Adds a word to the kernel's readable name.
  void name_part(std::string_view word);
  /// Expressions over sizes for the plan function: tasks, and bytes of scratch that a thread needs.
  void set_tasks(std::string tasks, std::string scratch_bytes = "0");
  /// GPUs: blocks that have work, the threads and dynamic shared memory of a block, and blocks of a cluster.
  void set_grid(Dim blocks, int threads = tasks::block_threads, int shared_bytes = 0, int cluster = 1);

  /// GPUs: blocks that should fit on a compute unit at once, which limits registers.
  void set_occupancy(int blocks) { occupancy_ = blocks; }
  /// The body waits for the previous launch; WEFT_KERNEL would wait before it (kernels/device.h: WEFT_KERNEL_AHEAD).
  void set_waits_itself() { waits_itself_ = true; }

  void set_kind(KernelKind kind) { kind_ = kind; }
  /// The launch argument, for kernel functions that check an index and note one out of range.
  const char* launch_noting_faults() {
    notes_faults_ = true;
    return "WEFT_LAUNCH";
  }

  /// Buffers that may share the result's memory (PlanStep::in_place).
  void set_in_place(std::vector<int> buffers) { in_place_ = std::move(buffers); }
  /// True when a line so far reads or writes this buffer.
  bool uses(int buffer) const;

  /// Adds the kernel to the plan unless an equal one exists; returns the launch.
  PlanStep finish(PlanDraft& plan, const std::string& stem);

 private:
  struct Argument {
    int buffer;
    DType type;
    bool read, written;
  };
  std::string text(const std::string& name) const;
  void check_types(const PlanDraft& plan) const;

  std::string header_, shared_, prelude_, ahead_, head_, body_, words_, tasks_ = "1", scratch_ = "0";
  std::vector<Argument> buffers_;
  std::vector<int> in_place_;
  std::vector<Dim> sizes_;
  std::optional<Dim> blocks_;  // GPUs only
  int constants_ = 0;
  int threads_ = tasks::block_threads, shared_bytes_ = 0, cluster_ = 1, occupancy_ = 0;
  bool waits_itself_ = false, notes_faults_ = false;
  KernelKind kind_ = KernelKind::own;
};

}  // namespace weft
