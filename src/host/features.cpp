// SPDX-License-Identifier: Apache-2.0
// Functions that make features from strings as TensorFlow does: pieces, n-grams (runs of tokens), hash buckets.
#include <bit>
#include <cstring>

#include "host/functions.h"

namespace weft::host {
namespace {

std::vector<std::string> single_bytes(std::string_view text) {
  std::vector<std::string> all;
  for (char byte : text) all.emplace_back(1, byte);
  return all;
}

std::vector<std::string> between_any(std::string_view text, std::string_view delimiters) {
  std::vector<std::string> found;
  for (;;) {
    size_t end = text.find_first_of(delimiters);
    found.emplace_back(text.substr(0, end));
    if (end == text.npos) return found;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string> pieces_of(const std::string& text, const HostCall& call) {
  const std::string& delimiter = call.strings.at(0);
  bool is_set = call.numbers.at(0) == 0;
  if (is_set) {
    if (delimiter.empty() || text.empty()) return single_bytes(text);
    auto all = between_any(text, delimiter);
    if (call.numbers.at(1)) std::erase(all, "");
    return all;
  }
  int64_t most = call.numbers.at(2);
  auto all = pieces(text, delimiter, most);
  bool has_rest = !delimiter.empty() || most < 0 || std::ssize(all) != most;
  if (!has_rest) all.emplace_back();  // the rest after the last split is a piece, even if empty
  return all;
}

// --- n-grams ---------------------------------------------------------------------------------------------------------

struct Padding {
  int64_t most;      ///< most padding tokens at each end of a row; -1: one less than the length of an n-gram
  bool keeps_short;  ///< a row shorter than every n-gram becomes one padded n-gram
  const std::string &separator, &left, &right;

  int64_t width(int64_t run) const { return most < 0 ? run - 1 : std::min(most, run - 1); }
};

/// Joins tokens [first, last) of a row that has `pad` padding tokens before and after it.
std::string joined(const Padding& p, std::span<const std::string> row, int64_t first, int64_t last, int64_t pad) {
  std::string text;
  auto size = std::ssize(row);
  for (int64_t i = first; i < last; ++i) {
    if (i > first) text += p.separator;
    text += i < pad ? p.left : i < pad + size ? row[i - pad] : p.right;
  }
  return text;
}

void add_runs(const Padding& p, std::span<const std::string> row, std::span<const int64_t> lengths,
              std::vector<std::string>& out) {
  size_t before = out.size();
  for (int64_t length : lengths) {
    int64_t pad = p.width(length), runs = std::ssize(row) + 2 * pad - length + 1;
    for (int64_t at = 0; at < runs; ++at) out.push_back(joined(p, row, at, at + length, pad));
  }
  if (!p.keeps_short || out.size() > before || row.empty()) return;
  int64_t pad = std::max<int64_t>(p.most, 0);
  out.push_back(joined(p, row, 0, std::ssize(row) + 2 * pad, pad));
}

// --- hashes ----------------------------------------------------------------------------------------------------------

/// FarmHash's 64-bit fingerprint (G. Pike, https://github.com/google/farmhash, MIT), which TensorFlow uses.
class Fingerprint {
 public:
  explicit Fingerprint(std::string_view text) : s_(text.data()), size_(text.size()) {}

  uint64_t value() const {
    if (size_ <= 16) return shortest();
    if (size_ <= 32) return up_to_32();
    return size_ <= 64 ? up_to_64() : longer();
  }

 private:
  static constexpr uint64_t k0 = 0xc3a5c85c97cb3127, k1 = 0xb492b66fbe98f273, k2 = 0x9ae16a3b2f90404f;
  using Pair = std::pair<uint64_t, uint64_t>;

  static uint64_t rotated(uint64_t v, int places) { return std::rotr(v, places); }
  static uint64_t mixed(uint64_t v) { return v ^ (v >> 47); }
  static uint64_t of_two(uint64_t u, uint64_t v, uint64_t by) {
    uint64_t a = mixed((u ^ v) * by);
    return mixed((v ^ a) * by) * by;
  }
  template <class T>
  uint64_t part(size_t at) const {
    T value;
    std::memcpy(&value, s_ + at, sizeof value);
    return value;
  }
  uint64_t word(size_t at) const { return part<uint64_t>(at); }
  uint64_t from_end(size_t back) const { return word(size_ - back); }
  uint64_t multiplier() const { return k2 + size_ * 2; }

  uint64_t shortest() const {
    uint64_t by = multiplier();
    if (size_ >= 8) {
      uint64_t a = word(0) + k2, b = from_end(8);
      return of_two(rotated(b, 37) * by + a, (rotated(a, 25) + b) * by, by);
    }
    if (size_ >= 4) return of_two(size_ + (uint64_t{part<uint32_t>(0)} << 3), part<uint32_t>(size_ - 4), by);
    if (size_ == 0) return k2;
    auto y = static_cast<uint32_t>(part<uint8_t>(0) + (part<uint8_t>(size_ >> 1) << 8));
    auto z = static_cast<uint32_t>(size_ + (part<uint8_t>(size_ - 1) << 2));
    return mixed(y * k2 ^ z * k0) * k2;
  }

  uint64_t up_to_32() const {
    uint64_t by = multiplier(), a = word(0) * k1, b = word(8), c = from_end(8) * by, d = from_end(16) * k2;
    return of_two(rotated(a + b, 43) + rotated(c, 30) + d, a + rotated(b + k2, 18) + c, by);
  }

  uint64_t up_to_64() const {
    uint64_t by = multiplier(), a = word(0) * k2, b = word(8), c = from_end(8) * by, d = from_end(16) * k2;
    uint64_t y = rotated(a + b, 43) + rotated(c, 30) + d, z = of_two(y, a + rotated(b + k2, 18) + c, by);
    uint64_t e = word(16) * by, f = word(24), g = (y + from_end(32)) * by, h = (z + from_end(24)) * by;
    return of_two(rotated(e + f, 43) + rotated(g, 30) + h, e + rotated(f + a, 18) + g, by);
  }

  /// Mixes the 32 bytes from `at` on with a and b.
  Pair block(size_t at, uint64_t a, uint64_t b) const {
    uint64_t w = word(at), x = word(at + 8), y = word(at + 16), z = word(at + 24);
    a += w, b = rotated(b + a + z, 21);
    uint64_t c = a;
    a += x + y, b += rotated(a, 44);
    return {a + z, b + c};
  }

  struct State {
    uint64_t x, y, z;
    Pair v = {}, w = {};
  };
  /// Mixes the 64 bytes from `at` on into the state.
  void round(State& t, size_t at, uint64_t by, uint64_t weight) const {
    t.x = rotated(t.x + t.y + t.v.first + word(at + 8), 37) * by;
    t.y = rotated(t.y + t.v.second + word(at + 48), 42) * by;
    t.x ^= t.w.second * weight, t.y += t.v.first * weight + word(at + 40);
    t.z = rotated(t.z + t.w.first, 33) * by;
    t.v = block(at, t.v.second * by, t.x + t.w.first);
    t.w = block(at + 32, t.z + t.w.second, t.y + word(at + 16));
    std::swap(t.z, t.x);
  }

  uint64_t longer() const {
    constexpr uint64_t seed = 81;
    State t{.x = seed * k2 + word(0), .y = seed * k1 + 113, .z = 0};
    t.z = mixed(t.y * k2 + 113) * k2;
    size_t last = (size_ - 1) / 64 * 64;
    for (size_t at = 0; at < last; at += 64) round(t, at, k1, 1);
    uint64_t by = k1 + ((t.z & 0xff) << 1);
    t.w.first += (size_ - 1) & 63, t.v.first += t.w.first, t.w.first += t.v.first;
    round(t, size_ - 64, by, 9);
    return of_two(of_two(t.v.first, t.w.first, by) + mixed(t.y) * k0 + t.z, of_two(t.v.second, t.w.second, by) + t.x,
                  by);
  }

  const char* s_;
  size_t size_;
};

}  // namespace

Values split_rows(const HostCall& call, Operands in) {
  std::vector<std::string> all;
  std::vector<int64_t> places;
  int64_t row = 0;
  for (const std::string& text : *in[0].strings) {
    int64_t place = 0;
    for (std::string& piece : pieces_of(text, call)) {
      all.push_back(std::move(piece));
      places.push_back(row), places.push_back(place++);
    }
    ++row;
  }
  int64_t count = std::ssize(all);
  return {boxed(make_string_tensor({count}, std::move(all))),
          boxed(make_tensor(DType::i64, {count, 2}, std::span<const int64_t>(places)))};
}

Values ngrams_text(const HostCall& call, Operands in) {
  std::span<const std::string> tokens = *in[0].strings;
  std::vector<int64_t> splits = to_int64s(in[1]), ends = {0};
  Padding padding{call.numbers.at(0), call.numbers.at(1) != 0, call.strings.at(0), call.strings.at(1),
                  call.strings.at(2)};
  std::vector<std::string> out;
  for (size_t row = 0; row + 1 < splits.size(); ++row) {
    int64_t first = splits[row], last = splits[row + 1];
    if (first < 0 || last < first || last > std::ssize(tokens))
      refuse("E301", "a row of tokens goes from ", first, " to ", last, ", and there are ", tokens.size());
    auto own = tokens.subspan(first, last - first);
    add_runs(padding, own, std::span(call.numbers).subspan(2), out);
    ends.push_back(std::ssize(out));
  }
  if (splits.empty()) ends.clear();
  std::vector<int64_t> dims = {std::ssize(ends)};
  return {boxed(make_string_tensor({std::ssize(out)}, std::move(out))),
          make_tensor(DType::i64, dims, std::span<const int64_t>(ends))};
}

Values hash_text(const HostCall& call, Operands in) {
  auto buckets = static_cast<uint64_t>(call.numbers.at(0));
  check(buckets > 0, "there are buckets");
  std::vector<int64_t> found;
  for (const std::string& text : *in[0].strings)
    found.push_back(static_cast<int64_t>(Fingerprint(text).value() % buckets));
  return {make_tensor(DType::i64, in[0].dims, std::span<const int64_t>(found))};
}

}  // namespace weft::host
