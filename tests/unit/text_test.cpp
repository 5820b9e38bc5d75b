// SPDX-License-Identifier: Apache-2.0
// The text form: every operator's text parses back to the same program; other text is refused with an error that names
// the line.
#include <doctest/doctest.h>

#include <set>

#include "base/error.h"
#include "ir/text.h"
#include "ops/elementwise.h"
#include "ops/registry.h"

using namespace weft;

namespace {

/// One program with every operator except control flow, and with odd field values.
constexpr std::string_view everything = R"--(
program "all \"of\" it"
metadata "producer" "a test"
symbol batch min=1 max=64
symbol seq min=0 multiple_of=8
guard batch <= seq ; "a condition" "node 0 'x' (X)"
default "bias" f32[8]{1, 2, 3, 4, 5, 6, 7, 8}
module main {
  %x = parameter {name="x", type=f32[batch,seq,8]}
  %image = parameter {name="image \\ \"quoted\"", type=f32[batch,8,16,16]}
  %w = parameter {name="w", type=f32[8,8,3,3]}
  %index = parameter {name="index", type=i64[4]}
  %nd = parameter {name="nd", type=i64[5,1]}
  %bias = parameter {name="bias", type=f32[8]}
  %flags = parameter {name="flags", type=bool[batch,seq,8]}
  %bw = parameter {name="weights in blocks", type=u4[3,16]}
  %bs = parameter {name="scales", type=f32[3,1]}
  %by = parameter {name="bytes", type=i8[5]}
  %ta = parameter {name="table", type=u8[256]}
  %k = constant {value=i32[2,2]{1, -2, 3, 4}}
  %e = constant {value=f32[0]{}}
  %sz = sizes {dims=[batch, 2*seq + 1]}
  %rs = reshape %x {dims=[batch*seq, 8]}
  %tr = transpose %x {permutation=[2, 0, 1]}
  %bb = broadcast %bias {dims=[batch, seq, 8]}
  %add = add %x, %bb // from "node 4 'sum' (Add)"
  %sel = select %flags, %x, %bb
  %cv = convert %x {to=f8e4m3fn, saturate=false}
  %bc = bitcast %k {to=u32}
  %lu = lookup %by, %ta
  %sl = slice %x {starts=[0, 0, 7], sizes=[batch, seq, 4], steps=[1, 1, -2]}
  %zero = constant {value=f32[]{0}}
  %pd = pad %x, %zero {before=[0, 1, 2], after=[0, -1, 0], mode=constant}
  %pr = pad %x {before=[0, 0, 2], after=[0, 0, 1], mode=reflect}
  %ct = concat %x, %add {axis=1}
  %rd = reduce %x {fn=mean, axes=[0, 2], keep=false}
  %ar = arg_reduce %x {largest=false, axis=2, keep=false, last=true}
  %sc = scan %x {fn=product, axis=1, exclusive=true, reverse=true}
  %sm = softmax %x {axis=2, log=true}
  %no = normalize %x {axis=1, epsilon=1e-12, centred=false}
  %tk = top_k %x {k=3, axis=2, largest=false}
  %dt = dot %x, %x2 {type=f32}
  %wh = iota {dims=[batch], axis=0, type=i64}
  %gd = grouped_dot %x, %x2, %wh {type=f32}
  %qr = quantize_rows %x {block=16}
  %bd = block_dot %qr, %bw, %bs, %qr.1, %qr.2 {block=16, type=f32}
  %cn = convolution %image, %w {strides=[2, 1], dilations=[1, 2], pads_begin=[1, 1], pads_end=[0, 1], groups=1, transposed=false, output_padding=[], layout=channels_first, type=f32}
  %po = pool %image {fn=max, kernel=[3, 3], strides=[2, 2], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1], round_up=true, count_include_pad=false, p=2, indices=true, layout=channels_first}
  %at = attention %image, %image, %image {scale=0.125, causal=true, offset=seq, softcap=30}
  %ga = gather %bias, %index {axis=0}
  %ge = gather_elements %bias, %index {axis=0}
  %gn = gather_nd %bias, %nd {batch=0}
  %up = constant {value=f32[4]{1, 2, 3, 4}}
  %se = scatter_elements %bias, %index, %up {axis=0, fn=max}
  %un = constant {value=f32[5]{1, 2, 3, 4, 5}}
  %sn = scatter_nd %bias, %nd, %un {fn=add}
  %io = iota {dims=[batch, 4], axis=1, type=i32}
  %rz = resize %image {dims=[batch, 8, 32, 20], scales=[0, 0, 2, 1.25], mode=cubic, coordinates=align_corners, nearest=ceil, cubic_a=-0.5, exclude_outside=true, antialias=false, extrapolation=0.5, roi=[]}
  %qs = constant {value=f32[]{0.1}}
  %qu = quantize %x, %qs {to=i4, axis=2, block=0, saturate=true}
  %wx = convert %x {to=i32, saturate=true}
  %ne = nearest %x, %wx, %wx {to=i8}
  %boxes = constant {value=f32[1,2,4]{0, 0, 1, 1, 0, 0, 2, 2}}
  %scores = constant {value=f32[1,1,2]{0.5, 0.75}}
  %nm = non_max_suppression %boxes, %scores, %qs, %zero {most=2, centers=true}
  %ho = host %k {fn=to_text, numbers=[1, 2], strings=["a, b", "c"], types=[string[2,2]]}
  %dq = dequantize %qu, %qs {to=f16, axis=2, block=0}
  return "sum"=%add, "top"=%tk, "where"=%tk.1
}
)--";

