// SPDX-License-Identifier: Apache-2.0
#include "base/container.h"

namespace weft {
namespace {

/// The type of the object that every Tensor::items points to.
struct Items : std::vector<Tensor> {
  int64_t bytes = 0;
};

int64_t saturating_add(int64_t a, int64_t b) { return __builtin_add_overflow(a, b, &a) ? INT64_MAX : a; }

const Items& items_of(const Tensor& container) { return static_cast<const Items&>(*container.items); }

/// Returns the items to modify; first copies them if other containers share them. The const_cast is legal, because the
/// object itself is not const.
Items& own_items(Tensor& container) {
  if (container.items.use_count() != 1) container.items = std::make_shared<Items>(items_of(container));
  return const_cast<Items&>(items_of(container));
}

}  // namespace

std::shared_ptr<const std::vector<Tensor>> make_items(std::vector<Tensor> items) {
  auto made = std::make_shared<Items>();
  for (const Tensor& item : items) made->bytes = saturating_add(made->bytes, bytes_as_item(item));
  static_cast<std::vector<Tensor>&>(*made) = std::move(items);
  return made;
}

int64_t bytes_of_items(const Tensor& container) { return items_of(container).bytes; }

int64_t bytes_as_item(const Tensor& value) {
  size_t bytes = sizeof value + value.data.size();
  if (value.strings) {
    for (const std::string& text : *value.strings) bytes += sizeof text + text.size();
  }
  return saturating_add(value.is_tensor() ? 0 : bytes_of_items(value), static_cast<int64_t>(bytes));
}

void note_bytes_of_items(Tensor& container, int64_t bytes) { own_items(container).bytes = bytes; }

void insert_item(Tensor& container, int64_t at, Tensor item) {
  Items& items = own_items(container);
  items.bytes = saturating_add(items.bytes, bytes_as_item(item));
  items.insert(items.begin() + at, std::move(item));
}

void erase_item(Tensor& container, int64_t at) {
  Items& items = own_items(container);
  items.bytes -= bytes_as_item(items[at]);
  items.erase(items.begin() + at);
}

}  // namespace weft
