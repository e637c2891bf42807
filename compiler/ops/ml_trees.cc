// ai.onnx.ml's decision trees: TreeEnsemble of version 5 and the older TreeEnsembleRegressor and -Classifier. Host
// only.
//
// All become one Forest: branches, and votes (target, weight) at the leaves. A row of features walks every tree; votes
// are aggregated per target, in the type of their weights. Cost: rows x depth of the trees.
//
// TreeEnsembleClassifier with two classes and votes for one alone: s, the sum of the votes, speaks for the second
// class, which wins above 0, or above 0.5 where all weights are positive (they are probabilities then). Votes for the
// first give the scores -s and s, or 1 - s and s.
#include <cmath>
#include <map>

#include "compiler/ops/ml_models.h"
#include "compiler/support/fpmath.h"

namespace npuc::ops {
namespace {

enum class Mode : uint8_t { LessEqual, Less, GreaterEqual, Greater, Equal, NotEqual, Member, Leaf };
enum class Aggregate : uint8_t { Average, Sum, Min, Max };

struct Branch {
  int64_t feature = 0;
  double split = 0;
  Mode mode = Mode::LessEqual;
  bool missing_is_true = false;
  int64_t yes = 0, no = 0; // a branch, or ~leaf
  std::vector<double> members;

  bool Takes(double v) const {
    if (std::isnan(v) && missing_is_true)
      return true;
    switch (mode) {
    case Mode::LessEqual:
      return v <= split;
    case Mode::Less:
      return v < split;
    case Mode::GreaterEqual:
      return v >= split;
    case Mode::Greater:
      return v > split;
    case Mode::Equal:
      return v == split;
    case Mode::NotEqual:
      return v != split;
    default:
      return llvm::is_contained(members, v);
    }
  }
};
struct Vote {
  int64_t target;
  double weight;
};

struct Forest {
  std::vector<Branch> branches;
  std::vector<llvm::SmallVector<Vote, 1>> leaves;
  std::vector<int64_t> roots; // a branch, or ~leaf
  int64_t targets = 1;
  Aggregate aggregate = Aggregate::Sum;
  std::vector<double> base; // none, or one a target
  bool in_float = true;     // weights are float32, and so are their sums: a vote of 0.4 + 0.1 is not above 0.5

  int64_t features() const {
    int64_t n = 0;
    for (const Branch &b : branches)
      n = std::max(n, b.feature + 1);
    return n;
  }

  double Rounded(double v) const { return in_float ? static_cast<double>(static_cast<float>(v)) : v; }

  // What the trees say of one row.
  std::vector<double> Score(const Rows &x, int64_t row) const {
    std::vector<double> sum(targets, 0);
    std::vector<bool> any(targets, false);
    for (int64_t at : roots) {
      while (at >= 0)
        at = branches[at].Takes(x.At(row, branches[at].feature)) ? branches[at].yes : branches[at].no;
      for (const auto &[t, w] : leaves[~at]) {
        sum[t] = Rounded(!any[t]                       ? w
                         : aggregate == Aggregate::Min ? std::min(sum[t], w)
                         : aggregate == Aggregate::Max ? std::max(sum[t], w)
                                                       : sum[t] + w);
        any[t] = true;
      }
    }
    if (aggregate == Aggregate::Average && !roots.empty())
      for (double &v : sum)
        v = Rounded(v / static_cast<double>(roots.size()));
    for (size_t t = 0; t < base.size(); ++t)
      sum[t] = Rounded(sum[t] + base[t]);
    return sum;
  }

