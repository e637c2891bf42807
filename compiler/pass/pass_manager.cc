// The pass manager.
//
// A copy of the IR from before the pass at work is what reproducers are made of. Making it costs about as much as one
// walk over the IR, and it stays good for as long as passes report "unchanged", so it is kept for models up to kMaxKept
// nodes without being asked, and for all models when verify_each or eval_each wants it.
//
// A pass that crashes (NPUC_CHECK) never returns, so the manager puts itself in front of the process's check handler
// while passes run; the handler writes the reproducer from the copy and passes the message on.
#include "compiler/pass/pass_manager.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "compiler/support/atomic_file.h"
#include "compiler/target/target.h"
#include "llvm/ADT/StringRef.h"

namespace npuc {
namespace {

constexpr size_t kMaxKept = 20000;            // nodes
constexpr int64_t kMaxDumpedData = 8ll << 20; // bytes of constants that --dump-ir writes into each file
constexpr int64_t kMaxReproducerData = 256ll << 20;

size_t CountNodes(const Module &m) {
  size_t n = 0;
  WalkNodes(m.main(), [&](const Node &) { ++n; });
  return n;
}

int64_t DataBytes(const Module &m) {
  int64_t bytes = 0;
  WalkNodes(m.main(), [&](const Node &n) {
    if (n.is_constant() && n.attrs().TensorOrNull("value"))
      bytes += n.attrs().TensorOrNull("value")->num_stored_bytes();
  });
  return bytes;
}

bool IsBug(const Status &s) {
  return ErrorCode(s) == "E0901";
}

Status UnknownPass(std::string_view name, std::string_view where) {
  std::string near;
  for (const Pass &p : AllPasses())
    if (llvm::StringRef(p.name).edit_distance(name) <= std::max<size_t>(2, name.size() / 3) ||
        p.name.find(name) != std::string_view::npos)
      near += fmt::format("{}'{}'", near.empty() ? "" : ", ", p.name);
  return Error("E0501", fmt::format("{}: there is no pass '{}'", where, name),
               near.empty() ? "npu-opt --list-passes prints the passes"
                            : fmt::format("near names: {}; npu-opt --list-passes prints all", near));
}

// Writes the file that shows a pass's fault again; its path, or "" when that fails.
std::string WriteReproducer(const Module &before, std::string_view pass, const PassContext &ctx,
                            const PassManagerOptions &options, std::string_view message) {
  std::string dir = options.reproducer_dir;
  for (const char *variable : {"NPUC_CRASH_DIR", "TMPDIR"})
    if (const char *v = std::getenv(variable); dir.empty() && v && *v)
      dir = v;
  if (dir.empty())
    dir = "/tmp";
  const bool with_data = DataBytes(before) <= kMaxReproducerData;
  std::string text = fmt::format("// RUN: npu-opt --verify-each --passes={}{}{} %s\n// npuc {}; pass {}:\n", pass,
                                 options.target_name.empty() ? "" : " --target=" + options.target_name,
                                 ctx.options.ToFlags(), NPUC_VERSION, pass);
  for (llvm::StringRef rest = llvm::StringRef(message).rtrim(); !rest.empty();) {
    llvm::StringRef line;
    std::tie(line, rest) = rest.split('\n');
    text += fmt::format("//   {}\n", std::string_view(line));
  }
  if (!with_data)
    text += "// The constants are too big to be written here.\n";
  text += Print(before, with_data);
  for (int i = 0; i < 1000; ++i) {
    const std::string path = fmt::format("{}/npuc-{}-{}{}.ir", dir, pass, ::getpid(), i ? fmt::format("-{}", i) : "");
    if (::access(path.c_str(), F_OK) == 0)
      continue;
    return WriteFile(path, text).ok() ? path : "";
  }
  return "";
}

// What the check handler needs; one pipeline runs in a thread at a time.
struct AtWork {
  const Module *before;
  std::string_view pass;
  const PassContext *ctx;
  const PassManagerOptions *options;
};
thread_local AtWork *at_work = nullptr;
CheckHandler outer_handler = nullptr;

void OnCheckFailed(std::string_view message) {
  std::string text(message);
  if (AtWork *w = at_work) {
    at_work = nullptr; // a check that fails while printing the IR must not come back here
    if (w->before) {
      const std::string path = WriteReproducer(*w->before, w->pass, *w->ctx, *w->options, message);
      if (!path.empty())
        text += fmt::format("\nIR before the pass: {}", path);
    }
  }
  if (outer_handler)
    outer_handler(text);
  std::fprintf(stderr, "internal error: %s\n", text.c_str());
  std::abort();
}

class ScopedCheckHandler {
public:
  ScopedCheckHandler() : previous_(SetCheckHandler(OnCheckFailed)) {
    if (previous_ != OnCheckFailed)
      outer_handler = previous_;
  }
  ~ScopedCheckHandler() { SetCheckHandler(previous_); }

private:
  CheckHandler previous_;
};

class Manager {
public:
  Manager(Module &m, PassContext &ctx, const PassManagerOptions &options, std::vector<PassRecord> *records)
      : module_(m), ctx_(ctx), options_(options), records_(records) {
    const char *forced = std::getenv("NPUC_VERIFY_EACH");
    verify_ = options.verify_each || (forced && std::string_view(forced) != "0");
    check_changed_ = options.check_changed || verify_;
  }

