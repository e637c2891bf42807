#include "compiler/support/diagnostic.h"

#include <absl/strings/cord.h>

#include <algorithm>

namespace npuc {
namespace {

constexpr ErrorInfo kErrors[] = {
#define NPUC_ERROR(code, title) {#code, title},
#include "compiler/support/errors.def"
#undef NPUC_ERROR
};

constexpr absl::string_view kCode = "npuc/code";
constexpr absl::string_view kHelp = "npuc/help";
constexpr absl::string_view kNode = "npuc/node";
constexpr absl::string_view kOp = "npuc/op";
constexpr absl::string_view kFile = "npuc/file";
constexpr absl::string_view kReported = "npuc/reported";

std::string Payload(const Status &status, absl::string_view key) {
  auto cord = status.GetPayload(key);
  return cord.has_value() ? std::string(*cord) : std::string();
}

void Set(Status &status, absl::string_view key, std::string_view value) {
  status.SetPayload(key, absl::Cord(ToAbsl(value)));
}

// Lines after the first are indented so that a diagnostic can be told from the next one.
std::string Indented(std::string_view text, std::string_view indent) {
  std::string out;
  for (char c : text) {
    out += c;
    if (c == '\n')
      out += indent;
  }
  return out;
}

} // namespace

std::span<const ErrorInfo> AllErrors() {
  return kErrors;
}

const ErrorInfo *FindError(std::string_view code) {
  for (const ErrorInfo &e : kErrors)
    if (e.code == code)
      return &e;
  return nullptr;
}

std::string Render(const Diagnostic &d, bool colour) {
  static constexpr std::string_view names[] = {"note", "warning", "error"};
  static constexpr std::string_view colours[] = {"\x1b[1;36m", "\x1b[1;35m", "\x1b[1;31m"};
  const auto severity = static_cast<size_t>(d.severity);
  const std::string_view bold = colour ? "\x1b[1m" : "", reset = colour ? "\x1b[0m" : "";
  std::string out;
  if (!d.file.empty())
    out += fmt::format("{}{}:{} ", bold, d.file, reset);
  out += colour ? colours[severity] : "";
  out += names[severity];
  if (!d.code.empty())
    out += "[" + d.code + "]";
  out += ":";
  out += reset;
  out += ' ';
  if (!d.node.empty()) {
    out += "node '" + d.node + "'";
    if (!d.op.empty())
      out += " (" + d.op + ")";
    out += ": ";
  } else if (!d.op.empty()) {
    out += d.op + ": ";
  }
  out += Indented(d.message, "    ");
  if (!d.help.empty())
    out += fmt::format("\n  {}help:{} {}", colour ? "\x1b[1;32m" : "", reset, Indented(d.help, "        "));
  return out;
}

Status Error(std::string_view code, std::string message, std::string help) {
  NPUC_CHECK(FindError(code), "{} is not in errors.def (message: {})", code, message);
  Status status = absl::InvalidArgumentError(message);
  Set(status, kCode, code);
  if (!help.empty())
    Set(status, kHelp, help);
  return status;
}

Status AtNode(Status status, std::string_view node_id, std::string_view op) {
  if (!status.ok() && !status.GetPayload(kNode).has_value()) {
    Set(status, kNode, node_id);
    Set(status, kOp, op);
  }
  return status;
}

Status AtFile(Status status, std::string_view file) {
  if (!status.ok() && !status.GetPayload(kFile).has_value())
    Set(status, kFile, file);
  return status;
}

Status Prefix(Status status, std::string_view prefix) {
  if (status.ok())
    return status;
  Status out(status.code(), fmt::format("{}: {}", prefix, Message(status)));
  status.ForEachPayload([&](absl::string_view key, const absl::Cord &value) { out.SetPayload(key, value); });
  return out;
}

Diagnostic FromStatus(const Status &status) {
  Diagnostic d;
  d.code = ErrorCode(status);
  d.file = Payload(status, kFile);
  d.node = Payload(status, kNode);
  d.op = Payload(status, kOp);
  d.message = Message(status);
  d.help = Payload(status, kHelp);
  return d;
}

std::string ErrorCode(const Status &status) {
  if (status.ok())
    return "";
  std::string code = Payload(status, kCode);
  return code.empty() ? "E0901" : code;
}

Status AlreadyReported() {
  Status status = absl::AbortedError("errors were reported");
  Set(status, kReported, "");
  return status;
}

bool IsAlreadyReported(const Status &status) {
  return status.GetPayload(kReported).has_value();
}

void DiagnosticEngine::Report(Diagnostic d, uint64_t order) {
  std::lock_guard lock(mutex_);
  if (d.severity != Severity::error && !said_.insert(d).second)
    return;
  entries_.push_back({order, std::move(d)});
}

void DiagnosticEngine::ReportStatus(const Status &status, std::string_view file, uint64_t order) {
  if (!status.ok() && !IsAlreadyReported(status))
    Report(FromStatus(AtFile(status, file)), order);
}

void DiagnosticEngine::Warning(std::string message, std::string help) {
  Report({.severity = Severity::warning,
          .code = {},
          .file = {},
          .node = {},
          .op = {},
          .message = std::move(message),
          .help = std::move(help)});
}

void DiagnosticEngine::Note(std::string message, std::string help) {
  Report({.severity = Severity::note,
          .code = {},
          .file = {},
          .node = {},
          .op = {},
          .message = std::move(message),
          .help = std::move(help)});
}

size_t DiagnosticEngine::ErrorCount() const {
  std::lock_guard lock(mutex_);
  return std::count_if(entries_.begin(), entries_.end(),
                       [](const Entry &e) { return e.diagnostic.severity == Severity::error; });
}

size_t DiagnosticEngine::WarningCount() const {
  std::lock_guard lock(mutex_);
  return std::count_if(entries_.begin(), entries_.end(),
                       [](const Entry &e) { return e.diagnostic.severity == Severity::warning; });
}

std::vector<Diagnostic> DiagnosticEngine::All() const {
  std::vector<Entry> entries;
  {
    std::lock_guard lock(mutex_);
    entries = entries_;
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) { return a.order < b.order; });
  std::vector<Diagnostic> out;
  out.reserve(entries.size());
  for (Entry &e : entries)
    out.push_back(std::move(e.diagnostic));
  return out;
}

Status DiagnosticEngine::ToStatus() const {
  return ErrorCount() ? AlreadyReported() : OkStatus();
}

std::string DiagnosticEngine::RenderAll(bool colour) const {
  std::string out;
  for (const Diagnostic &d : All())
    out += Render(d, colour) + "\n";
  return out;
}

void DiagnosticEngine::Clear() {
  std::lock_guard lock(mutex_);
  entries_.clear();
  said_.clear();
}

} // namespace npuc
