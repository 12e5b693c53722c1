package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The committed files are what params.go generates.
func TestUpToDate(t *testing.T) {
	files, err := Generate("../..")
	require.NoError(t, err)
	require.Len(t, files, len(outputs))
	for path, want := range files {
		have, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), string(have), "%s is stale: go generate ./backend", path)
	}
}

const example = `package backend

type Rows[B Buffer] struct {
	Buf            B "operand:\"*\""
	Offset, Stride int
}

type Plan struct{ Work, Spare []uint32 }

type FoldRowsParams[B Buffer] struct {
	Into, From Rows[B]
	More       Wide[B]
	Heads      int
	Q          Rows[B] "when:\"Heads\""
	Plan       Plan
}

// Wide is declared after it is used.
type Wide[B Buffer] struct {
	Low        Rows[B] "operand:\"low rows\""
	BlockTable Opt[B]
	High       Rows[B] "operand:\"high rows\" when:\"!Folded\""
	Folded     bool
}

type Shape struct {
	Of   DType
	Lens []uint32
}
`

func TestExample(t *testing.T) {
	source, err := Parse("params.go", []byte(example))
	require.NoError(t, err)
	ops := source.Operations()
	require.Len(t, ops, 1)
	require.Equal(t, "FoldRows", ops[0].Op())
	require.Equal(t, "fold rows", ops[0].Words())
	require.Equal(t, `o.Buf("into", p.Into.Buf)
o.Buf("from", p.From.Buf)
o.wide(&p.More)
if p.Heads != 0 {
o.Buf("q", p.Q.Buf)
}`, walk(ops[0], "p"))
	require.Equal(t, `u.rows(&own.Into, &p.Into)
u.rows(&own.From, &p.From)
u.wide(&own.More, &p.More)
own.Heads = p.Heads
if p.Heads != 0 {
u.rows(&own.Q, &p.Q)
}
own.Plan = p.Plan`, unwrap(ops[0], "own", "p"))
	require.Equal(t, []string{"p.Plan.Work", "p.Plan.Spare"}, lists(ops[0], "p"))

	parts := source.Parts()
	require.Equal(t, []string{"Rows", "Wide"}, []string{parts[0].Name, parts[1].Name})
	require.True(t, parts[0].Held())
	require.False(t, parts[1].Held())
	require.Equal(t, `o.Buf("low rows", p.Low.Buf)
o.opt("block table", p.BlockTable)
if !p.Folded {
o.Buf("high rows", p.High.Buf)
}`, walk(parts[1], "p"))
	require.Contains(t, unwrap(parts[1], "own", "p"), `if !p.Folded {
u.rows(&own.High, &p.High)
} else {
own.High.Offset = p.High.Offset
own.High.Stride = p.High.Stride
}`)
}

// What would be left out is refused.
func TestRejected(t *testing.T) {
	for name, c := range map[string]struct{ field, want string }{
		"slice of buffers":    {"Bufs []B", "[]B is not understood"},
		"slice of operands":   {"Bufs []Opt[B]", "[]Opt[B] is not understood"},
		"slice of structs":    {"Plans []Plan", "[]Plan is not understood"},
		"array":               {"Bufs [2]B", "[2]B is not understood"},
		"pointer":             {"Buf *B", "*B is not understood"},
		"optional rows":       {"Q Opt[Rows[B]]", "Opt[Rows[B]] is not understood"},
		"struct from abroad":  {"K Foreign[B]", "Foreign[B] is not understood"},
		"not of B":            {"K Rows[C]", "Rows[C] is not understood"},
		"embedded":            {"Plan", "embeds Plan"},
		"name of no operand":  {`N int "operand:\"n\""`, "AParams.N: has a tag and is no operand"},
		"no such count":       {`Q Rows[B] "when:\"Heads\""`, "AParams.Q: when: AParams has no count Heads"},
		"no such flag":        {`Q Rows[B] "when:\"!Folded\""`, "AParams.Q: when: AParams has no flag Folded"},
		"count is an operand": {"Heads B\nQ Rows[B] \"when:\\\"Heads\\\"\"", "no count Heads"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("params.go", []byte("package backend\ntype Rows[B Buffer] struct { Buf B }\ntype Plan struct { N int }\ntype AParams[B Buffer] struct {\n"+c.field+"\n}\n"))
			require.ErrorContains(t, err, c.want)
		})
	}
}
