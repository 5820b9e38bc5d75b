// SPDX-License-Identifier: Apache-2.0
#include "driver/samples.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "driver/inputs.h"

namespace weft::driver {
namespace {

namespace fs = std::filesystem;

/// True for calibration data; other files of a folder, such as labels and models, are skipped.
bool is_data(const fs::path& file) {
  return fs::is_directory(file) || file.extension() == ".npy" || file.extension() == ".npz" ||
         (fs::is_regular_file(file) && fs::file_size(file) > 0 && is_image(file));
}

bool is_test_data(const fs::path& folder) { return fs::exists(folder / "input_0.pb"); }

void collect(const fs::path& path, std::vector<fs::path>& files) {
  if (!fs::exists(path)) file_error(path.string(), "open", ENOENT);
  if (!fs::is_directory(path) || is_test_data(path)) return files.push_back(path);
  std::vector<fs::path> inside;
  for (const auto& entry : fs::directory_iterator(path))
    if (!entry.path().filename().string().starts_with('.') && is_data(entry.path())) inside.push_back(entry.path());
  std::ranges::sort(inside);
  for (const fs::path& entry : inside) collect(entry, files);
}

/// Returns the number of samples that an array holds for this input; 0 if its rank or its first size does not fit.
size_t items_in(const Tensor& array, const Port& port) {
  const Dims& dims = port.type.shape.dims;
  if (array.dims.size() == dims.size() + 1) return static_cast<size_t>(array.dims[0]);
  if (array.dims.size() != dims.size()) return 0;
  if (dims.empty() || !dims[0].constant()) return 1;
  int64_t one = *dims[0].constant();
  return one > 0 && array.dims[0] % one == 0 ? static_cast<size_t>(array.dims[0] / one) : 0;
}

Tensor item_of(const Tensor& array, const Port& port, size_t item, size_t count) {
  Tensor part = array;
  size_t bytes = array.data.size() / count;
  part.data = array.data.part(item * bytes, bytes);
  if (array.dims.size() > port.type.shape.dims.size()) part.dims.erase(part.dims.begin());
  else if (!part.dims.empty()) part.dims[0] /= static_cast<int64_t>(count);
  return part;
}

/// Assigns arrays to inputs by name. If there is one array and one input, names may differ.
std::vector<Tensor> by_input(NamedTensors arrays, const Executable& model, const fs::path& file) {
  std::vector<Tensor> values(model.inputs().size());
  for (auto& [name, array] : arrays) {
    auto port = std::ranges::find(model.inputs(), name, &Port::name);
    bool is_only = arrays.size() == 1 && values.size() == 1;
    if (port == model.inputs().end() && !is_only)
      throw Error(
          {.kind = ErrorKind::usage,
           .code = "E310",
           .what = cat(printable(file.string()), " holds '", printable(name), "', the model has no such input")});
    size_t place = is_only ? 0 : static_cast<size_t>(port - model.inputs().begin());
    DType wanted = model.inputs()[place].type.shape.dtype;
    bool is_narrow = wanted == DType::f16 || wanted == DType::bf16;  // numpy has no bf16, so f32 is accepted
    if (is_narrow && array.dtype == DType::f32) array = make_tensor(wanted, array.dims, to_doubles(array));
    values[place] = std::move(array);
  }
  return values;
}

[[noreturn]] void refuse_sample(const fs::path& file, const Port& port, const Tensor& array) {
  throw Error({.kind = ErrorKind::usage,
               .code = "E310",
               .what = cat(printable(file.string()), " holds ", to_string(array.shape()), ", input '",
                           printable(port.name), "' is ", to_string(port.type)),
               .hint = "an array holds one item, or items along an axis before those of the input"});
}

/// Returns the number of samples that the arrays hold. An array with one item is used for every sample.
size_t item_count(const std::vector<Tensor>& arrays, const Executable& model, const fs::path& file) {
  size_t count = 1;
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].data.empty()) continue;
    const Port& port = model.inputs()[i];
    size_t now = port.type.is_tensor() && arrays[i].dtype == port.type.shape.dtype ? items_in(arrays[i], port) : 0;
    if (now == 0 || (now != 1 && count != 1 && now != count)) refuse_sample(file, port, arrays[i]);
    count = std::max(count, now);
  }
  return count;
}

std::deque<std::vector<Tensor>> split_items(const std::vector<Tensor>& arrays, const Executable& model,
                                            const fs::path& file) {
  size_t count = item_count(arrays, model, file);
  std::deque<std::vector<Tensor>> items(count);
  for (size_t item = 0; item < count; ++item) {
    for (size_t i = 0; i < arrays.size(); ++i) {
      const Port& port = model.inputs()[i];
      if (arrays[i].data.empty() && !port.default_value) refuse_sample(file, port, arrays[i]);
      if (arrays[i].data.empty()) items[item].push_back(*port.default_value);
      else if (items_in(arrays[i], port) == 1) items[item].push_back(item_of(arrays[i], port, 0, 1));
      else items[item].push_back(item_of(arrays[i], port, item, count));
    }
  }
  return items;
}

}  // namespace

FileSamples::FileSamples(const std::vector<std::string>& paths, ImageOptions image) : image_(std::move(image)) {
  for (const std::string& path : paths) collect(path, files_);
}

void FileSamples::rewind() {
  next_file_ = 0;
  items_.clear();
}

void FileSamples::read_next(const Executable& model) {
  const fs::path& file = files_[next_file_++];
  if (file.extension() == ".npz" || file.extension() == ".npy") {
    items_ = split_items(by_input(read_tensors(file), model, file), model, file);
    return;
  }
  InputOptions options;
  options.files = {file.string()}, options.is_complete = true, options.image = image_;
  items_.push_back(make_inputs(model, options));
}

std::optional<std::vector<Tensor>> FileSamples::next(const Executable& model) {
  while (items_.empty()) {
    if (next_file_ == files_.size()) return std::nullopt;
    read_next(model);
  }
  auto item = std::move(items_.front());
  items_.pop_front();
  return item;
}

}  // namespace weft::driver
