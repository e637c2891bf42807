// npu-quant through its command line.
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "compiler/calibration/statistics_file.h"
#include "compiler/support/json.h"
#include "compiler/support/npy.h"
#include "test/e2e/run_tool.h"

namespace npuc::e2e {
namespace {

const std::string kFolder = std::string(NPUC_SOURCE_DIR) + "/models/digits/", kDigits = kFolder + "digits.onnx",
                  kSamples = kFolder + "calibration.npy";

class NpuQuant : public testing::Test {
protected:
  void SetUp() override {
    if (!HaveTool("npu-quant"))
      GTEST_SKIP() << "npu-quant is not built";
    dir_ = FreshFolder();
  }
  Outcome Run(std::vector<std::string> args) { return RunTool("npu-quant", args, dir_); }
  void ExpectRefused(const std::vector<std::string> &args, const std::string &code, const std::string &words) {
    const auto before = Entries(dir_);
    const Outcome o = Run(args);
    EXPECT_EQ(o.code, 1) << o.err;
    EXPECT_NE(o.err.find("error[" + code + "]"), std::string::npos) << o.err;
    EXPECT_NE(o.err.find(words), std::string::npos) << o.err;
    EXPECT_EQ(Entries(dir_), before);
  }
  fs::path dir_;
};

TEST_F(NpuQuant, CalibratesAndSaysSo) {
  const Outcome o = Run({"calibrate", kDigits, "--calib", kSamples});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(Entries(dir_), std::vector<std::string>{"digits.npqs"});
  EXPECT_NE(o.err.find("64 of 64 samples"), std::string::npos) << o.err;
  auto f = ReadStatistics((dir_ / "digits.npqs").string());
  ASSERT_TRUE(f.ok()) << f.status();
  const TensorStatistics *image = f->table.Find("image");
  ASSERT_TRUE(image);
  EXPECT_EQ(image->count, 64 * 64);
  EXPECT_EQ(image->min, 0) << "paper";
  EXPECT_EQ(image->max, 1) << "ink";
  const TensorStatistics *out = f->table.Find("probabilities");
  ASSERT_TRUE(out);
  EXPECT_EQ(out->count, 64 * 10);
  double sum = 0; // each sample's probabilities add up to 1
  for (int c = 0; c < 10; ++c)
    sum += out->channels.Mean(c);
  EXPECT_NEAR(sum, 1, 1e-5);
}

TEST_F(NpuQuant, ShardsMergedAreOneRun) {
  ASSERT_EQ(Run({"calibrate", kDigits, "--calib", kSamples, "-o", "one.npqs", "-j", "3", "-q"}).code, 0);
  ASSERT_EQ(Run({"calibrate", kDigits, "--calib", kSamples, "-o", "again.npqs", "-j", "1", "-q"}).code, 0);
  EXPECT_TRUE(ReadAll(dir_ / "one.npqs") == ReadAll(dir_ / "again.npqs")) << "the number of threads shows";
  for (const char *i : {"1", "2", "3"})
    ASSERT_EQ(Run({"calibrate", kDigits, "--calib", kSamples, "-o", std::string(i) + ".npqs", "--shard",
                   std::string(i) + "/3", "-q"})
                  .code,
              0);
  ASSERT_EQ(Run({"merge", "2.npqs", "3.npqs", "1.npqs", "-o", "all.npqs", "-q"}).code, 0);
  EXPECT_TRUE(ReadAll(dir_ / "all.npqs") == ReadAll(dir_ / "one.npqs"));
  const Outcome part = Run({"merge", "2.npqs", "3.npqs", "-o", "part.npqs"});
  EXPECT_EQ(part.code, 0);
  EXPECT_NE(part.err.find("shards are missing"), std::string::npos) << part.err;
  ExpectRefused({"merge", "1.npqs", "2.npqs", "1.npqs", "-o", "x.npqs"}, "E0511", "is in 1.npqs too");
  ASSERT_EQ(Run({"calibrate", kDigits, "--calib", kFolder + "test_images.npy", "-o", "other.npqs", "-q"}).code, 0);
  ExpectRefused({"merge", "1.npqs", "other.npqs", "-o", "x.npqs"}, "E0511", "another set of samples");
  ExpectRefused({"merge", "1.npqs", kDigits, "-o", "x.npqs"}, "E0103", "not calibration statistics");
  ExpectRefused({"calibrate", kDigits, "--calib", kSamples, "--shard", "4/3"}, "E0501", "I/N");
}

TEST_F(NpuQuant, BadSamplesAreNamed) {
  fs::create_directories(dir_ / "s");
  auto npy = [&](const std::string &name, std::vector<int64_t> dims, float bad) {
    std::vector<float> v(64, 0.5f);
    v[9] = bad;
    ASSERT_TRUE(
        WriteNpy((dir_ / "s" / name).string(), "<f4", dims, {reinterpret_cast<const uint8_t *>(v.data()), 256}).ok());
  };
  npy("a.npy", {1, 1, 8, 8}, 0);
  npy("b.npy", {1, 1, 4, 16}, 0);
  npy("c.npy", {1, 1, 8, 8}, std::numeric_limits<float>::quiet_NaN());
  WriteAll(dir_ / "s/d.png", "\x89PNG\r\n\x1a\n and nothing more");
  WriteAll(dir_ / "s/e.jpg", "<html>not found</html>");
  const Outcome o = Run({"calibrate", kDigits, "--calib", "s"});
  EXPECT_EQ(o.code, 1);
  EXPECT_NE(o.err.find("s/b.npy: error[E0702]"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("s/c.npy: error[E0510]"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("s/d.png: error[E0104]"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("s/e.jpg: error[E0104]: the file is neither PNG nor JPEG"), std::string::npos) << o.err;
  EXPECT_EQ(o.err.find("s/a.npy"), std::string::npos) << o.err;
  EXPECT_FALSE(fs::exists(dir_ / "digits.npqs"));
  fs::create_directories(dir_ / "empty");
  ExpectRefused({"calibrate", kDigits, "--calib", "empty"}, "E0509", "the folder is empty");
  ExpectRefused({"calibrate", kDigits, "--calib", "absent"}, "E0101", "no such file");
  const Outcome few = Run({"calibrate", kDigits, "--calib", "s/a.npy"});
  EXPECT_EQ(few.code, 0);
  EXPECT_NE(few.err.find("warning: calibration on 1 samples"), std::string::npos) << few.err;
}

TEST_F(NpuQuant, Histogram) {
  ASSERT_EQ(Run({"calibrate", kDigits, "--calib", kSamples, "-q"}).code, 0);
  const Outcome table = Run({"histogram", "digits.npqs"});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_NE(table.out.find("probabilities"), std::string::npos);
  ExpectRefused({"histogram", "digits.npqs", "--tensor", "imagee"}, "E0507", "did you mean image?");
  const Outcome json = Run({"histogram", "digits.npqs", "--tensor", "image", "--json", "-", "--html", "h.html"});
  ASSERT_EQ(json.code, 0) << json.err;
  auto value = ParseJson(json.out, "stdout");
  ASSERT_TRUE(value.ok()) << value.status();
  const auto &tensor = *(*value->getAsObject()->getArray("tensors"))[0].getAsObject();
  EXPECT_EQ(tensor.getString("name"), "image");
  EXPECT_EQ(tensor.getObject("ranges")->getObject("minmax")->getNumber("max"), 1);
  // All that is not paper is in some bar.
  double bars = 0;
  for (const auto &bar : *tensor.getArray("bars"))
    bars += *bar.getAsNumber();
  EXPECT_EQ(bars, static_cast<double>(*tensor.getInteger("count") - *tensor.getInteger("zero_count")));
  const std::string html = ReadAll(dir_ / "h.html");
  EXPECT_NE(html.find("<svg"), std::string::npos);
  EXPECT_EQ(html.find("http"), std::string::npos) << "self-contained";
}

// A grey PNG of 16 x 16: stored blocks of zlib, made here.
std::string GreyPng(auto pixel) {
  auto big = [](uint32_t v) { return std::string{char(v >> 24), char(v >> 16), char(v >> 8), char(v)}; };
  auto chunk = [&](const std::string &type, const std::string &data) {
    uint32_t crc = 0xffffffffu;
    for (unsigned char c : type + data) {
      crc ^= c;
      for (int k = 0; k < 8; ++k)
        crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
    }
    return big(static_cast<uint32_t>(data.size())) + type + data + big(~crc);
  };
  std::string raw;
  for (int y = 0; y < 16; ++y) {
    raw += '\0';
    for (int x = 0; x < 16; ++x)
      raw += static_cast<char>(pixel(x, y));
  }
  uint32_t a = 1, b = 0;
  for (unsigned char c : raw) {
    a = (a + c) % 65521;
    b = (b + a) % 65521;
  }
  const uint16_t n = static_cast<uint16_t>(raw.size());
  const std::string zlib = std::string("\x78\x01\x01", 3) + char(n & 255) + char(n >> 8) + char(~n & 255) +
                           char(~n >> 8 & 255) + raw + big(b << 16 | a);
  return std::string("\x89PNG\r\n\x1a\n", 8) + chunk("IHDR", big(16) + big(16) + std::string("\x08\0\0\0\0", 5)) +
         chunk("IDAT", zlib) + chunk("IEND", "");
}

TEST_F(NpuQuant, SelectSpreadsAndRepeats) {
  fs::create_directories(dir_ / "images/sub");
  for (int i = 0; i < 20; ++i) // brightness 0 to 0.97, half of them with stripes
    WriteAll(dir_ / fmt::format("images/{}{:02}.png", i % 3 ? "" : "sub/", i),
             GreyPng([&](int x, int) { return i % 2 ? i * 13 : (x / 4 % 2 ? i * 13 : 0); }));
  WriteAll(dir_ / "images/notes.txt", "no image");
  const Outcome o = Run({"select", "images", "-n", "7", "-o", "picked", "--json", "s.json", "--list", "a.txt"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(Entries(dir_ / "picked").size(), 7u);
  EXPECT_NE(o.out.find("7 of 20 images"), std::string::npos) << o.out;
  auto json = ParseJson(ReadAll(dir_ / "s.json"), "s.json");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->getAsObject()->getArray("files")->size(), 7u);
  EXPECT_EQ(json->getAsObject()->getArray("counts")->size(), 5u);
  EXPECT_EQ(json->getAsObject()->getBoolean("one_sided"), false);
  ASSERT_EQ(Run({"select", "images", "-n", "7", "--list", "b.txt", "-q"}).code, 0);
  EXPECT_EQ(ReadAll(dir_ / "a.txt"), ReadAll(dir_ / "b.txt"));
  ASSERT_EQ(Run({"select", "images", "-n", "7", "--list", "c.txt", "--seed", "5", "-q"}).code, 0);
  EXPECT_NE(ReadAll(dir_ / "a.txt"), ReadAll(dir_ / "c.txt"));
  ExpectRefused({"select", "images", "-n", "2", "-o", "picked"}, "E0102", "something already");
  ExpectRefused({"select", "images/notes.txt"}, "E0509", "no PNG or JPEG");
  ExpectRefused({"select", "images", "--buckets", "5"}, "E0501", "BxE");
}

TEST_F(NpuQuant, SelectFlagsANightOnlySet) {
  fs::create_directories(dir_ / "night");
  for (int i = 0; i < 12; ++i)
    WriteAll(dir_ / fmt::format("night/{:02}.png", i), GreyPng([&](int x, int y) { return (x * i + y) % 50; }));
  const Outcome o = Run({"select", "night", "-n", "4", "--json", "s.json"});
  EXPECT_EQ(o.code, 0);
  EXPECT_NE(o.err.find("warning: the images are one-sided: 100 % of them have brightness 0-20 %"), std::string::npos)
      << o.err;
  auto json = ParseJson(ReadAll(dir_ / "s.json"), "s.json");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->getAsObject()->getBoolean("one_sided"), true);
}

TEST_F(NpuQuant, WrongUsageIsTwo) {
  EXPECT_EQ(Run({}).code, 2);
  EXPECT_EQ(Run({"calibrate"}).code, 2);
  EXPECT_EQ(Run({"calibrate", kDigits}).code, 2);
  EXPECT_EQ(Run({"dance"}).code, 2);
  EXPECT_EQ(Run({"--help"}).code, 0);
}

TEST_F(NpuQuant, CompareHoldsTheBinaryAgainstTheFloatModel) {
  ASSERT_EQ(RunTool("npuc", {kDigits, "-o", "m.bin", "--calib", kSamples, "--no-report", "-q"}, dir_).code, 0);
  const Outcome o = Run({"compare", kDigits, "m.bin", "--input", kFolder + "sample.npy", "--json", "c.json", "--html",
                         "c.html", "--fake-quant"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("isolated"), std::string::npos) << o.out;
  EXPECT_NE(ReadAll(dir_ / "c.html").find("<svg"), std::string::npos);
  auto json = ParseJson(ReadAll(dir_ / "c.json"), "c.json");
  ASSERT_TRUE(json.ok());
  const auto *rows = json->getAsObject()->getArray("tensors");
  ASSERT_GT(rows->size(), 4u);
  int quantised = 0;
  std::set<std::string> names;
  for (const auto &row : *rows) {
    const auto *r = row.getAsObject();
    EXPECT_TRUE(names.insert(r->getString("name")->str()).second) << "twice: " << r->getString("name")->str();
    EXPECT_GT(r->getObject("accumulated")->getNumber("cosine").value(), 0.99);
    if (r->getString("stored") == "u8") {
      ++quantised;
      // Half a step of 255, and weights of 8 bits: far from nothing, and not nothing.
      EXPECT_LT(r->getObject("isolated")->getNumber("cosine").value(), 1);
      EXPECT_GT(r->getObject("isolated")->getNumber("cosine").value(), 0.99);
    }
  }
  EXPECT_GT(quantised, 2);
  // The first tensor below the threshold is marked.
  const Outcome marked = Run({"compare", kDigits, "m.bin", "--input", kFolder + "sample.npy", "--threshold", "1"});
  EXPECT_NE(marked.out.find("<- the first below"), std::string::npos) << marked.out;
  ExpectRefused({"compare", kDigits, "nowhere.bin", "--input", kSamples}, "E0101", "nowhere.bin");
}

TEST_F(NpuQuant, SearchWritesWhatNpucTakes) {
  const Outcome o =
      Run({"search", kDigits, "--calib", kSamples, "--target-cosine", "0.9999", "-o", "q.yaml", "--json", "s.json"});
  ASSERT_EQ(o.code, 0) << o.err << o.out;
  auto json = ParseJson(ReadAll(dir_ / "s.json"), "s.json");
  ASSERT_TRUE(json.ok());
  EXPECT_GE(json->getAsObject()->getNumber("cosine").value(), 0.9999);
  EXPECT_GE(json->getAsObject()->getNumber("cosine").value(), json->getAsObject()->getNumber("cosine_int8").value());
  EXPECT_EQ(RunTool("npuc", {kDigits, "-o", "m.bin", "--calib", kSamples, "--quant-config", "q.yaml", "-q"}, dir_).code,
            0);
  EXPECT_FALSE(fs::exists(dir_ / "q.yaml.trial"));
  // A float binary is not the float model to the last bit.
  EXPECT_EQ(Run({"search", kDigits, "--calib", kSamples, "--target-cosine", "1", "-o", "q.yaml", "-q"}).code, 3);
}

} // namespace
} // namespace npuc::e2e
