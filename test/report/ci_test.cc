// The formats of CI services, held against what their schemas demand: SARIF 2.1.0 (the OASIS JSON schema: required and
// allowed properties, enumerations), the JUnit schema of Jenkins, GitLab's code quality fields.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "backend/report/render.h"
#include "compiler/support/json.h"
#include "test/report/xml.h"

namespace npuc::report {
namespace {

Report Sample() {
  Report r;
  r.tool.version = "1.2.3";
  r.model.file = "m <&>.onnx";
  r.target.name = "edge-2t";
  r.coverage = {3, 1, 1, 1, 50, 87.5, 2, 1, 4096};
  auto node = [&](const char *id, const char *op, const char *verdict) {
    r.nodes.emplace_back();
    r.nodes.back().id = id;
    r.nodes.back().op = op;
    r.nodes.back().verdict = verdict;
  };
  node("conv \"1\"", "Conv", "npu");
  node("nms", "NonMaxSuppression", "host");
  r.nodes.back().reasons = {{"op-unsupported", "no lowering for \x01 <this>", "", "", "cut it off with --output"},
                            {"dynamic-shape", "free dims", "static", "[?,3]", ""}};
  node("id", "Identity", "eliminated");
  node("topk", "TopK", "host");
  r.nodes.back().reasons = {{"op-unsupported", "no lowering", "", "", "cut it off with --output"}};
  r.gates = {{"min-coverage", false, "node coverage is 50, at least 95 is asked for"}, {"max-cycles", true, "fine"}};
  return r;
}

// A definition of the schema: which properties an object may and must have, and of what kind they are.
struct Definition {
  std::set<std::string> required;
  std::map<std::string, std::string> properties; // name -> definition, or one of string integer, with [] for arrays
};
const std::map<std::string, Definition> kSarif = {
    {"log", {{"version", "runs"}, {{"$schema", "string"}, {"version", "version"}, {"runs", "run[]"}}}},
    {"run",
     {{"tool"},
      {{"tool", "tool"},
       {"results", "result[]"},
       {"automationDetails", "automation"},
       {"columnKind", "columnKind"},
       {"artifacts", "artifact[]"}}}},
    {"automation", {{}, {{"id", "string"}, {"guid", "string"}}}},
    {"tool", {{"driver"}, {{"driver", "component"}}}},
    {"component",
     {{"name"}, {{"name", "string"}, {"version", "string"}, {"informationUri", "string"}, {"rules", "descriptor[]"}}}},
    {"descriptor",
     {{"id"},
      {{"id", "string"},
       {"name", "string"},
       {"shortDescription", "message"},
       {"fullDescription", "message"},
       {"help", "message"},
       {"helpUri", "string"},
       {"defaultConfiguration", "configuration"}}}},
    {"configuration", {{}, {{"level", "level"}}}},
    {"result",
     {{"message"},
      {{"ruleId", "string"},
       {"ruleIndex", "integer"},
       {"level", "level"},
       {"message", "message"},
       {"locations", "location[]"},
       {"partialFingerprints", "strings"}}}},
    {"message", {{"text"}, {{"text", "string"}, {"markdown", "string"}}}},
    {"location", {{}, {{"physicalLocation", "physical"}, {"logicalLocations", "logical[]"}}}},
    {"physical", {{"artifactLocation"}, {{"artifactLocation", "artifactLocation"}, {"region", "region"}}}},
    {"artifactLocation", {{}, {{"uri", "uri"}, {"uriBaseId", "string"}}}},
    {"region", {{}, {{"startLine", "integer"}}}},
    {"logical", {{}, {{"name", "string"}, {"fullyQualifiedName", "string"}, {"kind", "string"}}}},
};
const std::map<std::string, std::set<std::string>> kSarifValues = {
    {"version", {"2.1.0"}},
    {"level", {"none", "note", "warning", "error"}},
    {"columnKind", {"utf16CodeUnits", "unicodeCodePoints"}},
};

void Check(const llvm::json::Value &value, const std::string &kind, const std::string &path) {
  if (kind.ends_with("[]")) {
    ASSERT_TRUE(value.getAsArray()) << path;
    for (const auto &item : *value.getAsArray())
      Check(item, kind.substr(0, kind.size() - 2), path + "[]");
    return;
  }
  if (kind == "integer") {
    EXPECT_TRUE(value.getAsInteger()) << path;
    return;
  }
  if (kind == "strings") {
    ASSERT_TRUE(value.getAsObject()) << path;
    for (const auto &[key, item] : *value.getAsObject())
      EXPECT_TRUE(item.getAsString()) << path;
    return;
  }
  if (const auto it = kSarif.find(kind); it != kSarif.end()) {
    const auto *object = value.getAsObject();
    ASSERT_TRUE(object) << path;
    for (const std::string &key : it->second.required)
      EXPECT_TRUE(object->get(key)) << path << " lacks " << key;
    for (const auto &[key, item] : *object) {
      const auto property = it->second.properties.find(llvm::StringRef(key).str());
      ASSERT_NE(property, it->second.properties.end()) << path << ": " << llvm::StringRef(key).str();
      Check(item, property->second, path + "." + property->first);
    }
    return;
  }
  ASSERT_TRUE(value.getAsString()) << path;
  const std::string text = value.getAsString()->str();
  if (const auto it = kSarifValues.find(kind); it != kSarifValues.end())
    EXPECT_TRUE(it->second.count(text)) << path << ": " << text;
  if (kind == "uri")
    EXPECT_EQ(text.find_first_of(" <>\"{}|\\^`"), std::string::npos) << path << ": " << text;
}

TEST(Sarif, KeepsToTheSchema) {
  Report without;
  for (const Report &r : {Sample(), without}) {
    auto json = ParseJson(RenderSarif(r, "models/my model.onnx"), "sarif");
    ASSERT_TRUE(json.ok()) << json.status();
    Check(*json, "log", "log");
  }
}

TEST(Sarif, AFindingABrokenRuleAndAFailedGate) {
  auto json = ParseJson(RenderSarif(Sample(), "models/my model.onnx"), "sarif");
  ASSERT_TRUE(json.ok());
  const auto &run = *(*json->getAsObject()->getArray("runs"))[0].getAsObject();
  const auto &rules = *run.getObject("tool")->getObject("driver")->getArray("rules");
  const auto &results = *run.getArray("results");
  ASSERT_EQ(rules.size(), 3u);
  ASSERT_EQ(results.size(), 4u);
  std::vector<std::string> seen;
  std::set<std::string> fingerprints;
  for (const auto &value : results) {
    const auto &result = *value.getAsObject();
    const auto &rule = *rules[*result.getInteger("ruleIndex")].getAsObject();
    EXPECT_EQ(*rule.getString("id"), *result.getString("ruleId"));
    seen.push_back(result.getString("ruleId")->str() + " " + result.getString("level")->str());
    fingerprints.insert(result.getObject("partialFingerprints")->getString("primaryLocationLineHash")->str());
    const auto &location = *(*result.getArray("locations"))[0].getAsObject();
    const auto &physical = *location.getObject("physicalLocation");
    EXPECT_EQ(*physical.getObject("artifactLocation")->getString("uri"), "models/my%20model.onnx");
    EXPECT_GE(*physical.getObject("region")->getInteger("startLine"), 1);
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"op-unsupported warning", "dynamic-shape warning", "op-unsupported warning",
                                            "gate-min-coverage error"}));
  EXPECT_EQ(fingerprints.size(), 4u);
  EXPECT_EQ(*(*results[0].getAsObject()->getArray("locations"))[0]
                 .getAsObject()
                 ->getArray("logicalLocations")
                 ->front()
                 .getAsObject()
                 ->getString("fullyQualifiedName"),
            "nms");
}

