package kvcache

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot/zstd"
	"github.com/stretchr/testify/require"
)

// savedRig is a rig of so many blocks of 4 tokens.
func savedRig(t testT, blocks int) *rig[buffer] {
	cfg := signed(small(Paged))
	cfg.Memory.Blocks, cfg.Memory.Prefix = blocks, prefix.LRU
	return deviceRig(t, cfg)
}

// A stream that is cut off or changed anywhere leaves the pool as it was: sequences, blocks, and prefixes that can be found, whether there
// are free blocks for it or not.
func TestFailedLoadChangesNothing(t *testing.T) {
	from := savedRig(t, 40)
	x, _ := from.serve(sequence(1, 23), OpenOptions{})
	fork, err := x.seq.Fork()
	require.NoError(t, err)
	stream, each := from.save(x.seq, fork), 41
	if sparing() {
		each = 241
	}
	for _, blocks := range []int{40, 16, 8} {
		r := savedRig(t, blocks)
		live, _ := r.serve(sequence(1000, 6), OpenOptions{})
		cached := sequence(2000, 4*(min(blocks, 16)-6))
		if blocks > 8 {
			r.cache(cached, OpenOptions{})
		}
		found := r.matched(cached, OpenOptions{})
		for i := 0; i < len(stream); i += each {
			require.ErrorIs(t, r.refuse(stream[:i]), snapshot.ErrCorrupt{})
			other := bytes.Clone(stream)
			other[i] ^= 1 << (i % 8)
			require.ErrorIs(t, r.refuse(other), snapshot.ErrCorrupt{})
		}
		broken := errors.New("broken")
		_, err := r.pool.Load(io.MultiReader(bytes.NewReader(stream[:len(stream)-9]), iotest.ErrReader(broken)), snapshot.Options{})
		require.ErrorIs(t, err, broken)
		require.Equal(t, found, r.matched(cached, OpenOptions{}))
		r.check(r.s, live)
		if blocks == 8 { // six of eight are needed, and two held
			more, _ := r.serve(sequence(3000, 1), OpenOptions{})
			require.ErrorIs(t, r.refuse(stream), ErrOutOfBlocks{})
			r.drop(more)
		}
		back := r.load(stream)
		for _, s := range back {
			r.expect(r.s, s, x.want)
		}
		r.release(back...)
		r.drop(live)
		r.close()
	}
	from.drop(x)
	from.release(fork)
	from.close()
}

// What was saved is found again: by those who ask for it, in the scope that it was in, and by another Load, which shares it.
func TestLoadedIsFound(t *testing.T) {
	prompt := sequence(1, 23)
	options := []OpenOptions{{}, {Scope: prefix.Scope{Salt: []byte("a")}}, {Scope: prefix.Scope{Adapter: &prefix.Adapter{ID: "x", Version: "1"}}},
		{Items: []prefix.Item{{Begin: 5, End: 7, Hash: []byte("dog")}}}}
	for _, layout := range []Layout{Paged, Contiguous} {
		r := deviceRig(t, signed(small(layout)))
		var seqs []*Sequence[buffer]
		for _, o := range options {
			x, _ := r.serve(prompt, o)
			seqs = append(seqs, x.seq)
		}
		stream := r.save(seqs...)
		for _, size := range []int{4, 8} {
			cfg := signed(small(Paged))
			cfg.Memory.Blocks = 60
			if cfg.Memory.BlockSize = size; testDevice().BlockSizes != nil {
				cfg.Memory.BlockSize = 4
			}
			o := deviceRig(t, cfg)
			got := o.load(stream)
			held := o.stats().Held
			more := o.load(stream)
			require.Equal(t, held+len(options), o.stats().Held, "only what is not full is there twice")
			for i, opt := range options {
				require.Equal(t, 23-23%cfg.Memory.BlockSize, o.matched(prompt, opt))
				require.NoError(t, more[i].Release())
			}
			require.Zero(t, o.matched(prompt, OpenOptions{Scope: prefix.Scope{Salt: []byte("b")}}))
			o.release(got...)
			require.Equal(t, 22, o.matched(prompt, OpenOptions{}))
			require.NoError(t, o.s.Sync())
			o.close()
		}
		r.release(seqs...)
		r.close()
	}
}

