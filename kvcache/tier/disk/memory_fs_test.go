package disk

import (
	"io"
	"io/fs"
	"slices"
	"sync"
	"syscall"
)

// op is a change that a memoryFS has seen.
type op struct {
	file string
	kind string // write, truncate, sync, lost (a sync that failed), whole
	at   int64  // of a write; the size of a truncate
	data []byte
}

// memoryFS is a file system in memory that keeps a log of all changes, so that a crash can be staged at each of them. A hook may
// make a call fail; of a write, so many bytes are written nevertheless.
type memoryFS struct {
	mu      sync.Mutex
	files   map[string]*memoryFile
	log     []op
	hook    func(op) (torn int, err error) // reads come to it, too
	pause   func(op)                       // before and after writes, truncates and syncs, without the lock
	size    int64
	other   int64 // bytes that others use
	network string
	open    int
}

func newMemoryFS() *memoryFS { return &memoryFS{files: map[string]*memoryFile{}, size: 1 << 40} }

type memoryFile struct {
	fs     *memoryFS
	path   string
	data   []byte
	locked bool
}

// handle is a memoryFile as somebody has it open.
type handle struct {
	*memoryFile
	locks, closed bool
}

func (m *memoryFS) Prepare(string) error           { return nil }
func (m *memoryFS) SyncDir(string) error           { return nil }
func (m *memoryFS) Network(string) (string, error) { return m.network, nil }

func (m *memoryFS) Open(path string) (file, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.files[path] == nil {
		m.files[path] = &memoryFile{fs: m, path: path}
	}
	m.open++
	return &handle{memoryFile: m.files[path]}, nil
}

func (m *memoryFS) ReadFile(path string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.files[path]; f != nil {
		return slices.Clone(f.data), nil
	}
	return nil, fs.ErrNotExist
}

func (m *memoryFS) WriteFile(path string, b []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.do(op{file: path, kind: "whole"}); err != nil {
		return err
	}
	m.log[len(m.log)-1].data = slices.Clone(b)
	m.files[path] = &memoryFile{fs: m, path: path, data: slices.Clone(b)}
	return nil
}

func (m *memoryFS) Space(string) (free, total int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.size - m.other - m.used(), m.size, nil
}

func (m *memoryFS) used() (n int64) {
	for _, f := range m.files {
		n += int64(len(f.data))
	}
	return n
}

// do logs a change, unless the hook says that it fails.
func (m *memoryFS) do(o op) error {
	if m.hook != nil {
		if torn, err := m.hook(o); err != nil {
			switch {
			case o.kind == "write" && torn > 0:
				o.data = slices.Clone(o.data[:torn])
				m.files[o.file].put(o.at, o.data)
				m.log = append(m.log, o)
			case o.kind == "sync":
				m.log = append(m.log, op{file: o.file, kind: "lost"})
			}
			return err
		}
	}
	if o.kind != "read" {
		o.data = slices.Clone(o.data)
		m.log = append(m.log, o)
	}
	return nil
}

// put writes bytes, and makes the file longer where it ends before them.
func (f *memoryFile) put(at int64, b []byte) {
	if end := int(at) + len(b); end > len(f.data) {
		f.data = append(f.data, make([]byte, end-len(f.data))...)
	}
	copy(f.data[at:], b)
}

func (f *memoryFile) cut(size int64) {
	if size > int64(len(f.data)) {
		f.put(size, nil)
	}
	f.data = f.data[:size:size]
}

// pausing sets what changes of files wait for.
func (m *memoryFS) pausing(pause func(op)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pause = pause
}

// changes is how many there have been.
func (m *memoryFS) changes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.log)
}

// taken sets how much others use.
func (m *memoryFS) taken(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.other = bytes
}

func (h *handle) call(o op, apply func() error) error {
	o.file = h.path
	h.fs.mu.Lock()
	if pause := h.fs.pause; pause != nil && o.kind != "read" {
		h.fs.mu.Unlock()
		pause(o)
		defer pause(o)
		h.fs.mu.Lock()
	}
	defer h.fs.mu.Unlock()
	if h.closed {
		return fs.ErrClosed
	}
	if err := h.fs.do(o); err != nil {
		return err
	}
	return apply()
}

func (h *handle) ReadAt(b []byte, at int64) (n int, err error) {
	err = h.call(op{kind: "read", at: at}, func() error {
		if at < int64(len(h.data)) {
			n = copy(b, h.data[at:])
		}
		if n < len(b) {
			return io.EOF
		}
		return nil
	})
	return n, err
}

func (h *handle) WriteAt(b []byte, at int64) (n int, err error) {
	return len(b), h.call(op{kind: "write", at: at, data: b}, func() error { h.put(at, b); return nil })
}

func (h *handle) Truncate(size int64) error {
	return h.call(op{kind: "truncate", at: size}, func() error { h.cut(size); return nil })
}

func (h *handle) Allocate(_, to int64) error {
	h.fs.mu.Lock()
	full := h.fs.used()+h.fs.other+to-int64(len(h.data)) > h.fs.size
	h.fs.mu.Unlock()
	if full {
		return errNoSpace
	}
	return h.Truncate(to)
}

func (h *handle) Sync() error { return h.call(op{kind: "sync"}, func() error { return nil }) }

func (h *handle) Size() (n int64, err error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	return int64(len(h.data)), nil
}

func (h *handle) There() bool {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	return h.fs.files[h.path] == h.memoryFile
}

func (h *handle) Lock() error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.locked {
		return errLocked
	}
	h.locked, h.locks = true, true
	return nil
}

func (h *handle) Close() error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.closed {
		return fs.ErrClosed
	}
	h.closed = true
	h.fs.open--
	if h.locks {
		h.locked = false
	}
	return nil
}

// failing is a hook that lets calls of a kind on a file fail.
func failing(file, kind string, err syscall.Errno, torn int) func(op) (int, error) {
	return func(o op) (int, error) {
		if o.kind == kind && o.file == "/cache/"+file {
			return torn, err
		}
		return 0, nil
	}
}
