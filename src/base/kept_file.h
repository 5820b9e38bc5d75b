// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/tensor.h"

namespace weft {

/// Maps `size` bytes of a file from `offset` on, for a caller who promises not to change the file. Runs read these
/// bytes in the mapping, without the copy that other mapped files need. If `offset` is not a multiple of `alignment`,
/// returns a copy. A FileGuard exists as long as the mapping. Throws E106, and E161 if the file is too short.
Bytes map_kept(const std::filesystem::path& path, size_t offset, size_t size, size_t alignment);

/// True if the bytes are in a mapping of map_kept.
bool is_kept(std::span<const std::byte> data);

/// Throws E106 if the bytes are in a mapping of map_kept and the file's size or modification time has changed. A file
/// that was moved or replaced counts as unchanged, because the mapping still refers to the old file.
void check_kept(std::span<const std::byte> data);

/// Throws E106 if a file mapped by map_kept was shortened while a run read these tensors, so that the run may have read
/// zeros in place of the missing bytes. Callers call this function after the run.
void check_read(std::span<const Tensor> tensors);

}  // namespace weft
