// SPDX-License-Identifier: Apache-2.0
/// Blocks for tensors that grow while a model runs (runtime/blocks.h).

#include "runtime/blocks.h"

#include <doctest/doctest.h>

#include "errors.h"
#include "targets/cpu/memory.h"

namespace weft::test {

TEST_CASE("blocks are reused and never exceed the limit") {
  BlockPool<AlignedMemory> pool([](int64_t bytes) { return AlignedMemory(bytes); });
  AlignedMemory first = pool.take(5000, 10200), second = pool.take(4999, 10200);
  CHECK(first.bytes() >= 5000);
  CHECK(second.bytes() >= 4999);
  CHECK(pool.bytes() <= 10200);
  CHECK(code_of([&] { (void)pool.take(1, pool.bytes()); }) == "E401");
  const std::byte* place = first.data();
  pool.give_back(std::move(first));
  CHECK(pool.take(4000, 10200).data() == place);
}

}  // namespace weft::test
