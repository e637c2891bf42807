// C++ over npu_runtime.h: RAII handles, errors as npu::Error exceptions. Header only; for applications, not used by npuc itself.
//
//   npu::Model model("model.bin");
//   npu::Session session(model);
//   std::vector<float> x(model.input(0).bytes / 4), y(model.output(0).bytes / 4);
//   session.BindInput(0, x.data(), x.size() * 4);
//   session.BindOutput(0, y.data(), y.size() * 4);
//   session.Run();
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "npu_runtime.h"

namespace npu {

class Error : public std::runtime_error {
 public:
  Error(npu_status code, const std::string& message) : std::runtime_error(message), code_(code) {}
  npu_status code() const { return code_; }  // 603 for E0603

 private:
  npu_status code_;
};

inline void Check(npu_status s) {
  if (s != NPU_OK) throw Error(s, npu_last_error());
}

class Model {
 public:
  explicit Model(const std::string& path) { Check(npu_model_load(path.c_str(), &model_)); }
  Model(const void* data, size_t bytes) { Check(npu_model_load_memory(data, bytes, &model_)); }
  Model(Model&& o) noexcept : model_(std::exchange(o.model_, nullptr)) {}
  Model& operator=(Model&& o) noexcept {
    std::swap(model_, o.model_);
    return *this;
  }
  ~Model() { npu_model_free(model_); }

  const npu_model* get() const { return model_; }
  size_t num_inputs() const { return npu_model_num_inputs(model_); }
  size_t num_outputs() const { return npu_model_num_outputs(model_); }
  npu_tensor_info input(size_t i) const {
    npu_tensor_info info;
    Check(npu_model_input_info(model_, i, &info));
    return info;
  }
  npu_tensor_info output(size_t i) const {
    npu_tensor_info info;
    Check(npu_model_output_info(model_, i, &info));
    return info;
  }
  int FindInput(const std::string& name) const { return npu_model_find_input(model_, name.c_str()); }
  int FindOutput(const std::string& name) const { return npu_model_find_output(model_, name.c_str()); }
  npu_profile profile() const {
    npu_profile p;
    Check(npu_model_profile(model_, &p));
    return p;
  }

 private:
  npu_model* model_ = nullptr;
};

class Session {
 public:
  explicit Session(const Model& model, npu_session_options options = {0, 0}) { Check(npu_session_create(model.get(), &options, &session_)); }
  Session(Session&& o) noexcept : session_(std::exchange(o.session_, nullptr)) {}
  Session& operator=(Session&& o) noexcept {
    std::swap(session_, o.session_);
    return *this;
  }
  ~Session() { npu_session_free(session_); }

  npu_session* get() const { return session_; }
  void BindInput(size_t i, const void* data, size_t bytes) { Check(npu_session_bind_input(session_, i, data, bytes)); }
  void BindOutput(size_t i, void* data, size_t bytes) { Check(npu_session_bind_output(session_, i, data, bytes)); }
  void SetInput(size_t i, npu_dtype dtype, const std::vector<int64_t>& dims, const void* data) {
    Check(npu_session_set_input(session_, i, dtype, static_cast<int32_t>(dims.size()), dims.data(), data));
  }
  void Run() { Check(npu_session_run(session_)); }
  npu_tensor Output(size_t i, size_t element = 0) const {
    npu_tensor t;
    Check(npu_session_output(session_, i, element, &t));
    return t;
  }

 private:
  npu_session* session_ = nullptr;
};

}  // namespace npu