  // Version 5: children and leaves by index, children behind their parents.
  static StatusOr<Forest> OfTensors(const AttributeList &a);
  // Versions 1 and 3: nodes by (tree, node) ids; `prefix` "target" or "class".
  static StatusOr<Forest> OfIds(const AttributeList &a, const std::string &prefix, int64_t targets);
};

StatusOr<Forest> Forest::OfTensors(const AttributeList &a) {
  const auto features = a.Ints("nodes_featureids"), targets = a.Ints("leaf_targetids"),
             missing = a.Ints("nodes_missing_value_tracks_true");
  const size_t nodes = features.size();
  const Tensor *splits = a.TensorOrNull("nodes_splits"), *modes = a.TensorOrNull("nodes_modes"),
               *weights = a.TensorOrNull("leaf_weights");
  bool good = splits && modes && weights && static_cast<size_t>(splits->num_elements()) == nodes &&
              static_cast<size_t>(modes->num_elements()) == nodes &&
              static_cast<size_t>(weights->num_elements()) == targets.size();
  for (const char *name : {"nodes_trueleafs", "nodes_falseleafs", "nodes_truenodeids", "nodes_falsenodeids"})
    good &= a.Ints(name).size() == nodes;
  if (!good)
    return AttrError("the tree attributes are missing or differ in length");
  Forest f;
  f.targets = a.Int("n_targets", 1);
  if (f.targets < 1)
    return AttrError(fmt::format("n_targets is {}", f.targets));
  const int64_t aggregate = a.Int("aggregate_function", 1);
  if (aggregate < 0 || aggregate > 3)
    return AttrError(fmt::format("aggregate_function is {}", aggregate));
  f.aggregate = static_cast<Aggregate>(aggregate);
  // Member sets in the order of the nodes that use them, NaN between.
  const Tensor *members = a.TensorOrNull("membership_values");
  int64_t next = 0;
  f.in_float = weights->dtype() != DType::F64;
  f.branches.resize(nodes);
  for (size_t i = 0; i < nodes; ++i) {
    Branch &b = f.branches[i];
    const int64_t k = static_cast<int64_t>(i);
    auto child = [&](const char *leaf, const char *id) -> StatusOr<int64_t> {
      const bool is_leaf = a.Ints(leaf)[i] != 0;
      const int64_t to = a.Ints(id)[i], count = static_cast<int64_t>(is_leaf ? targets.size() : nodes);
      if (to < 0 || to >= count || (!is_leaf && to <= k)) // behind its parent: no walk can go round
        return AttrError(fmt::format("{} of node {} is {}", id, i, to));
      return is_leaf ? ~to : to;
    };
    NPUC_ASSIGN_OR_RETURN(b.yes, child("nodes_trueleafs", "nodes_truenodeids"));
    NPUC_ASSIGN_OR_RETURN(b.no, child("nodes_falseleafs", "nodes_falsenodeids"));
    b.feature = features[i];
    if (b.feature < 0)
      return AttrError(fmt::format("feature {}", b.feature));
    b.split = splits->AsDouble(k);
    const int64_t mode = modes->AsInt(k);
    if (mode < 0 || mode > static_cast<int64_t>(Mode::Member))
      return AttrError(fmt::format("mode {} of node {}", mode, i));
    b.mode = static_cast<Mode>(mode);
    b.missing_is_true = i < missing.size() && missing[i];
    if (b.mode == Mode::Member && members) {
      for (; next < members->num_elements() && !std::isnan(members->AsDouble(next)); ++next)
        b.members.push_back(members->AsDouble(next));
      ++next;
    }
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] < 0 || targets[i] >= f.targets)
      return AttrError(fmt::format("leaf target {} of {}", targets[i], f.targets));
    f.leaves.push_back({{targets[i], weights->AsDouble(static_cast<int64_t>(i))}});
  }
  for (int64_t r : a.Ints("tree_roots")) {
    if (r < 0 || r >= static_cast<int64_t>(nodes))
      return AttrError(fmt::format("tree root {}", r));
    f.roots.push_back(r);
  }
  return f;
}

// A list of floats, or the tensor NAME_as_tensor that version 3 has for doubles.
std::vector<double> Numbers(const AttributeList &a, const std::string &name) {
  std::vector<double> v;
  if (const Tensor *t = a.TensorOrNull(name + "_as_tensor")) {
    for (int64_t i = 0; i < t->num_elements(); ++i)
      v.push_back(t->AsDouble(i));
    return v;
  }
  for (float f : a.Floats(name))
    v.push_back(static_cast<double>(f));
  return v;
}

