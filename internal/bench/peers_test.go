//go:build peers

package bench

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/internal/bench/peers"
)

// peerRig is the trials of other libraries, and what they share.
type peerRig struct {
	*processor
	pools    map[int]*peers.Pool // by threads
	sessions map[string]*peers.Session
	onnx     bool // is there
}

// BenchmarkPeers compares attention with that of ggml and of ONNX Runtime, in turns in one process: a round is a sample of
// everything in random order, and a figure the median over the rounds of the ratio within a round. It first looks whether all
// compute the same. What is compared has one type, and one layout where ours is contiguous; ours in blocks is compared with
// the same.
func BenchmarkPeers(b *testing.B) {
	pr, err := newProcessor(testing.Short(), chosen(flag.Lookup("test.bench").Value.String()))
	require.NoError(b, err)
	defer func() { require.NoError(b, pr.close()) }()
	r := &peerRig{processor: pr, pools: map[int]*peers.Pool{}, sessions: map[string]*peers.Session{}}
	about := []string{"ggml: " + peers.GgmlVersion()}
	if library := os.Getenv("FERRUM_PEERS_ONNX"); library != "" {
		version, err := peers.OpenONNX(library)
		require.NoError(b, err)
		r.onnx, about = true, append(about, "onnx runtime: "+version)
	}
	for _, threads := range r.threads {
		r.pools[threads] = peers.NewPool(threads)
	}
	r.agree(b)
	r.compare()
	require.NoError(b, r.plan())
	require.NoError(b, r.rounds())
	r.describe(os.Stdout)
	for _, line := range about {
		fmt.Println(line)
	}
	for _, t := range r.trials {
		b.Run(t.String(), func(b *testing.B) {
			for unit, value := range t.metrics() {
				b.ReportMetric(value, unit)
			}
		})
	}
}

// compare adds the trials: decoding and prompts, with as many query heads as KV heads, with groups of them, and with one KV head for all.
func (r *peerRig) compare() {
	for _, h := range []heads{{32, 32, 128, 0}, {8, 8, 128, 0}, {32, 8, 128, 0}, {32, 1, 128, 0}, {8, 1, 128, 0}, {32, 8, 64, 0}, {16, 8, 256, 0}} {
		sizes := [][2]int{{4096, 1}}
		if h == llama {
			sizes = append(sizes, [2]int{512, 1}, [2]int{32768, 1}, [2]int{512, 512}, [2]int{4096, 512})
		}
		if h.kv == 1 && h.query == 32 || h.kv == 32 {
			sizes = append(sizes, [2]int{2048, 512})
		}
		for _, size := range sizes {
			for _, threads := range r.threads {
				r.step(step{act: backend.F32, heads: h, batch: 1, context: r.size(size[0], min(size[0], 512)), queries: min(size[1], r.size(512, 64))}, threads)
			}
		}
	}
}

// step adds a step in all ways to store its cache.
func (r *peerRig) step(s step, threads int) {
	for _, c := range []struct {
		ours   step
		theirs peers.Type
	}{
		{step{stored: backend.F32}, peers.F32}, {step{stored: backend.F16}, peers.F16}, {step{stored: backend.Int8}, peers.Q8_0},
		{step{stored: backend.Int8, int8Query: true}, peers.Q8_0}, {step{stored: backend.Int4, int8Query: true}, peers.Q4_0},
	} {
		s.stored, s.int8Query = c.ours.stored, c.ours.int8Query
		if s.queries > 1 && s.stored.Quantized() { // which prompts read as they come
			continue
		}
		var others []comparison
		for _, plain := range []bool{false, true} {
			if plain && (s.stored.Quantized() || s.queries > 1 && s.heads != llama) {
				continue
			}
			others = append(others, speed(r.ggml(s, c.theirs, plain, threads), ggmlName(plain)))
		}
		if r.onnx && !s.stored.Quantized() {
			others = append(others, speed(r.runtime(s, c.theirs, threads), "onnx"))
		}
		for _, ours := range bothLayouts(s) {
			ours.what = "ferrumkv"
			t := r.add(&trial{name: peerName(ours), on: r.best(threads), work: ours.cpuWork(), reads: ours.layer().place(), set: func(d *device) (*operation, error) {
				v := r.views(d)
				op, err := attention(&d.memory, v, ours)
				if err == nil {
					op.aim = func(n int) error { rest(); return v.aim(n) }
				}
				return op, err
			}})
			t.against = others
		}
	}
}

