// The files in test/support/data were written by numpy 1.24.
#include "compiler/support/npy.h"

#include "compiler/support/atomic_file.h"
#include "compiler/support/diagnostic.h"
#include "test/temp_folder.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

namespace npuc {
namespace {

const std::string kData = NPUC_SOURCE_DIR "/test/support/data/";

NpyArray Read(const std::string &name) {
  StatusOr<NpyArray> a = ReadNpy(kData + name);
  EXPECT_TRUE(a.ok()) << Render(FromStatus(a.status()));
  return a.ok() ? *a : NpyArray();
}

template <typename T> std::vector<T> Values(const NpyArray &a) {
  std::vector<T> out(a.bytes.size() / sizeof(T));
  std::memcpy(out.data(), a.bytes.data(), a.bytes.size());
  return out;
}

std::vector<float> Ramp() {
  std::vector<float> out;
  for (int i = 0; i < 24; ++i)
    out.push_back(float(i) * 0.5f - 3);
  return out;
}

using Dims = std::vector<int64_t>;

TEST(Npy, ReadsWhatNumpyWrites) {
  const NpyArray a = Read("c_f4.npy");
  EXPECT_EQ(a.descr, "<f4");
  EXPECT_EQ(a.kind(), 'f');
  EXPECT_EQ(a.item_size, 4);
  EXPECT_EQ(a.shape, (Dims{2, 3, 4}));
  EXPECT_EQ(a.NumElements(), 24);
  EXPECT_EQ(Values<float>(a), Ramp());
  EXPECT_EQ(Read("bool.npy").descr, "|b1");
  EXPECT_EQ(Values<uint8_t>(Read("bool.npy")), (std::vector<uint8_t>{1, 0, 1}));
  EXPECT_EQ(Read("scalar_f8.npy").shape, Dims{});
  EXPECT_EQ(Values<double>(Read("scalar_f8.npy")), std::vector<double>{2.5});
  EXPECT_EQ(Read("empty_i8.npy").shape, (Dims{0, 3}));
  EXPECT_TRUE(Read("empty_i8.npy").bytes.empty());
  EXPECT_EQ(Values<uint16_t>(Read("f2.npy")), (std::vector<uint16_t>{0x3c00, 0xc000, 0x7bff}));
  EXPECT_EQ(Values<uint8_t>(Read("version3.npy")), (std::vector<uint8_t>{0, 1, 2, 3, 4}));
}

TEST(Npy, FortranOrderIsTransposedAndBigEndianSwapped) {
  const NpyArray f = Read("fortran_f4.npy");
  EXPECT_EQ(f.shape, (Dims{2, 3, 4}));
  EXPECT_EQ(Values<float>(f), Ramp());
  const NpyArray b = Read("big_i4.npy");
  EXPECT_EQ(b.descr, "<i4");
  EXPECT_EQ(Values<int32_t>(b), (std::vector<int32_t>{-3, -2, -1, 0, 1, 2}));
}

TEST(Npy, Text) {
  const NpyArray a = Read("text_U.npy");
  EXPECT_EQ(a.descr, "<U2");
  EXPECT_EQ(a.item_size, 8);
  EXPECT_EQ(Values<uint32_t>(a), (std::vector<uint32_t>{'a', 'b', 'c', 0, 0xe9, 'x'}));
}

std::string ErrorOf(std::string bytes) {
  const std::span<const uint8_t> span(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
  StatusOr<NpyArray> a = ParseNpy(span, "x.npy", nullptr);
  return a.ok() ? "none" : Render(FromStatus(a.status()));
}

std::string File(std::string header, std::string data = "") {
  std::string out("\x93NUMPY\1\0", 8);
  out += char(header.size() & 0xff);
  out += char(header.size() >> 8);
  return out + header + data;
}

TEST(Npy, Errors) {
  EXPECT_EQ(ErrorOf("PK"), "x.npy: error[E0103]: not a .npy file\n  help: numpy.save(path, array) writes one");
  EXPECT_EQ(ErrorOf(File("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", "12345678")),
            "x.npy: error[E0103]: the header says 12 bytes of data, the file has 8");
  EXPECT_EQ(ErrorOf(File("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 2)}")),
            "x.npy: error[E0103]: the header says more than 2^63 bytes of data, the file has 0");
  EXPECT_EQ(ErrorOf(File("{'descr': '<f3', 'fortran_order': False, 'shape': ()}")),
            "x.npy: error[E0103]: the type '<f3' is not supported");
  for (std::string_view header : {"", "{", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': 0, 'shape': ()}",
                                  "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
                                  "{'descr': '<f4', 'fortran_order': False, 'shape': (1}",
                                  "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
                                  "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}",
                                  "{'descr': '<f4', 'fortran_order': False, 'shape': (), 'x': 1}",
                                  "{'descr': '<f4', 'fortran_order': False, 'shape': ()} x"})
    EXPECT_EQ(ErrorOf(File(std::string(header))), "x.npy: error[E0103]: the header cannot be read") << header;
  EXPECT_EQ(ErrorOf(File("{}").substr(0, 11)), "x.npy: error[E0103]: the file ends inside its header");
  EXPECT_EQ(FromStatus(ReadNpy(kData + "object.npy").status()).message, "Python objects are not supported");
  EXPECT_EQ(FromStatus(ReadNpy(kData + "record.npy").status()).message, "records (structured types) are not supported");
  EXPECT_EQ(ErrorCode(ReadNpy("none.npy").status()), "E0101");
}

TEST(Npy, WritesWhatItReadsAndNumpysOwnBytes) {
  const TempFolder folder;
  const std::filesystem::path path = folder.At("a.npy");
  for (const char *name : {"c_f4.npy", "scalar_f8.npy", "empty_i8.npy", "bool.npy"}) {
    const NpyArray a = Read(name);
    ASSERT_TRUE(WriteNpy(path, a.descr, a.shape, a.bytes).ok());
    EXPECT_EQ(*ReadTextFile(path), *ReadTextFile(kData + name)) << name;
  }
  const Dims many(6000, 1); // a header that needs version 2
  ASSERT_TRUE(WriteNpy(path, "<i4", many, std::vector<uint8_t>(4)).ok());
  StatusOr<NpyArray> back = ReadNpy(path);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->shape, many);
  const Dims long_dims(30000, 1);
  ASSERT_TRUE(WriteNpy(path, "<i4", long_dims, std::vector<uint8_t>(4)).ok());
  EXPECT_EQ(ReadTextFile(path)->at(6), '\2');
  EXPECT_EQ(ReadNpy(path)->shape, long_dims);
  EXPECT_EQ(NpyHeader("<f4", Dims{3}).size() % 64, 0u);
  std::filesystem::remove(path);
}

TEST(Npz, ReadsStoredAndDeflated) {
  StatusOr<std::vector<NpzEntry>> stored = ReadNpz(kData + "stored.npz");
  ASSERT_TRUE(stored.ok()) << Render(FromStatus(stored.status()));
  ASSERT_EQ(stored->size(), 2u);
  EXPECT_EQ((*stored)[0].name, "x");
  EXPECT_EQ(Values<float>((*stored)[0].array), Ramp());
  EXPECT_EQ((*stored)[1].name, "y");
  EXPECT_EQ(Values<int64_t>((*stored)[1].array), (std::vector<int64_t>{0, 1, 2}));
  StatusOr<std::vector<NpzEntry>> deflated = ReadNpz(kData + "deflated.npz");
  ASSERT_TRUE(deflated.ok()) << Render(FromStatus(deflated.status()));
  EXPECT_EQ(Values<float>((*deflated)[0].array), Ramp());
  EXPECT_EQ((*deflated)[1].name, "big");
  EXPECT_EQ(Values<int32_t>((*deflated)[1].array), std::vector<int32_t>(20000));
}

TEST(Npz, DamageIsAnErrorNeverACrash) {
  int read = 0;
  for (const char *name : {"stored.npz", "deflated.npz"}) {
    const std::string good = *ReadTextFile(kData + name);
    for (size_t i = 0; i < good.size(); ++i) {
      (void)ParseNpz(MappedFile::FromString(good.substr(0, i), "cut"));
      for (const int change : {1, 0x80, 0xff}) {
        std::string bad = good;
        bad[i] = char(bad[i] ^ change);
        StatusOr<std::vector<NpzEntry>> r = ParseNpz(MappedFile::FromString(bad, "bad.npz"));
        read += r.ok();
        if (!r.ok())
          EXPECT_EQ(ErrorCode(r.status()), "E0103");
      }
    }
  }
  EXPECT_GT(read, 0); // times, versions and the like do not matter
  std::string flipped = *ReadTextFile(kData + "stored.npz");
  flipped[flipped.find("NUMPY") + 130] ^= 1; // in the data
  EXPECT_NE(Render(FromStatus(ParseNpz(MappedFile::FromString(flipped, "f.npz")).status()))
                .find("f.npz(x.npy): error[E0103]: the checksum is wrong"),
            std::string::npos);
}

} // namespace
} // namespace npuc
