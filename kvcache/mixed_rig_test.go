package kvcache

import (
	"cmp"
	"math"
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/stretchr/testify/require"
)

// mixed is a pool whose steps have calls of every kind, and a naive model of what each row sees.
type mixed struct{ *grouped }

// deal is what one call adds to a step.
type deal struct {
	*told
	ids     []uint32 // new tokens
	draft   int
	spans   []Span
	parents []int  // of a tree
	path    []int  // of it: what is accepted
	views   []View // queries, if there are no new tokens
}

// nobody is the token of a row that is none.
const nobody = 1 << 30

func (d *deal) rows() int { return len(d.ids) + len(d.views) }

func (w *mixed) add(d *deal) error {
	switch {
	case d.views != nil:
		return w.step.Query(d.seq, d.views)
	case d.parents != nil:
		return w.step.AddTree(d.seq, d.ids, d.parents)
	case d.spans != nil:
		return w.step.AddSpans(d.seq, d.ids, d.spans)
	}
	return w.step.AddDraft(d.seq, d.ids, d.draft)
}

// plan adds deals to the emptied step and plans it. An error leaves it reset.
func (w *mixed) plan(deals ...deal) error {
	w.t.Helper()
	err := w.step.Reset()
	for i := range deals {
		err = cmp.Or(err, w.add(&deals[i]))
	}
	if err = cmp.Or(err, w.step.Plan(w.s)); err != nil {
		require.NoError(w.t, w.step.Reset())
	}
	return err
}

// run does a step and compares every row of it with the model.
func (w *mixed) run(deals ...deal) error {
	w.t.Helper()
	if err := w.plan(deals...); err != nil {
		return err
	}
	w.layers(deals)
	return w.commit(deals)
}

// commit ends the step.
func (w *mixed) commit(deals []deal) error {
	w.t.Helper()
	for i := range deals {
		if d := &deals[i]; d.parents != nil {
			require.NoError(w.t, w.step.Accept(d.seq, d.path))
		}
	}
	for i := range deals {
		switch d := &deals[i]; {
		case d.views != nil:
		case d.parents != nil:
			w.accept(d.told)
			for _, node := range d.path {
				d.told.ids = append(d.told.ids, d.ids[node])
				w.sure[d.ids[node]] = true
			}
		default:
			w.accept(d.told)
			d.told.ids, d.told.draft = append(d.told.ids, d.ids...), d.draft
		}
	}
	return w.step.Commit()
}

// layers appends and attends in every layer.
func (w *mixed) layers(deals []deal) {
	w.t.Helper()
	for layer := range w.pool.cfg.Model.Layers {
		if g := w.groupOf(layer); g != nil && g.Kind == group.None {
			continue
		} else if g != nil && g.Kind == group.State {
			w.states(layer, deals)
			continue
		}
		w.layer(layer, deals)
	}
}

// states is state for deals, of which some are of one sequence.
func (w *mixed) states(layer int, deals []deal) {
	w.t.Helper()
	st, err := w.step.State(layer)
	require.NoError(w.t, err)
	require.Len(w.t, st.Calls, len(deals))
	for i, c := range st.Calls {
		require.Same(w.t, deals[i].seq, w.step.members[c.Seq].seq, "the rows of call %d", i)
		require.Equal(w.t, len(deals[i].ids), c.Rows)
	}
	var asks []ask
	for i := range deals {
		d := &deals[i]
		at := slices.IndexFunc(asks, func(a ask) bool { return a.told == d.told })
		if at >= 0 {
			asks[at].ids = append(slices.Clip(asks[at].ids), d.ids...)
			continue
		}
		asks = append(asks, ask{d.told, d.ids})
	}
	w.state(layer, asks)
}

