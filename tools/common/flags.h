// Flags that every tool has, over CLI11. Include it in one source file of a tool: CLI11 is dear to compile.
//
//   cli::Console console("npu-run");
//   CLI::App app("Runs an NPU binary.", "npu-run");
//   cli::AddCommonFlags(app, console);
//   cli::AddRepeatable(app, "--input", options.inputs, "NAME=FILE ...");
//   return cli::Main(app, argc, argv, console, [&] { return Run(options, console); });
#pragma once

#include <CLI/CLI.hpp>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tools/common/console.h"

namespace npuc::cli {

inline std::string VersionText(const Console &console) {
  return console.tool() + " " NPUC_VERSION;
}

// -h/--help, --version, -q, -v, --color.
inline void AddCommonFlags(CLI::App &app, Console &console) {
  app.set_version_flag("--version", VersionText(console));
  app.add_flag("-q,--quiet", console.quiet, "Errors only");
  app.add_flag("-v,--verbose", console.verbosity, "Say more (repeatable)");
  app.add_option_function<std::string>(
         "--color",
         [&console](const std::string &when) {
           console.color = when == "always" ? ColorMode::Always : when == "never" ? ColorMode::Never : ColorMode::Auto;
         },
         "auto, always or never")
      ->type_name("WHEN")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->default_str("auto");
}

// A flag that may be given several times and takes one value each time (CLI11 alone would let it swallow positionals).
inline CLI::Option *AddRepeatable(CLI::App &app, const std::string &name, std::vector<std::string> &values,
                                  const std::string &help) {
  return app.add_option(name, values, help)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

// A number in a range. NaN is in none.
inline CLI::Validator Number(double least, double most = std::numeric_limits<double>::infinity()) {
  const std::string range = std::isinf(most) ? fmt::format("a number from {:g} on", least)
                                             : fmt::format("a number from {:g} to {:g}", least, most);
  return CLI::Validator(
      [=](const std::string &text) {
        double v = std::numeric_limits<double>::quiet_NaN();
        if (!CLI::detail::lexical_cast(text, v) || !(v >= least && v <= most) || std::isinf(v))
          return fmt::format("'{}' is not {}", text, range);
        return std::string();
      },
      std::isinf(most) ? fmt::format(">= {:g}", least) : fmt::format("{:g} to {:g}", least, most));
}
// A name that is not empty.
inline CLI::Validator SomeName() {
  return CLI::Validator([](const std::string &text) { return std::string(text.empty() ? "the name is empty" : ""); },
                        "");
}

// Parses, then runs `body`, whose result is the exit code. Wrong usage: a message, exit code 2.
inline int Main(CLI::App &app, int argc, char **argv, Console &console, const std::function<int()> &body) {
  InstallCrashHandlers(console.tool(), argc, argv);
  // Alone, they are answered without the exceptions that CLI11 tells them by: the first one that a static program
  // throws sorts its unwind tables.
  if (const std::string_view only = argc == 2 ? argv[1] : ""; only == "--help" || only == "-h")
    return WriteStdout(app.help()).ok() ? kDone : kBadInput;
  else if (only == "--version" && app.get_version_ptr())
    return WriteStdout(VersionText(console) + "\n").ok() ? kDone : kBadInput;
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    return WriteStdout(app.help()).ok() ? kDone : kBadInput;
  } catch (const CLI::CallForAllHelp &) {
    return WriteStdout(app.help("", CLI::AppFormatMode::All)).ok() ? kDone : kBadInput;
  } catch (const CLI::CallForVersion &e) {
    return WriteStdout(std::string(e.what()) + "\n").ok() ? kDone : kBadInput;
  } catch (const CLI::ParseError &e) {
    // CLI11 takes an unknown subcommand for a missing one.
    if (const auto subcommands = app.get_subcommands([](const CLI::App *) { return true; });
        app.get_require_subcommand_min() > 0 && app.get_subcommands().empty() && !subcommands.empty()) {
      std::vector<std::string> names;
      for (const CLI::App *s : subcommands)
        names.push_back(s->get_name());
      const std::string given = argc > 1 && argv[1][0] != '-' ? fmt::format("there is no '{}'; ", argv[1]) : "";
      return console.UsageError(fmt::format("{}say what to do: {}", given, fmt::join(names, ", ")));
    }
    return console.UsageError(e.what());
  }
  return body();
}

} // namespace npuc::cli
