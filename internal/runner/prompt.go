package runner

import (
	"bytes"

	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Prompt is a text to continue.
type Prompt struct {
	Tokens []uint32
	// Salt separates tenants: what prompts of one salt compute is not reused for those of another. nil is a salt of its own.
	Salt []byte
}

func (p Prompt) options() kvcache.OpenOptions {
	return kvcache.OpenOptions{Scope: prefix.Scope{Salt: p.Salt}}
}

// common is the number of tokens with which both prompts begin and that they may share.
func (p Prompt) common(o Prompt) (n int) {
	if (p.Salt == nil) != (o.Salt == nil) || !bytes.Equal(p.Salt, o.Salt) {
		return 0
	}
	for n < min(len(p.Tokens), len(o.Tokens)) && p.Tokens[n] == o.Tokens[n] {
		n++
	}
	return n
}

func (p Prompt) equal(o Prompt) bool {
	return len(p.Tokens) == len(o.Tokens) && p.common(o) == len(p.Tokens)
}
