// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>

#include "plan/plan.h"

namespace weft {

/// The limit in bytes: WEFT_MEMORY_LIMIT, else the memory of the machine or its control group.
int64_t default_memory_limit();

/// Throws E401; the hint says how to raise the limit.
[[noreturn]] void refuse_memory(std::string what, std::string where = {}, std::string why = {});

/// Refuses (E401) a run that would take more than `limit` bytes (0: the default), packed weights included, before any
/// is taken. `bytes` are those of each buffer of the plan, `arena` those of the working memory, `packed` those of
/// packed weights. The error names the node with the largest buffer.
void check_memory(const Plan& plan, std::span<const int64_t> bytes, int64_t arena, int64_t packed, int64_t limit);

/// The same on a GPU. `arena` includes inputs and outputs; `weights` are constants and packed weights.
void check_device_memory(const Plan& plan, std::span<const int64_t> bytes, int64_t arena, int64_t weights,
                         int64_t limit);

/// Refuses (E401) a sequence, optional or map whose tensors take more than `limit` bytes. Tensors that share memory
/// then count once.
void check_container_memory(Tensor& container, int64_t limit);

/// Refuses (E401) weights that would take more than `limit` bytes (0: the default), before they are packed.
void check_packed_memory(const Plan& plan, int64_t bytes, int64_t limit);

/// The same for weights on a GPU: packed ones, and constants whose buffers runs read.
void check_device_weights(const Plan& plan, const std::vector<bool>& is_read, int64_t limit);

}  // namespace weft
