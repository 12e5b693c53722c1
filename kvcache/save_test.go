package kvcache

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
	"github.com/stretchr/testify/require"
)

// savedFormats are all that the test device stores without a window of exact tokens; where that takes long, each with one of the
// formats that activations have.
func savedFormats() (all []backend.Format) {
	defer func() { all = oneAct(all) }()
	for _, act := range []backend.DType{backend.F32, backend.F16, backend.BF16} {
		all = append(all, quantizedFormats(act)...)
		if f := (backend.Format{Act: act, K: act, V: act}); testDevice().Supports(f) {
			all = append(all, f)
		}
	}
	return all
}

// sparing is on an emulated device that is not tested in full.
func sparing() bool { return emulated(testDevice().Info) && !testsize.Full() }

// oneAct has of formats that differ in their activations alone one, where tests are sparing.
func oneAct(all []backend.Format) []backend.Format {
	if !sparing() {
		return all
	}
	acts := map[[2]backend.DType][]backend.Format{}
	for _, f := range all {
		stored := [2]backend.DType{f.K, f.V}
		acts[stored] = append(acts[stored], f)
	}
	return slices.DeleteFunc(all, func(f backend.Format) bool {
		of := acts[[2]backend.DType{f.K, f.V}]
		return of[(int(f.K)+int(f.V))%len(of)] != f
	})
}

// savedLayouts are configurations of one content.
func savedLayouts(f backend.Format) map[string]Config {
	all := map[string]Config{}
	for _, layout := range []Layout{Paged, Contiguous} {
		cfg := signed(quantizedConfig(layout, f))
		cfg.Attention.Scores = true
		if f.K.HeadFactors() {
			cfg.Storage.KScales = []float32{0.5, 0.25}
		}
		all[layout.String()] = cfg
		if layout == Paged && testDevice().BlockSizes == nil {
			for _, size := range []int{4, 32} {
				cfg.Memory.BlockSize = size
				all[fmt.Sprint(layout, size)] = cfg
			}
		} else if layout == Contiguous && !sparing() {
			cfg.Memory.Capacity = 101
			all["odd"] = cfg
		}
	}
	return all
}

// Case 18: what sequences have is the same in every layout and format, and what comes back to the first is the first stream, bit for bit.
func TestSavedGoesOver(t *testing.T) {
	for _, f := range savedFormats() {
		t.Run(fmt.Sprintf("%v/%v-%v", f.Act, f.K, f.V), func(t *testing.T) {
			layouts := savedLayouts(f)
			names := slices.Sorted(maps.Keys(layouts))
			for i, name := range names {
				cfg := layouts[name]
				r := deviceRig(t, cfg)
				x, y, z := r.family()
				empty := r.open()
				stream, held := r.save(x, y, z, empty), r.idle().Held
				for _, other := range []string{name, names[(i+1)%len(names)]} {
					o := deviceRig(t, layouts[other])
					there := o.load(stream)
					require.Len(t, there, 4, "%s to %s", name, other)
					for i, s := range []*Sequence[buffer]{x, y, z, empty} {
						requireSame(r, o, s, there[i])
					}
					again := deviceRig(t, layouts[name])
					back := again.load(o.save(there...))
					for i, s := range []*Sequence[buffer]{x, y, z, empty} {
						require.True(t, bytes.Equal(r.save(s), again.save(back[i])), "%s to %s and back: sequence %d", name, other, i)
					}
					if name == other {
						require.True(t, bytes.Equal(stream, again.save(back...)), name)
						require.Equal(t, held, again.stats().Held, "what they shared they share")
					}
					require.NoError(t, o.feed(feed[buffer]{there[2], sequence(11, 27)}), "and goes on")
					require.NoError(t, r.feed(feed[buffer]{z, sequence(11, 27)}))
					requireSame(r, o, z, there[2])
					require.NoError(t, z.Truncate(10))
					again.release(back...)
					o.release(there...)
					again.close()
					o.close()
				}
				r.release(x, y, z, empty)
				r.close()
			}
		})
	}
}

