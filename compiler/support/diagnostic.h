// What a user is told: diagnostics, and the way they travel as Status.
//
// A function that meets a user's mistake returns Error("E0203", what was found against what is
// allowed, remedy); callers add the node and the file on the way up (AtNode, AtFile keep what is
// already there); whoever collects turns it into a Diagnostic. Statuses not made by Error() are
// internal errors and get code E0901.
#pragma once

#include "compiler/support/status.h"

#include <cstdint>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace npuc {

enum class Severity : uint8_t { note, warning, error };

struct Diagnostic {
  Severity severity = Severity::error;
  std::string code;    // "E0203"; may be empty for notes and warnings
  std::string file;    // "model.onnx", or "x.yaml:3:7"; may be empty
  std::string node;    // node id; may be empty
  std::string op;      // "Conv"; may be empty
  std::string message; // what was found against what is allowed
  std::string help;    // the remedy; may be empty

  auto operator<=>(const Diagnostic &) const = default;
};

// model.onnx: error[E0203]: node 'layer3/conv' (Conv): dilations [4,4] are above the NPU's limit
// [2,2]
//   help: ...
// Without a newline at the end; further lines of message and help are indented.
std::string Render(const Diagnostic &d, bool colour = false);

// An InvalidArgument status that carries a code of errors.def (checked) and a remedy.
Status Error(std::string_view code, std::string message, std::string help = "");

// Add context to an error; OK and context that is already there stay as they are.
Status AtNode(Status status, std::string_view node_id, std::string_view op);
Status AtFile(Status status, std::string_view file);
// Puts "prefix: " before the message, keeping code, help and context.
Status Prefix(Status status, std::string_view prefix);

// What a failed status says. Statuses that Error() did not make have code E0901.
Diagnostic FromStatus(const Status &status);
// The code of a failed status ("E0901" unless Error() made it), "" for OK.
std::string ErrorCode(const Status &status);

// A status for "the diagnostics are already in the engine"; ReportStatus ignores it.
Status AlreadyReported();
bool IsAlreadyReported(const Status &status);

// Collects diagnostics from many threads.
class DiagnosticEngine {
public:
  // Diagnostics are listed by `order`, then as they came; parallel work passes its index to be
  // deterministic. What is no error is kept once, however often a model is compiled.
  void Report(Diagnostic d, uint64_t order = 0);
  // Reports a failed status (`file` if it has none); OK and AlreadyReported() are ignored.
  void ReportStatus(const Status &status, std::string_view file = "", uint64_t order = 0);
  void Warning(std::string message, std::string help = "");
  void Note(std::string message, std::string help = "");

  size_t ErrorCount() const;
  size_t WarningCount() const;
  std::vector<Diagnostic> All() const;
  // OkStatus() without errors, else AlreadyReported().
  Status ToStatus() const;
  // All, rendered one after another, a newline after each.
  std::string RenderAll(bool colour = false) const;
  void Clear();

private:
  struct Entry {
    uint64_t order;
    Diagnostic diagnostic;
  };
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  std::set<Diagnostic> said_; // notes and warnings
};

// A row of errors.def.
struct ErrorInfo {
  std::string_view code;
  std::string_view title;
};
std::span<const ErrorInfo> AllErrors();
// The row of a code, nullptr if there is none.
const ErrorInfo *FindError(std::string_view code);

} // namespace npuc
