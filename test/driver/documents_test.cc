// Documents that must keep up with the code.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "backend/report/json.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/json.h"

namespace npuc {
namespace {

std::string Document(const std::string &name) {
  std::ifstream in(std::string(NPUC_SOURCE_DIR) + "/docs/" + name);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

TEST(Documents, TheErrorIndexListsEveryCode) {
  const std::string index = Document("errors/README.md");
  for (const ErrorInfo &e : AllErrors())
    EXPECT_NE(index.find(fmt::format("- [{0}]({0}.md): {1}\n", e.code, e.title)), std::string::npos) << e.code;
}

// Each key that the writer makes is described, and each that is required is made.
void Compare(const llvm::json::Value &value, const llvm::json::Object &schema, const llvm::json::Object &defs,
             const std::string &path) {
  if (auto ref = schema.getString("$ref"))
    return Compare(value, *defs.getObject(ref->drop_front(std::string_view("#/$defs/").size())), defs, path);
  if (const auto *array = value.getAsArray()) {
    ASSERT_EQ(schema.getString("type"), "array") << path;
    for (const auto &item : *array)
      if (const auto *items = schema.getObject("items"))
        Compare(item, *items, defs, path + "[]");
  }
  if (const auto *object = value.getAsObject()) {
    ASSERT_EQ(schema.getString("type"), "object") << path;
    const auto *properties = schema.getObject("properties");
    if (!properties)
      return; // keys are data
    for (const auto &[key, item] : *object) {
      const auto *sub = properties->getObject(key);
      ASSERT_TRUE(sub) << path << "." << key.str().data() << " is not in the schema";
      Compare(item, *sub, defs, path + "." + llvm::StringRef(key).str());
    }
    const auto *required = schema.getArray("required");
    for (size_t i = 0; required && i < required->size(); ++i) {
      const std::string key = (*required)[i].getAsString()->str();
      EXPECT_TRUE(object->get(key)) << path << " lacks " << key;
    }
    EXPECT_EQ(properties->size(), object->size()) << path << ": the schema has keys that are never written";
  }
}

TEST(Documents, TheReportSchemaHasTheKeysOfTheReport) {
  report::Report r; // one row in each table
  r.inputs = r.outputs = {{"x", "float", {{1, ""}}, "NCHW", 0, 0, 4}};
  r.nodes.resize(1);
  r.nodes[0].reasons.resize(1);
  r.layers.resize(1);
  r.performance.host_steps.resize(1);
  r.fusions.resize(1);
  r.advice.resize(1);
  r.tried.resize(1);
  r.near_fusions.resize(1);
  r.layout.transposes.resize(1);
  r.operators.resize(1);
  r.checklist.resize(1);
  r.memory.spilled.resize(1);
  r.reproducibility.files.resize(1);
  r.gates.resize(1);
  r.compile.passes.resize(1);
  auto json = ParseJson(report::ToJson(r), "report");
  auto schema = ParseJson(Document("report-schema.json"), "schema");
  ASSERT_TRUE(json.ok() && schema.ok());
  Compare(*json, *schema->getAsObject(), *schema->getAsObject()->getObject("$defs"), "report");
}

} // namespace
} // namespace npuc
