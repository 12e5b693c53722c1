// Package metrics has tables of metrics and writes them in Prometheus's text format. A table has a row for each metric: its name, what it means, and
// how it is read from a snapshot of T. Pool is the table of a pool:
//
//	http.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
//		stats, err := pool.Stats()
//		if err != nil {
//			http.Error(w, err.Error(), http.StatusServiceUnavailable)
//			return
//		}
//		w.Header().Set("Content-Type", metrics.ContentType)
//		_ = metrics.Write(w, metrics.Of(metrics.Pool(), stats)...)
//	})
//
// A metric whose meaning is that of a metric of vLLM has its name, vllm:…, so that routers and dashboards that know vLLM read it; all others
// have names of their own, ferrumkv:…. The numbers are those of all tenants together: serve them to operators only.
//
// The module kvcache/metrics/collector hands the same tables to a registry of client_golang.
package metrics
