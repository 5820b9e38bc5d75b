// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <new>

#include "base/error.h"
#include "base/knobs.h"
#include "base/text.h"
#include "base/version.h"
#include "driver/terminal.h"
#include "driver/verbs.h"

namespace weft::driver {
namespace {

constexpr Verb all_verbs[] = {
    {"run", run_verb, "run a model once and show what comes out"},
    {"compile", compile_verb, "compile a model into a file that starts in milliseconds"},
    {"perf", perf_verb, "measure a model: latency, throughput, time of each kernel"},
    {"verify", verify_verb, "compare a model's answers with the reference, or with onnxruntime"},
    {"compare", compare_verb, "compare two files of tensors"},
    {"convert", convert_verb, "write a model of PyTorch or TensorFlow as an ONNX file"},
    {"quantize", quantize_verb, "make a float model one in 8 or 4 bits that keeps its answers"},
    {"reduce", reduce_verb, "shrink a model that fails to the few nodes that matter"},
    {"inspect", inspect_verb, "show a model: inputs, operators, the program as text or graph"},
    {"tune", tune_verb, "measure which kernels are fastest here, for later compiles"},
    {"serve", serve_verb, "serve models over HTTP and gRPC"},
    {"explain", explain_verb, "say why each kernel of a model was chosen, or what an error code means"},
    {"devices", devices_verb, "list the devices of this machine"},
    {"doctor", doctor_verb, "describe this machine and this installation"},
    {"ops", ops_verb, "list the operators"},
    {"knobs", knobs_verb, "list the environment variables"},
    {"cache", cache_verb, "list or clear the cache of compiled kernels and parsed headers"},
};

std::vector<std::string> own_words;

std::string general_help() {
  std::string text =
      "Weft compiles a model into one fast program for the machine in front of you.\n\nusage: weft VERB "
      "[arguments]\n\n";
  for (const Verb& verb : all_verbs) {
    text += cat("  ", verb.name, std::string(10 - verb.name.size(), ' '), verb.purpose, "\n");
  }
  return text +
         "\nweft VERB --help says more about one; weft --version prints the version.\n\n"
         "examples:\n"
         "  weft run examples/digits/digits.onnx --input examples/digits/seven.png\n"
         "  weft perf examples/digits/digits.onnx --at batch=8\n\n"
         "exit codes: 0 done, 1 answers differ, 2 usage, 3 invalid model, 4 unsupported, 5 memory, time or disk,\n"
         "            6 device fault, 70 a bug of Weft\n";
}

[[noreturn]] void refuse_verb(const std::string& word) {
  std::vector<std::string> names;
  for (const Verb& verb : all_verbs) names.emplace_back(verb.name);
  std::string near = nearest_names(word, names);
  throw Error({.kind = ErrorKind::usage,
               .code = "E202",
               .what = cat("weft has no verb '", printable(word), "'"),
               .hint = near.empty() ? "weft --help lists them" : cat("did you mean ", near, "?")});
}

int dispatch(Words words) {
  if (words.empty()) return std::fputs(general_help().c_str(), stderr), static_cast<int>(ErrorKind::usage);
  const std::string& word = words[0];
  if (word == "--version" || word == "version") return print(cat("weft ", version())), exit_done;
  if (word == "-h" || word == "--help" || word == "help") {
    if (words.size() == 1) return std::fputs(general_help().c_str(), stdout), exit_done;
    return dispatch(std::vector<std::string>{words[1], "--help"});
  }
  for (const Verb& verb : all_verbs) {
    if (verb.name == word) return verb.call(words.subspan(1));
  }
  refuse_verb(word);
}

void warn_about_unknown_knobs() {
  for (const std::string& line : unknown_knobs()) note(cat("warning: ", line));
}

}  // namespace

std::span<const Verb> verbs() { return all_verbs; }

const std::vector<std::string>& own_program() { return own_words; }

int command(Words words, std::vector<std::string> program) {
  own_words = std::move(program);
  try {
    warn_about_unknown_knobs();
    int code = dispatch(words);
    if (std::fflush(stdout) != 0) return static_cast<int>(ErrorKind::resource);
    return code;
  } catch (const Error& error) {
    print_error(error.what(), error.info().code);
    return static_cast<int>(error.info().kind);
  } catch (const std::bad_alloc&) {
    print_error("error[E400]: out of memory", "E400");
    return static_cast<int>(ErrorKind::resource);
  } catch (const std::exception& error) {
    print_error(cat("error[E900]: internal error: ", printable(error.what())), "E900");
    return static_cast<int>(ErrorKind::internal);
  }
}

}  // namespace weft::driver