TEST(Sarif, AFindingKeepsItsFingerprintWhenFiguresMove) {
  Report now = Sample();
  now.nodes[1].reasons[0].message = "no lowering, in other words";
  now.tool.version = "2";
  auto hashes = [](const Report &r) {
    std::vector<std::string> all;
    const std::string text = RenderSarif(r);
    for (size_t at = text.find("primaryLocationLineHash"); at != std::string::npos;
         at = text.find("primaryLocationLineHash", at + 1))
      all.push_back(text.substr(at, 64));
    return all;
  };
  EXPECT_EQ(hashes(now), hashes(Sample()));
}

TEST(CodeQuality, OneRuleBrokenTwiceIsTwoFindings) {
  Report r = Sample();
  r.nodes[1].reasons.push_back({"dynamic-shape", "another free dim", "static", "[?]", ""});
  for (const std::string &text : {RenderCodeQuality(r, "m.onnx"), RenderSarif(r)}) {
    std::set<std::string> seen;
    const std::string key = text[0] == '[' ? "\"fingerprint\"" : "primaryLocationLineHash";
    for (size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + 1))
      seen.insert(text.substr(at, 62));
    EXPECT_EQ(seen.size(), 5u);
  }
}

TEST(CodeQuality, HasTheFieldsThatGitlabReads) {
  auto json = ParseJson(RenderCodeQuality(Sample(), "models/m.onnx"), "quality");
  ASSERT_TRUE(json.ok()) << json.status();
  ASSERT_TRUE(json->getAsArray());
  ASSERT_EQ(json->getAsArray()->size(), 4u);
  const std::set<std::string> severities = {"info", "minor", "major", "critical", "blocker"};
  std::set<std::string> fingerprints;
  for (const auto &value : *json->getAsArray()) {
    const auto &finding = *value.getAsObject();
    EXPECT_FALSE(finding.getString("description")->empty());
    EXPECT_FALSE(finding.getString("check_name")->empty());
    fingerprints.insert(finding.getString("fingerprint")->str());
    EXPECT_TRUE(severities.count(finding.getString("severity")->str()));
    EXPECT_EQ(*finding.getObject("location")->getString("path"), "models/m.onnx");
    EXPECT_EQ(*finding.getObject("location")->getObject("lines")->getInteger("begin"), 1);
  }
  EXPECT_EQ(fingerprints.size(), 4u);
  EXPECT_EQ(RenderCodeQuality(Report{}), "[]\n");
}

