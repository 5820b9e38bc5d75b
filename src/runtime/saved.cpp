// SPDX-License-Identifier: Apache-2.0
#include "runtime/saved.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/file_reading.h"
#include "runtime/executable.h"

namespace weft {
namespace {

constexpr std::string_view magic = "WEFTPROG";
/// The version of the file format. Increase it with every change of the structures below, of Plan, of the text form, or
/// of the arguments of kernels (kernels/launch.h).
constexpr uint32_t format_version = 9;
constexpr size_t max_chips = 64;

/// The file begins with a Header, then a SectionEntry for each section, little endian.
struct SectionEntry {
  char name[16];  // padded with zeros
  uint64_t offset, size;
  uint64_t checksum[2];  // XXH3 (low, high) of the section; for weights, of the checksums of all constants
};
struct Header {
  char magic[8];
  uint32_t version, sections;
  uint64_t file_size;
  uint64_t checksum[2];  // of this structure, with this field zero, and of the table
};
static_assert(sizeof(Header) == 40 && sizeof(SectionEntry) == 48);

/// Returns the sections' names: "contents", "source", "plan" and "code" for each chip, "weights".
std::vector<std::string_view> section_names(size_t chips) {
  std::vector<std::string_view> names = {"contents", "source"};
  for (size_t i = 0; i < chips; ++i) names.insert(names.end(), {"plan", "code"});
  names.push_back("weights");
  return names;
}

/// Returns the alignment of a section: a page for weights.
size_t alignment_of(std::string_view section) { return section == "weights" ? 4096 : 64; }

size_t aligned(size_t offset, size_t alignment) { return (offset + alignment - 1) / alignment * alignment; }

void set_checksum(uint64_t (&out)[2], const Hash128& sum) { out[0] = sum.low, out[1] = sum.high; }

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

Hash128 checksum_of(const std::vector<PlacedConstant>& constants) {
  std::vector<Hash128> sums;
  for (const PlacedConstant& constant : constants) sums.push_back(constant.hash);
  return hash128(std::as_bytes(std::span(sums)));
}

/// The header and the section table at the start of a file.
struct Front {
  Header header{};
  std::vector<SectionEntry> table{};

  size_t size() const { return sizeof header + table.size() * sizeof(SectionEntry); }
  std::vector<std::byte> bytes() const {
    std::vector<std::byte> all(size());
    std::memcpy(all.data(), &header, sizeof header);
    std::memcpy(all.data() + sizeof header, table.data(), table.size() * sizeof(SectionEntry));
    return all;
  }
  void seal() {
    std::ranges::fill(header.checksum, 0);
    set_checksum(header.checksum, hash128(bytes()));
  }
};

/// Returns the header and the table with the offset of each section; the checksums are set later.
Front lay_out(size_t chips, const std::vector<size_t>& sizes) {
  Front front;
  magic.copy(front.header.magic, magic.size());
  front.header.version = format_version;
  front.header.sections = static_cast<uint32_t>(sizes.size());
  front.table.resize(sizes.size());
  size_t end = front.size();
  auto names = section_names(chips);
  for (size_t i = 0; i < sizes.size(); ++i) {
    SectionEntry& entry = front.table[i];
    names[i].copy(entry.name, sizeof entry.name);
    entry.offset = aligned(end, alignment_of(names[i]));
    entry.size = sizes[i];
    end = entry.offset + entry.size;
  }
  front.header.file_size = end;
  return front;
}

[[noreturn]] void refuse_file(const char* code, std::string what, std::string hint = "compile the model again") {
  throw Error({.kind = ErrorKind::model, .code = code, .what = std::move(what), .hint = std::move(hint)});
}

[[noreturn]] void damaged(std::string_view section, std::string_view why) {
  refuse_file("E170", cat("the saved program is damaged: section '", section, "': ", why));
}

// --- writing ---------------------------------------------------------------------------------------------------------

/// The pieces of a file, in order of their offsets, with zeros between them.
class Pieces {
 public:
  void add(size_t offset, std::span<const std::byte> data) {
    static constexpr std::byte zeros[4096] = {};
    pieces_.push_back(std::span(zeros).first(offset - end_));  // gaps are shorter than a page
    pieces_.push_back(data);
    end_ = offset + data.size();
  }
  std::span<const std::span<const std::byte>> all() const { return pieces_; }