  Status Run(const Pipeline &pipeline);

private:
  Status CheckNames(const Pipeline &pipeline) const;
  Status RunOne(const Pass &pass, bool *changed);
  Status Guilty(const Pass &pass, std::string_view what);
  Status Dump(std::string_view name);
  void PrintTimes() const;
  void Say(std::string_view text) const {
    if (options_.print)
      options_.print(text);
    else
      std::fwrite(text.data(), 1, text.size(), stderr);
  }

  Module &module_;
  PassContext &ctx_;
  const PassManagerOptions &options_;
  std::vector<PassRecord> *records_;
  std::vector<PassRecord> own_records_;
  bool verify_, check_changed_;
  std::unique_ptr<Module> before_;
  bool keep_ = false;
  uint64_t hash_ = 0;
  int dumped_ = 0;
};

Status Manager::CheckNames(const Pipeline &pipeline) const {
  for (const PassStage &stage : pipeline)
    for (const std::string &name : stage.passes)
      if (!LookupPass(name))
        return UnknownPass(name, "pipeline");
  for (const std::string &name : options_.disabled)
    if (!LookupPass(name))
      return UnknownPass(name, "--disable-pass");
  for (const std::string &name : options_.print_after)
    if (name != "all" && !LookupPass(name))
      return UnknownPass(name, "--print-after");
  if (!options_.stop_after.empty() && !LookupPass(options_.stop_after))
    return UnknownPass(options_.stop_after, "--stop-after");
  return OkStatus();
}

Status Manager::Guilty(const Pass &pass, std::string_view what) {
  std::string message = fmt::format("pass {}: {}", pass.name, what);
  if (before_) {
    const std::string path = WriteReproducer(*before_, pass.name, ctx_, options_, message);
    if (!path.empty())
      message += fmt::format("\nIR before the pass, and the command that runs it again: {}", path);
  } else {
    message += "\n--verify-each writes the IR before the pass and the command that runs it again";
  }
  return absl::InternalError(message);
}

Status Manager::Dump(std::string_view name) {
  if (options_.dump_ir_dir.empty())
    return OkStatus();
  NPUC_RETURN_IF_ERROR(MakeFolder(options_.dump_ir_dir));
  const std::string path = fmt::format("{}/{:03}.{}.ir", options_.dump_ir_dir, dumped_++, name);
  return WriteFile(path, Print(module_, DataBytes(module_) <= kMaxDumpedData));
}

Status Manager::RunOne(const Pass &pass, bool *changed) {
  if (keep_ && !before_)
    before_ = Clone(module_);
  AtWork work{before_.get(), pass.name, &ctx_, &options_};
  ctx_.pass = pass.name;
  const auto start = std::chrono::steady_clock::now();
  StatusOr<bool> result = [&] {
    at_work = &work;
    CheckScope here(fmt::format("pass {}", pass.name));
    StatusOr<bool> r = pass.run(module_, ctx_);
    at_work = nullptr;
    return r;
  }();
  ctx_.pass = "";
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!result.ok()) {
    if (!IsBug(result.status()) || IsAlreadyReported(result.status()))
      return result.status();
    return Guilty(pass, Message(result.status()));
  }
  *changed = *result;
  records_->push_back({std::string(pass.name), seconds, *changed});

