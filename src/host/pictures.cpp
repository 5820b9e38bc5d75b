// SPDX-License-Identifier: Apache-2.0
#include "host/pictures.h"

#include <dlfcn.h>
#include <openjpeg.h>
#include <png.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "host/functions.h"

namespace weft::host {
namespace {

using File = std::span<const std::byte>;
constexpr size_t max_pixels = size_t{1} << 28;
/// Limits on pixels, so that a small file cannot take a gigabyte. A picture of more than `pixels_for_all` pixels may
/// have at most `pixels_per_byte` pixels per byte of its file; only blank pictures compress better.
constexpr size_t pixels_for_all = size_t{1} << 24, pixels_per_byte = size_t{1} << 13;

[[noreturn]] void refuse_picture(std::string what, std::string hint = "") {
  throw Error({.kind = ErrorKind::usage, .code = "E212", .what = std::move(what), .hint = std::move(hint)});
}

/// Makes an empty picture of these sizes; throws if it has too many pixels, in total or for the size of its file.
Picture canvas(File file, uint64_t width, uint64_t height) {
  if (width == 0 || height == 0 || width > max_pixels || height > max_pixels || width * height > max_pixels)
    refuse_picture(cat("the picture is ", width, "x", height, "; 1 to 2^28 pixels are read"));
  if (width * height > std::max(pixels_for_all, file.size() * pixels_per_byte))
    refuse_picture(cat("the picture is ", width, "x", height, ", which ", file.size(), " bytes cannot hold"));
  return {width, height, 3, std::vector<uint8_t>(width * height * 3)};
}

const unsigned char* bytes_of(File file) { return reinterpret_cast<const unsigned char*>(file.data()); }

// --- decoders of the system, found at run time -----------------------------------------------------------------------

/// A shared library that is never closed. The caller gives the type of each function, as its header declares it.
class Library {
 public:
  Library(const char* name, const char* kind) : handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)), name_(name) {
    if (handle_) return;
    refuse_picture(cat("a ", kind, " picture needs ", name, ", which was not found"),
                   "install the system's package of that library, or give the values as a .npy file");
  }
  template <class F>
  F* function(const char* name) const {
    void* found = dlsym(handle_, name);
    if (!found) refuse_picture(cat(name_, " has no function ", name));
    return reinterpret_cast<F*>(found);
  }

 private:
  void* handle_;
  const char* name_;
};

#define WEFT_FUNCTION(library, name) (library).function<decltype(name)>(#name)

Picture decode_png(File file) {
  static const Library png("libpng16.so.16", "PNG");
  static auto* const begin = WEFT_FUNCTION(png, png_image_begin_read_from_memory);
  static auto* const finish = WEFT_FUNCTION(png, png_image_finish_read);
  static auto* const release = WEFT_FUNCTION(png, png_image_free);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (!begin(&image, file.data(), file.size())) refuse_picture(image.message);
  struct Release {
    png_image* image;
    ~Release() { release(image); }
  } owner{&image};
  image.format = PNG_FORMAT_RGB;
  Picture picture = canvas(file, image.width, image.height);
  png_color white{255, 255, 255};
  if (!finish(&image, &white, picture.pixels.data(), 0, nullptr)) refuse_picture(image.message);
  return picture;
}

// Declares the few functions of turbojpeg.h and webp/decode.h that are used; both interfaces are stable.
extern "C" {
void* tjInitDecompress();
int tjDecompressHeader3(void*, const unsigned char*, unsigned long, int*, int*, int*, int*);
int tjDecompress2(void*, const unsigned char*, unsigned long, unsigned char*, int, int, int, int, int);
char* tjGetErrorStr2(void*);
int tjDestroy(void*);
int WebPGetInfo(const uint8_t*, size_t, int*, int*);
uint8_t* WebPDecodeRGBInto(const uint8_t*, size_t, uint8_t*, size_t, int);
}
// Flags of turbojpeg: RGB output; a limit on the scans of a progressive JPEG, because thousands of scans decode slowly.
constexpr int turbojpeg_rgb = 0, turbojpeg_limits_scans = 1 << 15;

