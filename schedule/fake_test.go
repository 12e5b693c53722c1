package schedule

import (
	"errors"
	"hash/fnv"
	"math"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

type buffer = *cpu.Buffer

const dim, vocabulary = 64, 97

// value is what a token adds to an element of a row: a small whole number, so that sums are exact in any order. It depends on where the
// token is, on the salt and on the image that the token stands for.
func value(r *Request, token uint32, at, element int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte{byte(token), byte(token >> 8), byte(at), byte(at >> 8), byte(element)})
	_, _ = h.Write(r.Open.Salt)
	for _, item := range r.Open.Items {
		if item.Begin <= at && at < item.End {
			_, _ = h.Write(item.Hash)
		}
	}
	return int(h.Sum32()>>8) % 64
}

// choose is the token that follows rows whose sums are these, and whether the text ends with it.
func choose(sums []int) (token uint32, last bool) {
	h := fnv.New32a()
	for _, x := range sums {
		_, _ = h.Write([]byte{byte(x), byte(x >> 8)})
	}
	token = h.Sum32() >> 8 % vocabulary
	return token, token%31 == 0
}

// alone is what follows a request's prompt where there is no cache and nobody else.
func alone(r *Request, capacity int) (answer []uint32, reason Reason) {
	sums := make([]int, dim)
	text := slices.Clone(r.Prompt)
	for at := 0; ; at++ {
		for e := range sums {
			sums[e] += value(r, text[at], at, e)
		}
		if at < len(r.Prompt)-1 {
			continue
		}
		token, last := choose(sums)
		text, answer = append(text, token), append(answer, token)
		switch {
		case last:
			return answer, Stopped
		case len(answer) == r.MaxTokens || at+1 == capacity:
			return answer, Length
		}
	}
}

// fake is a model whose next token depends on every token before it, by attention over the cache: queries are zero, so
// that what they get is the mean of all values. Only its first layer counts.
type fake struct {
	be      backend.Backend[buffer]
	stream  backend.Stream
	forward func(*Step[buffer]) error                   // is asked first, unless nil
	next    func(step *Step[buffer], i int) (err error) // likewise
	means   []float32
	more    []int // layers after the first that have keys and values

	steps    [][]int // the tokens of each part of each step
	computed int
}

func (f *fake) Forward(s *Step[buffer]) (err error) {
	var lens []int
	var v []float32
	for _, p := range s.Parts {
		lens = append(lens, len(p.Tokens))
		for i, token := range p.Tokens {
			for e := range dim {
				v = append(v, float32(value(p.Request, token, p.Seq.NextPosition()+i, e)))
			}
		}
		f.computed += len(p.Tokens)
	}
	f.steps = append(f.steps, lens)
	if f.forward != nil {
		if err := f.forward(s); err != nil {
			return err
		}
	}
	f.means = make([]float32, len(v))
	var bufs [4]buffer
	for i, row := range [][]float32{f.means, f.means, v, f.means} {
		b, err := backend.AllocFrom(f.be, f.stream, backend.F32, row)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.be.Free(b)) }()
		bufs[i] = b
	}
	io := kvcache.Dense(bufs[0], bufs[1], bufs[2], bufs[3])
	for _, layer := range f.more {
		err = errors.Join(err, s.Batch.Append(layer, io), s.Batch.Attend(layer, io))
	}
	return errors.Join(err, s.Batch.Append(0, io), s.Batch.Attend(0, io), backend.Download(f.be, f.stream, f.means, bufs[3], 0))
}

func (f *fake) Next(s *Step[buffer], part int) (uint32, bool, error) {
	if f.next != nil {
		if err := f.next(s, part); err != nil {
			return 0, false, err
		}
	}
	row := -1
	for _, p := range s.Parts[:part+1] {
		row += len(p.Tokens)
	}
	sums := make([]int, dim)
	for e := range sums {
		sums[e] = int(math.Round(float64(f.means[row*dim+e]) * float64(s.Parts[part].Seq.Len())))
	}
	token, last := choose(sums)
	return token, last, nil
}
