// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/tensor.h"

/// Items of sequences, optionals and maps (Tensor::items): their size in bytes, and functions that change lists in
/// place.
namespace weft {

/// Items for a container.
std::shared_ptr<const std::vector<Tensor>> make_items(std::vector<Tensor> items);

/// Bytes of a container's items, and of the items inside these. Memory that occurs twice counts twice, unless
/// note_bytes_of_items says otherwise.
int64_t bytes_of_items(const Tensor& container);
void note_bytes_of_items(Tensor& container, int64_t bytes);
/// The bytes of a value that is an item of a container.
int64_t bytes_as_item(const Tensor& value);

/// Inserts an item before place `at`, or erases the one there. Items of a container without other owners are changed in
/// place; otherwise they are copied.
void insert_item(Tensor& container, int64_t at, Tensor item);
void erase_item(Tensor& container, int64_t at);

}  // namespace weft
