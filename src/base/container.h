// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/tensor.h"

/// Functions for the items of sequences, optionals and maps (Tensor::items): count bytes, insert and erase.
namespace weft {

/// Returns the items as a list that containers can share.
std::shared_ptr<const std::vector<Tensor>> make_items(std::vector<Tensor> items);

/// Returns the bytes of a container's items, nested items included; memory that occurs twice counts twice. If
/// note_bytes_of_items has stored a number, returns that number.
int64_t bytes_of_items(const Tensor& container);
void note_bytes_of_items(Tensor& container, int64_t bytes);
/// Returns the bytes that this value adds to a container that holds it.
int64_t bytes_as_item(const Tensor& value);

/// insert_item inserts `item` before index `at`; erase_item erases item `at`. Both change the list of items in place if
/// no other container shares the list, and otherwise copy it.
void insert_item(Tensor& container, int64_t at, Tensor item);
void erase_item(Tensor& container, int64_t at);

}  // namespace weft
