// SPDX-License-Identifier: Apache-2.0
// weft-mutant-files SEED FIRST COUNT FILE...: damages pictures, files of tensors and maps, programs as text, saved
// programs and programs of torch.export, and reads them (tests/mutants/harness.h). Checksums of PNG and of saved
// programs are corrected afterwards, so that the damaged contents are read as well.
#include <zlib.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "compile/stages.h"
#include "driver/tensor_files.h"
#include "frontends/torch/import.h"
#include "host/pictures.h"
#include "ir/text.h"
#include "mutants/harness.h"
#include "mutants/wire_tree.h"
#include "ops/registry.h"
#include "runtime/saved.h"

namespace {

using namespace weft;

// --- checksums -------------------------------------------------------------------------------------------------------

void put_big_endian(std::string& text, size_t at, uint32_t value) {
  for (int i = 0; i < 4; ++i) text[at + static_cast<size_t>(i)] = static_cast<char>(value >> (24 - 8 * i));
}

/// Updates the checksums of PNG chunks, which consist of a length, a type, data, and a checksum of type and data.
void seal_png(std::string& text) {
  for (size_t at = 8; at + 12 <= text.size();) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | static_cast<unsigned char>(text[at + i]);
    if (length > text.size() - at - 12) return;
    auto sum = ::crc32(0, reinterpret_cast<const Bytef*>(text.data() + at + 4), static_cast<uInt>(length + 4));
    put_big_endian(text, at + 8 + length, static_cast<uint32_t>(sum));
    at += length + 12;
  }
}

/// An entry of the table of sections in a saved program (runtime/saved.cpp).
struct Section {
  char name[16];
  uint64_t offset, size, checksum[2];
};
constexpr size_t header_size = 40, place_of_count = 12, place_of_sum = 24;

std::vector<Section> sections_of(const std::string& text) {
  uint32_t count = 0;
  std::memcpy(&count, text.data() + place_of_count, sizeof count);
  std::vector<Section> sections(count);
  std::memcpy(sections.data(), text.data() + header_size, count * sizeof(Section));
  return sections;
}

void seal_program(std::string& text, std::vector<Section> sections) {
  for (Section& section : sections) {
    if (std::string_view(section.name) == "weights") continue;  // never damaged
    Hash128 sum = hash128(as_bytes(std::string_view(text).substr(section.offset, section.size)));
    section.checksum[0] = sum.low, section.checksum[1] = sum.high;
  }
  std::memcpy(text.data() + header_size, sections.data(), sections.size() * sizeof(Section));
  std::memset(text.data() + place_of_sum, 0, 16);
  Hash128 sum = hash128(as_bytes(std::string_view(text).substr(0, header_size + sections.size() * sizeof(Section))));
  std::memcpy(text.data() + place_of_sum, &sum.low, 8);
  std::memcpy(text.data() + place_of_sum + 8, &sum.high, 8);
}

// --- damage ----------------------------------------------------------------------------------------------------------

constexpr std::array<int64_t, 12> numbers = {0,     -1,   1,         2,         3,         255,
                                             65536, -129, INT32_MAX, INT64_MAX, INT64_MIN, int64_t{1} << 40};

/// Damages bytes or 8-byte numbers of one section of a program and makes the checksums valid again.
void damage_program(std::string& text, std::mt19937_64& random) {
  std::vector<Section> sections = sections_of(text);
  const Section& section = sections[random() % (sections.size() - 1)];  // not the weights
  if (section.size < 8) return;
  for (uint64_t times = 1 + random() % 3; times > 0; --times) {
    size_t at = section.offset + random() % (section.size - 7);
    if (random() % 2) text[at] = static_cast<char>(random());
    else std::memcpy(text.data() + at, &numbers[random() % numbers.size()], 8);
  }
  seal_program(text, std::move(sections));
}

/// Replaces parts of a text by numbers, inserts brackets or other parts of the text, or damages bytes.
void damage_words(std::string& text, std::mt19937_64& random) {
  for (uint64_t times = 1 + random() % 3; times > 0 && !text.empty(); --times) {
    size_t at = random() % text.size(), from = random() % text.size(), length = 1 + random() % 12;
    switch (random() % 4) {
      case 0: text.replace(at, std::min(length, text.size() - at), cat(numbers[random() % numbers.size()])); break;
      case 1: text.insert(at, text.substr(from, length)); break;
      case 2: text.insert(at, std::string(1 + random() % 3000, "([{-"[random() % 4])); break;
      default: test::damage_bytes(text, random);
    }
  }
}

void collect(nlohmann::json& json, std::vector<nlohmann::json*>& parts) {
  parts.push_back(&json);
  if (json.is_structured())
    for (auto& part : json) collect(part, parts);
}

