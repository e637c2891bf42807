// Which bytes each command reads and writes. One place: verifier, race finder, wait derivation, timing and emission all
// go through it.
#include "backend/isa/isa.h"

namespace npuc::isa {
namespace {

using Fn = llvm::function_ref<void(const Access &)>;

void OnView(Fn fn, bool write, const View &v, std::string_view what) {
  if (v.present())
    fn({write, &v, v.address, 0, what});
}
void OnRange(Fn fn, const Address &a, int64_t bytes, std::string_view what) {
  if (bytes > 0)
    fn({false, nullptr, a, bytes, what});
}

void Stage(const std::array<StageOperand, 2> &operands, const MicroOps &stage, Fn fn) {
  for (const StageOperand &o : operands)
    OnView(fn, false, o.view, "operands");
  for (const MicroOp &m : stage)
    if (m.kind == MicroKind::Lut)
      OnRange(fn, m.lut, kLut8Bytes, "lut");
}
bool Stores(Accumulate a) {
  return a == Accumulate::Single || a == Accumulate::Finish;
}

void Visit(const End &, Fn) {}
void Visit(const Dma &d, Fn fn) {
  OnView(fn, false, d.src, "src");
  OnView(fn, true, d.dst, "dst");
}
void Visit(const Gather &g, Fn fn) {
  OnView(fn, false, g.table, "table");
  OnView(fn, false, g.indices, "indices");
  OnView(fn, true, g.out, "out");
}
void Visit(const Conv &c, Fn fn) {
  OnView(fn, false, c.in, "in");
  OnRange(fn, c.weights, c.weight_bytes, "weights");
  OnRange(fn, c.table, int64_t{c.out.c} * kTableEntryBytes, "table");
  if (!Stores(c.accumulate))
    return;
  Stage(c.operands, c.stage, fn);
  OnView(fn, true, c.out, "out");
}
void Visit(const MatMul &m, Fn fn) {
  OnView(fn, false, m.a, "a");
  if (m.b.present())
    OnView(fn, false, m.b, "b");
  else
    OnRange(fn, m.weights, m.weight_bytes, "weights");
  OnRange(fn, m.table, int64_t{m.out.c} * kTableEntryBytes, "table");
  if (!Stores(m.accumulate))
    return;
  Stage(m.operands, m.stage, fn);
  OnView(fn, true, m.out, "out");
}
void Visit(const Elem &e, Fn fn) {
  for (const View &v : e.in)
    OnView(fn, false, v, "in");
  OnView(fn, true, e.out, "out");
}
void Visit(const Lut &l, Fn fn) {
  OnView(fn, false, l.in, "in");
  OnRange(fn, l.table, LutBytes(l.in.dtype), "table");
  OnView(fn, true, l.out, "out");
}
void Visit(const Pool &p, Fn fn) {
  OnView(fn, false, p.in, "in");
  OnView(fn, true, p.out, "out");
}
void Visit(const Reduce &r, Fn fn) {
  OnView(fn, false, r.in, "in");
  if (r.combine)
    OnView(fn, false, r.out, "out");
  OnView(fn, true, r.out, "out");
}
void Visit(const Norm &n, Fn fn) {
  OnView(fn, false, n.in, "in");
  OnView(fn, false, n.gamma, "gamma");
  OnView(fn, false, n.beta, "beta");
  OnView(fn, true, n.out, "out");
}
void Visit(const Resize &r, Fn fn) {
  OnView(fn, false, r.in, "in");
  OnView(fn, true, r.out, "out");
}

// Every Address in a field list; absent views have none.
struct AddressVisitor {
  llvm::function_ref<void(Address &)> fn;
  template <class T> void operator()(const char *, T &f) { Value(f); }
  void Value(Address &a) { fn(a); }
  void Value(View &v) {
    if (v.present())
      fn(v.address);
  }
  void Value(StageOperand &o) { Value(o.view); }
  void Value(MicroOps &ops) {
    for (MicroOp &m : ops)
      if (m.kind == MicroKind::Lut)
        fn(m.lut);
  }
  template <class T, size_t N> void Value(std::array<T, N> &a) {
    for (T &e : a)
      Value(e);
  }
  template <class T> void Value(T &) {}
};

} // namespace

void ForEachAccess(const Command &c, llvm::function_ref<void(const Access &)> fn) {
  std::visit([&](const auto &body) { Visit(body, fn); }, c.body);
}

void ForEachAddress(Command &c, llvm::function_ref<void(Address &)> fn) {
  AddressVisitor v{fn};
  // A MATMUL with a dynamic B has no weights, and their unused address stays as it is.
  if (MatMul *m = std::get_if<MatMul>(&c.body); m && m->b.present()) {
    v.Value(m->a);
    v.Value(m->out);
    v.Value(m->b);
    v.Value(m->table);
    v.Value(m->operands);
    v.Value(m->stage);
    return;
  }
  std::visit([&](auto &body) { std::decay_t<decltype(body)>::Fields(body, v); }, c.body);
}

} // namespace npuc::isa