 private:
  std::vector<std::span<const std::byte>> pieces_;
  size_t end_ = 0;
};

/// All sections except the weights, in order, and the constants of the weights section.
struct Sections {
  ConstantStore constants;
  std::vector<std::vector<std::byte>> encoded;
  std::vector<std::span<const std::byte>> data;
};

Sections encode_sections(const SavedProgram& program) {
  Sections sections;
  std::vector<std::byte> source = encode(*program.source, sections.constants);
  std::vector<std::vector<std::byte>> plans;
  Contents contents;
  for (const ChipProgram& chip : program.chips) {
    contents.chips.push_back(chip.plan.chip);
    plans.push_back(encode(chip.plan, sections.constants));
  }
  contents.constants = sections.constants.places();
  sections.encoded = {encode(contents), std::move(source)};
  for (auto& plan : plans) sections.encoded.push_back(std::move(plan));
  sections.data = {sections.encoded[0], sections.encoded[1]};
  for (size_t i = 0; i < program.chips.size(); ++i) {
    sections.data.emplace_back(sections.encoded[i + 2]);
    sections.data.emplace_back(program.chips[i].image);
  }
  return sections;
}

// --- reading ---------------------------------------------------------------------------------------------------------

void check_start(const Bytes& file) {
  std::string_view start = as_text(file).substr(0, magic.size());
  if (start.empty() || !magic.starts_with(start)) refuse_file("E170", "the file is not a saved program", "");
}

void check_length(size_t there, size_t wanted) {
  if (there >= wanted) return;
  refuse_file("E173", cat("the saved program is cut short: ", there, " bytes are there, ", wanted, " are needed"),
              "copy it again, or compile the model again");
}

Front read_front(const Bytes& file) {
  check_start(file);
  check_length(file.size(), sizeof(Header));
  Front front;
  Header& header = front.header;
  std::memcpy(&header, file.data(), sizeof header);
  if (header.version != format_version) {
    refuse_file("E171",
                cat("the saved program has format ", header.version, ", this is a library of format ", format_version));
  }
  if (header.sections == 0 || header.sections > section_names(max_chips).size())
    damaged("header", "it does not have its sections");
  front.table.resize(header.sections);
  check_length(file.size(), front.size());
  std::memcpy(front.table.data(), file.data() + sizeof header, front.size() - sizeof header);
  Front expected = front;
  expected.seal();
  if (!std::ranges::equal(header.checksum, expected.header.checksum))
    damaged("header", "it does not have its checksum");
  check_length(file.size(), header.file_size);
  if (file.size() > header.file_size) damaged("header", "there are bytes after the end");
  return front;
}

/// Returns the number of chips. Throws E170 if the table is not the one that lay_out makes for the same sizes.
size_t count_chips(const Front& front) {
  size_t fixed = section_names(0).size(), chips = (front.table.size() - fixed) / 2;
  if (front.table.size() < fixed || front.table.size() != fixed + chips * 2)
    damaged("header", "it does not have its sections");
  std::vector<size_t> sizes;
  for (const SectionEntry& entry : front.table) {
    if (entry.size > front.header.file_size) damaged("header", "a section is larger than the file");
    sizes.push_back(entry.size);
  }
  Front expected = lay_out(chips, sizes);
  for (size_t i = 0; i < sizes.size(); ++i) std::ranges::copy(front.table[i].checksum, expected.table[i].checksum);
  expected.seal();
  if (expected.bytes() != front.bytes()) damaged("header", "sections are not where they belong");
  return chips;
}

void check_zeros(const Bytes& file, size_t begin, size_t end, std::string_view section) {
  bool zeros = std::ranges::all_of(std::span<const std::byte>(file).subspan(begin, end - begin),
                                   [](std::byte b) { return b == std::byte{0}; });
  if (!zeros) damaged(section, "there are bytes between its parts");
}

void check_sum(const SectionEntry& entry, const Hash128& sum) {
  if (sum != Hash128{entry.checksum[0], entry.checksum[1]}) damaged(entry.name, "it does not have its checksum");
}

/// Checks each constant's checksum, and that the bytes between constants are zero.
void check_weights(const Bytes& weights, const std::vector<PlacedConstant>& constants) {
  size_t end = 0;
  for (const PlacedConstant& constant : constants) {
    if (constant.offset < end) damaged("weights", "constants overlap");
    check_zeros(weights, end, constant.offset, "weights");
    if (hash128(weights.part(constant.offset, constant.size)) != constant.hash)
      damaged("weights", "a constant does not have its checksum");
    end = constant.offset + constant.size;
  }
  check_zeros(weights, end, weights.size(), "weights");
}

/// Returns the weights, copied if they are not aligned to 64 bytes (mapped files are; the caller's bytes may not be).
Bytes on_alignment(Bytes weights) {
  return reinterpret_cast<uintptr_t>(weights.data()) % 64 == 0 ? weights : Bytes::copy(weights);
}

}  // namespace

void write_saved(const std::filesystem::path& path, const SavedProgram& program) {
  check(!program.chips.empty() && program.chips.size() <= max_chips, "a saved program is for some chips, not too many");
  FileReading reading;
  Sections sections = encode_sections(program);
  for (const Tensor& constant : program.source->constants) constant.data.check_file();
  std::vector<size_t> sizes;
  for (auto data : sections.data) sizes.push_back(data.size());
  sizes.push_back(sections.constants.bytes());
  Front front = lay_out(program.chips.size(), sizes);
  Pieces pieces;
  for (size_t i = 0; i < sections.data.size(); ++i) set_checksum(front.table[i].checksum, hash128(sections.data[i]));
  set_checksum(front.table.back().checksum, checksum_of(sections.constants.places()));
  front.seal();
  std::vector<std::byte> start = front.bytes();
  pieces.add(0, start);
  for (size_t i = 0; i < sections.data.size(); ++i) pieces.add(front.table[i].offset, sections.data[i]);
  pieces.add(front.table.back().offset, {});
  for (size_t i = 0; i < sections.constants.places().size(); ++i)
    pieces.add(front.table.back().offset + sections.constants.places()[i].offset, sections.constants.data(i));
  write_file(path, pieces.all());
}

bool is_saved_program(std::span<const std::byte> file) { return as_text(file).starts_with(magic); }

SavedFile::SavedFile(Bytes file) {
  Front front = read_front(file);
  size_t chips = count_chips(front), end = front.size();
  std::vector<Bytes> sections;
  for (const SectionEntry& entry : front.table) {
    check_zeros(file, end, entry.offset, entry.name);
    sections.push_back(file.part(entry.offset, entry.size));
    end = entry.offset + entry.size;
    if (sections.size() < front.table.size()) check_sum(entry, hash128(sections.back()));
  }
  Contents contents = decode_contents(sections[0], sections.back().size());
  if (contents.chips.size() != chips) damaged("contents", "the list of chips does not match the plans");
  check_sum(front.table.back(), checksum_of(contents.constants));
  check_weights(sections.back(), contents.constants);
  chips_ = std::move(contents.chips);
  places_ = std::move(contents.constants);
  source_ = sections[1];
  weights_ = on_alignment(sections.back());
  for (size_t i = 0; i < chips; ++i) plans_.push_back(sections[2 + 2 * i]), images_.push_back(sections[3 + 2 * i]);
}

ChipProgram SavedFile::program(size_t chip) const {
  ChipProgram program{decode_plan(plans_[chip], {weights_, places_}), images_[chip]};
  if (program.plan.chip != chips_[chip]) damaged("plan", "it is for another chip");
  return program;
}

ProgramSource SavedFile::source() const { return decode_source(source_, {weights_, places_}); }

static void refuse_host_functions(const Plan& plan) {
  auto calls_host = [](const PlanKernel& kernel) { return kernel.kind == KernelKind::host_function; };
  if (std::ranges::any_of(plan.kernels, calls_host)) {
    throw Error({.kind = ErrorKind::unsupported,
                 .code = "E406",
                 .what = "the program calls a function of this process, which cannot be saved"});
  }
  for (const PlanPart& part : plan.parts) refuse_host_functions(*part.plan);
}

SavedProgram saved_program(const Origin& origin, const Plan& plan, const Bytes& image) {
  refuse_host_functions(plan);
  if (!origin.source && origin.file.empty())
    throw Error({.kind = ErrorKind::usage, .code = "E406", .what = "the program has not kept its model"});
  if (origin.file.empty()) return {origin.source, {{plan, image}}};
  FileReading reading;
  origin.file.check_file();
  SavedFile file(origin.file);
  SavedProgram program{std::make_shared<const ProgramSource>(file.source()), {}};
  for (size_t i = 0; i < file.chips().size(); ++i) program.chips.push_back(file.program(i));
  return program;
}

void Executable::save(const std::filesystem::path& path) const { write_saved(path, saved()); }

}  // namespace weft
