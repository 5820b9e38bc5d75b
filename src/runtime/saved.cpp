// SPDX-License-Identifier: Apache-2.0
#include "runtime/saved.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "runtime/plan_bytes.h"

namespace weft {
namespace {

constexpr std::string_view magic = "WEFTPROG";
/// Raised by every change of these structures, of Plan, or of how kernels are called (kernels/launch.h).
constexpr uint32_t format_version = 3;
constexpr size_t section_count = 3;

struct SectionKind {
  std::string_view name;
  size_t alignment;
};
constexpr std::array<SectionKind, section_count> kinds = {{{"plan", 64}, {"code", 64}, {"weights", 4096}}};

/// The file starts with these, little endian.
struct SectionEntry {
  char name[16];  // padded with zeros
  uint64_t offset, size;
  uint64_t checksum[2];  // XXH3 of its bytes: low, high
};
struct Header {
  char magic[8];
  uint32_t version, sections;
  uint64_t file_size;
  uint64_t checksum[2];  // of this structure, with zeros in this place
  SectionEntry table[section_count];
};
static_assert(sizeof(Header) == 184 && std::is_trivially_copyable_v<Header>);

void set_checksum(uint64_t (&out)[2], std::span<const std::byte> data) {
  Hash128 sum = hash128(data);
  out[0] = sum.low, out[1] = sum.high;
}

bool has_checksum(const uint64_t (&wanted)[2], std::span<const std::byte> data) {
  return hash128(data) == Hash128{wanted[0], wanted[1]};
}

void seal(Header& header) {
  std::ranges::fill(header.checksum, 0);
  set_checksum(header.checksum, std::as_bytes(std::span(&header, 1)));
}

[[noreturn]] void refuse(const char* code, std::string what, std::string hint = "compile the model again") {
  throw Error({.kind = ErrorKind::model, .code = code, .what = std::move(what), .hint = std::move(hint)});
}

[[noreturn]] void damaged(std::string_view section, std::string_view why) {
  refuse("E170", cat("the saved program is damaged: section '", section, "': ", why));
}

size_t aligned(size_t offset, size_t alignment) { return (offset + alignment - 1) / alignment * alignment; }

// --- writing ---------------------------------------------------------------------------------------------------------

/// Where each section lies; checksums are still missing.
Header lay_out(const std::array<size_t, section_count>& sizes) {
  Header header{};
  header.version = format_version;
  header.sections = section_count;
  magic.copy(header.magic, magic.size());
  size_t end = sizeof header;
  for (size_t i = 0; i < section_count; ++i) {
    SectionEntry& entry = header.table[i];
    kinds[i].name.copy(entry.name, sizeof entry.name);
    entry.offset = aligned(end, kinds[i].alignment);
    entry.size = sizes[i];
    end = entry.offset + entry.size;
  }
  header.file_size = end;
  return header;
}

void copy_to(std::span<std::byte> place, std::span<const std::byte> data) {
  if (!data.empty()) std::memcpy(place.data(), data.data(), data.size());
}

// --- reading ---------------------------------------------------------------------------------------------------------

void check_start(const Bytes& file) {
  std::string_view start = as_text(file).substr(0, magic.size());
  if (start.empty() || !magic.starts_with(start)) refuse("E170", "the file is no saved program", "");
}

void check_length(size_t there, size_t wanted) {
  if (there >= wanted) return;
  refuse("E173", cat("the saved program is cut short: ", there, " bytes are there, ", wanted, " are needed"),
         "copy it again, or compile the model again");
}

Header read_header(const Bytes& file) {
  check_start(file);
  check_length(file.size(), sizeof(Header));
  Header header;
  std::memcpy(&header, file.data(), sizeof header);
  if (header.version != format_version) {
    refuse("E171",
           cat("the saved program has format ", header.version, ", this is a library of format ", format_version));
  }
  Header expected = header;
  seal(expected);
  if (!std::ranges::equal(header.checksum, expected.checksum)) damaged("header", "it does not have its checksum");
  check_length(file.size(), header.file_size);
  if (file.size() > header.file_size) damaged("header", "there are bytes after the end");
  return header;
}

/// Sections lie one after another as lay_out puts them: that leaves no number of the table unchecked.
void check_table(const Header& header) {
  if (header.sections != section_count) damaged("header", "it does not have its sections");
  std::array<size_t, section_count> sizes{};
  for (size_t i = 0; i < section_count; ++i) {
    if (header.table[i].size > header.file_size) damaged(kinds[i].name, "it is larger than the file");
    sizes[i] = header.table[i].size;
  }
  Header expected = lay_out(sizes);
  for (size_t i = 0; i < section_count; ++i) std::ranges::copy(header.table[i].checksum, expected.table[i].checksum);
  seal(expected);
  if (std::memcmp(&header, &expected, sizeof header) != 0) damaged("header", "sections are not where they belong");
}

void check_zeros(const Bytes& file, size_t begin, size_t end, std::string_view section) {
  bool zeros = std::ranges::all_of(std::span<const std::byte>(file).subspan(begin, end - begin),
                                   [](std::byte b) { return b == std::byte{0}; });
  if (!zeros) damaged(section, "there are bytes before it");
}

std::array<Bytes, section_count> read_sections(const Bytes& file, const Header& header) {
  std::array<Bytes, section_count> sections;
  size_t end = sizeof(Header);
  for (size_t i = 0; i < section_count; ++i) {
    const SectionEntry& entry = header.table[i];
    check_zeros(file, end, entry.offset, kinds[i].name);
    sections[i] = file.part(entry.offset, entry.size);
    if (!has_checksum(entry.checksum, sections[i])) damaged(kinds[i].name, "it does not have its checksum");
    end = entry.offset + entry.size;
  }
  return sections;
}

/// Mapped files lie on pages; bytes of a caller may lie anywhere.
Bytes on_alignment(Bytes weights) {
  return reinterpret_cast<uintptr_t>(weights.data()) % 64 == 0 ? weights : Bytes::copy(weights);
}

}  // namespace

void save_plan(const std::filesystem::path& path, const Plan& plan, std::span<const std::byte> image) {
  EncodedPlan encoded = encode_plan(plan);
  Header header = lay_out({encoded.bytes.size(), image.size(), encoded.weight_bytes});
  std::vector<std::byte> file(header.file_size);
  auto section = [&](size_t i) { return std::span(file).subspan(header.table[i].offset, header.table[i].size); };
  copy_to(section(0), encoded.bytes);
  copy_to(section(1), image);
  for (const PlacedWeights& weights : encoded.weights) copy_to(section(2).subspan(weights.offset), weights.data);
  for (size_t i = 0; i < section_count; ++i) set_checksum(header.table[i].checksum, section(i));
  seal(header);
  copy_to(file, std::as_bytes(std::span(&header, 1)));
  write_file(path, file);
}

bool is_saved_plan(std::span<const std::byte> file) { return as_text(file).starts_with(magic); }

LoadedPlan load_plan(Bytes file) {
  Header header = read_header(file);
  check_table(header);
  auto [plan, code, weights] = read_sections(file, header);
  return {decode_plan(plan, on_alignment(weights)), code};
}

}  // namespace weft
