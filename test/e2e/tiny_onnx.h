// Just enough of the protobuf wire format to write small ONNX models in tests, good and bad ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace npuc::e2e {

class Message {
public:
  Message &Int(int field, uint64_t value) {
    Varint(uint64_t(field) << 3);
    Varint(value);
    return *this;
  }
  Message &Bytes(int field, const std::string &value) {
    Varint(uint64_t(field) << 3 | 2);
    Varint(value.size());
    text_ += value;
    return *this;
  }
  Message &Sub(int field, const Message &m) { return Bytes(field, m.text_); }
  const std::string &text() const { return text_; }

private:
  void Varint(uint64_t v) {
    for (; v >= 0x80; v >>= 7)
      text_ += static_cast<char>(v | 0x80);
    text_ += static_cast<char>(v);
  }
  std::string text_;
};

// A value of f32; an extent is a number or, when negative, the symbol "N".
inline Message ValueInfo(const std::string &name, const std::vector<int64_t> &dims) {
  Message shape;
  for (int64_t d : dims)
    shape.Sub(1, d >= 0 ? Message().Int(1, static_cast<uint64_t>(d)) : Message().Bytes(2, "N"));
  return Message().Bytes(1, name).Sub(2, Message().Sub(1, Message().Int(1, 1).Sub(2, shape)));
}

struct TinyNode {
  std::string op, name;
  std::vector<std::string> inputs, outputs;
};

// One graph, opset 17, f32 inputs and outputs.
inline std::string TinyModel(const std::vector<TinyNode> &nodes,
                             const std::vector<std::pair<std::string, std::vector<int64_t>>> &inputs,
                             const std::vector<std::pair<std::string, std::vector<int64_t>>> &outputs,
                             uint64_t opset = 17) {
  Message graph;
  for (const TinyNode &n : nodes) {
    Message node;
    for (const std::string &i : n.inputs)
      node.Bytes(1, i);
    for (const std::string &o : n.outputs)
      node.Bytes(2, o);
    node.Bytes(3, n.name).Bytes(4, n.op);
    graph.Sub(1, node);
  }
  graph.Bytes(2, "g");
  for (const auto &[name, dims] : inputs)
    graph.Sub(11, ValueInfo(name, dims));
  for (const auto &[name, dims] : outputs)
    graph.Sub(12, ValueInfo(name, dims));
  return Message().Int(1, 8).Sub(7, graph).Sub(8, Message().Bytes(1, "").Int(2, opset)).text();
}

} // namespace npuc::e2e
