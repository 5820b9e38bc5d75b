// SPDX-License-Identifier: Apache-2.0
// Requests of one program in shared runs: which requests may be joined, and that no request is lost, mixed up or
// affected by another.
#include <doctest/doctest.h>

#include <future>
#include <random>

#include "api/serve/batcher.h"
#include "counts.h"

using namespace weft::serve;
using weft::Program;
using weft::Tensor;

namespace {

Program program(const std::string& body) {
  std::string text = "program \"p\"\nsymbol b\nsymbol s\nmodule main {\n" + body + "}\n";
  return weft::Graph::parse(text).compile({.device = "cpu", .threads = 1});
}

const std::string x_parameter = "  %x = parameter {name=\"x\", type=f32[b,s]}\n";

Program doubler() { return program(x_parameter + "  %y = add %x, %x\n  return \"y\"=%y\n"); }

/// A program that returns the sum of each row over the elements where the mask is 1, and the rows themselves.
const std::string masked_rows = x_parameter + R"(  %m = parameter {name="attention_mask", type=f32[b,s]}
  %p = mul %x, %m
  %t = reduce %p {fn=sum, axes=[1], keep=false}
  return "total"=%t, "rows"=%x
)";

Tensor numbers(std::vector<int64_t> dims, float first) {
  size_t count = 1;
  for (int64_t size : dims) count *= static_cast<size_t>(size);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = first + static_cast<float>(i);
  return Tensor::copy(WEFT_F32, std::as_bytes(std::span(values)), dims);
}

/// The outcome of a request.
struct Answer {
  std::vector<Tensor> outputs;
  std::string code;  ///< code of its error
};

std::string code_of(const std::exception_ptr& failure) {
  if (!failure) return "";
  try {
    std::rethrow_exception(failure);
  } catch (const weft::Error& error) {
    return std::string(error.code());
  }
}

/// An asynchronous request; its answer arrives exactly once.
struct Asked {
  uint64_t id = 0;
  std::future<Answer> answer;
};

Asked ask(Batcher& batcher, Inputs inputs, std::optional<Clock::time_point> deadline = {}) {
  auto promise = std::make_shared<std::promise<Answer>>();
  auto done = [promise](uint64_t, std::vector<Tensor> outputs, const std::exception_ptr& failure) {
    promise->set_value({std::move(outputs), code_of(failure)});
  };
  return {batcher.submit(std::move(inputs), deadline, done), promise->get_future()};
}

std::string refusal(Batcher& batcher, Inputs inputs) {
  try {
    ask(batcher, std::move(inputs));
  } catch (const weft::Error& error) {
    return std::string(error.code());
  }
  return "";
}

/// A program whose runs wait until they are released, so that the test controls which requests are queued meanwhile.
class Gate {
 public:
  Program program() {
    weft::Graph graph("gate");
    weft_operator op WEFT_OPERATOR_INIT;
    op.name = "test:Gate", op.rule = "f32[b,s] -> f32[b,s]", op.call = &Gate::pass, op.user = this;
    graph.add_operator(op);
    graph.output("y", graph.append("test:Gate", {graph.input("x", "f32[b,s]")}));
    return graph.compile({.device = "cpu", .threads = 1});
  }
  void open() {
    std::scoped_lock lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void shut() {
    std::scoped_lock lock(mutex_);
    is_open_ = false, is_entered_ = false;
  }
  void wait_until_entered() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_entered_; });
  }

 private:
  static int32_t pass(void* user, const char*, void* const* buffers, const int64_t* sizes) {
    auto& gate = *static_cast<Gate*>(user);
    std::unique_lock lock(gate.mutex_);
    gate.is_entered_ = true;
    gate.changed_.notify_all();
    gate.changed_.wait(lock, [&] { return gate.is_open_; });
    for (int64_t i = 0; i < sizes[0] * sizes[1]; ++i)
      static_cast<float*>(buffers[1])[i] = static_cast<const float*>(buffers[0])[i];
    return 0;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = true, is_entered_ = false;
};

const BatchRule rows_join{.joins = true, .max_rows = 1000};

}  // namespace

