// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stddef.h>
#include <stdint.h>

/*
 * The C interface of Weft: model in, program out, tensors through it.
 *
 *     weft_program* program = NULL;
 *     weft_status* status = weft_compile("model.onnx", NULL, &program);
 *     if (status) { fprintf(stderr, "%s\n", weft_status_text(status)); return weft_status_kind(status); }
 *
 *     weft_context* context = NULL;
 *     weft_context_new(program, &context);
 *     weft_tensor *x = NULL, *y = NULL;
 *     int64_t dims[] = {1, 1, 8, 8};
 *     weft_tensor_wrap(WEFT_F32, dims, 4, pixels, sizeof pixels, NULL, NULL, &x);
 *     weft_run(context, (const weft_tensor*[]){x}, 1, &y, 1, NULL);
 *     const float* probability = weft_tensor_data(y);
 *
 * Rules that hold everywhere:
 * - A call that can fail returns a status: NULL, or an error to free with weft_status_free, and then no results.
 * - Handles are opaque. Whoever gets one from a `_new`, `_compile`, `_load`, `_wrap` or `_copy` frees it; NULL may be
 *   freed, and has no sizes, text or data. Nothing is freed while something else still needs it: a context keeps its
 *   program, a tensor its memory.
 * - Text is UTF-8, ends with 0, and lives as long as the handle it came from. `char*` that a call gives away is freed
 *   with weft_text_free.
 * - Option structs begin with their size, so that a later version can add members at the end. The `_INIT` macros set
 *   the size. Members that the library does not know yet must be 0. NULL instead of options means the defaults.
 * - No call throws, prints or ends the process. Calls are safe from any thread unless their comment says otherwise.
 */

#if defined(__GNUC__)
#define WEFT_API __attribute__((visibility("default")))
#else
#define WEFT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_status weft_status;   /* why a call failed */
typedef struct weft_program weft_program; /* a compiled model; immutable, shared by any number of threads */
typedef struct weft_context weft_context; /* the working memory of one request; one thread at a time */
typedef struct weft_tensor weft_tensor; /* a dense row-major array in host memory, or a container; immutable, shared */
typedef struct weft_graph weft_graph;   /* a program under construction; one thread at a time */

/* Returns "0.1.0". */
WEFT_API const char* weft_version(void);
/* Returns an environment variable (free it with weft_text_free); NULL if it is not set. For libraries that use Weft. */
WEFT_API char* weft_environment(const char* name);

/* ---- Status ------------------------------------------------------------------------------------------------------ */

/* The classes of errors that a caller can act on. The numbers are the exit codes of the `weft` command. */
typedef enum weft_error_kind {
  WEFT_OK = 0,
  WEFT_USAGE = 2,       /* a wrong option, argument or input tensor */
  WEFT_MODEL = 3,       /* the model or a saved program is invalid */
  WEFT_UNSUPPORTED = 4, /* valid, but an operator, type or device is not supported */
  WEFT_RESOURCE = 5,    /* memory, time or disk */
  WEFT_DEVICE = 6,      /* a device or driver failed */
  WEFT_INTERNAL = 70    /* a bug of Weft */
} weft_error_kind;

/* Makes a status, for callbacks of the caller to return. `where` and `hint` may be NULL. */
WEFT_API weft_status* weft_status_new(weft_error_kind kind, const char* code, const char* what, const char* where,
                                      const char* hint);
WEFT_API void weft_status_free(weft_status* status);
WEFT_API weft_error_kind weft_status_kind(const weft_status* status); /* WEFT_OK for NULL */
WEFT_API const char* weft_status_code(const weft_status* status);     /* "E143"; docs/errors.md lists them */
WEFT_API const char* weft_status_text(const weft_status* status);     /* the whole message, several lines */
WEFT_API const char* weft_status_what(const weft_status* status);     /* the facts, one line */
WEFT_API const char* weft_status_where(const weft_status* status);    /* file, node, output; "" if there is none */
WEFT_API const char* weft_status_why(const weft_status* status);  /* details, such as shapes; "" if there are none */
WEFT_API const char* weft_status_hint(const weft_status* status); /* what to do; "" if there is no advice */

