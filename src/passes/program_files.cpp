// SPDX-License-Identifier: Apache-2.0
#include "passes/program_files.h"

#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "ir/op_fields.h"
#include "ir/text.h"
#include "ops/registry.h"

namespace weft {

static std::filesystem::path blob_path(const std::filesystem::path& folder, std::string_view name) {
  return folder / "blobs" / cat(name, ".bin");
}

/// Writes a line with the type and sizes, then the elements.
static void write_blob(const std::filesystem::path& path, const Tensor& tensor) {
  std::string head = cat(tensor.shape(), "\n");
  std::vector<std::byte> bytes(head.size() + tensor.data.size());
  std::memcpy(bytes.data(), head.data(), head.size());
  if (!tensor.data.empty()) std::memcpy(bytes.data() + head.size(), tensor.data.data(), tensor.data.size());
  write_file(path, bytes);
}

static Tensor read_blob(const std::filesystem::path& path) {
  Bytes file = map_file(path);
  std::string_view text = as_text(file);
  size_t end = text.find('\n');
  Type type;
  fields::parse(text.substr(0, end), type, {});
  Tensor tensor{.dtype = type.shape.dtype};
  for (const Dim& dim : type.shape.dims) tensor.dims.push_back(dim.value());
  size_t size = byte_size(tensor.dtype, tensor.elements());
  if (text.size() - end - 1 != size) {
    throw Error({.kind = ErrorKind::model,
                 .code = "E191",
                 .what = cat(path.string(), " holds ", text.size() - end - 1, " bytes for ", type)});
  }
  // Copies the elements to aligned memory, because the line of text before the elements may have any length.
  tensor.data = Bytes::copy(std::span<const std::byte>(file).subspan(end + 1));
  return tensor;
}

std::string text_with_blobs(const Program& program, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder / "blobs");
  PrintContext context{.name_blob = [&](const Tensor& tensor) {
    std::string shape = cat(tensor.shape()), name = cat(hash128(tensor.data), "-", hash128(shape).low % 65536);
    std::filesystem::path path = blob_path(folder, name);
    if (!std::filesystem::exists(path)) write_blob(path, tensor);
    return name;
  }};
  return print(program, context);
}

std::unique_ptr<Program> read_program(const std::filesystem::path& file) {
  Bytes text = map_file(file);
  return parse_program(as_text(text), make_op,
                       [&](std::string_view name) { return read_blob(blob_path(file.parent_path(), name)); });
}

}  // namespace weft
