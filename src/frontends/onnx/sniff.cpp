// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/sniff.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/error.h"
#include "base/file.h"

namespace weft::onnx {
namespace {

struct Format {
  std::string_view magic;
  std::string_view name;
  std::string_view hint;
};

constexpr Format formats[] = {
    {"\x1f\x8b", "gzip data", "unpack it first"},
    {"\x28\xb5\x2f\xfd", "zstd data", "unpack it first"},
    {"BZh", "bzip2 data", "unpack it first"},
    {"\xfd"
     "7zXZ",
     "xz data", "unpack it first"},
    {"PK\x03\x04", "a zip archive", "unpack it first, or give the model file inside"},
    {"GGUF", "a GGUF file", ""},
    {"\x89HDF", "an HDF5 file", "export the model to ONNX"},
    {"\x93NUMPY", "a NumPy array", ""},
    {"\x7f"
     "ELF",
     "an ELF object", ""},
    {"ORTM", "an ONNX Runtime .ort file", "use the ONNX file that it was made from"},
};

bool contains_ignoring_case(std::string_view text, std::string_view lower) {
  auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  return std::ranges::search(text, lower, same).begin() != text.end();
}

bool is_web_page(std::string_view start) {
  return start.starts_with('<') &&
         (contains_ignoring_case(start, "<html") || contains_ignoring_case(start, "<!doctype"));
}

std::string page_title(std::string_view page) {
  size_t begin = page.find("<title>");
  if (begin == page.npos) return {};
  page.remove_prefix(begin + 7);
  return cat(" (\"", printable(trim(page.substr(0, std::min<size_t>(page.find('<'), 80)))), "\")");
}

bool is_pickle(std::string_view file) {
  if (file.starts_with("PK\x03\x04")) return file.substr(0, 512).find("data.pkl") != file.npos;
  return file.size() > 2 && file[0] == '\x80' && file[1] >= 2 && file[1] <= 5 && file.ends_with('.');
}

[[noreturn]] void fail(std::string code, std::string what, std::string hint = {}) {
  throw Error({.kind = ErrorKind::model, .code = std::move(code), .what = std::move(what), .hint = std::move(hint)});
}

}  // namespace

void fail_not_a_model(std::span<const std::byte> file, const std::string& source) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string start;
  for (auto byte : file.first(std::min<size_t>(file.size(), 4))) {
    start += {' ', digits[static_cast<int>(byte) >> 4], digits[static_cast<int>(byte) & 15]};
  }
  fail("E102",
       cat(printable(source), " is not an ONNX, TensorFlow, PyTorch, GGUF or compiled file (starts", start, ")"));
}

void refuse_other_files(std::span<const std::byte> file, const std::string& source) {
  std::string name = printable(source);
  if (file.empty()) fail("E101", cat(name, " is empty (0 bytes)"), "copy or download it again");
  std::string_view text = as_text(file);
  std::string_view start = trim(text.substr(0, 1024));
  if (start.starts_with("version https://git-lfs")) {
    fail("E104", cat(name, " is a Git LFS pointer, not the model"), "run git lfs pull");
  }
  if (is_web_page(start)) {
    fail("E105", cat(name, " is an HTML page", page_title(start)), "check the address that it was downloaded from");
  }
  if (is_pickle(text)) {
    fail("E107", cat(name, " is a PyTorch pickle file, and pickle files can run code"),
         "export with torch.export (.pt2) or torch.onnx.export, or use safetensors");
  }
  for (const auto& format : formats) {
    if (text.starts_with(format.magic)) {
      fail("E102", cat(name, " is ", format.name, ", not an ONNX model"), std::string(format.hint));
    }
  }
}

}  // namespace weft::onnx
