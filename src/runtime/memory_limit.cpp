// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "base/container.h"
#include "base/error.h"
#include "base/knobs.h"

namespace weft {

/// Returns the memory limit of the control group; INT64_MAX if there is none ("max", or no such file).
static int64_t control_group_limit() {
  int64_t limit = 0;
  std::ifstream("/sys/fs/cgroup/memory.max") >> limit;
  return limit > 0 ? limit : INT64_MAX;
}

static std::string in_mebibytes(int64_t bytes) { return bytes >> 20 ? cat(bytes >> 20, " MiB") : cat(bytes, " bytes"); }

[[noreturn]] static void refuse_with_largest(std::string what, const PlanBuffer& largest, int64_t bytes) {
  refuse_memory(std::move(what), largest.value, cat("the largest piece has ", in_mebibytes(bytes)));
}

static bool takes_memory(const PlanBuffer& buffer) {
  return buffer.kind == BufferKind::output || buffer.kind == BufferKind::arena;
}

void refuse_memory(std::string what, std::string where, std::string why) {
  throw Error({.kind = ErrorKind::resource,
               .code = "E401",
               .what = std::move(what),
               .where = std::move(where),
               .why = std::move(why),
               .hint = "use smaller sizes, or raise the limit (--memory-limit, WEFT_MEMORY_LIMIT)"});
}

int64_t default_memory_limit() {
  if (knobs().memory_limit > 0) return knobs().memory_limit << 20;
  static const int64_t whole = std::min<int64_t>(
      static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE), control_group_limit());
  return whole;
}

/// Throws E401 for a run; the error names the largest buffer.
[[noreturn]] static void refuse_run(const Plan& plan, const PerBuffer<int64_t>& bytes, const std::string& total,
                                    int64_t weights, int64_t limit) {
  BufferId largest(0);
  for (BufferId i : bytes.ids()) {
    if (!takes_memory(plan.buffers[i])) continue;
    if (bytes[i] > bytes[largest] || !takes_memory(plan.buffers[largest])) largest = i;
  }
  std::string with = weights > 0 ? cat(", ", in_mebibytes(weights), " of them for weights") : "";
  refuse_with_largest(cat("the run needs ", total, with, ", the limit is ", in_mebibytes(limit)), plan.buffers[largest],
                      bytes[largest]);
}

void check_memory(const Plan& plan, const PerBuffer<int64_t>& bytes, int64_t arena, int64_t packed, int64_t limit) {
  if (limit <= 0) limit = default_memory_limit();
  int64_t total = arena + packed;
  bool overflows = false;
  for (BufferId i : bytes.ids()) {
    if (plan.buffers[i].kind == BufferKind::output) overflows |= __builtin_add_overflow(total, bytes[i], &total);
  }
  if (overflows || total > limit)
    refuse_run(plan, bytes, overflows ? "more than 2^63 bytes" : in_mebibytes(total), packed, limit);
}

void check_device_memory(const Plan& plan, const PerBuffer<int64_t>& bytes, int64_t arena, int64_t weights,
                         int64_t limit) {
  if (arena > limit - weights) refuse_run(plan, bytes, in_mebibytes(arena + weights), weights, limit);
}

static int64_t distinct_bytes(const Tensor& value, std::set<const void*>& seen) {
  if (value.is_tensor()) {
    const void* place = value.strings ? static_cast<const void*>(value.strings.get()) : value.data.data();
    return seen.insert(place).second ? bytes_as_item(value) : static_cast<int64_t>(sizeof value);
  }
  auto total = static_cast<int64_t>(sizeof value);
  for (const Tensor& item : *value.items) total += distinct_bytes(item, seen);
  return total;
}

void check_container_memory(Tensor& container, int64_t limit) {
  if (bytes_of_items(container) <= limit) return;
  std::set<const void*> seen;
  int64_t distinct = distinct_bytes(container, seen);
  if (distinct <= limit) return note_bytes_of_items(container, distinct);
  refuse_memory(
      cat("a list of ", container.items->size(), " values takes more than the memory limit of ", in_mebibytes(limit)));
}

[[noreturn]] static void refuse_weights(const char* what, int64_t bytes, const PlanBuffer& largest, int64_t limit) {
  refuse_with_largest(cat("the ", what, " need ", in_mebibytes(bytes), ", the limit is ", in_mebibytes(limit)), largest,
                      largest.bytes.value());
}

/// Returns the largest of the wanted buffers; there must be one.
template <class Wanted>
static const PlanBuffer& largest_buffer(const Plan& plan, const Wanted& is_wanted) {
  const PlanBuffer* largest = nullptr;
  for (BufferId i : plan.buffers.ids()) {
    const PlanBuffer& buffer = plan.buffers[i];
    if (is_wanted(i) && (!largest || buffer.bytes.value() > largest->bytes.value())) largest = &buffer;
  }
  return *largest;
}

void check_packed_memory(const Plan& plan, int64_t bytes, int64_t limit) {
  if (limit <= 0) limit = default_memory_limit();
  auto is_packed = [&](BufferId i) { return plan.buffers[i].kind == BufferKind::persistent; };
  if (bytes > limit) refuse_weights("packed weights", bytes, largest_buffer(plan, is_packed), limit);
}

void check_device_weights(const Plan& plan, const PerBuffer<bool>& is_read, int64_t limit) {
  auto stays = [&](BufferId i) {
    BufferKind kind = plan.buffers[i].kind;
    return kind == BufferKind::persistent || (kind == BufferKind::constant && is_read[i]);
  };
  int64_t total = 0;
  for (BufferId i : plan.buffers.ids()) total += stays(i) ? plan.buffers[i].bytes.value() : 0;
  if (total > limit) refuse_weights("weights", total, largest_buffer(plan, stays), limit);
}

}  // namespace weft
