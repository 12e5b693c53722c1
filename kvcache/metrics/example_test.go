package metrics_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/ferrumkv/ferrumkv"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/metrics"
)

func Example() {
	kv, err := ferrumkv.Open("cpu", kvcache.Config{
		Model:  kvcache.Model{Layers: 1, KVHeads: 1, HeadDim: 64},
		Memory: kvcache.Memory{Layout: kvcache.Paged, Blocks: 8},
	})
	if err != nil {
		panic(err)
	}
	defer kv.Close()

	table := metrics.Pool()
	http.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		stats, err := kv.Pool.Stats()
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", metrics.ContentType)
		_ = metrics.Write(w, metrics.Of(table, stats)...)
	})

	scrape := httptest.NewRecorder()
	http.DefaultServeMux.ServeHTTP(scrape, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(scrape.Body.String()) {
		if strings.HasPrefix(line, "vllm:") {
			fmt.Print(line)
		}
	}
	// Output:
	// vllm:kv_cache_usage_perc 0
	// vllm:cache_config_info{block_size="16",num_gpu_blocks="8"} 1
	// vllm:prefix_cache_queries_total 0
	// vllm:prefix_cache_hits_total 0
}