Picture decode_jpeg(File file) {
  static const Library jpeg("libturbojpeg.so.0", "JPEG");
  static auto* const header = WEFT_FUNCTION(jpeg, tjDecompressHeader3);
  static auto* const decompress = WEFT_FUNCTION(jpeg, tjDecompress2);
  static auto* const message = WEFT_FUNCTION(jpeg, tjGetErrorStr2);
  std::unique_ptr<void, decltype(tjDestroy)*> state(WEFT_FUNCTION(jpeg, tjInitDecompress)(),
                                                    WEFT_FUNCTION(jpeg, tjDestroy));
  int width = 0, height = 0, subsampling = 0, colours = 0;
  if (header(state.get(), bytes_of(file), file.size(), &width, &height, &subsampling, &colours) != 0)
    refuse_picture(message(state.get()));
  Picture picture = canvas(file, static_cast<uint64_t>(width), static_cast<uint64_t>(height));
  if (decompress(state.get(), bytes_of(file), file.size(), picture.pixels.data(), width, 0, height, turbojpeg_rgb,
                 turbojpeg_limits_scans))
    refuse_picture(message(state.get()));
  return picture;
}

Picture decode_webp(File file) {
  static const Library webp("libwebp.so.7", "WebP");
  int width = 0, height = 0;
  if (!WEFT_FUNCTION(webp, WebPGetInfo)(bytes_of(file), file.size(), &width, &height))
    refuse_picture("the WebP picture is damaged");
  Picture picture = canvas(file, static_cast<uint64_t>(width), static_cast<uint64_t>(height));
  auto* decode = WEFT_FUNCTION(webp, WebPDecodeRGBInto);
  if (!decode(bytes_of(file), file.size(), picture.pixels.data(), picture.pixels.size(), width * 3))
    refuse_picture("the WebP picture is damaged");
  return picture;
}

// --- JPEG 2000 -------------------------------------------------------------------------------------------------------

/// The file that openjpeg reads, and the position of the next byte.
struct Reader {
  File file;
  size_t at = 0;
};

OPJ_SIZE_T read_bytes(void* to, OPJ_SIZE_T count, void* user) {
  auto& reader = *static_cast<Reader*>(user);
  size_t left = reader.file.size() - reader.at, taken = std::min<size_t>(count, left);
  if (taken == 0) return static_cast<OPJ_SIZE_T>(-1);
  std::memcpy(to, reader.file.data() + reader.at, taken);
  reader.at += taken;
  return taken;
}
OPJ_BOOL seek_to(OPJ_OFF_T place, void* user) {
  auto& reader = *static_cast<Reader*>(user);
  if (place < 0 || std::cmp_greater(place, reader.file.size())) return OPJ_FALSE;
  reader.at = place;
  return OPJ_TRUE;
}
OPJ_OFF_T skip_bytes(OPJ_OFF_T count, void* user) {
  auto& reader = *static_cast<Reader*>(user);
  if (count < 0 || std::cmp_greater(count, reader.file.size() - reader.at)) return -1;
  reader.at += count;
  return count;
}

/// Returns component c (1 to 32 bits) at a pixel, scaled to 8 bits.
uint8_t sample(const opj_image_comp_t& c, size_t pixel) {
  int64_t value = c.data[pixel] + (c.sgnd ? int64_t{1} << (c.prec - 1) : 0);
  value = c.prec > 8 ? value >> (c.prec - 8) : value << (8 - c.prec);
  return static_cast<uint8_t>(std::clamp<int64_t>(value, 0, 255));
}

