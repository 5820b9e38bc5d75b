// SPDX-License-Identifier: Apache-2.0
#include "driver/image.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "host/pictures.h"

namespace weft::driver {
namespace {

using host::Picture;

[[noreturn]] void refuse_input(std::string what, std::string hint) {
  throw Error({.kind = ErrorKind::usage, .code = "E213", .what = std::move(what), .hint = std::move(hint)});
}

Picture read_picture(const std::filesystem::path& path, size_t channels) {
  try {
    Picture picture = host::decode_picture(map_file(path));
    return channels == 1 ? host::grey(picture) : picture;
  } catch (Error& error) {
    error.set_where(printable(path.string()));
    throw;
  }
}

std::vector<double> numbers_per_channel(const std::string& text, double otherwise, size_t channels,
                                        std::string_view what) {
  std::vector<double> numbers;
  for (std::string_view item : split(text, ',')) {
    double number = 0;
    item = trim(item);
    auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), number);
    if (error != std::errc() || end != item.data() + item.size())
      refuse_input(cat(what, " is '", printable(text), "'"), "one number, or one per channel: 123.7,116.3,103.5");
    numbers.push_back(number);
  }
  if (numbers.empty()) numbers.push_back(otherwise);
  if (numbers.size() == 1) numbers.resize(channels, numbers[0]);
  if (numbers.size() != channels)
    refuse_input(cat(what, " has ", numbers.size(), " numbers for ", channels, " channels"),
                 "give one, or one per channel");
  return numbers;
}

/// Returns a channel at pixel (y, x) by bilinear interpolation; positions outside are clamped to its edge.
double sample(const Picture& picture, double y, double x, size_t channel) {
  double top = std::clamp(y, 0.0, static_cast<double>(picture.height - 1));
  double left = std::clamp(x, 0.0, static_cast<double>(picture.width - 1));
  auto y0 = static_cast<size_t>(top), x0 = static_cast<size_t>(left);
  size_t y1 = std::min(y0 + 1, picture.height - 1), x1 = std::min(x0 + 1, picture.width - 1);
  double fy = top - static_cast<double>(y0), fx = left - static_cast<double>(x0);
  auto at = [&](size_t row, size_t column) -> double {
    return picture.pixels[(row * picture.width + column) * picture.channels + channel];
  };
  double above = at(y0, x0) * (1 - fx) + at(y0, x1) * fx;
  double below = at(y1, x0) * (1 - fx) + at(y1, x1) * fx;
  return above * (1 - fy) + below * fy;
}

struct Axes {
  size_t channel, row, column;
};

Axes axes_of(const Shape& wanted, const std::string& layout) {
  size_t rank = wanted.dims.size();
  if (rank != 3 && rank != 4)
    refuse_input(cat("a picture cannot be an input ", to_string(wanted)), "pictures fit f32[n,3,h,w] and f32[n,h,w,3]");
  size_t first = rank - 3;
  auto may_be_channels = [&](size_t axis) {
    auto size = wanted.dims[axis].constant();
    return size && (*size == 1 || *size == 3);
  };
  if (!layout.empty() && layout != "NCHW" && layout != "NHWC")
    refuse_input(cat("image.layout is '", printable(layout), "'"), "NCHW or NHWC");
  bool is_last = layout.empty() ? may_be_channels(rank - 1) && !may_be_channels(first) : layout == "NHWC";
  Axes axes = is_last ? Axes{rank - 1, first, first + 1} : Axes{first, first + 1, first + 2};
  if (!may_be_channels(axes.channel))
    refuse_input(cat("input ", to_string(wanted), " has no axis of 1 or 3 channels"), "--image-layout NCHW or NHWC");
  return axes;
}

}  // namespace

ImageOptions with_metadata(ImageOptions options, const std::map<std::string, std::string>& metadata) {
  auto fill = [&](std::string& field, const char* key) {
    auto found = metadata.find(key);
    if (field.empty() && found != metadata.end()) field = found->second;
  };
  fill(options.mean, "image.mean");
  fill(options.scale, "image.scale");
  fill(options.layout, "image.layout");
  return options;
}

bool is_image(const std::filesystem::path& path) {
  return path.extension() != ".pb" && host::is_picture(map_file(path));
}

Tensor read_image(const std::filesystem::path& path, const Shape& wanted, const ImageOptions& options) {
  if (!is_float(wanted.dtype) && wanted.dtype != DType::u8)
    refuse_input(cat("a picture cannot be an input ", to_string(wanted)), "pictures fit floats and u8");
  Axes axes = axes_of(wanted, options.layout);
  auto channels = static_cast<size_t>(wanted.dims[axes.channel].value());
  auto mean = numbers_per_channel(options.mean, 0, channels, "image.mean");
  auto scale = numbers_per_channel(options.scale, wanted.dtype == DType::u8 ? 1 : 1.0 / 255, channels, "image.scale");
  Picture picture = read_picture(path, channels);

  std::vector<int64_t> dims(wanted.dims.size(), 1);
  auto size_of = [&](size_t axis, size_t own) {
    return wanted.dims[axis].constant().value_or(static_cast<int64_t>(own));
  };
  dims[axes.channel] = static_cast<int64_t>(channels);
  dims[axes.row] = size_of(axes.row, picture.height);
  dims[axes.column] = size_of(axes.column, picture.width);
  double step_y = static_cast<double>(picture.height) / static_cast<double>(dims[axes.row]);
  double step_x = static_cast<double>(picture.width) / static_cast<double>(dims[axes.column]);
  std::vector<double> values(static_cast<size_t>(element_count(dims)));
  bool is_last = axes.channel == dims.size() - 1;
  auto rows = static_cast<size_t>(dims[axes.row]), columns = static_cast<size_t>(dims[axes.column]);
  for (size_t y = 0; y < rows; ++y) {
    for (size_t x = 0; x < columns; ++x) {
      for (size_t c = 0; c < channels; ++c) {
        double pixel = sample(picture, (static_cast<double>(y) + 0.5) * step_y - 0.5,
                              (static_cast<double>(x) + 0.5) * step_x - 0.5, c);
        values[is_last ? (y * columns + x) * channels + c : (c * rows + y) * columns + x] =
            (pixel - mean[c]) * scale[c];
      }
    }
  }
  return make_tensor(wanted.dtype, dims, values);
}

}  // namespace weft::driver
