#include "backend/isa/names.h"

#include "compiler/support/status.h"

namespace npuc::isa {

std::string_view Name(ElemFn f) {
  return EnumName(f);
}
std::string_view Name(Opcode o) {
  return EnumName(o);
}
std::string_view Name(Engine e) {
  return EnumName(e);
}
std::string_view Name(Region r) {
  return EnumName(r);
}

VpuFunction PassesRow(ElemFn f) {
  static constexpr VpuFunction rows[] = {
#define NPUC_X(name, row) ParseVpuFunction(#row).value(),
      NPUC_ELEM_FUNCTIONS(NPUC_X)
#undef NPUC_X
  };
  NPUC_CHECK(static_cast<size_t>(f) < std::size(rows), "function {}", static_cast<int>(f));
  return rows[static_cast<size_t>(f)];
}

int NumOperands(ElemFn f) {
  switch (f) {
  case ElemFn::Select:
    return 3;
  case ElemFn::Add:
  case ElemFn::Sub:
  case ElemFn::Mul:
  case ElemFn::Div:
  case ElemFn::Mod:
  case ElemFn::Fmod:
  case ElemFn::Min:
  case ElemFn::Max:
  case ElemFn::Pow:
  case ElemFn::Equal:
  case ElemFn::Less:
  case ElemFn::LessEqual:
  case ElemFn::Greater:
  case ElemFn::GreaterEqual:
  case ElemFn::And:
  case ElemFn::Or:
  case ElemFn::Xor:
  case ElemFn::PRelu:
    return 2;
  default:
    return 1;
  }
}

Opcode OpcodeOf(const Command &c) {
  return std::visit([](const auto &b) { return std::decay_t<decltype(b)>::kOpcode; }, c.body);
}

} // namespace npuc::isa
