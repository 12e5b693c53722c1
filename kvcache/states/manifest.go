package states

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ferrumkv/ferrumkv/internal/seal"
)

// The body of a manifest is the key, three numbers of 8 bytes (stored, expires, in nanoseconds since 1970; pinned), and the parts: their count, and
// of each its name, its count of chunks, and the name (32) and bytes (4) of each chunk. Where a chunk is the indexes of packs say. Texts and
// lists have their length before them, as a uvarint.
const (
	manifestMagic = "fkvm"
	chunkEntry    = sha256.Size + 4
	mostParts     = 1 << 10
)

// lastTime is the last that a manifest can say: in the year 2262.
var lastTime = time.Unix(0, math.MaxInt64)

// append appends the key as manifests have it.
func (k *Key) append(b []byte) []byte {
	for _, f := range k.fields() {
		b = appendText(b, f.value)
	}
	b = appendText(b, k.Name)
	b = binary.AppendUvarint(b, uint64(len(k.Tokens)))
	for _, t := range k.Tokens {
		b = le.AppendUint32(b, t)
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// encode is the file of a state's manifest.
func (s *state) encode(sealer *seal.Sealer) ([]byte, error) {
	return record(manifestMagic, sealer, about("manifest", s.ID[:]), func(b []byte) []byte {
		b = s.Key.append(b)
		expires, pinned := int64(0), uint64(0)
		if !s.Expires.IsZero() {
			expires = s.Expires.UnixNano()
		}
		if s.Pinned {
			pinned = 1
		}
		b = le.AppendUint64(b, uint64(s.Stored.UnixNano()))
		b = le.AppendUint64(b, uint64(expires))
		b = le.AppendUint64(b, pinned)
		b = binary.AppendUvarint(b, uint64(len(s.Parts)))
		for i, p := range s.Parts {
			b = binary.AppendUvarint(appendText(b, p.Name), uint64(len(s.chunks[i])))
			for _, c := range s.chunks[i] {
				b = le.AppendUint32(append(b, c.Sum[:]...), uint32(c.Bytes))
			}
		}
		return b
	})
}

// decodeManifest reads the manifest in the file of an ID, whose chunks have at most largest bytes. It overwrites b.
// It takes memory for what the file really has.
func decodeManifest(b []byte, id ID, sealer *seal.Sealer, names namer, largest int) (*state, error) {
	body, err := openRecord(manifestMagic, b, sealer, about("manifest", id[:]))
	if err != nil {
		return nil, err
	}
	s := &state{size: onDisk(int64(len(b)))}
	r := reader{rest: body}
	for _, to := range []*string{&s.Key.Model, &s.Key.Engine, &s.Key.Version, &s.Key.Settings, &s.Key.Adapter, &s.Key.Salt, &s.Key.Name} {
		*to = r.text()
	}
	if n := r.count(4); n > 0 {
		s.Key.Tokens = make([]uint32, n)
		for i := range s.Key.Tokens {
			s.Key.Tokens[i] = le.Uint32(r.take(4))
		}
	}
	s.Stored = time.Unix(0, int64(r.word()))
	if at := int64(r.word()); at != 0 {
		s.Expires = time.Unix(0, at)
	}
	pinned := r.word()
	s.Pinned = pinned == 1
	r.wrong = r.wrong || pinned > 1
	for range r.count(2) {
		p := PartInfo{Name: r.text()}
		n := r.count(chunkEntry)
		chunks := make([]chunk, n)
		for i := range chunks {
			e := r.take(chunkEntry)
			chunks[i] = chunk{sum(e), int(le.Uint32(e[sha256.Size:]))}
			if chunks[i].Bytes < 1 || chunks[i].Bytes > largest {
				return nil, fmt.Errorf("a chunk of %d bytes, of %d at most", chunks[i].Bytes, largest)
			}
			p.Bytes += int64(chunks[i].Bytes)
		}
		if s.Bytes += p.Bytes; len(s.Parts) == mostParts {
			return nil, fmt.Errorf("more than %d parts", mostParts)
		}
		s.Parts, s.chunks = append(s.Parts, p), append(s.chunks, chunks)
	}
	if r.wrong || len(r.rest) > 0 {
		return nil, errors.New("its fields do not fill it")
	}
	if s.ID = names.id(&s.Key); s.ID != id {
		return nil, fmt.Errorf("it is that of state %v", s.ID)
	}
	return s, nil
}
