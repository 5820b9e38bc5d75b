// SPDX-License-Identifier: Apache-2.0
#include "driver/tensor_files.h"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "frontends/onnx/file/tensor_reader.h"
#include "frontends/onnx/file/value_reader.h"

namespace weft::driver {
namespace {

[[noreturn]] void refuse(const std::string& where, std::string what, std::string hint = {}) {
  throw Error(
      {.kind = ErrorKind::usage, .code = "E212", .what = std::move(what), .where = where, .hint = std::move(hint)});
}

template <class T>
T little_endian(std::span<const std::byte> bytes, size_t at, const std::string& where) {
  if (at > bytes.size() || bytes.size() - at < sizeof(T)) refuse(where, cat("ends inside a header at byte ", at));
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// --- .npy: a magic, the length of a header, the header (text of a Python dictionary), the data -----------------------

struct NpyType {
  std::string_view code;
  DType type;
};
constexpr NpyType npy_types[] = {
    {"|b1", DType::boolean}, {"|u1", DType::u8},  {"<u2", DType::u16}, {"<u4", DType::u32},  {"<u8", DType::u64},
    {"|i1", DType::i8},      {"<i2", DType::i16}, {"<i4", DType::i32}, {"<i8", DType::i64},  {"<f2", DType::f16},
    {"<f4", DType::f32},     {"<f8", DType::f64}, {"<c8", DType::c64}, {"<c16", DType::c128}};

DType npy_type(std::string_view code, const std::string& where) {
  for (const NpyType& row : npy_types) {
    bool has_no_order = row.code[0] == '|' && code.size() == row.code.size();
    if (row.code == code || (has_no_order && row.code.substr(1) == code.substr(1))) return row.type;
  }
  std::string hint = code.starts_with('>') ? "save it little-endian: a.astype(a.dtype.newbyteorder('<'))"
                                           : "numbers and booleans are read";
  refuse(where, cat("holds elements of type '", printable(code), "'"), hint);
}

/// Returns the text after `'key':` in the header's dictionary.
std::string_view npy_field(std::string_view header, std::string_view key, const std::string& where) {
  size_t at = header.find(cat("'", key, "':"));
  if (at == std::string_view::npos) refuse(where, cat("has no '", key, "' in its header"));
  return trim(header.substr(at + key.size() + 3));
}

std::vector<int64_t> npy_dims(std::string_view header, const std::string& where) {
  std::string_view text = npy_field(header, "shape", where);
  size_t close = text.find(')');
  if (!text.starts_with('(') || close == std::string_view::npos) refuse(where, "has a shape that is not a tuple");
  std::vector<int64_t> dims;
  for (std::string_view item : split(text.substr(1, close - 1), ',')) {
    item = trim(item);
    int64_t size = 0;
    if (item.empty()) continue;
    auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), size);
    if (error != std::errc() || end != item.data() + item.size() || size < 0)
      refuse(where, cat("has the size '", printable(item), "'"));
    dims.push_back(size);
  }
  return dims;
}

/// Converts a tensor with column-major data, as NumPy writes a transposed array, to row-major order.
Tensor to_row_major(const Tensor& columns) {
  size_t width = static_cast<size_t>(bits(columns.dtype) / 8), rank = columns.dims.size();
  MutableTensor rows = allocate_tensor(columns.dtype, columns.dims);
  std::vector<int64_t> index(rank, 0);
  std::vector<size_t> strides(rank, width);
  for (size_t i = 1; i < rank; ++i) strides[i] = strides[i - 1] * static_cast<size_t>(columns.dims[i - 1]);
  for (int64_t n = 0; n < columns.elements(); ++n) {
    size_t from = 0;
    for (size_t i = 0; i < rank; ++i) from += static_cast<size_t>(index[i]) * strides[i];
    std::memcpy(rows.data + static_cast<size_t>(n) * width, columns.data.data() + from, width);
    for (size_t i = rank; i-- > 0 && ++index[i] == columns.dims[i];) index[i] = 0;
  }
  return rows.tensor;
}

Tensor read_npy(const Bytes& file, const std::string& where) {
  bool is_short = little_endian<uint8_t>(file, 6, where) == 1;
  size_t length = is_short ? little_endian<uint16_t>(file, 8, where) : little_endian<uint32_t>(file, 8, where);
  size_t begin = is_short ? 10 : 12;
  if (length > file.size() - begin) refuse(where, "ends inside its header");
  std::string_view header = as_text(file.part(begin, length));
  std::string_view descr = npy_field(header, "descr", where);
  if (!descr.starts_with('\'')) refuse(where, "holds records", "arrays of plain numbers are read");
  DType type = npy_type(descr.substr(1, descr.find('\'', 1) - 1), where);
  Tensor tensor{.dtype = type, .dims = npy_dims(header, where)};
  size_t wanted = static_cast<size_t>(byte_size(type, element_count(tensor.dims))), have = file.size() - begin - length;
  if (wanted > have) refuse(where, cat(to_string(tensor.shape()), " needs ", wanted, " bytes, ", have, " are there"));
  tensor.data = Bytes::copy(file.part(begin + length, wanted));  // copied for alignment
  bool is_fortran = npy_field(header, "fortran_order", where).starts_with("True");
  return is_fortran && tensor.dims.size() > 1 ? to_row_major(tensor) : tensor;
}

DType storage_type(DType type) {
  for (const NpyType& row : npy_types) {
    if (row.type == type) return type;
  }
  return bits(type) == 16 ? DType::u16 : DType::u8;
}

std::string npy_text(const Tensor& tensor, const std::string& where) {
  if (!tensor.is_tensor()) refuse(where, cat(describe(tensor, 0), " cannot be written as .npy"), "--json shows it");
  if (tensor.dtype == DType::string) refuse(where, "strings cannot be written as .npy");
  DType stored = storage_type(tensor.dtype);
  std::vector<int64_t> dims = tensor.dims;
  if (bits(tensor.dtype) < 8) dims = {static_cast<int64_t>(tensor.data.size())};
  std::string shape;
  for (int64_t size : dims) shape += cat(size, ",");
  std::string_view code = std::find_if(std::begin(npy_types), std::end(npy_types), [&](const NpyType& row) {
                            return row.type == stored;
                          })->code;
  std::string header = cat("{'descr': '", code, "', 'fortran_order': False, 'shape': (", shape, "), }");
  header.resize((header.size() + 10 + 1 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  std::string text = "\x93NUMPY";
  text += '\1';
  text += '\0';
  text += static_cast<char>(header.size() & 255);
  text += static_cast<char>(header.size() >> 8);
  return text + header + std::string(as_text(tensor.data));
}

// --- .npz: a zip archive of .npy files, stored or deflated -----------------------------------------------------------

constexpr uint32_t local_magic = 0x04034b50, central_magic = 0x02014b50, end_magic = 0x06054b50;

Bytes inflate_member(std::span<const std::byte> packed, size_t size, const std::string& where) {
  std::vector<std::byte> plain(size);
  z_stream stream{};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(plain.data());
  stream.avail_out = static_cast<uInt>(plain.size());
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) refuse(where, "zlib cannot start");
  int result = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  if (result != Z_STREAM_END || stream.avail_out != 0) refuse(where, "is damaged: a member does not unpack");
  return Bytes(std::move(plain));
}

/// Reads the member with the directory entry at `at`, and moves `at` to the next entry. Deducts the member's packed
/// bytes from `left`, the bytes of the file that no earlier member used. If members could share bytes, a small file
/// could unpack to any size.
std::pair<std::string, Bytes> read_member(const Bytes& file, size_t& at, size_t& left, const std::string& where) {
  if (little_endian<uint32_t>(file, at, where) != central_magic) refuse(where, "is damaged: its directory is broken");
  auto method = little_endian<uint16_t>(file, at + 10, where);
  size_t packed = little_endian<uint32_t>(file, at + 20, where), size = little_endian<uint32_t>(file, at + 24, where);
  size_t name_size = little_endian<uint16_t>(file, at + 28, where);
  size_t extra = little_endian<uint16_t>(file, at + 30, where), comment = little_endian<uint16_t>(file, at + 32, where);
  size_t local = little_endian<uint32_t>(file, at + 42, where);
  if (packed == UINT32_MAX || size == UINT32_MAX) refuse(where, "is a zip over 4 GiB", "give the arrays as .npy files");
  if (at + 46 + name_size > file.size()) refuse(where, "ends inside its directory");
  std::string name(as_text(file.part(at + 46, name_size)));
  at += 46 + name_size + extra + comment;
  if (little_endian<uint32_t>(file, local, where) != local_magic) refuse(where, "is damaged: a member is missing");
  size_t begin =
      local + 30 + little_endian<uint16_t>(file, local + 26, where) + little_endian<uint16_t>(file, local + 28, where);
  if (begin > file.size() || packed > file.size() - begin)
    refuse(where, cat("ends inside member '", printable(name), "'"));
  if (packed > left) refuse(where, cat("is damaged: member '", printable(name), "' overlaps another"));
  left -= packed;
  if (method == 0) return {name, file.part(begin, packed)};
  if (method != 8)
    refuse(where, cat("packs '", printable(name), "' by method ", method), "stored and deflated are read");
  if (size > packed * 1100 + 1024) refuse(where, cat("member '", printable(name), "' claims ", size, " bytes"));
  return {name, inflate_member(file.part(begin, packed), size, where)};
}

NamedTensors read_npz(const Bytes& file, const std::string& where) {
  size_t end = file.size();
  for (size_t at = file.size() - std::min<size_t>(file.size(), 22) + 1; at-- > 0;) {
    if (little_endian<uint32_t>(file, at, where) == end_magic) {
      end = at;
      break;
    }
    if (file.size() - at > UINT16_MAX + 22) break;  // the record has 22 bytes and a comment of at most UINT16_MAX
  }
  if (end == file.size()) refuse(where, "is a zip archive without its end");
  size_t count = little_endian<uint16_t>(file, end + 10, where), at = little_endian<uint32_t>(file, end + 16, where);
  NamedTensors tensors;
  size_t left = file.size();
  for (size_t i = 0; i < count; ++i) {
    auto [name, bytes] = read_member(file, at, left, where);
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    std::string inside = cat(where, ": '", printable(name), "'");
    if (!as_text(bytes).starts_with("\x93NUMPY")) refuse(inside, "is not a NumPy array");
    tensors.emplace_back(name, read_npy(bytes, inside));
  }
  return tensors;
}

void put(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 255);
}

std::string npz_text(const NamedTensors& tensors, const std::string& where) {
  std::string out, directory;
  for (const auto& [name, tensor] : tensors) {
    std::string member = npy_text(tensor, where), file = name + ".npy";
    if (out.size() + member.size() > UINT32_MAX)
      refuse(where, "would be a zip over 4 GiB", "write the outputs as .npy files");
    auto sum = crc32(0, reinterpret_cast<const Bytef*>(member.data()), static_cast<uInt>(member.size()));
    std::string common;
    put(common, 20, 2), put(common, 0, 2), put(common, 0, 2), put(common, 0x00210000, 4), put(common, sum, 4);
    put(common, member.size(), 4), put(common, member.size(), 4), put(common, file.size(), 2), put(common, 0, 2);
    put(directory, central_magic, 4), put(directory, 20, 2);
    directory += common;
    put(directory, 0, 10), put(directory, out.size(), 4);
    directory += file;
    put(out, local_magic, 4);
    out += common + file + member;
  }
  size_t start = out.size();
  out += directory;
  put(out, end_magic, 4), put(out, 0, 4), put(out, tensors.size(), 2), put(out, tensors.size(), 2);
  put(out, directory.size(), 4), put(out, start, 4), put(out, 0, 2);
  return out;
}

// --- .pb: an ONNX TensorProto ----------------------------------------------------------------------------------------

NamedTensors read_proto(const Bytes& file, const std::filesystem::path& path) {
  frontend::ExternalFiles external;  // test data has no external files
  onnx::TensorSource source{file, external};
  std::string name = path.string();
  onnx::TensorData data = onnx::read_tensor(onnx::Wire(file, file.data(), name), source);
  Tensor tensor{.dtype = data.type, .dims = data.dims};
  if (data.type == DType::string) {
    tensor.strings = std::make_shared<std::vector<std::string>>(data.strings.begin(), data.strings.end());
  } else {
    tensor.data = Bytes::copy(data.bytes);
  }
  return {{std::string(data.name), std::move(tensor)}};
}

NamedTensors read_file(const std::filesystem::path& path) {
  Bytes file = map_file(path);
  std::string_view text = as_text(file);
  if (text.starts_with("\x93NUMPY")) return {{"", read_npy(file, path.string())}};
  if (text.starts_with("PK")) return read_npz(file, path.string());
  if (path.extension() == ".pb") return read_proto(file, path);
  refuse(path.string(), "is not a tensor file", ".npy, .npz, .pb (ONNX test data) and pictures are read");
}

/// Returns what `read` returns. The readers of models have other codes, and hints about models: replaces them by E212.
template <class Read>
auto with_own_code(const std::filesystem::path& path, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    ErrorKind kind = error.info().kind;
    if (kind == ErrorKind::resource || kind == ErrorKind::internal || error.info().code == "E212") throw;
    refuse(path.string(), error.info().what);
  }
}

}  // namespace

NamedTensors read_tensors(const std::filesystem::path& path) {
  return with_own_code(path, [&] { return read_file(path); });
}

Tensor read_value(const std::filesystem::path& path, const Type& type) {
  return with_own_code(path, [&] { return onnx::read_value(map_file(path), path.string(), type); });
}

void write_tensors(const std::filesystem::path& path, const NamedTensors& tensors) {
  if (path.extension() == ".npz") return write_file(path, as_bytes(npz_text(tensors, path.string())));
  if (path.extension() != ".npy") refuse(path.string(), "is neither .npy nor .npz");
  if (tensors.size() != 1) refuse(path.string(), cat(".npy holds one tensor, not ", tensors.size()), "use .npz");
  write_file(path, as_bytes(npy_text(tensors[0].second, path.string())));
}

}  // namespace weft::driver
