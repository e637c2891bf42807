// ONNX models as subjects. The message is kept slim (bulk data stay in the mapped file, see compiler/onnx/wire.h), so a
// candidate costs its structure; Serialize puts the bytes back.
//
// Left alone: the inside of If, Loop and Scan bodies and of local functions (unused functions go).
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "compiler/ir/graph.h"
#include "compiler/onnx/import.h"
#include "compiler/onnx/model_file.h"
#include "compiler/support/diagnostic.h"
#include "compiler/types/dtype.h"
#include "tools/npu-reduce/subject.h"

namespace npuc::reduce {
namespace {

using Types = std::map<std::string, ::onnx::TypeProto>;
using Names = std::set<std::string>;

constexpr int64_t kMaxZeros = 1 << 20;  // elements of a constant that stands for a node's result
constexpr unsigned kInferSeconds = 120; // then types are what the model says

// fn(TensorProto&) on every tensor of a graph, a node, a function.
template <class Fn> void ForTensors(::onnx::GraphProto &g, const Fn &fn);
template <class Fn> void ForTensors(::onnx::AttributeProto &a, const Fn &fn) {
  auto sparse = [&](::onnx::SparseTensorProto &s) {
    fn(*s.mutable_values());
    fn(*s.mutable_indices());
  };
  if (a.has_t())
    fn(*a.mutable_t());
  for (auto &t : *a.mutable_tensors())
    fn(t);
  if (a.has_sparse_tensor())
    sparse(*a.mutable_sparse_tensor());
  for (auto &s : *a.mutable_sparse_tensors())
    sparse(s);
  if (a.has_g())
    ForTensors(*a.mutable_g(), fn);
  for (auto &g : *a.mutable_graphs())
    ForTensors(g, fn);
}
template <class Fn> void ForTensors(::onnx::NodeProto &n, const Fn &fn) {
  for (auto &a : *n.mutable_attribute())
    ForTensors(a, fn);
}
template <class Fn> void ForTensors(::onnx::GraphProto &g, const Fn &fn) {
  for (auto &t : *g.mutable_initializer())
    fn(t);
  for (auto &s : *g.mutable_sparse_initializer()) {
    fn(*s.mutable_values());
    fn(*s.mutable_indices());
  }
  for (auto &n : *g.mutable_node())
    ForTensors(n, fn);
}

// fn(graph) on the bodies of a node.
template <class Node, class Fn> void ForBodies(Node &n, const Fn &fn) {
  for (auto &a : n.attribute()) {
    if (a.has_g())
      fn(a.g());
    for (auto &g : a.graphs())
      fn(g);
  }
}

// Names that a graph reads from around it.
void FreeNames(const ::onnx::GraphProto &g, Names *out);
void ReadNames(const ::onnx::NodeProto &n, Names *out) {
  for (const std::string &name : n.input())
    if (!name.empty())
      out->insert(name);
  ForBodies(n, [&](const ::onnx::GraphProto &body) { FreeNames(body, out); });
}
void FreeNames(const ::onnx::GraphProto &g, Names *out) {
  Names read, own;
  for (const auto &n : g.node()) {
    ReadNames(n, &read);
    own.insert(n.output().begin(), n.output().end());
  }
  for (const auto &o : g.output())
    read.insert(o.name());
  for (const auto &i : g.input())
    own.insert(i.name());
  for (const auto &t : g.initializer())
    own.insert(t.name());
  for (const auto &s : g.sparse_initializer())
    own.insert(s.values().name());
  for (const std::string &name : read)
    if (!own.count(name))
      out->insert(name);
}

bool IsStatic(const ::onnx::TypeProto &t) {
  if (!t.has_tensor_type() || !t.tensor_type().has_shape())
    return false;
  for (const auto &d : t.tensor_type().shape().dim())
    if (!d.has_dim_value())
      return false;
  return true;
}

::onnx::TypeProto ToProto(DType dtype, const Shape &shape) {
  ::onnx::TypeProto t;
  t.mutable_tensor_type()->set_elem_type(static_cast<int>(dtype));
  if (shape.ranked()) {
    auto *s = t.mutable_tensor_type()->mutable_shape();
    for (const Dim &d : shape.dims()) {
      auto *dim = s->add_dim();
      if (d.is_static())
        dim->set_dim_value(d.value());
      else if (!std::string_view(d.symbol()).empty())
        dim->set_dim_param(std::string(d.symbol()));
    }
  }
  return t;
}

// What the importer finds of the tensors between: a child does the work and sends ValueInfoProtos in a GraphProto.
// Nothing when it fails, hangs or dies.
Types Infer(const std::string &model, const std::string &folder, bool *imported) {
  Types types;
  *imported = false;
  int fds[2];
  if (pipe(fds) != 0)
    return types;
  const pid_t child = fork();
  if (child == 0) {
    for (int number : {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS})
      signal(number, SIG_DFL);
    close(STDERR_FILENO); // its last words are not ours
    alarm(kInferSeconds);
    DiagnosticEngine diagnostics;
    ImportOptions options;
    options.default_batch = false;
    auto module = ImportModel(MappedFile::FromString(model, "candidate.onnx"), folder, options, diagnostics);
    if (!module.ok())
      _exit(1);
    ::onnx::GraphProto found;
    auto note = [&](const Value *v) {
      if (!v->type().is_tensor() || v->type().dtype() == DType::Undefined)
        return;
      auto *info = found.add_value_info();
      info->set_name(v->name());
      *info->mutable_type() = ToProto(v->type().dtype(), v->type().shape());
    };
    for (const Node &n : (*module)->main().nodes())
      for (unsigned i = 0; i < n.num_results(); ++i)
        note(n.result(i));
    const std::string text = found.SerializeAsString();
    for (size_t at = 0; at < text.size();) {
      const ssize_t n = write(fds[1], text.data() + at, text.size() - at);
      if (n <= 0)
        _exit(1);
      at += static_cast<size_t>(n);
    }
    _exit(0);
  }
  close(fds[1]);
  std::string text;
  char buffer[1 << 16];
  for (ssize_t n; child > 0 && (n = read(fds[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  close(fds[0]);
  int status = 1;
  if (child > 0)
    waitpid(child, &status, 0);
  ::onnx::GraphProto found;
  if (status != 0 || !found.ParseFromString(text))
    return types;
  *imported = true;
  for (const auto &info : found.value_info())
    types[info.name()] = info.type();
  return types;
}

class OnnxSubject : public Subject {
public:
  OnnxSubject(std::shared_ptr<onnx_import::ModelFile> file, ::onnx::ModelProto model)
      : file_(std::move(file)), model_(std::move(model)) {}

  // Types of all tensors, as far as they can be known.
  bool FindTypes() {
    bool imported = false;
    auto types = std::make_shared<Types>(Infer(Serialize(), file_->tensors.folder, &imported));
    const auto &g = model_.graph();
    for (const auto *list : {&g.value_info(), &g.output(), &g.input()})
      for (const auto &info : *list)
        if (info.has_type() && (IsStatic(info.type()) || !types->count(info.name())))
          (*types)[info.name()] = info.type();
    types_ = std::move(types);
    return imported;
  }

  size_t num_nodes() const override { return static_cast<size_t>(model_.graph().node_size()); }

  std::unique_ptr<Subject> Keep(const std::vector<bool> &keep) const override {
    auto next = Copy(false);
    Names lost; // read by nodes that go
    for (int i = 0; i < model_.graph().node_size(); ++i) {
      if (keep[static_cast<size_t>(i)])
        *next->graph().add_node() = model_.graph().node(i);
      else
        ReadNames(model_.graph().node(i), &lost);
    }
    return next->Repair(lost) ? std::move(next) : nullptr;
  }

  std::vector<Step> Steps() const override {
    std::vector<Step> steps;
    const auto &g = model_.graph();
    steps.push_back([this] { return Strip(); });
    if (g.output_size() > 1)
      for (int i = g.output_size(); i-- > 0;)
        steps.push_back([this, i] { return WithoutOutput(i); });
    for (int i = g.node_size(); i-- > 0;) {
      for (int k = 0; k < g.node(i).input_size(); ++k)
        steps.push_back([this, i, k] { return Bypass(i, k); });
      steps.push_back([this, i] { return AsConstant(i); });
    }
    for (int i = 0; i < g.input_size(); ++i)
      if (IsStatic(g.input(i).type()))
        for (int d = 0; d < g.input(i).type().tensor_type().shape().dim_size(); ++d)
          for (const bool one : {true, false})
            steps.push_back([this, i, d, one] { return Shrink(i, d, one); });
    for (int i = g.node_size(); i-- > 0;) {
      for (int k = g.node(i).input_size(); k-- > 1;)
        steps.push_back([this, i, k] { return WithoutOperand(i, k); });
      for (int k = g.node(i).attribute_size(); k-- > 0;)
        steps.push_back([this, i, k] { return WithoutAttribute(i, k); });
    }
    for (int i = 0; i < g.initializer_size(); ++i)
      steps.push_back([this, i] { return Zeroed(i); });
    return steps;
  }

  std::string Serialize() const override {
    ::onnx::ModelProto full = model_;
    auto restore = [&](::onnx::TensorProto &t) { Restore(t); };
    ForTensors(*full.mutable_graph(), restore);
    for (auto &f : *full.mutable_functions()) {
      for (auto &n : *f.mutable_node())
        ForTensors(n, restore);
      for (auto &a : *f.mutable_attribute_proto())
        ForTensors(a, restore);
    }
    return full.SerializeAsString();
  }

private:
  ::onnx::GraphProto &graph() { return *model_.mutable_graph(); }

  std::unique_ptr<OnnxSubject> Copy(bool nodes = true) const {
    auto next = std::make_unique<OnnxSubject>(file_, model_);
    if (!nodes)
      next->graph().clear_node();
    next->types_ = types_;
    next->zeros_ = zeros_;
    return next;
  }

  // Puts the bulk data back: of the mapped file, or of the file beside it.
  void Restore(::onnx::TensorProto &t) const {
    if (t.has_npuc_raw_index()) {
      const auto &range = file_->tensors.raw[t.npuc_raw_index()];
      t.clear_npuc_raw_index();
      t.set_raw_data(range.data, range.size);
    } else if (t.data_location() == ::onnx::TensorProto::EXTERNAL) {
      auto tensor = onnx_import::ReadTensor(t, file_->tensors);
      if (!tensor.ok())
        return; // as it was: perhaps that is what fails
      const std::string name = t.name();
      t.Clear();
      onnx_import::WriteTensor(*tensor, &t);
      t.set_name(name);
    }
  }

  // Makes inputs, outputs and initializers fit the nodes. `lost`: names whose readers went. False where that is no
  // graph.
  bool Repair(const Names &lost) {
    auto &g = graph();
    Names made, read, known;
    std::vector<std::string> in_order;
    for (const auto &n : g.node()) {
      for (const std::string &o : n.output())
        if (!o.empty())
          made.insert(o);
      Names names;
      ReadNames(n, &names);
      for (const std::string &name : names)
        if (read.insert(name).second)
          in_order.push_back(name);
    }
    if (made.empty())
      return false;
    ::onnx::GraphProto old;
    old.mutable_output()->Swap(g.mutable_output());
    for (auto &o : *old.mutable_output()) {
      const bool output = made.count(o.name()) != 0;
      if (output && known.insert(o.name()).second)
        *g.add_output() = o;
    }
    for (const auto &n : g.node())
      for (const std::string &o : n.output())
        if (lost.count(o) && !read.count(o) && known.insert(o).second) {
          auto *info = g.add_output();
          info->set_name(o);
          if (auto it = types_->find(o); it != types_->end())
            *info->mutable_type() = it->second;
        }
    if (g.output_size() == 0)
      return false;
    auto drop = [](auto *list, const auto &gone) {
      list->erase(std::remove_if(list->begin(), list->end(), gone), list->end());
    };
    drop(g.mutable_initializer(), [&](const auto &t) { return !read.count(t.name()); });
    drop(g.mutable_sparse_initializer(), [&](const auto &t) { return !read.count(t.values().name()); });
    drop(g.mutable_input(), [&](const auto &i) { return !read.count(i.name()) || made.count(i.name()); });
    drop(g.mutable_value_info(), [&](const auto &v) { return !made.count(v.name()) || known.count(v.name()); });
    for (const auto &t : g.initializer())
      made.insert(t.name());
    for (const auto &t : g.sparse_initializer())
      made.insert(t.values().name());
    for (const auto &i : g.input())
      made.insert(i.name());
    for (const std::string &name : in_order) {
      if (made.count(name))
        continue;
      const auto it = types_->find(name);
      if (it == types_->end())
        return false;
      auto *input = g.add_input();
      input->set_name(name);
      *input->mutable_type() = it->second;
    }
    DropUnusedFunctions();
    return true;
  }

  void DropUnusedFunctions() {
    auto id = [](const std::string &domain, const std::string &name) { return domain + "::" + name; };
    for (;;) {
      Names called;
      std::function<void(const ::onnx::NodeProto &)> call = [&](const ::onnx::NodeProto &n) {
        called.insert(id(n.domain(), n.op_type()));
        ForBodies(n, [&](const ::onnx::GraphProto &g) {
          for (const auto &inner : g.node())
            call(inner);
        });
      };
      for (const auto &n : model_.graph().node())
        call(n);
      for (const auto &f : model_.functions())
        for (const auto &n : f.node())
          call(n);
      auto *list = model_.mutable_functions();
      const int before = list->size();
      list->erase(std::remove_if(list->begin(), list->end(),
                                 [&](const auto &f) { return !called.count(id(f.domain(), f.name())); }),
                  list->end());
      if (list->size() == before)
        return;
    }
  }

  // After an edit: nodes that nobody needs go.
  std::unique_ptr<Subject> Finish(std::unique_ptr<OnnxSubject> next) const {
    for (;;) {
      auto &g = next->graph();
      Names read;
      for (const auto &n : g.node())
        ReadNames(n, &read);
      for (const auto &o : g.output())
        read.insert(o.name());
      auto *nodes = g.mutable_node();
      const int before = nodes->size();
      nodes->erase(std::remove_if(nodes->begin(), nodes->end(),
                                  [&](const ::onnx::NodeProto &n) {
                                    return std::none_of(n.output().begin(), n.output().end(),
                                                        [&](const std::string &o) { return read.count(o); });
                                  }),
                   nodes->end());
      if (nodes->size() == before)
        break;
    }
    return next->Repair({}) ? std::move(next) : nullptr;
  }

  // Everything that says nothing about what is computed.
  std::unique_ptr<Subject> Strip() const {
    auto next = Copy();
    auto &m = next->model_;
    m.clear_doc_string();
    m.clear_metadata_props();
    m.clear_producer_name();
    m.clear_producer_version();
    m.clear_domain();
    m.clear_model_version();
    m.clear_training_info();
    m.mutable_graph()->clear_doc_string();
    m.mutable_graph()->clear_value_info();
    m.mutable_graph()->clear_quantization_annotation();
    for (auto &n : *m.mutable_graph()->mutable_node()) {
      n.clear_doc_string();
      n.clear_metadata_props();
      for (auto &a : *n.mutable_attribute())
        a.clear_doc_string();
    }
    for (auto &t : *m.mutable_graph()->mutable_initializer())
      t.clear_doc_string();
    return next;
  }

  std::unique_ptr<Subject> WithoutOutput(int i) const {
    auto next = Copy();
    next->graph().mutable_output()->DeleteSubrange(i, 1);
    return Finish(std::move(next));
  }

  const ::onnx::TypeProto *TypeOf(const std::string &name) const {
    const auto it = types_->find(name);
    return it == types_->end() ? nullptr : &it->second;
  }
  bool IsOutput(const std::string &name) const {
    for (const auto &o : model_.graph().output())
      if (o.name() == name)
        return true;
    return false;
  }

  // Readers of node i's first result read its operand k instead.
  std::unique_ptr<Subject> Bypass(int i, int k) const {
    const auto &n = model_.graph().node(i);
    const std::string &in = n.input(k);
    if (in.empty() || n.output_size() == 0 || n.output(0).empty() || IsOutput(n.output(0)))
      return nullptr;
    const auto *a = TypeOf(in), *b = TypeOf(n.output(0));
    if (!a || !b || a->SerializeAsString() != b->SerializeAsString())
      return nullptr;
    auto next = Copy();
    for (auto &reader : *next->graph().mutable_node()) {
      Names inner;
      ForBodies(reader, [&](const ::onnx::GraphProto &body) { FreeNames(body, &inner); });
      if (inner.count(n.output(0)))
        return nullptr;
      for (auto &name : *reader.mutable_input())
        if (name == n.output(0))
          name = in;
    }
    return Finish(std::move(next));
  }

  std::unique_ptr<Subject> AsConstant(int i) const {
    const auto &n = model_.graph().node(i);
    if (n.op_type() == "Constant" || n.output_size() == 0)
      return nullptr;
    auto next = Copy();
    for (const std::string &name : n.output()) {
      if (name.empty())
        continue;
      const auto *type = TypeOf(name);
      if (IsOutput(name) || !type || !IsStatic(*type))
        return nullptr;
      auto *t = next->graph().add_initializer();
      t->set_name(name);
      for (const auto &d : type->tensor_type().shape().dim())
        t->add_dims(d.dim_value());
      t->set_data_type(type->tensor_type().elem_type());
      if (!SetZero(*t, kMaxZeros))
        return nullptr;
    }
    next->graph().mutable_node()->DeleteSubrange(i, 1);
    return Finish(std::move(next));
  }

  std::unique_ptr<Subject> WithoutOperand(int i, int k) const {
    if (model_.graph().node(i).input(k).empty())
      return nullptr;
    auto next = Copy();
    auto *inputs = next->graph().mutable_node(i)->mutable_input();
    (*inputs)[k].clear();
    while (inputs->size() > 0 && (*inputs)[inputs->size() - 1].empty())
      inputs->RemoveLast();
    return Finish(std::move(next));
  }

  std::unique_ptr<Subject> WithoutAttribute(int i, int k) const {
    auto next = Copy();
    next->graph().mutable_node(i)->mutable_attribute()->DeleteSubrange(k, 1);
    return Finish(std::move(next));
  }

  // One extent of an input becomes 1, or half. All shapes are inferred again; a model that no longer fits together is
  // no candidate.
  std::unique_ptr<Subject> Shrink(int input, int dim, bool one) const {
    auto next = Copy();
    auto *d =
        next->graph().mutable_input(input)->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(dim);
    const int64_t to = one ? 1 : (d->dim_value() + 1) / 2;
    if (to < 1 || to >= d->dim_value() || (!one && to == 1))
      return nullptr;
    for (const auto &t : model_.graph().initializer())
      if (t.name() == model_.graph().input(input).name())
        return nullptr;
    d->set_dim_value(to);
    next->graph().clear_value_info();
    for (auto &o : *next->graph().mutable_output())
      if (o.type().has_tensor_type())
        o.mutable_type()->mutable_tensor_type()->clear_shape();
    if (!next->FindTypes())
      return nullptr;
    for (auto &o : *next->graph().mutable_output())
      if (const auto *type = next->TypeOf(o.name()))
        *o.mutable_type() = *type;
    return next;
  }

  // Values that do not matter become zeros, which at least compress.
  std::unique_ptr<Subject> Zeroed(int i) const {
    const auto &t = model_.graph().initializer(i);
    int64_t n = 1;
    for (int64_t d : t.dims())
      n *= d;
    if (n < 16 || (t.has_npuc_raw_index() && IsZero(file_->tensors.raw[t.npuc_raw_index()])))
      return nullptr;
    auto next = Copy();
    auto *zero = next->graph().mutable_initializer(i);
    ::onnx::TensorProto fresh;
    fresh.set_name(t.name());
    *fresh.mutable_dims() = t.dims();
    fresh.set_data_type(t.data_type());
    if (!SetZero(fresh, INT64_MAX))
      return nullptr;
    *zero = std::move(fresh);
    return next;
  }

  static bool IsZero(const onnx_import::ByteRange &bytes) {
    return std::all_of(bytes.data, bytes.data + bytes.size, [](uint8_t b) { return b == 0; });
  }

  // Data for dims and data_type, shared: an index into the ranges of the file. False for strings and what is not known.
  bool SetZero(::onnx::TensorProto &t, int64_t limit) const {
    auto dtype = onnx_import::DTypeFromCode(t.data_type());
    if (!dtype.ok() || BitWidth(*dtype) == 0)
      return false;
    int64_t n = 1;
    for (int64_t d : t.dims())
      if (d < 0 || __builtin_mul_overflow(n, d, &n))
        return false;
    if (n > limit)
      return false;
    const size_t bytes = (static_cast<size_t>(n) * static_cast<size_t>(BitWidth(*dtype)) + 7) / 8;
    auto &raw = file_->tensors.raw;
    auto have = zeros_->find(bytes);
    if (have == zeros_->end()) {
      std::shared_ptr<uint8_t> block(static_cast<uint8_t *>(std::calloc(std::max<size_t>(bytes, 1), 1)), std::free);
      if (!block)
        return false;
      raw.push_back({block.get(), bytes});
      have = zeros_->emplace(bytes, std::pair(raw.size() - 1, std::move(block))).first;
    }
    t.set_npuc_raw_index(have->second.first);
    return true;
  }

  std::shared_ptr<onnx_import::ModelFile> file_; // bulk data
  ::onnx::ModelProto model_;
  std::shared_ptr<const Types> types_ = std::make_shared<Types>();
  // Ranges of zeros by size, for all subjects of the file.
  using Zeros = std::map<size_t, std::pair<size_t, std::shared_ptr<uint8_t>>>;
  std::shared_ptr<Zeros> zeros_ = std::make_shared<Zeros>();
};

} // namespace

StatusOr<std::unique_ptr<Subject>> OpenOnnx(const std::string &path) {
  NPUC_ASSIGN_OR_RETURN(std::unique_ptr<onnx_import::ModelFile> file, onnx_import::ReadModelFile(path));
  std::shared_ptr<onnx_import::ModelFile> shared = std::move(file);
  auto subject = std::make_unique<OnnxSubject>(shared, shared->proto);
  subject->FindTypes();
  return subject;
}

} // namespace npuc::reduce
