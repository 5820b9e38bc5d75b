// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "base/file.h"
#include "plan/plan.h"

/// Encodes and decodes the parts of a saved program, without the contents of constants. The contents are aligned in
/// another section of the file, so that a program can use them in the mapped file.
namespace weft {

struct ProgramSource;

/// The place of one constant's contents in the weights section, in bytes, and their hash. Offsets are multiples of 64.
struct PlacedConstant {
  size_t offset = 0, size = 0;
  Hash128 hash = {};
};

/// The contents of constants (as spans), without duplicates.
class ConstantStore {
 public:
  /// Adds contents, unless equal contents were added before; returns their index.
  size_t add(std::span<const std::byte> data);
  const std::vector<PlacedConstant>& places() const { return places_; }
  std::span<const std::byte> data(size_t number) const { return data_[number]; }
  size_t bytes() const { return bytes_; }  ///< of all contents and the gaps between them

 private:
  std::vector<PlacedConstant> places_;
  std::vector<std::span<const std::byte>> data_;
  std::map<std::pair<Hash128, size_t>, size_t> known_;
  // finds earlier contents by address and size, without hashing
  std::map<std::pair<const std::byte*, size_t>, size_t> seen_;
  size_t bytes_ = 0;
};

/// The weights section, and the place of each constant in it.
struct ConstantPlaces {
  Bytes weights;
  std::span<const PlacedConstant> places;
};

/// The decoded "contents" section of a saved program.
struct Contents {
  std::vector<Chip> chips;
  std::vector<PlacedConstant> constants;
};

/// Return the first argument as bytes; equal values give equal bytes.
std::vector<std::byte> encode(const Contents& contents);
std::vector<std::byte> encode(const Plan& plan, ConstantStore& constants);
std::vector<std::byte> encode(const ProgramSource& source, ConstantStore& constants);

/// Decode the output of encode; constants refer to the weights. For damaged bytes, throw E170 with the cause, for
/// example an invalid index or a constant outside the weights section of `weight_bytes` bytes.
Contents decode_contents(std::span<const std::byte> bytes, size_t weight_bytes);
Plan decode_plan(std::span<const std::byte> bytes, const ConstantPlaces& constants);
ProgramSource decode_source(std::span<const std::byte> bytes, const ConstantPlaces& constants);

}  // namespace weft
