// SPDX-License-Identifier: Apache-2.0
#include "base/chip_features.h"

namespace weft {

bool multiplies(DType type, const Chip& chip) {
  return type == DType::f32 || (type == DType::bf16 && has_feature(chip, "avx512bf16"));
}

bool multiplies_bytes(const Chip& chip) { return has_feature(chip, "avx512vnni") || has_feature(chip, "avxvnni"); }

bool multiplies_tiles(const Chip& chip) { return has_feature(chip, "amx-int8"); }

std::string chip_name(const Chip& chip) {
  if (!is_cpu(chip.kind)) return chip.arch;
  std::string name = chip.arch;
  for (char c : chip.features) {
    if (c != ',') name += c;
  }
  return name;
}

}  // namespace weft