// Where a prompt was not done it goes on, a draft is one still, and what was evicted stays evicted and is offered to nobody.
func TestSavedInTheMiddle(t *testing.T) {
	r := savedRig(t, 60)
	prompt := sequence(1, 23)
	x, _ := r.read(prompt, OpenOptions{Items: []prefix.Item{{Begin: 1, End: 3, Hash: []byte("dog")}}})
	x.rest = nil
	require.NoError(t, r.run(r.s, part[buffer]{x, prompt[:9]}))

	d := r.open()
	require.NoError(t, r.step.Reset())
	require.NoError(t, r.step.AddDraft(d, sequence(100, 10), 4))
	require.NoError(t, r.step.Plan(r.s))
	r.write(r.s, feed[buffer]{d, sequence(100, 10)})
	require.NoError(t, r.step.Commit())

	e := r.open()
	require.NoError(t, r.feed(feed[buffer]{e, sequence(200, 20)}))
	require.NoError(t, e.Retain(r.s, [][]int{{0, 1, 2, 9, 17, 19}, {0, 3, 4, 5, 6, 18}}, RetainOptions{}))
	require.NoError(t, r.feed(feed[buffer]{e, sequence(300, 3)}))

	shifted := r.open()
	require.NoError(t, r.feed(feed[buffer]{shifted, sequence(400, 20)}))
	require.NoError(t, shifted.Shift(r.s, 3, 8))
	silent, _ := r.serve(sequence(500, 9), OpenOptions{NoPublish: true})

	o := savedRig(t, 60)
	all := []*Sequence[buffer]{x.seq, d, e, shifted, silent.seq}
	got := o.load(r.save(all...))
	for i := range all {
		requireSame(r, o, all[i], got[i])
	}
	require.ErrorIs(t, o.step.Add(got[0], prompt[10:]), ErrPrompt{})
	require.NoError(t, o.step.Reset())
	require.NoError(t, o.feed(feed[buffer]{got[0], prompt[9:]}))
	require.Equal(t, 20, o.matched(prompt, OpenOptions{Items: x.items})/4*4)
	require.Zero(t, o.matched(prompt, OpenOptions{})/4)

	require.Zero(t, o.matched(sequence(100, 11), OpenOptions{}))
	require.NoError(t, got[1].Truncate(9))
	require.Equal(t, 8, o.matched(sequence(100, 11), OpenOptions{}), "what was accepted")
	for _, tokens := range [][]uint32{sequence(200, 20), sequence(400, 20), sequence(500, 9)} {
		require.Zero(t, o.matched(tokens, OpenOptions{}))
	}
	o.release(got...)
	o.close()
	r.release(all...)
	r.close()
}

