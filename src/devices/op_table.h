// The ops that a device runs: a handler for each kind that it has code for. covers() refuses the first op of another
// kind by name, before anything of a program runs. The DSP's table has no such refusal: its host runs all other kinds.
#pragma once
#include <array>
#include <initializer_list>
#include <string_view>

#include "graph/program.h"

namespace llada {

template <class Handler>
class OpTable {
 public:
  struct Row {
    OpKind kind;
    Handler handler;
  };
  constexpr OpTable(std::initializer_list<Row> rows) {
    for (const Row& row : rows) handlers_[static_cast<size_t>(row.kind)] = row.handler;
  }
  // Null: there is none.
  constexpr Handler operator[](OpKind kind) const {
    const auto k = static_cast<size_t>(kind);
    return k < handlers_.size() ? handlers_[k] : Handler{};
  }

  Status covers(const Program& program, std::string_view device) const {
    for (size_t i = 0; i < program.ops.size(); ++i)
      if ((*this)[program.ops[i].kind] == nullptr)
        return failed("{}: op {} ({}) is not supported by this device", device, i, name(program.ops[i].kind));
    return {};
  }

 private:
  std::array<Handler, kOpKindCount> handlers_{};
};

}  // namespace llada