  if (check_changed_) {
    const uint64_t now = Hash(module_);
    if (!*changed && now != hash_)
      return Guilty(pass, "changed the IR and says that it did not");
    hash_ = now;
  }
  if (!*changed)
    return OkStatus();
  if (verify_)
    if (Status s = Verify(module_); !s.ok())
      return Guilty(pass, fmt::format("left invalid IR: {}", Render(FromStatus(s))));
  if (options_.eval_each)
    if (Status s = options_.eval_each(pass.name, *before_, module_); !s.ok())
      return Guilty(pass, Message(s));
  before_.reset();
  return Dump(pass.name);
}

void Manager::PrintTimes() const {
  struct Row {
    std::string name;
    double seconds = 0;
    int runs = 0, changes = 0;
  };
  std::vector<Row> rows;
  double total = 0;
  for (const PassRecord &r : *records_) {
    auto row = std::find_if(rows.begin(), rows.end(), [&](const Row &x) { return x.name == r.pass; });
    if (row == rows.end())
      row = rows.insert(rows.end(), Row{r.pass});
    row->seconds += r.seconds;
    row->runs += 1;
    row->changes += r.changed;
    total += r.seconds;
  }
  std::string text = fmt::format("{:>10}  {:>5}  {:>7}  pass\n", "ms", "runs", "changed");
  for (const Row &r : rows)
    text += fmt::format("{:>10.2f}  {:>5}  {:>7}  {}\n", r.seconds * 1e3, r.runs, r.changes, r.name);
  text += fmt::format("{:>10.2f}  {:>5}  {:>7}  total\n", total * 1e3, records_->size(), "");
  Say(text);
}

Status Manager::Run(const Pipeline &pipeline) {
  NPUC_RETURN_IF_ERROR(CheckNames(pipeline));
  if (!records_)
    records_ = &own_records_;
  keep_ = verify_ || options_.eval_each || CountNodes(module_) <= kMaxKept;
  if (verify_)
    if (Status s = Verify(module_); !s.ok())
      return IsBug(s) ? s : Prefix(s, "before the first pass");
  if (check_changed_)
    hash_ = Hash(module_);
  NPUC_RETURN_IF_ERROR(Dump("input"));

  ScopedCheckHandler handler;
  int64_t left = options_.pass_limit;
  bool stopped = false;
  for (const PassStage &stage : pipeline) {
    bool again = true;
    for (int round = 0; round < stage.max_rounds && again && !stopped; ++round) {
      again = false;
      for (const std::string &name : stage.passes) {
        if (left <= 0) {
          stopped = true;
          break;
        }
        if (std::find(options_.disabled.begin(), options_.disabled.end(), name) != options_.disabled.end())
          continue;
        --left;
        bool changed = false;
        NPUC_RETURN_IF_ERROR(RunOne(*LookupPass(name), &changed));
        again |= changed;
        for (const std::string &wanted : options_.print_after)
          if (wanted == name || wanted == "all") {
            Say(fmt::format("// IR after {}{}\n{}", name, changed ? "" : " (unchanged)", Print(module_, false)));
            break;
          }
        if (name == options_.stop_after) {
          stopped = true;
          break;
        }
      }
    }
    if (stopped)
      break;
    if (options_.after_stage)
      NPUC_RETURN_IF_ERROR(options_.after_stage(static_cast<size_t>(&stage - pipeline.data()), module_));
  }
  if (options_.time_passes)
    PrintTimes();
  return OkStatus();
}

} // namespace

Status RunPasses(Module &m, const Pipeline &pipeline, PassContext &ctx, const PassManagerOptions &options,
                 std::vector<PassRecord> *records) {
  return Manager(m, ctx, options, records).Run(pipeline);
}

StatusOr<Pipeline> ParsePipeline(std::string_view list) {
  PassStage stage;
  for (llvm::StringRef rest(list); !rest.empty();) {
    llvm::StringRef name;
    std::tie(name, rest) = rest.split(',');
    name = name.trim();
    if (name.empty())
      continue;
    if (!LookupPass(name))
      return UnknownPass(name, "--passes");
    stage.passes.push_back(name.str());
  }
  return Pipeline{std::move(stage)};
}

} // namespace npuc