std::string refusal(std::string_view text) {
  try {
    parse_program(text, make_op);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string in_main(std::string_view line) { return cat("module main {\n", line, "\n}\n"); }

}  // namespace

TEST_CASE("text: every operator prints what it parses") {
  std::string text(everything);
  // Inserts a transpose of x: the second operand of %dt.
  std::string turned = "%x2 = transpose %x {permutation=[0, 2, 1]}\n  %dt";
  text.replace(text.find("%dt"), 3, turned);
  auto program = parse_program(text, make_op);
  std::string printed = print(*program);
  auto again = parse_program(printed, make_op);
  CHECK(print(*again) == printed);
  CHECK(again->name == "all \"of\" it");
  CHECK(again->symbols().at("seq").multiple_of == 8);
  CHECK(again->guards().size() == program->guards().size());
  CHECK(again->defaults.at("bias").elements() == 8);
  auto one = program->main().begin(), other = again->main().begin();
  std::set<std::string_view> seen;
  for (; one != program->main().end(); ++one, ++other) {
    CAPTURE(print(*one));
    seen.insert((*one).op.name());
    CHECK((*one).op == (*other).op);
    CHECK((*one).types == (*other).types);
    CHECK((*one).source == (*other).source);
  }
  for (const OpInfo* op : all_ops()) {
    CAPTURE(op->name);
    // Control flow, which has no `evaluate`, needs bodies; another test covers it.
    bool is_here = seen.contains(op->name) || op->evaluate == nullptr;
    CHECK(is_here);
  }
}

TEST_CASE("text: every elementwise function reads back") {
  for (const FnInfo& fn : all_fns()) {
    CAPTURE(fn.name);
    using Accepts = FnInfo::Accepts;
    const char* type = fn.accepts == Accepts::logic ? "bool" : fn.accepts == Accepts::integer ? "i32" : "f32";
    std::string operands = fn.arity == 1 ? "%x" : fn.arity == 2 ? "%x, %x" : "%c, %x, %x";
    auto program = parse_program(
        in_main(cat("%x = parameter {name=\"x\", type=", type, "[3]}\n", "%c = parameter {name=\"c\", type=bool[3]}\n",
                    "%y = ", fn.name, " ", operands, "\nreturn \"y\"=%y")),
        make_op);
    CHECK(print(*parse_program(print(*program), make_op)) == print(*program));
    CHECK(program->main().last()->types[0].shape.dtype == (fn.gives == FnInfo::Gives::logic ? DType::boolean
                                                           : fn.accepts == Accepts::logic   ? DType::boolean
                                                           : fn.accepts == Accepts::integer ? DType::i32
                                                                                            : DType::f32));
  }
}

TEST_CASE("text: constants of every type keep their values") {
  for (std::string_view value :
       {"bool[2]{0, 1}", "u4[3]{1, 15, 0}", "i4[3]{-8, 7, 1}", "u8[1]{255}", "i64[1]{-9223372036854775808}",
        "f16[2]{1.5, -0.25}", "bf16[1]{3}", "f32[2]{1.401298464324817e-45, 3.4028234663852886e+38}", "f64[1]{0.1}",
        "f8e4m3fn[1]{448}", "f32[]{-0}", "f32[2]{inf, nan}", "string[2]{\"a\", \"b, \\\"c\\\"\"}"}) {
    CAPTURE(std::string(value));
    auto program = parse_program(in_main(cat("%c = constant {value=", value, "}\nreturn \"c\"=%c")), make_op);
    CHECK(print(*program).find(cat("{value=", value, "}")) != std::string::npos);
  }
}

TEST_CASE("text: containers and calls of the host") {
  const char* body =
      "%s = parameter {name=\"s\", type=sequence(f32[_,3])}\n%i = constant {value=i64[]{-1}}\n"
      "%d = host %s, %i {fn=item_sizes, numbers=[2], strings=[], types=[i64[2]]}\n%b = bind %d {symbols=[n, m], "
      "most=[]}\n"
      "%x = host %s, %i {fn=item, numbers=[], strings=[], types=[f32[n,3]]}\nreturn \"x\"=%x";
  auto program = parse_program(in_main(body), make_op);
  std::string text = print(*program);
  CHECK(text.find("sequence(f32[_,3])") != std::string::npos);
  CHECK(text.find("symbol _") == std::string::npos);  // a placeholder is not a size
  CHECK(print(*parse_program(text, make_op)) == text);
}

TEST_CASE("text: an invalid program is refused with its line") {
  struct Case {
    std::string text;
    const char* message;
  };
  const std::string x = "%x = parameter {name=\"x\", type=f32[2]}\n";
  for (const Case& c : {Case{in_main("%a = exp %b"), "line 2"},
                        {in_main("%a = polish"), "polish"},
                        {in_main(x + "%a = softmax %x {axes=1}"), "axes"},
                        {in_main(x + "%a = softmax %x {axis=one}"), "one"},
                        {in_main(x + "%a = exp %x : f32[3]"), "line 3"},
                        {in_main(x + "%x = exp %x"), "a new name"},
                        {in_main(x + "%a = exp %x.1"), "line 3"},
                        {in_main("%a = constant {value=f32[2]{1}}"), "values"},
                        {in_main("%a = constant {value=f32[2]@blob}"), "large constants"},
                        {"%a = iota {dims=[1]}\n", "module"},
                        {"symbol n min=x\n", "number"},
                        {"guard a ~ b ; \"\" \"\"\n", "=="},
                        {"nonsense\n", "line 1"}}) {
    CAPTURE(c.text);
    CHECK(refusal(c.text).find(c.message) != std::string::npos);
  }
}

TEST_CASE("text: the nesting of types is bounded") {
  auto nested = [](size_t depth) {
    std::string type = "f32[2]";
    for (size_t i = 0; i < depth; ++i) type = cat(i % 2 ? "sequence(" : "optional(", type, ")");
    return in_main(cat("%x = parameter {name=\"x\", type=", type, "}\nreturn \"x\"=%x"));
  };
  CHECK(refusal(nested(60)) == "");
  CHECK(refusal(nested(5000)).find("nested more than 64 deep") != std::string::npos);
}