// What a pool cannot use it refuses, and names the field.
func TestLoadMismatch(t *testing.T) {
	r := savedRig(t, 20)
	x, _ := r.serve(sequence(1, 23), OpenOptions{})
	stream := r.save(x.seq)
	for field, edit := range map[string]func(c *Config){
		"model":           func(c *Config) { c.Model.Digest = []byte("others") },
		"layers":          func(c *Config) { c.Model.Layers = 3 },
		"kv-heads":        func(c *Config) { c.Model.KVHeads = 4 },
		"keys":            func(c *Config) { c.Storage.K, c.Model.Act = backend.Int8, backend.F32 },
		"scale":           func(c *Config) { c.Model.Scale = 3 },
		"rope-theta":      func(c *Config) { c.Model.RoPE = &backend.RoPE{Theta: 5000} },
		"activation":      func(c *Config) { c.Storage.K = backend.F16 },
		"Memory.Capacity": func(c *Config) { c.Memory.Capacity = 20 },
	} {
		cfg := signed(small(Paged))
		if edit(&cfg); !testDevice().Supports(backend.Format{Act: backend.F32, K: backend.Int8, V: backend.Int8}) && field == "keys" {
			continue
		}
		o := deviceRig(t, cfg)
		require.Equal(t, field, o.mismatch(stream))
		o.close()
	}
	o := savedRig(t, 20)
	_, err := o.pool.ReadSequence(bytes.NewReader(r.save(x.seq, r.open())))
	require.ErrorIs(t, err, snapshot.ErrMismatch{})
	y, err := o.pool.ReadSequence(bytes.NewReader(stream))
	require.NoError(t, err)
	o.expect(o.s, y, x.want)
	var b bytes.Buffer
	n, err := y.WriteTo(&b)
	require.NoError(t, err)
	require.EqualValues(t, b.Len(), n)
	require.Equal(t, stream, b.Bytes())
	o.release(y)
	o.close()

	unsigned := deviceRig(t, small(Paged))
	var bad ErrConfig
	require.ErrorAs(t, unsigned.pool.Save(io.Discard, Saved[buffer]{}, snapshot.Options{}), &bad)
	require.Equal(t, "Model.Digest", bad.Name)
	_, err = unsigned.pool.Load(bytes.NewReader(stream), snapshot.Options{})
	require.ErrorAs(t, err, &bad)
	unsigned.close()
	adapted, _, err := r.pool.Open(nil, OpenOptions{Scope: prefix.Scope{Adapter: &prefix.Adapter{ID: "x"}}})
	require.NoError(t, err)
	require.ErrorAs(t, r.pool.Save(io.Discard, Saved[buffer]{}, snapshot.Options{}), &bad)
	require.Equal(t, "Adapter.Version", bad.Name)
	require.NoError(t, adapted.Release())
	for s := range r.pool.seqs {
		require.NoError(t, s.Release())
	}
	require.NoError(t, r.s.Sync())
	r.close()
}

// gate is a writer that waits, and a reader.
type gate struct {
	io.Reader
	reached, open chan struct{}
}

func newGate(r io.Reader) *gate { return &gate{r, make(chan struct{}, 1), make(chan struct{})} }

func (g *gate) Write(b []byte) (int, error) { return len(b), g.wait() }

func (g *gate) Read(b []byte) (int, error) { _ = g.wait(); return g.Reader.Read(b) }

func (g *gate) wait() error {
	select {
	case g.reached <- struct{}{}:
	default:
	}
	<-g.open
	return nil
}

// Others go on while a sequence is saved, and while one is loaded, however slow the other side is. Close waits for both.
func TestOthersGoOnMeanwhile(t *testing.T) {
	r := savedRig(t, 40)
	x, _ := r.serve(sequence(1, 23), OpenOptions{})
	y, _ := r.serve(sequence(100, 5), OpenOptions{})
	stream := r.save(x.seq)
	out, in := newGate(nil), newGate(bytes.NewReader(stream))
	errs := make(chan error, 2)
	go func() {
		errs <- r.pool.Save(out, Saved[buffer]{Sequences: []*Sequence[buffer]{x.seq}}, snapshot.Options{})
	}()
	var got *Sequence[buffer]
	go func() {
		var err error
		got, err = r.pool.ReadSequence(in)
		errs <- err
	}()
	<-out.reached
	<-in.reached
	require.ErrorIs(t, x.seq.Truncate(3), ErrBusy)
	require.ErrorIs(t, x.seq.Err(), ErrBusy)
	require.NoError(t, r.run(r.s, part[buffer]{y, sequence(105, 7)}))
	r.check(r.s, y)
	require.NoError(t, y.seq.Suspend())
	require.NoError(t, y.seq.Resume())
	require.NoError(t, r.pool.Check())
	close(out.open)
	close(in.open)
	require.NoError(t, errors.Join(<-errs, <-errs))
	r.expect(r.s, got, x.want)

	late := newGate(bytes.NewReader(stream))
	go func() { _, err := r.pool.Load(late, snapshot.Options{}); errs <- err }()
	<-late.reached
	closed := make(chan error)
	go func() { closed <- r.pool.Close() }()
	for r.pool.closedErr() == nil {
	}
	close(late.open)
	require.ErrorIs(t, <-errs, ErrClosed)
	require.NoError(t, <-closed)
	require.Zero(t, r.be.Info().Buffers)
	require.Zero(t, r.be.Info().Host.Other+r.be.Info().Host.Pinned)
	require.ErrorIs(t, r.pool.Save(io.Discard, Saved[buffer]{}, snapshot.Options{}), ErrClosed)
	require.NoError(t, r.s.Close())
	require.NoError(t, r.be.Close())
}

