// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/tensor.h"

namespace weft {

/// `size` bytes of a file from `offset` on, mapped for a caller that vouches for the file. These are the only mapped
/// bytes that runs read. The SIGBUS guard of base/file_reading.h is active while they live. If they begin in the middle
/// of an element of `alignment` bytes, they are copied. Throws E106, and E161 if the file is too short.
Bytes map_kept(const std::filesystem::path& path, size_t offset, size_t size, size_t alignment);

/// Whether the bytes lie in a mapping of map_kept.
bool is_kept(std::span<const std::byte> data);

/// Throws E106 if they do and the file's size or time has changed. A file that was moved away or replaced by another
/// counts as unchanged.
void check_kept(std::span<const std::byte> data);

/// Called after a run that has read these tensors. Throws E106 if the file of such a mapping was shortened, so that
/// zeros were read in place of the missing bytes.
void check_read(std::span<const Tensor> tensors);

}  // namespace weft
