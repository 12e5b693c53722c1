package seal

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
)

// XAES-256-GCM gives the specification's examples (C2SP).
func TestExamples(t *testing.T) {
	for _, v := range []struct {
		key                  byte
		plain, about, sealed string
	}{
		{1, "XAES-256-GCM", "", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"},
		{3, "XAES-256-GCM", "c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"},
	} {
		s, err := New(bytes.Repeat([]byte{v.key}, SecretBytes))
		require.NoError(t, err)
		nonce := [NonceBytes]byte([]byte("ABCDEFGHIJKLMNOPQRSTUVWX"))
		sealed, err := s.sealed(nil, &nonce, []byte(v.plain), []byte(v.about))
		require.NoError(t, err)
		require.Equal(t, v.sealed, hex.EncodeToString(sealed))
		plain, err := s.Open(nil, &nonce, sealed, []byte(v.about))
		require.NoError(t, err)
		require.Equal(t, v.plain, string(plain))
	}
}

// What is sealed is opened with the same secret, nonce and about, also in its own room, and with nothing else. Nonces are drawn.
func TestSealAndOpen(t *testing.T) {
	s, err := New(bytes.Repeat([]byte{5}, SecretBytes))
	require.NoError(t, err)
	plain, about := []byte("what was said"), []byte("the third")
	var nonce, second [NonceBytes]byte
	room := make([]byte, 3, 100)
	sealed, err := s.Seal(room, &nonce, plain, about)
	require.NoError(t, err)
	sealed = sealed[3:]
	require.Len(t, sealed, len(plain)+TagBytes)
	again, err := s.Seal(append([]byte(nil), plain...)[:0], &second, plain, about)
	require.NoError(t, err)
	require.NotEqual(t, nonce, second)
	require.NotEqual(t, sealed, again)
	open := func(s *Sealer, nonce [NonceBytes]byte, sealed, about []byte) ([]byte, error) {
		own := bytes.Clone(sealed)
		return s.Open(own[:0], &nonce, own, about)
	}
	got, err := open(s, nonce, sealed, about)
	require.NoError(t, err)
	require.Equal(t, plain, got)
	for i := range sealed {
		sealed[i] ^= 1
		_, err := open(s, nonce, sealed, about)
		require.Error(t, err)
		sealed[i] ^= 1
	}
	other, err := New(bytes.Repeat([]byte{6}, SecretBytes))
	require.NoError(t, err)
	for _, is := range []func() ([]byte, error){
		func() ([]byte, error) { return open(s, second, sealed, about) },
		func() ([]byte, error) { return open(s, nonce, sealed, []byte("the fourth")) },
		func() ([]byte, error) { return open(s, nonce, sealed[:len(sealed)-1], about) },
		func() ([]byte, error) { return open(s, nonce, nil, about) },
		func() ([]byte, error) { return open(other, nonce, sealed, about) },
	} {
		_, err := is()
		require.Error(t, err)
	}
}

// Secrets have one length.
func TestSecretsOfOtherLengths(t *testing.T) {
	for _, n := range []int{0, 16, 24, 31, 33, 64} {
		_, err := New(make([]byte, n))
		require.ErrorContains(t, err, "must have 32")
	}
}