StatusOr<Forest> Forest::OfIds(const AttributeList &a, const std::string &prefix, int64_t targets) {
  Forest f;
  f.targets = targets;
  if (targets < 1)
    return AttrError(fmt::format("a tree ensemble with {} outputs", targets));
  static constexpr std::string_view kAggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  const std::string_view aggregate = a.String("aggregate_function", "SUM");
  const auto *found = std::find(std::begin(kAggregates), std::end(kAggregates), aggregate);
  if (found == std::end(kAggregates))
    return AttrError(fmt::format("aggregate_function is '{}'", aggregate), "AVERAGE, SUM, MIN or MAX");
  f.aggregate = static_cast<Aggregate>(found - std::begin(kAggregates));
  f.base = Numbers(a, "base_values");
  if (!f.base.empty() && static_cast<int64_t>(f.base.size()) != targets && f.base.size() != 1)
    return AttrError(fmt::format("{} base_values for {} outputs", f.base.size(), targets));

  const auto trees = a.Ints("nodes_treeids"), ids = a.Ints("nodes_nodeids"), features = a.Ints("nodes_featureids"),
             yes = a.Ints("nodes_truenodeids"), no = a.Ints("nodes_falsenodeids"),
             missing = a.Ints("nodes_missing_value_tracks_true");
  const auto modes = a.StringList("nodes_modes");
  const std::vector<double> values = Numbers(a, "nodes_values");
  const size_t nodes = ids.size();
  for (size_t size : {trees.size(), features.size(), yes.size(), no.size(), modes.size(), values.size()})
    if (size != nodes)
      return AttrError("the nodes_* attributes differ in length");
  static constexpr std::string_view kModes[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                                "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};
  std::map<std::pair<int64_t, int64_t>, int64_t> place; // of a node: a branch, or ~leaf
  std::vector<size_t> source;                           // of each branch
  for (size_t i = 0; i < nodes; ++i) {
    const auto *mode = std::find(std::begin(kModes), std::end(kModes), modes[i]);
    if (mode == std::end(kModes) || *mode == "BRANCH_MEMBER")
      return AttrError(fmt::format("nodes_modes has '{}'", modes[i]));
    const bool leaf = *mode == "LEAF";
    const int64_t at = static_cast<int64_t>(leaf ? f.leaves.size() : f.branches.size());
    if (!place.emplace(std::pair(trees[i], ids[i]), leaf ? ~at : at).second)
      return AttrError(fmt::format("node {} of tree {} is there twice", ids[i], trees[i]));
    if (leaf) {
      f.leaves.emplace_back();
      continue;
    }
    Branch b;
    b.feature = features[i];
    if (b.feature < 0)
      return AttrError(fmt::format("feature {}", b.feature));
    b.split = values[i];
    b.mode = static_cast<Mode>(mode - std::begin(kModes));
    b.missing_is_true = i < missing.size() && missing[i];
    f.branches.push_back(std::move(b));
    source.push_back(i);
  }
  // A node has one parent at most, a root none: what is walked from a root is a tree.
  std::map<int64_t, size_t> parents;
  for (size_t k = 0; k < f.branches.size(); ++k) {
    const size_t i = source[k];
    for (const auto &[id, to] : {std::pair(yes[i], &f.branches[k].yes), std::pair(no[i], &f.branches[k].no)}) {
      auto it = place.find({trees[i], id});
      if (it == place.end())
        return AttrError(fmt::format("tree {} has no node {}, a child of node {}", trees[i], id, ids[i]));
      *to = it->second;
      if (parents.emplace(it->second, k).first->second != k)
        return AttrError(fmt::format("node {} of tree {} has two parents", id, trees[i]));
    }
  }
  std::map<int64_t, int64_t> root_of; // of a tree, in the order of ids
  for (size_t i = 0; i < nodes; ++i) {
    const int64_t at = place[{trees[i], ids[i]}];
    if (parents.count(at))
      continue;
    if (!root_of.emplace(trees[i], at).second)
      return AttrError(fmt::format("tree {} has two roots", trees[i]));
  }
  for (const auto &[tree, root] : root_of)
    f.roots.push_back(root);

  const auto vote_trees = a.Ints(prefix + "_treeids"), vote_nodes = a.Ints(prefix + "_nodeids"),
             vote_ids = a.Ints(prefix + "_ids");
  const std::vector<double> weights = Numbers(a, prefix + "_weights");
  f.in_float = a.TensorOrNull(prefix + "_weights_as_tensor") == nullptr;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (vote_trees.size() != weights.size() || vote_nodes.size() != weights.size() || vote_ids.size() != weights.size())
      return AttrError(fmt::format("the {}_* attributes differ in length", prefix));
    auto it = place.find({vote_trees[i], vote_nodes[i]});
    if (it == place.end() || it->second >= 0)
      return AttrError(fmt::format("node {} of tree {} is no leaf to hold a weight", vote_nodes[i], vote_trees[i]));
    if (vote_ids[i] < 0 || vote_ids[i] >= targets)
      return AttrError(fmt::format("{}_ids has {} of {}", prefix, vote_ids[i], targets));
    f.leaves[~it->second].push_back({vote_ids[i], weights[i]});
  }
  return f;
}

