//go:build peers

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ggml-cpu.h"
#include "ggml.h"
#include "peers.h"

struct attention {
  struct ggml_context *context;
  struct ggml_tensor *query, *keys, *values, *output;
  struct ggml_cgraph *graph;
  struct ggml_cplan plan;
  int failed;
};

void *peers_ggml_pool(int threads) {
  ggml_cpu_init();
  struct ggml_threadpool_params p = ggml_threadpool_params_default(threads);
  p.paused = true;
  return ggml_threadpool_new(&p);
}

void peers_ggml_pause(void *pool) { ggml_threadpool_pause(pool); }
void peers_ggml_resume(void *pool) { ggml_threadpool_resume(pool); }
size_t peers_ggml_size(int type, int elements) { return ggml_row_size(type, elements); }

// place gives a tensor memory that lives as long as the process.
static void place(struct attention *a, struct ggml_tensor *t) {
  size_t bytes = (ggml_nbytes(t) + 4095) / 4096 * 4096;
  if ((t->data = aligned_alloc(4096, bytes)))
    memset(t->data, 0, bytes);
  else
    a->failed = 1;
}

// swapped is a view of a tensor with its second and third dimension exchanged.
static struct ggml_tensor *swapped(struct ggml_context *c, struct ggml_tensor *t) {
  struct ggml_tensor *view = ggml_permute(c, t, 0, 2, 1, 3);
  view->data = t->data;
  return view;
}

// causal is a mask of the queries that are the last ones of the keys.
static struct ggml_tensor *causal(struct attention *a, const struct peers_shape *s) {
  struct ggml_tensor *mask = ggml_new_tensor_2d(a->context, GGML_TYPE_F16, s->keys, s->queries);
  place(a, mask);
  if (a->failed)
    return NULL;
  ggml_fp16_t *m = mask->data, hidden = ggml_fp32_to_fp16(-INFINITY);
  for (int i = 0; i < s->queries; i++)
    for (int j = s->keys - s->queries + i + 1; j < s->keys; j++)
      m[(size_t)i * s->keys + j] = hidden;
  return mask;
}

void *peers_ggml_attention(void *pool, int threads, const struct peers_shape *s, int plain) {
  struct attention *a = calloc(1, sizeof *a);
  struct ggml_init_params params = {.mem_size = 1 << 20, .no_alloc = true};
  if (!a || !(a->context = ggml_init(params)))
    return NULL;
  struct ggml_context *c = a->context;
  a->query = ggml_new_tensor_3d(c, GGML_TYPE_F32, s->dim, s->heads, s->queries);
  place(a, a->query);
  struct ggml_tensor *query = swapped(c, a->query), *mask = s->queries > 1 ? causal(a, s) : NULL;
  float scale = 1 / sqrtf(s->dim);
  if (plain) {
    a->keys = ggml_new_tensor_3d(c, s->type, s->dim, s->kv_heads, s->keys);
    a->values = ggml_new_tensor_3d(c, s->type, s->keys, s->dim, s->kv_heads);
    struct ggml_tensor *scores = ggml_mul_mat(c, swapped(c, a->keys), query);
    ggml_mul_mat_set_prec(scores, GGML_PREC_F32);
    place(a, scores);
    struct ggml_tensor *weights = ggml_soft_max_ext_inplace(c, scores, mask, scale, 0);
    weights->data = scores->data;
    struct ggml_tensor *mixed = ggml_mul_mat(c, a->values, weights);
    place(a, mixed);
    a->output = ggml_cont(c, swapped(c, mixed));
  } else {
    a->keys = ggml_new_tensor_3d(c, s->type, s->dim, s->keys, s->kv_heads);
    a->values = ggml_new_tensor_3d(c, s->type, s->dim, s->keys, s->kv_heads);
    a->output = ggml_flash_attn_ext(c, query, a->keys, a->values, mask, scale, 0, 0);
    ggml_flash_attn_ext_set_prec(a->output, GGML_PREC_F32);
  }
  place(a, a->output);
  a->graph = ggml_new_graph(c);
  ggml_build_forward_expand(a->graph, a->output);
  a->plan = ggml_graph_plan(a->graph, threads, pool);
  if (a->plan.work_size && !(a->plan.work_data = malloc(a->plan.work_size)))
    a->failed = 1;
  return a->failed ? NULL : a;
}

float *peers_ggml_query(void *attention) { return ((struct attention *)attention)->query->data; }
float *peers_ggml_output(void *attention) { return ((struct attention *)attention)->output->data; }

int peers_ggml_run(void *attention, void *keys, void *values) {
  struct attention *a = attention;
  a->keys->data = keys;
  a->values->data = values;
  for (int i = 0; i < ggml_graph_n_nodes(a->graph); i++) { // a view has an address of its own
    struct ggml_tensor *t = ggml_graph_node(a->graph, i);
    if (t->view_src == a->keys)
      t->data = keys;
  }
  return ggml_graph_compute(a->graph, &a->plan);
}
