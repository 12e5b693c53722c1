package states

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ferrumkv/ferrumkv/internal/files"
	"github.com/ferrumkv/ferrumkv/internal/seal"
)

// pack is a file of chunks: what one Put, or one rewriting, has stored.
type pack struct {
	path   string
	number uint64 // its name
	size   int64  // that it takes on disk
	live   int64  // bytes of those chunks in it that are used, with their entries
	stuck  bool   // it could not be read as a whole, and is not rewritten
}

// place is where a chunk is.
type place struct {
	pack   *pack // nil: nowhere yet
	at     int64
	stored int
}

// cost is what a chunk takes of its pack.
func (p place) cost() int64 { return int64(p.stored) + packEntry }

// entry is a chunk in the index of a pack.
type entry struct {
	chunk
	stored int
	heals  bool // it was written since the one that is there is damaged
}

// A pack is chunks one after the other, as coder.encode has them, then a record, and the length of that (4). The record's body is the index: of each chunk
// its name (32), its bytes (4), and the bytes that it has here (4).
const (
	packMagic  = "fkvp"
	packEntry  = sha256.Size + 8
	packLength = 4
	packName   = "%016x.pack"
)

func (s *Store) packPath(number uint64) string {
	return filepath.Join(s.dir, "packs", fmt.Sprintf(packName, number))
}

// isPack reports whether a name is that of a pack: 16 hexadecimal digits in lower case and an ending. Numbers from 2⁶³ on are nobody's: no next one
// would follow the last.
func isPack(name string) bool {
	digits, is := strings.CutSuffix(name, ".pack")
	return is && len(digits) == 16 && digits[0] < '8' && strings.Trim(digits, "0123456789abcdef") == ""
}

// whole is what a pack takes with so many bytes of chunks and entries.
func (s *Store) whole(bytes int64) int64 {
	if s.sealer != nil {
		return onDisk(bytes + recordHead + sealedBytes + packLength)
	}
	return onDisk(bytes + recordHead + sha256.Size + packLength)
}

// encodeIndex is what comes behind the chunks of a pack.
func encodeIndex(entries []entry, path string, sealer *seal.Sealer) ([]byte, error) {
	b, err := record(packMagic, sealer, about("pack", []byte(filepath.Base(path))), func(b []byte) []byte {
		for _, e := range entries {
			b = le.AppendUint32(le.AppendUint32(append(b, e.Sum[:]...), uint32(e.Bytes)), uint32(e.stored))
		}
		return b
	})
	return le.AppendUint32(b, uint32(len(b))), err
}

// decodeIndex reads the record of a pack with so many bytes before it. It overwrites b.
func decodeIndex(b []byte, path string, before int64, sealer *seal.Sealer, largest int) ([]entry, error) {
	body, err := openRecord(packMagic, b, sealer, about("pack", []byte(filepath.Base(path))))
	if err != nil {
		return nil, err
	}
	if len(body)%packEntry != 0 {
		return nil, errWritten
	}
	around := 0
	if sealer != nil {
		around = sealedBytes
	}
	out := make([]entry, 0, len(body)/packEntry)
	for ; len(body) > 0; body = body[packEntry:] {
		e := entry{chunk: chunk{sum(body[:sha256.Size]), int(le.Uint32(body[sha256.Size:]))}, stored: int(le.Uint32(body[sha256.Size+4:]))}
		if e.Bytes < 1 || e.Bytes > largest || e.stored <= around || e.stored > e.Bytes+around {
			return nil, fmt.Errorf("a chunk of %d bytes in %d, of %d at most", e.Bytes, e.stored, largest)
		}
		before -= int64(e.stored)
		out = append(out, e)
	}
	if before != 0 {
		return nil, errLength
	}
	return out, nil
}

// errTorn is a pack that is not what was written.
type errTorn struct{ error }

// openPack opens a pack for reading, and reads its index and the size of its file. errTorn: it is not what was written.
func (s *Store) openPack(path string) (*os.File, []entry, int64, error) {
	f, err := files.Open(path, os.O_RDONLY)
	if err != nil {
		return nil, nil, 0, err
	}
	entries, size, err := s.readIndex(f)
	if err != nil {
		f.Close()
		return nil, nil, 0, err
	}
	return f, entries, size, nil
}

func (s *Store) readIndex(f *os.File) ([]entry, int64, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	size := info.Size()
	if size < packLength {
		return nil, 0, errTorn{errLength}
	}
	b := make([]byte, packLength)
	if err := readAt(f, b, size-packLength); err != nil {
		return nil, 0, err
	}
	n := int64(le.Uint32(b))
	before := size - packLength - n
	if before < 0 || n > largestRecord {
		return nil, 0, errTorn{errLength}
	}
	b = make([]byte, n)
	if err := readAt(f, b, before); err != nil {
		return nil, 0, err
	}
	entries, err := decodeIndex(b, f.Name(), before, s.sealer, s.o.sizes.max)
	if err != nil {
		return nil, 0, errTorn{err}
	}
	return entries, size, nil
}