// What a device has goes to the CPU and comes back with every byte that it had, in other blocks meanwhile and one behind another.
func TestSavedCrossesDevices(t *testing.T) {
	for _, f := range savedFormats() {
		t.Run(fmt.Sprintf("%v/%v-%v", f.Act, f.K, f.V), func(t *testing.T) {
			cfg := savedLayouts(f)[Paged.String()]
			r := deviceRig(t, cfg)
			x, y, z := r.family()
			stream := r.save(x, y, z)
			for _, layout := range []Layout{Paged, Contiguous} {
				cfg := cfg
				if cfg.Memory.Layout, cfg.Memory.BlockSize = layout, 0; layout == Paged {
					cfg.Memory.BlockSize = 4
				}
				host, err := backend.Open("cpu")
				require.NoError(t, err)
				o := newRig(t, host, cfg)
				there := o.load(stream)
				again := deviceRig(t, r.pool.Config())
				back := again.load(o.save(there...))
				require.True(t, bytes.Equal(r.save(x), again.save(back[0])))
				require.True(t, bytes.Equal(r.save(y), again.save(back[1])))
				require.True(t, bytes.Equal(r.save(z), again.save(back[2])))
				again.release(back...)
				again.close()
				o.release(there...)
				o.close()
			}
			r.release(x, y, z)
			r.close()
		})
	}
}

// Rows of tokens that share scales by block go into blocks that divide theirs.
func TestSavedWindows(t *testing.T) {
	var all []backend.Format
	for _, act := range []backend.DType{backend.F32, backend.F16} {
		all = append(all, windowFormats(act)...)
	}
	for _, f := range oneAct(all) {
		t.Run(fmt.Sprintf("%v/%v-%v", f.Act, f.K, f.V), func(t *testing.T) {
			sizes, lengths := []int{4, 8, 16}, []int{3, 33, 47}
			if testDevice().BlockSizes != nil {
				sizes = []int{16}
			}
			if sparing() {
				lengths = []int{47}
			}
			for _, from := range sizes {
				for _, to := range sizes {
					for _, n := range lengths {
						savedWindow(t, f, from, to, n)
					}
				}
			}
		})
	}
}

func savedWindow(t *testing.T, f backend.Format, from, to, n int) {
	cfg := signed(windowConfig(f))
	cfg.Memory.BlockSize = from
	r := deviceRig(t, cfg)
	x := r.open()
	for i := 0; i < n; i += 5 {
		require.NoError(t, r.feed(feed[buffer]{x, sequence(1+i, min(5, n-i))}))
	}
	stream := r.save(x)
	cfg.Memory.BlockSize = to
	o := deviceRig(t, cfg)
	got, err := o.pool.Load(bytes.NewReader(stream), snapshot.Options{})
	if err != nil { // rows of two blocks would share scales, or a block would begin before what is exact
		require.True(t, f.K == backend.Int4Channel && to > from || to > 2*from, "%d to %d, %d tokens: %v", from, to, n, err)
		var e snapshot.ErrMismatch
		require.ErrorAs(t, err, &e)
		require.Equal(t, "Memory.BlockSize", e.Field)
		require.NoError(t, o.pool.Check())
	} else {
		y := got.Sequences[0]
		for l := range cfg.Model.Layers {
			requireRows(t, cfg, r.quantized(r.s, x, l), o.quantized(o.s, y, l), false)
			requireRows(t, cfg, r.recent(r.s, x, l), o.recent(o.s, y, l), true)
		}
		more := sequence(500, 13)
		require.NoError(t, o.feed(feed[buffer]{y, more}))
		require.NoError(t, o.pool.Check())
		if from == to {
			require.NoError(t, r.feed(feed[buffer]{x, more}))
			require.True(t, bytes.Equal(r.save(x), o.save(y)), "and it goes on as it would have")
		}
		o.release(y)
	}
	o.close()
	r.release(x)
	r.close()
}

// requireRows compares the first, or the last, tokens that two stores have.
func requireRows(t *testing.T, c Config, was, is past, last bool) {
	t.Helper()
	n := min(was.n, is.n)
	of := func(rows []float32, have, dim int) (out []uint32) {
		for h := range c.Model.KVHeads {
			from := h * have
			if last {
				from += have - n
			}
			out = append(out, bitsOf(rows[from*dim:(from+n)*dim])...)
		}
		return out
	}
	require.Equal(t, of(was.k, was.n, c.Model.HeadDim), of(is.k, is.n, c.Model.HeadDim))
	require.Equal(t, of(was.v, was.n, c.Model.VHeadDim), of(is.v, is.n, c.Model.VHeadDim))
}

