#include <gtest/gtest.h>

#include <limits>

#include "compiler/types/tensor.h"
#include "compiler/types/type.h"

namespace npuc {
namespace {

// ---- DType

TEST(DType, NumberingIsOnnx) {
  // TensorProto.DataType of onnx.proto
  EXPECT_EQ(static_cast<int>(DType::F32), 1);
  EXPECT_EQ(static_cast<int>(DType::I64), 7);
  EXPECT_EQ(static_cast<int>(DType::F16), 10);
  EXPECT_EQ(static_cast<int>(DType::BF16), 16);
  EXPECT_EQ(static_cast<int>(DType::I4), 22);
  EXPECT_EQ(static_cast<int>(DType::F4E2M1), 23);
}

TEST(DType, SizesClassesNames) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const DType t = static_cast<DType>(i);
    EXPECT_EQ(ParseDType(Name(t)), t);
    EXPECT_LE(IsFloat(t) + IsSignedInt(t) + IsUnsignedInt(t) + IsComplex(t), 1) << Name(t);
    if (BitWidth(t) >= 8)
      EXPECT_EQ(BitWidth(t), 8 * ByteSize(t)) << Name(t);
    if (BitWidth(t) != 0 && BitWidth(t) < 8)
      EXPECT_EQ(ByteSize(t), 1) << Name(t);
  }
  EXPECT_EQ(ParseDType("float"), std::nullopt);
  EXPECT_EQ(ByteSize(DType::C128), 16);
  EXPECT_EQ(BitWidth(DType::U2), 2);
  EXPECT_EQ(ByteSize(DType::String), 0);
  EXPECT_FALSE(IsInt(DType::Bool));
  EXPECT_TRUE(IsFloat(DType::F8E8M0));
  EXPECT_EQ(OnnxName(DType::F64), "double");
}

