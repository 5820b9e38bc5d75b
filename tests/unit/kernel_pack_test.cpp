// SPDX-License-Identifier: Apache-2.0
#include "kernel_build/kernel_pack.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <regex>
#include <set>
#include <thread>

#include "base/chip_features.h"
#include "base/text.h"
#include "kernel_build/codegen_loader.h"
#include "kernel_build/kernel_build.h"
#include "kernel_build/kernel_cache.h"
#include "scratch.h"
#include "targets/cpu/object.h"
#include "tools/write_pack.h"

using namespace weft;
using test::Scratch;
namespace fs = std::filesystem;

namespace {

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_text(const fs::path& file, const std::string& text) { std::ofstream(file, std::ios::binary) << text; }

Bytes bytes_of(std::string_view text) { return Bytes::copy(as_bytes(text)); }

KernelSource answer(int value) {
  std::string name = cat("answer", value);
  return {.name = name, .code = cat("extern \"C\" int ", name, "() { return ", value, "; }")};
}

template <class T>
T read_at(const std::string& file, size_t offset) {
  T value{};
  REQUIRE(offset + sizeof value <= file.size());
  std::memcpy(&value, file.data() + offset, sizeof value);
  return value;
}

template <class T>
void write_at(std::string& file, size_t offset, const T& value) {
  file.replace(offset, sizeof value, reinterpret_cast<const char*>(&value), sizeof value);
}

/// Returns the chip of this machine with a feature that no kernel asks for, and a processor to tune for.
Chip tuned_chip() {
  Chip chip = host_chip();
  chip.features += cat(chip.features.empty() ? "" : ",", "+bmi2");
  chip.tune = "znver3";
  return chip;
}

}  // namespace

TEST_CASE("kernel pack: entries are read back; other keys, and packs of other compilers, have none") {
  Scratch scratch;
  const fs::path file = scratch.path / "a.pack";
  std::vector<PackEntry> entries;
  for (uint64_t i = 0; i < 50; ++i)
    entries.push_back({.key = {i * 0x9e3779b97f4a7c15u, i}, .data = bytes_of(cat("entry ", i / 2)), .frame = i < 20});
  write_pack(file, "compiler 1", entries);
  KernelPack pack(file, "compiler 1");
  REQUIRE(pack.size() == 50);
  for (const PackEntry& entry : entries) {
    auto data = pack.get(entry.key);
    REQUIRE(data);
    CHECK(as_text(*data) == as_text(entry.data));
  }
  CHECK_FALSE(pack.get({1, 1}));
  // Frame 0 holds the entries 20 to 49. Entries in pairs have equal data, which is stored once.
  size_t data_bytes = 0;
  for (int i = 10; i < 25; ++i) data_bytes += cat("entry ", i).size();
  CHECK(read_at<PackFrame>(text_of(file), sizeof(PackHeader) + 50 * sizeof(PackPlace)).size == data_bytes);

  KernelPack other(file, "compiler 2");
  CHECK(other.size() == 0);
  CHECK(other.problem() == "another code generator made it");
  KernelPack none(scratch.path / "none.pack", "compiler 1");
  CHECK(none.size() == 0);
  CHECK(none.problem().empty());
}

TEST_CASE("kernel pack: damage never gives wrong bytes") {
  Scratch scratch;
  const fs::path file = scratch.path / "a.pack";
  const PackEntry entries[] = {{.key = {1, 2}, .data = bytes_of("first kernel")},
                               {.key = {3, 4}, .data = bytes_of("second kernel"), .frame = 1}};
  write_pack(file, "compiler", entries);
  const std::string whole = text_of(file);
  auto check_read = [&](const std::string& text) {
    write_text(file, text);
    KernelPack pack(file, "compiler");
    for (const PackEntry& entry : entries) {
      auto data = pack.get(entry.key);
      if (data) CHECK(as_text(*data) == as_text(entry.data));
    }
    return std::pair(pack.get(entries[0].key).has_value(), pack.get(entries[1].key).has_value());
  };
  CHECK(check_read(whole) == std::pair(true, true));
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x40);
    auto [first, second] = check_read(damaged);
    CHECK_FALSE((first && second));
    CHECK_FALSE(check_read(whole.substr(0, i)).second);
  }
}

TEST_CASE("kernel pack: sizes and offsets that lie give no entry and no large allocation") {
  Scratch scratch;
  const fs::path file = scratch.path / "a.pack";
  const PackEntry entry{.key = {1, 2}, .data = bytes_of(std::string(5000, 'k'))};
  write_pack(file, "compiler", {&entry, 1});
  const std::string whole = text_of(file);
  const auto header = read_at<PackHeader>(whole, 0);
  const auto place = read_at<PackPlace>(whole, sizeof header);
  const auto frame = read_at<PackFrame>(whole, place.frame);
  auto read_with = [&](PackHeader header, PackPlace place, PackFrame frame) {
    std::string text = whole;
    write_at(text, sizeof header, place);
    header.checksum = hash128(std::as_bytes(std::span(&place, 1)));
    write_at(text, 0, header);
    write_at(text, sizeof header + sizeof place, frame);
    write_text(file, text);
    KernelPack pack(file, "compiler");
    return std::pair(pack.problem(), pack.get(entry.key).has_value());
  };
  auto with = [](auto of, auto member, auto value) {
    of.*member = value;
    return of;
  };
  using Read = std::pair<std::string, bool>;  // problem, whether there is an entry
  const Read whole_pack("", true), damaged("it is damaged", false), missing("", false);
  CHECK(read_with(header, place, frame) == whole_pack);
  for (uint64_t lie : {uint64_t{2}, uint64_t{1} << 32, uint64_t{1} << 62, ~uint64_t{0}}) {
    CAPTURE(lie);
    CHECK(read_with(with(header, &PackHeader::count, lie), place, frame).second == false);
    CHECK(read_with(header, with(place, &PackPlace::frame, lie), frame) == missing);
    CHECK(read_with(header, with(place, &PackPlace::offset, static_cast<uint32_t>(lie | 1)), frame) == missing);
    CHECK(read_with(header, with(place, &PackPlace::size, static_cast<uint32_t>(lie | 5001)), frame) == missing);
    CHECK(read_with(header, place, with(frame, &PackFrame::size, lie)) == missing);
    CHECK(read_with(header, place, with(frame, &PackFrame::packed_size, lie)) == missing);
  }
  CHECK(read_with(with(header, &PackHeader::count, uint64_t{1} << 60), place, frame) == damaged);
  for (uint64_t size : {0, 4999, 5001}) CHECK(read_with(header, place, with(frame, &PackFrame::size, size)) == missing);
  PackHeader older = header;
  older.magic.back() = '1';
  CHECK(read_with(older, place, frame) == Read("it is not a pack of kernels", false));
}