// On a device that is behind nothing is saved before it is written, and nothing is read before it is filled.
func TestSaveOfALateDevice(t *testing.T) {
	r, dev, be := lateRig(t, signed(small(Paged)))
	x, _ := r.read(sequence(1, 23), OpenOptions{})
	require.NoError(t, r.prefill(r.s, x))
	for i := range 4 {
		var ok bool
		x.seq, ok = r.reborn(x.seq, i%2 == 1)
		require.True(t, ok)
		require.NoError(t, r.run(r.s, part[buffer]{x, sequence(int(100+x.seq.Len()), 4)}))
		r.check(r.s, x)
	}
	require.NoError(t, x.seq.Release())
	closeLate(t, r, dev, be)
}

// A stream that nobody can write to leaves sequences as they are, and a whole pool comes back in its order, with notes.
func TestSaveOfAPool(t *testing.T) {
	r := savedRig(t, 40)
	x, _ := r.serve(sequence(1, 23), OpenOptions{})
	y, m := r.serve(append(sequence(1, 20), 90, 91, 92), OpenOptions{})
	require.Equal(t, 20, m.Cached)
	require.ErrorIs(t, r.pool.Save(&full{100}, Saved[buffer]{}, snapshot.Options{}), errFull)
	require.ErrorIs(t, r.pool.Save(io.Discard, Saved[buffer]{Sequences: []*Sequence[buffer]{x.seq, x.seq}}, snapshot.Options{}), backend.ErrArgument{Package: "kvcache", What: "sequence 1 is given twice"})
	var b bytes.Buffer
	notes := []snapshot.Note{{Name: "example.org/sampler", Data: []byte{1, 2, 3}}}
	require.NoError(t, r.pool.Save(&b, Saved[buffer]{Notes: notes}, snapshot.Options{}))
	head, err := snapshot.NewReader(bytes.NewReader(b.Bytes()), snapshot.Options{}).Head()
	require.NoError(t, err)
	require.Equal(t, head.Sequences[0].Strips[0][0].Refs[:5], head.Sequences[1].Strips[0][0].Refs[:5], "what both have is there once")
	o := savedRig(t, 40)
	got, err := o.pool.Load(&b, snapshot.Options{})
	require.NoError(t, err)
	require.Equal(t, notes, got.Notes)
	o.expect(o.s, got.Sequences[0], x.want)
	o.expect(o.s, got.Sequences[1], y.want)
	require.Equal(t, 7, o.stats().Held)
	o.release(got.Sequences...)
	o.close()
	r.drop(x, y)
	r.close()
}

var errFull = errors.New("full")

// full is a writer with room for so many bytes.
type full struct{ room int }

func (f *full) Write(b []byte) (int, error) {
	if f.room -= len(b); f.room < 0 {
		return 0, errFull
	}
	return len(b), nil
}

// thrifty is a device that counts the host memory that it gives.
type thrifty struct {
	backend.Backend[buffer]
	given int64
}

func (d *thrifty) HostAlloc(n int64) (backend.HostMemory, error) {
	d.given += n
	return backend.HostAlloc(d.Backend, n)
}

