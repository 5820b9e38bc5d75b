// SPDX-License-Identifier: Apache-2.0
// Tables in GGML's block formats: most blocks have numbers of a few bits and their scales (layouts: ggml-common.h).
#include "frontends/onnx/microsoft/packed_weights.h"

#include <algorithm>
#include <array>

#include "base/tensor.h"
#include "frontends/common/indexing.h"

namespace weft::onnx {
namespace {

/// The bytes of blocks, [rows, blocks, bytes of a block] as u8.
struct Block {
  Call& c;
  Expr bytes;

  /// Returns bytes [from, from + count) as i32.
  Expr at(int64_t from, int64_t count) const { return convert(slice(bytes, 2, from, count), DType::i32); }
  /// Returns `count` words of 16 bits from byte `from` on, the low byte first, as i32.
  Expr words(int64_t from, int64_t count) const {
    const Dims d = bytes.dims();
    Expr pairs = reshape(at(from, 2 * count), {d[0], d[1], count, 2});
    return reshape(slice(pairs, 3, 0, 1) + slice(pairs, 3, 1, 1) * 256, {d[0], d[1], count});
  }
  Expr floats(int64_t from, int64_t count, DType type) const {
    Expr bits = convert(words(from, count), DType::u16);
    return convert({&c, c.emit(Bitcast{.to = type}, {bits})}, DType::f32);
  }
  Expr scale(int64_t from) const { return floats(from, 1, DType::f16); }
  Expr signed_bytes(int64_t from, int64_t count) const {
    Expr part = slice(bytes, 2, from, count);
    return convert({&c, c.emit(Bitcast{.to = DType::i8}, {part})}, DType::i32);
  }
  Expr join(Values parts) const { return concat(c, std::move(parts), 2); }
  /// Repeats each element of x[.., n] `times` times.
  Expr repeated(Expr x, int64_t times) const {
    Dims d = x.dims(), wide = d;
    wide.push_back(times), d.back() = d.back() * Dim(times);
    return reshape(broadcast(with_last_axis(x), wide), d);
  }
};

/// Returns `count` bits of integers, from bit `from` on.
Expr bits_of(Expr x, int64_t from, int64_t count) {
  if (from > 0) x = apply(Fn::shift_right, x, like(x, static_cast<double>(from)));
  return apply(Fn::bit_and, x, like(x, static_cast<double>((int64_t{1} << count) - 1)));
}

/// Unpacks 4-bit numbers: first the low halves of all bytes, then the high halves.
Expr low_and_high_bits(const Block& b, Expr bytes) { return b.join({bits_of(bytes, 0, 4), bits_of(bytes, 4, 4)}); }

/// Splits each byte into numbers of `width` bits, the lowest bits first: [.., n] -> [.., n * 8 / width].
Expr each_bits(const Block& b, Expr bytes, int64_t width) {
  Dims d = bytes.dims();
  d.back() = d.back() * Dim(8 / width);
  Values parts;
  for (int64_t at = 0; at < 8; at += width) parts.push_back(with_last_axis(bits_of(bytes, at, width)));
  return reshape(concat(b.c, parts, 3), d);
}

Expr q4_0(const Block& b) { return b.scale(0) * convert(low_and_high_bits(b, b.at(2, 16)) - 8, DType::f32); }
Expr q5_0(const Block& b) {
  return b.scale(0) * convert(low_and_high_bits(b, b.at(6, 16)) + each_bits(b, b.at(2, 4), 1) * 16 - 16, DType::f32);
}
Expr q8_0(const Block& b) { return b.scale(0) * convert(b.signed_bytes(2, 32), DType::f32); }
Expr q2_0(const Block& b) { return b.scale(0) * convert(each_bits(b, b.at(2, 16), 2) - 1, DType::f32); }

/// Unpacks eight groups of 32 elements, each with a 6-bit scale and a 6-bit offset. For groups 0 to 3, these are the
/// low 6 bits of eight bytes; for groups 4 to 7, the high 2 bits of these bytes and 4 bits of further bytes.
Expr q5_k(const Block& b) {
  Expr low = b.at(4, 4), middle = b.at(8, 4), high = b.at(12, 4);
  Expr scales = b.join({bits_of(low, 0, 6), bits_of(high, 0, 4) + bits_of(low, 6, 2) * 16});
  Expr least = b.join({bits_of(middle, 0, 6), bits_of(high, 4, 4) + bits_of(middle, 6, 2) * 16});
  Values parts;
  Expr fifth = b.at(16, 32);
  for (int64_t group = 0; group < 8; ++group) {
    Expr nibbles = bits_of(b.at(48 + group / 2 * 32, 32), group % 2 * 4, 4);
    parts.push_back(nibbles + bits_of(fifth, group, 1) * 16);
  }
  Expr q = convert(b.join(parts), DType::f32);
  Expr step = b.scale(0) * convert(scales, DType::f32), bottom = b.scale(2) * convert(least, DType::f32);
  return b.repeated(step, 32) * q - b.repeated(bottom, 32);
}

/// Unpacks sixteen groups of 16 elements, each with a scale of 8 bits.
Expr q6_k(const Block& b) {
  Values parts;
  for (int64_t half = 0; half < 2; ++half) {
    Expr low = b.at(half * 64, 64), high = b.at(128 + half * 32, 32);
    for (int64_t quarter = 0; quarter < 4; ++quarter) {
      Expr four = bits_of(slice(low, 2, quarter % 2 * 32, 32), quarter / 2 * 4, 4);
      parts.push_back(four + bits_of(high, quarter * 2, 2) * 16);
    }
  }
  Expr step = b.scale(208) * convert(b.signed_bytes(192, 16), DType::f32);
  return b.repeated(step, 16) * convert(b.join(parts) - 32, DType::f32);
}

/// Looks up 4-bit numbers in IQ4's table of sixteen values, which are closer together around 0.
Expr uneven(const Block& b, Expr number) {
  const std::vector<int64_t> values = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  Expr table{&b.c, constant(b.c.module(), make_i64_tensor(values))};
  return gather(convert(table, DType::f32), number);
}
Expr iq4_nl(const Block& b) { return b.scale(0) * uneven(b, low_and_high_bits(b, b.at(2, 16))); }

/// Unpacks eight groups of 32 elements. Each scale has 6 bits: 4 in a byte of two groups, 2 in one word of all groups.
Expr iq4_xs(const Block& b) {
  Expr word = b.words(2, 1);
  Values parts, high;
  for (int64_t group = 0; group < 8; ++group) {
    parts.push_back(low_and_high_bits(b, b.at(8 + group * 16, 16)));
    high.push_back(bits_of(word, group * 2, 2));
  }
  Expr scales = each_bits(b, b.at(4, 4), 4) + b.join(high) * 16 - 32;
  return b.repeated(b.scale(0) * convert(scales, DType::f32), 32) * uneven(b, b.join(parts));
}

Expr f32(const Block& b) {
  const Dims d = b.bytes.dims();
  Expr word = convert(b.words(0, 2), DType::u32);
  Expr bits = slice(word, 2, 0, 1) + slice(word, 2, 1, 1) * 65536;
  return {&b.c, b.c.emit(Bitcast{.to = DType::f32}, {bits})};
}
Expr f16(const Block& b) { return b.floats(0, 1, DType::f16); }
Expr bf16(const Block& b) { return b.floats(0, 1, DType::bf16); }

struct Format {
  int64_t number, elements, bytes;  ///< GGML's number of the type; elements and bytes of a block
  Expr (*restored)(const Block&);   ///< [rows, blocks, bytes] -> f32[rows, blocks, elements]
};
constexpr std::array formats = {
    Format{0, 1, 4, f32},         Format{1, 1, 2, f16},       Format{2, 32, 18, q4_0},    Format{6, 32, 22, q5_0},
    Format{8, 32, 34, q8_0},      Format{13, 256, 176, q5_k}, Format{14, 256, 210, q6_k}, Format{20, 32, 18, iq4_nl},
    Format{23, 256, 136, iq4_xs}, Format{30, 1, 2, bf16},     Format{42, 64, 18, q2_0},
};

}  // namespace

Values gather_packed(Call& c) {
  c.expect_ranks({{0, 2}});
  int64_t number = c.integer("packed_type"), size = c.extent("K");
  DType type = c.element("output_dtype", DType::bf16);
  const Format* format = std::ranges::find(formats, number, &Format::number);
  if (format == formats.end()) c.unsupported(cat("with packed_type ", number, " is not supported"));
  if (type != DType::f32 && type != DType::f16 && type != DType::bf16)
    c.fail("E141", cat("gives f32, f16 or bf16, not ", type));
  if (c.dtype(0) != DType::u8) c.fail("E141", cat("needs a table of u8, has ", c.input(0).shape()));
  if (size % format->elements != 0)
    c.fail("E145", cat("K must be a multiple of ", format->elements, " for packed_type ", number, ", is ", size));
  Expr table = arg(c, 0), index = convert(arg(c, 1), DType::i64);
  Dim rows = index.value.shape().elements(), blocks = size / format->elements;
  GuardCollector guards(c.module());
  require_equal(table.dims()[1], blocks * Dim(format->bytes), "GatherPacked: bytes of a row");
  Dims result = index.dims();
  result.push_back(size);
  Expr end = scalar(c, table.dims()[0]);
  index = reshape(select((index >= 0) & (index < end), index, 0), {rows});
  Block block{c, reshape(gather(table, index), {rows, blocks, format->bytes})};
  return {convert(reshape(format->restored(block), result), type)};
}

}  // namespace weft::onnx
