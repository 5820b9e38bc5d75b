// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/tensor.h"

/// What is inside sequences, optionals and maps (Tensor::items): how much it is, and lists that are changed where they
/// are.
namespace weft {

/// Items for a container.
std::shared_ptr<const std::vector<Tensor>> make_items(std::vector<Tensor> items);

/// Bytes of a container's items and theirs; what lies in one place counts as often as it occurs, unless note_bytes says
/// otherwise.
int64_t bytes_of_items(const Tensor& container);
void note_bytes_of_items(Tensor& container, int64_t bytes);
/// What a value takes as an item of a container.
int64_t bytes_as_item(const Tensor& value);

/// Puts an item before place `at`, or takes the one there away. The items of a container that nobody else holds are
/// changed where they are, those of another one are copied.
void insert_item(Tensor& container, int64_t at, Tensor item);
void erase_item(Tensor& container, int64_t at);

}  // namespace weft
