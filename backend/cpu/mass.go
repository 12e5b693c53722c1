package cpu

// weighing adds the attention mass: a second walk over the keys, now that the
// softmax denominators are known. A slot may belong to several sequences, so work
// is not divided by sequence: part i has one KV head and the blocks of one shard,
// and adds to them in the order of the batch.
type weighing struct{ *attention }

func (m weighing) part(i int, w *scratch) {
	head, shard := i%m.kvHeads, i/m.kvHeads
	step := m.tileTokens()
	for seq := range m.lens {
		_, n := m.queries(seq)
		for q0 := 0; q0 < n; q0 += step {
			t := m.tile(seq, q0, min(q0+step, n), head)
			m.weigh(&t, shard, w)
		}
	}
}

// weigh adds what a tile's queries give to the keys in a shard's blocks.
func (m weighing) weigh(t *tile, shard int, w *scratch) {
	scores := w.scores[:t.rows*chunk]
	var q queries // loaded for the first block that counts
	for key := t.keys.From(0); key < t.keys.Hi; {
		limit := t.keys.Hi
		if key < t.keys.Sinks {
			limit = t.keys.Sinks
		}
		block, offset, n := m.run(t, key, min(limit-key, chunk))
		if block%m.shards == shard {
			if q.rows == nil {
				q = m.load(t, w)
			}
			m.score(t, key, n, &q, scores, w)
			m.add(t, scores, m.mass[(block*m.kvHeads+t.head)*m.keys.block+offset:][:n])
		}
		key = t.keys.From(key + n)
	}
}

// add turns scores into probabilities and adds each key's over the rows.
func (m weighing) add(t *tile, scores, mass []float32) {
	var sums [chunk]float64
	for r := range t.rows {
		token, head, _ := m.row(t, r)
		lse := m.finalLSE[token*m.qHeads+head]
		if lse == negInf {
			continue
		}
		row := scores[r*chunk:][:len(mass)]
		exponentials(row, lse)
		for j, p := range row {
			sums[j] += float64(p)
		}
	}
	for j := range mass {
		mass[j] += float32(sums[j])
	}
}
