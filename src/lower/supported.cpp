// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <set>

#include "base/error.h"
#include "lower/families.h"
#include "lower/kernel_builder.h"
#include "lower/lower.h"
#include "ops/host.h"

namespace weft {

/// Returns for each body the instruction that it belongs to.
static std::map<const Module*, const Instruction*> owners_of(const Program& program) {
  std::map<const Module*, const Instruction*> owners;
  for (const auto& module : program.modules()) {
    for (const Instruction& i : *module) {
      for (const Module* body : i.modules) owners[body] = &i;
    }
  }
  return owners;
}

/// Returns why kernels cannot address the type of an operand or result; empty if they can address all types.
static std::string why_no_type(const Instruction& i) {
  const Family& family = family_of(i);
  auto refused = [&](const Type& type) {
    if (!type.is_tensor()) return family.takes_containers ? std::string() : cat("values ", type);
    DType t = type.shape.dtype;
    bool is_narrow = is_packed_type(t) && !family.takes_packed;
    bool is_refused = is_narrow || is_complex(t) || (t == DType::string && !takes_strings(i.op));
    return is_refused ? cat("elements of ", t) : std::string();
  };
  for (const Value& input : i.inputs) {
    if (std::string why = refused(input.type()); !why.empty()) return why;
  }
  for (const Type& type : i.types) {
    if (std::string why = refused(type); !why.empty()) return why;
  }
  return {};
}

/// Returns why no target but the reference interpreter can run an instruction; empty if another target can.
static std::string why_nowhere(const Instruction& i) {
  if (is_leaf(i)) return {};
  if (std::string why = why_no_type(i); !why.empty()) return why;
  const Family& family = family_of(i);
  if (!family.lower) return "no kernel for this operator";
  return family.why_not ? family.why_not(i) : std::string();
}

std::vector<Unsupported> unsupported(const Program& program) {
  auto owners = owners_of(program);
  std::vector<Unsupported> list;
  for (const auto& module : program.modules()) {
    for (const Instruction& i : *module) {
      std::string why = why_nowhere(i);
      if (why.empty()) continue;
      const Instruction* outer = &i;
      for (auto owner = owners.find(outer->parent); owner != owners.end(); owner = owners.find(outer->parent))
        outer = owner->second;
      list.push_back({std::string(display_name(i.op)), i.source, outer->source, why});
    }
  }
  return list;
}

void refuse_unsupported(const Program& program, const Chip& chip) {
  std::set<std::string> named;
  std::string list;
  for (const Unsupported& refused : unsupported(program)) {
    std::string place = refused.source.empty() ? cat(refused.what, " of the program") : refused.source;
    if (named.insert(place).second) list += cat(list.empty() ? "" : "\n   ", place, ": ", refused.why);
  }
  if (list.empty()) return;
  throw Error({.kind = ErrorKind::unsupported,
               .code = "E402",
               .what = cat("there is no kernel for some operators on ", chip.arch),
               .why = list,
               .hint = "--device ref runs everything, slowly"});
}

}  // namespace weft
