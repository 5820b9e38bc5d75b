// SPDX-License-Identifier: Apache-2.0
// Functions of the host on operands from a hostile model or caller: bad operands are refused quickly,
// with little memory.
#include <doctest/doctest.h>

#include <utility>

#include "base/container.h"
#include "base/error.h"
#include "errors.h"
#include "host/pictures.h"
#include "host/run.h"

using namespace weft;
using weft::test::code_of;

namespace {

Tensor numbers(std::vector<int64_t> values) { return make_i64_tensor(values); }

std::string split_code(Tensor x, Tensor lengths) {
  return code_of([&] { run_host({.fn = HostFn::split, .numbers = {0, 1}}, std::vector{x, lengths}); });
}

std::string picture_code(std::string_view bytes) {
  return code_of([&] { host::decode_picture(as_bytes(bytes)); });
}

void put(std::string& text, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> 8 * i);
}

std::string bmp(uint32_t width, uint32_t height) {
  std::string file = "BM";
  for (uint32_t field : {0u, 0u, 54u, 40u, width, height}) put(file, field, 4);
  put(file, 1, 2), put(file, 24, 2);
  return file + std::string(24, '\0');
}

/// Returns a TIFF file of `width` x `height` grey bytes. Its directory has the maximum number of entries; the entry
/// with the position of the bytes comes last.
std::string tiff(uint32_t width, uint32_t height) {
  std::string file = "II*";
  file += '\0';
  put(file, 8, 4), put(file, 65535, 2);
  auto entry = [&](uint32_t tag, uint32_t value) {
    put(file, tag, 2), put(file, 4, 2), put(file, 1, 4), put(file, value, 4);
  };
  entry(256, width), entry(257, height), entry(258, 8), entry(262, 1);
  for (int i = 4; i < 65534; ++i) entry(1, 0);
  entry(273, 8);
  return file;
}

}  // namespace

TEST_CASE("host: patterns that expand without end are refused, nested ones end") {
  auto nested = [](int depth, const std::string& inner, const std::string& count) {
    std::string text = inner;
    for (int i = 0; i < depth; ++i) text = "(" + text + ")" + count;
    return code_of([&] { check_pattern(text); });
  };
  CHECK(nested(3, "", "{1000}") == "E122");  // repeats the empty text 10^9 times
  CHECK(nested(100, "", "{1000}") == "E122");
  CHECK(nested(3, "a", "{100}") == "E122");
  CHECK(nested(2, "a", "{100}") == "none");
  CHECK(nested(60, "a", "*") == "none");
  CHECK(nested(10000, "a", "") == "E122");
}

TEST_CASE("host: lengths of parts that overflow are refused") {
  Tensor x = numbers({1, 2, 3, 4});
  CHECK(split_code(x, numbers({1, 3})) == "none");
  CHECK(split_code(x, numbers({1, 2})) == "E312");
  CHECK(split_code(x, numbers({5, -1})) == "E312");
  CHECK(split_code(x, numbers({INT64_MAX, INT64_MAX, 6})) == "E312");
  CHECK(split_code(x, make_tensor(DType::i64, {}, std::vector<int64_t>{INT64_MAX})) == "none");
  CHECK(split_code(x, make_tensor(DType::i64, {}, std::vector<int64_t>{0})) == "E312");
  Tensor empty{.dtype = DType::f32, .dims = {int64_t{1} << 60, 0}};
  CHECK(split_code(empty, make_tensor(DType::i64, {}, std::vector<int64_t>{1})) == "E312");
}

TEST_CASE("host: a list is changed in place only when no other value holds it") {
  Tensor list = make_container(Type::Kind::sequence, {numbers({1}), numbers({2, 3})});
  const int64_t before = bytes_of_items(list);
  Tensor shared = run_host({.fn = HostFn::insert}, {list, numbers({4})})[0];
  CHECK(list.items->size() == 2);
  CHECK(shared.items->size() == 3);
  CHECK(bytes_of_items(list) == before);
  CHECK(bytes_of_items(shared) == before + bytes_as_item(numbers({4})));
  const auto* place = shared.items.get();
  std::vector<Tensor> operands(2);
  operands[0] = std::exchange(shared, {});
  operands[1] = numbers({5});
  Tensor own = run_host({.fn = HostFn::insert}, std::move(operands))[0];
  CHECK(own.items.get() == place);
  CHECK(own == make_container(Type::Kind::sequence, {numbers({1}), numbers({2, 3}), numbers({4}), numbers({5})}));
  Tensor first = scalar_tensor(DType::i64, 0);
  Tensor less = run_host({.fn = HostFn::erase}, {own, first})[0];
  CHECK(own.items->size() == 4);
  CHECK(less == make_container(Type::Kind::sequence, {numbers({2, 3}), numbers({4}), numbers({5})}));
  CHECK(bytes_of_items(less) == bytes_of_items(own) - bytes_as_item(numbers({1})));
  CHECK(code_of([&] { run_host({.fn = HostFn::erase}, {own, scalar_tensor(DType::i64, 4)}); }) == "E301");
}

TEST_CASE("host: items of different types are not joined") {
  HostCall call{.fn = HostFn::join, .numbers = {0, 0}};
  auto join = [&](Tensor a, Tensor b) {
    Tensor all = make_container(Type::Kind::sequence, {std::move(a), std::move(b)});
    return code_of([&] { run_host(call, std::vector{all}); });
  };
  Tensor strings = make_string_tensor({2}, {"a", "b"}),
         narrow = make_tensor(DType::i8, {2}, std::vector<int64_t>{1, 2});
  CHECK(join(numbers({1, 2}), numbers({3})) == "none");
  CHECK(join(numbers({1, 2}), narrow) == "E312");
  CHECK(join(narrow, strings) == "E312");
  CHECK(join(strings, narrow) == "E312");
  const int64_t huge = int64_t{1} << 62;
  Tensor long_one{.dtype = DType::f32, .dims = {huge, 0}};
  CHECK(join(long_one, long_one) == "E312");
}

TEST_CASE("host: a picture does not take more memory or time than its file is worth") {
  CHECK(picture_code("") == "E212");
  CHECK(picture_code("BM") == "E212");
  CHECK(picture_code(bmp(1, 1)) == "E212");  // the file has no row
  CHECK(picture_code(bmp(1, 1) + std::string(4, 'x')) == "none");
  CHECK(picture_code(bmp(1 << 14, 1 << 14)) == "E212");
  CHECK(picture_code(bmp(UINT32_MAX, UINT32_MAX)) == "E212");
  CHECK(picture_code(bmp(1, 0x80000000u)) == "E212");
  CHECK(picture_code("P5 16384 16384 255\n") == "E212");
  CHECK(picture_code(tiff(1, 1 << 24)) == "E212");  // the file is far too short for its one strip of 2^24 rows
  CHECK(picture_code(tiff(16, 2)) == "none");
}
