package serving

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvevents"
	"github.com/stretchr/testify/require"
)

// Whole blocks are announced after their parents, those of a salt while it is known, and nothing is removed that was not announced.
func TestAnnouncer(t *testing.T) {
	key := func(n byte) (k prefix.Key) {
		k[len(k)-1] = n
		return k
	}
	keys := func(n ...byte) (all []prefix.Key) {
		for _, n := range n {
			all = append(all, key(n))
		}
		return all
	}
	hashes := func(n ...uint64) (all []kvevents.Hash) {
		for _, n := range n {
			all = append(all, kvevents.Hash{Number: n})
		}
		return all
	}
	root, tenant := key(100), key(101)
	var said []kvevents.Event
	a := &announcer{engine: &Engine{log: slog.New(slog.DiscardHandler)}, block: 2, common: root, stored: map[uint64]bool{}, publish: func(e ...kvevents.Event) error {
		said = append(said, e...)
		return errors.New("nobody is there")
	}}
	stored := func(parent, root prefix.Key, tokens []uint32, n ...byte) prefix.Event {
		return prefix.Event{Kind: prefix.Stored, Keys: keys(n...), Parent: parent, Root: root, Tokens: tokens}
	}
	a.one(stored(prefix.Key{}, tenant, []uint32{1, 2}, 50)) // of a salt that nobody sent
	a.engine.salts.root = func([]byte) prefix.Key { return tenant }
	a.engine.salts.of = map[prefix.Key]string{}
	a.engine.salts.note([]byte("t"))
	a.all([]prefix.Event{
		stored(prefix.Key{}, root, []uint32{1, 2, 3, 4, 5}, 1, 2, 3), // the last block has one token
		stored(key(3), root, []uint32{6, 7}, 4),
		stored(key(2), root, []uint32{5, 6}, 5),
		stored(prefix.Key{}, root, []uint32{9}, 6),
		stored(prefix.Key{}, tenant, []uint32{1, 2, 3, 4}, 7, 8),
		{Kind: prefix.Removed, Keys: keys(3, 5, 6)},
		{Kind: prefix.Removed, Keys: keys(3)},
		{Kind: prefix.Removed, Group: 1, Keys: keys(1)},
		{Kind: prefix.Cleared},
		{Kind: prefix.Removed, Keys: keys(1)},
	})
	require.Equal(t, []kvevents.Event{
		&kvevents.Stored{Hashes: hashes(1, 2), Tokens: []uint32{1, 2, 3, 4}, BlockSize: 2, Medium: "GPU"},
		&kvevents.Stored{Hashes: hashes(5), Parent: kvevents.Hash{Number: 2}, HasParent: true, Tokens: []uint32{5, 6}, BlockSize: 2, Medium: "GPU"},
		&kvevents.Stored{Hashes: hashes(7, 8), Tokens: []uint32{1, 2, 3, 4}, BlockSize: 2, Medium: "GPU", ExtraKeys: [][]kvevents.Key{{{Text: "t"}}, nil}},
		&kvevents.Removed{Hashes: hashes(5), Medium: "GPU"},
		&kvevents.Cleared{},
	}, said)
}

// The salts of many prompts are bounded.
func TestSalts(t *testing.T) {
	var s salts
	s.note([]byte("a")) // nobody asks
	s.of, s.root = map[prefix.Key]string{}, func(salt []byte) (k prefix.Key) {
		copy(k[:], salt)
		return k
	}
	s.note(nil)
	require.Empty(t, s.of)
	for i := range 2 * maxSalts {
		s.note([]byte{byte(i), byte(i >> 8), byte(i >> 16)})
	}
	require.Len(t, s.of, maxSalts)
}
