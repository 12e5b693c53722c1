package states

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Of fifty conversations that share a system prompt the right one is found, also by the next process.
func TestNearestOfFifty(t *testing.T) {
	s := open(t, t.TempDir()+"/d", Options{})
	system := tokens(1, 300)
	var ids []ID
	for i := range 50 {
		k := Key{Identity: llama, Tokens: slices.Concat(system, tokens(uint64(100+i), 40+i))}
		ids = append(ids, put(t, s, k, noise(uint64(i), 500)).ID)
	}
	s = reopen(t, s, Options{})
	for i, id := range ids {
		prompt := slices.Concat(system, tokens(uint64(100+i), 40+i), tokens(7, 20))
		got, n, err := s.Nearest(llama, prompt)
		require.NoError(t, err)
		require.Equal(t, id, got.ID)
		require.Equal(t, 340+i, n)
		got, n, err = s.NearestWhole(llama, prompt)
		require.NoError(t, err)
		require.Equal(t, id, got.ID)
		require.Equal(t, 340+i, n)
	}
	got, n, err := s.Nearest(llama, slices.Concat(system, []uint32{1 << 20}))
	require.NoError(t, err)
	require.Equal(t, 300, n)
	require.Greater(t, len(got.Key.Tokens), 300)
	_, _, err = s.NearestWhole(llama, slices.Concat(system, []uint32{1 << 20}))
	require.ErrorIs(t, err, ErrMiss{})
	_, _, err = s.Nearest(llama, []uint32{1 << 20})
	require.Equal(t, ErrMiss{}, err)
}

// What another engine, model or setting has made is a miss that names the field. What another salt has is not told.
func TestMissNamesField(t *testing.T) {
	s := open(t, t.TempDir()+"/d", Options{})
	k := Key{Identity: llama, Name: "chat", Tokens: tokens(1, 10)}
	put(t, s, k, noise(1, 100))
	for field, change := range map[string]func(*Identity) *string{
		"model": func(i *Identity) *string { return &i.Model }, "engine": func(i *Identity) *string { return &i.Engine },
		"version": func(i *Identity) *string { return &i.Version }, "settings": func(i *Identity) *string { return &i.Settings },
		"adapter": func(i *Identity) *string { return &i.Adapter }, "": func(i *Identity) *string { return &i.Salt },
	} {
		other := k
		have := *change(&other.Identity)
		*change(&other.Identity) = "other"
		want := ErrMiss{field, have, "other"}
		if field == "" {
			want = ErrMiss{}
		}
		_, err := s.Find(other)
		require.Equal(t, want, err)
		_, _, err = s.Nearest(other.Identity, tokens(1, 5))
		require.Equal(t, want, err)
		require.ErrorIs(t, err, ErrMiss{})
		require.ErrorContains(t, err, field)
	}
	k.Name = "other"
	_, err := s.Find(k)
	require.Equal(t, ErrMiss{}, err)
	require.Equal(t, uint64(13), s.Stats().Missed)
}

// Nobody can make two keys that are one state, by moving bytes from one field to the next.
func TestKeysDiffer(t *testing.T) {
	seen := map[ID]bool{}
	for _, k := range []Key{
		{}, {Name: "a"}, {Identity: Identity{Model: "a"}}, {Identity: Identity{Salt: "a"}}, {Identity: Identity{Adapter: "a"}}, {Identity: Identity{Model: "ab"}},
		{Identity: Identity{Model: "a", Engine: "b"}}, {Tokens: []uint32{0}}, {Tokens: []uint32{0, 0}}, {Name: "\x00"}, {Name: "\x01"}, {Tokens: []uint32{1}},
	} {
		id := namer{}.id(&k)
		require.False(t, seen[id])
		seen[id] = true
		id = namer{secret}.id(&k)
		require.False(t, seen[id])
		seen[id] = true
	}
}