// peerName names a step.
func peerName(s step) string {
	return fmt.Sprintf("%dx%dx%d/keys=%d/queries=%d/%s", s.query, s.kv, s.dim, s.context, s.queries, s.cpuStorage())
}

// ggmlName is which of its ways ggml computes in.
func ggmlName(plain bool) string {
	if plain {
		return "ggml-plain"
	}
	return "ggml"
}

// rest lets threads that wait actively for more work end that.
func rest() { time.Sleep(3 * time.Millisecond) }

// shapeOf is a step as the others see it.
func shapeOf(s step, t peers.Type) peers.Shape {
	return peers.Shape{Type: t, Heads: s.query, KVHeads: s.kv, Dim: s.dim, Keys: s.context, Queries: s.queries}
}

// ggml adds a trial of ggml's. Its threads go on between the calls of a sample, and are paused otherwise.
func (r *peerRig) ggml(s step, t peers.Type, plain bool, threads int) *trial {
	s.what = ggmlName(plain)
	s.int8Query, s.block = false, contiguous
	bytes := t.Size(s.dim) * s.kv * s.context
	pool := r.pools[threads]
	return r.add(&trial{name: peerName(s), on: r.best(threads), work: s.cpuWork(), reads: 2 * pages(bytes), set: func(*device) (*operation, error) {
		a, err := pool.Attention(shapeOf(s, t), plain)
		if err != nil {
			return nil, err
		}
		fillRows(a.Query)
		var cache [][2][]byte
		return &operation{
			aim: func(n int) error {
				rest()
				cache = cache[:0]
				for range n {
					cache = append(cache, [2][]byte{r.arenas[toRead].take(bytes), r.arenas[toRead].take(bytes)})
				}
				return nil
			},
			call: func(turn int) error {
				if turn == 0 {
					pool.Resume()
				}
				err := a.Run(cache[turn][0], cache[turn][1])
				if turn == len(cache)-1 {
					pool.Pause()
				}
				return err
			},
		}, nil
	}})
}

// runtime adds a trial of ONNX Runtime's.
func (r *peerRig) runtime(s step, t peers.Type, threads int) *trial {
	s.what, s.block = "onnx", contiguous
	bytes := t.Size(s.dim) * s.kv * s.context
	return r.add(&trial{name: peerName(s), on: r.best(threads), work: s.cpuWork(), reads: 2 * pages(bytes), set: func(*device) (*operation, error) {
		session, err := r.session(s, t, threads)
		if err != nil {
			return nil, err
		}
		o := operandsOf(s, t)
		var calls []*peers.Call
		return &operation{
			aim: func(n int) error {
				rest()
				for _, c := range calls {
					c.Free()
				}
				calls = calls[:0]
				for range n {
					o.Keys, o.Values = r.arenas[toRead].take(bytes), r.arenas[toRead].take(bytes)
					c, err := session.Bind(shapeOf(s, t), o)
					if err != nil {
						return err
					}
					calls = append(calls, c)
				}
				return nil
			},
			call: func(turn int) error { return calls[turn].Run() },
		}, nil
	}})
}

// session is one for all calls of a type and heads, as a program has it.
func (r *peerRig) session(s step, t peers.Type, threads int) (*peers.Session, error) {
	key := fmt.Sprint(t, s.query, s.kv, threads)
	if r.sessions[key] != nil {
		return r.sessions[key], nil
	}
	session, err := peers.NewSession(t, s.query, s.kv, threads)
	r.sessions[key] = session
	return session, err
}

// operandsOf is the rows of a call, random, and their keys and values.
func operandsOf(s step, t peers.Type) peers.Operands {
	o := peers.Operands{Query: peers.Alloc(t.Size(s.queries * s.query * s.dim)), Output: peers.Alloc(t.Size(s.queries * s.query * s.dim)),
		NewKeys: peers.Alloc(t.Size(s.queries * s.kv * s.dim)), NewValues: peers.Alloc(t.Size(s.queries * s.kv * s.dim))}
	for _, rows := range [][]byte{o.Query, o.NewKeys, o.NewValues} {
		fillAny(rows)
	}
	return o
}

