// SPDX-License-Identifier: Apache-2.0
// com.microsoft's GreedySearch, Sampling and BeamSearch for decoders like GPT-2, as loops around the decoder's graph:
// its inputs are ids, positions, a mask and pasts [2, batch, heads, tokens, size], its outputs the logits and the pasts
// with the new tokens.
#include <limits>

#include "base/numeric.h"
#include "frontends/onnx/importer.h"
#include "frontends/onnx/loops.h"
#include "ops/indexed.h"

namespace weft::onnx {
namespace {

constexpr int64_t most_ngram = 256;
constexpr double lowest = std::numeric_limits<float>::lowest();  // what onnxruntime gives a token that is not allowed

/// A run of the decoder for `ids`[batch, n] in the module of `b`.
struct Decoded {
  Expr logits;  ///< of the last token, [batch, vocabulary], f32
  Values pasts;
};

Decoded decode(Call& b, const Graph& graph, Values inputs) {
  if (inputs.size() != graph.inputs.size() || graph.outputs.size() < 1 + inputs.size() - 3)
    b.fail("E158", cat("has a decoder with ", graph.inputs.size(), " inputs and ", graph.outputs.size(), " outputs"));
  Scope scope = b.scope().inner(b.module());
  for (size_t i = 0; i < inputs.size(); ++i) scope.values[graph.inputs[i].name] = inputs[i];
  Values results = b.importer().body(graph, scope);
  if (!scope.failed.empty()) b.fail("E158", "has a faulty decoder");
  Expr all{&b, results[0]};  // [batch, n, vocabulary]
  if (all.rank() != 3) b.fail("E158", cat("has a decoder that gives ", all.value.shape(), " for its scores"));
  Dim last = all.dims()[1] - 1;
  Expr logits = convert(row_at(all, 1, last), DType::f32);
  results.erase(results.begin());
  results.resize(inputs.size() - 3);
  return {logits, results};
}

/// The past that the decoder's input declares, [2, batch, heads, tokens, size], with no tokens yet.
Value empty_past(Call& c, const ValueInfo& input, const Dim& batch) {
  const auto& dims = input.type.dims;
  bool is_known = dims && dims->size() == 5 && (*dims)[2].value && (*dims)[4].value;
  if (!is_known) c.unsupported(cat("needs the heads of the decoder's '", printable(input.name), "' as numbers"));
  return full(c, input.type.element.value_or(DType::f32), {2, batch, *(*dims)[2].value, 0, *(*dims)[4].value}, 0);
}

/// What shapes the scores of the next token; values of the module around the loop.
struct Rules {
  int64_t ngram, end;
  Value penalty, least, allowed;  ///< f32[], i64[], bool[vocabulary]; null: none
};

Rules rules_of(Call& c, size_t least, size_t penalty, size_t allowed) {
  Rules r{.ngram = c.integer("no_repeat_ngram_size", 0),
          .end = c.integer("eos_token_id"),
          .penalty = {},
          .least = {},
          .allowed = {}};
  if (r.ngram < 0 || r.ngram > most_ngram)
    c.unsupported(cat("with no_repeat_ngram_size ", r.ngram, " is not supported: at most ", most_ngram));
  auto scalar_of = [&](size_t i, DType type) { return reshape(convert(arg(c, i), type), {}).value; };
  if (c.has_input(penalty)) r.penalty = scalar_of(penalty, DType::f32);
  if (c.has_input(least)) r.least = scalar_of(least, DType::i64);
  if (c.has_input(allowed)) r.allowed = arg(c, allowed) > 0;
  return r;
}

/// True where a token of `ids`[batch, n] that `counts` is: [batch, vocabulary].
Expr marked(Call& b, Expr ids, Expr counts, const Dim& vocabulary) {
  Dim batch = ids.dims()[0];
  Expr none = full(b, DType::i64, {batch, vocabulary + 1}, 0);
  Expr place = select(counts, convert(ids, DType::i64), reshape(sizes(b, {vocabulary}), {}));
  Expr one = full(b, DType::i64, place.dims(), 1);
  Expr all{&b, b.emit(ScatterElements{.axis = 1}, {none, place, one})};
  return slice(all, 1, 0, vocabulary) > 0;
}

/// Tokens that would end a run of n tokens that the row has already: tokens[batch, length].
Expr repeating(Call& b, Expr tokens, int64_t n, const Dim& vocabulary) {
  Dim length = tokens.dims()[1], runs = max(length - (n - 1), 0);
  auto part = [&](int64_t j) { return slice(tokens, 1, j, runs); };
  Expr same = equal(part(0), part(0));
  for (int64_t j = 0; j + 1 < n; ++j) {
    Dim at = max(length - (n - 1) + j, 0);
    same = same & equal(part(j), slice(tokens, 1, at, 1));
  }
  return marked(b, part(n - 1), same, vocabulary);
}

/// scores[batch, vocabulary] of the token after ids[batch, n], without those that would repeat a run.
Values repeat_block(Call& c) {
  c.expect_ranks({{0, 2}, {1, 2}});
  int64_t n = c.integer("ngram_size");
  if (n < 1 || n > most_ngram) c.fail("E145", cat("ngram_size must be in [1, ", most_ngram, "], is ", n));
  Expr scores = arg(c, 1);
  Expr banned = repeating(c, arg(c, 0), n, scores.dims()[1]);
  return {select(banned, -std::numeric_limits<double>::infinity(), scores)};
}

/// The processed scores of the token after tokens[batch, length].
Expr ruled(Call& b, const Rules& r, Expr scores, Expr tokens) {
  Dim vocabulary = scores.dims()[1], length = tokens.dims()[1];
  Expr always = equal(tokens, tokens);
  if (r.penalty) {
    Expr p = inside(b, r.penalty), lowered = select(scores < 0, scores * p, scores / p);
    scores = select(marked(b, tokens, always, vocabulary), lowered, scores);
  }
  if (r.ngram > 0) scores = select(repeating(b, tokens, r.ngram, vocabulary), lowest, scores);
  if (r.allowed) scores = select(along(inside(b, r.allowed), 1, 2), scores, lowest);
  if (r.least) {
    Expr is_short = reshape(sizes(b, {length}), {}) < inside(b, r.least);
    Expr ends = equal(along(iota(b, vocabulary), 1, 2), static_cast<double>(r.end));
    scores = select(is_short & ends, lowest, scores);
  }
  return scores;
}

Expr best_of(Call& b, Expr scores) {
  return convert(Expr{&b, b.emit(ArgReduce{.axis = 1}, {scores})}, DType::i32);  // [batch, 1]
}

/// How one token for each row is chosen of scores[batch, vocabulary]: [batch, 1] of i32. `state` is carried from choice
/// to choice.
struct Choice {
  std::function<Expr(Call& b, Expr scores, Values& state)> choose;
  Values state = {};
};

void expect_decoder_only(Call& c) {
  if (int64_t kind = c.integer("model_type", 0); kind != 0)
    c.unsupported(cat("with model_type ", kind, " is not supported: 0 is, a decoder like GPT-2 (1 is T5, 2 Whisper)"));
  if (c.has("encoder")) c.unsupported("with attribute 'encoder' is not supported: only a decoder like GPT-2 is");
}

/// One sequence for each row of the batch.
Values search(Call& c, const Choice& choice) {
  c.expect_ranks({{0, 2}, {4, 1}, {5, 2}, {6, 2}});
  expect_decoder_only(c);
  c.ignore("vocab_size"), c.ignore("decoder_start_token_id");
  const Graph &decoder = c.graph("decoder"), &first_decoder = c.has("init_decoder") ? c.graph("init_decoder") : decoder;
  auto pad = static_cast<double>(c.integer("pad_token_id"));
  Rules rules = rules_of(c, 2, 3, 4);
  Expr ids = arg(c, 0);
  Dim batch = ids.dims()[0], given = ids.dims()[1], most = c.size(1, 1);
  {
    GuardCollector guards(c.module());
    require_less_equal(given + 1, most, cat(c.node().op_type, ": the prompt and max_length"));
  }
  Expr mask = c.has_input(6) ? convert(arg(c, 6), DType::i32)
                             : select(equal(ids, pad), full(c, DType::i32, {}, 0), full(c, DType::i32, {}, 1));
  Expr seen{&c, c.emit(Scan{.fn = ReduceFn::sum, .axis = 1}, {mask})};
  Values inputs = {ids, select(mask > 0, seen - 1.0, 0), mask};
  for (size_t i = 3; i < decoder.inputs.size(); ++i) inputs.push_back(empty_past(c, decoder.inputs[i], batch));
  Decoded first = decode(c, first_decoder, inputs);
  Expr scores = ruled(c, rules, first.logits, ids);
  if (c.has_input(5)) scores = select(arg(c, 5) > 0, scores, lowest);
  // Tokens [batch, most] so far, whether a row has ended, and the token to be decoded next.
  auto chosen = [&](Expr next, Expr done) {
    done = done | equal(next, static_cast<double>(rules.end));
    return std::pair(select(done, pad, next), done);
  };
  Values state = choice.state;
  auto [token, done] = chosen(choice.choose(c, scores, state), full(c, DType::boolean, {batch, 1}, 0));
  Pad room{.before = Dims(2, 0), .after = {0, most - given - 1}};
  Expr tokens{&c, c.emit(room, {concat(c, {ids, token}, 1), number(c, DType::i32, pad)})};
  Value lengths = slice(seen, 1, given - 1, 1);
  Values carried = {tokens, token, done};
  carried.insert(carried.end(), state.begin(), state.end());
  auto pasts = std::ssize(carried);
  carried.insert(carried.end(), first.pasts.begin(), first.pasts.end());
  Values y = loop_while(c, most - given - 1, carried, 0, [&](Call& b, const Dim& trip, const Values& now) {
    Dim length = given + 1 + trip;
    Expr position = inside(b, lengths) + convert(reshape(sizes(b, {trip}), {}), DType::i32);
    Expr ones = full(b, DType::i32, {batch, trip + 1}, 1);
    Values in = {now[1], position, concat(b, {inside(b, mask), ones}, 1)};
    in.insert(in.end(), now.begin() + pasts, now.end());
    Decoded step = decode(b, decoder, in);
    Expr all{&b, now[0]};
    Expr next_scores = ruled(b, rules, step.logits, slice(all, 1, 0, length));
    Values moved(now.begin() + 3, now.begin() + pasts);
    auto [next, is_done] = chosen(choice.choose(b, next_scores, moved), {&b, now[2]});
    Expr here = equal(along(iota(b, most), 1, 2), reshape(sizes(b, {length}), {}));
    Expr goes_on = !(reduce(ReduceFn::min, convert(is_done, DType::i32), {0, 1}, false) > 0);
    Values results = {goes_on, select(here, next, all), next, is_done};
    results.insert(results.end(), moved.begin(), moved.end());
    results.insert(results.end(), step.pasts.begin(), step.pasts.end());
    return results;
  });
  return {y[0]};
}

Values greedy_search(Call& c) {
  return search(c, {.choose = [](Call& b, Expr scores, Values&) { return best_of(b, scores); }});
}

// --- Sampling --------------------------------------------------------------------------------------------------------

/// What sampling is asked for; `presence` is a value of the module around the loop, i32[batch, vocabulary] or null.
struct SamplingRules {
  double temperature, top_p, filter, presence_penalty;
  int64_t least;
  bool takes_from_the_top;
  Value presence;
};

/// One number in [0, 1) for each of `count` rows, f64[count, 1], as std::uniform_real_distribution<double> makes it of
/// two of std::minstd_rand0 (Lewis, Goodman and Miller 1969: s = 16807 s mod 2^31 - 1), which is what onnxruntime draws
/// with: the same seed gives the same tokens.
Expr random_rows(Call& b, const Dim& count, Value& state) {
  constexpr double modulus = 2147483647, range = modulus - 1;
  Values y = loop_over(b, count, {state}, 1, [&](Call& i, const Dim&, const Values& carried) {
    auto next = [&](Expr s) { return floor_mod(s * 16807.0, modulus); };
    auto part = [&](Expr s) { return convert(s - 1.0, DType::f64); };
    Expr low = next({&i, carried[0]}), high = next(low);
    return Values{high, reshape((part(low) + part(high) * range) * (1 / (range * range)), {1})};
  });
  state = y[0];
  return {&b, y[1]};
}

/// scores with `filter` in the place of those beyond top_p: the least likely ones that together have a share of at most
/// 1 - top_p, or all but the most likely ones that reach top_p.
Expr filtered(Call& b, const SamplingRules& r, Expr scores) {
  Dims dims = scores.dims();
  Dim vocabulary = dims[1];
  Values sorted = b.emit_all(TopK{.k = vocabulary, .axis = 1, .largest = r.takes_from_the_top}, {scores});
  Expr shares{&b, b.emit(Softmax{.axis = 1}, {sorted[0]})};
  Expr sums{&b, b.emit(Scan{.fn = ReduceFn::sum, .axis = 1}, {shares})};
  Expr place = broadcast(along(iota(b, vocabulary), 1, 2), dims), gone = place < 0.0;
  if (r.takes_from_the_top) {
    Expr before = concat(b, {full(b, DType::f32, {dims[0], 1}, 0), slice(sums, 1, 0, vocabulary - 1)}, 1);
    gone = (place > 0.0) & (before > r.top_p);
  } else {
    Expr may_go = place < reshape(sizes(b, {vocabulary - r.least}), {});
    gone = (equal(place, 0.0) | may_go) & (sums <= 1 - r.top_p);
  }
  Expr kept = select(gone, r.filter, {&b, sorted[0]});
  return {&b, b.emit(ScatterElements{.axis = 1}, {scores, sorted[1], kept})};
}

/// Where a random number falls among the sums of exp(score).
Expr sampled(Call& b, const SamplingRules& r, Expr scores, Values& state) {
  if (r.temperature > 0 && r.temperature != 1) scores = scores / r.temperature;
  if (r.presence) scores = scores - convert(inside(b, r.presence), DType::f32) * r.presence_penalty;
  scores = convert(filtered(b, r, scores), DType::f64);
  Expr shares = exp(scores - reduce(ReduceFn::max, scores, {1}));
  Dims dims = shares.dims();
  Expr sums{&b, b.emit(Scan{.fn = ReduceFn::sum, .axis = 1}, {shares})};
  Expr at = random_rows(b, dims[0], state[0]) * slice(sums, 1, dims[1] - 1, 1);
  Expr found = reduce(ReduceFn::sum, convert(sums <= at, DType::i64), {1});
  return convert(min(found, reshape(sizes(b, {dims[1] - 1}), {})), DType::i32);
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
  // A seed of 0 starts the sequence at 1.
  Expr seed = c.has_input(8) ? convert(reshape(arg(c, 8), {}), DType::i64) : number(c, DType::i64, 0);
  Expr start = floor_mod(seed, 2147483647.0);
  auto choose = [&](Call& b, Expr scores, Values& state) { return sampled(b, r, scores, state); };
  return search(c, {.choose = choose, .state = {select(equal(start, 0.0), 1.0, start)}});
}

// --- BeamSearch ------------------------------------------------------------------------------------------------------

/// What beam search is asked for; values of the module around the loop.
struct BeamRules {
  Rules rules;
  int64_t beams;
  double pad;
  bool stops_early;
  Dim batch, most;
  Value length_penalty;  ///< f32[]; null: 1
};

/// The beams and the finished sequences of each row of the batch, both `beams` many and best first. Scores of finished
/// ones are divided by length ^ penalty, -inf where there is none yet.
struct Beams {
  Expr tokens, scores;      ///< [batch, beams, most], [batch, beams]: sums of logarithms
  Expr done;                ///< [batch, 1]
  Expr ended, ended_score;  ///< [batch, beams, most], [batch, beams]
  Expr used;                ///< finished sequences, [batch, 1]