// Layers of every kind go on from what was saved as they would have, with blocks of the same size and of others, and one after another
// where nothing was given up. What a pool's blocks would have and nobody has any more is refused.
func TestSavedKinds(t *testing.T) {
	for name, cfg := range chosenKinds() {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{9, 61} {
				w := newGrouped(t, cfg, 1)
				prompt := sequence(1, n)
				s, _ := w.open(prompt)
				for len(s.ids) < n {
					require.NoError(t, w.run(ask{s, prompt[len(s.ids):][:s.seq.Piece(min(n-len(s.ids), 11))]}))
				}
				fork, err := s.seq.Fork()
				require.NoError(t, err)
				twin := &told{seq: fork, ids: slices.Clone(s.ids)}
				w.seqs = append(w.seqs, twin)
				require.NoError(t, w.run(ask{twin, sequence(300, 3)}))
				stream := w.save(s.seq, fork)
				for other, edit := range map[string]func(c *Config){
					"same":   func(c *Config) {},
					"larger": func(c *Config) { c.Memory.BlockSize *= 2 },
					"smaller": func(c *Config) {
						c.Memory.BlockSize = max(c.Memory.BlockSize/2, 1)
					},
					"contiguous": func(c *Config) { c.Memory = Memory{Layout: Contiguous, Capacity: 200, MaxSeqs: 4} },
				} {
					cfg := signed(cfg)
					if edit(&cfg); testDevice().BlockSizes != nil && other != "same" {
						continue
					}
					if _, err := cfg.Resolve(); err != nil { // states, or other formats' blocks
						continue
					}
					o := newGrouped(t, cfg, 2)
					got, err := o.pool.Load(bytes.NewReader(stream), snapshot.Options{})
					if err != nil {
						require.NotEqual(t, "same", other, "%d tokens: %v", n, err)
						require.ErrorIs(t, err, snapshot.ErrMismatch{}, "%s, %d tokens", other, n)
						require.NoError(t, o.pool.Check())
						t.Logf("%s, %d tokens: %v", other, n, err)
						o.close()
						continue
					}
					a, b := &told{seq: got.Sequences[0], ids: slices.Clone(s.ids)}, &told{seq: got.Sequences[1], ids: slices.Clone(twin.ids)}
					o.seqs = append(o.seqs, a, b)
					require.Equal(t, len(s.ids), a.seq.Len())
					if other == "same" {
						require.True(t, bytes.Equal(stream, o.save(a.seq, b.seq)))
						require.Equal(t, w.stats().Held, o.stats().Held)
					}
					for i := range 3 {
						require.NoError(t, o.run(ask{a, sequence(400+10*i, 5)}, ask{b, sequence(600+10*i, 7)}))
						require.NoError(t, o.pool.Check())
					}
					o.drop(a)
					o.drop(b)
					o.close()
				}
				w.drop(twin)
				w.drop(s)
				w.close()
			}
		})
	}
}

// A layer that begins a chunk has nothing, also where it could go back before that.
func TestSavedWhereAChunkBegins(t *testing.T) {
	cfg := manyKinds(config.Group{Kind: group.Chunked, Layers: []int{0}, Chunk: 12}, config.Group{Layers: []int{1}})
	cfg.Memory.Blocks, cfg.Memory.Rollback = 70, 3
	for n := 34; n < 40; n++ {
		w := newGrouped(t, cfg, 1)
		s, _ := w.open(sequence(1, 39))
		require.NoError(t, w.run(ask{s, sequence(1, 39)}))
		if s.seq.Resumable(n) == n {
			require.NoError(t, s.seq.Truncate(n))
			s.ids = s.ids[:n]
		}
		again := w.loadTold(w.save(s.seq), s)[0]
		require.NoError(t, w.run(ask{again, sequence(400, 5)}, ask{s, sequence(500, 5)}))
		w.drop(s)
		w.drop(again)
		w.close()
	}
}
