package check

import (
	"math"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// plain is a device that has the masks which each device has.
func plain() *backend.Caps {
	c := caps
	c.Chunk, c.Views, c.TreeWords = false, false, 0
	return &c
}

func TestMasksThatDoNotGoTogether(t *testing.T) {
	type call = *backend.AttendParams[*fake]
	for want, spoil := range map[string]func(p call){
		"views: need a causal mask":                    func(p call) { p.Mask.NonCausal = true },
		"tree: needs a causal mask":                    func(p call) { p.Mask.NonCausal, p.Batch.Views = true, backend.Opt[*fake]{} },
		"chunk: have -1":                               func(p call) { p.Mask.Chunk = -1 },
		"not supported: a chunk together with":         func(p call) { p.Mask.Chunk = 4 },
		"chunk together with a window or sink":         func(p call) { p.Mask.Chunk, p.Mask.Window = 4, 0 },
		"tree words: have 0":                           func(p call) { p.Batch.TreeWords = 0 },
		"a tree of 3 words a row: the device takes 2,": func(p call) { p.Batch.TreeWords, p.Batch.Tree = 3, some(backend.U32, 9) },
		"views: the number of elements":                func(p call) { p.Batch.Tokens = math.MaxInt },
		"tree: the number of elements": func(p call) {
			p.Batch.Tokens, p.Batch.Views = math.MaxInt, backend.Opt[*fake]{}
		},
		"sink tokens: have 2 without a causal mask or a window": func(p call) {
			p.Batch.Views, p.Batch.Tree = backend.Opt[*fake]{}, backend.Opt[*fake]{}
			p.Mask.NonCausal, p.Mask.Window = true, 0
		},
	} {
		p := attendParams(f16)
		spoil(&p)
		require.ErrorContains(t, Attend(&caps, &p), want)
	}
	p := attendParams(f16)
	p.Batch.Views, p.Batch.Tree, p.Mask.NonCausal = backend.Opt[*fake]{}, backend.Opt[*fake]{}, true
	require.NoError(t, Attend(&caps, &p), "a window both ways")
	p.Mask.Window, p.Mask.SinkTokens, p.Mask.Chunk = 0, 0, 5
	require.NoError(t, Attend(&caps, &p), "whole chunks")
}

// What a device lacks it refuses by name.
func TestMasksThatADeviceLacks(t *testing.T) {
	type call = *backend.AttendParams[*fake]
	for want, ask := range map[string]func(p call){
		"a mask of chunks, on this device (Caps.Chunk)":               func(p call) { p.Mask = backend.Mask[*fake]{Chunk: 4} },
		"a window without a causal mask, on this device (Caps.Views)": func(p call) { p.Mask = backend.Mask[*fake]{NonCausal: true, Window: 4} },
		"(Ragged.Views), on this device (Caps.Views)":                 func(p call) { p.Batch.Views = some(backend.U32, 6) },
		"(Ragged.Tree), on this device (Caps.TreeWords)": func(p call) {
			p.Batch.Tree, p.Batch.TreeWords = some(backend.U32, 3), 1
		},
	} {
		p := attendParams(f16)
		p.Batch.Views, p.Batch.Tree = backend.Opt[*fake]{}, backend.Opt[*fake]{}
		require.NoError(t, Attend(plain(), &p))
		ask(&p)
		err := Attend(plain(), &p)
		require.ErrorIs(t, err, backend.ErrUnsupported{})
		require.ErrorContains(t, err, want)
		require.NoError(t, Attend(&caps, &p))
	}
	p := attendParams(f16)
	p.Cache.BlockSize, p.Cache.Blocks = 20, 1
	powers := caps
	powers.BlockSizes = nil
	require.ErrorContains(t, Attend(&powers, &p), "a block table over blocks of 20 slots: the device takes powers of two")
	require.False(t, powers.SupportsBlockSize(0))
	require.True(t, powers.SupportsBlockSize(32))
	powers.AnyBlockSize = true
	require.True(t, powers.SupportsBlockSize(20))
}

func TestPlannedViews(t *testing.T) {
	good := backend.AttendShape{QHeads: 4, KVHeads: 2, KDim: 8, VDim: 6, BlockSize: 4, Format: f16,
		ContextLens: []uint32{9, 0, 5}, QueryLens: []uint32{2, 0, 1}, TreeWords: 2,
		Views: []uint32{8, 9, backend.MaxPosition, 0, 3, 5}}
	require.NoError(t, Plan(caps, good))
	for want, spoil := range map[string]func(s *backend.AttendShape){
		"views: 4 numbers, need 6 for 3 tokens":                  func(s *backend.AttendShape) { s.Views = s.Views[:4] },
		"views: 0 numbers, need 6":                               func(s *backend.AttendShape) { s.Views = s.Views[:0] },
		"views: query 0 of sequence 0 is at position 8 and ends": func(s *backend.AttendShape) { s.Views = []uint32{8, 10, 0, 0, 0, 0} },
		"query 0 of sequence 2 is at position 2147483648":        func(s *backend.AttendShape) { s.Views = []uint32{8, 9, 0, 0, 1 << 31, 5} },
		"ends at key 6, need at most 2147483647 and its 5":       func(s *backend.AttendShape) { s.Views = []uint32{8, 9, 0, 0, 5, 6} },
		"a plan of fixed size for views":                         func(s *backend.AttendShape) { s.Fixed = true },
		"views: need a causal mask":                              func(s *backend.AttendShape) { s.NonCausal = true },
		"tree words: have -1":                                    func(s *backend.AttendShape) { s.TreeWords = -1 },
		"a tree of 3 words":                                      func(s *backend.AttendShape) { s.TreeWords = 3 },
		"a chunk together":                                       func(s *backend.AttendShape) { s.Chunk, s.Window = 4, 4 },
	} {
		s := good
		spoil(&s)
		require.ErrorContains(t, Plan(caps, s), want)
	}
	for want, ask := range map[string]func(s *backend.AttendShape){
		"(Caps.Views)":     func(s *backend.AttendShape) { s.TreeWords = 0 },
		"(Caps.TreeWords)": func(s *backend.AttendShape) { s.Views = nil },
		"(Caps.Chunk)":     func(s *backend.AttendShape) { s.Views, s.TreeWords, s.Chunk = nil, 0, 8 },
	} {
		s := good
		ask(&s)
		require.ErrorContains(t, Plan(*plain(), s), want)
	}
}
