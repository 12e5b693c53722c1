#pragma once
#include <stddef.h>

// A call: the queries are those of the last keys, and each sees the keys up to its own. type is one of ggml's.
struct peers_shape {
  int type, heads, kv_heads, dim, keys, queries;
};

void *peers_ggml_pool(int threads);
void peers_ggml_pause(void *pool);
void peers_ggml_resume(void *pool);
size_t peers_ggml_size(int type, int elements);
// Flash attention over keys and values [kv_heads, keys, dim], or with plain two products of matrices and a softmax, over keys
// [keys, kv_heads, dim] and values [kv_heads, dim, keys]. NULL where there is no memory.
void *peers_ggml_attention(void *pool, int threads, const struct peers_shape *s, int plain);
float *peers_ggml_query(void *attention);  // [queries, heads, dim]
float *peers_ggml_output(void *attention); // the same
int peers_ggml_run(void *attention, void *keys, void *values);

// 0, or what peers_onnx_error says.
int peers_onnx_open(const char *library);
const char *peers_onnx_error(void);
const char *peers_onnx_version(void);
void *peers_onnx_session(const void *model, size_t bytes, int threads);
// Rows [queries, heads, dim], new keys and values [queries, kv_heads, dim], all keys and values [kv_heads, keys, dim]. The new ones
// are written to the end of all.
void *peers_onnx_bind(void *session, const struct peers_shape *s, int onnx_type, size_t element, void *query, void *new_keys, void *new_values, void *keys,
                      void *values, void *output);
int peers_onnx_run(void *bound);
void peers_onnx_free(void *bound);
