package states

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/ferrumkv/ferrumkv/internal/seal"
)

// A manifest is a head of 8 bytes and a body, with the SHA-256 of both at its end, or sealed instead:
//
//	"fkvm"  version 1  sealed (0 or 1)  0  0  |  body  sum (32)    or    nonce (24)  sealed body and tag
//
// The body is the key, three numbers of 8 bytes (stored, expires, in nanoseconds since 1970; pinned), and the parts: their count, and of each its
// name, its count of chunks, and the name (32) and bytes (4) of each chunk. Texts and lists have their length before them, as a uvarint.
const (
	manifestMagic   = "fkvm"
	manifestHead    = 8
	schema          = 1
	largestManifest = 256 << 20
	chunkEntry      = sha256.Size + 4
	mostParts       = 1 << 10
)

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
	b := append([]byte(manifestMagic), schema, 0, 0, 0)
	if sealer != nil {
		b[5] = 1
		b = append(b, make([]byte, seal.NonceBytes)...)
	}
	at := len(b)
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
	if sealer == nil {
		sum := sha256.Sum256(b)
		return append(b, sum[:]...), nil
	}
	b = append(b, make([]byte, seal.TagBytes)...)
	body := b[at : len(b)-seal.TagBytes]
	_, err := sealer.Seal(body[:0], (*[seal.NonceBytes]byte)(b[manifestHead:]), body, manifestAbout(b, s.ID))
	return b, err
}

func manifestAbout(head []byte, id ID) []byte {
	return append(about("manifest", id[:]), head[:manifestHead]...)
}

var errWritten = errors.New("it is not what was written")

// decodeManifest reads the manifest in the file of an ID, whose parts may have so many bytes, and the chunks so many each. It overwrites b.
// It takes memory for what the file really has.
func decodeManifest(b []byte, id ID, sealer *seal.Sealer, names namer, most int64, largest int) (*state, error) {
	if len(b) < manifestHead+sha256.Size || string(b[:4]) != manifestMagic {
		return nil, errWritten
	}
	if b[4] != schema || b[5] != 0 && b[5] != 1 || b[6]|b[7] != 0 {
		return nil, fmt.Errorf("version %d and flags %d, and not version %d", b[4], b[5], schema)
	}
	if (b[5] == 1) != (sealer != nil) {
		return nil, fmt.Errorf("sealed is %v in it", b[5] == 1)
	}
	body := b[manifestHead : len(b)-sha256.Size]
	if sealer == nil {
		if sum := sha256.Sum256(b[:len(b)-sha256.Size]); subtle.ConstantTimeCompare(sum[:], b[len(b)-sha256.Size:]) == 0 {
			return nil, errWritten
		}
	} else {
		rest := b[manifestHead:]
		if len(rest) < sealedBytes {
			return nil, errWritten
		}
		sealed := rest[seal.NonceBytes:]
		var err error
		if body, err = sealer.Open(sealed[:0], (*[seal.NonceBytes]byte)(rest), sealed, manifestAbout(b, id)); err != nil {
			return nil, errWritten
		}
	}
	s := &state{size: onDisk(len(b))}
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
		if s.Bytes += p.Bytes; s.Bytes > most || len(s.Parts) == mostParts {
			return nil, fmt.Errorf("%d parts of %d bytes, of %d and %d at most", len(s.Parts)+1, s.Bytes, mostParts, most)
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

// reader takes fields from the front of bytes. After one that is not there it is wrong, and returns zeros.
type reader struct {
	rest  []byte
	wrong bool
}

func (r *reader) take(n int) []byte {
	if n > len(r.rest) {
		r.wrong, r.rest = true, nil
		return make([]byte, min(n, chunkEntry))
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

// count is the length of a list whose elements have so many bytes at least, for which there is so much.
func (r *reader) count(each int) int {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > uint64(len(r.rest)-size)/uint64(each) {
		r.wrong, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return int(n)
}

func (r *reader) text() string { return string(r.take(r.count(1))) }
func (r *reader) word() uint64 { return le.Uint64(r.take(8)) }
