// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <span>

#include "base/error.h"
#include "kernel_build/codegen_loader.h"
#include "kernel_build/kernel_pack.h"

namespace weft {

/// Writes a pack of kernels for the build of the code generator that `compiler` names. A frame stores equal data once.
inline void write_pack(const std::filesystem::path& file, const std::string& compiler,
                       std::span<const PackEntry> entries) {
  std::map<Hash128, const PackEntry*> sorted;
  for (const PackEntry& entry : entries) sorted.emplace(entry.key, &entry);
  std::map<std::pair<uint32_t, Hash128>, uint32_t> known;  // frame, checksum of data -> byte offset in frame
  std::map<uint32_t, std::vector<std::byte>> frames;
  std::vector<PackPlace> places;
  for (auto [key, entry] : sorted) {
    std::vector<std::byte>& frame = frames[entry->frame];
    std::span<const std::byte> data = entry->data;
    auto [place, is_new] = known.try_emplace({entry->frame, hash128(data)}, static_cast<uint32_t>(frame.size()));
    if (is_new) frame.insert(frame.end(), data.begin(), data.end());
    places.push_back({key, entry->frame, place->second, static_cast<uint32_t>(data.size())});
  }
  std::vector<std::span<const std::byte>> pieces(2);
  std::map<uint64_t, uint64_t> offsets;  // frame -> offset in the file, in bytes
  uint64_t end = sizeof(PackHeader) + places.size() * sizeof(PackPlace);
  for (auto& [index, frame] : frames) {
    std::vector<std::byte> packed = codegen().compress(frame);
    check(!packed.empty() && frame.size() <= largest_frame, "a frame of a pack of kernels is too large");
    const PackFrame header{hash128(packed), packed.size(), frame.size()};
    auto head = std::as_bytes(std::span(&header, 1));
    frame.assign(head.begin(), head.end());
    frame.insert(frame.end(), packed.begin(), packed.end());
    pieces.emplace_back(frame);
    offsets[index] = end;
    end += frame.size();
  }
  for (PackPlace& place : places) place.frame = offsets[place.frame];
  pieces[1] = std::as_bytes(std::span(places));
  const PackHeader header{.count = places.size(), .compiler = hash128(compiler), .checksum = hash128(pieces[1])};
  pieces[0] = std::as_bytes(std::span(&header, 1));
  write_file(file, pieces);
}

}  // namespace weft
