// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/file/tensor_reader.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/error.h"

namespace weft::onnx {
namespace {

/// The fields of a TensorProto, before they are checked against each other.
struct Fields {
  std::string path;
  std::string_view name;
  int64_t type = 0;
  std::vector<int64_t> dims;
  std::optional<std::span<const std::byte>> raw;
  std::vector<std::span<const std::byte>> fixed;  ///< float_data or double_data, in pieces
  std::vector<int64_t> int32s, int64s, uint64s;
  std::vector<std::string_view> strings;
  Metadata external;
  bool is_external = false;
  bool is_segment = false;
};

[[noreturn]] void fail_tensor(const Fields& f, std::string code, std::string what, std::string hint = {}) {
  std::string who = f.name.empty() ? cat("tensor ", f.path) : cat("tensor '", printable(f.name), "' (", f.path, ")");
  throw Error(
      {.kind = ErrorKind::model, .code = std::move(code), .what = cat(who, " ", what), .hint = std::move(hint)});
}

std::pair<std::string_view, std::string_view> read_pair(Wire wire) {
  std::pair<std::string_view, std::string_view> pair;
  while (wire.next()) switch (wire.field()) {
      case 1: pair.first = wire.text("key"); break;
      case 2: pair.second = wire.text("value"); break;
      default: wire.skip();
    }
  return pair;
}

Fields read_fields(Wire& wire) {
  Fields f;
  f.path = wire.path();
  while (wire.next()) switch (wire.field()) {
      case 1: wire.integers("dims", f.dims); break;
      case 2: f.type = wire.integer("data_type"); break;
      case 3: f.is_segment = true, wire.skip(); break;
      case 4: wire.fixed("float_data", 4, f.fixed); break;
      case 5: wire.integers("int32_data", f.int32s); break;
      case 6: f.strings.push_back(wire.text("string_data")); break;
      case 7: wire.integers("int64_data", f.int64s); break;
      case 8: f.name = wire.text("name"); break;
      case 9: f.raw = wire.bytes("raw_data"); break;
      case 10: wire.fixed("double_data", 8, f.fixed); break;
      case 11: wire.integers("uint64_data", f.uint64s); break;
      case 13: f.external.push_back(read_pair(wire.message("external_data"))); break;
      case 14: f.is_external = wire.integer("data_location") == 1; break;
      default: wire.skip();
    }
  return f;
}

DType checked_type(const Fields& f) {
  if (auto type = element_type(f.type)) return *type;
  fail_tensor(f, "E149", cat("has element type ", f.type, ", which Weft does not know"));
}

/// Returns the product of the dims; throws E146 for an overflow, E150 for a negative dim.
int64_t checked_count(const Fields& f) {
  auto is_negative = [](int64_t d) { return d < 0; };
  if (auto bad = std::ranges::find_if(f.dims, is_negative); bad != f.dims.end()) {
    fail_tensor(f, "E150", cat("has dim ", *bad, " in ", f.dims, ": sizes cannot be negative"));
  }
  if (std::ranges::find(f.dims, 0) != f.dims.end()) return 0;
  int64_t count = 1;
  for (int64_t d : f.dims) {
    if (__builtin_mul_overflow(count, d, &count))
      fail_tensor(f, "E146", cat("has dims ", f.dims, ": their size overflows 64 bits"));
  }
  return count;
}

uint64_t checked_bytes(const Fields& f, DType type, int64_t count) {
  uint64_t total_bits;
  if (__builtin_mul_overflow(static_cast<uint64_t>(count), static_cast<uint64_t>(bits(type)), &total_bits)) {
    fail_tensor(f, "E146", cat("has dims ", f.dims, ": its bytes overflow 64 bits"));
  }
  return total_bits / 8 + (total_bits % 8 != 0);
}

/// Throws unless `have` equals `need`: E147 if `need` exceeds `available`, the size of the file, else E148.
void require_bytes(const Fields& f, DType type, uint64_t need, uint64_t have, uint64_t available) {
  if (have == need) return;
  fail_tensor(f, need > available ? "E147" : "E148",
              cat("claims ", need, " bytes (", to_string(type), f.dims, "), has ", have));
}

/// Returns the decimal number under a key of external data: "offset", "length".
uint64_t external_number(const Fields& f, std::string_view key, std::string_view text) {
  uint64_t value = 0;
  auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem == std::errc() && end == text.data() + text.size() && !text.empty()) return value;
  fail_tensor(f, "E161", cat("has external ", key, " '", printable(text.substr(0, 40)), "', not a number of bytes"));
}

Bytes external_bytes(const Fields& f, DType type, uint64_t need, frontend::ExternalFiles& files) {
  std::string_view location;
  uint64_t offset = 0;
  uint64_t length = need;
  for (auto [key, value] : f.external) {
    if (key == "location") location = value;
    if (key == "offset") offset = external_number(f, key, value);
    if (key == "length") length = external_number(f, key, value);
  }
  Bytes file = files.open(location, f.name);
  if (length != need) require_bytes(f, type, need, length, file.size());
  if (offset > file.size() || length > file.size() - offset) {
    fail_tensor(f, "E161",
                cat("needs ", length, " bytes at ", offset, " of ", printable(location), ", which has ", file.size()));
  }
  return file.part(offset, length);
}

/// Joins pieces of numbers; a single piece is viewed in place.
Bytes join(const std::vector<std::span<const std::byte>>& pieces, const Bytes& file) {
  if (pieces.empty()) return {};
  if (pieces.size() == 1) return file.part(pieces[0].data() - file.data(), pieces[0].size());
  std::vector<std::byte> joined;
  for (auto piece : pieces) joined.insert(joined.end(), piece.begin(), piece.end());
  return Bytes(std::move(joined));
}

/// Returns the low `width` bytes of each number: an element, or a byte of packed elements of fewer than 8 bits.
Bytes narrow(const std::vector<int64_t>& values, size_t width) {
  std::vector<std::byte> out(values.size() * width);
  for (size_t i = 0; i < values.size(); ++i) std::memcpy(out.data() + i * width, &values[i], width);
  return Bytes(std::move(out));
}

Bytes typed_bytes(const Fields& f, DType type, const Bytes& file) {
  switch (type) {
    case DType::f32:
    case DType::f64:
    case DType::c64:
    case DType::c128: return join(f.fixed, file);
    case DType::i64: return narrow(f.int64s, 8);
    case DType::u32: return narrow(f.uint64s, 4);
    case DType::u64: return narrow(f.uint64s, 8);
    default: return narrow(f.int32s, std::max<size_t>(bits(type) / 8, 1));
  }
}

void fill_strings(const Fields& f, int64_t count, TensorData& tensor) {
  if (static_cast<uint64_t>(count) != f.strings.size()) {
    fail_tensor(f, "E148", cat("claims ", count, " strings (", f.dims, "), has ", f.strings.size()));
  }
  tensor.strings = f.strings;
}

}  // namespace