TEST_CASE("kernel pack: threads read entries of several frames at once") {
  Scratch scratch;
  std::vector<PackEntry> entries;
  for (uint32_t i = 0; i < 30; ++i)
    entries.push_back(
        {.key = {i, 1}, .data = bytes_of(std::string(3000 + i, static_cast<char>('a' + i % 7))), .frame = i % 3});
  write_pack(scratch.path / "a.pack", "compiler", entries);
  KernelPack pack(scratch.path / "a.pack", "compiler");
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (size_t first : {0, 1, 2, 3}) {
    threads.emplace_back([&, first] {
      for (size_t i = 0; i < 10 * entries.size(); ++i) {
        const PackEntry& entry = entries[(i * 7 + first) % entries.size()];
        auto data = pack.get(entry.key);
        if (!data || as_text(*data) != as_text(entry.data)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("kernel pack: a build takes kernels for the chip as kernels see it, and compiles the others") {
  Scratch scratch;
  KernelCache made(scratch.path / "made", 64 << 20), empty(scratch.path / "empty", 64 << 20);
  const KernelSource packed[] = {answer(1), answer(2)}, wanted[] = {answer(1), answer(2), answer(3)};
  write_pack(scratch.path / "a.pack", codegen_build(), build_for_pack(packed, host_chip(), {.cache = &made}));
  KernelPack pack(scratch.path / "a.pack", codegen_build());
  CHECK(pack.size() == 2);

  BuildCounts before = build_counts();
  BuiltKernels built = build_kernels(wanted, tuned_chip(), {.cache = &empty, .pack = &pack});
  BuildCounts after = build_counts();
  CHECK(after.pack_hits - before.pack_hits == 2);
  CHECK(after.compiles - before.compiles == 1);
  LoadedObject object(built.image, "answers");
  for (int value : {1, 2, 3}) CHECK(object.function<int()>(cat("answer", value))() == value);

  KernelSource checked = answer(1);
  checked.checked = true;
  build_kernels({&checked, 1}, tuned_chip(), {.cache = &empty, .pack = &pack});
  CHECK(build_counts().compiles - after.compiles == 1);
}

TEST_CASE("chips: plain_chip keeps only features that lowering or a kernel header tests") {
  CHECK(to_string(plain_chip(tuned_chip())) == to_string(plain_chip(host_chip())));
  Chip sapphire{.arch = "x86-64-v4",
                .features = "+amx-bf16,+amx-int8,+amx-tile,+avx512bf16,+avx512f,+avx512vbmi,+avx512vnni,+avxvnni,+gfni",
                .tune = "sapphirerapids"};
  CHECK(to_string(plain_chip(sapphire)) ==
        "x86-64-v4 +amx-bf16,+amx-int8,+amx-tile,+avx512bf16,+avx512vbmi,+avx512vnni,+avxvnni");
  CHECK(to_string(plain_chip({.arch = "x86-64-v3", .features = "+avx2,+gfni", .tune = "znver3"})) == "x86-64-v3");
  CHECK(plain_chip(chip_named("gfx942")) == chip_named("gfx942"));

  // Checks that each feature that the sources ask for belongs to a level or is kept by plain_chip.
  std::set<std::string> asked;
  const std::regex macro(R"(__((?:AVX|AMX|GFNI|F16C|FMA|SSE|BMI)\w*?)__)"),
      question(R"(has_feature\([^";]*"([a-z0-9.-]+)\")");
  for (const char* folder : {"src/kernels", "src/lower", "src/base", "src/passes", "src/compile"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(WEFT_SOURCE_DIR) / folder)) {
      if (!entry.is_regular_file()) continue;
      const std::string text = text_of(entry.path());
      for (const std::regex& pattern : {macro, question}) {
        for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) {
          std::string name = (*at)[1];
          std::ranges::transform(name, name.begin(), [](char c) { return c == '_' ? '-' : std::tolower(c); });
          asked.insert(name);
        }
      }
    }
  }
  CHECK(asked.contains("avx512vnni"));
  CHECK(asked.contains("amx-tile"));
  for (const std::string& name : asked) {
    CAPTURE(name);
    bool is_of_level = has_feature({.arch = "x86-64-v4"}, name);
    CHECK((is_of_level || has_feature(plain_chip({.arch = "x86-64-v4", .features = cat("+", name)}), name)));
  }
}
