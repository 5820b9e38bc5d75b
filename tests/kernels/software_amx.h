// SPDX-License-Identifier: Apache-2.0
#pragma once
/// AMX in software, for tests of the AMX kernels on processors without AMX: functions in place of clang's builtins.

#include "kernels/vec.h"

namespace weft::kernel::software_amx {

struct alignas(64) Tile {
  u32 row[16][16];
};
inline Tile tiles[8];

inline void load(int tile, const void* from, u64 stride) {
  for (int i = 0; i < 16; ++i)
    __builtin_memcpy(tiles[tile].row[i], static_cast<const char*>(from) + static_cast<u64>(i) * stride, 64);
}
inline void store(int tile, void* to, u64 stride) {
  for (int i = 0; i < 16; ++i)
    __builtin_memcpy(static_cast<char*>(to) + static_cast<u64>(i) * stride, tiles[tile].row[i], 64);
}
inline void clear(int tile) { tiles[tile] = {}; }

/// Calls add(sum, unit of A, unit of B), units by rising k, for all sums of tile c.
template <class Add>
inline void multiply(int c, int a, int b, const Add& add) {
  for (int m = 0; m < 16; ++m) {
    for (int k = 0; k < 16; ++k) {
      for (int n = 0; n < 16; ++n) add(tiles[c].row[m][n], tiles[a].row[m][k], tiles[b].row[k][n]);
    }
  }
}
inline void multiply_bytes(int c, int a, int b) {
  multiply(c, a, b, [](u32& sum, u32 x, u32 y) {
    for (int i = 0; i < 32; i += 8) sum += static_cast<u32>(static_cast<i32>(x >> i & 255) * static_cast<i8>(y >> i));
  });
}
inline void multiply_pairs(int c, int a, int b) {
  multiply(c, a, b, [](u32& sum, u32 x, u32 y) {
    const auto number = [](u32 bits) { return __builtin_bit_cast(f32, bits); };
    f32 total = number(sum);
    total += number(x << 16) * number(y << 16);
    total += number(x & 0xffff0000u) * number(y & 0xffff0000u);
    sum = __builtin_bit_cast(u32, total);
  });
}

}  // namespace weft::kernel::software_amx

#define WEFT_SOFTWARE_AMX
#define __builtin_ia32_tileloadd64 software_amx::load
#define __builtin_ia32_tilestored64 software_amx::store
#define __builtin_ia32_tilezero software_amx::clear
#define __builtin_ia32_tdpbusd software_amx::multiply_bytes
#define __builtin_ia32_tdpbf16ps software_amx::multiply_pairs
#define __builtin_ia32_tile_loadconfig(config) static_cast<void>(config)
#define __builtin_ia32_tilerelease() static_cast<void>(0)
