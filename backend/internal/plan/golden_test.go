package plan

import (
	"embed"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
	"github.com/ferrumkv/ferrumkv/internal/testutil/golden"
)

//go:embed testdata/*.txt
var scripts embed.FS

// How the attention of some steps is divided. Each script has one line a plan:
//
//	plan heads=8/2 [type=f32|int4] [blocks=32] [window=N] [sinks=N] [shared=N] [least=N] [fixed] 1x1000 5x20
//
// heads are query heads and KV heads, blocks how many of a kernel's the device runs at once,
// shared the first tokens of all contexts that lie in the same blocks, of 16 tokens, and least the
// fewest that are read as one. A sequence is its queries and its context.
func TestPlans(t *testing.T) {
	for _, name := range []string{"decode", "ragged", "window", "shared", "fixed"} {
		t.Run(name, func(t *testing.T) {
			golden.Run(t, scripts, "testdata/"+name+".txt", func(t testing.TB, c golden.Command) string {
				require.Equal(t, "plan", c.Name)
				s, capacity := planned(t, c.Args)
				return drawn(t, s, capacity)
			})
		})
	}
}

// planned is the shape that a line is about.
func planned(t testing.TB, args []golden.Arg) (backend.AttendShape, Capacity) {
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		return n
	}
	s, blocks, shared := shapeOf(f16, 1, 1, nil, nil), 32, 0
	for _, a := range args {
		switch a.Key {
		case "heads":
			q, kv, _ := strings.Cut(a.Value, "/")
			s.QHeads, s.KVHeads = number(q), number(kv)
		case "type":
			s.Format = map[string]backend.Format{"f32": f32, "int4": {Act: backend.F16, K: backend.Int4, V: backend.Int4}}[a.Value]
		case "blocks":
			blocks = number(a.Value)
		case "window":
			s.Window = number(a.Value)
		case "sinks":
			s.SinkTokens = number(a.Value)
		case "shared":
			shared = number(a.Value)
		case "least":
			s.MinShared = number(a.Value)
		case "fixed":
			s.Fixed = true
		default:
			queries, context, _ := strings.Cut(a.Key, "x")
			s.QueryLens = append(s.QueryLens, uint32(number(queries)))
			s.ContextLens = append(s.ContextLens, uint32(number(context)))
		}
	}
	if shared > 0 {
		for _, n := range s.ContextLens {
			s.TableStride = max(s.TableStride, (int(n)+15)/16)
		}
		for seq := range s.ContextLens {
			for i := range s.TableStride {
				id := i
				if i >= shared/16 {
					id += (seq + 1) * 10000
				}
				s.Table = append(s.Table, uint32(id))
			}
		}
	}
	return s, Capacity{blocks, blocks, blocks}
}

// drawn is a plan as text: its items in the order in which blocks take them, those to be
// merged, and the rows that several sequences share.
func drawn(t testing.TB, s backend.AttendShape, capacity Capacity) string {
	p, err := Attend(s, capacity.Resident)
	require.NoError(t, err)
	work, err := readWork(p.Work, callOf(s))
	require.NoError(t, err)
	var out strings.Builder
	fmt.Fprintf(&out, "%d items, %d partial rows\n", p.Items, work.PartialRows)
	for kind, name := range [...]string{"vector", "decode", "prefill"} {
		for _, it := range listOf(p.Work, work.Kinds[kind]) {
			fmt.Fprintf(&out, "  %s %s\n", name, item(p.Work, work, it))
		}
	}
	empty := 0
	for _, it := range listOf(p.Work, work.Merges) {
		if it.Rows == 0 {
			empty++
			continue
		}
		fmt.Fprintf(&out, "  merge: seq %d rows %d-%d of %d parts, from partial row %d on\n", it.Seq, it.Row, it.Row+it.Rows-1, it.Parts, it.Base)
	}
	if empty > 0 {
		fmt.Fprintf(&out, "  %d merges of nothing\n", empty)
	}
	return out.String()
}

func item(words []uint32, work Work, it abi.AttendItem) string {
	switch {
	case it.Rows == 0:
		return "nothing"
	case it.Seq == abi.ManySeqs:
		var rows []string
		for _, r := range rowsOf(words, work, it) {
			rows = append(rows, fmt.Sprintf("%d.%d", r.Seq, r.Row))
		}
		return fmt.Sprintf("keys %d-%d, part %d of rows %s", it.Key, it.KeyEnd, it.Part, strings.Join(rows, " "))
	}
	what := fmt.Sprintf("seq %d rows %d-%d keys %d-%d", it.Seq, it.Row, it.Row+it.Rows-1, it.Key, it.KeyEnd)
	if it.Parts > 1 {
		what += fmt.Sprintf(", part %d of %d", it.Part, it.Parts)
	}
	return what
}
