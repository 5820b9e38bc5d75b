// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/op.h"

/// Operators that read or write at positions given by data. Indices are i32 or i64; negative indices count from the
/// end; an index out of range is a run-time error (E301).
namespace weft {

/// Selects slices along `axis`. The result has x's sizes before the axis, the indices' sizes, x's sizes after the axis.
struct Gather {
  static constexpr std::string_view name = "gather";
  int64_t axis = 0;
  static auto fields() { return std::tuple{Field{"axis", &Gather::axis}}; }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const Gather&) const = default;
};

/// Selects single elements along `axis`; the result has the sizes of the indices.
struct GatherElements {
  static constexpr std::string_view name = "gather_elements";
  int64_t axis = 0;
  static auto fields() { return std::tuple{Field{"axis", &GatherElements::axis}}; }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const GatherElements&) const = default;
};

/// Gathers at coordinates: the last axis of the indices holds coordinates for the axes after the first `batch` axes.
struct GatherNd {
  static constexpr std::string_view name = "gather_nd";
  int64_t batch = 0;
  static auto fields() { return std::tuple{Field{"batch", &GatherNd::batch}}; }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const GatherNd&) const = default;
};

enum class ScatterFn : uint8_t { replace, add, mul, min, max };
std::span<const std::string_view> names(ScatterFn);

/// x with `updates` written, or combined by `fn`, at `indices` along `axis`. Operands: x, indices, updates. `unique`: no
/// two updates meet, so that their order does not matter.
struct ScatterElements {
  static constexpr std::string_view name = "scatter_elements";
  int64_t axis = 0;
  ScatterFn fn = ScatterFn::replace;
  bool unique = false;
  static auto fields() {
    return std::tuple{Field{"axis", &ScatterElements::axis}, Field{"fn", &ScatterElements::fn},
                      Field{"unique", &ScatterElements::unique}};
  }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const ScatterElements&) const = default;
};

/// x with slices written, or combined by `fn`, at coordinates in the last axis of indices. Operands: x, indices,
/// updates.
struct ScatterNd {
  static constexpr std::string_view name = "scatter_nd";
  ScatterFn fn = ScatterFn::replace;
  static auto fields() { return std::tuple{Field{"fn", &ScatterNd::fn}}; }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const ScatterNd&) const = default;
};

/// A tensor of sizes `dims` in which each element is its own index along `axis`.
struct Iota {
  static constexpr std::string_view name = "iota";
  Dims dims = {};
  int64_t axis = 0;
  DType type = DType::i64;
  static auto fields() {
    return std::tuple{Field{"dims", &Iota::dims}, Field{"axis", &Iota::axis}, Field{"type", &Iota::type}};
  }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const Iota&) const = default;
};

enum class ResizeMode : uint8_t { nearest, linear, cubic };
std::span<const std::string_view> names(ResizeMode);
enum class ResizeCoordinates : uint8_t {
  half_pixel,
  half_pixel_symmetric,
  pytorch_half_pixel,
  align_corners,
  asymmetric,
  tf_crop_and_resize,
};
std::span<const std::string_view> names(ResizeCoordinates);
enum class ResizeNearest : uint8_t { round_prefer_floor, round_prefer_ceil, floor, ceil };
std::span<const std::string_view> names(ResizeNearest);

/// ONNX Resize over all axes to sizes `dims`. scales[a] is the scale of coordinates along axis a; 0 means dims[a] / x's
/// size. With `snaps`, it is 1 where the size is kept and, for nearest, 2 where it is doubled, whatever scales[a] is
/// (torch). roi (all starts, then all ends) is for tf_crop_and_resize only. If scales and roi are known only in a run, a
/// second operand f64[3, rank] replaces them: the scales, starts and ends of all axes.
struct Resize {
  static constexpr std::string_view name = "resize";
  Dims dims = {};
  std::vector<double> scales = {};
  ResizeMode mode = ResizeMode::nearest;
  ResizeCoordinates coordinates = ResizeCoordinates::half_pixel;
  ResizeNearest nearest = ResizeNearest::round_prefer_floor;
  double cubic_a = -0.75;
  bool exclude_outside = false;
  bool antialias = false;
  double extrapolation = 0;
  std::vector<double> roi = {};
  bool snaps = false;
  static auto fields() {
    return std::tuple{Field{"dims", &Resize::dims},
                      Field{"scales", &Resize::scales},
                      Field{"mode", &Resize::mode},
                      Field{"coordinates", &Resize::coordinates},
                      Field{"nearest", &Resize::nearest},
                      Field{"cubic_a", &Resize::cubic_a},
                      Field{"exclude_outside", &Resize::exclude_outside},
                      Field{"antialias", &Resize::antialias},
                      Field{"extrapolation", &Resize::extrapolation},
                      Field{"roi", &Resize::roi},
                      Field{"snaps", &Resize::snaps}};
  }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const Resize&) const = default;
};

}  // namespace weft
