// The command that says whether a candidate still shows what is looked for.
#pragma once

#include <string>
#include <vector>

#include "compiler/support/status.h"

namespace npuc::reduce {

struct PredicateOptions {
  std::vector<std::string> command; // "{}" in an argument is the candidate's path; without any, it is the last argument
  int exit_code = 0;                // the candidate is interesting when the command ends with this (128 + N: signal N)
  std::string match;                // and, unless empty, printed this text on stdout or stderr
  int jobs = 1;
  double timeout = 60; // seconds, then the command is killed and the candidate is not interesting
  std::string suffix;  // of the candidate's file, with the dot
};

class Predicate {
public:
  // Makes a temporary folder. Errors: E0102.
  static StatusOr<Predicate> Create(PredicateOptions options);
  Predicate(Predicate &&) = default;
  ~Predicate();

  enum class Verdict { Interesting, Boring, TimedOut, CannotRun };
  // Of each candidate, at most `jobs` at a time. Commands run in the current folder with an empty stdin; what they
  // print is not shown. Each candidate lies alone in a folder of its own.
  std::vector<Verdict> Judge(const std::vector<std::string> &candidates);
  int64_t runs() const { return runs_; }

private:
  explicit Predicate(PredicateOptions options) : options_(std::move(options)) {}
  bool Matches(const std::string &log) const;

  PredicateOptions options_;
  std::string folder_;
  int64_t runs_ = 0;
};

} // namespace npuc::reduce
