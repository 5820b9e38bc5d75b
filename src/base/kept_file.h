// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/tensor.h"

namespace weft {

/// `size` bytes of a file from `offset` on, mapped for a caller who answers for the file: runs read them there, which
/// they do nowhere else. The guard of base/file_reading.h stands as long as they live. Bytes that begin in the middle
/// of an element of `alignment` bytes are copied. Throws E106, and E161 where the file is too short.
Bytes map_kept(const std::filesystem::path& path, size_t offset, size_t size, size_t alignment);

/// Whether the bytes lie in such a mapping.
bool is_kept(std::span<const std::byte> data);

/// Throws E106 when they do and the file has another size or time than when it was mapped. One that was moved away, or
/// replaced by another, is as it was.
void check_kept(std::span<const std::byte> data);

/// Stands behind a run that has read these: throws E106 when one lies in such a mapping of a file that was cut short,
/// and zeros were read in the place of what is gone.
void check_read(std::span<const Tensor> tensors);

}  // namespace weft