Status CheckFeatures(const Forest &f, const Rows &x) {
  if (f.features() <= x.columns)
    return OkStatus();
  return Error("E0703", fmt::format("feature {} of {} columns", f.features() - 1, x.columns));
}

Dim RowsOf(InferContext &ctx) {
  const Shape x = ShapeOf(ctx, 0);
  return x.ranked() && x.rank() > 1 ? x[0] : x.ranked() ? Dim(1) : Dim::Unknown();
}

Status Regress(EvalContext &ctx, const Forest &f, PostTransform transform, DType dtype) {
  NPUC_ASSIGN_OR_RETURN(const Rows x, Rows::Of(ctx.operand(0)));
  NPUC_RETURN_IF_ERROR(CheckFeatures(f, x));
  NPUC_ASSIGN_OR_RETURN(Tensor y, AllocateResult(dtype, {x.rows, f.targets}));
  return DispatchFloat(dtype, [&](auto tag) -> Status {
    using T = TypeOf<decltype(tag)>;
    for (int64_t r = 0; r < x.rows; ++r) {
      std::vector<double> s = f.Score(x, r);
      Apply(transform, s);
      for (int64_t t = 0; t < f.targets; ++t)
        y.mutable_data<T>()[r * f.targets + t] = static_cast<T>(s[t]);
    }
    ctx.set_result(0, std::move(y));
    return OkStatus();
  });
}

// ---- TreeEnsemble (version 5)

Status VerifyTrees(const Node &n) {
  if (const int64_t t = n.attrs().Int("post_transform", 0); t < 0 || t > static_cast<int64_t>(PostTransform::Probit))
    return AttrError(fmt::format("post_transform is {}", t));
  return Forest::OfTensors(n.attrs()).status();
}
Status InferTrees(InferContext &ctx) {
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), Shape({RowsOf(ctx), Dim(ctx.attrs().Int("n_targets", 1))}));
  return OkStatus();
}
Status EvaluateTrees(EvalContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(const Forest f, Forest::OfTensors(ctx.attrs()));
  return Regress(ctx, f, static_cast<PostTransform>(ctx.attrs().Int("post_transform", 0)), ctx.operand(0).dtype());
}

// ---- TreeEnsembleRegressor