TEST(DType, IntegerRanges) {
  EXPECT_EQ(IntMin(DType::I2), -2);
  EXPECT_EQ(IntMax(DType::I2), 1);
  EXPECT_EQ(IntMin(DType::I4), -8);
  EXPECT_EQ(IntMax(DType::U4), 15);
  EXPECT_EQ(IntMin(DType::U8), 0);
  EXPECT_EQ(IntMax(DType::U8), 255);
  EXPECT_EQ(IntMin(DType::I32), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(IntMax(DType::U32), 4294967295);
  EXPECT_EQ(IntMin(DType::I64), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(IntMax(DType::I64), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(IntMax(DType::Bool), 1);
}

// ---- Shape

TEST(Dim, SymbolsAreEqualByNameTheUnknownIsNot) {
  EXPECT_EQ(Dim::Symbol("batch"), Dim::Symbol("batch"));
  EXPECT_FALSE(Dim::Symbol("batch") == Dim::Symbol("n"));
  EXPECT_FALSE(Dim::Unknown() == Dim::Unknown());
  EXPECT_FALSE(Dim::Symbol("") == Dim::Symbol(""));
  EXPECT_FALSE(Dim(3) == Dim::Symbol("3"));
  EXPECT_EQ(Dim(3), Dim(3));
}

TEST(Shape, Basics) {
  const Shape s({2, 3, 4});
  EXPECT_TRUE(s.is_static());
  EXPECT_EQ(s.num_elements(), 24);
  EXPECT_EQ(s.ToString(), "[2,3,4]");
  EXPECT_EQ(Shape().num_elements(), 1);
  EXPECT_EQ(Shape().ToString(), "[]");
  EXPECT_EQ(Shape::Unranked().ToString(), "[*]");
  EXPECT_FALSE(Shape::Unranked().is_static());
  EXPECT_EQ(Shape::Unranked(), Shape::Unranked());
  EXPECT_FALSE(Shape::UnknownDims(1) == Shape::UnknownDims(1));
  EXPECT_EQ(Shape::UnknownDims(2).ToString(), "[?,?]");
  EXPECT_EQ(RowMajorStrides({2, 3, 4}), (Dims{12, 4, 1}));
}

TEST(Shape, CheckedNumElements) {
  EXPECT_EQ(CheckedNumElements({}), 1);
  EXPECT_EQ(CheckedNumElements({0, int64_t{1} << 60, int64_t{1} << 60}), 0);
  EXPECT_EQ(CheckedNumElements({int64_t{1} << 31, int64_t{1} << 31}), int64_t{1} << 62);
  EXPECT_EQ(CheckedNumElements({int64_t{1} << 32, int64_t{1} << 31}), std::nullopt);
  EXPECT_EQ(CheckedNumElements({int64_t{1} << 32, int64_t{1} << 32}), std::nullopt);
  EXPECT_EQ(CheckedNumElements({2, -1}), std::nullopt);
  EXPECT_EQ(CheckedNumElements({0, -1}), std::nullopt);
}

std::string Broadcast(const Shape &a, const Shape &b) {
  auto s = BroadcastShapes(a, b);
  return s ? s->ToString() : "clash";
}

TEST(Shape, BroadcastFollowsNumpy) {
  const Dim n = Dim::Symbol("n"), m = Dim::Symbol("m"), q = Dim::Unknown();
  auto sym = [](std::initializer_list<Dim> d) { return Shape(llvm::ArrayRef<Dim>(d.begin(), d.size())); };
  EXPECT_EQ(Broadcast({2, 3, 4, 5}, Shape()), "[2,3,4,5]");
  EXPECT_EQ(Broadcast({4, 5}, {2, 3, 4, 5}), "[2,3,4,5]");
  EXPECT_EQ(Broadcast({4, 1}, {1, 5}), "[4,5]");
  EXPECT_EQ(Broadcast({3, 4, 5}, {2, 1, 1, 1}), "[2,3,4,5]");
  EXPECT_EQ(Broadcast({2, 3}, {3, 2}), "clash");
  EXPECT_EQ(Broadcast({0}, {1}), "[0]");
  EXPECT_EQ(Broadcast({0}, {2}), "clash");
  EXPECT_EQ(Broadcast(sym({n, 3}), {1, 3}), "[n,3]");
  EXPECT_EQ(Broadcast(sym({n, 3}), {5, 3}), "[5,3]"); // n is 1 or 5
  EXPECT_EQ(Broadcast(sym({n}), sym({n})), "[n]");
  EXPECT_EQ(Broadcast(sym({n}), sym({m})), "[?]");
  EXPECT_EQ(Broadcast(sym({q}), {1}), "[?]");
  EXPECT_EQ(Broadcast(Shape::Unranked(), {1}), "[*]");
}

// ---- Type

TEST(Type, TextAndEquality) {
  const Type f = Type::Tensor(DType::F32, Shape({1, 3, 224, 224}));
  EXPECT_EQ(f.ToString(), "f32[1,3,224,224]");
  EXPECT_EQ(f.num_bytes(), 4 * 3 * 224 * 224);
  const Type q = Type::Tensor(DType::U8, Shape({1, 8}), PerTensorQuant(0.5f, 128));
  EXPECT_EQ(q.ToString(), "u8[1,8]{s=0.5,z=128}");
  EXPECT_EQ(q, Type::Tensor(DType::U8, Shape({1, 8}), PerTensorQuant(0.5f, 128)));
  EXPECT_FALSE(q == Type::Tensor(DType::U8, Shape({1, 8})));
  EXPECT_FALSE(q == Type::Tensor(DType::U8, Shape({1, 8}), PerTensorQuant(0.5f, 127)));
  const Type a = Type::Tensor(DType::I8, Shape({2, 3}),
                              std::make_shared<const QuantParams>(QuantParams{{0.5f, 0.25f}, {0, 1}, 0}));
  EXPECT_EQ(a.ToString(), "i8[2,3]{axis=0,s=(0.5,0.25),z=(0,1)}");
  EXPECT_EQ(Type::Tensor(DType::F16, Shape({1, 8, 4, 4}), nullptr, Layout::NHWC).ToString(), "f16[1,8,4,4]:NHWC");
  EXPECT_EQ(Type::Optional(Type::Sequence(f)).ToString(), "opt<seq<f32[1,3,224,224]>>");
  EXPECT_EQ(Type::Map(DType::I64, Type::Tensor(DType::F32, Shape())).ToString(), "map<i64,f32[]>");
  EXPECT_EQ(Type().ToString(), "none");
  EXPECT_EQ(Type(), Type());
  EXPECT_FALSE(Type::Sequence(f) == Type::Optional(f));
}

TEST(QuantParams, PerTensorAndPerAxis) {
  const QuantParams p{{0.5f}, {3}, -1};
  EXPECT_EQ(p.scale(7), 0.5f);
  EXPECT_EQ(p.zero_point(7), 3);
  const QuantParams a{{0.5f, 2.0f}, {3, 4}, 1};
  EXPECT_EQ(a.scale(1), 2.0f);
  EXPECT_EQ(a.zero_point(1), 4);
  EXPECT_TRUE(SameQuant(nullptr, nullptr));
  EXPECT_FALSE(SameQuant(nullptr, PerTensorQuant(1, 0)));
}

// ---- Tensor

TEST(Tensor, AllocateIsZeroAndSharesOnCopy) {
  Tensor t = Tensor::Allocate(DType::I32, {2, 2});
  EXPECT_EQ(t.AsInt(3), 0);
  t.mutable_data<int32_t>()[3] = -5;
  const Tensor u = t;
  EXPECT_EQ(u.bytes(), t.bytes());
  EXPECT_EQ(u.Reshaped({4}).AsInt(3), -5);
  EXPECT_EQ(u.Reinterpreted(DType::U32).AsDouble(3), 4294967291.0);
  EXPECT_FALSE(static_cast<bool>(Tensor()));
  EXPECT_EQ(Tensor::Allocate(DType::F32, {0, 7}).num_stored_bytes(), 0);
}

TEST(Tensor, SplatsStandForAllElements) {
  const float v = 1.5f;
  const Tensor s = Tensor::Splat(DType::F32, {1000000, 1000000}, &v);
  EXPECT_EQ(s.num_elements(), 1000000000000);
  EXPECT_EQ(s.num_stored_bytes(), 4);
  EXPECT_EQ(s.AsDouble(999999999999), 1.5);
  const Tensor small = Tensor::Splat(DType::F32, {3}, &v), plain = small.Expand();
  EXPECT_FALSE(plain.is_splat());
  EXPECT_EQ(plain.values<float>().size(), 3u);
  EXPECT_EQ(plain.data<float>()[2], 1.5f);
  EXPECT_TRUE(small.SameBits(plain));
  EXPECT_TRUE(plain.SameBits(small));
}

TEST(Tensor, SameBitsIsAboutBits) {
  EXPECT_FALSE(Tensor::ScalarF32(0.0f).SameBits(Tensor::ScalarF32(-0.0f)));
  EXPECT_TRUE(Tensor::ScalarF32(std::numeric_limits<float>::quiet_NaN())
                  .SameBits(Tensor::ScalarF32(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_FALSE(Tensor::ScalarF32(1.0f).SameBits(Tensor::ScalarF32(1.0f).Reinterpreted(DType::I32)));
  EXPECT_FALSE(Tensor::OfI64({1}).SameBits(Tensor::ScalarI64(1)));
  EXPECT_TRUE(Tensor::Strings({2}, {"a", "b"}).SameBits(Tensor::Strings({2}, {"a", "b"})));
  EXPECT_FALSE(Tensor::Strings({2}, {"a", "b"}).SameBits(Tensor::Strings({2}, {"a", "c"})));
  EXPECT_TRUE(Tensor::Allocate(DType::F32, {0}).SameBits(Tensor::Allocate(DType::F32, {0})));
}

TEST(Tensor, HashFollowsContent) {
  EXPECT_EQ(Tensor::OfI64({1, 2}).Hash(), Tensor::OfI64({1, 2}).Hash());
  EXPECT_NE(Tensor::OfI64({1, 2}).Hash(), Tensor::OfI64({2, 1}).Hash());
  EXPECT_NE(Tensor::OfI64({1, 2}).Hash(), Tensor::OfI64({1, 2}).Reshaped({2, 1}).Hash());
  EXPECT_NE(Tensor::OfI64({1, 2}).Hash(), Tensor::OfI64({1, 2}).Reinterpreted(DType::U64).Hash());
  EXPECT_NE(Tensor::Strings({2}, {"a", "bc"}).Hash(), Tensor::Strings({2}, {"ab", "c"}).Hash());
}

TEST(Tensor, ReadsEveryNumericType) {
  EXPECT_EQ(Tensor::Of<uint16_t>(DType::F16, {1}, {0xc000}).AsDouble(0), -2.0);
  EXPECT_EQ(Tensor::Of<uint16_t>(DType::BF16, {1}, {0x3f80}).AsDouble(0), 1.0);
  EXPECT_EQ(Tensor::Of<int8_t>(DType::I4, {1}, {-8}).AsInt(0), -8);
  EXPECT_EQ(Tensor::Of<uint8_t>(DType::Bool, {1}, {1}).AsDouble(0), 1.0);
  EXPECT_EQ(Tensor::Of<uint64_t>(DType::U64, {1}, {~uint64_t{0}}).AsDouble(0), 18446744073709551616.0);
  EXPECT_EQ(Tensor::Of<double>(DType::F64, {1}, {-2.75}).AsInt(0), -2);
}

TEST(Tensor, ViewsKeepTheirOwner) {
  auto owner = std::make_shared<std::vector<float>>(std::vector<float>{1, 2});
  std::weak_ptr<std::vector<float>> watch = owner;
  Tensor t = Tensor::View(DType::F32, {2}, owner->data(), owner);
  owner.reset();
  EXPECT_EQ(t.AsDouble(1), 2.0);
  t = Tensor();
  EXPECT_TRUE(watch.expired());
}

} // namespace
} // namespace npuc