Picture decode_jpeg_2000(File file, OPJ_CODEC_FORMAT format) {
  static const Library jp2("libopenjp2.so.7", "JPEG 2000");
  Reader reader{file};
  std::unique_ptr<opj_stream_t, decltype(opj_stream_destroy)*> stream(
      WEFT_FUNCTION(jp2, opj_stream_create)(1 << 16, OPJ_TRUE), WEFT_FUNCTION(jp2, opj_stream_destroy));
  WEFT_FUNCTION(jp2, opj_stream_set_user_data)(stream.get(), &reader, nullptr);
  WEFT_FUNCTION(jp2, opj_stream_set_user_data_length)(stream.get(), file.size());
  WEFT_FUNCTION(jp2, opj_stream_set_read_function)(stream.get(), read_bytes);
  WEFT_FUNCTION(jp2, opj_stream_set_seek_function)(stream.get(), seek_to);
  WEFT_FUNCTION(jp2, opj_stream_set_skip_function)(stream.get(), skip_bytes);
  std::unique_ptr<opj_codec_t, decltype(opj_destroy_codec)*> codec(WEFT_FUNCTION(jp2, opj_create_decompress)(format),
                                                                   WEFT_FUNCTION(jp2, opj_destroy_codec));
  opj_dparameters_t parameters{};
  WEFT_FUNCTION(jp2, opj_set_default_decoder_parameters)(&parameters);
  opj_image_t* read = nullptr;
  bool has_header = WEFT_FUNCTION(jp2, opj_setup_decoder)(codec.get(), &parameters) &&
                    WEFT_FUNCTION(jp2, opj_read_header)(stream.get(), codec.get(), &read);
  std::unique_ptr<opj_image_t, decltype(opj_image_destroy)*> image(read, WEFT_FUNCTION(jp2, opj_image_destroy));
  if (!has_header || !image || image->numcomps == 0) refuse_picture("the JPEG 2000 picture is damaged");
  Picture picture = canvas(file, image->comps[0].w, image->comps[0].h);
  if (!WEFT_FUNCTION(jp2, opj_decode)(codec.get(), stream.get(), image.get()) ||
      !WEFT_FUNCTION(jp2, opj_end_decompress)(codec.get(), stream.get()))
    refuse_picture("the JPEG 2000 picture is damaged");
  size_t colours = image->numcomps < 3 ? 1 : 3;
  for (size_t c = 0; c < colours; ++c) {
    const opj_image_comp_t& own = image->comps[c];
    if (!own.data || own.w != picture.width || own.h != picture.height)
      refuse_picture("the JPEG 2000 picture has components of different sizes, which is not supported");
    if (own.prec < 1 || own.prec > 32)
      refuse_picture(cat("a JPEG 2000 picture with ", own.prec, " bits for a component is not supported"));
  }
  for (size_t i = 0; i < picture.pixels.size(); ++i)
    picture.pixels[i] = sample(image->comps[colours == 1 ? 0 : i % 3], i / 3);
  return picture;
}

// --- uncompressed formats --------------------------------------------------------------------------------------------

/// A reader of numbers, in either byte order, at positions of the file. Throws E212 beyond the file's end.
class Numbers {
 public:
  Numbers(File file, bool is_big) : file_(file), is_big_(is_big) {}

  uint32_t at(size_t place, size_t bytes) const {
    File part = part_at(place, bytes);
    uint32_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value |= static_cast<uint32_t>(part[i]) << 8 * (is_big_ ? bytes - 1 - i : i);
    return value;
  }
  uint32_t u16(size_t place) const { return at(place, 2); }
  uint32_t u32(size_t place) const { return at(place, 4); }
  File part_at(size_t place, size_t bytes) const {
    if (place > file_.size() || bytes > file_.size() - place) refuse_picture("the picture's data are cut short");
    return file_.subspan(place, bytes);
  }

 private:
  File file_;
  bool is_big_;
};