  Values values() const { return {tokens, scores, done, ended, ended_score, used}; }
  static constexpr size_t count = 6;
  static Beams of(Call& b, const Values& v) {
    auto at = [&](size_t i) { return Expr{&b, v[i]}; };
    return {at(0), at(1), at(2), at(3), at(4), at(5)};
  }
};

/// x[batch, n, ..] in the order of index[batch, k].
Expr reordered(Call& b, Expr x, Expr index) {
  Dims dims = x.dims(), flat = index.dims();
  flat.resize(dims.size(), 1);
  dims[1] = index.dims()[1];
  return {&b, b.emit(GatherElements{.axis = 1}, {x, broadcast(reshape(index, flat), dims)})};
}

Expr length_factor(Call& b, const BeamRules& r, const Dim& length) {
  Expr n = convert(reshape(sizes(b, {length}), {}), DType::f32);
  return r.length_penalty ? pow(n, inside(b, r.length_penalty)) : n;
}

/// The best of the finished sequences and of `fresh` ones with these scores.
void keep_best(Call& b, const BeamRules& r, Beams& beams, Expr fresh, Expr fresh_score) {
  Values top = b.emit_all(TopK{.k = r.beams, .axis = 1}, {concat(b, {beams.ended_score, fresh_score}, 1)});
  beams.ended_score = {&b, top[0]};
  beams.ended = reordered(b, {&b, concat(b, {beams.ended, fresh}, 1)}, {&b, top[1]});
}

/// One token more on each beam, after `length`. Gives the rows of the pasts in the order of the new beams, and their
/// tokens [batch * beams, 1].
std::pair<Expr, Expr> advance(Call& b, const BeamRules& r, Beams& beams, Expr scores, const Dim& length) {
  int64_t k = r.beams;
  Dim vocabulary = scores.dims()[1];
  Expr sums = reshape(scores, {r.batch, k, vocabulary}) + reshape(beams.scores, {r.batch, k, 1});
  Values top = b.emit_all(TopK{.k = 2 * k, .axis = 1}, {reshape(sums, {r.batch, vocabulary * Dim(k)})});
  Expr score{&b, top[0]}, place{&b, top[1]}, size = reshape(sizes(b, {vocabulary}), {});
  Expr beam = apply(Fn::div, place, size), token = place - beam * size;
  Expr ends = equal(token, static_cast<double>(r.rules.end)), goes_on = !beams.done;
  Expr factor = length_factor(b, r, length);
  // Sequences that end among the best k are finished.
  Expr finished = slice(ends, 1, 0, k) & goes_on;
  Expr finished_score = select(finished, slice(score, 1, 0, k) / factor, -std::numeric_limits<double>::infinity());
  keep_best(b, r, beams, reordered(b, beams.tokens, slice(beam, 1, 0, k)), finished_score);
  Expr added = reduce(ReduceFn::sum, convert(finished, DType::i64), {1});
  beams.used = min(beams.used + added, static_cast<double>(k));
  // The first k of the others go on.
  Expr order = along(iota(b, 2 * k), 1, 2);
  Expr rank = convert(select(ends, order + static_cast<double>(2 * k), order), DType::f32);
  Expr next{&b, b.emit_all(TopK{.k = k, .axis = 1, .largest = false}, {rank})[1]};
  Expr from = reordered(b, beam, next);
  Expr chosen = select(beams.done, r.pad, convert(reordered(b, token, next), DType::i32));
  Expr best = slice(score, 1, 0, 1) / factor, worst = slice(beams.ended_score, 1, k - 1, 1);
  Expr is_full = beams.used >= static_cast<double>(k);
  beams.done = beams.done | (r.stops_early ? is_full : is_full & (worst >= best));
  beams.scores = select(goes_on, reordered(b, score, next), 0);
  Expr here = equal(along(iota(b, r.most), 2, 3), reshape(sizes(b, {length}), {}));
  Expr column = reshape(chosen, {r.batch, k, 1});
  beams.tokens = select(here, column, reordered(b, beams.tokens, from));
  Expr row = from + along(iota(b, r.batch), 0, 2) * static_cast<double>(k);
  return {reshape(row, {r.batch * Dim(k)}), reshape(chosen, {r.batch * Dim(k), 1})};
}

Values beam_search(Call& c) {
  c.expect_ranks({{0, 2}, {7, 1}, {8, 2}, {9, 2}});
  expect_decoder_only(c);
  if (c.has_input(10))
    c.unsupported("with input 10 (decoder_input_ids) is not supported: only decoders of their own are");
  if (c.wants_output(2)) c.unsupported("with output 2 (scores of every token) is not supported");
  if (c.has_input(11) && c.number_input(11, "logits_processor") != 0)
    c.unsupported("with a logits_processor is not supported");
  c.ignore("vocab_size"), c.ignore("decoder_start_token_id");
  const Graph &decoder = c.graph("decoder"), &first_decoder = c.has("init_decoder") ? c.graph("init_decoder") : decoder;
  auto count = to_int64(c.number_input(3, "num_beams")), returned = to_int64(c.number_input(4, "num_return_sequences"));
  constexpr int64_t most_beams = 4096;
  if (count > most_beams) c.unsupported(cat("with ", count, " beams is not supported: at most ", most_beams));
  if (count < 1 || returned < 1 || returned > count)
    c.fail("E145", cat("num_beams and num_return_sequences must be >=1 in order, are ", count, " and ", returned));
  Expr given_ids = arg(c, 0);
  Dim given = given_ids.dims()[1];
  BeamRules r{.rules = rules_of(c, 2, 6, 7),
              .beams = count,
              .pad = static_cast<double>(c.integer("pad_token_id")),
              .stops_early = c.flag("early_stopping"),
              .batch = given_ids.dims()[0],
              .most = c.size(1, 1),
              .length_penalty = {}};
  if (c.has_input(5)) r.length_penalty = reshape(convert(arg(c, 5), DType::f32), {});
  {
    GuardCollector guards(c.module());
    require_less_equal(given + 1, r.most, "BeamSearch: the prompt and max_length");
  }
  Dim rows = r.batch * Dim(count);
  auto for_beams = [&](Expr x) {  // each row `count` times
    const Dims d = x.dims();
    return reshape(broadcast(reshape(x, {d[0], 1, d[1]}), {d[0], count, d[1]}), {rows, d[1]});
  };
  Expr ids = for_beams(given_ids);
  Expr mask = c.has_input(9) ? for_beams(convert(arg(c, 9), DType::i32))
                             : select(equal(ids, r.pad), full(c, DType::i32, {}, 0), full(c, DType::i32, {}, 1));
  Expr seen{&c, c.emit(Scan{.fn = ReduceFn::sum, .axis = 1}, {mask})};
  Values inputs = {ids, select(mask > 0, seen - 1.0, 0), mask};
  for (size_t i = 3; i < decoder.inputs.size(); ++i) inputs.push_back(empty_past(c, decoder.inputs[i], rows));
  Decoded first = decode(c, first_decoder, inputs);
  auto logarithms = [](Call& b, Expr x) { return Expr{&b, b.emit(Softmax{.axis = 1, .logarithm = true}, {x})}; };
  Expr scores = ruled(c, r.rules, logarithms(c, first.logits), ids);
  if (c.has_input(8)) scores = select(for_beams(arg(c, 8)) > 0, scores, lowest);
  Dims all = {r.batch, count, r.most}, each = {r.batch, count};
  Pad room{.before = Dims(2, 0), .after = {0, r.most - given}};
  Expr tokens = reshape(Expr{&c, c.emit(room, {ids, number(c, DType::i32, r.pad)})}, all);
  Expr is_first = equal(along(iota(c, count), 1, 2), 0);
  constexpr double never = -1e9;  // all beams begin alike: only the first counts
  Beams beams{.tokens = tokens,
              .scores = broadcast(select(is_first, full(c, DType::f32, {}, 0), full(c, DType::f32, {}, never)), each),
              .done = full(c, DType::boolean, {r.batch, 1}, 0),
              .ended = full(c, DType::i32, all, r.pad),
              .ended_score = full(c, DType::f32, each, -std::numeric_limits<double>::infinity()),
              .used = full(c, DType::i64, {r.batch, 1}, 0)};
  auto [order, token] = advance(c, r, beams, scores, given);
  auto kept = [](Call& b, const Values& pasts, Expr row) {
    Values list;
    for (Value past : pasts) list.push_back(b.emit(Gather{.axis = 1}, {past, row}));
    return list;
  };
  Value lengths = slice(seen, 1, given - 1, 1);
  Values carried = beams.values(), pasts = kept(c, first.pasts, order);
  carried.push_back(token);
  carried.insert(carried.end(), pasts.begin(), pasts.end());
  Values y = loop_while(c, r.most - given - 1, carried, 0, [&](Call& b, const Dim& trip, const Values& now) {
    Dim length = given + 1 + trip;
    Beams state = Beams::of(b, now);
    Expr position = inside(b, lengths) + convert(reshape(sizes(b, {trip}), {}), DType::i32);
    Values in = {now[Beams::count], position,
                 concat(b, {inside(b, mask), full(b, DType::i32, {rows, trip + 1}, 1)}, 1)};
    in.insert(in.end(), now.begin() + Beams::count + 1, now.end());
    Decoded step = decode(b, decoder, in);
    Expr so_far = slice(reshape(state.tokens, {rows, r.most}), 1, 0, length);
    auto [row, next] = advance(b, r, state, ruled(b, r.rules, logarithms(b, step.logits), so_far), length);
    Expr goes_on = !(reduce(ReduceFn::min, convert(state.done, DType::i32), {0, 1}, false) > 0);
    Values results = {goes_on}, values = state.values(), last = kept(b, step.pasts, row);
    results.insert(results.end(), values.begin(), values.end());
    results.push_back(next);
    results.insert(results.end(), last.begin(), last.end());
    return results;
  });
  Beams last = Beams::of(c, y);
  Expr final_score =
      select(last.done, -std::numeric_limits<double>::infinity(), last.scores / length_factor(c, r, r.most));
  keep_best(c, r, last, last.tokens, final_score);
  return {slice(last.ended, 1, 0, returned), slice(last.ended_score, 1, 0, returned)};
}

constexpr Operator table[] = {
    {"com.microsoft", "BeamSearch", beam_search,
     "decoders like GPT-2 (model_type 0); fixed numbers of beams and of sequences; no output 2, no logits_processor"},
    {"com.microsoft", "NGramRepeatBlock", repeat_block},
    {"com.microsoft", "GreedySearch", greedy_search, "decoders like GPT-2 (model_type 0)"},
    {"com.microsoft", "Sampling", sampling, "decoders like GPT-2 (model_type 0); no output 1 (filtered_logits)"},
};

}  // namespace

std::span<const Operator> microsoft_generation_operators() { return table; }

}  // namespace weft::onnx
