package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/chat"
	"github.com/ferrumkv/ferrumkv/cmd/internal/runner"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/spf13/cobra"
)

// chatNoteName is what chat calls what it adds to a snapshot.
const chatNoteName = "github.com/ferrumkv/ferrumkv/cmd/ferrumkv chat"

// savedChat is a conversation beside its cache.
type savedChat struct {
	runner.Sampling
	Now      time.Time      `json:"now"` // of the template
	Messages []chat.Message `json:"messages"`
	Past     chat.Past      `json:"past"`
	Cached   []uint32       `json:"cached,omitempty"` // tokens of the cache, with those that were cut from the past
	Sampler  []byte         `json:"sampler,omitempty"`
}

// resume takes the conversation of --resume, if there is one.
func (d *dialogue) resume(cmd *cobra.Command, vocabulary int) error {
	if d.files.resume == "" {
		return nil
	}
	var note savedChat
	sequences, err := d.files.open(d.runner.Pool(), "chat", chatNoteName, &note)
	if err != nil {
		return err
	}
	sampler, err := runner.NewSampler(runner.Sampling{}, 0)
	if err == nil && len(sequences) > 0 {
		err = sampler.Restore(note.Sampler)
	}
	cached := chat.Past{Tokens: note.Cached}
	if err != nil || len(sequences) > 1 || len(sequences) == 1 && len(note.Cached) < sequences[0].Len() || !note.Past.Valid(vocabulary) || !cached.Valid(vocabulary) {
		return fmt.Errorf("--resume %s: the conversation is not one of this model that chat --save wrote", d.files.resume)
	}
	d.sampling.resume(cmd, note.Sampling)
	d.template.Now, d.messages, d.past = note.Now, note.Messages, note.Past
	if len(sequences) == 1 {
		d.held = &runner.Held[backend.AnyBuffer]{Seq: sequences[0], Tokens: note.Cached, Sampler: note.Sampler}
		d.note("resumed %s; %s in the cache", count(len(d.messages), "message"), count(sequences[0].Len(), "token"))
	}
	return nil
}

// end saves the conversation, if it is to be, and lets tiers finish.
func (d *dialogue) end() (err error) {
	note := savedChat{Sampling: d.sampling.Sampling, Now: d.template.Now, Messages: d.messages, Past: d.past}
	var sequences []*kvcache.Sequence[backend.AnyBuffer]
	if d.held != nil {
		sequences = append(sequences, d.held.Seq)
		note.Cached, note.Sampler = d.held.Tokens, d.held.Sampler
	}
	if d.files.save != "" {
		err = d.files.store(d.runner.Pool(), sequences, chatNoteName, note)
	}
	if d.held != nil {
		err = errors.Join(err, d.held.Seq.Release())
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeWait)
	defer cancel()
	_ = d.runner.Pool().Flush(ctx) // what is not stored by then is computed again
	return err
}
