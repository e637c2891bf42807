// Small hand-made models: y = relu(x) + c on the NPU, and host steps around it.
#pragma once

#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#include <gtest/gtest.h>

#include "backend/container/model_file.h"
#include "backend/isa/isa.h"
#include "compiler/ir/graph.h"
#include "compiler/target/target.h"

namespace npuc::runtime {

inline isa::View Line(isa::Region region, uint32_t index, int64_t offset, DType t, uint32_t n) {
  return isa::NhwcView({region, index, offset}, t, 1, 1, 1, n);
}
inline isa::Command Copy(isa::Engine e, isa::View from, isa::View to, std::array<uint32_t, 4> wait = {}) {
  return {.engine = e, .wait = wait, .body = isa::Dma{.src = from, .dst = to}};
}

// f16[16] -> f16[16]: LD x, VPU y = max(x, 0) + 1 in two commands, ST y.
inline isa::Stream ReluPlusOne(isa::Address x, isa::Address y) {
  using isa::Engine;
  const isa::View sx = Line(isa::Region::Sram, 0, 0, DType::F16, 16),
                  st = Line(isa::Region::Sram, 0, 64, DType::F16, 16);
  const isa::View sy = Line(isa::Region::Sram, 0, 128, DType::F16, 16);
  isa::Elem relu{.fn = isa::ElemFn::Max, .out = st};
  relu.in[0] = sx;
  isa::Elem add{.fn = isa::ElemFn::Add, .out = sy};
  add.in[0] = st;
  add.scalar[1] = 1;
  isa::Stream s;
  s.push_back(Copy(Engine::LD, isa::NhwcView(x, DType::F16, 1, 1, 1, 16), sx));
  s.push_back({.engine = Engine::VPU, .wait = {1, 0, 0, 0}, .body = relu});
  s.push_back({.engine = Engine::VPU, .body = add});
  s.push_back(Copy(Engine::ST, sy, isa::NhwcView(y, DType::F16, 1, 1, 1, 16), {0, 0, 0, 2}));
  s.push_back({.engine = Engine::LD, .body = isa::End{}});
  return s;
}

inline container::ModelFile EmptyModel() {
  container::ModelFile m;
  const Target t = *Target::FromPreset("edge-2t");
  m.target_name = t.name;
  m.target_text = t.ToCanonicalYaml();
  m.origins = {"relu", "add", "host"};
  m.layers = {{.id = 0, .name = "relu", .op = "Add", .origins = {0, 1}}};
  m.sram_bytes = 4096;
  return m;
}
inline container::IoTensor Half16(std::string name) {
  return {.name = std::move(name), .type = Type::Tensor(DType::F16, Shape{16}), .bytes = 32};
}

inline container::ModelFile NpuModel() {
  container::ModelFile m = EmptyModel();
  m.inputs = {Half16("x")};
  m.outputs = {Half16("y")};
  m.steps.push_back(container::NpuStep{ReluPlusOne({isa::Region::Io, 0, 0}, {isa::Region::Io, 1, 0})});
  return m;
}

// NPU into the arena, then a host step z = Concat(y, w) with w constant in the const section, f16[32].
inline container::ModelFile NpuThenHostModel() {
  container::ModelFile m = EmptyModel();
  m.inputs = {Half16("x")};
  m.outputs = {{.name = "z", .type = Type::Tensor(DType::F16, Shape{48}), .bytes = 96}};
  m.arena_bytes = 64;
  m.steps.push_back(container::NpuStep{ReluPlusOne({isa::Region::Io, 0, 0}, {isa::Region::Arena, 0, 0})});
  Module module;
  Value *y = module.main().AddInput("y", Type::Tensor(DType::F16, Shape{16}));
  Tensor w = Tensor::Allocate(DType::F16, {32});
  for (int i = 0; i < 32; ++i)
    w.mutable_data<uint16_t>()[i] = static_cast<uint16_t>(0x3c00 + i);
  Value *c = module.main().AddConstant(w, "w");
  Node *concat = module.main().AddNode(LookupOp("", "Concat"), {y, c}, 1, {}, nullptr, {"z"});
  concat->attrs().Set("axis", int64_t{0});
  concat->result()->set_type(Type::Tensor(DType::F16, Shape{48}));
  module.main().AddOutput(concat->result());
  container::HostStep host;
  host.ir = PrintWithExternal(module, [](const Tensor &t) -> std::optional<ExternalRange> {
    return ExternalRange{64, t.num_stored_bytes()};
  });
  host.inputs = {{.name = "y", .type = y->type(), .address = {isa::Region::Arena, 0, 0}}};
  host.outputs = {{.name = "z", .type = m.outputs[0].type, .address = {isa::Region::Io, 1, 0}}};
  host.nodes = {{.op = "Concat", .origins = {2}}};
  m.steps.push_back(std::move(host));
  auto kept = std::make_shared<Tensor>(w);
  m.const_pieces = {{.offset = 64, .data = kept->bytes(), .bytes = 64, .owner = kept}};
  m.const_bytes = 128;
  return m;
}

// A host step alone on a value of free shape: y = x + x, f32[n].
inline container::ModelFile FreeShapeModel() {
  container::ModelFile m = EmptyModel();
  m.layers.clear();
  Shape shape;
  shape.push_back(Dim::Symbol("n"));
  const Type type = Type::Tensor(DType::F32, shape);
  m.inputs = {{.name = "x", .type = type, .slot = 0}};
  m.outputs = {{.name = "y", .type = type, .slot = 1}};
  m.num_slots = 2;
  Module module;
  Value *x = module.main().AddInput("x", type);
  Node *add = module.main().AddNode(LookupOp("", "Add"), {x, x}, 1, {}, nullptr, {"y"});
  add->result()->set_type(type);
  module.main().AddOutput(add->result());
  container::HostStep host;
  host.ir = Print(module);
  host.inputs = {{.name = "x", .type = type, .slot = 0}};
  host.outputs = {{.name = "y", .type = type, .slot = 1}};
  host.nodes = {{.op = "Add", .origins = {2}}};
  m.steps.push_back(std::move(host));
  return m;
}

} // namespace npuc::runtime
