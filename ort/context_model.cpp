// SPDX-License-Identifier: Apache-2.0
#include "ort/context_model.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>

#include "ort/api.h"
#include "ort/factory.h"

namespace weft::ort {
namespace {

namespace fs = std::filesystem;

const OrtOpAttr* find_attribute(const OrtNode* node, const char* name) {
  const OrtOpAttr* attribute = nullptr;
  if (OrtStatus* status = api.ort->Node_GetAttributeByName(node, name, &attribute)) {
    api.ort->ReleaseStatus(status);
    return nullptr;
  }
  return attribute;
}

std::string text_attribute(const OrtNode* node, const char* name) {
  const OrtOpAttr* attribute = find_attribute(node, name);
  if (!attribute) return {};
  size_t size = 0;
  api.ort->ReleaseStatus(api.ort->ReadOpAttr(attribute, ORT_OP_ATTR_STRING, nullptr, 0, &size));
  std::string text(size, '\0');
  if (size > 0) ok(api.ort->ReadOpAttr(attribute, ORT_OP_ATTR_STRING, text.data(), size, &size));
  return text;
}

/// Returns the string of an attribute without its terminating 0.
std::string name_attribute(const OrtNode* node, const char* name) {
  std::string text = text_attribute(node, name);
  return text.substr(0, text.find('\0'));
}

int64_t number_attribute(const OrtNode* node, const char* name, int64_t missing) {
  const OrtOpAttr* attribute = find_attribute(node, name);
  size_t size = 0;
  int64_t value = missing;
  if (attribute) ok(api.ort->ReadOpAttr(attribute, ORT_OP_ATTR_INT, &value, sizeof value, &size));
  return value;
}

fs::path path_of_model(const OrtGraph* graph) {
  const ORTCHAR_T* path = nullptr;
  ok(api.ort->Graph_GetModelPath(graph, &path));
  return path ? path : "";
}

/// Returns the path of the EPContext model: the one in the options, else SOURCE_ctx.onnx beside the source model.
fs::path path_of_context_model(const OrtGraph* graph, const ContextOptions& options) {
  if (!options.model_path.empty()) return options.model_path;
  fs::path source = path_of_model(graph);
  return source.parent_path() / (source.stem().string() + "_ctx.onnx");
}

/// Returns the path of a program's file that a model names. The file must be in the model's folder, because models are
/// not trusted.
fs::path beside(const fs::path& folder, const std::string& name) {
  fs::path path(name);
  if (path.empty() || path.has_parent_path() || path.is_absolute() || name == "..")
    throw Error(WEFT_MODEL, "E160",
                "the EPContext node names the program '" + name + "', which is not beside the model");
  return folder / path;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A temporary file; the destructor removes it.
class TemporaryFile {
 public:
  TemporaryFile() {
    int descriptor = ::mkstemp(path_.data());
    if (descriptor < 0) throw Error(WEFT_RESOURCE, "E106", "no temporary file can be made in " + path_);
    ::close(descriptor);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  ~TemporaryFile() { ::unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = (fs::temp_directory_path() / "weft-XXXXXX").string();
};

std::string save_to_text(const Compiled& program) {
  TemporaryFile file;
  program.program().save(file.path());
  return read_file(file.path());
}

/// Writes the program beside the EPContext model and returns its name.
std::string save_beside(const Compiled& program, const fs::path& model, const std::string& node_name) {
  std::string name = model.stem().string() + "_" + node_name + ".weft";
  std::ranges::replace_if(name, [](char c) { return c == '/' || c == '\\' || c == ':'; }, '_');
  program.program().save((model.parent_path() / name).string());
  return name;
}

class Attributes {
 public:
  Attributes() = default;
  Attributes(const Attributes&) = delete;
  ~Attributes() {
    for (OrtOpAttr* attribute : list_) api.ort->ReleaseOpAttr(attribute);
  }
  void number(const char* name, int64_t value) { add(name, &value, 1, ORT_OP_ATTR_INT); }
  void text(const char* name, const std::string& value) {
    add(name, value.data(), static_cast<int>(value.size()), ORT_OP_ATTR_STRING);
  }
  OrtOpAttr** data() { return list_.data(); }
  size_t size() const { return list_.size(); }

 private:
  void add(const char* name, const void* data, int count, OrtOpAttrType type) {
    OrtOpAttr* attribute = nullptr;
    ok(api.ort->CreateOpAttr(name, data, count, type, &attribute));
    list_.push_back(attribute);
  }
  std::vector<OrtOpAttr*> list_;
};

std::vector<const char*> pointers(const std::vector<std::string>& names) {
  std::vector<const char*> list;
  for (const std::string& name : names) list.push_back(name.c_str());
  return list;
}

}  // namespace

bool is_own_context(const NodeView& node) {
  if (node.op != "EPContext" || node.domain != "com.microsoft") return false;
  return std::ranges::find(provider_names, name_attribute(node.handle, "source")) != provider_names.end();
}

std::shared_ptr<Compiled> load_context(const NodeView& node, const OrtGraph* graph, const ContextOptions& options,
                                       const ProgramStore& programs) {
  if (number_attribute(node.handle, "embed_mode", 1) == 0) {
    fs::path model = path_of_model(graph),
             folder = (model.empty() ? fs::path(options.model_path) : model).parent_path();
    return programs.load(beside(folder, name_attribute(node.handle, "ep_cache_context")).string());
  }
  std::string saved = text_attribute(node.handle, "ep_cache_context");
  return programs.load(std::as_bytes(std::span(saved.data(), saved.size())));
}

OrtNode* make_context_node(const Compiled& program, const std::string& provider, const std::string& node_name,
                           const OrtGraph* graph, const ContextOptions& options, const std::vector<std::string>& inputs,
                           const std::vector<std::string>& outputs) {
  std::string context = options.is_embedded ? save_to_text(program)
                                            : save_beside(program, path_of_context_model(graph, options), node_name);
  if (context.size() > INT32_MAX)
    throw Error(WEFT_RESOURCE, "E401",
                "the program has " + std::to_string(context.size()) + " bytes, too many to be embedded",
                "set ep.context_embed_mode to 0");
  Attributes attributes;
  attributes.number("main_context", 1);
  attributes.number("embed_mode", options.is_embedded);
  attributes.text("ep_cache_context", context);
  attributes.text("source", provider);
  attributes.text("ep_sdk_version", weft_version());
  std::vector<const char*> in = pointers(inputs), out = pointers(outputs);
  OrtNode* node = nullptr;
  ok(api.ort->GetModelEditorApi()->CreateNode("EPContext", "com.microsoft", node_name.c_str(), in.data(), in.size(),
                                              out.data(), out.size(), attributes.data(), attributes.size(), &node));
  return node;
}

std::string compatibility_text() { return std::string("weft ") + weft_version(); }

}  // namespace weft::ort
