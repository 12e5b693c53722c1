package main

import (
	"time"

	"github.com/ferrumkv/ferrumkv/cmd/internal/load"
)

// loadRow is a run as --json prints it. Times are seconds; what a flag bounds and does not set is left out.
type loadRow struct {
	Program     string  `json:"program"`
	Began       string  `json:"began"` // RFC 3339, in UTC
	Trace       string  `json:"trace"`
	Server      string  `json:"server"`
	Model       string  `json:"model"`
	Endpoint    string  `json:"endpoint"`
	WordTokens  float64 `json:"word_tokens,omitempty"` // tokens of a word of the prompts
	Vocabulary  int     `json:"vocabulary,omitempty"`  // of prompts that are ids
	Scale       float64 `json:"scale"`
	MaxPrompt   int     `json:"max_prompt,omitempty"`
	MaxTokens   int     `json:"max_tokens,omitempty"`
	Speed       float64 `json:"speed,omitempty"`
	Rate        float64 `json:"rate,omitempty"`
	Concurrency int     `json:"concurrency,omitempty"`
	Seed        uint64  `json:"seed"`
	Objective   string  `json:"objective"`

	Planned    int             `json:"planned"`
	Requests   int             `json:"requests"` // that were sent
	Succeeded  int             `json:"succeeded"`
	Failed     int             `json:"failed"`
	Unfinished int             `json:"unfinished"` // at the end of a run that was interrupted
	Errors     []load.Failures `json:"errors"`
	Seconds    float64         `json:"seconds"`

	PromptTokens    int      `json:"prompt_tokens"`
	OutputTokens    int      `json:"output_tokens"`
	OutputCounted   string   `json:"output_counted"` // by the server, or, of some requests at least, as pieces of text
	CachedTokens    *int     `json:"cached_tokens"`  // null: the server does not say it
	HitRate         *float64 `json:"hit_rate"`       // likewise
	PossibleHitRate float64  `json:"possible_hit_rate"`

	RequestsPerSecond     float64 `json:"requests_per_second"`
	PromptTokensPerSecond float64 `json:"prompt_tokens_per_second"`
	OutputTokensPerSecond float64 `json:"output_tokens_per_second"`
	GoodputPerSecond      float64 `json:"goodput_per_second"`
	GoodputShare          float64 `json:"goodput_share"`

	TTFT    load.Quantiles `json:"ttft"`
	TPOT    load.Quantiles `json:"tpot"`
	Gap     load.Quantiles `json:"gap"`
	Latency load.Quantiles `json:"latency"`
	Late    load.Quantiles `json:"late"`
}

func (r *loadReport) row() loadRow {
	w := r.workload
	out := loadRow{Program: version(), Began: r.result.Began.UTC().Format(time.RFC3339), Trace: r.trace, Server: r.server, Model: r.model, Endpoint: r.endpoint(), WordTokens: r.dialect.WordTokens, Vocabulary: r.dialect.Vocabulary,
		Scale: w.Scale, MaxPrompt: w.MaxPrompt, MaxTokens: w.MaxOutput, Rate: w.Rate, Concurrency: w.Concurrency, Seed: w.Seed, Objective: r.objective.String(),
		Planned: r.planned, Requests: r.Sent, Succeeded: r.Succeeded, Failed: r.Failed, Unfinished: r.Unfinished,
		Errors: append([]load.Failures{}, r.Failures...), Seconds: r.result.Elapsed.Seconds(),
		PromptTokens: r.PromptTokens, OutputTokens: r.OutputTokens, OutputCounted: "server", PossibleHitRate: r.PossibleHitRate,
		RequestsPerSecond: r.Throughput, PromptTokensPerSecond: r.PromptRate, OutputTokensPerSecond: r.OutputRate, GoodputPerSecond: r.Goodput, GoodputShare: r.GoodputShare,
		TTFT: r.TTFT, TPOT: r.TPOT, Gap: r.Gap, Latency: r.Latency, Late: r.Late}
	if w.Rate == 0 && w.Concurrency == 0 {
		out.Speed = w.Speed
	}
	if !r.CountedByServer {
		out.OutputCounted = "pieces"
	}
	if r.HitRateKnown {
		out.CachedTokens, out.HitRate = &r.CachedTokens, &r.HitRate
	}
	return out
}