// floatsOf is memory as numbers.
func floatsOf(mem []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(mem))), len(mem)/4)
}

// fillRows sets rows to numbers of [-1, 1).
func fillRows(rows []float32) {
	copy(rows, floatsOf(random(backend.F32)))
	for have := patternLen; have < len(rows); have *= 2 {
		copy(rows[have:], rows[:have])
	}
}

// agree looks whether all compute the same of the same queries, keys and values.
func (r *peerRig) agree(b *testing.B) {
	for _, h := range []heads{{8, 8, 64, 0}, {8, 2, 128, 0}} {
		for _, queries := range []int{1, 7} {
			s := step{act: backend.F32, stored: backend.F32, heads: h, batch: 1, context: 100, queries: queries, inOrder: true}
			n := s.kv * s.context * s.dim
			keys, values := peers.Alloc(4*n), peers.Alloc(4*n)
			k, v := floatsOf(keys), floatsOf(values)
			query := make([]float32, s.queries*s.query*s.dim)
			fillRows(query)
			fillRows(k)
			fillRows(v)
			for i := range v {
				v[i] *= k[(i*7+3)%n]
			}
			want := ours(b, r.home, s, query, k, v)
			same := func(what string, got []float32) {
				require.Len(b, got, len(want), what)
				for i := range want {
					require.InDelta(b, want[i], got[i], 1e-4, "%s, element %d of %d queries of %v", what, i, queries, h)
				}
			}
			for _, plain := range []bool{false, true} {
				a, err := r.pools[1].Attention(shapeOf(s, peers.F32), plain)
				require.NoError(b, err)
				copy(a.Query, query)
				ks, vs := keys, values
				if plain {
					ks, vs = peers.Alloc(4*n), peers.Alloc(4*n)
					tk, tv := floatsOf(ks), floatsOf(vs)
					for head := range s.kv {
						for token := range s.context {
							for d := range s.dim {
								from := (head*s.context+token)*s.dim + d
								tk[(token*s.kv+head)*s.dim+d], tv[(head*s.dim+d)*s.context+token] = k[from], v[from]
							}
						}
					}
				}
				r.pools[1].Resume()
				err = a.Run(ks, vs)
				r.pools[1].Pause()
				require.NoError(b, err)
				same(fmt.Sprint("ggml, plain ", plain), a.Output)
			}
			if !r.onnx {
				continue
			}
			session, err := r.session(s, peers.F32, 1)
			require.NoError(b, err)
			o := operandsOf(s, peers.F32)
			o.Keys, o.Values = keys, values
			copy(floatsOf(o.Query), query)
			for i, from := range [][]float32{k, v} { // the last tokens are new to it
				to := floatsOf([][]byte{o.NewKeys, o.NewValues}[i])
				for token := range s.queries {
					for head := range s.kv {
						at := (head*s.context + s.context - s.queries + token) * s.dim
						copy(to[(token*s.kv+head)*s.dim:][:s.dim], from[at:])
						clear(from[at:][:s.dim])
					}
				}
			}
			call, err := session.Bind(shapeOf(s, peers.F32), o)
			require.NoError(b, errors.Join(err, call.Run()))
			call.Free()
			same("ONNX Runtime", floatsOf(o.Output))
		}
	}
}

// ours is the attention of this library over given operands.
func ours(b *testing.B, d *device, s step, query, k, v []float32) []float32 {
	p, _, err := operands(&d.memory, ring[*cpu.Buffer]{&d.memory, func(int) int { return 1 }}, s)
	require.NoError(b, err)
	cache := view[*cpu.Buffer](s.layer())
	cache.K = backend.Plane[*cpu.Buffer]{Data: upload(&d.memory, backend.F32, k), Dim: s.dim}
	cache.V = backend.Plane[*cpu.Buffer]{Data: upload(&d.memory, backend.F32, v), Dim: s.dim}
	p.Cache, p.Q = cache, backend.Dense(upload(&d.memory, backend.F32, query))
	require.NoError(b, errors.Join(d.err, d.be.Attend(d.stream, p)))
	out := make([]float32, len(query))
	require.NoError(b, backend.Download(d.be, d.stream, out, p.Out.Rows.Buf, 0))
	require.False(b, math.IsNaN(float64(out[0])))
	return out
}
