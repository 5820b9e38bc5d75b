// SPDX-License-Identifier: Apache-2.0
#include "frontends/common/einsum.h"

#include <algorithm>
#include <map>

#include "base/error.h"

namespace weft::frontend {
namespace {

/// A value with a label for each axis: a letter, or 128 + i for the i-th axis of "...", counted from the last axis.
struct Labelled {
  Expr value;
  std::string labels;
};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

struct Equation {
  std::vector<std::string> inputs;
  std::string output;
};

/// Replaces "..." by one label for each of `count` axes.
std::string with_ellipsis(std::string term, int64_t count) {
  size_t dots = term.find("...");
  if (dots == term.npos) return term;
  std::string labels;
  for (int64_t i = count; i-- > 0;) labels += static_cast<char>(128 + i);
  return term.replace(dots, 3, labels);
}

void check_term(const Builder& at, const std::string& term) {
  std::string rest = term;
  size_t dots = rest.find("...");
  if (dots != rest.npos) rest.erase(dots, 3);
  if (!std::ranges::all_of(rest, is_letter)) at.fail("E145", cat("term '", printable(term), "' is not of letters"));
}

/// Returns the implicit output: the labels of the ellipsis, then the letters that occur once, in alphabetical order.
std::string implied_output(const std::vector<std::string>& inputs) {
  std::map<char, int> counts;
  for (const auto& term : inputs) {
    for (char l : term) ++counts[l];
  }
  std::string ellipsis, letters;
  for (auto [label, count] : counts) {
    if (!is_letter(label)) ellipsis.insert(ellipsis.begin(), label);
    else if (count == 1) letters += label;
  }
  std::ranges::sort(ellipsis, std::greater<>(), [](char l) { return static_cast<unsigned char>(l); });
  return ellipsis + letters;
}

Equation read_equation(const Builder& at, std::string text, const std::vector<Expr>& operands) {
  std::erase(text, ' ');
  size_t arrow = text.find("->");
  Equation e;
  std::string left = text.substr(0, arrow);
  for (size_t start = 0; start <= left.size();) {
    size_t comma = std::min(left.find(',', start), left.size());
    e.inputs.push_back(left.substr(start, comma - start));
    start = comma + 1;
  }
  if (e.inputs.size() != operands.size())
    at.fail("E140", cat("equation has ", e.inputs.size(), " terms, the node ", operands.size(), " inputs"));
  int64_t most = 0;
  for (size_t i = 0; i < e.inputs.size(); ++i) {
    check_term(at, e.inputs[i]);
    bool has_dots = e.inputs[i].find("...") != std::string::npos;
    int64_t letters = std::ssize(e.inputs[i]) - (has_dots ? 3 : 0), rank = operands[i].rank();
    if (has_dots ? rank < letters : rank != letters)
      at.fail("E151", cat("term '", e.inputs[i], "' does not fit ", operands[i].value.shape()));
    if (rank - letters > 64) at.unsupported("with more than 64 axes is not supported");
    most = std::max(most, rank - letters);
    e.inputs[i] = with_ellipsis(e.inputs[i], rank - letters);
  }
  if (arrow == text.npos) {
    e.output = implied_output(e.inputs);
  } else {
    check_term(at, text.substr(arrow + 2));
    e.output = with_ellipsis(text.substr(arrow + 2), most);
  }
  return e;
}

bool holds(const std::string& labels, char label) { return labels.find(label) != labels.npos; }

/// Takes the diagonal of axes that share a label.
Labelled without_repeats(Labelled x) {
  for (size_t i = 0; i < x.labels.size(); ++i) {
    size_t other = x.labels.find(x.labels[i], i + 1);
    if (other == x.labels.npos) continue;
    const Builder& at = *x.value.at;
    int64_t rank = x.value.rank(), a = static_cast<int64_t>(i), b = static_cast<int64_t>(other);
    Expr is_diagonal =
        equal(along(iota(at, x.value.dims()[i]), a, rank), along(iota(at, x.value.dims()[other]), b, rank));
    x.value = reduce(ReduceFn::sum, select(is_diagonal, x.value, 0), {b}, false);
    x.labels.erase(other, 1);
    --i;
  }
  return x;
}

/// Sums over the axes with labels that are not in `needed`.
Labelled summed(Labelled x, const std::string& needed) {
  std::vector<int64_t> axes;
  std::string kept;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    if (holds(needed, x.labels[i])) kept += x.labels[i];
    else axes.push_back(static_cast<int64_t>(i));
  }
  if (axes.empty()) return x;
  return {reduce(ReduceFn::sum, x.value, axes, false), kept};
}

Labelled permuted(const Labelled& x, const std::string& labels) {
  std::vector<int64_t> order;
  for (char l : labels) order.push_back(static_cast<int64_t>(x.labels.find(l)));
  return {transpose(x.value, order), labels};
}

/// Returns the common size of each label in the two operands: a size of 1 is broadcast.
Dims sizes_of(const std::string& labels, const Labelled& a, const Labelled& b) {
  Dims dims;
  for (char l : labels) {
    const Labelled& first = holds(a.labels, l) ? a : b;
    Dim size = first.value.dims()[first.labels.find(l)];
    if (known_equal(size, 1) && holds(b.labels, l)) size = b.value.dims()[b.labels.find(l)];
    dims.push_back(size);
  }
  return dims;
}

/// Returns the operand as [batch..., rows, columns]. Axes of size 1 are broadcast to their label's size.
Expr as_matrices(const Labelled& x, const std::string& batch, const std::string& rows, const std::string& columns,
                 const Labelled& other) {
  Expr value = permuted(x, batch + rows + columns).value;
  Dims dims = sizes_of(batch + rows + columns, x, other);
  value = broadcast(value, dims);
  auto end_of_batch = dims.begin() + std::ssize(batch), end_of_rows = end_of_batch + std::ssize(rows);
  Dims folded(dims.begin(), end_of_batch);
  folded.push_back(product(Dims(end_of_batch, end_of_rows)));
  folded.push_back(product(Dims(end_of_rows, dims.end())));
  return reshape(value, folded);
}

Labelled multiplied(Labelled a, Labelled b, const std::string& needed) {
  a = summed(a, needed + b.labels), b = summed(b, needed + a.labels);
  std::string batch, left, right, inner;
  for (char l : a.labels) (!holds(b.labels, l) ? left : holds(needed, l) ? batch : inner) += l;
  for (char l : b.labels) {
    if (!holds(a.labels, l)) right += l;
  }
  Dims dims = sizes_of(batch + left + right, a, b);
  Expr y = matmul(as_matrices(a, batch, left, inner, b), as_matrices(b, batch, inner, right, a));
  return {reshape(y, dims), batch + left + right};
}

}  // namespace

