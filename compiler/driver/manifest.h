// Several compilations in one YAML file, each a command line of npuc. docs/manifest.md describes the format.
//
//   defaults:                  # flags of every row
//     target: edge-6t
//   models:
//     - model: nets/kws.onnx   # paths are relative to the manifest's folder
//       min-coverage: 95       # any flag of npuc by its name; rows win over defaults
//       deny-node: [a, b]      # a list for a flag that may be repeated
//       fail-on-fallback: true # true and false for a flag without a value
//       name: kws              # default: the model's name without its suffix
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/support/status.h"

namespace npuc {

// What a flag of npuc takes, by its name without dashes.
enum class FlagKind { Unknown, Switch, Value, Repeated };
using FlagKinds = std::function<FlagKind(std::string_view name)>;

struct ManifestRow {
  std::string name;              // unique in the manifest
  std::string where;             // "models.yaml:3:5", for messages
  std::vector<std::string> args; // npuc's, to be run in Manifest::folder
  std::string binary, report;    // relative to it; report "" with no-report
};

struct Manifest {
  std::string folder; // the manifest's, "." when it has none
  std::vector<ManifestRow> rows;
};

// `output_dir`: where files go whose path the manifest does not say (absolute, or relative to the manifest's folder;
// "": that folder); binaries are called NAME.bin. `names`: all flags there are, for hints at misspelt ones. Errors:
// E0101; E0508 with file:line:column: no YAML, an unknown key, a value of the wrong kind, a row without model, two rows
// of one name or with one output.
StatusOr<Manifest> ReadManifest(const std::string &path, const std::string &output_dir, const FlagKinds &kinds,
                                const std::vector<std::string> &names);

} // namespace npuc
