/* C interface of the reference NPU executor: load a model.bin, bind buffers, run, read results and the modelled
 * profile.
 *
 * Errors: every function that can fail returns an npu_status: NPU_OK (0) or the number of the error code (603 for
 * E0603, see docs/errors); npu_last_error() tells what was found, what is allowed and what to do, for the calling
 * thread, until its next failing call. Threads: a model is immutable and may be shared; a session is for one thread at
 * a time; sessions of one model are independent. Ownership: what a getter returns belongs to the model (names, dims,
 * scales) or to the session (results), never to the caller.
 *
 *   npu_model* model;
 *   if (npu_model_load("model.bin", &model)) { fputs(npu_last_error(), stderr); return 1; }
 *   npu_session* session;
 *   npu_session_create(model, NULL, &session);
 *   npu_session_bind_input(session, 0, pixels, sizeof pixels);     // used in place, no copy
 *   npu_session_bind_output(session, 0, scores, sizeof scores);
 *   if (npu_session_run(session)) ...
 */
#ifndef NPUC_NPU_RUNTIME_H_
#define NPUC_NPU_RUNTIME_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct npu_model npu_model;
typedef struct npu_session npu_session;
typedef int npu_status;
enum { NPU_OK = 0, NPU_INVALID_ARGUMENT = 1 }; /* 1: an index or pointer of the call itself is wrong */

/* ONNX's TensorProto.DataType numbers. */
typedef enum {
  NPU_UNDEFINED = 0,
  NPU_FLOAT32 = 1,
  NPU_UINT8 = 2,
  NPU_INT8 = 3,
  NPU_UINT16 = 4,
  NPU_INT16 = 5,
  NPU_INT32 = 6,
  NPU_INT64 = 7,
  NPU_STRING = 8,
  NPU_BOOL = 9,
  NPU_FLOAT16 = 10,
  NPU_FLOAT64 = 11,
  NPU_UINT32 = 12,
  NPU_UINT64 = 13,
  NPU_BFLOAT16 = 16
} npu_dtype;

typedef enum {
  NPU_LAYOUT_ROW_MAJOR = 0, /* ONNX's order; rank 4: NCHW */
  NPU_LAYOUT_NHWC = 1,
  NPU_LAYOUT_NC1HWC2 = 2 /* channels in blocks, blocks outside H; see block */
} npu_layout;

typedef enum { NPU_KIND_TENSOR = 0, NPU_KIND_SEQUENCE = 1, NPU_KIND_OPTIONAL = 2, NPU_KIND_MAP = 3 } npu_kind;

typedef struct {
  const char *name;
  const char *type; /* as text: "f32[1,3,224,224]", "u8[1,10]{s=0.5,z=128}", "seq<f32[?]>" */
  npu_kind kind;
  npu_dtype dtype; /* tensors */
  npu_layout layout;
  int32_t block;       /* channels of a block in NC1HWC2, else 0 */
  int32_t rank;        /* -1: free rank */
  const int64_t *dims; /* logical, in ONNX's order; -1: a free dim */
  size_t bytes; /* of the buffer to bind; 0: the shape is free or the value is no tensor: set and read it as a value */
  int32_t num_scales; /* 0: not quantised; real = (q - zero_point) * scale */
  const float *scales;
  const int32_t *zero_points;
  int32_t axis; /* -1: per tensor */
} npu_tensor_info;

/* A tensor result. `data` is row-major for values, in the output's layout for buffers; valid until the session's next
 * run. */
typedef struct {
  npu_dtype dtype;
  int32_t rank;
  const int64_t *dims;
  const void *data; /* NULL for strings: npu_session_output_string */
  size_t bytes;
} npu_tensor;

/* Message of the calling thread's last failing call; "" before the first. */
const char *npu_last_error(void);
/* "0.1.0" */
const char *npu_version(void);

/* ---- Models */

