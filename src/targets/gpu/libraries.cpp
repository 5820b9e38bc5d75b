// SPDX-License-Identifier: Apache-2.0
#include "targets/gpu/libraries.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "targets/gpu/library.h"

namespace weft::gpu {

Library::Library(std::string name, std::vector<std::string> files, const std::string& given) {
  search_.name = std::move(name);
  search_.tried = given.empty() ? std::move(files) : std::vector<std::string>{given};
}

void Library::check(int status, std::string_view doing) const {
  if (status == 0) return;
  throw Error({.kind = ErrorKind::device,
               .code = "E602",
               .what = cat(search_.name, " failed to ", doing, ": status ", status),
               .hint = "without this machine's tunings (WEFT_TUNINGS), or with --no-cache, Weft uses its own kernels"});
}

void Library::refuse(std::string_view why) const {
  throw Error({.kind = ErrorKind::device, .code = "E602", .what = cat(search_.name, " is not used: ", why)});
}

LibraryObject Library::made(int (*create)(Handle*), int (*destroy)(Handle), std::string_view doing) const {
  Handle handle = nullptr;
  check(create(&handle), doing);
  return {handle, destroy};
}

std::shared_ptr<LibraryHandle> Library::handle_of(const Device& device, int (*create)(Handle*),
                                                  int (*destroy)(Handle)) const {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<LibraryHandle>& kept = handles_[device.name()];
  if (!kept) {
    auto handle = std::make_shared<LibraryHandle>();
    handle->object = made(create, destroy, "begin");
    kept = std::move(handle);
  }
  return kept;
}

void Library::open(const std::string& prefix, std::span<const DriverSymbol> functions) {
  for (const std::string& file : search_.tried) {
    void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    const char* reason = library ? nullptr : ::dlerror();
    if (!library) search_.why += cat(search_.why.empty() ? "" : "; ", reason ? reason : file);
    if (library && find(library, file, prefix, functions)) return;
  }
}

bool Library::find(void* library, const std::string& file, const std::string& prefix,
                   std::span<const DriverSymbol> functions) {
  for (const DriverSymbol& function : functions) {
    *function.to = ::dlsym(library, cat(prefix, function.name).c_str());
    if (!*function.to) return search_.why = cat(file, " has no ", prefix, function.name), false;
  }
  search_.path = file;
  search_.why.clear();
  return true;
}

namespace {

struct Known {
  std::string_view name;
  ChipKind vendor;
  bool convolves, fuses;  ///< computes convolutions, else products; can fuse bias, addend and relu
  std::unique_ptr<Library> (*open)();
};
constexpr Known known[] = {{"cublaslt", ChipKind::nvidia, false, false, open_cublaslt},
                           {"cudnn", ChipKind::nvidia, true, true, open_cudnn},
                           {"hipblaslt", ChipKind::amd, false, false, open_hipblaslt},
                           {"miopen", ChipKind::amd, true, false, open_miopen}};

/// Returns the library, opened at the first request and never closed.
const Library& opened(const Known& which) {
  static std::mutex mutex;  // never destroyed, because the drivers may be gone by then
  static auto& libraries = *new std::array<std::unique_ptr<Library>, std::size(known)>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Library>& library = libraries[&which - known];
  if (!library) library = which.open();
  return *library;
}

const Known* find_known(std::string_view candidate) {
  const auto* found = std::ranges::find(known, candidate.substr(0, candidate.find(' ')), &Known::name);
  return found == std::end(known) ? nullptr : found;
}

/// Returns the size of the largest operand in bytes.
int64_t largest_operand(const LibraryCall& call) {
  if (const auto* p = std::get_if<LibraryProduct>(&call.work)) {
    int64_t a = p->batch * p->a_batch + p->m * p->a_row, b = p->batch * p->b_batch + p->n * p->b_row;
    return std::max({a * bits(p->type), b * bits(p->type), p->batch * p->m * p->n * bits(p->result)}) / 8;
  }
  const auto& c = std::get<LibraryConvolution>(call.work);
  ConvolutionShape shape(c);
  auto elements = [](const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
    return sizes[0] * strides[0];
  };
  int64_t most = std::max({elements(shape.x, shape.x_strides), elements(shape.weights, shape.weights_strides),
                           elements(shape.y, shape.y_strides)});
  return std::max(most * bits(c.type) / 8, shape.y[1] * 4);
}

/// Throws if the call cannot be captured in a graph. Does not execute the call, so all operands may share memory.
void capture_once(const std::shared_ptr<Device>& device, const LibraryWork& work, const LibraryCall& call) {
  Memory scratch(device, std::max(largest_operand(call), library_workspace));
  std::vector<std::byte*> operands(call.operands() + 1, scratch.data());
  Stream stream(device);
  stream.begin_capture();
  try {
    work.launch(stream, operands);
  } catch (const Error&) {
    try {
      stream.end_capture();
    } catch (const Error&) {  // the first error says more
    }
    throw;
  }
  stream.end_capture();
}

std::shared_ptr<const LibraryWork> prepare_new(const std::shared_ptr<Device>& device, const LibraryCall& call) {
  const Known* which = find_known(call.library);
  weft::check(which != nullptr, "a call names a library");
  const Library& library = opened(*which);
  if (library.search().path.empty()) {
    throw Error({.kind = ErrorKind::unsupported,
                 .code = "E501",
                 .what = cat("there is no ", library.search().name, " on this machine: ", library.search().why)});
  }
  if (const auto* c = std::get_if<LibraryConvolution>(&call.work)) {
    ConvolutionShape shape(*c);
    for (const auto* sizes : {&shape.x, &shape.weights, &shape.y})
      if (std::ranges::min(*sizes) < 1) library.refuse("the convolution has nothing to do");
  }
  device->use();
  std::shared_ptr<const LibraryWork> work = library.prepare(device, call);
  capture_once(device, *work, call);
  return work;
}

}  // namespace

VendorLibraries find_libraries(const std::shared_ptr<Device>& device) {
  auto name_of = [](const Known& which) { return opened(which).search().path.empty() ? "" : std::string(which.name); };
  auto can = [device](const LibraryCall& call) {
    try {
      return prepare(device, call) != nullptr;
    } catch (const Error& error) {  // libraries are optional
      if (debug_enabled(1, "gpu")) log_text(LogLevel::debug, error.info().what);
      return false;
    }
  };
  VendorLibraries found{.can = can};
  for (const Known& which : known) {
    if (which.vendor != device->info().chip.kind) continue;
    (which.convolves ? found.convolutions : found.products) = name_of(which);
    found.fuses |= which.fuses;
  }
  return found;
}

bool is_library(std::string_view candidate) { return find_known(candidate) != nullptr; }

std::shared_ptr<const LibraryWork> prepare(const std::shared_ptr<Device>& device, const LibraryCall& call) {
  constexpr size_t most = 4096;  // a full table is cleared; works in use stay alive (shared_ptr)
  struct Kept {
    std::shared_ptr<const LibraryWork> work;
    std::optional<ErrorInfo> refused;
  };
  static std::mutex mutex;
  static auto& all = *new std::map<std::string, Kept>;
  const std::string key = cat(device->name(), " ", call.text());
  const std::lock_guard lock(mutex);
  auto found = all.find(key);
  if (found == all.end()) {
    if (all.size() >= most) all.clear();
    Kept made;
    try {
      made.work = prepare_new(device, call);
    } catch (const Error& error) {
      if (error.info().kind == ErrorKind::resource) throw;
      made.refused = error.info();
    }
    found = all.emplace(key, std::move(made)).first;
  }
  if (found->second.refused) throw Error(*found->second.refused);
  return found->second.work;
}

ConvolutionShape::ConvolutionShape(const LibraryConvolution& c) {
  auto numbers = [](const Dims& dims, int64_t fill) {
    Sizes sizes(dims.size() < 2 ? 2 - dims.size() : 0, fill);
    for (const Dim& dim : dims) sizes.push_back(dim.value());
    return sizes;
  };
  auto tensor = [](int64_t first, int64_t channels, const Sizes& space) {
    Sizes sizes{first, channels};
    sizes.insert(sizes.end(), space.begin(), space.end());
    return sizes;
  };
  auto strides = [](const Sizes& sizes, int64_t pixel) {
    Sizes result(sizes.size(), 1);
    for (size_t axis = sizes.size(); axis-- > 2; pixel *= sizes[axis]) result[axis] = pixel;
    result[0] = pixel;
    return result;
  };
  const Sizes in = numbers(c.in, 1), out = numbers(c.out, 1);
  kernel = numbers(c.kernel, 1), stride = numbers(c.stride, 1), dilation = numbers(c.dilation, 1),
  pad = numbers(c.pad, 0);
  for (size_t i = 0; i < in.size(); ++i) {
    int64_t reach = (out[i] - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1;
    pad_end.push_back(std::max<int64_t>(reach - in[i] - pad[i], 0));
  }
  int64_t channels = c.channels_in.value(), all_out = c.groups.value() * c.channels_out.value();
  x = tensor(c.batch.value(), c.groups.value() * channels, in);
  weights = tensor(all_out, channels, kernel);
  y = tensor(c.batch.value(), all_out, out);
  x_strides = strides(x, c.pixel.value());
  weights_strides = strides(weights, channels);
  y_strides = strides(y, all_out);
}

}  // namespace weft::gpu
