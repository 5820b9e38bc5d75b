// SPDX-License-Identifier: Apache-2.0
#include "driver/inputs.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "api/c/options_text.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "driver/fills.h"
#include "driver/tensor_files.h"
#include "driver/terminal.h"
#include "runtime/memory_limit.h"

namespace weft::driver {
namespace {

[[noreturn]] void refuse_inputs(std::string code, std::string what, std::string hint) {
  throw Error({.kind = ErrorKind::usage, .code = std::move(code), .what = std::move(what), .hint = std::move(hint)});
}

std::vector<std::string> names_of(const std::vector<Port>& ports) {
  std::vector<std::string> names;
  for (const Port& port : ports) names.push_back(port.name);
  return names;
}

class Inputs {
 public:
  Inputs(const Executable& executable, const InputOptions& options, std::span<const ShapeRequest> shapes)
      : ports_(executable.inputs()),
        statics_(executable.static_inputs()),
        options_(options),
        image_(with_metadata(options.image, executable.metadata())),
        tensors_(ports_.size()),
        is_given_(ports_.size(), false) {
    for (const ShapeRequest& request : shapes) learn_usual(request);
  }

  std::vector<Tensor> make() {
    for (const std::string& file : options_.files) take(file);
    if (!options_.at.empty()) check_sizes();
    for (size_t i = 0; i < ports_.size(); ++i) {
      if (!is_given_[i]) fill(i);
    }
    return std::move(tensors_);
  }

 private:
  /// Returns the index of the port called `name`. If there is none, throws E310 with similar names, or with all names.
  size_t find(std::string_view name) const {
    for (size_t i = 0; i < ports_.size(); ++i) {
      if (ports_[i].name == name) return i;
    }
    std::string near = nearest_names(name, names_of(ports_));
    refuse_inputs(
        "E310", cat("the model has no input '", printable(name), "'"),
        near.empty() ? cat("its inputs: ", printable(cat(names_of(ports_)))) : cat("did you mean ", near, "?"));
  }

  /// Throws E310 if --at names a size that no input has.
  void check_sizes() const {
    std::set<std::string> known;
    auto learn = [&](const Symbol& symbol) { return known.insert(symbol.name), size_of(symbol); };
    for (const Port& port : ports_)
      if (port.type.is_tensor())
        for (const Dim& dim : port.type.shape.dims) dim.evaluate(learn);
    for (const auto& [name, size] : options_.at)
      if (!known.contains(name))
        refuse_inputs("E310", cat("no input has an open size '", printable(name), "' (--at)"),
                      known.empty() ? "the sizes of all inputs are fixed"
                                    : cat("open sizes: ", printable(cat(std::vector(known.begin(), known.end())))));
  }

  size_t first_free() const {
    for (size_t i = 0; i < ports_.size(); ++i) {
      if (!is_given_[i]) return i;
    }
    refuse_inputs("E310", cat("more files than inputs: the model has ", ports_.size()),
                  "name the input: --input x=file.npy");
  }

  bool is_input(std::string_view name) const { return std::ranges::find(ports_, name, &Port::name) != ports_.end(); }

  void take(const std::string& text) {
    size_t equals = text.find('=');
    bool is_named = equals != std::string::npos && (is_input(text.substr(0, equals)) || !std::filesystem::exists(text));
    std::string file = is_named ? text.substr(equals + 1) : text;
    if (is_named) return take_file(find(text.substr(0, equals)), file);
    if (std::filesystem::is_directory(file)) return take_folder(file);
    if (file.ends_with(".npz")) return take_archive(file);
    take_file(first_free(), file);
  }

  /// Reads the inputs from a folder of ONNX test data: input_0.pb, input_1.pb, ...
  void take_folder(const std::filesystem::path& folder) {
    if (!std::filesystem::exists(folder / "input_0.pb"))
      refuse_inputs("E212", cat(printable(folder.string()), " is a folder without input_0.pb"),
                    "give files, or a test_data_set folder");
    for (size_t i = 0; i < ports_.size(); ++i) {
      auto file = folder / cat("input_", i, ".pb");
      if (std::filesystem::exists(file)) take_file(i, file);
    }
  }

