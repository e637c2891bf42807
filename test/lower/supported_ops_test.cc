// docs/supported_ops.md says what the code says.
#include "backend/lower/supported_ops.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "backend/lower/registry.h"

namespace npuc::lower {
namespace {

TEST(SupportedOps, TheDocumentIsUpToDate) {
  const std::string path = std::string(NPUC_SOURCE_DIR) + "/docs/supported_ops.md";
  const std::string want = SupportedOpsMarkdown(ReferenceNpuOps());
  if (std::getenv("NPUC_UPDATE_DOCS"))
    std::ofstream(path) << want;
  std::stringstream have;
  have << std::ifstream(path).rdbuf();
  EXPECT_EQ(have.str(), want) << "run lower_test with NPUC_UPDATE_DOCS=1";
}

TEST(SupportedOps, EveryRuleHasATextAndARemedy) {
  for (const auto &[def, op] : ReferenceNpuOps().All()) {
    std::set<std::string> ids;
    for (const RuleDoc &r : op->rules()) {
      EXPECT_FALSE(r.text.empty()) << def->name;
      EXPECT_FALSE(r.help.empty()) << r.rule;
      EXPECT_TRUE(ids.insert(r.rule).second) << def->name << " lists " << r.rule << " twice";
    }
  }
}

} // namespace
} // namespace npuc::lower