/// Decodes Windows bitmaps of 24 or 32 bits, or of 8 bits with a palette, without compression.
Picture decode_bmp(File file) {
  Numbers n(file, false);
  uint32_t start = n.u32(10), header = n.u32(14), depth = n.u16(28), packing = n.u32(30);
  auto rows = static_cast<int32_t>(n.u32(22));
  bool is_known = header >= 40 && (depth == 8 || depth == 24 || depth == 32) && packing == 0;
  if (!is_known) refuse_picture(cat("a BMP of ", depth, " bits with compression ", packing, " is not supported"));
  Picture picture = canvas(file, n.u32(18), static_cast<uint64_t>(rows < 0 ? -static_cast<int64_t>(rows) : rows));
  size_t stride = (picture.width * depth / 8 + 3) / 4 * 4, palette = 14 + size_t{header};
  for (size_t y = 0; y < picture.height; ++y) {
    File row = n.part_at(start + (rows < 0 ? y : picture.height - 1 - y) * stride, stride);
    for (size_t x = 0; x < picture.width; ++x) {
      File pixel =
          depth == 8 ? n.part_at(palette + 4 * std::to_integer<size_t>(row[x]), 3) : row.subspan(x * depth / 8, 3);
      for (size_t c = 0; c < 3; ++c)
        picture.pixels[(y * picture.width + x) * 3 + c] = static_cast<uint8_t>(pixel[2 - c]);
    }
  }
  return picture;
}

/// Reads the next number in the text header of a PNM file; # begins a comment.
uint64_t header_number(File file, size_t& at) {
  auto byte = [&] { return at < file.size() ? static_cast<char>(file[at]) : '\0'; };
  while (byte() == '#' || byte() == ' ' || byte() == '\n' || byte() == '\r' || byte() == '\t') {
    if (byte() != '#') ++at;
    else
      while (at < file.size() && byte() != '\n') ++at;
  }
  uint64_t value = 0;
  size_t begin = at;
  for (; byte() >= '0' && byte() <= '9'; ++at)
    value = std::min<uint64_t>(value * 10 + static_cast<uint64_t>(byte() - '0'), max_pixels + 1);
  if (at == begin) refuse_picture("the PNM picture has a damaged header");
  return value;
}

/// Decodes P5 (grey) and P6 (colours) with 8 bits per sample.
Picture decode_pnm(File file) {
  size_t at = 2;
  uint64_t width = header_number(file, at), height = header_number(file, at), highest = header_number(file, at);
  ++at;  // the single white space before the pixels
  if (highest == 0 || highest > 255) refuse_picture(cat("a PNM with numbers up to ", highest, " is not supported"));
  Picture picture = canvas(file, width, height);
  size_t colours = file[1] == std::byte{'5'} ? 1 : 3;
  File pixels = Numbers(file, false).part_at(at, picture.width * picture.height * colours);
  for (size_t i = 0; i < picture.pixels.size(); ++i) {
    auto value = static_cast<uint64_t>(pixels[colours == 1 ? i / 3 : i]);
    picture.pixels[i] = static_cast<uint8_t>((std::min(value, highest) * 255 + highest / 2) / highest);
  }
  return picture;
}

/// A decoder for the first picture of a TIFF: 8-bit strips, grey or RGB, without compression.
class Tiff {
 public:
  explicit Tiff(File file) : file_(file), numbers_(file, file[0] == std::byte{'M'}), directory_(numbers_.u32(4)) {}

  Picture decode() const {
    uint32_t samples = value(277, 1), packing = value(259, 1), colours = value(262, 2);
    bool is_known = packing == 1 && value(258, 1) == 8 && (colours == 1 || colours == 2) && value(284, 1) == 1 &&
                    samples >= (colours == 2 ? 3u : 1u);
    if (!is_known)
      refuse_picture(cat("a TIFF with compression ", packing, " and colours ", colours, " is not supported"));
    Picture picture = canvas(file_, value(256, 0), value(257, 0));
    std::optional<size_t> strips = entry_of(273);
    if (!strips) refuse_picture("the TIFF picture has no strips");
    size_t rows = std::min<size_t>(std::max(value(278, ~0u), 1u), picture.height), row = picture.width * samples;
    for (size_t y = 0; y < picture.height; ++y) {
      File from = numbers_.part_at(number(*strips, y / rows) + y % rows * row, row);
      for (size_t i = 0; i < picture.width * 3; ++i)
        picture.pixels[y * picture.width * 3 + i] =
            static_cast<uint8_t>(from[i / 3 * samples + (colours == 2 ? i % 3 : 0)]);
    }
    return picture;
  }