StatusOr<Forest> RegressorOf(const AttributeList &a) {
  NPUC_ASSIGN_OR_RETURN(Forest f, Forest::OfIds(a, "target", a.Int("n_targets", 1)));
  if (f.base.size() == 1)
    f.base.resize(f.targets, f.base[0]);
  return f;
}
Status VerifyTreeRegressor(const Node &n) {
  NPUC_RETURN_IF_ERROR(PostTransformOf(n.attrs()).status());
  return RegressorOf(n.attrs()).status();
}
Status InferTreeRegressor(InferContext &ctx) {
  SetTensor(ctx, 0, DType::F32, Shape({RowsOf(ctx), Dim(ctx.attrs().Int("n_targets", 1))}));
  return OkStatus();
}
Status EvaluateTreeRegressor(EvalContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(const Forest f, RegressorOf(ctx.attrs()));
  NPUC_ASSIGN_OR_RETURN(const PostTransform transform, PostTransformOf(ctx.attrs()));
  return Regress(ctx, f, transform, DType::F32);
}

// ---- TreeEnsembleClassifier

struct TreeClassifier {
  Forest forest;
  Tensor labels;
  bool one_score = false, second_alone = false, all_positive = true;
  static StatusOr<TreeClassifier> Of(const AttributeList &a) {
    TreeClassifier c;
    c.labels = ClassLabels(a, "classlabels_int64s", "classlabels_strings");
    NPUC_ASSIGN_OR_RETURN(c.forest, Forest::OfIds(a, "class", c.labels.num_elements()));
    bool first = false, second = false;
    for (const auto &leaf : c.forest.leaves)
      for (const Vote &v : leaf) {
        (v.target == 0 ? first : second) = true;
        c.all_positive &= v.weight >= 0;
      }
    c.one_score = !second && c.forest.targets == 2;
    c.second_alone = !first && c.forest.targets == 2;
    if (c.one_score && c.forest.base.size() == 2)
      c.forest.base = {c.forest.base[1]}; // the second class's
    if (!c.one_score && !c.forest.base.empty() && static_cast<int64_t>(c.forest.base.size()) != c.forest.targets)
      return AttrError(fmt::format("{} base_values for {} classes", c.forest.base.size(), c.forest.targets));
    return c;
  }
};

Status VerifyTreeClassifier(const Node &n) {
  NPUC_RETURN_IF_ERROR(PostTransformOf(n.attrs()).status());
  return TreeClassifier::Of(n.attrs()).status();
}
Status InferTreeClassifier(InferContext &ctx) {
  const Tensor labels = ClassLabels(ctx.attrs(), "classlabels_int64s", "classlabels_strings");
  SetClassifierTypes(ctx, labels, Dim(labels.num_elements()));
  return OkStatus();
}
Status EvaluateTreeClassifier(EvalContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(const TreeClassifier c, TreeClassifier::Of(ctx.attrs()));
  NPUC_ASSIGN_OR_RETURN(const PostTransform transform, PostTransformOf(ctx.attrs()));
  NPUC_ASSIGN_OR_RETURN(const Rows x, Rows::Of(ctx.operand(0)));
  NPUC_RETURN_IF_ERROR(CheckFeatures(c.forest, x));
  const int64_t classes = c.forest.targets;
  NPUC_ASSIGN_OR_RETURN(auto label, ElementWriter::Create(c.labels.dtype(), {x.rows}));
  Tensor scores = Tensor::Allocate(DType::F32, {x.rows, classes});
  for (int64_t r = 0; r < x.rows; ++r) {
    std::vector<double> s = c.forest.Score(x, r);
    int64_t best = 0;
    const double least = c.all_positive ? 0.5 : 0.0;
    if (c.one_score) {
      const double score = s[0];
      best = score > least ? 1 : 0;
      if (transform == PostTransform::Logistic)
        s = {fpmath::Sigmoid(-score), fpmath::Sigmoid(score)};
      else
        s = {c.all_positive ? 1 - score : -score, score};
    } else {
      for (int64_t i = 1; i < classes; ++i)
        if (s[i] > s[best])
          best = i;
      if (c.second_alone)
        best = s[1] > least ? 1 : 0;
      Apply(transform, s);
    }
    label.Copy(r, c.labels, best);
    for (int64_t i = 0; i < classes; ++i)
      scores.mutable_data<float>()[r * classes + i] = static_cast<float>(s[i]);
  }
  ctx.set_result(0, label.Finish());
  ctx.set_result(1, std::move(scores));
  return OkStatus();
}