/* Reads, checks and verifies the whole file before it returns. */
npu_status npu_model_load(const char *path, npu_model **model);
/* The bytes are copied. */
npu_status npu_model_load_memory(const void *data, size_t bytes, npu_model **model);
/* Sessions keep their model alive, so the order of frees is free. NULL is allowed. */
void npu_model_free(npu_model *model);

size_t npu_model_num_inputs(const npu_model *model);
size_t npu_model_num_outputs(const npu_model *model);
npu_status npu_model_input_info(const npu_model *model, size_t index, npu_tensor_info *info);
npu_status npu_model_output_info(const npu_model *model, size_t index, npu_tensor_info *info);
/* Index of the input or output of that name, -1 if there is none. */
int npu_model_find_input(const npu_model *model, const char *name);
int npu_model_find_output(const npu_model *model, const char *name);
const char *npu_model_target(const npu_model *model);
/* NULL when there is no such key. */
const char *npu_model_metadata(const npu_model *model, const char *key);

/* ---- Sessions */

typedef struct {
  int threads; /* 0: the machine's processors. Results never depend on it */
  int checked; /* not 0: uninitialised reads, stray writes and indices outside tables are errors (slow) */
} npu_session_options;

/* options NULL: {0, 0}. */
npu_status npu_session_create(const npu_model *model, const npu_session_options *options, npu_session **session);
void npu_session_free(npu_session *session);

/* The caller's buffer, used in place by every run until bound anew: packed, npu_tensor_info::bytes long. 64-byte
 * alignment is best, none is required. Buffers may not overlap. An output without buffer gets one of the session's own.
 */
npu_status npu_session_bind_input(npu_session *session, size_t index, const void *data, size_t bytes);
npu_status npu_session_bind_output(npu_session *session, size_t index, void *data, size_t bytes);
/* An input as a row-major tensor value (copied): any input that is a tensor, of free shape or fixed. */
npu_status npu_session_set_input(npu_session *session, size_t index, npu_dtype dtype, int32_t rank, const int64_t *dims,
                                 const void *data);
/* A string tensor (copied). */
npu_status npu_session_set_input_strings(npu_session *session, size_t index, int32_t rank, const int64_t *dims,
                                         const char *const *values);
/* A sequence of tensors (copied). */
npu_status npu_session_set_input_sequence(npu_session *session, size_t index, const npu_tensor *elements, size_t count);

npu_status npu_session_run(npu_session *session);

/* After a run. A tensor output, or element `element` of a sequence output (0 for tensors). */
npu_status npu_session_output(const npu_session *session, size_t index, size_t element, npu_tensor *tensor);
/* Elements of a sequence; 1 for a tensor; 0 for an empty optional or sequence. */
size_t npu_session_output_length(const npu_session *session, size_t index);
/* Element i of a string tensor; NULL when out of range. */
const char *npu_session_output_string(const npu_session *session, size_t index, size_t i);

/* ---- Profile: the machine's modelled time (it does not depend on data), and what the host steps of the last run took
 * here */

typedef struct {
  int64_t cycles;      /* of the NPU segments */
  double milliseconds; /* cycles at the target's clock */
  double busy[4];      /* share of cycles that LD, ST, MXU, VPU are busy */
  int64_t ddr_read_bytes, ddr_write_bytes;
  int64_t macs;
  size_t npu_steps, host_steps, commands;
} npu_profile;
typedef struct {
  const char *name;
  const char *op;
  int64_t cycles; /* all layers together: npu_profile::cycles */
  double busy[4]; /* cycles */
  int64_t ddr_read_bytes, ddr_write_bytes;
  int64_t macs;
  int64_t commands;
} npu_layer_profile;
npu_status npu_model_profile(const npu_model *model, npu_profile *profile);
size_t npu_model_num_layers(const npu_model *model);
npu_status npu_model_layer_profile(const npu_model *model, size_t layer, npu_layer_profile *profile);
/* Seconds that the host steps of the session's last run took on this machine. */
double npu_session_host_seconds(const npu_session *session);

#ifdef __cplusplus
}
#endif

#endif /* NPUC_NPU_RUNTIME_H_ */