WEFT_API void weft_text_free(char* text);

/* ---- Log --------------------------------------------------------------------------------------------------------- */

typedef enum weft_log_level {
  WEFT_LOG_ERROR,
  WEFT_LOG_WARNING, /* the default */
  WEFT_LOG_NOTE,
  WEFT_LOG_INFO,
  WEFT_LOG_DEBUG,
  WEFT_LOG_TRACE,
  WEFT_LOG_ALL = 0x7fffffff
} weft_log_level;

/* Sets the function that gets every message of the process, one at a time. NULL: messages go to standard error. */
WEFT_API weft_status* weft_set_logger(void (*logger)(void* user, weft_log_level level, const char* text), void* user);
/* Messages above `level` are dropped before they are made. */
WEFT_API void weft_set_log_level(weft_log_level level);

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

/* Element types; the numbers are fixed. Types narrower than a byte are packed, the first element in the low bits. */
typedef enum weft_dtype {
  WEFT_BOOL = 0,
  WEFT_U2 = 1,
  WEFT_U4 = 2,
  WEFT_U8 = 3,
  WEFT_U16 = 4,
  WEFT_U32 = 5,
  WEFT_U64 = 6,
  WEFT_I2 = 7,
  WEFT_I4 = 8,
  WEFT_I8 = 9,
  WEFT_I16 = 10,
  WEFT_I32 = 11,
  WEFT_I64 = 12,
  WEFT_F4E2M1 = 13,
  WEFT_F8E4M3FN = 14,
  WEFT_F8E4M3FNUZ = 15,
  WEFT_F8E5M2 = 16,
  WEFT_F8E5M2FNUZ = 17,
  WEFT_F8E8M0 = 18,
  WEFT_F16 = 19,
  WEFT_BF16 = 20,
  WEFT_F32 = 21,
  WEFT_F64 = 22,
  WEFT_C64 = 23,
  WEFT_C128 = 24,
  WEFT_STRING = 25,
  WEFT_DTYPE_UNKNOWN = 0x7fffffff /* a wrong number is an error, never undefined behaviour: enums have 32 bits */
} weft_dtype;

WEFT_API const char* weft_dtype_name(weft_dtype type); /* "f32"; "" for a number that is no type */
WEFT_API int32_t weft_dtype_bits(weft_dtype type);     /* of one element; 0 for strings */

/* Makes a tensor over the caller's memory, without copying. The caller keeps the memory valid and unchanged until Weft
 * calls `release(user)`, at once if this call fails. Without `release`, the memory must outlive the
 * tensor and all runs that use it. `bytes` is checked against the dims. */
WEFT_API weft_status* weft_tensor_wrap(weft_dtype type, const int64_t* dims, size_t rank, const void* data,
                                       size_t bytes, void (*release)(void* user), void* user, weft_tensor** tensor);
/* Makes a tensor over a mapped file from `offset` on: a run reads what it needs. The file may be removed or replaced by
 * another. If it is shortened, a run that reads a missing part fails with E106. Fails with E161 for a short file. */
WEFT_API weft_status* weft_tensor_map(weft_dtype type, const int64_t* dims, size_t rank, const char* path,
                                      size_t offset, weft_tensor** tensor);
/* Makes a tensor with a copy of the data, aligned to 64 bytes. */
WEFT_API weft_status* weft_tensor_copy(weft_dtype type, const int64_t* dims, size_t rank, const void* data,
                                       size_t bytes, weft_tensor** tensor);
/* Makes a tensor for the caller to fill through `data` before its first use, in memory that runs of `program` (may be
 * NULL) read fastest. */
WEFT_API weft_status* weft_tensor_new(const weft_program* program, weft_dtype type, const int64_t* dims, size_t rank,
                                      weft_tensor** tensor, void** data);