TEST_CASE("requests are joined where sizes allow it and runs confirm it") {
  CHECK(find_batch_rule(doubler()).joins);
  auto reason = [](const std::string& body) {
    BatchRule rule = find_batch_rule(program(x_parameter + body));
    CHECK_FALSE(rule.joins);
    return rule.reason;
  };
  CHECK(reason("  %y = softmax %x {axis=0}\n  return \"y\"=%y\n").find("mixed") != std::string::npos);
  CHECK(
      reason("  %w = transpose %x {permutation=[1, 0]}\n  %y = dot %x, %w\n  return \"y\"=%y\n").find("another size") !=
      std::string::npos);
  CHECK(reason("  %y = reduce %x {fn=sum, axes=[0], keep=false}\n  return \"y\"=%y\n").find("no batch axis") !=
        std::string::npos);
  // Random rows may hide that rows are mixed: rows of 0, and roots of numbers below 0.
  for (std::string mixes : {"i64[b,1]}\n  %y = scan %x {fn=sum, axis=0}\n",
                            "f32[b,1]}\n  %s = scan %x {fn=sum, axis=0}\n  %r = sqrt %x\n  %l = log %x\n"
                            "  %p = mul %r, %s\n  %y = mul %l, %p\n"})
    CHECK(find_batch_rule(program("  %x = parameter {name=\"x\", type=" + mixes + "  return \"y\"=%y\n"))
              .reason.find("mixed") != std::string::npos);
  BatchRule fixed =
      find_batch_rule(program("  %x = parameter {name=\"x\", type=f32[4,s]}\n  %y = add %x, %x\n"
                              "  return \"y\"=%y\n"));
  CHECK(fixed.reason.find("no free batch axis") != std::string::npos);
}

TEST_CASE("sequences are padded if the model's mask hides the padding") {
  BatchRule rule = find_batch_rule(program(masked_rows));
  CHECK(rule.joins);
  CHECK(rule.length == "s");
  std::string ignores = masked_rows;
  ignores.replace(ignores.find("reduce %p"), 9, "reduce %x");
  ignores.replace(ignores.find("fn=sum"), 6, "fn=mean");
  BatchRule blind = find_batch_rule(program(ignores));
  CHECK(blind.joins);
  CHECK(blind.length.empty());
  CHECK(blind.reason.find("mask") != std::string::npos);
  CHECK(find_batch_rule(doubler()).length.empty());
}

TEST_CASE("waiting requests run together, and each gets its own rows and lengths back") {
  Program masked = program(masked_rows);
  BatchRule rule = find_batch_rule(masked);
  std::vector<Inputs> requests;
  std::vector<const Inputs*> pointers;
  std::mt19937 random(1);
  for (int i = 0; i < 12; ++i) {
    int64_t rows = random() % 4, length = 5 + random() % 5;
    std::vector<float> ones(static_cast<size_t>(rows * length), 1);
    Tensor mask = Tensor::copy(WEFT_F32, std::as_bytes(std::span(ones)), std::vector{rows, length});
    requests.push_back({numbers({rows, length}, static_cast<float>(100 * i)), mask});
  }
  for (const Inputs& request : requests) pointers.push_back(&request);
  weft::Context context = masked.new_context();
  auto answers = split(rule, context.run(Joiner(masked).join(pointers)), pointers);
  for (size_t i = 0; i < requests.size(); ++i) {
    auto alone = context.run(requests[i]);
    CHECK(std::ranges::equal(answers[i][0].as<float>(), alone[0].as<float>()));
    CHECK(std::ranges::equal(answers[i][1].dims(), alone[1].dims()));
    CHECK(std::ranges::equal(answers[i][1].as<float>(), alone[1].as<float>()));
  }
}

TEST_CASE("requests that arrive during a run share the next one") {
  Gate gate;
  Program held = gate.program();
  Batcher batcher({held}, {.max_rows = 4, .delay = {}}, rows_join);
  gate.shut();
  Asked first = ask(batcher, {numbers({1, 2}, 0)});
  gate.wait_until_entered();
  std::vector<Asked> others;
  for (int i = 0; i < 5; ++i) others.push_back(ask(batcher, {numbers({1, 2}, static_cast<float>(i))}));
  others.push_back(ask(batcher, {numbers({1, 3}, 9)}));
  gate.open();
  for (size_t i = 0; i < 5; ++i)
    CHECK(others[i].answer.get().outputs.at(0).as<float>()[1] == static_cast<float>(i + 1));
  CHECK(others[5].answer.get().outputs.at(0).dims()[1] == 3);
  CHECK(first.answer.get().code.empty());
  batcher.wait_until_idle();
  auto runs = batcher.stats().runs_by_rows;
  CHECK(runs.size() == 2);
  CHECK(runs[1].count == 3);
  CHECK(runs[4].count == 1);
  CHECK(batcher.stats().answered == 7);
}

TEST_CASE("batches wait for as many requests as usual, which few clients soon are after a burst") {
  Gate gate;
  Batcher batcher({gate.program()}, {.delay = {}}, rows_join);
  auto burst = [&](size_t count) {
    std::vector<Asked> asked;
    gate.shut();
    for (size_t i = 0; i < count; ++i) asked.push_back(ask(batcher, {numbers({1, 2}, 0)}));
    gate.open();
    for (Asked& one : asked) CHECK(one.answer.get().code.empty());
    batcher.wait_until_idle();
  };
  burst(100);
  CHECK(batcher.stats().usual > 64);
  for (size_t usual = batcher.stats().usual; usual > 4;) {
    burst(1);
    CHECK(batcher.stats().usual < usual);
    usual = std::min(usual - 1, batcher.stats().usual);
  }
  for (int round = 0; round < 5; ++round) {  // with four clients the usual number stays at four
    burst(4);
    CHECK(batcher.stats().usual == 4);
  }
  for (int round = 0; round < 5; ++round) burst(1);
  CHECK(batcher.stats().usual == 1);
}

