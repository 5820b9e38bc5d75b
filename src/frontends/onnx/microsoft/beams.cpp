// SPDX-License-Identifier: Apache-2.0
// Imports com.microsoft's BeamSearch as a loop around the decoder's graph: for decoders like GPT-2 (model_type 0) and
// for models with an encoder, like T5 (1) and Whisper (2).
#include <optional>

#include "base/numeric.h"
#include "frontends/common/indexing.h"
#include "frontends/common/selection.h"
#include "frontends/onnx/microsoft/generation.h"

namespace weft::onnx {
namespace {

enum class ModelType : uint8_t { decoder, t5, whisper };

// --- models with an encoder ------------------------------------------------------------------------------------------

/// Returns the encoder's default mask: 0 for the padding tokens before the first other token, 1 for the rest.
Expr without_leading_padding(Call& c, Expr ids, double pad) {
  Expr is_token = select(equal(ids, pad), full(c, DType::i32, {}, 0), full(c, DType::i32, {}, 1));
  Expr seen = running(ReduceFn::sum, is_token, 1);
  return convert(seen > 0, DType::i32);
}

/// The decoder's inputs besides tokens: results of the encoder and the first pasts, each row repeated `beams` times.
struct EncoderStates {
  Values context;              ///< in the order of the decoder's inputs after the tokens
  Values cross;                ///< keys and values of the encoder's tokens: the decoder's inputs after the pasts
  Values pasts;                ///< key and value caches of the prompt; empty if the decoder computes them
  std::optional<Expr> scores;  ///< scores of the token after the prompt; nothing if the decoder computes them
};

/// Runs the encoder's graph. Its last outputs are the keys and values of the encoder's tokens. If the graph also runs
/// the decoder for the first tokens, its first outputs are the scores, hidden states and pasts of these tokens.
EncoderStates encode(Call& c, Expr tokens, Value mask, int64_t beams) {
  const Graph &encoder = c.graph("encoder"), &decoder = c.graph("decoder");
  bool starts = !encoder.outputs.empty() && encoder.outputs[0].name == "logits";
  Values inputs = {c.input(0)};
  if (mask) inputs.push_back(mask);
  if (starts) inputs.push_back(tokens);
  Values results = run_graph(c, c, encoder, inputs, 1);
  size_t pasts = decoder.outputs.size() - 1, expected = starts ? 2 + 2 * pasts : pasts;
  if (!starts && !mask) c.unsupported("with an encoder that gives no logits is not supported for model_type 2");
  if (pasts == 0 || results.size() != expected)
    c.fail("E158", cat("has an encoder with ", results.size(), " outputs where ", expected,
                       " belong to a decoder with ", pasts, " pasts"));
  EncoderStates states;
  auto expanded = [&](Value x) { return x.rank() > 0 ? repeated({&c, x}, beams) : Expr{&c, x}; };
  size_t at = 1;
  for (; at < decoder.inputs.size(); ++at) {
    std::string_view name = decoder.inputs[at].name;
    if (name == "encoder_input_ids") states.context.push_back(expanded(c.input(0)));
    else if (name == "encoder_attention_mask" && mask) states.context.push_back(expanded(mask));
    else if (name == "encoder_hidden_states" && starts) states.context.push_back(expanded(results[1]));
    else break;
  }
  if (decoder.inputs.size() != at + 2 * pasts)
    c.unsupported(cat("with a decoder of ", decoder.inputs.size() - at, " pasts where ", 2 * pasts,
                      " belong is not supported: neither shared buffers nor cache_indirection are"));
  for (size_t i = 0; i < pasts; ++i) {
    Dim rows = tokens.dims()[0] * Dim(beams);
    states.pasts.push_back(starts ? expanded(results[2 + i]).value
                                  : empty_past(c, decoder.inputs[at + i], rows, 0, 2, 4));
    states.cross.push_back(expanded(results[(starts ? 2 + pasts : 0) + i]));
  }
  if (starts) states.scores = repeated(last_scores(c, results[0]), beams);
  return states;
}

/// Returns the tokens that the decoder begins with, i32[batch, n].
Expr first_tokens(Call& c, ModelType type, const Dim& batch) {
  if (c.has_input(10) && type == ModelType::t5)
    c.unsupported("with input 10 (decoder_input_ids) is not supported for model_type 1");
  int64_t start = c.integer("decoder_start_token_id", -1);
  if (c.has_input(10)) return convert(arg(c, 10), DType::i32);
  if (start < 0) c.fail("E145", cat("decoder_start_token_id must be >=0, is ", start));
  return full(c, DType::i32, {batch, 1}, static_cast<double>(start));
}

/// Returns the generator of a model with an encoder; runs the encoder on input 0. The decoder reads only the last token
/// if the model declares an input of one token; otherwise it reads all tokens so far.
Generator encoder_decoder(Call& c, ModelType type, int64_t beams, double pad, const Dim& most) {
  const Graph& decoder = c.graph("decoder");
  if (decoder.inputs.empty() || decoder.outputs.empty()) c.fail("E158", "has a decoder without inputs or outputs");
  Expr given = arg(c, 0), tokens = first_tokens(c, type, given.dims()[0]);
  expect_room(c, tokens.dims()[1], most);
  Value mask;  // null for Whisper, for which onnxruntime ignores the mask
  if (type == ModelType::t5)
    mask = c.has_input(9) ? convert(arg(c, 9), DType::i32) : without_leading_padding(c, given, pad);
  EncoderStates states = encode(c, tokens, mask, beams);
  const auto& declared = decoder.inputs[0].type.dims;
  bool reads_one = declared && declared->size() == 2 && (*declared)[1].value == 1;
  auto decode = [&c, &decoder, reads_one, context = states.context, cross = states.cross](
                    const Builder& b, Expr token, Expr so_far, const Values& pasts) {
    Values in = {reads_one ? token : so_far};
    for (Value v : context) in.push_back(inside(b, v));
    in.insert(in.end(), pasts.begin(), pasts.end());
    for (Value v : cross) in.push_back(inside(b, v));
    Values results = run_graph(c, b, decoder, in, 1);
    Expr scores = last_scores(b, results[0]);
    results.erase(results.begin());
    return Decoded{scores, results};
  };
  tokens = repeated(tokens, beams);
  Decoded first = states.scores ? Decoded{*states.scores, states.pasts} : decode(c, tokens, tokens, states.pasts);
  auto next = [decode](const Builder& b, Expr token, Expr so_far, const Dim&, const Values& pasts) {
    return decode(b, token, so_far, pasts);
  };
  return {.tokens = tokens, .first = first, .row_axis = 0, .next = next};
}

// --- the search ------------------------------------------------------------------------------------------------------

/// The parameters of beam search, computed outside the loop.
struct BeamRules {
  ScoreRules rules;
  int64_t beams;
  double pad;
  bool stops_early;
  Dim batch, most;
  Value length_penalty;  ///< f32[]; null: 1
};

/// The unfinished beams and the finished sequences of each element of the batch: `beams` of each, the best first.
/// Scores of finished sequences are divided by length ^ penalty; unused places have the score -inf.
struct Beams {
  Expr tokens, scores;      ///< of the beams: [batch, beams, most]; sums of log-probabilities [batch, beams]
  Expr done;                ///< true if the search of the batch element has ended, [batch, 1]
  Expr ended, ended_score;  ///< finished sequences and their scores: [batch, beams, most], [batch, beams]
  Expr used;                ///< the number of finished sequences, at most `beams`, [batch, 1]