/* Makes a tensor with copies of strings. `lengths` NULL: each string ends with a zero byte. */
WEFT_API weft_status* weft_tensor_strings(const int64_t* dims, size_t rank, const char* const* strings,
                                          const size_t* lengths, weft_tensor** tensor);
/* ONNX's containers: a sequence of items, an optional with one item or none, a map with two items (keys and values). */
typedef enum weft_kind { WEFT_TENSOR, WEFT_SEQUENCE, WEFT_OPTIONAL, WEFT_MAP, WEFT_KIND_ALL = 0x7fffffff } weft_kind;
WEFT_API weft_kind weft_tensor_kind(const weft_tensor* tensor);
WEFT_API weft_status* weft_tensor_collect(weft_kind kind, const weft_tensor* const* items, size_t count,
                                          weft_tensor** container);
WEFT_API weft_status* weft_tensor_item(const weft_tensor* container, size_t index, weft_tensor** item);
/* Makes another handle on the same tensor. */
WEFT_API weft_status* weft_tensor_share(const weft_tensor* tensor, weft_tensor** shared);
WEFT_API void weft_tensor_free(weft_tensor* tensor);

WEFT_API weft_dtype weft_tensor_dtype(const weft_tensor* tensor);
WEFT_API size_t weft_tensor_rank(const weft_tensor* tensor);
WEFT_API const int64_t* weft_tensor_dims(const weft_tensor* tensor);
WEFT_API int64_t weft_tensor_elements(const weft_tensor* tensor); /* of a container: the number of its items */
WEFT_API const void* weft_tensor_data(const weft_tensor* tensor); /* NULL for strings and containers */
WEFT_API size_t weft_tensor_bytes(const weft_tensor* tensor);
/* Returns 1 if an input or the program may hold the memory too: then nobody may write to it. 0: its owner may write. */
WEFT_API int32_t weft_tensor_is_shared(const weft_tensor* tensor);
/* Returns element `index` of a tensor of strings, and its length; NULL if there is none. */
WEFT_API const char* weft_tensor_string(const weft_tensor* tensor, size_t index, size_t* length);

/* ---- Compile, load, save ----------------------------------------------------------------------------------------- */

typedef enum weft_precision {
  WEFT_PRECISION_F32 = 0,
  WEFT_PRECISION_BF16 = 1,
  WEFT_PRECISION_F16 = 2,
  WEFT_PRECISION_UNKNOWN = 0x7fffffff
} weft_precision;

/* The caller's memory for weights, working memory and results. Calls come from any thread; the functions must work
 * until everything made with them is gone. */
typedef struct weft_allocator {
  void* (*allocate)(void* user, size_t bytes, size_t alignment); /* `alignment`: a power of 2. NULL: no memory (E401) */
  void (*release)(void* user, void* data, size_t bytes, size_t alignment);
  void* user;
} weft_allocator;

/* The caller's threads, which run kernels. `parallel_for` must call body(context, i) once for each i below `count`, and
 * return when all calls have returned. Calls may run on any threads and in any order, also one after another. */
typedef struct weft_executor {
  int32_t width; /* number of threads that run at once; `count` is at most this */
  void (*parallel_for)(void* user, int64_t count, void (*body)(void* context, int64_t index), void* context);
  void* user;
} weft_executor;

/* A custom operator. `name` is the DOMAIN:NAME of its nodes in ONNX models ("mine:Squash"), or a name for graphs.
 * `rule` gives the types of operands and results, and names their sizes:
 *     "f32[n,k], f32[k] -> f32[n]", "f32[...] -> f32[...]" (any sizes, all the same); ';' separates alternatives.
 * It is computed by `call`, a function of this process that any thread may call, or by `source` for the CPU. The latter
 * is in the kernel language (src/kernels/README.md), with the node's attributes as constants of the same names:
 *     is_pointwise: template <class V> V squash(V x)
 *     else:         template <class L> void row_dot(const L& launch, const f32* x, const f32* w, f32* y, i64 n, i64 k)
 *                   with operands, results, then sizes in order of appearance; each call does the tasks from
 *                   launch.begin up to launch.end. `tasks` is their number. */
