package kvcache

import "github.com/ferrumkv/ferrumkv/backend"

// What tests give to Append and Attend, by what a call of them looks at.

func kv[B backend.Buffer](k, v B) LayerIO[B] {
	return LayerIO[B]{K: backend.Dense(k), V: backend.Dense(v)}
}

func qkv[B backend.Buffer](q, k, v B) LayerIO[B] {
	return LayerIO[B]{Q: backend.Dense(q), K: backend.Dense(k), V: backend.Dense(v)}
}

func rotated[B backend.Buffer](q, k, v B) LayerIO[B] {
	io := qkv(q, k, v)
	io.Rotate = true
	return io
}

func attending[B backend.Buffer](q, out B) LayerIO[B] {
	return LayerIO[B]{Q: backend.Dense(q), Out: backend.Dense(out)}
}

func attendingTo[B backend.Buffer](q backend.Rows[B], o backend.Outputs[B]) LayerIO[B] {
	return LayerIO[B]{Q: q, Out: o.Rows, LSE: o.LSE, LSEOffset: o.LSEOffset, Scores: o.Scores}
}