// Jenkins' junit-10.xsd: testsuites > testsuite > testcase > (failure | error | skipped)?; the attributes it knows.
TEST(Junit, KeepsToTheSchema) {
  const std::map<std::string, std::set<std::string>> attributes = {
      {"testsuites", {"name", "time", "tests", "failures", "disabled", "errors"}},
      {"testsuite",
       {"name", "tests", "failures", "errors", "time", "disabled", "skipped", "timestamp", "hostname", "id",
        "package"}},
      {"testcase", {"name", "assertions", "time", "classname", "status"}},
      {"failure", {"type", "message"}}};
  const auto root = Xml::Parse(RenderJunit(Sample()));
  ASSERT_TRUE(root) << RenderJunit(Sample());
  ASSERT_EQ(root->name, "testsuites");
  std::function<void(const Xml &)> check = [&](const Xml &e) {
    ASSERT_TRUE(attributes.count(e.name)) << e.name;
    for (const auto &[key, value] : e.attributes)
      EXPECT_TRUE(attributes.at(e.name).count(key)) << e.name << " " << key;
    for (const Xml &child : e.children)
      check(child);
  };
  check(*root);
  ASSERT_EQ(root->children.size(), 1u);
  const Xml &suite = root->children[0];
  EXPECT_EQ(suite.attributes.at("name"), "npuc m <&>.onnx");
  int failures = 0;
  std::vector<std::string> names;
  for (const Xml &test : suite.children) {
    ASSERT_EQ(test.name, "testcase");
    ASSERT_TRUE(test.attributes.count("name") && test.attributes.count("classname"));
    names.push_back(test.attributes.at("classname") + "/" + test.attributes.at("name"));
    ASSERT_LE(test.children.size(), 1u);
    failures += test.children.size() == 1 && test.children[0].name == "failure";
  }
  EXPECT_EQ(names, (std::vector<std::string>{"Conv/conv \"1\"", "NonMaxSuppression/nms", "TopK/topk",
                                             "gate/min-coverage", "gate/max-cycles"}));
  EXPECT_EQ(suite.attributes.at("tests"), std::to_string(names.size()));
  EXPECT_EQ(suite.attributes.at("failures"), std::to_string(failures));
  EXPECT_EQ(failures, 3);
  const Xml &failure = suite.children[1].children[0];
  EXPECT_EQ(failure.attributes.at("type"), "op-unsupported");
  EXPECT_NE(failure.text.find("<this>"), std::string::npos);
  EXPECT_NE(failure.text.find("[dynamic-shape] free dims"), std::string::npos);
}

TEST(Badge, IsWellFormedAndNeverRoundsUpToAHundred) {
  Report r = Sample();
  for (const auto &[percent, text] : {std::pair(99.97, "99 %"), {100.0, "100 %"}, {0.0, "0 %"}, {50.0, "50 %"}}) {
    r.coverage.node_percent = percent;
    const auto svg = Xml::Parse(RenderBadge(r));
    ASSERT_TRUE(svg);
    EXPECT_EQ(svg->name, "svg");
    EXPECT_EQ(svg->attributes.at("xmlns"), "http://www.w3.org/2000/svg");
    EXPECT_TRUE(svg->attributes.count("width") && svg->attributes.count("height"));
    const Xml &texts = svg->children.back();
    EXPECT_EQ(texts.children.back().text, text);
    EXPECT_EQ(svg->attributes.at("aria-label"), std::string("NPU coverage: ") + text);
  }
}

TEST(Markdown, TextCannotBreakTables) {
  EXPECT_EQ(MarkdownText("a|b`c`\n*d*_e_<f>[g]\\"), "a\\|b\\`c\\` \\*d\\*\\_e\\_\\<f>\\[g]\\\\");
}

} // namespace
} // namespace npuc::report
