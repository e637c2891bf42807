#include "compiler/support/diagnostic.h"
#include "compiler/support/rational.h"
#include "compiler/support/yaml.h"

#include <gtest/gtest.h>

namespace npuc {
namespace {

std::string Problem(const Status &s) {
  return s.ok() ? "none" : Render(FromStatus(s));
}

TEST(Yaml, TreeWithPlaces) {
  const std::string text = "# comment\nsize: [224, 256]\nmean:\n  - 0.5\n  - '0.4'\ncolour: bgr\nnothing:\n"
                           "note: \"a \\\"b\\\"\"\nblock: |\n  two\n  lines\n";
  StatusOr<YamlDocument> doc = YamlDocument::Parse(text, "pre.yaml", kYamlConfigCodes);
  ASSERT_TRUE(doc.ok()) << Problem(doc.status());
  const YamlNode &root = doc->root();
  ASSERT_EQ(root.keys.size(), 6u);
  const YamlNode *size = root.Find("size");
  EXPECT_EQ(size->kind, YamlNode::Kind::list);
  EXPECT_EQ(size->items[1].text, "256");
  EXPECT_EQ(size->items[1].line, 2);
  EXPECT_EQ(size->items[1].column, 13);
  EXPECT_FALSE(root.Find("mean")->items[0].quoted);
  EXPECT_TRUE(root.Find("mean")->items[1].quoted);
  EXPECT_EQ(root.Find("mean")->items[1].line, 5);
  EXPECT_EQ(root.Find("nothing")->kind, YamlNode::Kind::null);
  EXPECT_EQ(root.Find("nothing")->line, 7);
  EXPECT_EQ(root.Find("note")->text, "a \"b\"");
  EXPECT_EQ(root.Find("block")->text, "two\nlines\n");
  EXPECT_EQ(root.Find("none"), nullptr);
}

TEST(Yaml, TypedReading) {
  StatusOr<YamlDocument> doc =
      YamlDocument::Parse("i: 12\nneg: -3\nf: 1.5e-3\nb: true\ns: word\nn:\nq: 'true'\n", "c.yaml", kYamlConfigCodes);
  ASSERT_TRUE(doc.ok());
  const YamlNode &r = doc->root();
  EXPECT_EQ(*doc->Int(*r.Find("i"), "i", 0, 12), 12);
  EXPECT_EQ(Problem(doc->Int(*r.Find("i"), "i", 0, 11).status()),
            "c.yaml:1:4: error[E0508]: i: found 12, allowed is a whole number from 0 to 11");
  EXPECT_EQ(*doc->Int(*r.Find("neg"), "neg", -5, 12), -3);
  EXPECT_EQ(*doc->Number(*r.Find("f"), "f", 0, 1), 1.5e-3);
  EXPECT_FALSE(doc->Number(*r.Find("f"), "f", 1, 2).ok());
  EXPECT_FALSE(doc->Number(*r.Find("s"), "s", -1e9, 1e9).ok());
  EXPECT_TRUE(*doc->Bool(*r.Find("b"), "b"));
  EXPECT_FALSE(doc->Bool(*r.Find("q"), "q").ok());
  EXPECT_EQ(*doc->String(*r.Find("s"), "s"), "word");
  EXPECT_EQ(Problem(doc->String(*r.Find("n"), "n").status()),
            "c.yaml:6:1: error[E0508]: n: found nothing, allowed is a text");
  EXPECT_FALSE(doc->List(*r.Find("s"), "s").ok());
  EXPECT_FALSE(doc->Map(*r.Find("s"), "s").ok());
}

TEST(Yaml, MapsKnowTheirKeys) {
  StatusOr<YamlDocument> doc = YamlDocument::Parse("resize: 3\nmeen: 4\n", "c.yaml", kYamlConfigCodes);
  StatusOr<YamlMap> map = doc->Map(doc->root(), "");
  EXPECT_TRUE(map->Require("resize").ok());
  EXPECT_EQ(map->Find("mean"), nullptr);
  EXPECT_EQ(Problem(map->Finish()), "c.yaml:2:1: error[E0508]: there is no key 'meen'\n  help: did you mean 'mean'?");
  EXPECT_EQ(Problem(map->Require("std").status()), "c.yaml:1:1: error[E0508]: the document lacks the key 'std'");
}

TEST(Yaml, NearestName) {
  const std::vector<std::string> names{"kernel", "stride", "px"};
  EXPECT_EQ(NearestName("kernle", names), "kernel");
  EXPECT_EQ(NearestName("pxx", names), "px");
  EXPECT_EQ(NearestName("completely", names), "");
}

TEST(Rational, ParsesExactDecimals) {
  EXPECT_EQ(Rational::Parse("12.8"), Rational(64, 5));
  EXPECT_EQ(Rational::Parse("-0.125"), Rational(-1, 8));
  EXPECT_EQ(Rational::Parse("3"), Rational(3));
  EXPECT_EQ(Rational::Parse("0.9375"), Rational(15, 16));
  EXPECT_EQ(Rational::Parse("1.0"), Rational(1));
  EXPECT_EQ(Rational::Parse("123456789.123456789"), Rational(123456789123456789, 1000000000));
  for (std::string_view bad :
       {"", "-", ".", "1.", ".5", "1e3", "1.2.3", "0x1", " 1", "+1", "1234567890123456789", "0.1234567891", "nan"})
    EXPECT_EQ(Rational::Parse(bad), std::nullopt) << bad;
}

TEST(Rational, PrintsAndCompares) {
  for (std::string_view text : {"12.8", "-0.125", "3", "0.9375", "0.000000001", "123456789.123456789", "0"})
    EXPECT_EQ(Rational::Parse(text)->ToString(), text);
  EXPECT_EQ(Rational(1, 3).ToString(), "1/3");
  EXPECT_EQ(Rational(6, -4), Rational(-3, 2));
  EXPECT_LT(Rational(1, 3), Rational(334, 1000));
  EXPECT_GT(Rational(999999999999999999), Rational(999999999999999998));
  EXPECT_EQ(Rational(64, 5).ToDouble(), 12.8);
  EXPECT_EQ(static_cast<double>(Rational(64, 5)), 12.8);
}

} // namespace
} // namespace npuc