 private:
  /// Returns the position of a tag's entry in the directory.
  std::optional<size_t> entry_of(uint32_t tag) const {
    uint32_t count = numbers_.u16(directory_);
    for (uint32_t i = 0; i < count; ++i) {
      size_t entry = directory_ + 2 + size_t{12} * i;
      if (numbers_.u16(entry) == tag) return entry;
    }
    return std::nullopt;
  }
  uint32_t number(size_t entry, size_t index) const {
    size_t size = numbers_.u16(entry + 2) == 3 ? 2 : 4, held = numbers_.u32(entry + 4);
    if (index >= held) refuse_picture("the TIFF picture is damaged");
    size_t place = held * size <= 4 ? entry + 8 : numbers_.u32(entry + 8);
    return numbers_.at(place + index * size, size);
  }
  uint32_t value(uint32_t tag, uint32_t otherwise) const {
    auto entry = entry_of(tag);
    return entry ? number(*entry, 0) : otherwise;
  }

  File file_;
  Numbers numbers_;
  size_t directory_;
};

struct Format {
  std::string_view start;
  Picture (*decode)(File file);
  std::string_view later = {};  ///< for a container format, the text at byte 8
};

constexpr Format formats[] = {
    {"\x89PNG", decode_png},
    {"\xff\xd8\xff", decode_jpeg},
    {"RIFF", decode_webp, "WEBP"},
    {std::string_view("\0\0\0\x0cjP  ", 8), [](File file) { return decode_jpeg_2000(file, OPJ_CODEC_JP2); }},
    {"\xff\x4f\xff\x51", [](File file) { return decode_jpeg_2000(file, OPJ_CODEC_J2K); }},
    {"BM", decode_bmp},
    {"P5", decode_pnm},
    {"P6", decode_pnm},
    {std::string_view("II*\0", 4), [](File file) { return Tiff(file).decode(); }},
    {std::string_view("MM\0*", 4), [](File file) { return Tiff(file).decode(); }},
};

/// Returns the format of a file by its first bytes; null if Weft does not read it.
const Format* format_of(File file) {
  std::string_view text = as_text(file);
  for (const Format& format : formats) {
    if (text.starts_with(format.start) && text.substr(std::min<size_t>(8, text.size())).starts_with(format.later))
      return &format;
  }
  return nullptr;
}

}  // namespace

bool is_picture(File file) { return format_of(file) != nullptr; }

Picture decode_picture(File file) {
  if (const Format* format = format_of(file)) return format->decode(file);
  refuse_picture("the picture is not JPEG, PNG, WebP, JPEG 2000, BMP, PNM or TIFF");
}

Picture grey(const Picture& picture) {
  Picture result{picture.width, picture.height, 1, std::vector<uint8_t>(picture.width * picture.height)};
  for (size_t i = 0; i < result.pixels.size(); ++i) {
    const uint8_t* p = picture.pixels.data() + i * 3;
    result.pixels[i] = static_cast<uint8_t>((p[0] * 19595u + p[1] * 38470u + p[2] * 7471u + 0x8000u) >> 16);
  }
  return result;
}

Values decode_image(const HostCall& call, Operands in) {
  check(call.numbers.size() == 1, "a picture is asked for in one format of pixels");
  Picture picture = decode_picture(in[0].data);
  bool is_grey = call.numbers[0] == 2;
  if (is_grey) picture = grey(picture);
  for (size_t i = 0; call.numbers[0] == 1 && i < picture.pixels.size(); i += 3)
    std::swap(picture.pixels[i], picture.pixels[i + 2]);
  std::vector<int64_t> dims = {static_cast<int64_t>(picture.height), static_cast<int64_t>(picture.width),
                               is_grey ? 1 : 3};
  auto owner = std::make_shared<const std::vector<uint8_t>>(std::move(picture.pixels));
  return {boxed({.dtype = DType::u8, .dims = dims, .data = Bytes(std::as_bytes(std::span(*owner)), owner)})};
}

}  // namespace weft::host