// layer appends and attends in a layer with keys and values.
func (w *mixed) layer(layer int, deals []deal) {
	w.t.Helper()
	st, _ := w.pool.of(layer)
	m := &st.Config.Model
	var ids, marks []uint32
	writes := false
	for i := range deals {
		ids = append(ids, deals[i].ids...)
		writes = writes || len(deals[i].ids) > 0
		for range deals[i].views {
			ids = append(ids, nobody)
		}
	}
	for range ids {
		w.asked++
		marks = append(marks, w.asked)
	}
	queries := rows(marks, layer+100, m.QHeads, m.HeadDim, false)
	q, out := w.vector(w.s, queries), w.vector(w.s, make([]float32, len(ids)*m.QHeads*m.VHeadDim))
	if writes {
		keys, values := newRows(m, ids, layer)
		for i, id := range ids {
			for _, of := range [][]float32{keys, values} {
				row := of[i*len(of)/len(ids):][:len(of)/len(ids)]
				for j := 0; j < len(row) && id == nobody; j++ {
					row[j] = float32(math.NaN()) // in rows of queries, which nobody uses
				}
			}
		}
		k, v := w.vector(w.s, keys), w.vector(w.s, values)
		require.NoError(w.t, w.step.Append(layer, kv(k, v)))
		w.free(k, v)
	}
	require.NoError(w.t, w.step.Attend(layer, attending(q, out)))
	require.NoError(w.t, w.s.Sync())
	got := w.download(out)
	row, width := 0, m.QHeads*m.VHeadDim
	for i := range deals {
		d, before := &deals[i], deals[i].told.ids
		for j := range i {
			if deals[j].told == d.told {
				before = append(append([]uint32(nil), before...), deals[j].ids...)
			}
		}
		all := append(append([]uint32(nil), before...), d.ids...)
		for r := range d.rows() {
			query := queries[row*m.QHeads*m.HeadDim:][:m.QHeads*m.HeadDim]
			want := w.attend(m, layer, query, all, func(token int) bool { return w.sees(layer, d, len(before), r, token) })
			for j, x := range want {
				if difference := math.Abs(x - float64(got[row*width+j])); !(difference <= w.within) { // require takes time
					require.InDelta(w.t, x, got[row*width+j], w.within, "layer %d, deal %d of %+v, row %d, element %d", layer, i, *d, r, j)
				}
			}
			row++
		}
	}
	w.free(q, out)
}

// sees reports whether a row of a deal, of a sequence that has so many tokens before it, sees a token.
func (w *mixed) sees(layer int, d *deal, before, row, token int) bool {
	switch v := (View{before + row, before + row + 1}); {
	case d.views != nil:
		return w.shows(layer, d.views[row], token)
	case d.parents != nil && token >= before:
		for node := row; node >= 0; node = d.parents[node] {
			if node == token-before {
				return true
			}
		}
		return false
	case d.parents != nil:
		depth := 0
		for node := row; d.parents[node] >= 0; node = d.parents[node] {
			depth++
		}
		return w.shows(layer, View{before + depth, before}, token)
	default:
		for _, s := range d.spans {
			if row >= s.Begin && row < s.End {
				v.End = before + s.End
			}
		}
		if w.pool.cfg.Model.NonCausal {
			v.End = before + len(d.ids)
		}
		return w.shows(layer, v, token)
	}
}

// shows reports whether a view has a token in both directions.
func (w *mixed) shows(layer int, v View, token int) bool {
	m := w.pool.cfg.Model.MaskOf(layer)
	if g := w.groupOf(layer); len(w.pool.cfg.Model.Groups) > 0 {
		m.Window, m.SinkTokens, m.Chunk = g.Window, g.Sinks, g.Chunk
	}
	switch {
	case token >= v.End:
		return false
	case m.Chunk > 0:
		return token/m.Chunk == v.Position/m.Chunk
	case m.Window > 0:
		return token < m.SinkTokens || max(token-v.Position, v.Position-token) < m.Window
	}
	return true
}

// between are the spans from each first number to the second.
func between(at ...int) (all []Span) {
	for i := 0; i < len(at); i += 2 {
		all = append(all, Span{Begin: at[i], End: at[i+1]})
	}
	return all
}

// once is a view of everything for n queries.
func once(n, end int) (views []View) {
	for range n {
		views = append(views, View{0, end})
	}
	return views
}

// fresh is an empty sequence.
func (w *mixed) fresh() *told {
	w.t.Helper()
	s, _ := w.open(nil)
	return s
}

// newMixed is a pool of the test device. It skips the test where that has no views of queries.
func newMixed(t testT, cfg Config) *mixed {
	t.Helper()
	w := mixedOn(deviceRig(t, signed(cfg)), 1)
	if !w.pool.caps.Views || w.pool.caps.TreeWords == 0 {
		w.close()
		skip(t)
	}
	return w
}

func skip(t testT) {
	if s, ok := t.(interface{ Skip(args ...any) }); ok {
		s.Skip("the device has no views of queries")
	}
}

func mixedOn(r *rig[buffer], seed uint64) *mixed {
	r.t.Helper()
	w := &mixed{groupedOn(r, seed)}
	w.deals = func(asks []ask) error {
		var deals []deal
		for _, a := range asks {
			deals = append(deals, deal{told: a.told, ids: a.ids, draft: a.next})
			a.next = 0
		}
		return w.run(deals...)
	}
	return w
}
