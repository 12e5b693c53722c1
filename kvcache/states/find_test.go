package states

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The nearest state has as many tokens in common as any, and is whole where one of these is.
func TestNearestOfAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.SliceOfN(rapid.Uint32Range(0, 2), 0, 6)
		x := index{}
		for i := range rapid.IntRange(0, 12).Draw(t, "states") {
			x.add(&state{Info: Info{Key: Key{Name: strconv.Itoa(i), Tokens: draw.Draw(t, "tokens")}}})
		}
		list := slices.Clone(x[Identity{}])
		if n := len(list); n > 0 { // one has gone
			gone := list[rapid.IntRange(0, n-1).Draw(t, "gone")]
			x.remove(gone)
			list = slices.DeleteFunc(list, func(s *state) bool { return s == gone })
		}
		prompt := draw.Draw(t, "prompt")
		most, whole, wholeIn := 0, 0, false
		for _, s := range list {
			n := common(s.Key.Tokens, prompt)
			if n == len(s.Key.Tokens) {
				whole = max(whole, n)
			}
			if n > most {
				most, wholeIn = n, false
			}
			wholeIn = wholeIn || n == most && n == len(s.Key.Tokens)
		}
		s, n := nearest(x[Identity{}], prompt)
		require.Equal(t, most, n)
		require.Equal(t, most > 0, s != nil)
		if s != nil {
			require.Equal(t, most, common(s.Key.Tokens, prompt))
			require.Equal(t, wholeIn, len(s.Key.Tokens) == most)
		}
		s, n = nearestWhole(x[Identity{}], prompt)
		require.Equal(t, whole, n)
		if s != nil {
			require.Equal(t, prompt[:n], s.Key.Tokens)
		}
		require.Equal(t, whole > 0, s != nil)
	})
}

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
