// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/gpu_tasks.h"
#include "lower/view.h"
#include "plan/plan.h"

namespace weft {

/// Returns an element type's name in kernel sources. Throws E149 for packed and complex types, which have none.
std::string kernel_type(DType type);
/// Returns the type in which kernels compute: f32 for narrow floats, u8 for bool, an 8-bit integer for packed integers,
/// i64 for strings, else the type itself.
DType compute_type(DType type);

/// Returns C++ text that converts the elements loaded by the expression `text` from type `from` to type `to`.
std::string converted(const std::string& text, DType from, DType to);

/// True for types with several elements per byte. Operands of these types are unpacked, except a BlockDot's weights.
inline bool is_packed_type(DType type) { return bits(type) > 0 && bits(type) < 8 && type != DType::boolean; }

/// The kernels of a plan by name. A name ends in a short hash of the code, so two kernels may want the same name.
class KernelNames {
 public:
  explicit KernelNames(const Table<PlanKernel>& kernels = {}) {
    for (KernelId id : kernels.ids()) ids_[kernels[id].name] = id;
  }
  /// Returns the kernel that equals this one with the source `code(name)`. If there is none, adds it; a number follows
  /// its name if another kernel has that name.
  template <class Code>
  KernelId find_or_add(Table<PlanKernel>& kernels, PlanKernel kernel, const Code& code) {
    const std::string name = kernel.name;
    for (int number = 2;; ++number) {
      kernel.code = code(kernel.name);
      auto [entry, is_new] = ids_.try_emplace(kernel.name, kernels.end_id());
      if (is_new) return kernels.add(std::move(kernel));
      if (kernels[entry->second] == kernel) return entry->second;
      kernel.name = cat(name, "_", number);
    }
  }

 private:
  std::unordered_map<std::string, KernelId> ids_;
};

/// A plan under construction, with tables that find equal kernels and sizes.
struct PlanDraft : Plan {
  KernelNames kernel_names;
  /// Returns the id of a size in Plan::sizes; adds the size if it is new.
  SizeId size_id(const Dim& dim);

 private:
  std::unordered_map<std::string, std::vector<SizeId>> size_ids_;  // key: the size as text
};

/// A writer of the source of one kernel, which also collects the launch arguments. Buffers are numbered in order of
/// first use and sizes in order of use, so the text does not depend on the sizes. Equal sizes get different numbers;
/// otherwise a layer in which two sizes (such as input and output channels) are equal would need a kernel of its own.
///
///     KernelBuilder k("pointwise.h");
///     std::string x = k.buffer(view.buffer, DType::f32, false), n = k.size(dim);
///     k.line("store(", y, " + i, load<W>(", x, " + i, lanes), lanes);");
///     PlanStep step = k.finish(plan, "copy");
class KernelBuilder {
 public:
  explicit KernelBuilder(std::string header) : header_(std::move(header)) {}

  /// Returns the variable that points to the buffer's elements.
  std::string buffer(BufferId buffer, DType type, bool written);
  /// Returns a variable for a size, or the literal for 0 and 1, which lets the compiler specialise the kernel for them.
  std::string size(const Dim& dim);
  /// Returns a variable, never a literal, for sizes whose values make no kernel faster: offsets, window geometry.
  std::string number(const Dim& dim);

  void set_header(std::string header) { header_ = std::move(header); }
  /// CPUs: names functions of a header, "Micro<MacF32, native_tile>", that are compiled once for all their users.
  void share(const std::string& header, const std::string& functions);
  /// Sets the declarations that come before the kernel.
  void set_prelude(std::string text) { prelude_ = std::move(text); }
  /// Appends a statement to the kernel's body.
  template <class... Args>
  void line(const Args&... args) {
    body_ += cat("  ", args..., "\n");
  }
  /// Replaces a text in the lines written so far.
  void replace(std::string_view from, std::string_view to);
  /// Returns the name of a constant with this value, which is computed once at the start of the kernel.
  std::string once(const std::string& expression);
  /// GPUs: adds a statement that runs before the kernel waits for the previous launch.
  void before_wait(const std::string& statement) {
    if (ahead_.find(statement) == ahead_.npos) ahead_ += cat("  ", statement, "\n");
  }
  /// Appends a word to the kernel's readable name.
  void name_part(std::string_view word);
  /// Sets the C++ expressions over sizes for the number of tasks and the bytes of scratch memory per thread.
  void set_tasks(std::string tasks, std::string scratch_bytes = "0");
  /// GPUs: sets the number of blocks, the threads and dynamic shared memory of a block, and the blocks of a cluster.
  void set_grid(Dim blocks, int threads = tasks::block_threads, int shared_bytes = 0, int cluster = 1);

  /// GPUs: sets how many blocks should fit on a compute unit at once; this limits the registers per thread.
  void set_occupancy(int blocks) { occupancy_ = blocks; }
  /// GPUs: declares that the body waits for the previous launch. Otherwise the builder adds the wait before the body.
  void set_waits_itself() { waits_itself_ = true; }

  void set_kind(KernelKind kind) { kind_ = kind; }
  /// Returns the launch argument for functions that check indices; notes that the kernel may report a fault.
  const char* launch_noting_faults() {
    notes_faults_ = true;
    return "WEFT_LAUNCH";
  }

  /// Sets buffers whose memory the result may overwrite (PlanStep::in_place).
  void set_in_place(std::vector<BufferId> buffers) { in_place_ = std::move(buffers); }
  /// True if the lines written so far read or write this buffer.
  bool uses(BufferId buffer) const;

  /// Adds the kernel to the plan unless the plan has an equal kernel; returns the launch step.
  PlanStep finish(PlanDraft& plan, const std::string& stem);

 private:
  struct Argument {
    BufferId buffer;
    DType type;
    bool read, written;
  };
  std::string text(const std::string& name) const;
  void check_types(const PlanDraft& plan) const;

  std::string header_, shared_, prelude_, ahead_, head_, body_, words_, tasks_ = "1", scratch_ = "0";
  std::vector<Argument> buffers_;
  std::vector<BufferId> in_place_;
  std::vector<Dim> sizes_;
  std::optional<Dim> blocks_;  // GPUs only
  int constants_ = 0;
  int threads_ = tasks::block_threads, shared_bytes_ = 0, cluster_ = 1, occupancy_ = 0;
  bool waits_itself_ = false, notes_faults_ = false;
  KernelKind kind_ = KernelKind::own;
};

}  // namespace weft