typedef struct weft_operator {
  size_t struct_size;
  const char* name;
  const char* rule;
  const char* source;
  const char* function; /* name of the function in `source` */
  const char* tasks;    /* "n", an expression over the rule's sizes; NULL: 1 */
  int32_t is_pointwise;
  /* `buffers`: operands, results; `sizes` as above; `attributes`: "alpha=0.5\nmode=\"x\"". Other than 0: E302. */
  int32_t (*call)(void* user, const char* attributes, void* const* buffers, const int64_t* sizes);
  void* user;
} weft_operator;
#define WEFT_OPERATOR_INIT {sizeof(weft_operator), 0, 0, 0, 0, 0, 0, 0, 0}

typedef struct weft_compile_options {
  size_t struct_size;
  const char* device; /* auto, cpu, ref, gpu, nvidia:0; never replaced if named; several (cpu,cpu) share each run */
  int32_t threads;    /* threads of the CPU; 0: WEFT_THREADS, else all cores that this process may use */
  weft_precision precision;  /* f32, bf16 or f16 for matrix products and convolutions of f32 models */
  const char* const* shapes; /* sizes of inputs: x=1,3,224,224 or x:1x3; range and usual size: x=1..8:4 */
  size_t shape_count;
  const char* const* symbols; /* the value of a size that the model names: batch=4 */
  size_t symbol_count;
  const char* const* keep_f32; /* nodes that stay in f32; * and ? match */
  size_t keep_f32_count;
  const char* folder;      /* folder of the external weights of a model in memory; none: they are not looked for */
  const char* dump_folder; /* folder that receives the program after every pass */
  int32_t no_cache;        /* 1: use neither the kernel cache on disk nor the measurements of `weft tune` */
  /* called with phase, done and total; from any thread, one call at a time */
  void (*progress)(void* user, const char* phase, size_t done, size_t total);
  void* progress_user;
  const char* const* constant_names; /* inputs that are constants of the program */
  const weft_tensor* const* constants;
  size_t constant_count;
  const char* const* fixed_defaults; /* inputs (* and ? match) that keep the model's default and are no inputs then */
  size_t fixed_default_count;
  const weft_allocator* allocator; /* memory of the caller for weights, working memory and results; copied */
  const weft_executor* executor;   /* threads of the caller, which run kernels in place of the pool; copied */
  const char* const* donations;    /* outputs that are written into the memory of inputs: past=present */
  size_t donation_count;
  const weft_operator* operators; /* custom operators that the model may use; copied */
  size_t operator_count;
  int32_t borrow; /* 1: weft_compile_bytes does not copy the bytes, which stay as they are until the program is gone */
  int64_t memory_limit; /* most bytes of a run and its weights (E401); 0: WEFT_MEMORY_LIMIT, else all */
  /* seconds for measuring which kernels are fastest here; later compiles use the measurements too */
  double tune_seconds;
  double deadline_seconds;     /* limit in seconds from the call (E403); kernels compiled before it passes are cached */
  int32_t (*stop)(void* user); /* asked repeatedly, from several threads; anything but 0 ends the compile with E404 */
  void* stop_user;
  /* inputs (* and ? match) whose values may decide which program is compiled; others: E159; NULL: any input */
  const char* const* static_inputs;
  size_t static_input_count;
  const char* tag;       /* tags of the graph in a SavedModel: serve; serve,gpu; none: the only one, or serve */
  const char* signature; /* the signature of a SavedModel or .tflite file; none: the only one, or serving_default */
  const char* const* outputs; /* values of a TensorFlow graph to return in place of its outputs: node, node:1 */
  size_t output_count;
  int32_t channels_first; /* 1: inputs and outputs of a TensorFlow graph with 4 axes are [n, c, h, w] */
} weft_compile_options;
/* clang-format off */
#define WEFT_COMPILE_OPTIONS_INIT \
  {sizeof(weft_compile_options), 0, 0, WEFT_PRECISION_F32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
/* clang-format on */

/* Reads a model (.onnx, .pt2, .tflite, .pb, the folder of a SavedModel) or a saved program (.weft) and compiles it for
 * a device. Where values of inputs decide which program is compiled (weft_port.is_static), the first run with each
 * value compiles one; the last 32 used are kept. Such a program cannot be saved (E406). */
WEFT_API weft_status* weft_compile(const char* path, const weft_compile_options* options, weft_program** program);
/* Compiles or loads a file's bytes, which are copied unless `borrow` is set. */
WEFT_API weft_status* weft_compile_bytes(const void* data, size_t size, const weft_compile_options* options,
                                         weft_program** program);
/* Maps a saved program; anything else is refused. Uses only the options `device`, `threads` and `no_cache`. Options
 * that only a compile can apply are refused (E502). */
WEFT_API weft_status* weft_load(const char* path, const weft_compile_options* options, weft_program** program);
/* Writes a saved program: whole, or not at all. */
WEFT_API weft_status* weft_save(const weft_program* program, const char* path);
/* Saves the program also for other chips, present or not ("cpu:x86-64-v4", "nvidia:sm_90a"); compiles for them now. */
WEFT_API weft_status* weft_save_for(const weft_program* program, const char* path, const char* const* targets,
                                    size_t target_count);
/* Releases the caller's memory of `constants`: those that runs still read are copied, packed ones are dropped, those of
 * weft_tensor_map stay in their files. Call it before the first context. The program cannot be saved afterwards (E406).
 * Devices that cannot do this refuse it with E406. */
WEFT_API weft_status* weft_program_detach(weft_program* program);
WEFT_API void weft_program_free(weft_program* program);

/* Returns which nodes of a model `options->device` runs, and why not the others. JSON: {"supported", "total", "nodes":
 * [{"node", "op", "supported", "why"}]}. Nothing is compiled. */
WEFT_API weft_status* weft_support(const char* path, const weft_compile_options* options, char** json);

/* Prints the model before compiling (`stage` NULL or "") or after the pass called `stage` ("final": after all). */
WEFT_API weft_status* weft_print(const char* path, const weft_compile_options* options, const char* stage, char** text);

/* ---- Inputs and outputs of a program ----------------------------------------------------------------------------- */

typedef struct weft_dim {
  int64_t value;    /* the size; -1 when it is decided by each run */
  int64_t min, max; /* the sizes that a run may have; INT64_MAX: no limit known */
  const char* text; /* "3", "batch", "2*seq + 1" */
} weft_dim;

typedef struct weft_port {
  size_t struct_size;
  const char* name;
  const char* type;  /* "f32[batch,3,224,224]", "sequence(f32[n])" */
  int32_t is_tensor; /* 0: a sequence, optional or map; then the members below are empty */
  weft_dtype dtype;
  size_t rank;
  const weft_dim* dims;
  int32_t has_default; /* an input that may be left out: pass NULL to weft_run */
  int32_t is_donated;  /* an input whose memory a run writes an output to */
  int32_t is_static;   /* an input whose value decides which program is compiled: axes, steps */
} weft_port;
#define WEFT_PORT_INIT {sizeof(weft_port), 0, 0, 0, WEFT_F32, 0, 0, 0, 0, 0}

WEFT_API size_t weft_input_count(const weft_program* program);
WEFT_API size_t weft_output_count(const weft_program* program);
/* Fills `port`; its pointers live as long as the program. */
WEFT_API weft_status* weft_input(const weft_program* program, size_t index, weft_port* port);
WEFT_API weft_status* weft_output(const weft_program* program, size_t index, weft_port* port);

/* Returns the device as text: "cpu (x86-64, avx2 fma), 2 threads". */
WEFT_API const char* weft_program_device(const weft_program* program);
/* JSON with device, inputs, outputs, metadata, compile phases with seconds, kernel counts, and the steps, each with its
 * kernel, the nodes it came from, its device and the reason why it was chosen. */
WEFT_API weft_status* weft_program_report(const weft_program* program, char** json);
/* Returns the model's own metadata under `key`; NULL if there is none. */
WEFT_API const char* weft_program_metadata(const weft_program* program, const char* key);

/* ---- Run --------------------------------------------------------------------------------------------------------- */

WEFT_API weft_status* weft_context_new(const weft_program* program, weft_context** context);
WEFT_API void weft_context_free(weft_context* context);

typedef struct weft_memory {
  size_t struct_size;
  size_t arena, scratch; /* bytes that this context holds now: values between kernels, and working memory of kernels */
  size_t peak;           /* the most bytes that this context has held */
  size_t weights;        /* bytes of packed weights, held once for all programs that pack equal ones */
  size_t constants;      /* bytes of copied constants that runs read; others stay in the file or the caller's memory */
} weft_memory;
#define WEFT_MEMORY_INIT {sizeof(weft_memory), 0, 0, 0, 0, 0}
WEFT_API weft_status* weft_context_memory_use(const weft_context* context, weft_memory* memory);

/* Computes the sizes of output `index` for inputs of these sizes, without a run. `dims` has room for `rank` sizes; -1:
 * the run computes it. `bytes` (may be NULL) receives the size of the output's buffer, 0 if that is not known. */
WEFT_API weft_status* weft_output_sizes(const weft_program* program, const weft_tensor* const* inputs,
                                        size_t input_count, size_t index, int64_t* dims, size_t rank, size_t* bytes);

typedef struct weft_buffer {
  void* data; /* aligned to 64 bytes is fastest; NULL: the library allocates memory */
  size_t bytes;
} weft_buffer;

typedef struct weft_run_options {
  size_t struct_size;
  const weft_buffer* outputs; /* one for each output, or NULL; results are written there, and output tensors view it */
  size_t output_count;
  double deadline_seconds; /* from the call; 0: none. E403 when it passes */
  /* Returns memory for an output without memory in `outputs`, once its sizes are known; aligned to 64 bytes is fastest.
   * NULL fails the run with E400. Called from the thread of the run. */
  void* (*allocate)(void* user, size_t output, const int64_t* dims, size_t rank, size_t bytes);
  void* allocate_user;
  /* Called between steps and pieces of steps, from any thread of the run; a result other than 0 ends it with E404. */
  int32_t (*stop)(void* user);
  void* stop_user;
  const weft_executor* executor; /* for this run, in place of the program's threads */
  /* GPUs. 1: inputs and outputs are memory of the device. 2: also, the work is queued on `stream` (NULL: the
   * driver's default stream), and the call returns at once; indices out of range are then not reported. */
  int32_t on_device;
  void* stream;
} weft_run_options;
#define WEFT_RUN_OPTIONS_INIT {sizeof(weft_run_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* Runs the program once. `inputs` have the order and types of weft_input; `outputs` receives new tensors in the order
 * of weft_output. One thread at a time for each context. Fails with E310 (type, rank, count), E311 (a size outside its
 * range), E312 (sizes that contradict each other).
 *
 * The memory of an output may be that of an input. Where the plan allows it, the input is then updated in place: a
 * key-value cache is not copied (a cache that grows at its end needs room in `outputs`). Otherwise the input is copied
 * first. With `donations`, outputs are written to the memory of their inputs without an entry in `outputs`. The memory
 * of two outputs must not overlap (E313). */
WEFT_API weft_status* weft_run(weft_context* context, const weft_tensor* const* inputs, size_t input_count,
                               weft_tensor** outputs, size_t output_count, const weft_run_options* options);

/* ---- GPUs -------------------------------------------------------------------------------------------------------- */

/* Return the name of GPU number `index` of this machine ("nvidia:0", "amd:1"), and of its chip ("nvidia:sm_90a"); NULL
 * past the last GPU. */
WEFT_API const char* weft_gpu(size_t index);
WEFT_API const char* weft_gpu_chip(size_t index);
/* Allocate, free and copy memory of a GPU. A copy waits for the work on `stream` (a CUstream or hipStream_t; NULL: a
 * stream of the library) and is complete when the call returns. */
typedef enum weft_copy { WEFT_TO_DEVICE, WEFT_TO_HOST, WEFT_ON_DEVICE, WEFT_COPY_UNKNOWN = 0x7fffffff } weft_copy;
WEFT_API weft_status* weft_gpu_allocate(const char* gpu, size_t bytes, void** data);
WEFT_API weft_status* weft_gpu_release(const char* gpu, void* data);
WEFT_API weft_status* weft_gpu_copy(const char* gpu, weft_copy way, void* to, const void* from, size_t bytes,
                                    void* stream);
WEFT_API weft_status* weft_gpu_wait(const char* gpu, void* stream); /* for all work on `stream` */

/* ---- Building a program ------------------------------------------------------------------------------------------
 *
 *     weft_graph* graph = NULL;
 *     weft_value x, y;
 *     weft_graph_new("double", &graph);
 *     weft_graph_input(graph, "x", "f32[batch,64]", &x);
 *     weft_graph_append(graph, "add", (weft_value[]){x, x}, 2, &y);
 *     weft_graph_output(graph, "y", y);
 *     weft_graph_compile(graph, NULL, &program);
 *     weft_graph_free(graph);
 *
 * Operators are written in Weft's own text form, which `weft ops` lists and weft_print prints. One thread at a time. */

typedef struct weft_value {
  uint32_t instruction; /* number within the graph */
  uint32_t result;      /* for operators with several results: add 1 for the next */
} weft_value;

WEFT_API weft_status* weft_graph_new(const char* name, weft_graph** graph);
/* Parses a whole program in text form. */
WEFT_API weft_status* weft_graph_parse(const char* text, weft_graph** graph);
/* Returns operator number `index` that models may use, "Conv", "com.microsoft:FusedGelu" ...; NULL past the last. */
WEFT_API const char* weft_model_operator(size_t index);
/* Reads a model as a graph, before any pass. Uses the options that concern reading, such as sizes and constants. */
WEFT_API weft_status* weft_graph_read(const char* path, const weft_compile_options* options, weft_graph** graph);
WEFT_API weft_status* weft_graph_read_bytes(const void* data, size_t size, const weft_compile_options* options,
                                            weft_graph** graph);
WEFT_API void weft_graph_free(weft_graph* graph);
/* Return the inputs and outputs so far. Pointers in `port` are valid until the graph gets another port or is freed. */
WEFT_API size_t weft_graph_input_count(const weft_graph* graph);
WEFT_API size_t weft_graph_output_count(const weft_graph* graph);
WEFT_API weft_status* weft_graph_input_port(weft_graph* graph, size_t index, weft_port* port);
WEFT_API weft_status* weft_graph_output_port(weft_graph* graph, size_t index, weft_port* port);
/* Declares a size by name, before its first use in a type; undeclared sizes get min 0 and no max. */
WEFT_API weft_status* weft_graph_symbol(weft_graph* graph, const char* name, int64_t min, int64_t max);
WEFT_API weft_status* weft_graph_input(weft_graph* graph, const char* name, const char* type, weft_value* value);
WEFT_API weft_status* weft_graph_constant(weft_graph* graph, const weft_tensor* tensor, weft_value* value);
/* Appends one operator: "softmax {axis=1}". Operands are not broadcast implicitly; append `broadcast` for that. */
WEFT_API weft_status* weft_graph_append(weft_graph* graph, const char* op, const weft_value* inputs, size_t input_count,
                                        weft_value* result);
/* Adds a custom operator for later calls of weft_graph_append: "mine:Squash {limit=1.0}". */
WEFT_API weft_status* weft_graph_operator(weft_graph* graph, const weft_operator* op);
/* Sets the place that errors and profiles show for the instructions appended next; NULL: none. */
WEFT_API weft_status* weft_graph_source(weft_graph* graph, const char* source);
WEFT_API weft_status* weft_graph_output(weft_graph* graph, const char* name, weft_value value);
/* Exports the graph as an ONNX file; returns its bytes as u8[size]. E223 if ONNX lacks an operator. */
WEFT_API weft_status* weft_graph_export(const weft_graph* graph, weft_tensor** onnx);
/* Returns the type of a value as text: "f32[batch,64]". */
WEFT_API weft_status* weft_graph_type(const weft_graph* graph, weft_value value, char** type);
WEFT_API weft_status* weft_graph_print(const weft_graph* graph, char** text);
/* Compiles and consumes the graph, even if compiling fails: afterwards only weft_graph_free may be called on it. */
WEFT_API weft_status* weft_graph_compile(weft_graph* graph, const weft_compile_options* options,
                                         weft_program** program);

/* ---- Quantisation ------------------------------------------------------------------------------------------------ */
/* The choices of quantisation; docs/quantisation.md describes each. */
typedef struct weft_quantize_options {
  size_t struct_size;
  const char* to;          /* "int8", "fp8", "fp8-fnuz", "int8-dynamic", "int8-weights", "int4"; NULL: int8 */
  const char* method;      /* of ranges: "mse", "minmax", "percentile", "entropy"; NULL: mse. fp8 always takes minmax */
  const char* weights;     /* "nearest", "gptq"; in blocks also "hqq", "awq". NULL: gptq for int4 and fp8 with data */
  double percentile;       /* share of values inside the range, in percent; 0: 99.99 */
  int32_t block;           /* int4, int8-weights: number of weights that share a scale; 0: 32 */
  int32_t symmetric;       /* 1: around 0, also where another zero point would be more exact */
  int32_t per_tensor;      /* 1: a scale for each weight, not for each of its channels */
  int32_t keep_bias;       /* 1: biases are not corrected for the mean error of rounded weights */
  const char* const* keep; /* names of nodes (* and ? match) that stay in floats */
  size_t keep_count;
  double budget; /* above 0: the greatest loss; layers stay in floats until it is met (E221) */
  /* Returns the quality of a model file; greater is better, the loss is its relative drop. NULL: the outputs' error. */
  double (*metric)(void* user, const char* path);
  /* Stores item `index` of the data in `inputs`, as new tensors in the order of the model's inputs. Returns 0 past
   * the last; a result below 0 ends with E220. Each pass over the data starts at item 0. NULL: no data; int8
   * needs data. */
  int32_t (*item)(void* user, size_t index, weft_tensor** inputs);
  void (*progress)(void* user, const char* phase, size_t done, size_t total);
  void* user;
  int32_t threads;      /* 0: WEFT_THREADS, else the cores that this process may use */
  double smooth;        /* int8, fp8: share of inputs' outliers that moves into weights, such as 0.5; -1: none;
                    * 0: int8 chooses a share for each input, fp8 moves none */
  const char* ranges;   /* a calibration table in place of data; int8 leaves inputs that it lacks in floats; or NULL */
  int32_t products;     /* 1: matrix products only, 2: convolutions only; 0: both */
  int32_t qdq;          /* 1: weights in blocks become DequantizeLinear and MatMul (operator set 21), not MatMulNBits */
  const char* folder;   /* of external weights, for weft_quantize_bytes; NULL: there are none */
  int32_t reduce_range; /* 1: int8 weights have 7 bits, for engines whose products by u8 saturate without VNNI */
} weft_quantize_options;
#define WEFT_QUANTIZE_OPTIONS_INIT \
  {sizeof(weft_quantize_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* Writes an ONNX file whole or not at all. `report` (or NULL) receives JSON: layers' new forms and why, the loss. */
WEFT_API weft_status* weft_quantize(const char* model, const char* output, const weft_quantize_options* options,
                                    char** report);
/* Quantises an ONNX file's bytes, which stay as they are; returns the new file as u8[size]. Takes no metric. */
WEFT_API weft_status* weft_quantize_bytes(const void* model, size_t size, const weft_quantize_options* options,
                                          weft_tensor** quantized, char** report);

#ifdef __cplusplus
}
#endif
