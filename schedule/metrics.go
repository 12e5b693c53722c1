package schedule

import "github.com/ferrumkv/ferrumkv/kvcache/metrics"

// Metrics is the table of a scheduler's metrics, made anew by each call. Those that mean what they mean in vLLM have its names.
func Metrics() []metrics.Metric[Stats] {
	const gauge, counter, histogram = metrics.GaugeType, metrics.CounterType, metrics.HistogramType
	row := func(kind metrics.Type, name, unit, help string, read func(Stats) []metrics.Sample, labels ...string) metrics.Metric[Stats] {
		return metrics.Metric[Stats]{Name: name, Help: help, Unit: unit, Type: kind, Labels: labels, Read: read}
	}
	number := func(n int) []metrics.Sample { return []metrics.Sample{{Value: float64(n)}} }
	spread := func(d *metrics.Distribution) []metrics.Sample { return []metrics.Sample{{Distribution: d}} }
	return []metrics.Metric[Stats]{
		row(gauge, "vllm:num_requests_running", "requests", "Requests that steps compute.", func(s Stats) []metrics.Sample { return number(s.Running) }),
		row(gauge, "vllm:num_requests_waiting", "requests", "Requests that wait, suspended ones included.", func(s Stats) []metrics.Sample { return number(s.Waiting + s.Suspended) }),
		row(gauge, "ferrumkv:requests_loading", "requests", "Requests that wait for tiers.", func(s Stats) []metrics.Sample { return number(s.Loading) }),
		row(gauge, "ferrumkv:requests_suspended", "requests", "Requests that gave way to others.", func(s Stats) []metrics.Sample { return number(s.Suspended) }),
		row(counter, "vllm:request_success", "requests", "Requests that ended, by reason.", func(s Stats) (all []metrics.Sample) {
			for reason := Stopped; reason < numReasons; reason++ {
				all = append(all, metrics.Sample{Value: float64(s.Ended[reason]), Labels: []string{reason.String()}})
			}
			return all
		}, "finished_reason"),
		row(counter, "ferrumkv:requests_refused", "requests", "Requests that were not taken: the queue was full, or the process drains.", func(s Stats) []metrics.Sample { return number(int(s.Refused)) }),
		row(counter, "vllm:num_preemptions", "requests", "Times that a request gave way to others.", func(s Stats) []metrics.Sample { return number(int(s.Preempted)) }),
		row(counter, "vllm:prompt_tokens", "tokens", "Tokens of prompts whose answers have begun.", func(s Stats) []metrics.Sample { return number(int(s.Prompt)) }),
		row(counter, "vllm:prompt_tokens_cached", "tokens", "Of these, tokens that were found in the cache or its tiers.", func(s Stats) []metrics.Sample { return number(int(s.Cached)) }),
		row(counter, "ferrumkv:prompt_tokens_computed", "tokens", "Tokens of prompts in steps.", func(s Stats) []metrics.Sample { return number(int(s.Computed)) }),
		row(counter, "vllm:generation_tokens", "tokens", "Tokens of answers.", func(s Stats) []metrics.Sample { return number(int(s.Generated)) }),
		row(histogram, "vllm:iteration_tokens_total", "tokens", "Tokens of a step.", func(s Stats) []metrics.Sample { return spread(&s.StepTokens) }),
		row(histogram, "vllm:request_queue_time_seconds", "seconds", "From arrival to the first step.", func(s Stats) []metrics.Sample { return spread(&s.Queued) }),
		row(histogram, "vllm:time_to_first_token_seconds", "seconds", "From arrival to the first token.", func(s Stats) []metrics.Sample { return spread(&s.FirstToken) }),
		row(histogram, "vllm:inter_token_latency_seconds", "seconds", "From one token of an answer to the next.", func(s Stats) []metrics.Sample { return spread(&s.BetweenTokens) }),
		row(histogram, "vllm:e2e_request_latency_seconds", "seconds", "From arrival to the end.", func(s Stats) []metrics.Sample { return spread(&s.Whole) }),
		row(histogram, "ferrumkv:flush_lag_seconds", "seconds", "That the end of an answer waited until tiers had what it computed.", func(s Stats) []metrics.Sample { return spread(&s.Flushed) }),
	}
}
