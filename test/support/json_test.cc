#include "compiler/support/diagnostic.h"
#include "compiler/support/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace npuc {
namespace {

TEST(Json, WritesNestedValues) {
  std::string out;
  JsonWriter w(&out);
  w.BeginObject().Field("name", "conv").Field("n", 3).Field("big", uint64_t{18446744073709551615u});
  w.Key("empty").BeginArray().EndArray().Key("none").BeginObject().EndObject();
  w.Field("dims", std::vector<int64_t>{1, 8, -2});
  w.Key("rows").BeginArray();
  w.BeginLine().BeginObject().Field("a", true).Key("b").BeginArray().Value(1.5f).Value("x").EndArray().EndObject();
  w.BeginObject().Field("a", false).EndObject();
  EXPECT_FALSE(w.Complete());
  w.EndArray().EndObject();
  EXPECT_TRUE(w.Complete());
  EXPECT_EQ(out, R"({
  "name": "conv",
  "n": 3,
  "big": 18446744073709551615,
  "empty": [],
  "none": {},
  "dims": [1, 8, -2],
  "rows": [
    {"a": true, "b": [1.5, "x"]},
    {
      "a": false
    }
  ]
})");
}

TEST(Json, OneLine) {
  std::string out;
  JsonWriter w(&out, 0);
  w.BeginObject().Field("a", 1).Key("b").BeginArray().Value(1).Value(2).EndArray().EndObject();
  EXPECT_EQ(out, R"({"a":1,"b":[1,2]})");
}

TEST(Json, NumbersReadBackToTheSameBits) {
  EXPECT_EQ(JsonNumber(0.1), "0.1");
  EXPECT_EQ(JsonNumber(3), "3");
  EXPECT_EQ(JsonNumber(-0.0), "0");
  EXPECT_EQ(JsonNumber(1e300), "1e+300");
  EXPECT_EQ(JsonNumber(9007199254740992.0), "9007199254740992");
  EXPECT_EQ(JsonNumber(12.8), "12.8");
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    const double d = std::bit_cast<double>(random());
    if (std::isfinite(d))
      ASSERT_EQ(std::strtod(JsonNumber(d).c_str(), nullptr), d);
  }
}

TEST(Json, Strings) {
  EXPECT_EQ(JsonQuoted("a\"b\\c\n\t\x01\x7f/\xc3\xa9"), "\"a\\\"b\\\\c\\n\\t\\u0001\\u007f/\xc3\xa9\"");
  EXPECT_EQ(JsonQuoted("\xff"), "\"\xef\xbf\xbd\"");
}

TEST(Json, WriterOutputParses) {
  std::string out;
  JsonWriter w(&out);
  w.BeginObject().Field("k\n", std::string("v\xff")).Field("d", 0.1).EndObject();
  StatusOr<llvm::json::Value> value = ParseJson(out, "x");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(value->getAsObject()->getNumber("d"), 0.1);
}

TEST(Json, ParseErrorsCarryThePlace) {
  EXPECT_EQ(Render(FromStatus(ParseJson("{\n  \"a\": ,\n}", "r.json").status())),
            "r.json:2:8: error[E0103]: not JSON: Invalid JSON value\n"
            "  help: give a file that one of these tools wrote, whole");
}

TEST(JsonDeathTest, MisuseIsACompilerBug) {
  std::string out;
  EXPECT_DEATH(JsonNumber(NAN), "not a JSON number");
  EXPECT_DEATH(JsonNumber(std::numeric_limits<double>::infinity()), "not a JSON number");
  EXPECT_DEATH(JsonWriter(&out).BeginObject().Value(1), "a value without a key");
  EXPECT_DEATH(JsonWriter(&out).BeginArray().Key("x"), "outside an object");
  EXPECT_DEATH(JsonWriter(&out).BeginArray().EndObject(), "unbalanced");
}

} // namespace
} // namespace npuc
