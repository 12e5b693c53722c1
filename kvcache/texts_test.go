package kvcache

import (
	"cmp"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
	"github.com/stretchr/testify/require"
)

// Errors of this package say so, and which call they are of and what is wrong with which of its
// operands.
func TestTexts(t *testing.T) {
	cfg := small(Paged)
	cfg.Model.HeadDim, cfg.Model.VHeadDim, cfg.Memory.Blocks, cfg.Model.RoPE = 4, 4, 2, nil
	r := newRig(t, openCPU(t), cfg)
	other, err := cpu.Open(cpu.Options{Threads: 1})
	require.NoError(t, err)
	alien, err := other.NewStream()
	require.NoError(t, err)
	seq, full := r.open(), r.open()
	require.NoError(t, r.feed2(full, sequence(1, 3)))
	planned := func(ask func() error) error {
		require.NoError(t, r.plan(r.s, feed[*cpu.Buffer]{seq, []uint32{1}}))
		defer func() { require.NoError(t, r.step.Reset()) }()
		return ask()
	}
	nothing := func() error { return nil }
	for _, c := range []struct {
		want string
		ask  func() error
	}{
		{"kvcache: Batch.Add: the sequence is nil; open one with Pool.Open", func() error { return r.step.Add(nil, []uint32{1}) }},
		{"kvcache: Batch.Add: no tokens: a sequence without any is left out of the step", func() error { return r.step.Add(seq, nil) }},
		{"kvcache: Batch.Plan: the stream is nil; make one with NewStream of the backend", func() error {
			return r.plan(nil, feed[*cpu.Buffer]{seq, []uint32{1}})
		}},
		{"kvcache: Batch.Plan: stream belongs to another device", func() error { return r.plan(alien, feed[*cpu.Buffer]{full, []uint32{1}}) }},
		{"kvcache: Sequence.Fence: stream belongs to another device", func() error { return full.Fence(alien) }},
		{"kvcache: Batch.Plan: block: out of blocks: need 2, 1 available", func() error { return r.plan(r.s, feed[*cpu.Buffer]{seq, sequence(1, 8)}) }},
		{"kvcache: Pool.Reserve: block: out of blocks: need 10, 1 available", func() error { return r.pool.Reserve(Reservation[*cpu.Buffer]{seq, 40}) }},
		{"kvcache: Pool.Reserve: the sequence is nil; open one with Pool.Open", func() error { return r.pool.Reserve(Reservation[*cpu.Buffer]{}) }},
		{"kvcache: Sequence.Truncate: 4 tokens: the sequence has 3", func() error { return full.Truncate(4) }},
		{"kvcache: Sequence.Shift: not supported: Model.RoPE is not set, so keys cannot move to other positions", func() error { return full.Shift(r.s, 0, 1) }},
		{"kvcache: Batch.Append: layer 2: the pool has layers 0 to 1", func() error { return planned(func() error { return r.step.Append(2, kv[*cpu.Buffer](nil, nil)) }) }},
		{"kvcache: Batch.Attend: layer 0 has no keys and values of the step's tokens; Append to it first", func() error {
			return planned(func() error {
				q, k, v, out := r.operands(1)
				defer r.free(q, k, v, out)
				return r.step.Attend(0, attending(q, out))
			})
		}},
		{"kvcache: Pool.Open: RetentionHint: priority -1: need 0 to ", func() error {
			_, _, err := r.pool.Open(nil, OpenOptions{RetentionHint: prefix.RetentionHint{Priority: -1}})
			return err
		}},
		{"kvcache: Pool.Match: RetentionHint: a lifetime of -1ns: need 0 or more", func() error {
			_, err := r.pool.Match(nil, OpenOptions{RetentionHint: prefix.RetentionHint{TTL: -1}})
			return err
		}},
		{"kvcache: Batch.Append: k is missing; set LayerIO.K", func() error {
			return planned(func() error { return r.step.Append(0, LayerIO[*cpu.Buffer]{}) })
		}},
		{"kvcache: Batch.Append: v is missing; set LayerIO.V", func() error {
			return planned(func() error {
				q, k, v, out := r.operands(1)
				defer r.free(q, k, v, out)
				return r.step.Append(0, LayerIO[*cpu.Buffer]{K: backend.Dense(k)})
			})
		}},
		{"kvcache: Batch.Attend: q is missing; set LayerIO.Q", func() error {
			return planned(func() error { return r.step.Attend(0, LayerIO[*cpu.Buffer]{}) })
		}},
		{"kvcache: Batch.Attend: out is missing; set LayerIO.Out", func() error {
			return planned(func() error {
				q, k, v, out := r.operands(1)
				defer r.free(q, k, v, out)
				return r.step.Attend(0, LayerIO[*cpu.Buffer]{Q: backend.Dense(q)})
			})
		}},
		{"kvcache: Batch.Capture: backend: capture is not supported: the device has no graphs; call the operations in each step", func() error {
			return planned(func() error { return r.step.Capture(nothing) })
		}},
		{"kvcache: Sequence.Fork: not made by a Pool: closed", func() error { _, err := new(Sequence[*cpu.Buffer]).Fork(); return err }},
		{"kvcache: Batch.Add: token 0 is 7, the prompt's is 5: the sequence has the first 0 of the 2 tokens that it was opened with; after Open add prompt[match.Cached:], now prompt[0:], or open it with nil", func() error {
			opened, _, err := r.pool.Open([]uint32{5, 6}, OpenOptions{})
			require.NoError(t, err)
			defer func() { require.NoError(t, opened.Release()) }()
			return r.step.Add(opened, []uint32{7})
		}},
	} {
		err := c.ask()
		require.Error(t, err, c.want)
		require.Contains(t, err.Error(), c.want)
		require.NotContains(t, err.Error(), "event")
		require.NotContains(t, err.Error(), ": : ")
	}
	require.NoError(t, cmp.Or(seq.Release(), full.Release()))
	require.NoError(t, cmp.Or(alien.Close(), other.Close()))
	r.close()
}

