package kvcache

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot/zstd"
	"github.com/stretchr/testify/require"
)

// late gives the first bytes, waits, and goes on.
type late struct {
	io.Reader
	left          int
	reached, open chan struct{}
}

func (l *late) Read(b []byte) (int, error) {
	if l.left -= len(b); l.left < 0 && l.reached != nil {
		close(l.reached)
		l.reached = nil
		<-l.open
	}
	return l.Reader.Read(b)
}

// Close, Clear and Save of all come while chunks are read: nothing is left of the sequences.
func TestLoadIsOvertaken(t *testing.T) {
	from := savedRig(t, 40)
	x, _ := from.serve(sequence(1, 23), OpenOptions{Scope: prefix.Scope{Salt: []byte("a")}})
	stream := from.save(x.seq)
	for _, blocks := range []int{40, 8} {
		for _, at := range []int{len(stream) - 700, len(stream) - 10} {
			r := savedRig(t, blocks)
			in := &late{Reader: connection(stream), left: at, reached: make(chan struct{}), open: make(chan struct{})}
			reached := in.reached
			errs := make(chan error, 1)
			var got Saved[buffer]
			go func() { var err error; got, err = r.pool.Load(in, snapshot.Options{}); errs <- err }()
			<-reached
			require.NoError(t, r.pool.Clear(false))
			require.NoError(t, r.pool.ClearScope(prefix.Scope{Salt: []byte("a")}, false))
			require.NoError(t, r.pool.Check())
			var all bytes.Buffer // without what is not there yet
			require.NoError(t, r.pool.Save(&all, Saved[buffer]{}, snapshot.Options{}))
			h, err := snapshot.NewReader(&all, snapshot.Options{}).Head()
			require.NoError(t, err)
			require.Empty(t, h.Sequences)
			closed := make(chan error)
			go func() { closed <- r.pool.Close() }()
			for r.pool.closedErr() == nil {
			}
			close(in.open)
			err = <-errs
			require.NoError(t, <-closed)
			require.Empty(t, got)
			require.ErrorIs(t, err, ErrClosed)
			require.Zero(t, r.be.Info().Buffers)
			require.Zero(t, r.be.Info().Host.Other+r.be.Info().Host.Pinned)
			require.NoError(t, errors.Join(r.s.Close(), r.be.Close()))
		}
	}
	from.drop(x)
	from.close()
}

// What is loaded goes to tiers as what is computed does.
func TestLoadedGoesDown(t *testing.T) {
	prompt := sequence(1, 23)
	from := savedRig(t, 40)
	x, _ := from.serve(prompt, OpenOptions{})
	stream := from.save(x.seq)
	r := tiered(t, 40, host(t))
	got := r.load(stream)
	r.release(got...)
	r.flush()
	require.NoError(t, r.s.Sync())
	r.forget()
	y, m, err := r.pool.Open(prompt, OpenOptions{})
	require.NoError(t, err)
	m, err = y.Wait(context.Background())
	require.NoError(t, err)
	require.Equal(t, 20, m.Cached)
	r.release(y)
	r.close()
	from.drop(x)
	from.close()
}

// Loads, saves, steps, suspensions and clearings at once.
func TestSavesAtOnce(t *testing.T) {
	from := savedRig(t, 40)
	x, _ := from.serve(sequence(1, 23), OpenOptions{})
	fork, err := x.seq.Fork()
	require.NoError(t, err)
	stream := from.save(x.seq, fork)
	r := savedRig(t, 30)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 30 {
				var in io.Reader = bytes.NewReader(stream)
				if (i+j)%2 == 0 {
					in = connection(stream)
				}
				if j%7 == 6 {
					in = connection(stream[:len(stream)-3])
				}
				got, err := r.pool.Load(in, snapshot.Options{})
				if err != nil {
					if !errors.Is(err, ErrOutOfBlocks{}) && !errors.Is(err, snapshot.ErrCorrupt{}) {
						t.Error(err)
					}
					continue
				}
				a, b := got.Sequences[0], got.Sequences[1]
				o := snapshot.Options{}
				if j%2 == 0 {
					o.Compressor = zstd.Compressor{}
				}
				if err := r.pool.Save(io.Discard, Saved[buffer]{Sequences: []*Sequence[buffer]{a, b}}, o); err != nil && !errors.Is(err, ErrBusy) { // others save all
					t.Error(err)
				}
				if err := r.pool.Save(io.Discard, Saved[buffer]{}, snapshot.Options{}); err != nil && !errors.Is(err, ErrBusy) && !errors.Is(err, ErrReleased) {
					t.Error(err)
				}
				for a.Err() == ErrBusy {
				}
				if err := a.Suspend(); err == nil {
					_, _ = a.WriteTo(io.Discard)
					_ = a.Resume()
				}
				_ = r.pool.Clear(false)
				for errors.Is(a.Release(), ErrBusy) {
				}
				for errors.Is(b.Release(), ErrBusy) {
				}
				if err := r.pool.Check(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	r.close()
	from.drop(x)
	from.release(fork)
	from.close()
}
