// SPDX-License-Identifier: Apache-2.0
#include "driver/image.h"

#include <csetjmp>
#include <cstdio>
// jpeglib.h needs <cstdio> before it.
#include <jpeglib.h>
#include <png.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace weft::driver {
namespace {

/// Rows of interleaved bytes.
struct Picture {
  size_t width = 0, height = 0, channels = 0;
  std::vector<uint8_t> pixels;
  double at(size_t y, size_t x, size_t c) const { return pixels[(y * width + x) * channels + c]; }
};

constexpr size_t most_pixels = size_t{1} << 28;

[[noreturn]] void refuse_file(const std::filesystem::path& path, std::string what) {
  throw Error({.kind = ErrorKind::usage, .code = "E212", .what = std::move(what), .where = printable(path.string())});
}
[[noreturn]] void refuse_input(std::string what, std::string hint) {
  throw Error({.kind = ErrorKind::usage, .code = "E213", .what = std::move(what), .hint = std::move(hint)});
}

bool is_png(std::span<const std::byte> file) { return as_text(file).starts_with("\x89PNG"); }
bool is_jpeg(std::span<const std::byte> file) { return as_text(file).starts_with("\xff\xd8\xff"); }

Picture decode_png(const Bytes& file, size_t channels, const std::filesystem::path& path) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (!png_image_begin_read_from_memory(&image, file.data(), file.size())) refuse_file(path, image.message);
  image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  Picture picture{image.width, image.height, channels, {}};
  if (picture.width * picture.height > most_pixels) {
    png_image_free(&image);
    refuse_file(path, cat("the picture is ", picture.width, "x", picture.height, ", too large"));
  }
  picture.pixels.resize(PNG_IMAGE_SIZE(image));
  png_color white{255, 255, 255};
  if (!png_image_finish_read(&image, &white, picture.pixels.data(), 0, nullptr)) refuse_file(path, image.message);
  return picture;
}

/// libjpeg reports errors by a callback that must not return.
struct JpegErrors {
  jpeg_error_mgr manager;
  std::jmp_buf escape;
  char message[JMSG_LENGTH_MAX] = {};
};

void escape_from_jpeg(j_common_ptr state) {
  auto* errors = reinterpret_cast<JpegErrors*>(state->err);
  state->err->format_message(state, errors->message);
  std::longjmp(errors->escape, 1);
}

/// No object with a destructor lives in the frame that longjmp leaves.
bool decode_jpeg_into(Picture& picture, const Bytes& file, JpegErrors& errors, jpeg_decompress_struct& jpeg) {
  if (setjmp(errors.escape)) return false;
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&jpeg, TRUE);
  jpeg.out_color_space = picture.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(&jpeg);
  picture.width = jpeg.output_width;
  picture.height = jpeg.output_height;
  if (picture.width * picture.height > most_pixels) return false;
  picture.pixels.resize(picture.width * picture.height * picture.channels);
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row = picture.pixels.data() + jpeg.output_scanline * picture.width * picture.channels;
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  return true;
}

Picture decode_jpeg(const Bytes& file, size_t channels, const std::filesystem::path& path) {
  Picture picture{.channels = channels, .pixels = {}};
  JpegErrors errors{};
  jpeg_decompress_struct jpeg{};
  jpeg.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = escape_from_jpeg;
  errors.manager.output_message = [](j_common_ptr) {};  // warnings would go to standard error
  bool is_read = decode_jpeg_into(picture, file, errors, jpeg);
  jpeg_destroy_decompress(&jpeg);
  if (!is_read) refuse_file(path, *errors.message ? errors.message : "the picture is too large");
  return picture;
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

/// Bilinear with half-pixel centres.
double sample(const Picture& picture, double y, double x, size_t channel) {
  double top = std::clamp(y, 0.0, static_cast<double>(picture.height - 1));
  double left = std::clamp(x, 0.0, static_cast<double>(picture.width - 1));
  auto y0 = static_cast<size_t>(top), x0 = static_cast<size_t>(left);
  size_t y1 = std::min(y0 + 1, picture.height - 1), x1 = std::min(x0 + 1, picture.width - 1);
  double fy = top - static_cast<double>(y0), fx = left - static_cast<double>(x0);
  double above = picture.at(y0, x0, channel) * (1 - fx) + picture.at(y0, x1, channel) * fx;
  double below = picture.at(y1, x0, channel) * (1 - fx) + picture.at(y1, x1, channel) * fx;
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
  Bytes file = map_file(path);
  return is_png(file) || is_jpeg(file);
}

Tensor read_image(const std::filesystem::path& path, const Shape& wanted, const ImageOptions& options) {
  if (!is_float(wanted.dtype) && wanted.dtype != DType::u8)
    refuse_input(cat("a picture cannot be an input ", to_string(wanted)), "pictures fit floats and u8");
  Axes axes = axes_of(wanted, options.layout);
  auto channels = static_cast<size_t>(wanted.dims[axes.channel].value());
  auto mean = numbers_per_channel(options.mean, 0, channels, "image.mean");
  auto scale = numbers_per_channel(options.scale, wanted.dtype == DType::u8 ? 1 : 1.0 / 255, channels, "image.scale");
  Bytes file = map_file(path);
  Picture picture = is_png(file) ? decode_png(file, channels, path) : decode_jpeg(file, channels, path);

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
