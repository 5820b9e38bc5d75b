// SPDX-License-Identifier: Apache-2.0
// com.microsoft's GreedySearch and Sampling for decoders like GPT-2, as loops around the decoder's graph. The graph's
// inputs are ids, positions, a mask and pasts [2, batch, heads, tokens, size]; its outputs are the logits and the pasts
// with the new tokens. BeamSearch (beams.cpp) uses the same functions.
#include "frontends/onnx/microsoft/generation.h"
#include "frontends/common/indexing.h"
#include "frontends/common/selection.h"

#include "frontends/onnx/import/importer.h"

namespace weft::onnx {
namespace {

constexpr int64_t max_ngram = 256;

}  // namespace

ScoreRules score_rules(Call& c, size_t least, size_t penalty, size_t allowed) {
  ScoreRules r{.ngram = c.integer("no_repeat_ngram_size", 0),
               .end = c.integer("eos_token_id"),
               .penalty = {},
               .least = {},
               .allowed = {}};
  if (r.ngram < 0 || r.ngram > max_ngram)
    c.unsupported(cat("with no_repeat_ngram_size ", r.ngram, " is not supported: at most ", max_ngram));
  auto scalar_of = [&](size_t i, DType type) { return reshape(convert(arg(c, i), type), {}).value; };
  if (c.has_input(penalty)) r.penalty = scalar_of(penalty, DType::f32);
  if (c.has_input(least)) r.least = scalar_of(least, DType::i64);
  if (c.has_input(allowed)) r.allowed = arg(c, allowed) > 0;
  return r;
}

/// Returns bool[batch, vocabulary], true for the tokens of ids[batch, n] for which `counts` is true.
static Expr marked(const Builder& b, Expr ids, Expr counts, const Dim& vocabulary) {
  Dim batch = ids.dims()[0];
  Expr none = full(b, DType::i64, {batch, vocabulary + 1}, 0);
  Expr place = select(counts, convert(ids, DType::i64), scalar(b, vocabulary));
  Expr one = full(b, DType::i64, place.dims(), 1);
  Expr all = scatter_elements(none, place, one, 1);
  return slice(all, 1, 0, vocabulary) > 0;
}

/// Returns the tokens that would repeat an n-gram of tokens[batch, length], as bool[batch, vocabulary].
static Expr repeating(const Builder& b, Expr tokens, int64_t n, const Dim& vocabulary) {
  Dim length = tokens.dims()[1], runs = max(length - (n - 1), 0);
  auto part = [&](int64_t j) { return slice(tokens, 1, j, runs); };
  Expr same = equal(part(0), part(0));
  for (int64_t j = 0; j + 1 < n; ++j) {
    Dim at = max(length - (n - 1) + j, 0);
    same = same & equal(part(j), slice(tokens, 1, at, 1));
  }
  return marked(b, part(n - 1), same, vocabulary);
}

/// Returns the scores[batch, vocabulary] of the token after ids[batch, n], with -inf for tokens that repeat an n-gram.
static Values repeat_block(Call& c) {
  c.expect_ranks({{0, 2}, {1, 2}});
  int64_t n = c.integer("ngram_size");
  if (n < 1 || n > max_ngram) c.fail("E145", cat("ngram_size must be in [1, ", max_ngram, "], is ", n));
  Expr scores = arg(c, 1);
  Expr banned = repeating(c, arg(c, 0), n, scores.dims()[1]);
  return {select(banned, -std::numeric_limits<double>::infinity(), scores)};
}

Expr ruled(const Builder& b, const ScoreRules& r, Expr scores, Expr tokens) {
  Dim vocabulary = scores.dims()[1], length = tokens.dims()[1];
  Expr always = equal(tokens, tokens);
  if (r.penalty) {
    Expr p = inside(b, r.penalty), lowered = select(scores < 0, scores * p, scores / p);
    scores = select(marked(b, tokens, always, vocabulary), lowered, scores);
  }
  if (r.ngram > 0) scores = select(repeating(b, tokens, r.ngram, vocabulary), lowest_score, scores);
  if (r.allowed) scores = select(along(inside(b, r.allowed), 1, 2), scores, lowest_score);
  if (r.least) {
    Expr is_short = scalar(b, length) < inside(b, r.least);
    Expr ends = equal(along(iota(b, vocabulary), 1, 2), static_cast<double>(r.end));
    scores = select(is_short & ends, lowest_score, scores);
  }
  return scores;
}

Values run_graph(Call& c, const Builder& b, const Graph& graph, const Values& inputs, size_t least) {
  if (inputs.size() != graph.inputs.size() || graph.outputs.size() < least)
    b.fail("E158", cat("has a graph '", printable(graph.name), "' with ", graph.inputs.size(), " inputs and ",
                       graph.outputs.size(), " outputs where ", inputs.size(), " and ", least, " belong"));
  Scope scope = c.scope().inner(b.body());
  for (size_t i = 0; i < inputs.size(); ++i) scope.values[graph.inputs[i].name] = inputs[i];
  Values results = c.importer().body(graph, scope);
  if (!scope.failed.empty()) b.fail("E158", cat("has a faulty graph '", printable(graph.name), "'"));
  return results;
}

Expr last_scores(const Builder& b, Value all) {
  if (all.rank() != 3) b.fail("E158", cat("has a graph that gives ", all.type(), " for its scores"));
  return convert(row_at({&b, all}, 1, all.dims()[1] - 1), DType::f32);
}

Value empty_past(Call& c, const ValueInfo& input, const Dim& rows, int64_t row_axis, int64_t token_axis, int64_t rank) {
  const auto& declared = input.type.dims;
  Dims dims;
  for (int64_t a = 0; declared && std::ssize(*declared) == rank && a < rank; ++a) {
    auto size = (*declared)[a].value;
    if (a == row_axis || a == token_axis) dims.push_back(a == row_axis ? rows : Dim(0));
    else if (size) dims.push_back(*size);
  }
  if (std::ssize(dims) != rank)
    c.unsupported(cat("needs the heads of the decoder's '", printable(input.name), "' as numbers"));
  return full(c, input.type.element.value_or(DType::f32), dims, 0);
}

void expect_room(Call& c, const Dim& given, const Dim& most) {
  GuardCollector guards(c.module());
  require_less_equal(given + 1, most, cat(c.node().op_type, ": the prompt and max_length"));
}

Expr repeated(Expr x, int64_t count) {
  Dims dims = x.dims(), apart = dims, whole = dims;
  dims[0] = dims[0] * Dim(count);
  apart.insert(apart.begin() + 1, 1);
  whole.insert(whole.begin() + 1, count);
  return reshape(broadcast(reshape(x, apart), whole), dims);
}

static Decoded decoded(Call& c, const Builder& b, const Graph& graph, const Values& inputs) {
  size_t pasts = inputs.size() - 3;
  Values results = run_graph(c, b, graph, inputs, 1 + pasts);
  return {last_scores(b, results[0]),
          Values(results.begin() + 1, results.begin() + 1 + static_cast<std::ptrdiff_t>(pasts))};
}

Generator decoder_only(Call& c, Expr ids, Value given_mask, double pad) {
  const Graph &decoder = c.graph("decoder"), &first_decoder = c.has("init_decoder") ? c.graph("init_decoder") : decoder;
  Dim rows = ids.dims()[0], given = ids.dims()[1];
  Expr mask = given_mask ? Expr{&c, given_mask}
                         : select(equal(ids, pad), full(c, DType::i32, {}, 0), full(c, DType::i32, {}, 1));
  Expr seen = running(ReduceFn::sum, mask, 1);
  Values inputs = {ids, select(mask > 0, seen - 1.0, 0), mask};
  for (size_t i = 3; i < decoder.inputs.size(); ++i) inputs.push_back(empty_past(c, decoder.inputs[i], rows, 1, 3, 5));
  Value lengths = slice(seen, 1, given - 1, 1), shown = mask;
  auto next = [=, &c, &decoder](const Builder& b, Expr token, Expr, const Dim& trip, const Values& pasts) {
    Expr position = inside(b, lengths) + scalar(b, trip, DType::i32);
    Values in = {token, position, concat(b, {inside(b, shown), full(b, DType::i32, {rows, trip + 1}, 1)}, 1)};
    in.insert(in.end(), pasts.begin(), pasts.end());
    return decoded(c, b, decoder, in);
  };
  return {.tokens = ids, .first = decoded(c, c, first_decoder, inputs), .row_axis = 1, .next = next};
}

namespace {

Expr best_of(const Builder& b, Expr scores) {
  return convert(Expr{&b, b.emit(ArgReduce{.axis = 1}, {scores})}, DType::i32);  // [batch, 1]
}

/// A rule that chooses a token for each row of scores[batch, vocabulary], i32[batch, 1], and may update `state`.
struct Choice {
  std::function<Expr(const Builder& b, Expr scores, Values& state)> choose;
  Values state = {};
};

void expect_decoder_only(Call& c) {
  if (int64_t kind = c.integer("model_type", 0); kind != 0)
    c.unsupported(cat("with model_type ", kind, " is not supported: 0 is, a decoder like GPT-2"));
}

/// Generates one sequence for each row of the batch.
Values token_search(Call& c, const Choice& choice) {
  c.expect_ranks({{0, 2}, {4, 1}, {5, 2}, {6, 2}});
  expect_decoder_only(c);
  c.ignore("vocab_size"), c.ignore("decoder_start_token_id");
  auto pad = static_cast<double>(c.integer("pad_token_id"));
  ScoreRules rules = score_rules(c, 2, 3, 4);
  Expr ids = arg(c, 0);
  Dim batch = ids.dims()[0], given = ids.dims()[1], most = c.size(1, 1);
  expect_room(c, given, most);
  Generator g = decoder_only(c, ids, c.has_input(6) ? convert(arg(c, 6), DType::i32).value : Value{}, pad);
  Expr scores = ruled(c, rules, g.first.scores, ids);
  if (c.has_input(5)) scores = select(arg(c, 5) > 0, scores, lowest_score);
  auto chosen = [&](Expr next, Expr done) {
    done = done | equal(next, static_cast<double>(rules.end));
    return std::pair(select(done, pad, next), done);
  };
  Values state = choice.state;
  auto [token, done] = chosen(choice.choose(c, scores, state), full(c, DType::boolean, {batch, 1}, 0));
  Pad room{.before = Dims(2, 0), .after = {0, most - given - 1}};
  Expr tokens{&c, c.emit(room, {concat(c, {ids, token}, 1), number(c, DType::i32, pad)})};
  // The carried values: all tokens [batch, most], the newest token, true for rows that have ended, `state`, the pasts.
  Values carried = {tokens, token, done};
  carried.insert(carried.end(), state.begin(), state.end());
  auto pasts = std::ssize(carried);
  carried.insert(carried.end(), g.first.pasts.begin(), g.first.pasts.end());
  Values y = loop_while(c, most - given - 1, carried, 0, [&](const Builder& b, const Dim& trip, const Values& now) {
    Dim length = given + 1 + trip;
    Expr all{&b, now[0]}, so_far = slice(all, 1, 0, length);
    Decoded step = g.next(b, {&b, now[1]}, so_far, trip, Values(now.begin() + pasts, now.end()));
    Values moved(now.begin() + 3, now.begin() + pasts);
    auto [next, is_done] = chosen(choice.choose(b, ruled(b, rules, step.scores, so_far), moved), {&b, now[2]});
    Expr here = equal(along(iota(b, most), 1, 2), scalar(b, length));
    Expr goes_on = !(reduce(ReduceFn::min, convert(is_done, DType::i32), {0, 1}, false) > 0);
    Values results = {goes_on, select(here, next, all), next, is_done};
    results.insert(results.end(), moved.begin(), moved.end());
    results.insert(results.end(), step.pasts.begin(), step.pasts.end());
    return results;
  });
  return {y[0]};
}

Values greedy_search(Call& c) {
  return token_search(c, {.choose = [](const Builder& b, Expr scores, Values&) { return best_of(b, scores); }});
}

// --- Sampling --------------------------------------------------------------------------------------------------------

/// The parameters of sampling; `presence` is a value of the module around the loop, i32[batch, vocabulary] or null.
struct SamplingRules {
  double temperature, top_p, filter, presence_penalty;
  int64_t least;
  bool takes_from_the_top;
  Value presence;
};

/// Returns one number in [0, 1) for each of `count` rows, f64[count, 1], computed like
/// std::uniform_real_distribution<double> from two numbers of std::minstd_rand0 (Lewis, Goodman and Miller 1969: s =
/// 16807 s mod (2^31 - 1)). onnxruntime uses this generator, so the same seed gives the same tokens.
Expr random_rows(const Builder& b, const Dim& count, Value& state) {
  constexpr double modulus = 2147483647, range = modulus - 1;
  Values y = loop_over(b, count, {state}, 1, [&](const Builder& i, const Dim&, const Values& carried) {
    auto next = [&](Expr s) { return floor_mod(s * 16807.0, modulus); };
    auto part = [&](Expr s) { return convert(s - 1.0, DType::f64); };
    Expr low = next({&i, carried[0]}), high = next(low);
    return Values{high, reshape((part(low) + part(high) * range) * (1 / (range * range)), {1})};
  });
  state = y[0];
  return {&b, y[1]};
}

/// Top-p sampling: replaces the scores of the least likely tokens, which have a total probability of at most 1 - top_p,
/// by `filter`; keeps at least the `least` likeliest tokens. With takes_from_the_top, keeps the likeliest tokens up to
/// the first total probability above top_p, and replaces the scores of all others.
Expr filtered(const Builder& b, const SamplingRules& r, Expr scores) {
  Dims dims = scores.dims();
  Dim vocabulary = dims[1];
  Values sorted = b.emit_all(TopK{.k = vocabulary, .axis = 1, .largest = r.takes_from_the_top}, {scores});
  Expr shares{&b, b.emit(Softmax{.axis = 1}, {sorted[0]})};
  Expr sums = running(ReduceFn::sum, shares, 1);
  Expr place = broadcast(along(iota(b, vocabulary), 1, 2), dims), gone = place < 0.0;
  if (r.takes_from_the_top) {
    Expr before = concat(b, {full(b, DType::f32, {dims[0], 1}, 0), slice(sums, 1, 0, vocabulary - 1)}, 1);
    gone = (place > 0.0) & (before > r.top_p);
  } else {
    Expr may_go = place < scalar(b, vocabulary - r.least);
    gone = (equal(place, 0.0) | may_go) & (sums <= 1 - r.top_p);
  }
  Expr kept = select(gone, r.filter, {&b, sorted[0]});
  return {&b, b.emit(ScatterElements{.axis = 1}, {scores, sorted[1], kept})};
}

/// Samples a token from the softmax of the filtered scores: the first token at which the running sum of exp(score)
/// exceeds a random share of the total.
Expr sampled(const Builder& b, const SamplingRules& r, Expr scores, Values& state) {
  if (r.temperature > 0 && r.temperature != 1) scores = scores / r.temperature;
  if (r.presence) scores = scores - convert(inside(b, r.presence), DType::f32) * r.presence_penalty;
  scores = convert(filtered(b, r, scores), DType::f64);
  Expr shares = exp(scores - reduce(ReduceFn::max, scores, {1}));
  Dims dims = shares.dims();
  Expr sums = running(ReduceFn::sum, shares, 1);
  Expr at = random_rows(b, dims[0], state[0]) * slice(sums, 1, dims[1] - 1, 1);
  Expr found = reduce(ReduceFn::sum, convert(sums <= at, DType::i64), {1});
  return convert(min(found, scalar(b, dims[1] - 1)), DType::i32);
}

Values sampling(Call& c) {
  c.expect_ranks({{7, 2}, {8, 1}});
  if (c.wants_output(1)) c.unsupported("with output 1 (filtered_logits) is not supported");
  SamplingRules r{.temperature = c.number("temperature", 1),
                  .top_p = c.number("top_p", 0),
                  .filter = c.number("filter_value", -1e20),
                  .presence_penalty = c.number("presence_penalty", 0),
                  .least = c.integer("min_tokens_to_keep", 0),
                  .takes_from_the_top = c.integer("custom", 0) != 0,
                  .presence = {}};
  if (r.least < 0) c.fail("E145", cat("min_tokens_to_keep must be >=0, is ", r.least));
  if (c.has_input(7) && r.presence_penalty != 0) r.presence = arg(c, 7);
  // A seed of 0 becomes 1, as in std::minstd_rand0, where a state of 0 would stay 0.
  Expr seed = c.has_input(8) ? convert(reshape(arg(c, 8), {}), DType::i64) : number(c, DType::i64, 0);
  Expr start = floor_mod(seed, 2147483647.0);
  auto choose = [&](const Builder& b, Expr scores, Values& state) { return sampled(b, r, scores, state); };
  return token_search(c, {.choose = choose, .state = {select(equal(start, 0.0), 1.0, start)}});
}

constexpr Operator microsoft_generation_table[] = {
    {"com.microsoft", "NGramRepeatBlock", repeat_block},
    {"com.microsoft", "GreedySearch", greedy_search, "decoders like GPT-2 (model_type 0)"},
    {"com.microsoft", "Sampling", sampling, "decoders like GPT-2 (model_type 0); no output 1 (filtered_logits)"},
};

}  // namespace

std::span<const Operator> microsoft_generation_operators() { return microsoft_generation_table; }

}  // namespace weft::onnx
