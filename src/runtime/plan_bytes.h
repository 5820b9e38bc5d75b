// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "base/file.h"
#include "plan/plan.h"

/// The parts of a saved program as bytes and back. The bytes exclude the contents of constants. These are laid out
/// separately, so that a file can hold them aligned and a program can use them in the mapped file.
namespace weft {

struct ProgramSource;

/// The contents of one constant among those of a file, at a multiple of 64.
struct PlacedConstant {
  size_t offset = 0, size = 0;
  Hash128 hash = {};
};

/// Collects views of the contents of constants, and keeps equal contents only once.
class ConstantStore {
 public:
  /// Adds contents; returns their number.
  size_t add(std::span<const std::byte> data);
  const std::vector<PlacedConstant>& places() const { return places_; }
  std::span<const std::byte> data(size_t number) const { return data_[number]; }
  size_t bytes() const { return bytes_; }  ///< of all, gaps included

 private:
  std::vector<PlacedConstant> places_;
  std::vector<std::span<const std::byte>> data_;
  std::map<std::pair<Hash128, size_t>, size_t> known_;
  // finds contents that were added before without hashing them
  std::map<std::pair<const std::byte*, size_t>, size_t> seen_;
  size_t bytes_ = 0;
};

/// Where to read constants from; the places lie within the weights.
struct ConstantPlaces {
  Bytes weights;
  std::span<const PlacedConstant> places;
};

/// The contents of a file.
struct Contents {
  std::vector<Chip> chips;
  std::vector<PlacedConstant> constants;
};

/// Equal values give equal bytes.
std::vector<std::byte> encode(const Contents& contents);
std::vector<std::byte> encode(const Plan& plan, ConstantStore& constants);
std::vector<std::byte> encode(const ProgramSource& source, ConstantStore& constants);

/// These read the output of encode; constants are parts of the weights. The bytes may be anything, so every number is
/// checked before it is used. A plan is returned only if all its indexes are valid, no step uses memory that it does
/// not have, and the places of constants lie within `weight_bytes`. Throw E170 with the cause.
Contents decode_contents(std::span<const std::byte> bytes, size_t weight_bytes);
Plan decode_plan(std::span<const std::byte> bytes, const ConstantPlaces& constants);
ProgramSource decode_source(std::span<const std::byte> bytes, const ConstantPlaces& constants);

}  // namespace weft
