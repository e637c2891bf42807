// npuc --manifest: each row a process of its own, one table, one exit code.
#pragma once

#include <string>
#include <vector>

#include "compiler/driver/manifest.h"
#include "tools/common/console.h"

namespace npuc {

struct ManifestOptions {
  std::string path, output_dir;
  std::vector<std::string> only; // names; empty: all
  std::string shard;             // "I/N": of the chosen rows, each Nth from the Ith on; "": all
  bool list = false;             // print the names, compile nothing
  int jobs = 0;                  // rows at a time; 0: the machine's processors
};

// What is wrong with arguments of npuc; "" when they can be parsed.
using CheckArguments = std::function<std::string(const std::vector<std::string> &args)>;

// Exit code: 4 when a row met a bug, else 1 when one cannot be compiled, else 3 when a gate failed, else 0.
int RunManifest(const ManifestOptions &options, const FlagKinds &kinds, const std::vector<std::string> &flags,
                const CheckArguments &check, const cli::Console &console);

} // namespace npuc
