// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/tensor.h"

namespace weft {

/// Maps `size` bytes of a file from `offset` on, for a caller who promises not to change the file. Runs read these
/// bytes in place; bytes of other mapped files are copied first. Bytes not aligned to `alignment` are copied too. The
/// SIGBUS guard of base/file_reading.h is active while the bytes live. Throws E106, and E161 if the file is too short.
Bytes map_kept(const std::filesystem::path& path, size_t offset, size_t size, size_t alignment);

/// True if the bytes lie in a mapping of map_kept.
bool is_kept(std::span<const std::byte> data);

/// Throws E106 if the bytes lie in a mapping of map_kept and the file's size or time has changed. A file that was moved
/// or replaced counts as unchanged, because the mapping still refers to the old file.
void check_kept(std::span<const std::byte> data);

/// Call it after a run that has read these tensors. Throws E106 if a file mapped by map_kept was shortened, so that the
/// run read zeros in place of the missing bytes.
void check_read(std::span<const Tensor> tensors);

}  // namespace weft
