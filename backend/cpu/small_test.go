package cpu

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// A small call, whose heads all walk together and, where a few keys are all, weigh together, has the
// bits of one that is not taken for small.
func TestSmallCallsHaveTheSameBits(t *testing.T) {
	for _, k := range storageTypes {
		for _, block := range []int{0, 16, 128} {
			for _, ctx := range []int{1, 3, 17, 64, 65, 200} {
				for _, m := range []mask{{}, {window: 5, sinks: 2, softCap: 3, alibi: true, logits: true}} {
					for _, mass := range []bool{false, true} {
						t.Run(fmt.Sprintf("%s/block=%d/ctx=%d/%+v/mass=%v", k, block, ctx, m, mass), func(t *testing.T) {
							c := scene{qHeads: 6, kvHeads: 3, kDim: 16, vDim: 32, act: backend.F16, k: k, v: k, ctx: []int{ctx, ctx}, queries: []int{1, min(ctx, 2)},
								block: block, mask: m, mass: mass, int8Query: k == backend.Int8}
							if k == backend.Int4Channel {
								c.v = backend.Int4
							}
							st := c.set(t, 1)
							var want result
							for _, small := range []bool{false, true} {
								w := newScratch(attentionExtent(&st.params))
								var a attention
								a.bind("attend", &st.params)
								a.bindRows(&st.params)
								require.NoError(t, a.check(&st.params))
								a.small = small
								require.NoError(t, runAlone(&a, len(a.items)/itemWords*a.kvHeads, w))
								got := result{out: values(st.params.Out.Rows.Buf), lse: values(st.params.Out.LSE.Buf)}
								if small {
									require.Equal(t, want, got)
								}
								want = got
							}
						})
					}
				}
			}
		}
	}
}

// Between calls nothing refers to the operands of the last one.
func TestCallsForgetTheirOperands(t *testing.T) {
	be, s := open(t, 2)
	p := newLarge(t, be, s, backend.Format{Act: backend.F32, K: backend.F32, V: backend.F32}, 16, 16, 8)
	require.NoError(t, be.Append(s, p))
	st := scene{qHeads: 4, kvHeads: 2, kDim: 32, vDim: 32, act: backend.F32, k: backend.F16, v: backend.F16, ctx: []int{300}, queries: []int{1}}.setOn(t, be, s, 1)
	st.attend(t)
	last := be.pool.last.Load()
	require.True(t, reflect.ValueOf(&last.append).Elem().IsZero())
	require.True(t, reflect.ValueOf(&last.attention).Elem().IsZero())
	require.Nil(t, last.job.task)
}

// A call that was right is wrong as soon as one of its buffers is freed, whichever it is.
func TestFreedOperandsOfKnownCalls(t *testing.T) {
	for i := range 5 {
		be, s := open(t, 1)
		p := newLarge(t, be, s, backend.Format{Act: backend.F32, K: backend.F32, V: backend.F32}, 16, 16, 8)
		for range 2 {
			require.NoError(t, be.Append(s, p))
		}
		require.True(t, be.known.HasAppend(&p))
		require.NoError(t, be.Free([]*Buffer{p.Cache.K.Data, p.Cache.V.Data, p.K.Buf, p.V.Buf, p.Slots}[i]))
		require.ErrorIs(t, be.Append(s, p), backend.ErrFreed, "buffer %d", i)
	}
}
