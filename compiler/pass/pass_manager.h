// Runs passes in order and distrusts them: verifies the IR behind each, checks what it says about having changed
// something, names the guilty one when something breaks, and leaves behind a file that shows the fault again.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/pass/pass.h"

namespace npuc {

// Passes in order; run again and again while one of them changes something, `max_rounds` times at most.
struct PassStage {
  std::vector<std::string> passes;
  int max_rounds = 1;
};
using Pipeline = std::vector<PassStage>;

struct PassManagerOptions {
  // After each pass that changed the IR: Verify. Always, where NPUC_VERIFY_EACH is set in the environment to anything
  // but 0 (tests do).
  bool verify_each = false;
  // Hold "unchanged" against the IR's hash. Goes with verify_each.
  bool check_changed = false;
  // Called after each pass that changed something with copies from before and after: interpret both and compare, say. A
  // failed status is the pass's fault.
  std::function<Status(std::string_view pass, const Module &before, const Module &after)> eval_each;

  // Called after each stage of the pipeline, with its index, unless the pipeline stopped within it. An error ends the
  // run.
  std::function<Status(size_t stage, const Module &m)> after_stage;

  std::vector<std::string> print_after;             // pass names, or "all"
  std::function<void(std::string_view text)> print; // where print_after and time_passes go; null: stderr
  std::string
      dump_ir_dir; // DIR/000.input.ir, DIR/001.pass-name.ir ... after each pass that changed something; made if absent
  std::string stop_after; // pass name; the rest of the pipeline is left out after its first run
  std::vector<std::string> disabled;
  int64_t pass_limit = INT64_MAX; // runs of passes; bisecting finds the pass that breaks a model
  bool time_passes = false;       // a table on `print` at the end

  // Reproducers go here: "" is $NPUC_CRASH_DIR, else $TMPDIR, else /tmp.
  std::string reproducer_dir;
  std::string target_name; // for the reproducer's command
};

// One run of one pass.
struct PassRecord {
  std::string pass;
  double seconds = 0;
  bool changed = false;
};

// Runs the pipeline on m. Errors: what a pass found wrong with the user's model, as it is; E0501 for a pass name (of
// the pipeline or the options) that does not exist; else an internal error that names the pass and the reproducer. A
// failing NPUC_CHECK inside a pass writes the reproducer too. m is of no use after an error. `records`, if given, gets
// one entry a run.
Status RunPasses(Module &m, const Pipeline &pipeline, PassContext &ctx, const PassManagerOptions &options = {},
                 std::vector<PassRecord> *records = nullptr);

// "a,b,c" as a stage of one round; E0501 on an unknown name, with the names that come near.
StatusOr<Pipeline> ParsePipeline(std::string_view list);

} // namespace npuc
