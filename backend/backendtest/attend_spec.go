package backendtest

import (
	"fmt"
	"math"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
)

// sequence is one sequence of an attention call: its queries, and the tokens in
// its cache, the queries' own included.
type sequence struct{ queries, context int }

// layout is how a case addresses its cache.
type layout struct {
	name  string
	block int  // 0: one block of the longest context's capacity a sequence
	table bool // whether a block table is handed over; without one sequence i is block i
}

// maskSpec is a mask, on the host.
type maskSpec struct {
	name               string
	nonCausal          bool
	window, sinkTokens int
	chunk              int
	part               backend.Part
	recent             int
	softCap            float32
	alibi, sinkLogits  bool
}

// outputSpec is what a case asks for besides the rows.
type outputSpec struct {
	name      string
	lse, mass bool
	shared    bool // the second sequence shares leading blocks of the first
}

// attendSpec is a case of attention, complete and without a device.
type attendSpec struct {
	name          string
	qHeads        int
	kvHeads       int
	kDim, vDim    int
	layout        layout
	spareSlots    int // contiguous: capacity beyond the longest context
	seqs          []sequence
	mask          maskSpec
	output        outputSpec
	prefixes      []prefix   // of each sequence, or none; by whole blocks
	twins         []twin     // sequences that lie where others do
	views         []view     // of each query; nil: as the mask says
	tree          [][]uint32 // of each query; nil: no tree
	fixed         bool       // the plan is of fixed size
	format        backend.Format
	strided       bool
	smallIntegers bool                       // queries and keys of −1, 0, 1 and no scale: large scores that are exact
	omitOffsets   bool                       // one query a sequence, and no QueryOffsets
	hadamard      bool                       // keys and queries are turned already, so that attention is what it was
	int8Query     bool                       // queries are rounded, too
	unquantized   bool                       // the reference reads what was stored before it was rounded
	latent        bool                       // values are the first elements of keys
	planned       func(*backend.AttendShape) // what the plan serves beyond the case; nil: nothing
}

// tokens is the number of queries of the batch.
func (s attendSpec) tokens() int {
	n := 0
	for _, seq := range s.seqs {
		n += seq.queries
	}
	return n
}

// scale is the factor of q·k.
func (s attendSpec) scale() float32 {
	if s.smallIntegers {
		return 1
	}
	return float32(1 / math.Sqrt(float64(s.kDim)))
}

// work is the number of multiply-adds of a case without a mask.
func (s attendSpec) work() int {
	n := 0
	for _, seq := range s.seqs {
		n += seq.queries * seq.context
	}
	return n * s.qHeads * (s.kDim + s.vDim)
}

// block is the number of slots of a block.
func (s attendSpec) block() int {
	if s.layout.block > 0 {
		return s.layout.block
	}
	longest := 1
	for _, seq := range s.seqs {
		longest = max(longest, seq.context)
	}
	return longest + s.spareSlots
}

// The axes of the attention grid.
var (
	headAxis = [][2]int{{1, 1}, {8, 8}, {8, 2}, {32, 8}, {32, 4}, {16, 1}}
	dimAxis  = [][2]int{{64, 64}, {80, 80}, {96, 96}, {128, 128}, {192, 192}, {256, 256}, {192, 128}}

	layoutAxis = []layout{
		{"paged8", 8, true}, {"paged16", 16, true}, {"paged32", 32, true}, {"paged64", 64, true},
		{"contiguous", 0, false}, {"contiguous+table", 0, true},
	}

	// contextAxis is the tokens that the batch's first sequence has in its cache
	// before its queries, or with its query where it has one.
	contextAxis = []struct {
		name    string
		context func(block int) int
	}{
		{"ctx0", func(int) int { return 0 }},
		{"ctx1", func(int) int { return 1 }},
		{"block-1", func(block int) int { return block - 1 }},
		{"block", func(block int) int { return block }},
		{"block+1", func(block int) int { return block + 1 }},
		{"ctx513", func(int) int { return 513 }},
		{"ctx2049", func(int) int { return 2049 }},
	}

	// queryAxis is batches of decode, of chunks against a cached prefix, of prefill
	// from nothing, and of all of them mixed.
	queryAxis = []struct {
		name string
		seqs func(c int) []sequence
	}{
		{"decode", func(c int) []sequence { return []sequence{{1, c}, {1, c + 1}, {1, 0}} }},
		{"q3", func(c int) []sequence { return []sequence{{3, c + 3}, {1, c/2 + 1}} }},
		{"q64", func(c int) []sequence { return []sequence{{64, c + 64}, {1, c/2 + 1}} }},
		{"q257", func(c int) []sequence { return []sequence{{257, c + 257}, {1, c/2 + 1}} }},
		{"ragged", func(c int) []sequence { return []sequence{{1, c}, {64, c/4 + 64}, {0, 5}, {3, c + 3}, {257, 257}} }},
	}

	// maskAxis has each mask alone, and together. Windows and sinks of a case
	// depend on its context; see gridSpec.
	maskAxis = []maskSpec{
		{name: "causal"},
		{name: "noncausal", nonCausal: true},
		{name: "window", window: 1},
		{name: "window+sinks", window: 1, sinkTokens: 4},
		{name: "softcap", softCap: 1.5},
		{name: "alibi", alibi: true},
		{name: "softcap+alibi", softCap: 1.5, alibi: true},
		{name: "sinklogits", sinkLogits: true},
		{name: "allmasks", window: 1, sinkTokens: 4, softCap: 1.5, alibi: true, sinkLogits: true},
	}

	outputAxis = []outputSpec{
		{name: "rows"},
		{name: "lse", lse: true},
		{name: "mass", mass: true},
		{name: "shared+lse+mass", lse: true, mass: true, shared: true},
	}

	formatAxis = []backend.Format{
		{Act: backend.F32, K: backend.F32, V: backend.F32},
		{Act: backend.F16, K: backend.F16, V: backend.F16},
		{Act: backend.BF16, K: backend.BF16, V: backend.BF16},
		{Act: backend.F32, K: backend.F16, V: backend.F16},
		{Act: backend.F32, K: backend.BF16, V: backend.BF16},
		{Act: backend.F32, K: backend.F16, V: backend.F32},
		{Act: backend.F16, K: backend.F32, V: backend.F16},
		{Act: backend.BF16, K: backend.F32, V: backend.F16},
	}
)

