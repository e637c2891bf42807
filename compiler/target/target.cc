#include "compiler/target/target.h"

#include "compiler/support/diagnostic.h"
#include "compiler/support/hash.h"
#include "compiler/support/mapped_file.h"
#include "compiler/support/yaml.h"

#include <algorithm>
#include <utility>

#include <fmt/ranges.h>

namespace npuc {
namespace {

struct Preset {
  std::string_view name, text;
};
constexpr Preset kPresets[] = {
#define NPUC_PRESET(name, text) {name, text},
#include "compiler/target/presets.inc"
#undef NPUC_PRESET
};

constexpr std::string_view kTraversals[] = {"depth", "row", "kernel", "part_kernel"};

} // namespace

std::string_view Name(Traversal t) {
  return kTraversals[static_cast<size_t>(t)];
}

const Rational &DTypeTable::operator[](DType t) const {
  NPUC_CHECK(Has(t), "the target has no number for {}", Name(t));
  return values_[static_cast<size_t>(t)];
}

bool MxuTarget::HasTraversal(Traversal t) const {
  return std::find(traversals.begin(), traversals.end(), t) != traversals.end();
}

bool Target::Supports(DType t) const {
  return std::find(dtypes.begin(), dtypes.end(), t) != dtypes.end();
}

int64_t Target::C2(DType t) const {
  if (c2.Has(t))
    return c2[t].num;
  return std::max<int64_t>(1, 16 / std::max(1, ByteSize(t)));
}

StatusOr<Target> Target::FromPreset(std::string_view name) {
  for (const Preset &p : kPresets)
    if (p.name == name)
      return FromText(p.text, fmt::format("targets/{}.yaml", name));
  const std::vector<std::string> names = PresetNames();
  const std::string nearest = NearestName(name, names);
  return Error("E0506", fmt::format("no target '{}'", name),
               nearest.empty() ? fmt::format("the presets are {}; a description of your own is a .yaml file",
                                             fmt::join(names, ", "))
                               : fmt::format("did you mean '{}'?", nearest));
}

StatusOr<Target> Target::FromFile(const std::string &path) {
  NPUC_ASSIGN_OR_RETURN(std::string text, ReadTextFile(path));
  return FromText(text, path);
}

StatusOr<Target> Target::FromNameOrFile(const std::string &name) {
  if (name.find('/') != std::string::npos || name.ends_with(".yaml") || name.ends_with(".yml"))
    return FromFile(name);
  return FromPreset(name);
}

std::vector<std::string> Target::PresetNames() {
  std::vector<std::string> names;
  for (const Preset &p : kPresets)
    names.emplace_back(p.name);
  std::sort(names.begin(), names.end());
  return names;
}

std::string_view Target::PresetText(std::string_view name) {
  for (const Preset &p : kPresets)
    if (p.name == name)
      return p.text;
  NPUC_CHECK(false, "no preset {}", name);
  return {};
}

std::string Target::Sha256() const {
  return Sha256Hex(ToCanonicalYaml());
}

} // namespace npuc
