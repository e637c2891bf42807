// A report for people and for CI services.
#pragma once

#include <string>
#include <string_view>

#include "backend/report/report.h"

namespace npuc::report {

// For a terminal: at most 25 lines.
std::string RenderText(const Report &report, bool colour = false);
// For a CI step summary.
std::string RenderMarkdown(const Report &report);
// One self-contained page: no network, no fonts, light and dark, readable by keyboard. The full report stands in it as
// data, too.
std::string RenderHtml(const Report &report);
// JUnit XML: one case a node (a host node fails it), one a gate.
std::string RenderJunit(const Report &report);
// SARIF 2.1.0: each broken rule of each host node is a finding (warning), each failed gate another (error). `path`: the
// model's in the repository that is annotated; "": its base name.
std::string RenderSarif(const Report &report, std::string_view path = "");
// The same findings in the format of GitLab's code quality reports (a subset of Code Climate's).
std::string RenderCodeQuality(const Report &report, std::string_view path = "");
// An SVG badge "NPU coverage 97 %".
std::string RenderBadge(const Report &report);

// Shared by renderers.
std::string Bytes(int64_t n);                 // "1.2 MiB"
std::string Grouped(int64_t n);               // "1 234 567"
std::string MarkdownText(std::string_view s); // for Markdown, in tables too
std::string Escaped(std::string_view s);      // for HTML and XML text and attributes; control characters become '?'

} // namespace npuc::report
