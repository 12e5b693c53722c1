package bench

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// memory is the operands of a trial. After the first error, which stays in err, nothing is
// allocated: what makes operands looks at it once, at the end.
type memory[B backend.Buffer] struct {
	be     backend.Backend[B]
	stream backend.Stream
	owned  []B
	closes []func() error // of what uses them
	err    error
	random map[backend.DType][]byte // what memory is filled with
}

// close frees everything.
func (m *memory[B]) close() error {
	var errs []error
	for _, end := range m.closes {
		errs = append(errs, end())
	}
	for _, b := range m.owned {
		errs = append(errs, m.be.Free(b))
	}
	m.closes, m.owned = nil, nil
	return errors.Join(errs...)
}

// keep is b, to be freed at the end.
func (m *memory[B]) keep(b B, err error) B {
	if err == nil {
		m.owned = append(m.owned, b)
	}
	m.err = errors.Join(m.err, err)
	return b
}

// alloc is n elements of memory that nobody has written to.
func (m *memory[B]) alloc(dt backend.DType, n int) (b B) {
	if m.err != nil {
		return b
	}
	return m.keep(m.be.Alloc(dt, n))
}

// constant is alloc with n times a value.
func (m *memory[B]) constant(dt backend.DType, n int, value float64) B {
	b := m.alloc(dt, n)
	if m.err == nil {
		m.err = m.be.Fill(m.stream, b, 0, n, value)
	}
	return b
}

// filled is n numbers of [−1, 1), or as many codes: constant ones would take less power, and
// time.
func (m *memory[B]) filled(dt backend.DType, n int) B {
	b := m.alloc(dt, n)
	first := min(n, patternLen)
	if m.err == nil {
		m.err = m.be.Upload(m.stream, b, 0, m.pattern(dt)[:(first*dt.Bits()+7)/8])
	}
	for have := first; have < n && m.err == nil; have *= 2 {
		m.err = m.be.Copy(m.stream, b, have, b, 0, min(have, n-have))
	}
	return b
}

// pattern is random numbers of a type, made once.
func (m *memory[B]) pattern(dt backend.DType) []byte {
	if m.random == nil {
		m.random = map[backend.DType][]byte{}
	}
	if m.random[dt] == nil {
		m.random[dt] = random(dt)
	}
	return m.random[dt]
}

// upload is alloc with contents.
func upload[T backend.Number, B backend.Buffer](m *memory[B], dt backend.DType, values []T) (b B) {
	if m.err != nil {
		return b
	}
	return m.keep(backend.AllocFrom(m.be, m.stream, dt, values))
}

// patternLen is the numbers that repeat in memory.
const patternLen = 1 << 16

// random is patternLen numbers, or codes.
func random(dt backend.DType) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	if dt.Quantized() {
		codes := make([]byte, patternLen*dt.Bits()/8)
		for i := range codes {
			codes[i] = byte(rng.UintN(256)) & 0x77 // no NaN of a float of 8 bits
		}
		return codes
	}
	halves, floats := make([]uint16, patternLen), make([]float32, patternLen)
	for i := range floats {
		floats[i] = 2*rng.Float32() - 1
		if halves[i] = quant.F16(floats[i]); dt == backend.BF16 {
			halves[i] = quant.BF16(floats[i])
		}
	}
	if dt == backend.F32 {
		return backend.BytesOf(floats)
	}
	return backend.BytesOf(halves)
}

// fill writes random numbers that any type can be read from, so that one piece of memory
// serves all of them. Halves of a word are finite in f16, bf16 and as a word's upper half in
// f32, normal, and below 1; bytes are no NaN of a float of 8 bits.
func fill(mem []byte) {
	const patternBytes = 1 << 20
	rng := rand.New(rand.NewPCG(1, 2))
	first := mem[:min(patternBytes, len(mem)/2*2)]
	for i := 0; i < len(first); i += 2 {
		bits := uint16(rng.Uint32())
		binary.LittleEndian.PutUint16(first[i:], bits&0x83fb|0x3800)
	}
	for have := len(first); have > 0 && have < len(mem); have *= 2 {
		copy(mem[have:], mem[:have])
	}
}
