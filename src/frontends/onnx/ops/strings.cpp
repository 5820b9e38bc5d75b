// SPDX-License-Identifier: Apache-2.0
// Imports operators on strings. Operators that read characters call host functions (ops/host.h).
#include <algorithm>
#include <array>

#include "frontends/onnx/import/expr.h"
#include "ops/host.h"
#include "ops/indexed.h"
#include "ops/reduce.h"

namespace weft::onnx {
namespace {

Expr text(Call& c, size_t i) {
  Expr x = arg(c, i);
  if (x.dtype() != DType::string) c.fail("E141", cat("needs strings as input ", i, ", has ", x.value.type()));
  return x;
}

Values string_concat(Call& c) {
  Expr x = text(c, 0), y = text(c, 1);
  Dims dims = broadcast_dims(std::array{x.dims(), y.dims()}, "StringConcat");
  HostOp op{.fn = HostFn::concat_text, .types = {Shape{DType::string, dims}}};
  return {host(c.module(), op, {broadcast(x, dims), broadcast(y, dims)})};
}

Values string_split(Call& c) {
  Expr x = text(c, 0);
  Type pieces = as_element(x.value.type());
  pieces.shape.dims.push_back(placeholder(any_size));
  HostOp op{.fn = HostFn::split_text,
            .numbers = {c.integer("maxsplit", -1)},
            .strings = {c.text("delimiter", "")},
            .types = {Type::optional(pieces), Shape{DType::i64, x.dims()}}};
  auto results = host_all(c.module(), op, {x});
  return {item_of(c.module(), results[0], 0), results[1]};
}

Values string_normalizer(Call& c) {
  Expr x = text(c, 0);
  constexpr std::array<std::string_view, 3> cases = {"NONE", "LOWER", "UPPER"};
  std::string wanted = c.text("case_change_action", "NONE");
  auto found = std::ranges::find(cases, wanted);
  if (found == cases.end())
    c.fail("E145", cat("case_change_action '", printable(wanted), "' is not NONE, LOWER or UPPER"));
  c.ignore("locale");  // letters change case by the rules of Unicode in every locale
  bool fits = x.rank() == 1 || (x.rank() == 2 && known_equal(x.dims()[0], 1));
  if (!fits) c.fail("E140", cat("needs strings [n] or [1, n], has ", x.value.type()));
  auto stopwords = c.strings("stopwords");
  Type left = as_element(x.value.type());
  left.shape.dims.back() = placeholder(any_size);
  HostOp op{.fn = HostFn::normalize_text,
            .numbers = {found - cases.begin(), c.integer("is_case_sensitive", 0)},
            .strings = stopwords,
            .types = {Type::optional(left)}};
  return {item_of(c.module(), host(c.module(), op, {x}), 0)};
}

/// Splits each string into a row of tokens. Patterns match either tokens or the text between them.
Values tokenizer(Call& c) {
  Expr x = text(c, 0);
  auto separators = c.strings("separators");
  bool by_token = c.has("tokenexp");
  if (by_token != separators.empty()) c.fail("E142", "needs either separators or tokenexp");
  std::vector<std::string> strings = {c.text("pad_value")};
  if (by_token) strings.push_back(c.text("tokenexp"));
  strings.insert(strings.end(), separators.begin(), separators.end());
  for (size_t i = 1; i < strings.size(); ++i) check_text_pattern(strings[i]);
  Type tokens = as_element(x.value.type());
  tokens.shape.dims.push_back(placeholder(any_size));
  HostOp op{.fn = HostFn::split_text,
            .numbers = {-1, c.integer("mark"), c.integer("mincharnum"), by_token},
            .strings = strings,
            .types = {Type::optional(tokens), Shape{DType::i64, x.dims()}}};
  return {item_of(c.module(), host(c.module(), op, {x}), 0)};
}

Values regex_full_match(Call& c) {
  Expr x = text(c, 0);
  HostOp op{.fn = HostFn::match_text, .strings = {c.text("pattern")}, .types = {Shape{DType::boolean, x.dims()}}};
  check_text_pattern(op.strings[0]);
  return {host(c.module(), op, {x})};
}

// --- TfIdfVectorizer -------------------------------------------------------------------------------------------------

constexpr int64_t max_columns = 1 << 22, max_skipped = 1000;

/// The n-grams of one length in the pool, and the result's column for the count of each n-gram.
struct NGrams {
  int64_t length = 0;
  std::vector<int64_t> first;  // the index of each n-gram's first item in the pool
  std::vector<int64_t> columns;
};

std::vector<NGrams> ngrams_of(Call& c, int64_t pool_size) {
  auto starts = c.integers("ngram_counts"), columns = c.integers("ngram_indexes");
  std::vector<NGrams> all;
  size_t next = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    int64_t length = static_cast<int64_t>(i) + 1, end = i + 1 < starts.size() ? starts[i + 1] : pool_size;
    if (starts[i] < 0 || end < starts[i] || end > pool_size || (end - starts[i]) % length)
      c.fail("E151", cat("has ", pool_size, " items in its pool, which ngram_counts ", starts, " do not share out"));
    NGrams grams{.length = length, .first = {}, .columns = {}};
    for (int64_t at = starts[i]; at < end; at += length) {
      if (next >= columns.size()) c.fail("E151", cat("has ", columns.size(), " ngram_indexes, which are too few"));
      grams.first.push_back(at);
      grams.columns.push_back(columns[next++]);
    }
    all.push_back(std::move(grams));
  }
  return all;
}

/// Returns item `k` of each n-gram, from the pool.
Expr pool_items(Call& c, Value pool, const NGrams& grams, int64_t k) {
  std::vector<int64_t> at;
  for (int64_t first : grams.first) at.push_back(first + k);
  return {&c, c.emit(Gather{.axis = 0}, {pool, constant(c.module(), make_i64_tensor(at))})};
}

/// Returns the number of occurrences of each n-gram in x [rows, length], with items `step` apart: [rows, n-grams].
Expr count_of(Call& c, Expr x, Value pool, const NGrams& grams, int64_t step) {
  int64_t span = (grams.length - 1) * step;
  Dim places = max(x.dims()[1] - span, 0);
  std::optional<Expr> all;
  for (int64_t k = 0; k < grams.length; ++k) {
    Dim start = known_less_equal(span, x.dims()[1]) ? Dim(k * step) : min(k * step, x.dims()[1]);
    Expr window = reshape(slice(x, 1, start, places), {x.dims()[0], places, 1});
    Expr same = equal(window, pool_items(c, pool, grams, k));
    all = all ? *all & same : same;
  }
  return reduce(ReduceFn::sum, convert(*all, DType::f32), {1}, false);
}

/// Counts the n-grams of one length, over all distances of their items.
Expr counts(Call& c, Expr x, Value pool, const NGrams& grams, int64_t max_skipped) {
  Expr total = count_of(c, x, pool, grams, 1);
  if (grams.length == 1) return total;  // unigrams have no distance between items
  for (int64_t skipped = 1; skipped <= max_skipped; ++skipped) total = total + count_of(c, x, pool, grams, skipped + 1);
  return total;
}

Value pool_of(Call& c, DType type) {
  bool is_text = type == DType::string;
  auto strings = c.strings("pool_strings");
  auto numbers = c.integers("pool_int64s");
  if (is_text ? strings.empty() : numbers.empty())
    c.fail("E142", cat("needs ", is_text ? "pool_strings" : "pool_int64s", " for ", type));
  if (is_text) return constant(c.module(), make_string_tensor({std::ssize(strings)}, strings));
  return constant(c.module(), make_i64_tensor(numbers));
}

/// Imports TfIdfVectorizer: compares every n-gram of the pool with every position of x and sums the matches.
Values tfidf_vectorizer(Call& c) {
  Expr x = arg(c, 0);
  if (x.dtype() != DType::string) x = convert(x, DType::i64);
  Value pool = pool_of(c, x.dtype());
  int64_t least = c.integer("min_gram_length"), most = c.integer("max_gram_length"),
          skipped = c.integer("max_skip_count");
  bool is_row = x.rank() < 2;
  if (x.rank() > 2) c.fail("E140", cat("needs rank 1 or 2, has ", x.value.type()));
  if (is_row) x = reshape(x, {1, x.value.shape().elements()});
  int64_t width = 0;
  for (int64_t column : c.integers("ngram_indexes")) {
    if (column < 0 || column >= max_columns) c.fail("E145", cat("has ngram_indexes ", column, " of ", max_columns));
    width = std::max(width, column + 1);
  }
  if (skipped > max_skipped) c.unsupported(cat("takes max_skip_count up to ", max_skipped, ", has ", skipped));
  std::vector<double> weights = c.floats("weights"), weight_of(width, 1);
  // For each result column: the index of its counts in the concatenated `parts`, or 0, the column of zeros.
  std::vector<int64_t> counted(width, 0), seen(width, 0);
  Values parts = {full(c, DType::f32, {x.dims()[0], 1}, 0)};
  size_t entry = 0;
  int64_t place = 1;
  for (const NGrams& grams : ngrams_of(c, pool.dims()[0].value())) {
    bool is_counted = grams.length >= least && grams.length <= most && !grams.columns.empty();
    for (int64_t number : grams.columns) {
      if (seen[number]++) c.unsupported(cat("with two n-grams in column ", number, " is not supported"));
      if (is_counted) counted[number] = place++;
      if (entry < weights.size()) weight_of[number] = weights[entry];
      ++entry;
    }
    if (is_counted) parts.push_back(counts(c, x, pool, grams, skipped));
  }
  Expr y{&c, c.emit(Gather{.axis = 1}, {concat(c, parts, 1), constant(c.module(), make_i64_tensor(counted))})};
  std::string mode = c.text("mode");
  Expr weight{&c, constant(c.module(), make_tensor(DType::f32, {width}, std::span<const double>(weight_of)))};
  if (mode == "IDF") y = select(y > 0, broadcast(weight, y.dims()), 0);
  else if (mode == "TFIDF") y = y * weight;
  else if (mode != "TF") c.fail("E145", cat("mode '", printable(mode), "' is not TF, IDF or TFIDF"));
  return {is_row ? reshape(y, {width}) : y};
}

constexpr Operator strings_table[] = {
    {"com.microsoft", "Tokenizer", tokenizer}, {"", "RegexFullMatch", regex_full_match},
    {"", "StringConcat", string_concat},       {"", "StringNormalizer", string_normalizer},
    {"", "StringSplit", string_split},         {"", "TfIdfVectorizer", tfidf_vectorizer},
};

}  // namespace

std::span<const Operator> text_operators() { return strings_table; }

}  // namespace weft::onnx
