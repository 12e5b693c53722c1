package schedule

import "github.com/ferrumkv/ferrumkv/kvcache/metrics"

// Metrics is the table of a scheduler's metrics, made anew by each call: a program makes it once. Those that mean what they mean in vLLM
// have its names.
func Metrics() []metrics.Metric[Stats] {
	type values = func(*Stats) []metrics.Sample
	row := func(kind metrics.Type, name, unit, help string, read values, labels ...string) metrics.Metric[Stats] {
		return metrics.Metric[Stats]{Name: name, Help: help, Unit: unit, Type: kind, Labels: labels, Read: func(s Stats) []metrics.Sample { return read(&s) }}
	}
	sample := func(n float64, labels ...string) metrics.Sample { return metrics.Sample{Value: n, Labels: labels} }
	number := func(of func(s *Stats) float64) values {
		return func(s *Stats) []metrics.Sample { return []metrics.Sample{sample(of(s))} }
	}
	spread := func(of func(s *Stats) *metrics.Distribution) values {
		return func(s *Stats) []metrics.Sample { return []metrics.Sample{{Distribution: of(s)}} }
	}
	const gauge, counter, histogram = metrics.GaugeType, metrics.CounterType, metrics.HistogramType
	return []metrics.Metric[Stats]{
		row(gauge, "vllm:num_requests_running", "requests", "Requests that steps compute.", number(func(s *Stats) float64 { return float64(s.Running) })),
		row(gauge, "vllm:num_requests_waiting", "requests", "Requests that wait, suspended ones included.", number(func(s *Stats) float64 { return float64(s.Waiting + s.Suspended) })),
		row(gauge, "ferrumkv:requests_held", "requests", "Requests that wait until another one has computed what they begin with.", number(func(s *Stats) float64 { return float64(s.Held) })),
		row(gauge, "ferrumkv:requests_loading", "requests", "Requests that wait for tiers.", number(func(s *Stats) float64 { return float64(s.Loading) })),
		row(gauge, "ferrumkv:requests_suspended", "requests", "Requests that gave way to others.", number(func(s *Stats) float64 { return float64(s.Suspended) })),
		row(counter, "vllm:request_success", "requests", "Requests that ended, by reason.", func(s *Stats) (all []metrics.Sample) {
			for reason := Stopped; reason < numReasons; reason++ {
				all = append(all, sample(float64(s.Ended[reason]), reason.String()))
			}
			return all
		}, "finished_reason"),
		row(counter, "ferrumkv:requests_refused", "requests", "Requests that were not taken: the queue was full, or the process drains.", number(func(s *Stats) float64 { return float64(s.Refused) })),
		row(counter, "vllm:num_preemptions", "requests", "Times that a request gave way to others.", number(func(s *Stats) float64 { return float64(s.Preempted) })),
		row(counter, "vllm:prompt_tokens", "tokens", "Tokens of prompts whose answers have begun.", number(func(s *Stats) float64 { return float64(s.Prompt) })),
		row(counter, "vllm:prompt_tokens_cached", "tokens", "Of these, tokens that were found in the cache or its tiers.", number(func(s *Stats) float64 { return float64(s.Cached) })),
		row(counter, "ferrumkv:prompt_tokens_computed", "tokens", "Tokens of prompts in steps.", number(func(s *Stats) float64 { return float64(s.Computed) })),
		row(counter, "vllm:generation_tokens", "tokens", "Tokens of answers.", number(func(s *Stats) float64 { return float64(s.Generated) })),
		row(histogram, "vllm:iteration_tokens_total", "tokens", "Tokens of a step.", spread(func(s *Stats) *metrics.Distribution { return &s.StepTokens })),
		row(histogram, "vllm:request_queue_time_seconds", "seconds", "From arrival to the first step.", spread(func(s *Stats) *metrics.Distribution { return &s.Queued })),
		row(histogram, "vllm:time_to_first_token_seconds", "seconds", "From arrival to the first token.", spread(func(s *Stats) *metrics.Distribution { return &s.FirstToken })),
		row(histogram, "vllm:inter_token_latency_seconds", "seconds", "From one token of an answer to the next.", spread(func(s *Stats) *metrics.Distribution { return &s.BetweenTokens })),
		row(histogram, "vllm:e2e_request_latency_seconds", "seconds", "From arrival to the end.", spread(func(s *Stats) *metrics.Distribution { return &s.Whole })),
		row(histogram, "ferrumkv:flush_lag_seconds", "seconds", "That the end of an answer waited until tiers had what it computed.", spread(func(s *Stats) *metrics.Distribution { return &s.Flushed })),
	}
}
