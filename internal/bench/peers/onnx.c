//go:build peers

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "onnxruntime_c_api.h"
#include "peers.h"

static const OrtApiBase *base;
static const OrtApi *api;
static OrtEnv *env;
static OrtMemoryInfo *memory;
static char error[1024];

const char *peers_onnx_error(void) { return error; }
const char *peers_onnx_version(void) { return base->GetVersionString(); }

// failed keeps what a status says.
static int failed(OrtStatus *s) {
  if (!s)
    return 0;
  snprintf(error, sizeof error, "%s", api->GetErrorMessage(s));
  api->ReleaseStatus(s);
  return 1;
}

int peers_onnx_open(const char *library) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  const OrtApiBase *(*get)(void) = handle ? (const OrtApiBase *(*)(void))dlsym(handle, "OrtGetApiBase") : NULL;
  if (!get) {
    snprintf(error, sizeof error, "%s", dlerror());
    return 1;
  }
  base = get();
  if (!(api = base->GetApi(ORT_API_VERSION))) {
    snprintf(error, sizeof error, "version %s of the library does not have the header's API %d", base->GetVersionString(), ORT_API_VERSION);
    return 1;
  }
  return failed(api->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "peers", &env)) || failed(api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory));
}

void *peers_onnx_session(const void *model, size_t bytes, int threads) {
  OrtSessionOptions *options;
  OrtSession *session;
  if (failed(api->CreateSessionOptions(&options)) || failed(api->SetIntraOpNumThreads(options, threads)) ||
      failed(api->SetInterOpNumThreads(options, 1)) || failed(api->CreateSessionFromArray(env, model, bytes, options, &session)))
    return NULL;
  return session;
}

// bound is a session's operands.
struct bound {
  OrtSession *session;
  OrtIoBinding *binding;
  OrtValue *values[10];
  int n;
  int32_t last, total; // the keys before the new ones, less one of all; and all
};

static int bind(struct bound *b, const char *name, void *data, size_t bytes, const int64_t *shape, size_t rank, int type, int output) {
  OrtValue **v = &b->values[b->n];
  if (failed(api->CreateTensorWithDataAsOrtValue(memory, data, bytes, shape, rank, type, v)))
    return 1;
  b->n++;
  return failed(output ? api->BindOutput(b->binding, name, *v) : api->BindInput(b->binding, name, *v));
}

void *peers_onnx_bind(void *session, const struct peers_shape *s, int type, size_t element, void *query, void *new_keys, void *new_values, void *keys,
                      void *values, void *output) {
  struct bound *b = calloc(1, sizeof *b);
  if (!b)
    return NULL;
  b->session = session;
  b->last = s->keys - 1;
  b->total = s->keys;
  int64_t rows[] = {1, s->queries, s->heads * s->dim}, fresh[] = {1, s->queries, s->kv_heads * s->dim}, all[] = {1, s->kv_heads, s->keys, s->dim}, one[] = {1};
  size_t row_bytes = element * s->queries * s->heads * s->dim, fresh_bytes = element * s->queries * s->kv_heads * s->dim,
         all_bytes = element * s->kv_heads * s->keys * s->dim;
  if (failed(api->CreateIoBinding(session, &b->binding)) || bind(b, "query", query, row_bytes, rows, 3, type, 0) ||
      bind(b, "key", new_keys, fresh_bytes, fresh, 3, type, 0) || bind(b, "value", new_values, fresh_bytes, fresh, 3, type, 0) ||
      bind(b, "past_key", keys, all_bytes, all, 4, type, 0) || bind(b, "past_value", values, all_bytes, all, 4, type, 0) ||
      bind(b, "last", &b->last, sizeof b->last, one, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, 0) ||
      bind(b, "total", &b->total, sizeof b->total, one, 0, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, 0) ||
      bind(b, "output", output, row_bytes, rows, 3, type, 1) || bind(b, "present_key", keys, all_bytes, all, 4, type, 1) ||
      bind(b, "present_value", values, all_bytes, all, 4, type, 1)) {
    peers_onnx_free(b);
    return NULL;
  }
  return b;
}

int peers_onnx_run(void *bound) {
  struct bound *b = bound;
  return failed(api->RunWithBinding(b->session, NULL, b->binding));
}

void peers_onnx_free(void *bound) {
  struct bound *b = bound;
  if (b->binding)
    api->ReleaseIoBinding(b->binding);
  for (int i = 0; i < b->n; i++)
    api->ReleaseValue(b->values[i]);
  free(b);
}
