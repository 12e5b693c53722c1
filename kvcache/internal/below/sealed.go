package below

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"

	"github.com/ferrumkv/ferrumkv/internal/seal"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// sealed is a tier of the program's own, which sees only the size of blocks, and cannot change them undetected: payloads are encrypted and
// authenticated with their keys and sums, and keys are derived from the secret. So pools with another secret, or without one, do not find
// these blocks in a tier that they share, and do not take them for damage.
//
// The tier's block: the payload, encrypted; its tag, 16 bytes; the nonce, 24; its sum, 4.
type sealed struct {
	tier.Tier
	name   string // of the tier, asked for once
	sealer *seal.Sealer
	names  []byte    // makes keys
	room   sync.Pool // of *[]byte
}

// sealedMore is how many bytes a block has beside its payload.
const sealedMore = seal.TagBytes + seal.NonceBytes + 4

const (
	sealedName  = "ferrumkv sealed block 1" // prefix of the authenticated data
	sealedNames = "ferrumkv sealed keys 1"  // derives the secret of keys
)

func newSealed(t tier.Tier, secret []byte) (*sealed, error) {
	s, err := seal.New(secret)
	if err != nil {
		return nil, err
	}
	return &sealed{Tier: t, name: t.Info().Name, sealer: s, names: mac(secret, []byte(sealedNames)), room: sync.Pool{New: func() any { return new([]byte) }}}, nil
}

func mac(secret, of []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write(of)
	return h.Sum(nil)
}

// key is the tier's key for a key. The zero key stays: it is none, or all.
func (s *sealed) key(k tier.Key) tier.Key {
	if k == (tier.Key{}) {
		return k
	}
	return tier.Key(mac(s.names, k[:]))
}

func (s *sealed) keys(list []tier.Key) []tier.Key {
	out := make([]tier.Key, len(list))
	for i, k := range list {
		out[i] = s.key(k)
	}
	return out
}

// about is the data authenticated with a payload.
func about(k tier.Key, sum uint32) []byte {
	return binary.LittleEndian.AppendUint32(append([]byte(sealedName), k[:]...), sum)
}

// Info describes the tier.
func (s *sealed) Info() tier.Info {
	info := s.Tier.Info()
	if info.Largest > 0 {
		info.Largest = max(info.Largest-sealedMore, 1) // 0 would be any
	}
	return info
}

// Has implements tier.Tier.
func (s *sealed) Has(ctx context.Context, keys []tier.Key) (int, error) {
	return s.Tier.Has(ctx, s.keys(keys))
}

// Delete implements tier.Tier.
func (s *sealed) Delete(ctx context.Context, keys []tier.Key) error {
	return s.Tier.Delete(ctx, s.keys(keys))
}

// Clear implements tier.Tier.
func (s *sealed) Clear(ctx context.Context, root tier.Key) error {
	return s.Tier.Clear(ctx, s.key(root))
}

// lend is blocks in the tier's form, with buffers of their own until give.
func (s *sealed) lend(blocks []tier.Block) (own []tier.Block, give func()) {
	n := 0
	for i := range blocks {
		n += len(blocks[i].Bytes) + sealedMore
	}
	room := s.room.Get().(*[]byte)
	if cap(*room) < n {
		*room = make([]byte, n)
	}
	rest := (*room)[:n]
	own = make([]tier.Block, len(blocks))
	for i, b := range blocks {
		n := len(b.Bytes) + sealedMore
		own[i] = tier.Block{Key: s.key(b.Key), Parent: s.key(b.Parent), Root: s.key(b.Root), Bytes: rest[:n:n]}
		rest = rest[n:]
	}
	return own, func() { s.room.Put(room) }
}

// Put implements tier.Tier.
func (s *sealed) Put(ctx context.Context, blocks []tier.Block) error {
	own, give := s.lend(blocks)
	defer give()
	for i, b := range blocks {
		to, payload := &own[i], len(b.Bytes)
		if payload == 0 {
			to.Bytes = nil // it is declined
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		tail := to.Bytes[payload+seal.TagBytes:]
		if _, err := s.sealer.Seal(to.Bytes[:0], (*[seal.NonceBytes]byte)(tail), b.Bytes, about(b.Key, b.Sum)); err != nil {
			return err
		}
		binary.LittleEndian.PutUint32(tail[seal.NonceBytes:], b.Sum)
		to.Sum = to.Summed()
	}
	return s.Tier.Put(ctx, own)
}

// Get implements tier.Tier. A block that was not sealed with the secret under its key is tier.ErrCorrupt, and deleted from the tier.
func (s *sealed) Get(ctx context.Context, blocks []tier.Block) (int, error) {
	own, give := s.lend(blocks)
	defer give()
	n, err := s.Tier.Get(ctx, append([]tier.Block(nil), own...)) // which the tier may change
	if n < 0 || n > len(blocks) {
		return n, err
	}
	for i := range blocks[:n] {
		b, from := &blocks[i], own[i].Bytes
		payload := len(b.Bytes)
		tail := from[payload+seal.TagBytes:]
		sum := binary.LittleEndian.Uint32(tail[seal.NonceBytes:])
		if _, bad := s.sealer.Open(b.Bytes[:0], (*[seal.NonceBytes]byte)(tail), from[:payload+seal.TagBytes], about(b.Key, sum)); bad != nil {
			return i, errors.Join(tier.ErrCorrupt{Name: s.name, Key: b.Key}, s.Tier.Delete(ctx, []tier.Key{own[i].Key}))
		}
		b.Sum = sum
	}
	return n, err
}
