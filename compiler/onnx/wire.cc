// SlimDown: copies a serialised ModelProto but for raw_data fields above a few hundred bytes.
//
// protobuf would copy every weight into a std::string (twice at peak) and cannot read files above 2 GiB at all. So the
// wire format is walked once: a table says which fields of which messages lead to a TensorProto; those messages are
// rebuilt (their lengths change), everything else is copied as it is. A long raw_data becomes a varint field that
// indexes a side table of ranges in the mapped file. That field's number is ours: where a file carries it itself it is
// dropped, so no file can point a tensor at bytes of another one.
//
// Cost: one pass over the file's structure (raw bytes are skipped, not touched), and each small byte is copied once per
// level of nesting, 4 or 5. The copy is in memory only as long as the parse.
#include "compiler/onnx/wire.h"

#include "compiler/support/diagnostic.h"

namespace npuc::onnx_import {
namespace {

constexpr size_t kInlineRaw = 256;             // raw_data up to this size stays in the message
constexpr uint32_t kRawIndexField = 530000001; // TensorProto.npuc_raw_index
constexpr uint64_t kMaxMessages = 40'000'000;  // a message of 2 bytes on the wire is some 200 in memory

enum Kind : uint8_t { kModel, kGraph, kNode, kAttribute, kFunction, kSparse, kTensor, kDrop, kVerbatim };

Kind SubMessage(Kind of, uint32_t field) {
  switch (of) {
  case kModel:
    return field == 7 ? kGraph : field == 25 ? kFunction : field == 20 ? kDrop : kVerbatim;
  case kGraph:
    return field == 1 ? kNode : field == 5 ? kTensor : field == 15 ? kSparse : kVerbatim;
  case kNode:
    return field == 5 ? kAttribute : kVerbatim;
  case kAttribute:
    return field == 5 || field == 10    ? kTensor
           : field == 6 || field == 11  ? kGraph
           : field == 22 || field == 23 ? kSparse
                                        : kVerbatim;
  case kFunction:
    return field == 7 ? kNode : field == 11 ? kAttribute : kVerbatim;
  case kSparse:
    return field == 1 || field == 2 ? kTensor : kVerbatim;
  default:
    return kVerbatim;
  }
}

void AppendVarint(uint64_t v, std::string &out) {
  while (v >= 0x80) {
    out.push_back(static_cast<char>(v | 0x80));
    v >>= 7;
  }
  out.push_back(static_cast<char>(v));
}

class Slimmer {
public:
  Slimmer(ByteRange file, SlimModel &out) : file_(file), model_(out) {}

  Status Walk(Kind kind, ByteRange in, int graphs, std::string &out) {
    if (kind == kGraph && ++graphs > kMaxGraphDepth)
      return Error("E0201", fmt::format("graphs are nested more than {} deep", kMaxGraphDepth),
                   "the file is damaged or not made by an exporter");
    const uint8_t *p = in.data, *end = in.data + in.size;
    while (p < end) {
      if (++fields_ > kMaxMessages * 4)
        return Bad(p, "more fields than any model has");
      const uint8_t *start = p;
      uint64_t tag;
      if (!Varint(p, end, tag) || tag > UINT32_MAX || tag >> 3 == 0)
        return Bad(start, "not a protobuf field");
      const uint32_t field = static_cast<uint32_t>(tag >> 3);
      uint64_t value = 0;
      switch (tag & 7) {
      case 0:
        if (!Varint(p, end, value))
          return Bad(start, "a number is cut short");
        break;
      case 1:
        if (end - p < 8)
          return Bad(start, "a number is cut short");
        p += 8;
        break;
      case 5:
        if (end - p < 4)
          return Bad(start, "a number is cut short");
        p += 4;
        break;
      case 2: {
        if (!Varint(p, end, value))
          return Bad(start, "a length is cut short");
        if (value > static_cast<uint64_t>(end - p))
          return Bad(start, fmt::format("a field of {} bytes, of which {} are there", value, end - p));
        const ByteRange sub{p, static_cast<size_t>(value)};
        p += value;
        const Kind sub_kind = SubMessage(kind, field);
        if (sub_kind == kDrop)
          continue;
        if (kind == kTensor && field == 9 && sub.size > kInlineRaw) {
          AppendVarint(uint64_t{kRawIndexField} << 3, out);
          AppendVarint(model_.raw.size(), out);
          model_.raw.push_back(sub);
          continue;
        }
        if (sub_kind != kVerbatim) {
          if (++messages_ > kMaxMessages)
            return Bad(start, "more messages than any model has");
          std::string rebuilt;
          NPUC_RETURN_IF_ERROR(Walk(sub_kind, sub, graphs, rebuilt));
          AppendVarint(tag, out);
          AppendVarint(rebuilt.size(), out);
          out += rebuilt;
          continue;
        }
        break;
      }
      default:
        return Bad(start, fmt::format("wire type {} is not used by ONNX", tag & 7));
      }
      if (kind == kTensor && field == kRawIndexField)
        continue;
      out.append(reinterpret_cast<const char *>(start), p - start);
    }
    return OkStatus();
  }

private:
  static bool Varint(const uint8_t *&p, const uint8_t *end, uint64_t &v) {
    v = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (p == end)
        return false;
      const uint8_t b = *p++;
      v |= uint64_t{b & 0x7fu} << (shift < 64 ? shift : 63);
      if (!(b & 0x80))
        return true;
    }
    return false;
  }

  Status Bad(const uint8_t *at, std::string_view what) const {
    return Error("E0201",
                 fmt::format("not a readable ONNX model: at byte {} of {}: {}", at - file_.data, file_.size, what),
                 "the file is cut short, damaged, or of another format; export or download it again");
  }

  ByteRange file_;
  SlimModel &model_;
  uint64_t messages_ = 0, fields_ = 0;
};

} // namespace

StatusOr<SlimModel> SlimDown(ByteRange model) {
  SlimModel slim;
  NPUC_RETURN_IF_ERROR(Slimmer(model, slim).Walk(kModel, model, 0, slim.bytes));
  return slim;
}

} // namespace npuc::onnx_import