TEST_CASE("a queue is bounded, and requests can be withdrawn") {
  Gate gate;
  Batcher batcher({gate.program()}, {.delay = {}, .max_waiting = 2}, rows_join);
  gate.shut();
  Asked running = ask(batcher, {numbers({1, 2}, 0)});
  gate.wait_until_entered();
  Asked waiting = ask(batcher, {numbers({1, 2}, 1)}), late = ask(batcher, {numbers({1, 2}, 2)}, Clock::now());
  CHECK(refusal(batcher, {numbers({1, 2}, 3)}) == "E407");
  CHECK(refusal(batcher, {numbers({1, 2, 3}, 3)}) == "E310");
  batcher.cancel(waiting.id);
  CHECK(waiting.answer.get().code == "E404");
  batcher.cancel(running.id);
  batcher.close();
  CHECK(refusal(batcher, {numbers({1, 2}, 3)}) == "E404");
  gate.open();
  CHECK(running.answer.get().code == "E404");
  CHECK(late.answer.get().code == "E403");
  batcher.wait_until_idle();
  BatchStats stats = batcher.stats();
  CHECK(stats.cancelled == 2);
  CHECK(stats.expired == 1);
  CHECK(stats.refused == 1);
  CHECK(stats.waiting + stats.running == 0);
}

TEST_CASE("a batcher that ends answers all open requests") {
  Gate gate;
  std::vector<Asked> asked;
  {
    Batcher batcher({gate.program()}, {.delay = {}}, rows_join);
    gate.shut();
    asked.push_back(ask(batcher, {numbers({1, 2}, 0)}));
    gate.wait_until_entered();
    for (int i = 0; i < 3; ++i) asked.push_back(ask(batcher, {numbers({1, 2}, 0)}));
    batcher.close();
    gate.open();
  }
  for (Asked& request : asked) CHECK(request.answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready);
}

TEST_CASE("an error of one request does not affect the others") {
  Program table = program(R"(  %i = parameter {name="i", type=i64[b]}
  %t = constant {value=f32[3]{10, 20, 30}}
  %y = gather %t, %i {axis=0}
  return "y"=%y
)");
  Batcher batcher({table}, {}, rows_join);
  auto index = [](int64_t i) {
    return Inputs{Tensor::copy(WEFT_I64, std::as_bytes(std::span(&i, 1)), std::vector<int64_t>{1})};
  };
  std::vector<Asked> asked;
  for (int64_t i : {0, 1, 7, 2}) asked.push_back(ask(batcher, index(i)));
  std::vector<Answer> answers;
  for (Asked& request : asked) answers.push_back(request.answer.get());
  CHECK(answers[2].code == "E301");
  for (size_t i : {0U, 1U, 3U}) CHECK(answers[i].code.empty());
  CHECK(answers[1].outputs[0].as<float>()[0] == 20);
  CHECK(answers[3].outputs[0].as<float>()[0] == 30);
}

TEST_CASE("nothing is lost or mixed up among clients of any size that come and go") {
  Program doubled = doubler();
  Batcher batcher({doubled, doubled}, {.max_rows = 16, .max_waiting = 100'000}, find_batch_rule(doubled));
  int each = weft::test::cases(200, 12'500);
  std::atomic<int> wrong = 0, answered = 0, cancelled = 0;
  auto client = [&](unsigned number) {
    std::mt19937 random(number);
    for (int i = 0; i < each; ++i) {
      float first = static_cast<float>(random() % 1000);
      int64_t rows = random() % 5, length = 1 + random() % 3;
      Asked asked = ask(batcher, {numbers({rows, length}, first)});
      if (random() % 4 == 0) batcher.cancel(asked.id);
      Answer answer = asked.answer.get();
      if (!answer.code.empty()) {
        ++(answer.code == "E404" ? cancelled : wrong);
        continue;
      }
      ++answered;
      auto values = answer.outputs.at(0).as<float>();
      wrong += values.size() != static_cast<size_t>(rows * length);
      for (size_t k = 0; k < values.size(); ++k) wrong += values[k] != 2 * (first + static_cast<float>(k));
    }
  };
  std::vector<std::thread> clients;
  for (unsigned i = 0; i < 8; ++i) clients.emplace_back(client, i);
  for (std::thread& thread : clients) thread.join();
  CHECK(wrong == 0);
  CHECK(answered + cancelled == 8 * each);
  BatchStats stats = batcher.stats();
  CHECK(stats.answered == static_cast<uint64_t>(answered));
  CHECK(stats.cancelled == static_cast<uint64_t>(cancelled));
}
