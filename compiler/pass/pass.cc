#include "compiler/pass/pass.h"

#include <cstring>

namespace npuc {
namespace {

// A flag's value as a shell takes it.
std::string ShellQuoted(std::string_view s) {
  if (!s.empty() && s.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,@%+-") ==
                        std::string_view::npos)
    return std::string(s);
  std::string out = "'";
  for (char c : s) {
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  }
  return out + "'";
}

} // namespace

std::string PassOptions::ToFlags() const {
  const PassOptions standard;
  std::string out;
  auto flag = [&](std::string_view name, std::string_view value) {
    out += fmt::format(" {}={}", name, ShellQuoted(value));
  };
  if (precision != standard.precision)
    flag("--precision", Name(precision));
  if (have_samples)
    out += " --have-samples";
  if (opt_level != standard.opt_level)
    out += fmt::format(" -O{}", opt_level);
  if (max_fusion_chain != standard.max_fusion_chain)
    flag("--max-fusion-chain", std::to_string(max_fusion_chain));
  for (const OpSelector &s : deny_ops)
    flag("--deny-op", s.text);
  for (const OpSelector &s : preferred_ops)
    flag("--prefer-op", s.text);
  for (const std::string &id : deny_nodes)
    flag("--deny-node", id);
  for (const auto &[id, tile] : tiles)
    flag("--tile", fmt::format("{}={}x{}", id, tile.first, tile.second));
  if (native_io)
    out += " --io=native";
  return out;
}

Tensor PassContext::Unconverted(DType dtype, llvm::ArrayRef<int64_t> dims) {
  Tensor t = Tensor::Allocate(dtype, dims); // pages that nobody writes to take no memory
  ++unconverted_;
  std::memcpy(t.mutable_bytes(), &unconverted_, std::min<int64_t>(sizeof unconverted_, t.num_stored_bytes()));
  return t;
}

void PassContext::Count(std::string_view name, int64_t n) {
  if (n == 0)
    return;
  auto it = counters_.find(name);
  if (it == counters_.end())
    it = counters_.emplace(std::string(name), 0).first;
  it->second += n;
}

void PassContext::AddRemark(const Node &node, std::string message) {
  Remark r{std::string(pass), node.Label(), std::move(message)};
  if (remark_keys_.insert(fmt::format("{}\n{}\n{}", r.pass, r.node, r.message)).second)
    remarks_.push_back(std::move(r));
}

void PassContext::AddReasons(const Origin &nodes, llvm::ArrayRef<Violation> why) {
  for (OriginId id : nodes) {
    std::vector<Violation> &all = reasons_[id];
    for (const Violation &v : why) {
      const auto same = [&](const Violation &o) { return o.rule == v.rule && o.message == v.message; };
      if (std::none_of(all.begin(), all.end(), same))
        all.push_back(v);
    }
  }
}

} // namespace npuc
