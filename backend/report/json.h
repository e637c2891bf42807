// The report as JSON, schema npuc-report/1.
#pragma once

#include <string>
#include <string_view>

#include "backend/report/report.h"
#include "compiler/support/status.h"

namespace npuc::report {

// Deterministic: keys in the order of the field lists, one row of a table a line.
std::string ToJson(const Report &report);

// Unknown keys are skipped and missing ones keep their defaults: reports of older schema versions and of later
// versions of this schema are read. E0103: broken JSON, a value of the wrong kind, another or a newer schema.
StatusOr<Report> FromJson(std::string_view text, std::string_view file);
// Reads a file. Errors: E0101, E0103.
StatusOr<Report> ReadReport(const std::string &path);

} // namespace npuc::report
