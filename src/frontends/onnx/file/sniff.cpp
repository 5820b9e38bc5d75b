// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/file/sniff.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "frontends/common/wire.h"

namespace weft::onnx {
namespace {

struct KnownFormat {
  size_t offset;
  std::string_view magic;
  std::string_view name;
  std::string_view hint;
};

constexpr std::string_view unpack = "unpack it first";
constexpr KnownFormat known_formats[] = {
#define FORMAT(...) {__VA_ARGS__},
#include "frontends/onnx/file/formats.def"
#undef FORMAT
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

/// True if a zip archive has `entry`: searches the archive's beginning, and the directory at its end, for the name.
bool zip_names(std::string_view file, std::string_view entry) {
  auto tail = file.substr(file.size() - std::min<size_t>(file.size(), 1 << 16));
  return file.starts_with("PK\x03\x04") &&
         (file.substr(0, 512).find(entry) != file.npos || tail.find(entry) != tail.npos);
}

bool is_pickle(std::string_view file) {
  if (zip_names(file, "data.pkl")) return true;
  return file.size() > 2 && file[0] == '\x80' && file[1] >= 2 && file[1] <= 5 && file.ends_with('.');
}

/// True if the file begins with the size of a JSON header, in 8 bytes, and the header.
bool is_safetensors(std::string_view file) {
  if (file.size() < 10 || file[8] != '{' || (file[9] != '"' && file[9] != '}')) return false;
  return file.substr(4, 4) == std::string_view("\0\0\0\0", 4);
}

/// True if the file has version 1 and a graph in field 2. An ONNX model has a producer's name in field 2, which never
/// begins with a newline.
bool is_saved_model(std::string_view file) {
  return file.starts_with("\x08\x01\x12") && file.substr(frontend::after_length(file, 3)).starts_with('\n');
}

[[noreturn]] void fail_file(std::string code, std::string what, std::string hint = {}) {
  throw Error({.kind = ErrorKind::model, .code = std::move(code), .what = std::move(what), .hint = std::move(hint)});
}

}  // namespace

void fail_not_a_model(std::span<const std::byte> file, const std::string& source) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string start;
  for (auto byte : file.first(std::min<size_t>(file.size(), 4))) {
    start += {' ', digits[static_cast<int>(byte) >> 4], digits[static_cast<int>(byte) & 15]};
  }
  fail_file("E102", cat(printable(source), " is not a file that Weft reads (starts", start, ")"),
            "check the path; models are .onnx, .pt2 (torch.export), .tflite and .pb (frozen graphs), compiled programs "
            ".weft");
}

static void refuse_frameworks(std::string_view file, const std::string& name) {
  if (zip_names(file, "serialized_exported_program") || zip_names(file, "archive_format"))
    fail_file("E102", cat(name, " is a program of torch.export (.pt2), not an ONNX model"),
              "write ONNX from it: torch.onnx.export(torch.export.load(FILE), (), 'm.onnx', dynamo=True)");
  if (is_pickle(file))
    fail_file(
        "E107", cat(name, " is a PyTorch pickle file, and pickle files can run code"),
        "load it where you trust it, and export it: torch.export.save(torch.export.export(model, inputs), 'm.pt2')");
  if (is_safetensors(file))
    fail_file("E102", cat(name, " is a safetensors file, weights without a model, not an ONNX model"),
              "export the model that they belong to: torch.export, or optimum-cli export onnx --model FOLDER OUT");
  if (is_saved_model(file))
    fail_file("E102", cat(name, " is a TensorFlow SavedModel, not an ONNX model"),
              "weft run, compile, inspect, verify and perf read it; this reads ONNX models only");
}

void refuse_other_files(std::span<const std::byte> file, const std::string& source) {
  std::string name = printable(source);
  if (file.empty()) fail_file("E101", cat(name, " is empty (0 bytes)"), "copy or download it again");
  std::string_view text = as_text(file);
  std::string_view start = trim(text.substr(0, 1024));
  if (start.starts_with("version https://git-lfs")) {
    fail_file("E104", cat(name, " is a Git LFS pointer, not the model"), "run git lfs pull");
  }
  if (is_web_page(start)) {
    fail_file("E105", cat(name, " is an HTML page", page_title(start)),
              "check the address that it was downloaded from");
  }
  refuse_frameworks(text, name);
  for (const auto& format : known_formats) {
    if (text.substr(std::min(format.offset, text.size())).starts_with(format.magic)) {
      fail_file("E102", cat(name, " is ", format.name, ", not an ONNX model"), std::string(format.hint));
    }
  }
}

}  // namespace weft::onnx
