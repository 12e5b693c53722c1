package main

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/ferrumkv/ferrumkv/backend"
)

// bandwidth measures how fast a device's memory is read and copied, which is
// the limit of what a kernel can reach.
type bandwidth struct {
	be      backend.Backend[backend.AnyBuffer]
	stream  backend.Stream
	memory  backend.AnyBuffer // i64
	host    []uint64          // the same memory where the processor is the device
	threads int
}

func newBandwidth(be backend.Backend[backend.AnyBuffer], stream backend.Stream, footprint int64) (*bandwidth, error) {
	m := &bandwidth{be: be, stream: stream, threads: be.Info().Units}
	var err error
	if m.memory, err = be.Alloc(backend.I64, int(footprint/8)); err != nil {
		return nil, err
	}
	if err = m.prepare(); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

func (m *bandwidth) prepare() error {
	// The system gives a process memory at the first write only.
	if err := m.be.Fill(m.stream, m.memory, 0, m.memory.Len(), 1); err != nil {
		return err
	}
	if err := m.stream.Sync(); err != nil {
		return err
	}
	access, ok := backend.HostAccessOf(m.be)
	if name, _, _ := strings.Cut(m.be.Info().Name, ":"); !ok || name != "cpu" {
		return nil
	}
	bytes, err := access.HostBytes(m.memory)
	if err != nil {
		return err
	}
	m.host = unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(bytes))), len(bytes)/8)
	return nil
}

func (m *bandwidth) close() error { return m.be.Free(m.memory) }

// limit is the bytes a second that a kernel can move at most: reading, or reading
// and writing alike. A device other than the processor offers a copy to measure
// with, so that is the limit of both.
func (m *bandwidth) limit(copies bool) (float64, error) {
	start := time.Now()
	switch {
	case m.host == nil:
		half := m.memory.Len() / 2
		if err := m.be.Copy(m.stream, m.memory, 0, m.memory, half, half); err != nil {
			return 0, err
		}
		if err := m.stream.Sync(); err != nil {
			return 0, err
		}
	case copies:
		m.each(func(part []uint64) { copy(part[:len(part)/2], part[len(part)/2:]) })
	default:
		m.each(readLines)
	}
	return float64(m.memory.Bytes()) / time.Since(start).Seconds(), nil
}

// each gives every thread its part of the memory.
func (m *bandwidth) each(work func(part []uint64)) {
	var done sync.WaitGroup
	n := len(m.host) / m.threads
	for i := range m.threads {
		done.Go(func() { work(m.host[i*n:][:n]) })
	}
	done.Wait()
}

// keep holds a result that the compiler must not find unused.
var keep atomic.Uint64

// readLines brings every cache line of memory to the processor. One word of each
// is enough for that, and leaves memory, not arithmetic, as the limit.
func readLines(memory []uint64) {
	const line = 8 // words of a cache line: 64 bytes, or half of one
	var a, b uint64
	for ; len(memory) >= 4*line; memory = memory[4*line:] {
		a += memory[0] + memory[2*line]
		b += memory[line] + memory[3*line]
	}
	keep.Add(a + b)
}