  void take_archive(const std::string& file) {
    for (auto& [name, tensor] : read_tensors(file)) accept(find(name), std::move(tensor), file);
  }

  void take_file(size_t i, const std::filesystem::path& file) {
    if (!ports_[i].type.is_tensor()) {
      if (file.extension() != ".pb") port_shape(i);
      tensors_[i] = read_value(file, ports_[i].type);
      is_given_[i] = true;
      return;
    }
    if (is_image(file)) return accept(i, read_image(file, port_shape(i), image_), file.string());
    auto tensors = read_tensors(file);
    if (tensors.size() == 1) return accept(i, std::move(tensors[0].second), file.string());
    for (auto& [name, tensor] : tensors) {
      if (name == ports_[i].name) return accept(i, std::move(tensor), file.string());
    }
    refuse_inputs("E310", cat(printable(file.string()), " holds no '", printable(ports_[i].name), "'"), "");
  }

  const Shape& port_shape(size_t i) const {
    if (!ports_[i].type.is_tensor())
      refuse_inputs("E310", cat("input '", printable(ports_[i].name), "' is ", to_string(ports_[i].type)),
                    "give it as ONNX test data (.pb), or use the Python interface");
    return ports_[i].type.shape;
  }

  void accept(size_t i, Tensor tensor, const std::string& file) {
    DType wanted = port_shape(i).dtype;
    if (tensor.dtype != wanted) {
      if (!options_.cast || tensor.dtype == DType::string || wanted == DType::string)
        refuse_inputs("E310",
                      cat("input '", printable(ports_[i].name), "' is ", to_string(ports_[i].type), ", ",
                          printable(file), " holds ", to_string(tensor.shape())),
                      "--cast-inputs converts");
      tensor = is_integer(wanted) ? make_tensor(wanted, tensor.dims, to_int64s(tensor))
                                  : make_tensor(wanted, tensor.dims, to_doubles(tensor));
    }
    tensors_[i] = std::move(tensor);
    is_given_[i] = true;
    learn_symbols(i);
  }

  /// Stores the values that a given input's sizes give to symbols. The sizes of filled inputs are computed from these.
  void learn_symbols(size_t i) {
    const Dims& dims = port_shape(i).dims;
    for (size_t axis = 0; axis < dims.size() && axis < tensors_[i].dims.size(); ++axis) {
      if (const Symbol* symbol = dims[axis].as_symbol()) sizes_.emplace(symbol->name, tensors_[i].dims[axis]);
    }
  }

  void learn_usual(const ShapeRequest& request) {
    auto port = std::ranges::find(ports_, request.input, &Port::name);
    if (port == ports_.end()) return;
    const Dims& dims = port->type.shape.dims;
    for (size_t axis = 0; axis < std::min(dims.size(), request.sizes.size()); ++axis) {
      const Symbol* symbol = dims[axis].as_symbol();
      if (symbol && request.sizes[axis].best >= 0) usual_[symbol->name] = request.sizes[axis].best;
    }
  }

  int64_t size_of(const Symbol& symbol) const {
    if (auto given = options_.at.find(symbol.name); given != options_.at.end()) return given->second;
    if (auto learnt = sizes_.find(symbol.name); learnt != sizes_.end()) return learnt->second;
    if (auto usual = usual_.find(symbol.name); usual != usual_.end()) return usual->second;
    return std::max<int64_t>(symbol.min, symbol.multiple_of);
  }

  std::string fill_kind(const std::string& name) const {
    std::string kind;
    for (const std::string& fill : options_.fills) {
      size_t equals = fill.find('=');
      if (equals == std::string::npos) kind = fill;
      else if (find(fill.substr(0, equals)) < ports_.size() && fill.substr(0, equals) == name)
        return fill.substr(equals + 1);
    }
    return kind;
  }