// Every method that fails says which call of the program did.
func TestErrorsNameTheCall(t *testing.T) {
	for _, zero := range []any{&Pool[*cpu.Buffer]{}, &Batch[*cpu.Buffer]{}, &Sequence[*cpu.Buffer]{}, &Standalone[*cpu.Buffer]{}} {
		of := reflect.TypeOf(zero)
		name, _, _ := strings.Cut(of.Elem().Name(), "[")
		failed := 0
		for m := range of.NumMethod() {
			method := reflect.ValueOf(zero).Method(m)
			var args []reflect.Value
			for i := range method.Type().NumIn() {
				if !method.Type().IsVariadic() || i < method.Type().NumIn()-1 {
					args = append(args, reflect.Zero(method.Type().In(i)))
				}
			}
			for _, result := range method.Call(args) {
				err, ok := result.Interface().(error)
				if !ok {
					continue
				}
				var call callError
				require.ErrorAs(t, err, &call, of.Method(m).Name)
				require.Equal(t, name+"."+of.Method(m).Name, call.call)
				require.NotErrorAs(t, call.err, new(callError), "the call is named once")
				failed++
			}
		}
		require.GreaterOrEqual(t, failed, 7, "%s: nearly all calls of what nobody made fail", name)
	}
}

// An argument that a call of this package does not accept is a backend.ErrArgument, whichever package detects it, and wraps the
// error of a package below.
func TestArgumentsAreOneFamily(t *testing.T) {
	r := newRig(t, openCPU(t), signed(small(Paged)))
	seq := r.open()
	hint := OpenOptions{RetentionHint: prefix.RetentionHint{Priority: -1}}
	for name, ask := range map[string]func() error{
		"Pool.Open":  func() error { _, _, err := r.pool.Open(nil, hint); return err },
		"Pool.Match": func() error { _, err := r.pool.Match(nil, hint); return err },
		"Pool.Pin":   func() error { _, err := r.pool.Pin(sequence(1, 4), -1, OpenOptions{}); return err },
		"Pool.Limit": func() error { return r.pool.Limit(prefix.Scope{}, prefix.Limits{Quota: 1, Floor: 2}) },
	} {
		err := ask()
		require.ErrorIs(t, err, backend.ErrArgument{}, name)
		require.ErrorIs(t, err, prefix.ErrArgument{}, name)
		var is backend.ErrArgument
		require.ErrorAs(t, err, &is)
		require.Equal(t, "kvcache", is.Package)
		require.ErrorContains(t, err, "kvcache: "+name+": ")
	}
	for name, ask := range map[string]func() error{
		"nil":    func() error { return r.step.Add(nil, []uint32{1}) },
		"none":   func() error { return r.step.Add(seq, nil) },
		"layer":  func() error { _, _, err := r.pool.Layer(9); return err },
		"length": func() error { return seq.Truncate(-1) },
		"spans":  func() error { return r.step.AddSpans(seq, sequence(1, 3), []Span{{Begin: 2, End: 9}}) },
		"shape":  func() error { return r.step.FixShape(-1, 1) },
		"saved": func() error {
			return r.pool.Save(io.Discard, Saved[*cpu.Buffer]{Sequences: []*Sequence[*cpu.Buffer]{nil}}, snapshot.Options{})
		},
	} {
		err := ask()
		require.ErrorIs(t, err, backend.ErrArgument{}, name)
		require.NotErrorIs(t, err, prefix.ErrArgument{}, name)
	}
	err := error(block.ErrRange{What: "blocks", Have: 1, Min: 2, Max: 3})
	naming("Pool.Grow", &err)
	require.ErrorIs(t, err, backend.ErrArgument{})
	require.ErrorIs(t, err, block.ErrRange{})
	require.EqualError(t, err, "kvcache: Pool.Grow: blocks: have 1, need 2 to 3")
	require.NoError(t, seq.Release())
	r.close()
}
