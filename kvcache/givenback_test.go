package kvcache

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/testutil/golden"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/stretchr/testify/require"
)

// giving is a layer that gives blocks back, and the mask that hides the same.
type giving struct {
	name   string
	group  config.Group
	mask   Mask
	layout Layout
}

func givings() []giving {
	window, sinks, chunk := config.Group{Kind: group.Window, Window: 9}, config.Group{Kind: group.Window, Window: 7, Sinks: 5}, config.Group{Kind: group.Chunked, Chunk: 12}
	return []giving{
		{"window", window, Mask{Window: 9}, Paged},
		{"window, sinks", sinks, Mask{Window: 7, SinkTokens: 5}, Paged},
		{"chunks", chunk, Mask{Chunk: 12}, Paged},
		{"full, masked", config.Group{}, Mask{Window: 7, SinkTokens: 5}, Paged},
		{"window, sinks, contiguous", sinks, Mask{Window: 7, SinkTokens: 5}, Contiguous},
		{"chunks, contiguous", chunk, Mask{Chunk: 12}, Contiguous},
	}
}

// pools are the configurations of a cell: of the pool that gives blocks back, and of the one whose mask hides.
func (g *giving) pools(f feature, back int) (gives, hides Config) {
	of := g.group
	of.Layers = []int{0}
	gives = manyKinds(of, config.Group{Layers: []int{1}})
	gives.Memory.Rollback = back
	hides = gives
	hides.Model.Groups, gives.Model.Masks, hides.Model.Masks = nil, []Mask{{}, {}}, []Mask{g.mask, {}}
	if g.group.Kind == group.Full {
		gives.Model.Masks = []Mask{g.mask, {}}
	}
	f.set(&gives)
	f.set(&hides)
	if g.layout == Paged && gives.Storage.Residual > 0 {
		hides.Memory.BlockSize = layerBlock(gives, 1) // a residual begins with a block
	}
	if g.layout == Contiguous {
		gives.Memory.Layout, gives.Memory.BlockSize, gives.Memory.Prefix = Contiguous, 0, 0
	}
	return gives, hides
}

// A query's result is a function of positions, whether layers give blocks back or a mask hides what they hold: in each
// cell of testdata/givenback.txt both pools return the same, or the one that gives blocks back refuses something by name.
// On an emulated device some of the cells are tried.
func TestGivenBack(t *testing.T) {
	caps := testDevice().Caps
	if !caps.Views || caps.TreeWords == 0 || !caps.Chunk {
		t.Skip("the device has no views of queries, trees or chunks")
	}
	was, err := scripts.ReadFile("testdata/givenback.txt")
	writes := os.Getenv(golden.Env) == "write"
	require.True(t, err == nil || writes)
	few := (emulated(testDevice().Info) || race.Enabled || testing.Short()) && !testsize.Full()
	table := &cells{}
	if !writes {
		table.read(string(was))
	}
	be := openDevice(t)
	for i, f := range features() {
		for j, p := range plays() {
			if few && (i+j)%7 != 0 {
				continue
			}
			row := []string{f.name + ": " + p.name}
			for k, g := range givings() {
				backs := []int{-1, 5, 16}
				if g.layout == Contiguous || g.group.Kind == group.Full { // which gives nothing back
					backs = backs[:1]
				}
				if few {
					backs = backs[(i+j+k)%len(backs):][:1]
				}
				var cell []string
				for _, back := range backs {
					name := fmt.Sprintf("%s, %s, rollback %d", row[0], g.name, back)
					t.Run(name, func(t *testing.T) { cell = append(cell, table.cell(compared(t, be, f, p, g, back))) })
				}
				row = append(row, strings.Join(slices.Compact(cell), " / "))
			}
			table.row(row)
		}
	}
	require.Zero(t, be.Info().Buffers)
	require.NoError(t, be.Close())
	switch {
	case writes && !few && !t.Failed():
		require.NoError(t, os.WriteFile("testdata/givenback.txt", []byte(table.text()), 0o644))
	case few:
		table.among(t, string(was))
	default:
		require.Equal(t, string(was), table.text(), "%s=write go test writes testdata/givenback.txt anew", golden.Env)
	}
}

// layerBlock is the tokens of a block of a layer.
func layerBlock(c Config, layer int) int {
	all, err := c.Resolve()
	if err != nil {
		return c.Memory.BlockSize
	}
	for _, p := range all.Parts() {
		if slices.Contains(p.Layers, layer) {
			return p.BlockTokens()
		}
	}
	return 0
}

// compared is a cell's result: what was refused, if anything; all else was equal.
func compared(t *testing.T, be backend.Backend[buffer], f feature, p play, g giving, back int) (refused []string) {
	first, second := g.pools(f, back)
	gives, err := newTwin(t, be, first)
	if err != nil {
		return []string{"no pool: " + refusal(t, err)}
	}
	defer gives.end()
	hides, err := newTwin(t, be, second)
	require.NoError(t, err, "the pool with a mask")
	defer hides.end()
	s := &stage{t: t, gives: gives, hides: hides}
	p.do(s)
	s.feed(0, 5, 1, 6)
	s.same(p.shares)
	if gives.pool.cfg.Attention.Scores && !p.shares {
		s.scores()
	}
	require.Equal(t, g.layout == Paged && g.group.Kind != group.Full, gives.empty, "given back")
	slices.Sort(s.refused)
	return slices.Compact(s.refused)
}