// Values of axes that a device has to list.
var (
	rareDims    = [][2]int{{112, 112}, {512, 512}}
	rareLayouts = []layout{{"paged3", 3, true}, {"paged24", 24, true}} // blocks of no power of two
	chunkMask   = maskSpec{name: "chunk", chunk: 1}
	bothWays    = maskSpec{name: "bothways", nonCausal: true, window: 1, sinkTokens: 4}
)

// axes are those of the grid that depend on the device.
type axes struct {
	dims    [][2]int
	layouts []layout
	masks   []maskSpec
	formats []backend.Format
}

// axesOf have the values that each device has, and some formats.
func axesOf(formats []backend.Format) axes { return axes{dimAxis, layoutAxis, maskAxis, formats} }

// listedAxes are those of a device, so that every pair of values is a case that it runs.
func listedAxes(caps backend.Caps) axes {
	a := axesOf(listedFormats(caps))
	for _, d := range rareDims {
		if caps.SupportsDims(d[0], d[1]) {
			a.dims = append(slices.Clip(a.dims), d)
		}
	}
	for _, l := range rareLayouts {
		if caps.SupportsBlockSize(l.block) {
			a.layouts = append(slices.Clip(a.layouts), l)
		}
	}
	if caps.Chunk {
		a.masks = append(slices.Clip(a.masks), chunkMask)
	}
	if caps.Views {
		a.masks = append(slices.Clip(a.masks), bothWays)
	}
	return a
}

// gridFormats are the formats of the grid, quantized ones included.
func gridFormats() []backend.Format { return append(slices.Clone(formatAxis), quantizedFormats(0)...) }

// contiguousBlock is what "block" means for the contexts of a contiguous layout.
const contiguousBlock = 16

// listedFormats are the formats of the grid that a device lists; all of them where it lists none.
func listedFormats(caps backend.Caps) []backend.Format {
	var out []backend.Format
	for _, f := range gridFormats() {
		if caps.Supports(f) {
			out = append(out, f)
		}
	}
	if out == nil {
		return gridFormats()
	}
	return out
}

// grid is the axes in the order of spec.
func (a axes) grid() grid {
	return grid{
		sizes: []int{len(headAxis), len(a.dims), len(a.layouts), len(contextAxis), len(queryAxis),
			len(a.masks), len(outputAxis), len(a.formats), 2},
		cost:  func(row []int) int { return a.spec(row).work() },
		cheap: make([]int, 9), // the first value of each axis
	}
}

// spec is the case of the grid with the given value of each axis.
func (a axes) spec(row []int) attendSpec {
	heads, dims, layout := headAxis[row[0]], a.dims[row[1]], a.layouts[row[2]]
	block := layout.block
	if block == 0 {
		block = contiguousBlock
	}
	c := contextAxis[row[3]].context(block)
	s := attendSpec{
		qHeads: heads[0], kvHeads: heads[1], kDim: dims[0], vDim: dims[1],
		layout: layout, spareSlots: row[3] % 3, seqs: queryAxis[row[4]].seqs(c),
		mask: a.masks[row[5]], output: outputAxis[row[6]], format: a.formats[row[7]], strided: row[8] == 1,
		omitOffsets: row[4] == 0, fixed: row[8] == 1,
	}
	inside := c/3 + 2 // the longer contexts, and seldom on the border of a block
	if s.mask.window > 0 {
		s.mask.window = inside
	}
	if s.mask.chunk > 0 {
		s.mask.chunk = inside
	}
	rows := "dense"
	if s.strided {
		rows = "strided"
	}
	s.name = fmt.Sprintf("%s/%s,%s,%s,%s,%s,%s,%s", formatName(s.format), headName(s), layout.name,
		contextAxis[row[3]].name, queryAxis[row[4]].name, s.mask.name, s.output.name, rows)
	return s
}

func headName(s attendSpec) string {
	if s.kDim == s.vDim {
		return fmt.Sprintf("%dx%dx%d", s.qHeads, s.kvHeads, s.kDim)
	}
	return fmt.Sprintf("%dx%dx%dv%d", s.qHeads, s.kvHeads, s.kDim, s.vDim)
}

func formatName(f backend.Format) string {
	if f.Act == f.K && f.Act == f.V {
		return f.Act.String()
	}
	return fmt.Sprintf("%s-%s-%s", f.Act, f.K, f.V)
}