/// In a program of torch.export as JSON, replaces parts by a number, a string, null or another part, removes an item,
/// or changes an integer.
void damage_json(std::string& text, std::mt19937_64& random) {
  nlohmann::json json = nlohmann::json::parse(text);
  for (uint64_t times = 1 + random() % 3; times > 0; --times) {
    std::vector<nlohmann::json*> parts;
    collect(json, parts);
    nlohmann::json& part = *parts[random() % parts.size()];
    switch (random() % 5) {
      case 0: part = numbers[random() % numbers.size()]; break;
      case 1: part = "x"; break;
      case 2: part = nlohmann::json(*parts[random() % parts.size()]); break;
      case 3: part = nullptr; break;
      default:
        if (part.is_structured() && !part.empty()) part.erase(part.begin());
        else if (part.is_number_integer()) part = part.get<int64_t>() ^ static_cast<int64_t>(1 + random() % 8);
    }
  }
  text = json.dump();
}

/// Replaces two or four bytes of a header by an extreme number.
void damage_header(std::string& text, std::mt19937_64& random) {
  if (text.size() < 8) return;
  size_t at = random() % (std::min<size_t>(text.size(), 160) - 4);
  auto value = static_cast<uint32_t>(numbers[random() % numbers.size()]);
  std::memcpy(text.data() + at, &value, random() % 2 ? 4 : 2);
}

std::string damaged(const test::Sound& file, std::mt19937_64& random) {
  std::string out = file.bytes, kind = file.path.extension().string();
  if (kind == ".weft" && random() % 8) return damage_program(out, random), out;
  if (kind == ".txt") return damage_words(out, random), out;
  if ((kind == ".maps" || kind == ".pb") && random() % 4) {
    auto tree = test::parse_wire(out);
    if (tree) test::damage_tree(*tree, random), out = test::print_wire(*tree);
    return out;
  }
  if (kind == ".pt2" && out.starts_with('{') && random() % 8) return damage_json(out, random), out;
  if (random() % 2) damage_header(out, random);
  else test::damage_bytes(out, random);
  if (kind == ".png" && random() % 4) seal_png(out);
  return out;
}

// --- readers ---------------------------------------------------------------------------------------------------------

/// A temporary file, for readers that take a path.
class Scratch {
 public:
  explicit Scratch(const std::string& extension) {
    name_ = (std::filesystem::temp_directory_path() / ("weft-mutant-XXXXXX" + extension)).string();
    int fd = ::mkstemps(name_.data(), static_cast<int>(extension.size()));
    check(fd >= 0, "a temporary file can be made");
    ::close(fd);
  }
  ~Scratch() { std::filesystem::remove(name_); }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

/// Calls `read`; its refusals have the code of tensor files.
template <class Read>
void as_tensor_file(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    bool is_refusal = error.info().kind != ErrorKind::resource && error.info().kind != ErrorKind::internal;
    if (is_refusal && error.info().code != "E212") throw std::logic_error("not E212 but " + error.info().code);
    throw;
  }
}

std::string take(const test::Sound& file, std::string_view bytes) {
  std::string kind = file.path.extension().string();
  if (kind == ".weft") {
    SavedFile saved(Bytes::copy(as_bytes(bytes)));
    for (size_t i = 0; i < saved.chips().size(); ++i) saved.program(i);
    read_source(saved.source());
  } else if (kind == ".txt") {
    parse_program(bytes, make_op);
  } else if (kind == ".pt2") {
    if (!torch::is_exported_program(as_bytes(bytes))) return "another kind";
    torch::import_exported(torch::read_exported_program(Bytes::copy(as_bytes(bytes)), "mutant"));
  } else if (kind == ".maps") {
    Type maps = Type::sequence(Type::map(DType::string, Shape{DType::f32, {}}));
    static const Scratch scratch(".pb");
    write_file(scratch.name(), as_bytes(bytes));
    as_tensor_file([&] { driver::read_value(scratch.name(), maps); });
  } else if (kind == ".npy" || kind == ".npz" || kind == ".pb") {
    static const Scratch npy(".npy"), npz(".npz"), pb(".pb");
    const Scratch& scratch = kind == ".npy" ? npy : kind == ".npz" ? npz : pb;
    write_file(scratch.name(), as_bytes(bytes));
    as_tensor_file([&] { driver::read_tensors(scratch.name()); });
  } else {
    host::decode_picture(as_bytes(bytes));
  }
  return "read";
}

}  // namespace

int main(int count, char** words) { return test::run_mutants({damaged, take}, count, words); }