  /// Fills a static input (compile/specialise.h) with the values that the compiler took as likely, because a model
  /// rarely accepts random ones. Returns false if the input is not static.
  bool fill_static(size_t i) {
    auto known = std::ranges::find(statics_, i, &StaticInput::input);
    if (known == statics_.end()) return false;
    tensors_[i] = known->likely;
    note(cat("note: input '", printable(ports_[i].name), "' is static and gets ", describe(known->likely),
             "; --input gives it another value"));
    return true;
  }

  void fill(size_t i) {
    const Port& port = ports_[i];
    std::string kind = fill_kind(port.name);
    if (kind.empty() && port.default_value) {
      tensors_[i] = *port.default_value;
      return;
    }
    if (kind.empty() && options_.is_complete)
      refuse_inputs("E310", cat("nothing is given for input '", printable(port.name), "', ", to_string(port.type)),
                    "give every input a value");
    if (kind.empty() && fill_static(i)) return;
    std::vector<int64_t> dims;
    for (const Dim& dim : port_shape(i).dims) dims.push_back(dim.evaluate([&](const Symbol& s) { return size_of(s); }));
    if (kind.empty()) {
      kind = "rand";
      note(cat("note: input '", printable(port.name), "' gets random numbers, ", name(port.type.shape.dtype), dims,
               port.type.shape.is_static() ? "" : "; --at NAME=SIZE chooses open sizes"));
    }
    check_room(port, dims);
    uint64_t seed = static_cast<uint64_t>(options_.seed) ^ hash128(port.name).low;
    tensors_[i] = filled(kind, port.type.shape.dtype, std::move(dims), seed);
  }

  /// Throws E401 if filling the input needs more than the memory limit. A fill makes numbers in f64 and then converts
  /// them, so it needs memory for both.
  static void check_room(const Port& port, std::span<const int64_t> dims) {
    int64_t bytes = 0, limit = default_memory_limit();
    bool overflows = __builtin_mul_overflow(element_count(dims), 8 + (bits(port.type.shape.dtype) + 7) / 8, &bytes);
    if (!overflows && bytes <= limit) return;
    throw Error({.kind = ErrorKind::resource,
                 .code = "E401",
                 .what = cat("numbers for input '", printable(port.name), "', ", name(port.type.shape.dtype), dims,
                             ", need more than the limit of ", limit >> 20, " MiB"),
                 .hint = "choose smaller sizes, or raise the limit (WEFT_MEMORY_LIMIT)"});
  }

  const std::vector<Port>& ports_;
  const std::vector<StaticInput>& statics_;
  const InputOptions& options_;
  ImageOptions image_;
  std::vector<Tensor> tensors_;
  std::vector<bool> is_given_;
  std::map<std::string, int64_t> sizes_;  ///< symbols whose values follow from the given tensors
  std::map<std::string, int64_t> usual_;  ///< usual sizes from --shape x=min..max:usual
};

}  // namespace

void add_input_options(CommandLine& line, InputOptions& options) {
  line.group("Inputs");
  line.value("--input,-i", "X=FILE", options.files,
             "the tensor of input X: .npy, .npz, .pb, a picture; without X= the next input; repeatable");
  line.value("--fill", "X=KIND", options.fills,
             "fill input X with rand, rand:0..999, zeros, ones or range; without X= all inputs");
  line.value(
      "--at", "NAME=SIZE", [&](std::string_view text) { options.at.insert(parse_symbol(text)); },
      "the value of an open size, for filled inputs: batch=4");
  line.value("--seed", "N", options.seed, "seed of the random numbers");
  line.flag("--cast-inputs", options.cast, "convert files with another element type");
  line.value("--image-mean", "M", options.image.mean,
             "pictures: subtracted from each pixel (0..255), one number or one per channel");
  line.value("--image-scale", "S", options.image.scale, "pictures: factor after the subtraction");
  line.value("--image-layout", "L", options.image.layout,
             "pictures: NCHW or NHWC (the model's metadata have defaults for these three)");
}

std::vector<Tensor> make_inputs(const Executable& executable, const InputOptions& options,
                                std::span<const ShapeRequest> shapes) {
  return Inputs(executable, options, shapes).make();
}

}  // namespace weft::driver
