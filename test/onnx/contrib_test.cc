// Operators of ai.onnx.ml and com.microsoft. Values: by hand, or from onnxruntime 1.2x on the same model.
#include "test/onnx/model_builder.h"

namespace npuc::test {
namespace {

const char *const kMs = "com.microsoft";
const char *const kMl = "ai.onnx.ml";

// ((i % 7) - 3 + first) / 8
Tensor Sevenths(std::vector<int64_t> dims, float first = 0) {
  Tensor t = Counting(dims, 0);
  for (int64_t i = 0; i < t.num_elements(); ++i)
    t.mutable_data<float>()[i] = (static_cast<float>(i % 7) - 3 + first) / 8;
  return t;
}

TEST(Contrib, AttentionWithMaskAndCausality) {
  ModelBuilder b(15);
  b.Opset(kMs, 1);
  b.In("x", {1, 3, 4})
      .In("m", {1, 3}, DType::I32)
      .Out("y")
      .Init("w", Sevenths({4, 12}, 0.5f))
      .Init("b", Sevenths({12}));
  b.Node("Attention", {"x", "w", "b", "m"}, {"y"}, {I("num_heads", 2), I("unidirectional", 1)}, "", kMs);
  const std::vector<int32_t> mask = {1, 1, 0};
  ExpectNear(b.Run({Sevenths({1, 3, 4}), Tensor::Of<int32_t>(DType::I32, {1, 3}, mask)})[0],
             {-0.3125f, -0.0625f, -0.03125f, 0.109375f, -0.1890077f, -0.0903853f, 0.0110938f, 0.0054401f, -0.1873627f,
              -0.0907568f, 0.0113887f, 0.0047165f},
             1e-6f);
}

TEST(Contrib, MultiHeadAttentionPackedOrNot) {
  const std::vector<float> want = {0.0974905f, 0.2224905f, 0.3694766f, 0.0666425f, 0.1415486f, 0.2665486f,
                                   0.403873f,  0.0408452f, 0.1084514f, 0.2334514f, 0.3708572f, 0.0656071f};
  const Tensor q = Sevenths({1, 3, 4}), k = Sevenths({1, 2, 4}, 1), v = Sevenths({1, 2, 4}, 2);
  ModelBuilder b(15);
  b.Opset(kMs, 1);
  b.In("q", {1, 3, 4}).In("k", {1, 2, 4}).In("v", {1, 2, 4}).Out("y");
  b.Node("MultiHeadAttention", {"q", "k", "v"}, {"y"}, {I("num_heads", 2)}, "", kMs);
  ExpectNear(b.Run({q, k, v})[0], want, 1e-6f);
  // The same keys and values as [batch, length, heads, 2, size].
  Tensor kv = Tensor::Allocate(DType::F32, {1, 2, 2, 2, 2});
  for (int l = 0; l < 2; ++l)
    for (int h = 0; h < 2; ++h)
      for (int which = 0; which < 2; ++which)
        for (int i = 0; i < 2; ++i)
          kv.mutable_data<float>()[((l * 2 + h) * 2 + which) * 2 + i] =
              (which ? v : k).data<float>()[l * 4 + h * 2 + i];
  ModelBuilder packed(15);
  packed.Opset(kMs, 1);
  packed.In("q", {1, 3, 4}).In("kv", {1, 2, 2, 2, 2}).Out("y");
  packed.Node("MultiHeadAttention", {"q", "kv"}, {"y"}, {I("num_heads", 2)}, "", kMs);
  ExpectNear(packed.Run({q, kv})[0], want, 1e-6f);
}

TEST(Contrib, MatMulOfFourBitBlocks) {
  std::vector<uint8_t> codes;
  for (int i = 0; i < 16; ++i)
    codes.push_back(static_cast<uint8_t>(i * 17));
  ModelBuilder b(15);
  b.Opset(kMs, 1);
  b.In("a", {1, 16}).Out("y").Init("q", Tensor::Of<uint8_t>(DType::U8, {2, 1, 8}, codes));
  b.Init("s", Floats({2}, {0.5f, 0.25f})).Init("z", Tensor::Of<uint8_t>(DType::U8, {2}, std::vector<uint8_t>{7, 9}));
  b.Node("MatMulNBits", {"a", "q", "s", "z"}, {"y"}, {I("K", 16), I("N", 2), I("bits", 4), I("block_size", 16)}, "",
         kMs);
  ExpectNear(b.Run({Sevenths({1, 16})})[0], {1.75f, -0.0625f}, 1e-6f);
}

TEST(Contrib, WrongUseIsRefused) {
  ModelBuilder kind(15);
  kind.Opset(kMs, 1);
  kind.In("q", {1, 3, 4}).Out("y");
  kind.Node("MultiHeadAttention", {"q", "q", "q"}, {"y"}, {F("num_heads", 2)}, "", kMs);
  EXPECT_EQ(kind.Fail().code, "E0203");
  ModelBuilder few(15);
  few.Opset(kMs, 1);
  few.Out("y").In("x", {2});
  few.Node("BiasGelu", {"x"}, {"y"}, {}, "", kMs);
  EXPECT_EQ(few.Fail().code, "E0203");
  ModelBuilder old(11);
  old.In("x", {2, 3}).Out("y");
  old.Node("Softmax", {"x"}, {"y"}, {F("axis", 1)});
  EXPECT_EQ(old.Fail().code, "E0203");
}

// ---- ai.onnx.ml

ModelBuilder Ml(int64_t version, std::vector<int64_t> dims) {
  ModelBuilder b(15);
  b.Opset(kMl, version);
  SetValueInfo(*b.g.add_input(), "x", DType::F32, std::vector<DimSpec>(dims.begin(), dims.end()));
  return b;
}

TEST(Ml, ScalerNormalizerImputer) {
  ModelBuilder scaler = Ml(1, {1, 3});
  scaler.Out("y").Node("Scaler", {"x"}, {"y"}, {Fs("offset", {1, -2, 0.5f}), Fs("scale", {2, 0.5f, -1})}, "", kMl);
  ExpectNear(scaler.Run({Floats({1, 3}, {2, 2, 2})})[0], {2, 2, -1.5f});
  const std::pair<const char *, std::vector<float>> norms[] = {
      {"MAX", {0.75f, 1, 0, -2}}, {"L1", {3.f / 7, 4.f / 7, 0, -1}}, {"L2", {0.6f, 0.8f, 0, -1}}};
  for (const auto &[norm, want] : norms) {
    ModelBuilder b = Ml(1, {2, 2});
    b.Out("y").Node("Normalizer", {"x"}, {"y"}, {S("norm", norm)}, "", kMl);
    // A greatest element of 0 leaves the row as it is.
    ExpectNear(b.Run({Floats({2, 2}, {3, 4, 0, -2})})[0], want);
  }
  ModelBuilder imputer = Ml(1, {1, 3});
  imputer.Out("y").Node("Imputer", {"x"}, {"y"}, {Fs("imputed_value_floats", {7, 8, 9}), F("replaced_value_float", 0)},
                        "", kMl);
  ExpectNear(imputer.Run({Floats({1, 3}, {0, 5, 0})})[0], {7, 5, 9});
}

TEST(Ml, LinearModels) {
  ModelBuilder r = Ml(1, {1, 2});
  r.Out("y").Node("LinearRegressor", {"x"}, {"y"},
                  {Fs("coefficients", {1, 2, 3, 4}), Fs("intercepts", {10, 20}), I("targets", 2)}, "", kMl);
  ExpectNear(r.Run({Floats({1, 2}, {1, -1})})[0], {9, 19});
  ModelBuilder c = Ml(1, {2, 2});
  c.Out("l").Out("s").Node("LinearClassifier", {"x"}, {"l", "s"},
                           {Fs("coefficients", {1, 0, 0, 1, -1, -1}), Fs("intercepts", {0, 0, 0.5f}),
                            Ss("classlabels_strings", {"a", "b", "c"}), S("post_transform", "SOFTMAX")},
                           "", kMl);
  const auto out = c.Run({Floats({2, 2}, {2, 1, -1, -1})});
  EXPECT_EQ(out[0].strings(), (std::vector<std::string>{"a", "c"}));
  // softmax(2, 1, -2.5), softmax(-1, -1, 2.5)
  ExpectNear(out[1], {0.7252102f, 0.2667899f, 0.0080564f, 0.0284664f, 0.0284664f, 0.9430673f}, 1e-4f);
}

// Two trees: x0 <= 0.5 ? leaf 0.4 of class 0 : leaf -0.3 of class 1; x1 > 0.2 ? 0.2 of class 2 : -0.6 of class 0.
std::vector<Attr> Trees(const std::string &votes, std::vector<int64_t> ids, std::vector<float> weights) {
  return {Is("nodes_treeids", {0, 0, 0, 1, 1, 1}),
          Is("nodes_nodeids", {0, 1, 2, 0, 1, 2}),
          Is("nodes_featureids", {0, 0, 0, 1, 0, 0}),
          Fs("nodes_values", {0.5f, 0, 0, 0.2f, 0, 0}),
          Ss("nodes_modes", {"BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_GT", "LEAF", "LEAF"}),
          Is("nodes_truenodeids", {1, 0, 0, 1, 0, 0}),
          Is("nodes_falsenodeids", {2, 0, 0, 2, 0, 0}),
          Is(votes + "_treeids", {0, 0, 1, 1}),
          Is(votes + "_nodeids", {1, 2, 1, 2}),
          Is(votes + "_ids", std::move(ids)),
          Fs(votes + "_weights", std::move(weights))};
}

TEST(Ml, OlderTreeEnsembles) {
  std::vector<Attr> attrs = Trees("target", {0, 1, 1, 0}, {0.4f, -0.3f, 0.2f, -0.6f});
  attrs.push_back(I("n_targets", 2));
  attrs.push_back(Fs("base_values", {1, 2}));
  ModelBuilder r = Ml(1, {2, 2});
  r.Out("y").Node("TreeEnsembleRegressor", {"x"}, {"y"}, attrs, "", kMl);
  ExpectNear(r.Run({Floats({2, 2}, {0, 1, 1, 0})})[0], {1.4f, 2.2f, 0.4f, 1.7f});

  attrs = Trees("class", {0, 1, 2, 0}, {0.4f, -0.3f, 0.2f, -0.6f});
  attrs.push_back(Is("classlabels_int64s", {3, 8, 11}));
  ModelBuilder c = Ml(1, {2, 2});
  c.Out("l").Out("s").Node("TreeEnsembleClassifier", {"x"}, {"l", "s"}, attrs, "", kMl);
  auto out = c.Run({Floats({2, 2}, {0, 1, 1, 0})});
  ExpectNear(out[1], {0.4f, 0, 0.2f, -0.6f, -0.3f, 0});
  EXPECT_EQ(AsFloats(out[0]), (std::vector<float>{3, 11}));

  // Votes for one of two classes: above 0.5 (all weights are positive) it is the second; 0.4 + 0.1 in float is not.
  attrs = Trees("class", {0, 0, 0, 0}, {0.4f, 0.3f, 0.2f, 0.1f});
  attrs.push_back(Is("classlabels_int64s", {3, 8}));
  ModelBuilder two = Ml(1, {2, 2});
  two.Out("l").Out("s").Node("TreeEnsembleClassifier", {"x"}, {"l", "s"}, attrs, "", kMl);
  out = two.Run({Floats({2, 2}, {0, 1, 0, 0})});
  ExpectNear(out[1], {0.4f, 0.6f, 0.5f, 0.5f});
  EXPECT_EQ(AsFloats(out[0]), (std::vector<float>{8, 3}));

  // A node that two branches lead to would be walked as no tree.
  attrs = Trees("target", {0, 0, 0, 0}, {1, 1, 1, 1});
  std::get<std::vector<int64_t>>(attrs[6].value) = {1, 0, 0, 0, 0, 0};
  ModelBuilder cycle = Ml(1, {2, 2});
  cycle.Out("y").Node("TreeEnsembleRegressor", {"x"}, {"y"}, attrs, "", kMl);
  EXPECT_EQ(cycle.Fail().code, "E0203");
}

TEST(Ml, LabelsAndMaps) {
  ModelBuilder b = Ml(1, {2, 2});
  b.Out("z").Node("ZipMap", {"x"}, {"z"}, {Ss("classlabels_strings", {"b", "a"})}, "", kMl);
  auto module = b.Get();
  ASSERT_TRUE(module);
  Interpreter interpreter(module->main());
  auto values = interpreter.Run(std::vector<Tensor>{Floats({2, 2}, {1, 2, 3, 4})});
  ASSERT_TRUE(values.ok());
  const EvalSequence *rows = (*values)[0].sequence();
  ASSERT_TRUE(rows && rows->size() == 2);
  const auto &map = *std::get<std::shared_ptr<const EvalMap>>((*rows)[1].v);
  EXPECT_EQ(std::get<std::string>(map.keys[0]), "a"); // keys ascend
  EXPECT_EQ(map.values[0].tensor()->AsDouble(0), 4);
  EXPECT_EQ(map.values[1].tensor()->AsDouble(0), 3);

  // LabelEncoder of version 1, both ways.
  ModelBuilder e(15);
  e.Opset(kMl, 1);
  e.In("x", {3}, DType::String).In("i", {2}, DType::I64).Out("y").Out("s");
  e.Node("LabelEncoder", {"x"}, {"y"}, {Ss("classes_strings", {"cat", "dog"})}, "", kMl);
  e.Node("LabelEncoder", {"i"}, {"s"}, {Ss("classes_strings", {"cat", "dog"}), S("default_string", "?")}, "", kMl);
  const auto out = e.Run({Tensor::Strings({3}, {"dog", "cow", "cat"}), Int64s({2}, {1, 5})});
  EXPECT_EQ(AsFloats(out[0]), (std::vector<float>{1, -1, 0}));
  EXPECT_EQ(out[1].strings(), (std::vector<std::string>{"dog", "?"}));
}

} // namespace
} // namespace npuc::test
