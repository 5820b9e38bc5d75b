// SPDX-License-Identifier: Apache-2.0
// The file format numpy.lib.format, version 1.0: a magic, the length of the header, the header (a Python literal with
// the array's type and sizes), the bytes.
#include "migraphx/npy.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace weft::mgx {
namespace {

struct Kind {
  migraphx_shape_datatype_t type;
  const char* text;
};
constexpr Kind kinds[] = {
    {migraphx_shape_bool_type, "|b1"},   {migraphx_shape_half_type, "<f2"},     {migraphx_shape_float_type, "<f4"},
    {migraphx_shape_double_type, "<f8"}, {migraphx_shape_uint8_type, "|u1"},    {migraphx_shape_int8_type, "|i1"},
    {migraphx_shape_uint16_type, "<u2"}, {migraphx_shape_int16_type, "<i2"},    {migraphx_shape_uint32_type, "<u4"},
    {migraphx_shape_int32_type, "<i4"},  {migraphx_shape_uint64_type, "<u8"},   {migraphx_shape_int64_type, "<i8"},
    {migraphx_shape_bf16_type, "|V2"},   {migraphx_shape_fp8e4m3fn_type, "|V1"}};

[[noreturn]] void damaged(const std::string& path, const std::string& what) {
  throw Error(WEFT_USAGE, "E212", "'" + path + "': " + what);
}

std::string header_of(const migraphx_argument& argument) {
  auto kind = std::ranges::find(kinds, argument.shape.type, &Kind::type);
  if (kind == std::end(kinds)) not_supported("numpy has no type for " + to_string(argument.shape));
  std::string sizes;
  for (size_t length : argument.shape.lengths) sizes += std::to_string(length) + ",";
  std::string text = std::string("{'descr': '") + kind->text + "', 'fortran_order': False, 'shape': (" + sizes + "), }";
  text.resize((text.size() + 10 + 64) / 64 * 64 - 10, ' ');
  text.back() = '\n';
  return text;
}

/// Returns the text between `before` and `after` in the header.
std::string part(const std::string& header, const char* before, const char* after, const std::string& path) {
  size_t begin = header.find(before);
  size_t end = begin == std::string::npos ? begin : header.find(after, begin + std::strlen(before));
  if (end == std::string::npos) damaged(path, "its header is not numpy's");
  return header.substr(begin + std::strlen(before), end - begin - std::strlen(before));
}

migraphx_shape shape_of(const std::string& header, const std::string& path) {
  std::string descr = part(header, "'descr': '", "'", path);
  auto kind = std::ranges::find_if(kinds, [&](const Kind& k) { return descr == k.text; });
  if (kind == std::end(kinds)) damaged(path, "element type '" + descr + "' is none that is read");
  if (header.find("'fortran_order': False") == std::string::npos) damaged(path, "it lies column by column");
  std::string sizes = part(header, "'shape': (", ")", path);
  std::vector<size_t> lengths;
  for (size_t at = sizes.find_first_of("0123456789"); at != std::string::npos;
       at = sizes.find_first_of("0123456789", sizes.find(',', at)))
    lengths.push_back(std::strtoull(sizes.c_str() + at, nullptr, 10));
  return make_shape(kind->type, lengths);
}

}  // namespace

void save_npy(const migraphx_argument& argument, const std::string& path) {
  if (!argument.shape.is_standard()) not_supported("an argument with gaps or other strides is not saved");
  std::string header = header_of(argument), half = path + ".part";
  std::ofstream file(half, std::ios::binary);
  const char magic[] = {'\x93',
                        'N',
                        'U',
                        'M',
                        'P',
                        'Y',
                        1,
                        0,
                        static_cast<char>(header.size() & 255),
                        static_cast<char>(header.size() >> 8)};
  file.write(magic, sizeof magic).write(header.data(), static_cast<std::streamsize>(header.size()));
  file.write(argument.data(), static_cast<std::streamsize>(argument.shape.bytes()));
  file.close();
  if (file && std::rename(half.c_str(), path.c_str()) == 0) return;
  std::remove(half.c_str());
  throw Error(WEFT_USAGE, "E106", "'" + path + "' cannot be written");
}

migraphx_argument load_npy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(WEFT_USAGE, "E106", "'" + path + "' cannot be read");
  unsigned char start[10] = {};
  file.read(reinterpret_cast<char*>(start), sizeof start);
  if (!file || std::memcmp(start, "\x93NUMPY\x01", 7) != 0)
    damaged(path, "it does not begin as an .npy file of version 1");
  std::string header(start[8] | start[9] << 8, ' ');
  file.read(header.data(), static_cast<std::streamsize>(header.size()));
  migraphx_shape shape = shape_of(header, path);
  auto begin = file.tellg();
  file.seekg(0, std::ios::end);
  size_t rest = static_cast<size_t>(file.tellg() - begin);
  if (!file || rest != shape.bytes())
    damaged(path,
            to_string(shape) + " takes " + std::to_string(shape.bytes()) + " bytes, there are " + std::to_string(rest));
  migraphx_argument argument = make_argument(shape);
  file.seekg(begin).read(argument.data(), static_cast<std::streamsize>(rest));
  return argument;
}

}  // namespace weft::mgx
