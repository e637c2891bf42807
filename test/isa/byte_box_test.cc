// Byte sets of views against a bitmap of their elements; which bytes commands touch.
#include "backend/isa/byte_box.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "backend/isa/isa.h"

namespace npuc::isa {
namespace {

std::set<int64_t> BytesOf(const View &v, int64_t *elements = nullptr) {
  std::set<int64_t> bytes;
  int64_t count = 0;
  const int64_t end = int64_t{v.c0} + v.c;
  const int64_t stop = v.tail == Tail::Fill ? (end + v.c_block - 1) / v.c_block * v.c_block : end;
  for (int64_t n = 0; n < v.n; ++n)
    for (int64_t h = 0; h < v.h; ++h)
      for (int64_t w = 0; w < v.w; ++w)
        for (int64_t c = 0; c < stop - v.c0; ++c, ++count)
          for (int b = 0; b < v.elem_bytes(); ++b)
            bytes.insert(v.ElementOffset(n, h, w, c) + b);
  if (elements)
    *elements = count;
  return bytes;
}
std::set<int64_t> BytesOf(const ByteBoxes &boxes) {
  std::set<int64_t> bytes;
  for (const ByteBox &b : boxes)
    b.ForEachRun([&](int64_t lo, int64_t hi) {
      for (int64_t i = lo; i < hi; ++i)
        bytes.insert(i);
    });
  return bytes;
}

View Random(std::mt19937 &rng, int64_t spread) {
  View v;
  v.dtype = rng() % 2 ? DType::I8 : DType::F16;
  v.address.offset = static_cast<int64_t>(rng() % 64);
  v.n = 1 + rng() % 3;
  v.h = 1 + rng() % 4;
  v.w = 1 + rng() % 5;
  v.c = 1 + rng() % 9;
  v.c_block = 1 + rng() % 6;
  v.c0 = rng() % v.c_block;
  v.tail = rng() % 2 ? Tail::Fill : Tail::Keep;
  for (int64_t *s : {&v.stride_n, &v.stride_c1, &v.stride_h, &v.stride_w})
    *s = static_cast<int64_t>(rng() % (2 * spread)) - (rng() % 3 ? 0 : spread);
  return v;
}

TEST(ByteBox, SetsOfRandomViews) {
  std::mt19937 rng(5);
  for (int i = 0; i < 3000; ++i) {
    const View v = Random(rng, 1 + rng() % 80);
    const std::set<int64_t> expected = BytesOf(v);
    ASSERT_EQ(BytesOf(ByteBoxesOf(v)), expected);
    ASSERT_EQ(BytesOf(ByteSetOf(v)), expected);
    const ByteRange r = BoundingBytes(v);
    EXPECT_EQ(r.lo, *expected.begin());
    EXPECT_EQ(r.hi, *expected.rbegin() + 1);
  }
}

TEST(ByteBox, OverlapOfRandomViews) {
  std::mt19937 rng(6);
  int yes = 0, no = 0;
  for (int i = 0; i < 6000; ++i) {
    const int64_t spread = 1 + rng() % 80;
    View a = Random(rng, spread), b = Random(rng, spread);
    if (rng() % 2) { // the same lattice, as two views of one tensor have
      b.stride_n = a.stride_n;
      b.stride_c1 = a.stride_c1;
      b.stride_h = a.stride_h;
      b.stride_w = a.stride_w;
    }
    b.address.offset += rng() % 30;
    const std::set<int64_t> sa = BytesOf(a), sb = BytesOf(b);
    bool expected = false, actual = false;
    for (int64_t x : sa)
      expected |= sb.contains(x);
    for (const ByteBox &x : ByteSetOf(a))
      for (const ByteBox &y : ByteSetOf(b))
        actual |= Overlaps(x, y);
    ASSERT_EQ(actual, expected) << i;
    (expected ? yes : no)++;
    const int64_t lo = static_cast<int64_t>(rng() % 200), hi = lo + 1 + static_cast<int64_t>(rng() % 4);
    bool in_range = false, found = false;
    for (int64_t x : sa)
      in_range |= x >= lo && x < hi;
    for (const ByteBox &x : ByteSetOf(a))
      found |= Overlaps(x, lo, hi);
    ASSERT_EQ(found, in_range);
  }
  EXPECT_GT(yes, 500);
  EXPECT_GT(no, 500);
}

TEST(ByteBox, AliasOfRandomViews) {
  std::mt19937 rng(8);
  int yes = 0, no = 0;
  for (int i = 0; i < 6000; ++i) {
    const View v = Random(rng, 1 + rng() % 200);
    int64_t elements = 0;
    const size_t bytes = BytesOf(v, &elements).size();
    const bool expected = static_cast<int64_t>(bytes) != elements * v.elem_bytes();
    ASSERT_EQ(AliasesItself(v), expected) << i;
    (expected ? yes : no)++;
  }
  EXPECT_GT(yes, 500);
  EXPECT_GT(no, 500);
}

TEST(ByteBox, DenseTensorsAreOneRun) {
  const Address a{Region::Sram, 0, 64};
  for (const View &v : {NhwcView(a, DType::F16, 2, 3, 5, 7), NchwView(a, DType::F16, 2, 3, 5, 7),
                        BlockedView(a, DType::F16, 2, 3, 5, 16, 8)}) {
    const ByteBoxes s = ByteSetOf(v);
    ASSERT_EQ(s.size(), 1u);
    EXPECT_EQ(s[0].num_dims, 0);
    EXPECT_EQ(s[0].base, 64);
    EXPECT_EQ(s[0].run, v.elements() * 2);
  }
}

// Channel slices of a large NHWC tensor: millions of runs that interleave without meeting.
TEST(ByteBox, ChannelSlicesOfALargeTensorDoNotMeet) {
  const View t = NhwcView({Region::Arena, 0, 0}, DType::I8, 1, 2000, 2000, 64);
  const View a = t.Sub(0, 0, 0, 0, 1, 2000, 2000, 32), b = t.Sub(0, 0, 0, 32, 1, 2000, 2000, 32),
             c = t.Sub(0, 1999, 1999, 31, 1, 1, 1, 1);
  auto meet = [](const View &x, const View &y) { return Overlaps(ByteSetOf(x)[0], ByteSetOf(y)[0]); };
  EXPECT_FALSE(meet(a, b));
  EXPECT_TRUE(meet(a, c));
  EXPECT_FALSE(meet(b, c));
  EXPECT_FALSE(AliasesItself(a));
}

TEST(Accesses, PartialAccumulationsDoNotTouchTheOutput) {
  Conv conv;
  conv.in = NhwcView({}, DType::I8, 1, 4, 4, 16);
  conv.out = NhwcView({}, DType::I8, 1, 4, 4, 8);
  conv.weight_bytes = 256;
  conv.operands[0].view = conv.out;
  conv.stage.resize(2);
  conv.stage[1].kind = MicroKind::Lut;
  auto list = [](const CommandBody &body) {
    std::string s;
    Command c;
    c.body = body;
    ForEachAccess(c, [&](const Access &a) { s += fmt::format("{}{}:{} ", a.write ? "w " : "r ", a.what, a.bytes); });
    return s;
  };
  EXPECT_EQ(list(conv), "r in:0 r weights:256 r table:128 r operands:0 r lut:256 w out:0 ");
  conv.accumulate = Accumulate::Start;
  EXPECT_EQ(list(conv), "r in:0 r weights:256 r table:128 ");
  Reduce r;
  r.in = conv.in;
  r.out = conv.out;
  r.combine = true;
  EXPECT_EQ(list(r), "r in:0 r out:0 w out:0 ");
  Lut lut;
  lut.in = lut.out = NhwcView({}, DType::I16, 1, 1, 1, 8);
  EXPECT_EQ(list(lut), "r in:0 r table:1026 w out:0 ");
}

TEST(Accesses, AddressesCanBeReplaced) {
  Elem e;
  e.out = NhwcView({Region::Buffer, 1, 8}, DType::I8, 1, 1, 1, 8);
  e.in[0] = NhwcView({Region::Buffer, 2, 16}, DType::I8, 1, 1, 1, 8);
  e.in[1].address = {Region::Buffer, 9, 0}; // absent
  Command c;
  c.body = e;
  int count = 0;
  ForEachAddress(c, [&](Address &a) {
    ++count;
    a = {Region::Sram, 0, a.offset + int64_t{a.index} * 1000};
  });
  EXPECT_EQ(count, 2);
  EXPECT_EQ(std::get<Elem>(c.body).out.address.offset, 1008);
  EXPECT_EQ(std::get<Elem>(c.body).in[0].address.offset, 2016);
}

} // namespace
} // namespace npuc::isa