Expr einsum(const Builder& at, const std::string& equation, const std::vector<Expr>& operands) {
  Equation e = read_equation(at, equation, operands);
  for (char l : e.output) {
    auto is_known = [l](const std::string& term) { return holds(term, l); };
    if (std::ranges::none_of(e.inputs, is_known))
      at.fail("E145", cat("equation's output has '", printable({&l, 1}), "', which no input has"));
  }
  std::vector<Labelled> parts;
  for (size_t i = 0; i < operands.size(); ++i) parts.push_back(without_repeats({operands[i], e.inputs[i]}));
  Labelled result = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) {
    std::string needed = e.output;
    for (size_t j = i + 1; j < parts.size(); ++j) needed += parts[j].labels;
    result = multiplied(result, parts[i], needed);
  }
  return permuted(summed(result, e.output), e.output).value;
}

Expr contracted(Expr a, Expr b, std::vector<int64_t> of_a, std::vector<int64_t> of_b) {
  auto matrix = [](Expr x, const std::vector<int64_t>& axes, bool first, Dims& rest) {
    std::vector<int64_t> order;
    Dim summed = 1;
    for (int64_t i = 0; i < x.rank(); ++i)
      if (std::ranges::count(axes, i) == 0) order.push_back(i), rest.push_back(x.dims()[i]);
    for (int64_t i : axes) summed = summed * x.dims()[i];
    order.insert(first ? order.end() : order.begin(), axes.begin(), axes.end());
    Dim kept = 1;
    for (int64_t i = 0; i < x.rank(); ++i)
      if (std::ranges::count(axes, i) == 0) kept = kept * x.dims()[i];
    return reshape(transpose(x, order), first ? Dims{kept, summed} : Dims{summed, kept});
  };
  Dims dims;
  Expr left = matrix(a, of_a, true, dims), right = matrix(b, of_b, false, dims);
  return reshape(matmul(left, right), dims);
}

}  // namespace weft::frontend
