package host

import "testing"

func BenchmarkPagedAppend(b *testing.B) {
	c := newPaged(b, 1024, 8)
	token := make([]float64, 8)
	b.ReportAllocs()
	for b.Loop() {
		if c.Len() == c.MaxTokens() {
			c.Clear()
		}
		if err := c.Append(token); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPagedAppendTensor(b *testing.B) {
	c := newPaged(b, 1024, 128)
	tokens := ramp(0, 256, 128)
	b.ReportAllocs()
	b.SetBytes(256 * 128 * 8)
	for b.Loop() {
		if c.Len() == c.MaxTokens() {
			c.Clear()
		}
		if err := c.AppendTensor(tokens); err != nil {
			b.Fatal(err)
		}
	}
}

// A fork of 1024 tokens that writes one: the price of sharing.
func BenchmarkPagedCloneAppend(b *testing.B) {
	s := newStore(b, 128, 16, 128)
	c, err := s.NewCache(2048)
	if err != nil {
		b.Fatal(err)
	}
	if err := c.AppendTensor(ramp(0, 1023, 128)); err != nil {
		b.Fatal(err)
	}
	token := make([]float64, 128)
	b.ReportAllocs()
	for b.Loop() {
		f, err := c.Clone()
		if err != nil {
			b.Fatal(err)
		}
		if err := f.Append(token); err != nil {
			b.Fatal(err)
		}
		f.Release()
	}
}

func BenchmarkPagedRead(b *testing.B) {
	c := newPaged(b, 1024, 128)
	if err := c.AppendTensor(ramp(0, 1024, 128)); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(1024 * 128 * 8)
	sum := 0.0
	for b.Loop() {
		for _, rows := range c.Blocks() {
			for _, x := range rows {
				sum += x
			}
		}
	}
}