TensorData read_tensor(Wire wire, const TensorSource& source) {
  Fields f = read_fields(wire);
  if (f.is_segment) fail_tensor(f, "E148", "is only a segment of a tensor, which Weft cannot read");
  DType type = checked_type(f);
  int64_t count = checked_count(f);
  TensorData tensor{.type = type, .dims = f.dims, .name = f.name};
  if (type == DType::string) {
    fill_strings(f, count, tensor);
    return tensor;
  }
  uint64_t need = checked_bytes(f, type, count);
  if (f.is_external) {
    tensor.bytes = external_bytes(f, type, need, source.external);
    return tensor;
  }
  tensor.bytes = f.raw && !f.raw->empty() ? join({*f.raw}, source.file) : typed_bytes(f, type, source.file);
  require_bytes(f, type, need, tensor.bytes.size(), source.file.size());
  return tensor;
}

SparseTensor read_sparse_tensor(Wire wire, const TensorSource& source) {
  SparseTensor sparse;
  while (wire.next()) switch (wire.field()) {
      case 1: sparse.values = read_tensor(wire.message("values"), source); break;
      case 2: sparse.indices = read_tensor(wire.message("indices"), source); break;
      case 3: wire.integers("dims", sparse.dims); break;
      default: wire.skip();
    }
  return sparse;
}

}  // namespace weft::onnx