func (d *thrifty) NewBlockSet(planes []backend.BlockPlane[buffer]) (backend.BlockSet, error) {
	return backend.NewBlockSet(d.Backend, planes)
}

// Where prefixes have to go for what comes, a file is read twice and little of it is held, and what was found is found until all is verified.
func TestLoadHoldsLittle(t *testing.T) {
	cfg := signed(small(Paged))
	cfg.Model.HeadDim, cfg.Model.VHeadDim, cfg.Memory.Capacity, cfg.Memory.Blocks, cfg.Memory.Prefix = 128, 128, 6000, 1600, prefix.LRU
	r := deviceRig(t, cfg)
	x, _ := r.serve(sequence(1, 5900), OpenOptions{})
	stream := r.save(x.seq)
	d := &thrifty{Backend: openDevice(t)}
	o := newRig[buffer](t, d, cfg)
	prompt := sequence(10000, 800)
	o.cache(prompt, OpenOptions{})
	other := bytes.Clone(stream)
	other[len(other)-40] ^= 1
	require.ErrorIs(t, o.refuse(other), snapshot.ErrCorrupt{})
	require.Equal(t, 799, o.matched(prompt, OpenOptions{}))
	d.given = 0
	s, err := o.pool.ReadSequence(bytes.NewReader(stream))
	require.NoError(t, err)
	require.Positive(t, d.given)
	require.Less(t, d.given, int64(len(stream)/2), "of %d", len(stream))
	require.Less(t, o.matched(prompt, OpenOptions{}), 799, "its blocks were needed")
	o.expect(o.s, s, x.want)
	o.release(s)
	o.cache(prompt, OpenOptions{})
	s, err = o.pool.ReadSequence(connection(stream))
	require.NoError(t, err)
	require.Greater(t, d.given, int64(len(stream)), "what cannot be read twice is held")
	o.expect(o.s, s, x.want)
	o.release(s)
	o.close()
	r.drop(x)
	r.close()
}

// A sealed stream is for who has its secret, and a compressed one for who has a compressor.
func TestSavedAsOptionsSay(t *testing.T) {
	r := savedRig(t, 40)
	x, _ := r.serve(sequence(1, 23), OpenOptions{})
	secret, other := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	for _, o := range []snapshot.Options{{}, {Compressor: zstd.Compressor{}}, {Secret: secret}, {Compressor: zstd.Compressor{}, Secret: secret}} {
		var b bytes.Buffer
		require.NoError(t, r.pool.Save(&b, Saved[buffer]{}, o))
		require.Equal(t, o.Secret == nil, bytes.Contains(b.Bytes(), []byte("ferrumkv")), "the content text")
		for _, secret := range [][]byte{nil, secret, other} {
			into := savedRig(t, 40)
			got, err := into.pool.Load(bytes.NewReader(b.Bytes()), snapshot.Options{Compressor: zstd.Compressor{}, Secret: secret})
			if bytes.Equal(secret, o.Secret) {
				require.NoError(t, err)
				into.expect(into.s, got.Sequences[0], x.want)
				into.release(got.Sequences...)
			} else {
				var e snapshot.ErrMismatch
				require.ErrorAs(t, err, &e)
				require.Equal(t, "secret", e.Field)
			}
			into.close()
		}
		if o.Compressor != nil {
			into := savedRig(t, 40)
			_, err := into.pool.Load(bytes.NewReader(b.Bytes()), snapshot.Options{Secret: o.Secret})
			var e snapshot.ErrMismatch
			require.ErrorAs(t, err, &e)
			require.Equal(t, "compression", e.Field)
			into.close()
		}
	}
	require.Error(t, r.pool.Save(io.Discard, Saved[buffer]{}, snapshot.Options{Secret: secret[:31]}))
	_, err := r.pool.Load(bytes.NewReader(nil), snapshot.Options{Secret: secret[:31]})
	require.Error(t, err)
	r.drop(x)
	r.close()
}