AttrSpec TensorAttr(std::string_view name) {
  return {name, AttrKind::Tensor};
}

// What both older operators have.
std::vector<AttrSpec> NodeAttrs(std::initializer_list<AttrSpec> more) {
  std::vector<AttrSpec> attrs = {IntsAttr("nodes_treeids"),
                                 IntsAttr("nodes_nodeids"),
                                 IntsAttr("nodes_featureids"),
                                 FloatsAttr("nodes_values"),
                                 TensorAttr("nodes_values_as_tensor"),
                                 FloatsAttr("nodes_hitrates"),
                                 TensorAttr("nodes_hitrates_as_tensor"),
                                 {"nodes_modes", AttrKind::Strings},
                                 IntsAttr("nodes_truenodeids"),
                                 IntsAttr("nodes_falsenodeids"),
                                 IntsAttr("nodes_missing_value_tracks_true"),
                                 FloatsAttr("base_values"),
                                 TensorAttr("base_values_as_tensor"),
                                 StringAttr("post_transform")};
  attrs.insert(attrs.end(), more);
  return attrs;
}

} // namespace

OpDef MlTreeEnsembleDef() {
  return {.domain = "ai.onnx.ml",
          .name = "TreeEnsemble",
          .since_version = 5,
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {IntAttr("aggregate_function"), IntsAttr("leaf_targetids", true), TensorAttr("leaf_weights"),
                    TensorAttr("membership_values"), IntAttr("n_targets"), IntsAttr("nodes_falseleafs", true),
                    IntsAttr("nodes_falsenodeids", true), IntsAttr("nodes_featureids", true),
                    TensorAttr("nodes_hitrates"), IntsAttr("nodes_missing_value_tracks_true"),
                    TensorAttr("nodes_modes"), TensorAttr("nodes_splits"), IntsAttr("nodes_trueleafs", true),
                    IntsAttr("nodes_truenodeids", true), IntAttr("post_transform"), IntsAttr("tree_roots", true)},
          .verify = VerifyTrees,
          .infer = InferTrees,
          .evaluate = EvaluateTrees,
          .doc = "Decision trees, summed (or averaged, least, greatest) per target."};
}

OpDef MlTreeEnsembleRegressorDef() {
  return {.domain = "ai.onnx.ml",
          .name = "TreeEnsembleRegressor",
          .since_version = 3,
          .min_operands = 1,
          .max_operands = 1,
          .attrs = NodeAttrs({IntsAttr("target_treeids"), IntsAttr("target_nodeids"), IntsAttr("target_ids"),
                              FloatsAttr("target_weights"), TensorAttr("target_weights_as_tensor"),
                              IntAttr("n_targets"), StringAttr("aggregate_function")}),
          .verify = VerifyTreeRegressor,
          .infer = InferTreeRegressor,
          .evaluate = EvaluateTreeRegressor,
          .doc = "Decision trees, summed (or averaged, least, greatest) per target."};
}

OpDef MlTreeEnsembleClassifierDef() {
  return {.domain = "ai.onnx.ml",
          .name = "TreeEnsembleClassifier",
          .since_version = 3,
          .min_operands = 1,
          .max_operands = 1,
          .min_results = 2,
          .max_results = 2,
          .attrs = NodeAttrs({IntsAttr("class_treeids"), IntsAttr("class_nodeids"), IntsAttr("class_ids"),
                              FloatsAttr("class_weights"), TensorAttr("class_weights_as_tensor"),
                              IntsAttr("classlabels_int64s"), AttrSpec{"classlabels_strings", AttrKind::Strings}}),
          .verify = VerifyTreeClassifier,
          .infer = InferTreeClassifier,
          .evaluate = EvaluateTreeClassifier,
          .doc = "The label with the most votes of decision trees, and the votes."};
}

} // namespace npuc::ops