  Values values() const { return {tokens, scores, done, ended, ended_score, used}; }
  static constexpr size_t count = 6;
  static Beams of(const Builder& b, const Values& v) {
    auto at = [&](size_t i) { return Expr{&b, v[i]}; };
    return {at(0), at(1), at(2), at(3), at(4), at(5)};
  }
};

/// Returns x[b, index[b, i], ..] for each b and i; x is [batch, n, ..], index [batch, k].
Expr reordered(Expr x, Expr index) {
  Dims dims = x.dims(), flat = index.dims();
  flat.resize(dims.size(), 1);
  dims[1] = index.dims()[1];
  return gather_elements(x, broadcast(reshape(index, flat), dims), 1);
}

Expr length_factor(const Builder& b, const BeamRules& r, const Dim& length) {
  Expr n = scalar(b, length, DType::f32);
  return r.length_penalty ? pow(n, inside(b, r.length_penalty)) : n;
}

/// Adds newly finished sequences `fresh` and keeps the `beams` finished sequences with the highest scores.
void keep_best(const Builder& b, const BeamRules& r, Beams& beams, Expr fresh, Expr fresh_score) {
  Values top = b.emit_all(TopK{.k = r.beams, .axis = 1}, {concat(b, {beams.ended_score, fresh_score}, 1)});
  beams.ended_score = {&b, top[0]};
  beams.ended = reordered({&b, concat(b, {beams.ended, fresh}, 1)}, {&b, top[1]});
}

/// Extends the best beams by one token, at index `length`. Returns the cache row that each new beam continues,
/// [batch * beams], and the new tokens, [batch * beams, 1].
std::pair<Expr, Expr> advance(const Builder& b, const BeamRules& r, Beams& beams, Expr scores, const Dim& length) {
  int64_t k = r.beams;
  Dim vocabulary = scores.dims()[1];
  Expr sums = reshape(scores, {r.batch, k, vocabulary}) + reshape(beams.scores, {r.batch, k, 1});
  Values top = b.emit_all(TopK{.k = 2 * k, .axis = 1}, {reshape(sums, {r.batch, vocabulary * Dim(k)})});
  Expr score{&b, top[0]}, place{&b, top[1]}, size = scalar(b, vocabulary);
  Expr beam = apply(Fn::div, place, size), token = place - beam * size;
  Expr ends = equal(token, static_cast<double>(r.rules.end)), goes_on = !beams.done;
  Expr factor = length_factor(b, r, length);
  // A candidate is finished if it is among the best k and appends the end token.
  Expr finished = slice(ends, 1, 0, k) & goes_on;
  Expr finished_score = select(finished, slice(score, 1, 0, k) / factor, -std::numeric_limits<double>::infinity());
  keep_best(b, r, beams, reordered(beams.tokens, slice(beam, 1, 0, k)), finished_score);
  Expr added = reduce(ReduceFn::sum, convert(finished, DType::i64), {1});
  beams.used = min(beams.used + added, static_cast<double>(k));
  // The best k candidates that do not end become the new beams.
  Expr order = along(iota(b, 2 * k), 1, 2);
  Expr rank = convert(select(ends, order + static_cast<double>(2 * k), order), DType::f32);
  Expr next{&b, b.emit_all(TopK{.k = k, .axis = 1, .largest = false}, {rank})[1]};
  Expr from = reordered(beam, next);
  Expr chosen = select(beams.done, r.pad, convert(reordered(token, next), DType::i32));
  Expr best = slice(score, 1, 0, 1) / factor, worst = slice(beams.ended_score, 1, k - 1, 1);
  Expr is_full = beams.used >= static_cast<double>(k);
  beams.done = beams.done | (r.stops_early ? is_full : is_full & (worst >= best));
  beams.scores = select(goes_on, reordered(score, next), 0);
  Expr here = equal(along(iota(b, r.most), 2, 3), scalar(b, length));
  Expr column = reshape(chosen, {r.batch, k, 1});
  beams.tokens = select(here, column, reordered(beams.tokens, from));
  Expr row = from + along(iota(b, r.batch), 0, 2) * static_cast<double>(k);
  return {reshape(row, {r.batch * Dim(k)}), reshape(chosen, {r.batch * Dim(k), 1})};
}

/// Returns the caches with their rows in the order of `rows`, one row for each new beam.
Values reordered_pasts(const Builder& b, const Generator& g, const Values& pasts, Expr rows) {
  Values list;
  for (Value past : pasts) list.push_back(b.emit(Gather{.axis = g.row_axis}, {past, rows}));
  return list;
}

Expr logarithms(const Builder& b, Expr scores) { return {&b, b.emit(Softmax{.axis = 1, .logarithm = true}, {scores})}; }

Beams first_beams(Call& c, const BeamRules& r, Expr tokens) {
  Dims all = {r.batch, r.beams, r.most}, each = {r.batch, r.beams};
  Pad room{.before = Dims(2, 0), .after = {0, r.most - tokens.dims()[1]}};
  Expr padded{&c, c.emit(room, {tokens, number(c, DType::i32, r.pad)})};
  Expr is_first = equal(along(iota(c, r.beams), 1, 2), 0);
  constexpr double never = -1e9;  // the beams begin equal, so only the first may be continued
  return {.tokens = reshape(padded, all),
          .scores = broadcast(select(is_first, full(c, DType::f32, {}, 0), full(c, DType::f32, {}, never)), each),
          .done = full(c, DType::boolean, {r.batch, 1}, 0),
          .ended = full(c, DType::i32, all, r.pad),
          .ended_score = full(c, DType::f32, each, -std::numeric_limits<double>::infinity()),
          .used = full(c, DType::i64, {r.batch, 1}, 0)};
}

/// Chooses the first token, runs the loop that chooses the other tokens, and returns the final beams.
Beams searched(Call& c, const BeamRules& r, const Generator& g, Beams beams) {
  Dim given = g.tokens.dims()[1], rows = r.batch * Dim(r.beams);
  Expr scores = ruled(c, r.rules, logarithms(c, g.first.scores), g.tokens);
  if (c.has_input(8)) scores = select(repeated(arg(c, 8), r.beams) > 0, scores, lowest_score);
  auto [order, token] = advance(c, r, beams, scores, given);
  Values carried = beams.values(), pasts = reordered_pasts(c, g, g.first.pasts, order);
  carried.push_back(token);
  carried.insert(carried.end(), pasts.begin(), pasts.end());
  Values y = loop_while(c, r.most - given - 1, carried, 0, [&](const Builder& b, const Dim& trip, const Values& now) {
    Dim length = given + 1 + trip;
    Beams state = Beams::of(b, now);
    Expr so_far = slice(reshape(state.tokens, {rows, r.most}), 1, 0, length);
    Values before(now.begin() + Beams::count + 1, now.end());
    Decoded step = g.next(b, {&b, now[Beams::count]}, so_far, trip, before);
    auto [row, next] = advance(b, r, state, ruled(b, r.rules, logarithms(b, step.scores), so_far), length);
    Expr goes_on = !(reduce(ReduceFn::min, convert(state.done, DType::i32), {0, 1}, false) > 0);
    Values results = {goes_on}, values = state.values(), last = reordered_pasts(b, g, step.pasts, row);
    results.insert(results.end(), values.begin(), values.end());
    results.push_back(next);
    results.insert(results.end(), last.begin(), last.end());
    return results;
  });
  return Beams::of(c, y);
}

ModelType model_type(Call& c) {
  int64_t kind = c.integer("model_type", 0);
  if (kind < 0 || kind > 2) c.fail("E145", cat("model_type must be 0, 1 or 2, is ", kind));
  if (kind == 0 && c.has("encoder")) c.unsupported("with attribute 'encoder' is not supported for model_type 0");
  if (kind != 0 && c.has("init_decoder"))
    c.unsupported(cat("with attribute 'init_decoder' is not supported for model_type ", kind));
  return static_cast<ModelType>(kind);
}

Generator generator(Call& c, ModelType type, const BeamRules& r) {
  if (type != ModelType::decoder) return encoder_decoder(c, type, r.beams, r.pad, r.most);
  if (c.has_input(10)) c.unsupported("with input 10 (decoder_input_ids) is not supported for model_type 0");
  c.ignore("decoder_start_token_id");
  expect_room(c, c.input(0).dims()[1], r.most);
  Value mask = c.has_input(9) ? repeated(convert(arg(c, 9), DType::i32), r.beams).value : Value{};
  return decoder_only(c, repeated(arg(c, 0), r.beams), mask, r.pad);
}

Values beam_search(Call& c, ModelType type) {
  int64_t rank = type == ModelType::whisper ? 3 : 2;
  c.expect_ranks({{0, rank}, {7, 1}, {8, 2}, {9, rank}, {10, 2}});
  if (c.wants_output(2)) c.unsupported("with output 2 (scores of every token) is not supported");
  if (c.has_input(11) && c.number_input(11, "logits_processor") != 0)
    c.unsupported("with a logits_processor is not supported");
  c.ignore("vocab_size");
  auto count = to_int64(c.number_input(3, "num_beams")), returned = to_int64(c.number_input(4, "num_return_sequences"));
  constexpr int64_t max_beams = 4096;
  if (count > max_beams) c.unsupported(cat("with ", count, " beams is not supported: at most ", max_beams));
  if (count < 1 || returned < 1 || returned > count)
    c.fail("E145", cat("num_beams and num_return_sequences must be >=1 in order, are ", count, " and ", returned));
  BeamRules r{.rules = score_rules(c, 2, 6, 7),
              .beams = count,
              .pad = static_cast<double>(c.integer("pad_token_id")),
              .stops_early = c.flag("early_stopping"),
              .batch = c.input(0).dims()[0],
              .most = c.size(1, 1),
              .length_penalty = {}};
  if (c.has_input(5)) r.length_penalty = reshape(convert(arg(c, 5), DType::f32), {});
  Generator g = generator(c, type, r);
  Beams last = searched(c, r, g, first_beams(c, r, g.tokens));
  Expr final_score =
      select(last.done, -std::numeric_limits<double>::infinity(), last.scores / length_factor(c, r, r.most));
  keep_best(c, r, last, last.tokens, final_score);
  return {slice(last.ended, 1, 0, returned), slice(last.ended_score, 1, 0, returned)};
}

Values beam_search(Call& c) { return beam_search(c, model_type(c)); }

Values whisper_beam_search(Call& c) {
  if (int64_t kind = c.integer("model_type", 2); kind != 2) c.fail("E145", cat("model_type must be 2, is ", kind));
  if (c.flag("decoder_output_cross_qk")) c.unsupported("with decoder_output_cross_qk is not supported");
  if (c.has_input(12) || c.has_input(13))
    c.unsupported("with input 12 (cross_qk_layer_head) or 13 (extra_decoding_ids) is not supported");
  if (c.has_input(14) && c.number_input(14, "temperature") != 1)
    c.unsupported("with a temperature other than 1 is not supported");
  if (c.wants_output(3) || c.wants_output(4))
    c.unsupported("with output 3 (cross_qk) or 4 (non_speech_probs) is not supported");
  // These attributes are used only by logits_processor and by outputs that are refused.
  for (const char* token :
       {"translate", "transcribe", "start_of_lm", "no_speech", "no_timestamps", "beginning_timestamp"})
    c.ignore(cat(token, "_token_id"));
  return beam_search(c, ModelType::whisper);
}

constexpr Operator microsoft_beams_table[] = {
    {"com.microsoft", "BeamSearch", beam_search,
     "fixed numbers of beams and of sequences; no output 2, no logits_processor; no shared buffers beside an encoder"},
    {"com.microsoft", "WhisperBeamSearch", whisper_beam_search,
     "as BeamSearch; no temperature, cross_qk, extra_decoding_ids and non_speech_probs"},
};

}  // namespace

std::span<const Operator> microsoft_beam_operators() { return microsoft_beams_table; }

}  // namespace weft::onnx
