// Package schedule runs the requests of many callers on one model: continuous batching over a pool of package kvcache.
//
//	s, err := schedule.New(model, kv.Pool, step.Batch, step.Stream, schedule.Options{})
//	go s.Run(ctx)
//	answer, err := s.Submit(r.Context(), schedule.Request{Prompt: prompt, MaxTokens: 100}) // in any goroutine
//	for token, err := range answer.Tokens() {
//
// In each step every running request gets its next token, and prompts share what is left of Options.StepTokens, so that a
// long prompt is computed in pieces beside the others' answers (chunked prefill: Agrawal et al., Sarathi-Serve, 2024). The
// queue is first come, first served:
//
//   - A request is admitted once Pool.Reserve has set aside the blocks of its prompt. Waiting for tiers holds up no other.
//   - A prompt that begins like one that is being computed waits until what they share is in the cache.
//   - A step that finds too few blocks suspends the request that came last (Sequence.Suspend), until others have ended.
//   - A request ends when the model ends it, at its most tokens, when its caller is gone, or with an error.
//
// It is made to be read and copied. It is not kept yet: until v0.1.0 everything in it may change.
package schedule
