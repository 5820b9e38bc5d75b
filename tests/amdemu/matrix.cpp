// SPDX-License-Identifier: Apache-2.0
// MFMA (CDNA, waves of 64) and WMMA (RDNA 3 and 4, waves of 32): which lane and register holds which element, and the
// product. Sums run along the depth in order, by fused multiply-adds; a real chip may add and round in another order.
#include <array>
#include <vector>

#include "operands.h"
#include "semantics.h"

namespace weft::amdemu {
namespace {

constexpr int max_side = 32, max_depth = 64;

int bits_in(Element e) {
  switch (e) {
    case Element::f16:
    case Element::bf16: return 16;
    case Element::f32:
    case Element::xf32:
    case Element::i32: return 32;
    case Element::f64: return 64;
    case Element::i8:
    case Element::fp8:
    case Element::bf8: return 8;
    case Element::i4: return 4;
  }
  return 0;
}
bool is_integer(Element e) { return e == Element::i8 || e == Element::i4 || e == Element::i32; }

/// The matrices A and B of one block, and the sums to which their product is added; T is f32, f64 or i32.
template <class T>
struct Matrices {
  T a[max_side][max_depth];
  T b[max_depth][max_side];
  T sum[max_side][max_side];
};

f32 fused(f32 a, f32 b, f32 c) { return std::fma(a, b, c); }
f64 fused(f64 a, f64 b, f64 c) { return std::fma(a, b, c); }
i32 fused(i32 a, i32 b, i32 c) {
  return static_cast<i32>(static_cast<u32>(a) * static_cast<u32>(b) + static_cast<u32>(c));
}

template <class T, int columns>
void multiply(Matrices<T>& m, int rows, int depth) {
  for (int r = 0; r < rows; ++r) {
    T sums[columns];
    for (int c = 0; c < columns; ++c) sums[c] = m.sum[r][c];
    for (int k = 0; k < depth; ++k) {
      const T a = m.a[r][k];
      for (int c = 0; c < columns; ++c) sums[c] = fused(a, m.b[k][c], sums[c]);
    }
    for (int c = 0; c < columns; ++c) m.sum[r][c] = sums[c];
  }
}

template <class T>
void multiply(Matrices<T>& m, const MatrixShape& s) {
  if (s.columns == 32) multiply<T, 32>(m, s.rows, s.depth);
  else if (s.columns == 16) multiply<T, 16>(m, s.rows, s.depth);
  else multiply<T, 4>(m, s.rows, s.depth);
}

// --- elements in registers -------------------------------------------------------------------------------------------

const f32* float8_table(Element e, bool fnuz) {
  static const std::vector<f32> table = [] {
    std::vector<f32> values(1024);
    for (int kind = 0; kind < 4; ++kind) {
      for (int code = 0; code < 256; ++code)
        values[static_cast<size_t>(kind * 256 + code)] =
            float8_to_f32(static_cast<u8>(code), {.exponent_bits = 4 + (kind & 1), .fnuz = kind > 1});
    }
    return values;
  }();
  return table.data() + 256 * ((e == Element::bf8 ? 1 : 0) + (fnuz ? 2 : 0));
}

u32 raw_element(const Wave& w, const Operand& o, u32 lane, int element, int bits) {
  const u32 word = w.row(o, element * bits / 32)[lane];
  return bits == 32 ? word : word >> element * bits % 32 & ((1u << bits) - 1);
}

f32 real_element(const Wave& w, const Operand& o, u32 lane, int element, Element type) {
  const u32 bits = raw_element(w, o, lane, element, bits_in(type));
  switch (type) {
    case Element::f16: return static_cast<f32>(as_f16(bits));
    case Element::bf16: return bf16_to_f32(bits);
    case Element::xf32: return as_f32(bits & 0xffffe000);  // ten bits of mantissa
    case Element::fp8:
    case Element::bf8: return float8_table(type, w.fnuz)[bits];
    case Element::f32: return as_f32(bits);
    case Element::f64:
    case Element::i8:
    case Element::i4:
    case Element::i32: break;
  }
  throw Fault("a matrix element of no real type");
}

i32 integer_element(const Wave& w, const Operand& o, u32 lane, int element, Element type, bool with_sign) {
  const int shift = 32 - bits_in(type);
  const u32 bits = raw_element(w, o, lane, element, bits_in(type)) << shift;
  return with_sign ? static_cast<i32>(bits) >> shift : static_cast<i32>(bits >> shift);
}

f64 double_element(const Wave& w, const Operand& o, u32 lane, int element) {
  const u64 bits = o.is_register()
                       ? w.row(o, 2 * element)[lane] | static_cast<u64>(w.row(o, 2 * element + 1)[lane]) << 32
                       : read_scalar(w, o, Meaning::double_precision);
  return std::bit_cast<f64>(bits);
}

template <class T>
T factor(const Wave& w, const Operand& o, u32 lane, int element, Element type, bool with_sign) {
  if constexpr (std::is_same_v<T, f64>) return double_element(w, o, lane, element);
  else if constexpr (std::is_same_v<T, i32>) return integer_element(w, o, lane, element, type, with_sign);
  else return real_element(w, o, lane, element, type);
}

/// Returns one word of C, the sums to which the product is added; C may be a constant.
u32 addend(const Wave& w, const Operand& o, int word, u32 lane, Meaning meaning) {
  return o.is_register() ? w.row(o, word)[lane] : static_cast<u32>(constant_bits(o, meaning));
}

// --- MFMA ------------------------------------------------------------------------------------------------------------

struct Place {
  int block, row, column;
};

/// Returns the place of the sum in register `word` of a lane. A lane holds sums of one column: groups of four rows or,
/// in f64, every fourth row.
Place sum_place(const MatrixShape& s, int word, u32 lane) {
  const int l = static_cast<int>(lane);
  if (s.sum == Element::f64) return {0, l / 16 + 4 * word, l % 16};
  if (s.rows == 32) return {word / 16, 8 * (word % 16 / 4) + 4 * (l / 32) + word % 4, l % 32};
  if (s.rows == 16) return {word / 4, 4 * (l / 16) + word % 4, l % 16};
  return {l / 4, word, l % 4};
}

/// Reads A and B of one block. Each group of s.rows lanes belongs to the next block, in turn. A lane holds `each`
/// consecutive elements of a row of A and of a column of B.
template <class T>
void read_factors(const Wave& w, const Instruction& i, int block, Matrices<T>& m) {
  const MatrixShape& s = i.matrix;
  const int lanes_each = s.rows * s.blocks, each = s.depth * lanes_each / 64;
  for (u32 l = 0; l < 64; ++l) {
    const int lane = static_cast<int>(l);
    if (lane / s.rows % s.blocks != block) continue;
    for (int j = 0; j < each; ++j) {
      const int k = lane / lanes_each * each + j;
      m.a[lane % s.rows][k] = factor<T>(w, i[1], l, j, s.a, true);
      m.b[k][lane % s.rows] = factor<T>(w, i[2], l, j, s.b, true);
    }
  }
}

template <class T>
T read_sum(const Wave& w, const Operand& o, int word, u32 lane) {
  if constexpr (sizeof(T) == 8) return double_element(w, o, lane, word);
  else return std::bit_cast<T>(addend(w, o, word, lane, meaning_of<T>));
}

template <class T>
void write_sum(Wave& w, const Operand& o, int word, u32 lane, T value) {
  if constexpr (sizeof(T) == 8) {
    const u64 bits = std::bit_cast<u64>(value);
    w.row(o, 2 * word)[lane] = static_cast<u32>(bits);
    w.row(o, 2 * word + 1)[lane] = static_cast<u32>(bits >> 32);
  } else {
    w.row(o, word)[lane] = std::bit_cast<u32>(value);
  }
}

template <class T>
void mfma(Wave& w, const Instruction& i) {
  static thread_local Matrices<T> m;
  static thread_local T results[32][max_lanes];
  const MatrixShape& s = i.matrix;
  const int words = s.rows * s.columns * s.blocks / 64;
  auto each = [&](int block, auto body) {
    for (int word = 0; word < words; ++word) {
      for (u32 l = 0; l < 64; ++l) {
        const Place at = sum_place(s, word, l);
        if (at.block == block) body(word, l, m.sum[at.row][at.column]);
      }
    }
  };
  for (int block = 0; block < s.blocks; ++block) {
    read_factors<T>(w, i, block, m);
    each(block, [&](int word, u32 l, T& sum) { sum = read_sum<T>(w, i[3], word, l); });
    multiply(m, s);
    each(block, [&](int word, u32 l, T& sum) { results[word][l] = sum; });
  }
  for (int word = 0; word < words; ++word) {
    for (u32 l = 0; l < 64; ++l) write_sum<T>(w, i[0], word, l, results[word][l]);
  }
}

// --- WMMA ------------------------------------------------------------------------------------------------------------

/// Reads A and B. On gfx11 lanes l and l + 16 both hold the whole row l of A and column l of B. On gfx12 each of these
/// two lanes holds half of the row and of the column.
template <class T>
void read_wave_factors(const Wave& w, const Instruction& i, Matrices<T>& m) {
  const MatrixShape& s = i.matrix;
  const bool shared = w.generation >= 12;
  const int each = shared ? s.depth / 2 : s.depth;
  for (u32 l = 0; l < (shared ? 32u : 16u); ++l) {
    for (int j = 0; j < each; ++j) {
      const auto row = l & 15;
      const int k = static_cast<int>(l / 16) * each + j;
      m.a[row][k] = factor<T>(w, i[1], l, j, s.a, i.modifiers.neg_lo & 1);
      m.b[k][row] = factor<T>(w, i[2], l, j, s.b, i.modifiers.neg_lo & 2);
    }
  }
}

struct WavePlace {
  int row, column, word, shift;  ///< shift: of a 16-bit sum in its word
};
WavePlace wave_place(const Wave& w, const Instruction& i, int element, u32 lane) {
  const int half = static_cast<int>(lane / 16), column = static_cast<int>(lane & 15);
  const bool narrow = bits_in(i.matrix.sum) == 16;
  if (w.generation >= 12)
    return {element + 8 * half, column, narrow ? element / 2 : element, narrow ? 16 * (element & 1) : 0};
  const bool high = narrow && i.modifiers.has_op_sel && (i.modifiers.op_sel & 4);
  return {2 * element + half, column, element, high ? 16 : 0};
}

f32 narrow_sum(u32 bits, Element type) {
  return type == Element::f16 ? static_cast<f32>(as_f16(bits)) : bf16_to_f32(bits & 0xffff);
}
u32 narrowed(f32 sum, Element type) { return type == Element::f16 ? bits_of(static_cast<f16>(sum)) : to_bf16(sum); }

template <class T>
T read_wave_sum(const Wave& w, const Instruction& i, const WavePlace& at, u32 lane) {
  const bool narrow = bits_in(i.matrix.sum) == 16;
  const u32 bits = addend(w, i[3], at.word, lane, narrow ? Meaning::half : meaning_of<T>);
  if constexpr (std::is_same_v<T, f32>) {
    if (narrow) return narrow_sum(bits >> (i[3].is_register() ? at.shift : 0), i.matrix.sum);
  }
  return std::bit_cast<T>(bits);
}

template <class T>
void write_wave_sum(Wave& w, const Instruction& i, const WavePlace& at, u32 lane, T sum) {
  u32& word = w.row(i[0], at.word)[lane];
  if constexpr (std::is_same_v<T, f32>) {
    if (bits_in(i.matrix.sum) == 16) {
      word = (word & ~(0xffffu << at.shift)) | narrowed(sum, i.matrix.sum) << at.shift;
      return;
    }
  }
  word = std::bit_cast<u32>(sum);
}

template <class T>
void wmma(Wave& w, const Instruction& i) {
  static thread_local Matrices<T> m;
  if (w.lanes != 32) throw Fault(text("matrix instructions in waves of 64 are not modelled: ", i.text));
  read_wave_factors<T>(w, i, m);
  auto each = [&](auto body) {
    for (int element = 0; element < 8; ++element) {
      for (u32 l = 0; l < 32; ++l) {
        const WavePlace at = wave_place(w, i, element, l);
        body(at, l, m.sum[at.row][at.column]);
      }
    }
  };
  each([&](const WavePlace& at, u32 l, T& sum) { sum = read_wave_sum<T>(w, i, at, l); });
  multiply(m, i.matrix);
  each([&](const WavePlace& at, u32 l, T& sum) { write_wave_sum<T>(w, i, at, l, sum); });
}

// --- names -----------------------------------------------------------------------------------------------------------

struct ElementName {
  const char* name;
  Element a, b;
};
constexpr ElementName element_names[] = {  // a name precedes the names that it contains
    {"fp8_fp8", Element::fp8, Element::fp8}, {"fp8_bf8", Element::fp8, Element::bf8},
    {"bf8_fp8", Element::bf8, Element::fp8}, {"bf8_bf8", Element::bf8, Element::bf8},
    {"xf32", Element::xf32, Element::xf32},  {"bf16", Element::bf16, Element::bf16},
    {"f16", Element::f16, Element::f16},     {"f64", Element::f64, Element::f64},
    {"f32", Element::f32, Element::f32},     {"iu4", Element::i4, Element::i4},
    {"iu8", Element::i8, Element::i8},       {"i8", Element::i8, Element::i8}};

Element sum_type(const std::string& name) {
  const std::string type = name.substr(7, name.find('_', 7) - 7);  // after "v_mfma_"
  if (type == "f64") return Element::f64;
  if (type == "i32") return Element::i32;
  if (type == "f16") return Element::f16;
  return type == "bf16" ? Element::bf16 : Element::f32;
}

/// Parses a shape: "v_mfma_f32_16x16x16_f16" or, as gfx90a has it, "v_mfma_f32_16x16x16f16".
MatrixShape read_shape(const Instruction& i) {
  MatrixShape s{.sum = sum_type(i.name)};
  const size_t sizes = i.name.find('_', 7) + 1;
  int read = 0;
  if (std::sscanf(i.name.c_str() + sizes, "%dx%dx%d%n", &s.rows, &s.columns, &s.depth, &read) != 3)
    throw Fault(text("a matrix instruction without semantics: ", i.text));
  const std::string types = i.name.substr(sizes + static_cast<size_t>(read));
  for (const ElementName& known : element_names) {
    if (types.find(known.name) == std::string::npos) continue;
    s.a = known.a, s.b = known.b;
    const int each = i[1].words * 32 / bits_in(s.a);  // elements that a lane holds
    s.blocks = i.is("v_mfma") ? 64 * each / (s.rows * s.depth) : 1;
    return s;
  }
  throw Fault(text("a matrix instruction without semantics: ", i.text));
}

Action action_of(const Instruction& i) {
  const bool waves = i.is("v_wmma_");
  if (i.matrix.sum == Element::f64) return mfma<f64>;
  if (is_integer(i.matrix.sum)) return waves ? wmma<i32> : mfma<i32>;
  return waves ? wmma<f32> : mfma<f32>;
}

}  // namespace

bool prepare_matrix(Instruction& i) {
  if (!i.is("v_mfma_") && !i.is("v_wmma_")) return false;
  const Modifiers& m = i.modifiers;
  if (m.cbsz || m.abid || m.blgp) throw Fault(text("modifiers cbsz, abid and blgp are not modelled: ", i.text));
  i.matrix = read_shape(i);
  i.action = action_of(i);
  i.unit = Unit::matrix;
  return true;
}

}  // namespace weft::amdemu
