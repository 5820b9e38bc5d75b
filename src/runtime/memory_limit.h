// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/plan.h"

namespace weft {

/// Returns the limit in bytes: WEFT_MEMORY_LIMIT, else the smaller of the machine's and the control group's memory.
int64_t default_memory_limit();

/// Throws E401 with these texts and a hint on how to raise the limit.
[[noreturn]] void refuse_memory(std::string what, std::string where = {}, std::string why = {});

/// Throws E401 if a run would take more than `limit` bytes (0: the default); called before memory is allocated. `bytes`
/// are the sizes of the plan's buffers, `arena` the size of the arena, `packed` the size of all packed weights. The
/// error names the node with the largest buffer.
void check_memory(const Plan& plan, const PerBuffer<int64_t>& bytes, int64_t arena, int64_t packed, int64_t limit);

/// Throws E401 if a run on a GPU would take more than `limit` bytes. `arena` is the size of the arena with inputs and
/// outputs, `weights` the size of constants and packed weights.
void check_device_memory(const Plan& plan, const PerBuffer<int64_t>& bytes, int64_t arena, int64_t weights,
                         int64_t limit);

/// Throws E401 if the tensors of a container take more than `limit` bytes. Memory that tensors share counts once.
void check_container_memory(Tensor& container, int64_t limit);

/// Throws E401 if packed weights of `bytes` bytes exceed `limit` bytes (0: the default). Called before packing.
void check_packed_memory(const Plan& plan, int64_t bytes, int64_t limit);

/// Throws E401 if a GPU's weights (packed weights, and constants with is_read set) take more than `limit` bytes.
void check_device_weights(const Plan& plan, const PerBuffer<bool>& is_read, int64_t limit);

}  // namespace weft
