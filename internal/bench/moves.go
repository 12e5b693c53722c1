package bench

import "github.com/ferrumkv/ferrumkv/backend"

// move is an operation that moves memory: the bytes that a call reads and writes, and what makes
// its operands.
type move[B backend.Buffer] struct {
	reads, writes int
	set           func(m *memory[B], from source[B]) func(turn int) error
}

func (m move[B]) work() work { return work{bytes: float64(m.reads + m.writes), bound: copying} }

// operation makes the operands.
func (m move[B]) operation(mem *memory[B], from source[B]) (*operation, error) {
	call := m.set(mem, from)
	return &operation{call: call}, mem.err
}

// sizeOf is the bytes of n elements.
func sizeOf(dt backend.DType, n int) int {
	bytes, _ := dt.Size(n)
	return int(bytes)
}

// appends writes new keys and values, to all slots of a layer in shuffled blocks.
func appends[B backend.Buffer](act backend.DType, to layer) move[B] {
	return appendsAt[B](act, to, to.order())
}

// appendsAt writes new keys and values to some slots, of which none may be there twice.
func appendsAt[B backend.Buffer](act backend.DType, to layer, places []int64) move[B] {
	n := len(places) * to.width() // elements of the keys, and of the values
	return move[B]{sizeOf(act, 2*n), to.bytes(), func(m *memory[B], from source[B]) func(int) error {
		slots := upload(m, backend.I64, places)
		rows, cache := from.rows(act, 2*n, toRead), from.layer(to, toWrite)
		return func(turn int) error {
			fresh := rows(turn)
			return m.be.Append(m.stream, backend.AppendParams[B]{Cache: cache(turn), Tokens: len(places), Slots: slots,
				K: backend.Dense(fresh), V: backend.Rows[B]{Buf: fresh, Offset: n}})
		}
	}}
}

// gathers brings one sequence from its blocks into one piece.
func gathers[B backend.Buffer](of layer, to backend.DType) move[B] {
	n := of.slots * of.width()
	return move[B]{of.bytes(), 2 * sizeOf(to, n), func(m *memory[B], from source[B]) func(int) error {
		table := backend.Some(upload(m, backend.U32, shuffled(of.blocks())))
		k, cache, v := from.rows(to, n, toWrite), from.layer(of, toRead), from.rows(to, n, toWrite)
		return func(turn int) error {
			return m.be.Gather(m.stream, backend.GatherParams[B]{Cache: cache(turn), Table: table, Len: of.slots,
				K: backend.Some(k(turn)), V: backend.Some(v(turn))})
		}
	}}
}

// twice is a layer of two halves.
func twice(half layer) layer {
	half.slots *= 2
	return half
}

// copiesBlocks copies the blocks of one half of a layer to the other half.
func copiesBlocks[B backend.Buffer](half layer) move[B] {
	return move[B]{half.bytes(), half.bytes(), func(m *memory[B], from source[B]) func(int) error {
		list, cache := upload(m, backend.U32, pairs(half.blocks(), half.blocks())), from.layer(twice(half), toWrite)
		return func(turn int) error {
			view := cache(turn)
			return m.be.CopyBlocks(m.stream, backend.CopyBlocksParams[B]{From: view, To: view, Pairs: list, N: half.blocks()})
		}
	}}
}

// movesSlots moves the slots of one half of a layer to the other half.
func movesSlots[B backend.Buffer](half layer) move[B] {
	return move[B]{half.bytes(), half.bytes(), func(m *memory[B], from source[B]) func(int) error {
		var to []int64
		for i, slot := range half.order() {
			to = append(to, int64(i), int64(half.slots)+slot)
		}
		list, cache := upload(m, backend.I64, to), from.layer(twice(half), toWrite)
		return func(turn int) error {
			return m.be.MoveSlots(m.stream, backend.MoveSlotsParams[B]{Cache: cache(turn), Pairs: list, N: half.slots})
		}
	}}
}

// converts stores blocks as another type.
func converts[B backend.Buffer](of layer, keys backend.DType) move[B] {
	to := of
	to.keys = keys
	return move[B]{of.bytes(), to.bytes(), func(m *memory[B], from source[B]) func(int) error {
		list := upload(m, backend.U32, pairs(of.blocks(), 0))
		old, fresh := from.layer(of, toRead), from.layer(to, toWrite)
		return func(turn int) error {
			return m.be.ConvertBlocks(m.stream, backend.ConvertBlocksParams[B]{From: old(turn), To: fresh(turn), Pairs: list, N: of.blocks()})
		}
	}}
}

// rotates rotates keys in place, as when a sequence is shifted.
func rotates[B backend.Buffer](l layer) move[B] {
	bytes := l.plane(l.keys)
	return move[B]{bytes, bytes, func(m *memory[B], from source[B]) func(int) error {
		const positions = 512
		table, err := backend.RoPE{}.Table(l.dim, positions)
		if err != nil {
			m.err = err
			return nil
		}
		by := make([]int32, l.slots)
		for i := range by {
			by[i] = -100
		}
		slots, deltas := upload(m, backend.I64, l.order()), upload(m, backend.I32, by)
		rope := backend.RotaryTable[B]{Table: backend.Some(upload(m, backend.F32, table)), Positions: positions, Dims: l.dim, Magnitude: 1}
		cache := from.layer(l, toRotate)
		return func(turn int) error {
			return m.be.Rotate(m.stream, backend.RotateParams[B]{Cache: cache(turn), Slots: slots, Deltas: deltas, N: l.slots, Rotary: rope})
		}
	}}
}

// fills sets n numbers. Nothing is read, so the rate may be above that of a copy.
func fills[B backend.Buffer](n int) move[B] {
	return move[B]{0, sizeOf(backend.F16, n), func(m *memory[B], _ source[B]) func(int) error {
		buf := m.alloc(backend.F16, n)
		return func(int) error { return m.be.Fill(m.stream, buf, 0, n, 1) }
	}}
}

// merges combines partial results that were computed elsewhere.
func merges[B backend.Buffer](h heads, parts, tokens int) move[B] {
	rows := tokens * h.query
	return move[B]{parts * rows * (h.dim + 1) * 4, rows * h.dim * 2, func(m *memory[B], from source[B]) func(int) error {
		lse := m.filled(backend.F32, parts*rows)
		in, out := from.rows(backend.F32, parts*rows*h.dim, toRead), from.rows(backend.F16, rows*h.dim, toWrite)
		return func(turn int) error {
			return m.be.Merge(m.stream, backend.MergeParams[B]{Parts: parts, Tokens: tokens, Heads: h.query, Dim: h.dim,
				In: in(turn), LSE: lse, Out: backend.Dense(out(turn))})
		}
	}}
}
