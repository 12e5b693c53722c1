package disk

import (
	"io"
	"io/fs"
	"sync"
	"time"
)

// Simulation is a disk whose files are in memory, without what was never written: for programs that want to know what a disk
// of so many blocks would keep. All else is the tier that Open returns. Zero values are as in Options.
type Simulation struct {
	Blocks      int
	Payload     int64 // bytes; small ones will do
	Admission   Admission
	WriteBudget int64            // bytes a day
	Now         func() time.Time // nil: time.Now
}

// Open returns an empty tier, which the caller closes.
func (s Simulation) Open() (*Tier, error) {
	stride := (&codec{payload: s.Payload}).stride()
	return Open(Options{Dir: "simulation", Payload: s.Payload, Bytes: 3*page + int64(s.Blocks)*(stride+entryBytes), Floor: 1,
		Admission: s.Admission, WriteBudget: s.WriteBudget, system: simulated{}, now: s.Now})
}

// simulated is a file system in memory with nothing in it.
type simulated struct{}

func (simulated) Prepare(string) error                        { return nil }
func (simulated) Open(string) (file, error)                   { return &sparse{}, nil }
func (simulated) ReadFile(string) ([]byte, error)             { return nil, fs.ErrNotExist }
func (simulated) WriteFile(string, []byte) error              { return nil }
func (simulated) SyncDir(string) error                        { return nil }
func (simulated) Space(string) (free, total int64, err error) { return 1 << 62, 1 << 62, nil }
func (simulated) Network(string) (string, error)              { return "", nil }

// piece is what a sparse file has or has not.
const piece = entryBytes

// sparse is a file in memory; what was not written reads as zeros.
type sparse struct {
	mu     sync.Mutex
	size   int64
	pieces map[int64]*[piece]byte
}

// each calls do with the parts of b that lie in one piece each; of one that is not there, nil.
func (f *sparse) each(b []byte, at int64, do func(number int64, there *[piece]byte, from int64, part []byte)) {
	for len(b) > 0 {
		number, from := at/piece, at%piece
		n := min(int64(len(b)), piece-from)
		do(number, f.pieces[number], from, b[:n])
		b, at = b[n:], at+n
	}
}

func (f *sparse) ReadAt(b []byte, at int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := int(max(min(int64(len(b)), f.size-at), 0))
	f.each(b[:n], at, func(_ int64, there *[piece]byte, from int64, part []byte) {
		if there == nil {
			clear(part)
		} else {
			copy(part, there[from:])
		}
	})
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *sparse) WriteAt(b []byte, at int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pieces == nil {
		f.pieces = map[int64]*[piece]byte{}
	}
	f.each(b, at, func(number int64, there *[piece]byte, from int64, part []byte) {
		if there == nil {
			there = new([piece]byte)
			f.pieces[number] = there
		}
		copy(there[from:], part)
	})
	f.size = max(f.size, at+int64(len(b)))
	return len(b), nil
}

func (f *sparse) Truncate(size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for number, there := range f.pieces {
		if begin := number * piece; begin >= size {
			delete(f.pieces, number)
		} else if size-begin < piece {
			clear(there[size-begin:])
		}
	}
	f.size = size
	return nil
}

func (f *sparse) Allocate(_, to int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.size = max(f.size, to)
	return nil
}

func (f *sparse) Size() (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.size, nil
}

func (*sparse) Sync() error  { return nil }
func (*sparse) Lock() error  { return nil }
func (*sparse) There() bool  { return true }
func (*sparse) Close() error { return nil }
